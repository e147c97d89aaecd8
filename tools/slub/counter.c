/* SPDX-License-Identifier: MIT */
/* What is counted of a cache. */
#include "counter.h"

const struct counter counters[] = {
#define COUNTER(name, meaning, kind, one, other) \
	{ #name, meaning, COUNTER_##kind, SLUB_ABI_STAT_##one, SLUB_ABI_STAT_##other },
#include "core/slab/stat.def"
};

const size_t nr_counters = sizeof(counters) / sizeof(counters[0]);

bool counter_is_there(const struct snapshot *snapshot,
		      const struct counter *counter)
{
	return snapshot_counts(snapshot, counter->one) &&
	       (counter->kind == COUNTER_IS || snapshot_counts(snapshot, counter->other));
}

uint64_t counter_value(const struct counter *counter, const struct cache_view *cache)
{
	return counter_number(counter->kind, cache->stats[counter->one],
			      cache->stats[counter->other]);
}
