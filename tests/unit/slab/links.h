/* SPDX-License-Identifier: MIT */
/* Links of free objects, which the hardened build encodes; chain_set_next() writes them. */
#ifndef SLUB_TESTS_UNIT_LINKS_H
#define SLUB_TESTS_UNIT_LINKS_H

#include "slub.h"

/* As chain_next(), but nothing is checked, reported or mended. */
inline void *link_next(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);

	return chain_is_encoded(cache) ?
		       (void *)link_decode(cache->list_slot, place, *place) : *place;
}

#endif
