/* SPDX-License-Identifier: MIT */
/* What gives memory back, without a bound on the calls. */
#ifndef SLUB_TESTS_UNIT_PAGE_GIVING_H
#define SLUB_TESTS_UNIT_PAGE_GIVING_H

#include "slub.h"

template <typename what, typename... of> void purge_by(what *call, of... with)
{
	struct purge purge;

	purge_begin(&purge, false);
	call(with..., &purge);
}

inline void purge_superblocks(size_t pages)
{
	purge_by(superblock_purge, pages);
}

inline void purge_descriptors()
{
	purge_by(superblock_purge_descriptors, (size_t)0);
}

inline void purge_zones(size_t pages)
{
	purge_by(zone_purge, pages);
}

#endif
