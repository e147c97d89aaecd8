/* SPDX-License-Identifier: MIT */
/* Hashes, and random numbers made of one.  The command uses them too. */
#ifndef SLUB_BASE_HASH_H
#define SLUB_BASE_HASH_H

#include <stdint.h>

/* 2^64 by the golden ratio: the upper bits of a product are a hash. */
#define HASH_MULTIPLIER 0x9e3779b97f4a7c15ull

/* splitmix64: one atomic addition, then a hash of the sum; not for secrets. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t x = __atomic_add_fetch(state, HASH_MULTIPLIER,
					__ATOMIC_RELAXED);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* That of a name in the table DT_GNU_HASH of an ELF file. */
static inline uint32_t hash_gnu(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

#endif
