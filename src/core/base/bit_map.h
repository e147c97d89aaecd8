/* SPDX-License-Identifier: MIT */
/* Maps of bits that one lock protects. */
#ifndef SLUB_BASE_BIT_MAP_H
#define SLUB_BASE_BIT_MAP_H

#include "core/base/bits.h"

static inline void bit_map_set(uint64_t *map, size_t index, bool is_set)
{
	uint64_t bit = (uint64_t)1 << index % 64;

	map[index / 64] = is_set ? map[index / 64] | bit : map[index / 64] & ~bit;
}

/* The first bit from @index on that is as asked; @end: there is none below. */
static inline size_t bit_map_next(const uint64_t *map, size_t index, size_t end, bool is_set)
{
	while (index < end) {
		uint64_t word = (is_set ? map[index / 64] : ~map[index / 64]) >> index % 64;

		if (word)
			return min_size(index + (size_t)__builtin_ctzll(word), end);
		index = round_down(index, 64) + 64;
	}
	return end;
}

/* One past the last bit below @end that is set; 0: there is none. */
static inline size_t bit_map_end(const uint64_t *map, size_t end)
{
	while (end > 0) {
		uint64_t word = map[(end - 1) / 64] << (63 - (end - 1) % 64);

		if (word)
			return end - (size_t)__builtin_clzll(word);
		end = round_down(end - 1, 64);
	}
	return 0;
}

#endif
