/* SPDX-License-Identifier: MIT */
/*
 * Objects that the loader has loaded, and the names that each defines, read as dlsym() does but
 * without the library that had it before glibc 2.34.  Nothing allocates.  Whoever walks over them
 * (dl_iterate_phdr) takes a lock of the loader, so no caller holds one of the library's.
 *
 * The command uses this file too.
 */
#ifndef SLUB_OS_LOADED_H
#define SLUB_OS_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* What the dynamic section of one says. */
struct object {
	uintptr_t base;
	const ElfW(Dyn) *dynamic;
	const ElfW(Sym) *symbols;
	const char *strings;
	const uint16_t *versions;	/* DT_VERSYM; NULL: its names have none */
	const uint32_t *gnu_hash;	/* DT_GNU_HASH */
	const uint32_t *hash;		/* DT_HASH; one of both is there */
};

/* false: nothing can be looked up in it. */
bool object_read(struct object *object, const struct dl_phdr_info *info);
/* Is @place one of its addresses? */
bool object_holds(const struct dl_phdr_info *info, const void *place);
/* The function or variable @name that it defines, in the version for new programs, or NULL. */
void *object_symbol(const struct object *object, const char *name);
/*
 * The first that a loaded object defines, in the loader's order; with @behind, of the objects
 * behind the one that holds this address alone.
 */
void *loaded_symbol(const char *name, const void *behind);

#endif
