/* SPDX-License-Identifier: MIT */
/* The structure of a cache that has ended, before its next life. */
#ifndef SLUB_TESTS_UNIT_STRUCTURE_H
#define SLUB_TESTS_UNIT_STRUCTURE_H

#include <vector>

#include "slub.h"

/* Takes that of @dead, among those of others: it is cleared, and goes by cache_struct_free(). */
inline void take_structure(struct slub_cache *dead)
{
	std::vector<struct slub_cache *> others;
	struct slub_cache *cache;

	while ((cache = cache_struct_alloc()) != dead)
		others.push_back(cache);
	for (struct slub_cache *other : others)
		cache_struct_free(other);
}

#endif
