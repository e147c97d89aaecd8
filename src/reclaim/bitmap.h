/* SPDX-License-Identifier: MIT */
/*
 * 65,536 bits with a summary: a walk looks at what is set, not at 65,536.
 *
 * Bits are set and cleared without a lock.  A word's bit in the summary may be
 * set while the word is empty; the other way round only for as long as
 * somebody is in the middle of bits_set() or bits_tidy().
 */
#ifndef SLUB_RECLAIM_BITMAP_H
#define SLUB_RECLAIM_BITMAP_H

#include "base/base.h"

#define BITS_NR 65536u
#define BITS_WORDS (BITS_NR / 64)

struct bits {
	uint64_t summary[BITS_WORDS / 64];
	uint64_t words[BITS_WORDS];
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

static inline void bits_set(struct bits *bits, uint32_t n)
{
	bit_set(bits->words, n);
	bit_set(bits->summary, n / 64);
}

/* Word @word may have become empty. */
static inline void bits_tidy(struct bits *bits, uint32_t word)
{
	if (__atomic_load_n(&bits->words[word], __ATOMIC_SEQ_CST) ||
	    !bit_is_set(bits->summary, word))
		return;
	bit_clear(bits->summary, word);
	if (__atomic_load_n(&bits->words[word], __ATOMIC_SEQ_CST))
		bit_set(bits->summary, word);
}

static inline void bits_clear(struct bits *bits, uint32_t n)
{
	bit_clear(bits->words, n);
	bits_tidy(bits, n / 64);
}

/* The first bit at @n or behind it; BITS_NR: none. */
static inline uint32_t bits_next(const struct bits *bits, uint32_t n)
{
	uint32_t word = n / 64;
	uint64_t rest;

	if (n >= BITS_NR)
		return BITS_NR;
	rest = __atomic_load_n(&bits->words[word], __ATOMIC_RELAXED) >> n % 64;
	if (rest)
		return n + (uint32_t)__builtin_ctzll(rest);
	for (word++; word < BITS_WORDS; word++) {
		rest = __atomic_load_n(&bits->summary[word / 64],
				       __ATOMIC_RELAXED) >> word % 64;
		if (!rest) {
			word |= 63;
			continue;
		}
		word += (uint32_t)__builtin_ctzll(rest);
		rest = __atomic_load_n(&bits->words[word], __ATOMIC_RELAXED);
		if (rest)
			return word * 64 + (uint32_t)__builtin_ctzll(rest);
	}
	return BITS_NR;
}

/* The first bit at @n or behind it that is not set, of @end. */
static inline uint32_t bits_next_clear(const struct bits *bits, uint32_t n,
				       uint32_t end)
{
	while (n < end) {
		uint64_t rest = ~bits->words[n / 64] >> n % 64;

		if (rest) {
			n += (uint32_t)__builtin_ctzll(rest);
			return n < end ? n : end;
		}
		n = (n / 64 + 1) * 64;
	}
	return end;
}

static inline bool bits_are_clear(const struct bits *bits)
{
	for (uint32_t i = 0; i < BITS_WORDS / 64; i++) {
		if (__atomic_load_n(&bits->summary[i], __ATOMIC_RELAXED))
			return false;
	}
	return true;
}

#endif
