/* SPDX-License-Identifier: MIT */
/*
 * Memory for a signal handler that interrupted this very thread while it held a lock of the
 * library.  Such a handler may take no lock at all, so each of its blocks is a mapping of its
 * own, named by a table that changes by single compare-exchanges: async-signal-safe, and safe
 * between threads.  When the table is full the handler's malloc fails with ENOMEM.
 *
 * The same for a request that finds no memory because the program has mapped the addresses that the
 * heap would grow to: what is free lies elsewhere then, and in pieces (superblock_is_walled_in()).
 *
 * The blocks lie outside the heap, so the page map does not know them (outside.c).
 */
#include "core/malloc/malloc.h"

#define ENTRIES 1024

static struct mapping {
	_Atomic uintptr_t start;	/* 0: free; 1: being made or undone */
	size_t bytes;
} mappings[ENTRIES] rarely_touched;
static _Atomic uint32_t nr_mappings;

static struct mapping *mapping_claim(void)
{
	for (int i = 0; i < ENTRIES; i++) {
		uintptr_t none = 0;

		if (__atomic_compare_exchange_n(&mappings[i].start, &none, 1,
						false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return &mappings[i];
	}
	return NULL;
}

static struct mapping *mapping_find(const void *ptr)
{
	if (likely(!__atomic_load_n(&nr_mappings, __ATOMIC_RELAXED)) ||
	    (uintptr_t)ptr <= 1)
		return NULL;
	for (int i = 0; i < ENTRIES; i++) {
		if (__atomic_load_n(&mappings[i].start, __ATOMIC_ACQUIRE) ==
		    (uintptr_t)ptr)
			return &mappings[i];
	}
	return NULL;
}

/* @bytes at a multiple of @align, both whole pages; NULL: no memory. */
static char *map_aligned(size_t bytes, size_t align)
{
	size_t more = align - os_page_size();
	char *base = os_map(bytes + more), *start;

	if (!base || !more)
		return base;
	start = (char *)round_up((uintptr_t)base, align);
	os_unreserve(base, (size_t)(start - base));
	os_unreserve(start + bytes, more - (size_t)(start - base));
	return start;
}

void *handler_alloc(size_t bytes, size_t align)
{
	bool is_possible = bytes <= PTRDIFF_MAX && !page_system_refuses(bytes);
	struct mapping *m = is_possible ? mapping_claim() : NULL;
	char *start;

	if (!m)
		return NULL;
	m->bytes = round_up(max_size(bytes, 1), os_page_size());
	start = map_aligned(m->bytes, max_size(align, os_page_size()));
	if (start)
		__atomic_fetch_add(&nr_mappings, 1, __ATOMIC_RELAXED);
	/* release: pairs with the acquire in mapping_find() and mapping_claim() */
	__atomic_store_n(&m->start, (uintptr_t)start, __ATOMIC_RELEASE);
	return start;
}

bool emergency_free(void *ptr)
{
	struct mapping *m = mapping_find(ptr);

	if (!m)
		return false;
	__atomic_store_n(&m->start, 1, __ATOMIC_RELAXED);
	os_unreserve(ptr, m->bytes);
	__atomic_fetch_sub(&nr_mappings, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&m->start, 0, __ATOMIC_RELEASE);
	return true;
}

size_t emergency_bytes(const void *ptr)
{
	struct mapping *m = mapping_find(ptr);

	return m ? m->bytes : 0;
}
