/* SPDX-License-Identifier: MIT */
/* The mappings of this process, by /proc/self/maps; nothing is allocated, no lock taken. */
#ifndef SLUB_MAPS_H
#define SLUB_MAPS_H

#include "core/page/page.h"

struct mapping {
	uintptr_t start, end;
	bool is_readable, is_code;
	/* Is the address of an ELF file, variables included?  Then by so much it is relocated. */
	bool is_image;
	uintptr_t bias;
	uintptr_t image;	/* where its first byte lies */
	/* The file's, or "[stack]"; empty: none, or cut off. */
	char name[512];
};

/* The hexadecimal number at *@s, which is moved behind it; 0: there is none. */
uintptr_t hex_read(const char **s);

/* Finds the mapping of @address; 0: there is none, below: that is not known. */
int maps_find(uintptr_t address, struct mapping *found);

#endif
