/* SPDX-License-Identifier: MIT */
/*
 * What malloc() and free() look up before their sequences: the slot for a size, the entry of the
 * map for a pointer, and the base that the sequences use.  That is the table of areas itself: a
 * thread that must not use it has limits of 0, and was turned away before.
 *
 * On x86-64 all of it follows from the addresses of two tables.  On aarch64, where no address is
 * part of an instruction, each thread has the addresses next to its limits, and loads pairs.
 */
#ifndef SLUB_FRONT_H
#define SLUB_FRONT_H

#include "core/malloc/malloc.h"
#include "core/slab/key.h"

#if SLUB_CPU_AARCH64

struct front {
	void **base;
	char *rseq;
	char *cid;
	uintptr_t sizes;
	uintptr_t start;
	uintptr_t map;
};

/* Two words by one load: the compilers do not put loads together across a branch. */
static always_inline unsigned __int128 front_pair(const void *first)
{
	return *(const unsigned __int128 *)__builtin_assume_aligned(first, 16);
}

static always_inline uintptr_t front_second(const void *first)
{
	return (uintptr_t)(front_pair(first) >> 64);
}

static always_inline size_t front_malloc_limit(void)
{
	return (size_t)front_pair(&slub_thread.malloc_limit);
}

static always_inline size_t front_free_limit(void)
{
	return (size_t)front_pair(&slub_thread.free_limit);
}

/* Keeps clang from doubling the number first: the load's address does that. */
static always_inline size_t front_index(size_t index)
{
	__asm__("" : "+r"(index));
	return index;
}

/* What both need. */
static always_inline struct front front_entrance(void)
{
	unsigned __int128 entrance = front_pair(&slub_thread.front_rseq);

	return (struct front){
		.base = slub_thread.front_base,
		.rseq = (char *)(uintptr_t)entrance,
		.cid = (char *)(uintptr_t)(entrance >> 64),
	};
}

static always_inline struct front front_sizes(void)
{
	struct front front = front_entrance();

	front.sizes = front_second(&slub_thread.malloc_limit);
	return front;
}

static always_inline uintptr_t front_slot(struct front front, size_t bytes)
{
	return ((const uint16_t *)front.sizes)[front_index(size_index(bytes))];
}

static always_inline struct front front_map(void)
{
	struct front front = front_entrance();

	front.start = front_second(&slub_thread.free_limit);
	front.base = (void **)(uintptr_t)front_pair(&slub_thread.front_base);
	front.map = front_second(&slub_thread.front_base);
	return front;
}

static always_inline size_t front_place(struct front front, const void *ptr)
{
	uintptr_t at = (uintptr_t)ptr - front.start;

	return at >> PAGE_SHIFT;
}

static always_inline uintptr_t front_entry(struct front front, size_t place)
{
	return ((const uint16_t *)front.map)[front_index(place)];
}

/* Before this thread gets its limits. */
static inline void front_fill(void)
{
	char *start = (char *)slub_map_bases - TABLE_GAP;

	slub_thread.front_sizes = (uintptr_t)percpu_table.slots;
	slub_thread.front_start = (uintptr_t)start;
	slub_thread.front_base = slub_map_bases;
	slub_thread.front_map = (uintptr_t)((uint16_t *)(start + MAP_FRONT_BYTES) -
					    MAP_FRONT_PAGES);
	slub_thread.front_rseq = slub_thread_pointer() + slub_rseq_offset();
	slub_thread.front_cid = slub_thread_pointer() + slub_cid_offset();
	compiler_barrier();
}

#else

struct front {
	void **base;
};

static always_inline size_t front_malloc_limit(void)
{
	return slub_thread.malloc_limit;
}

static always_inline size_t front_free_limit(void)
{
	return slub_thread.free_limit;
}

/* For malloc(): in a register, or the compiler would compute two addresses. */
static always_inline struct front front_sizes(void)
{
	struct front front = { slub_cpu_base };

	__asm__("" : "+r"(front.base));
	return front;
}

static always_inline uintptr_t front_slot(struct front front, size_t bytes)
{
	const uint16_t *slots = (const uint16_t *)(front.base - TABLE_NONE) -
				TABLE_SIZES;

	return slots[size_index(bytes)];
}

/* For free(): the copy of the table that lies before the page map. */
static always_inline struct front front_map(void)
{
	return (struct front){ slub_map_bases };
}

/* The page of @ptr, counted from the start of the table before the map. */
static always_inline size_t front_place(struct front front, const void *ptr)
{
	uintptr_t at = (uintptr_t)ptr + TABLE_GAP;

	/* Makes the compiler use one instruction, and not two in sequence. */
	__asm__("" : "+r"(at));
	at -= (uintptr_t)front.base;
	return at >> PAGE_SHIFT;
}

/* Read before everything else. */
static always_inline uintptr_t front_entry(struct front front, size_t place)
{
	const uint16_t *map = (const uint16_t *)((char *)front.base - TABLE_GAP +
						 MAP_FRONT_BYTES);
	uintptr_t entry = map[place - MAP_FRONT_PAGES];

	compiler_barrier();
	return entry;
}

static inline void front_fill(void)
{
}

#endif

/* Does an object begin at @ptr, if it lies in a slab of the cache with slot @slot? */
static always_inline bool front_is_start(struct front front, uintptr_t slot, const void *ptr)
{
	uint64_t check;
	uint32_t at, magic;

	/* By one load, for a pair waits for its loads; of a far slot's entry at any byte. */
	__builtin_memcpy(&check, (const char *)front.base + START_CHECKS + slot, sizeof(check));
	at = (uint32_t)(uintptr_t)ptr & (uint32_t)check;
	magic = (uint32_t)(check >> 32);
	return at * magic < magic;
}

#endif
