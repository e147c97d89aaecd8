/* SPDX-License-Identifier: MIT */
/* 65,536 bits, set and cleared without a lock; a search ends at the highest number in use. */
#ifndef SLUB_RECLAIM_BITMAP_H
#define SLUB_RECLAIM_BITMAP_H

#include "core/base/base.h"

#define BITS_NR 65536u

struct bits {
	uint64_t words[BITS_NR / 64];
};

static inline uint64_t bit_of(uint32_t n)
{
	return 1ull << n % 64;
}

static inline bool bit_is_set(const uint64_t *words, uint32_t n)
{
	return __atomic_load_n(&words[n / 64], __ATOMIC_RELAXED) & bit_of(n);
}

/*
 * seq_cst, as all changes of these bits: a thread that clears a bit looks afterwards at
 * what it stands for, and one that sets it has changed that before.
 */
static inline void bit_set(uint64_t *words, uint32_t n)
{
	if (!bit_is_set(words, n))
		__atomic_fetch_or(&words[n / 64], bit_of(n), __ATOMIC_SEQ_CST);
}

static inline void bit_clear(uint64_t *words, uint32_t n)
{
	__atomic_fetch_and(&words[n / 64], ~bit_of(n), __ATOMIC_SEQ_CST);
}

/* The first bit in [@n, @end) that @is_set or is clear; @end: none. */
static inline uint32_t bits_next(const struct bits *bits, uint32_t n,
				 uint32_t end, bool is_set)
{
	while (n < end) {
		uint64_t word = __atomic_load_n(&bits->words[n / 64],
						__ATOMIC_RELAXED);
		uint64_t rest = (is_set ? word : ~word) >> n % 64;

		if (rest) {
			n += (uint32_t)__builtin_ctzll(rest);
			return n < end ? n : end;
		}
		n = (n / 64 + 1) * 64;
	}
	return end;
}

#endif
