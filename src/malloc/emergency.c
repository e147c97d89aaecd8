/* SPDX-License-Identifier: MIT */
/*
 * The emergency pool: memory for a signal handler that interrupted this very
 * thread while it held a lock of the library.  Such a handler may take no lock
 * at all, so this is two arenas of granules with a bitmap, changed by single
 * compare-exchanges: async-signal-safe, and safe between threads.
 *
 *   small  granules of 64 bytes, blocks up to 4 KiB
 *   big    granules of 4 KiB, blocks up to 256 KiB
 *
 * A block is a run of bits within one 64-bit word; the byte beside its first
 * granule holds its length.  Both arenas lie in one superblock and touch no
 * memory until they are used.  What does not fit gets a mapping of its own
 * (emergency_map.c); when those are used up too, the handler's malloc fails with
 * ENOMEM.
 */
#include "malloc/malloc.h"

#define WORD_BITS 64
#define SMALL_SHIFT 6
#define SMALL_WORDS 64
#define BIG_SHIFT 12
#define BIG_WORDS 7

struct arena {
	char *start;
	uint32_t shift;		/* granule size */
	uint32_t nr_words;
	_Atomic uint64_t *used;
	uint8_t *lengths;	/* granules of the block that starts here */
};

static _Atomic uint64_t small_used[SMALL_WORDS] rarely_touched;
static uint8_t small_lengths[SMALL_WORDS * WORD_BITS] rarely_touched;
static _Atomic uint64_t big_used[BIG_WORDS] rarely_touched;
static uint8_t big_lengths[BIG_WORDS * WORD_BITS] rarely_touched;

static struct arena small = { NULL, SMALL_SHIFT, SMALL_WORDS, small_used,
			      small_lengths };
static struct arena big = { NULL, BIG_SHIFT, BIG_WORDS, big_used,
			    big_lengths };

static size_t arena_bytes(const struct arena *arena)
{
	return ((size_t)arena->nr_words * WORD_BITS) << arena->shift;
}

usual int emergency_init(void)
{
	bool is_zero;
	char *start = superblock_alloc(1, 1, 0, true, &is_zero);

	if (!start)
		return -12;	/* ENOMEM */
	big.start = start;
	small.start = start + arena_bytes(&big);
	pagemap_set(start, (arena_bytes(&big) + arena_bytes(&small)) /
			   PAGE_BYTES, MAP_EMERGENCY);
	return 0;
}

_Static_assert((BIG_WORDS * WORD_BITS << BIG_SHIFT) +
	       (SMALL_WORDS * WORD_BITS << SMALL_SHIFT) <=
	       1 << SUPERBLOCK_SHIFT, "both arenas fit a superblock");

/* The bits of a run of @n from bit @at. */
static uint64_t run_mask(uint32_t n, uint32_t at)
{
	uint64_t ones = n == WORD_BITS ? ~0ull : (1ull << n) - 1;

	return ones << at;
}

/* Where @n clear bits in a row start; WORD_BITS: nowhere. */
static uint32_t find_run(uint64_t used, uint32_t n)
{
	for (uint32_t at = 0; at + n <= WORD_BITS; at++) {
		if (!(used & run_mask(n, at)))
			return at;
	}
	return WORD_BITS;
}

static void *arena_alloc(struct arena *arena, uint32_t n)
{
	for (uint32_t w = 0; w < arena->nr_words; w++) {
		uint64_t used = __atomic_load_n(&arena->used[w],
						__ATOMIC_RELAXED);
		uint32_t at;

		while ((at = find_run(used, n)) < WORD_BITS) {
			/* acquire: pairs with the release in arena_free() */
			if (!__atomic_compare_exchange_n(
				    &arena->used[w], &used,
				    used | run_mask(n, at), false,
				    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				continue;
			arena->lengths[w * WORD_BITS + at] = (uint8_t)n;
			return arena->start +
			       ((size_t)(w * WORD_BITS + at) << arena->shift);
		}
	}
	return NULL;
}

void *emergency_alloc(size_t bytes, size_t align)
{
	struct arena *arena = &small;
	size_t n;

	/* Also so that rounding up cannot wrap. */
	if (bytes > (size_t)WORD_BITS << BIG_SHIFT)
		return NULL;
	if (bytes > (size_t)WORD_BITS << SMALL_SHIFT ||
	    align > (size_t)1 << SMALL_SHIFT)
		arena = &big;
	if (!arena->start || align > (size_t)1 << arena->shift)
		return NULL;
	n = max_size((bytes + ((size_t)1 << arena->shift) - 1) >> arena->shift,
		     1);
	slub_assert(n <= WORD_BITS);
	return arena_alloc(arena, (uint32_t)n);
}

static struct arena *arena_of(const void *ptr)
{
	return (const char *)ptr < small.start ? &big : &small;
}

static size_t granule_of(const struct arena *arena, const void *ptr)
{
	return (size_t)((const char *)ptr - arena->start) >> arena->shift;
}

void emergency_free(void *ptr)
{
	struct arena *arena = arena_of(ptr);
	size_t granule = granule_of(arena, ptr);
	uint32_t n = arena->lengths[granule];

	if (!n)		/* not the start of a block */
		return;
	arena->lengths[granule] = 0;
	__atomic_fetch_and(&arena->used[granule / WORD_BITS],
			   ~run_mask(n, granule % WORD_BITS),
			   __ATOMIC_RELEASE);
}

size_t emergency_bytes(const void *ptr)
{
	struct arena *arena = arena_of(ptr);

	return (size_t)arena->lengths[granule_of(arena, ptr)] << arena->shift;
}

void *handler_alloc(size_t bytes, size_t align)
{
	void *ptr = emergency_alloc(bytes, align);

	return ptr ? ptr : emergency_map(bytes, align);
}
