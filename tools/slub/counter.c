/* SPDX-License-Identifier: MIT */
/* What is counted of a cache. */
#include "counter.h"

const struct counter counters[] = {
#define COUNTER(name, meaning, kind, one, other) \
	{ #name, meaning, COUNTER_##kind, SLUB_ABI_STAT_##one, SLUB_ABI_STAT_##other },
#include "slab/stat.def"
};

const size_t nr_counters = sizeof(counters) / sizeof(counters[0]);

bool counter_is_there(const struct snapshot *snapshot,
		      const struct counter *counter)
{
	switch (counter->kind) {
	case COUNTER_PLUS:
	case COUNTER_MINUS:
		if (!snapshot_counts(snapshot, counter->other))
			return false;
		/* fall through */
	case COUNTER_IS:
		return snapshot_counts(snapshot, counter->one);
	case COUNTER_NEVER:
	case COUNTER_UNKNOWN:
		break;
	}
	return true;
}

bool counter_value(const struct counter *counter,
		   const struct cache_view *cache, uint64_t *value)
{
	*value = counter_number(counter->kind, cache->stats[counter->one],
				cache->stats[counter->other]);
	return counter->kind != COUNTER_UNKNOWN;
}
