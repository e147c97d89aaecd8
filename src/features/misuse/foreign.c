/* SPDX-License-Identifier: MIT */
/*
 * A pointer that this library has not handed out: what lies there?
 *
 * Nobody's block lies where nothing is mapped or can be read, on a stack, in a program or
 * library (its variables too), or in this library's own range.  Elsewhere there may be
 * one that was allocated before this library came (by the dynamic linker, or from the C
 * library's heap), or by another allocator in the process: that is not known to be wrong.
 */
#include <string.h>

#include "features/debug/debug.h"
#include "features/misuse/maps.h"
#include "features/misuse/misuse.h"

/* No mapping is there: mmap_min_addr, and what no address of a program has. */
#define NULL_BYTES ((uintptr_t)64 << 10)
#if defined(__x86_64__)
#define ADDRESS_BITS 47
#elif defined(__aarch64__)
#define ADDRESS_BITS 52
#else
#define ADDRESS_BITS 63
#endif
/* Pointers that may be another allocator's: then it costs too much to look again. */
#define LOOKS_MAX 1000

static const char *where_is(const void *ptr)
{
	static _Atomic uint32_t nr_looks;
	struct mapping found;
	int is_there;

	if ((uintptr_t)ptr < NULL_BYTES || (uintptr_t)ptr >> ADDRESS_BITS)
		return "no address";
	if (pagemap_owns(ptr))
		return "in the heap";
	if (stack_has(ptr))
		return "on a stack";
	if (__atomic_load_n(&nr_looks, __ATOMIC_RELAXED) >= LOOKS_MAX)
		return NULL;
	is_there = maps_find((uintptr_t)ptr, &found);
	if (is_there <= 0)
		return is_there ? NULL : "where nothing is mapped";
	if (found.is_image)
		return "in a program or library";
	if (strcmp(found.name, "[stack]") == 0)
		return "on a stack";
	if (strncmp(found.name, "[v", 2) == 0)
		return "in the kernel's page";
	if (!found.is_readable)
		return "where nobody may read";
	__atomic_fetch_add(&nr_looks, 1, __ATOMIC_RELAXED);
	return NULL;
}

bool foreign_found(const char *call, const void *ptr)
{
	const char *where;

	/* A large block is one, though no cache's. */
	if (!SLUB_CONFIG_CHECKS || (pagemap_get(ptr) == MAP_LARGE &&
				    !((uintptr_t)ptr % PAGE_BYTES)))
		return false;
	where = where_is(ptr);
	if (where)
		misuse_found(pagemap_get(ptr) == MAP_LARGE ? MISUSE_INSIDE :
							     MISUSE_NO_BLOCK,
			     call, ptr, where);
	return where;
}
