/* SPDX-License-Identifier: MIT */
/*
 * Which function of its file an address lies in, by the file's table of symbols.
 *
 * For lines that are written in a signal handler, with locks held, in a process that is damaged:
 * nothing is allocated, and no call is made that maps_find() or a growing heap does not make.
 * The file is mapped in pieces and read as memory that may be gone, so one that is cut short
 * meanwhile, or was damaged or made to do harm, gives no name or a wrong one, and nothing worse.
 */
#ifndef SLUB_SYMBOL_H
#define SLUB_SYMBOL_H

#include "features/misuse/maps.h"

#define SYMBOL_NAME_BYTES 128

struct symbol {
	char name[SYMBOL_NAME_BYTES];	/* the linker's; a long one ends in "..." */
	uintptr_t offset;		/* of the address, from where the function begins */
};

/*
 * The function that the call before @address, which lies in @file, was made in.  False: the file
 * has no such symbol, cannot be read, or is another one by now.  By one thread at a time.
 */
bool symbol_find(struct symbol *found, const struct mapping *file, uintptr_t address);
/* From now on as many symbols may be looked at again as one report is worth. */
void symbols_begin(void);

#endif
