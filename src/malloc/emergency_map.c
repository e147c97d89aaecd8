/* SPDX-License-Identifier: MIT */
/*
 * Mappings for requests of such a signal handler that the emergency pool is too
 * small for.  They lie outside the range, so free() takes them for
 * foreign at first; a table of a few entries, changed by single
 * compare-exchanges, knows better.
 */
#include "malloc/malloc.h"

#define ENTRIES 64

struct mapping {
	_Atomic uintptr_t start;	/* 0: free; 1: being made or undone */
	size_t bytes;
	void *base;			/* of the mapping */
	size_t base_bytes;
};

static struct mapping mappings[ENTRIES] rarely_touched;
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

void *emergency_map(size_t bytes, size_t align)
{
	struct mapping *m = mapping_claim();
	char *base;

	if (!m)
		return NULL;
	align = max_size(align, os_page_size());
	m->bytes = round_up(max_size(bytes, 1), os_page_size());
	m->base_bytes = m->bytes + align;
	base = m->base_bytes > bytes ? os_map(m->base_bytes) : NULL;
	if (!base) {
		__atomic_store_n(&m->start, 0, __ATOMIC_RELEASE);
		return NULL;
	}
	m->base = base;
	__atomic_fetch_add(&nr_mappings, 1, __ATOMIC_RELAXED);
	/* release: pairs with the acquire in mapping_find() */
	__atomic_store_n(&m->start, round_up((uintptr_t)base, align),
			 __ATOMIC_RELEASE);
	return (void *)round_up((uintptr_t)base, align);
}

bool emergency_unmap(void *ptr)
{
	struct mapping *m = mapping_find(ptr);

	if (!m)
		return false;
	__atomic_store_n(&m->start, 1, __ATOMIC_RELAXED);
	os_unreserve(m->base, m->base_bytes);
	__atomic_fetch_sub(&nr_mappings, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&m->start, 0, __ATOMIC_RELEASE);
	return true;
}

size_t emergency_map_bytes(const void *ptr)
{
	struct mapping *m = mapping_find(ptr);

	return m ? m->bytes : 0;
}
