/* SPDX-License-Identifier: MIT */
/* What is counted of a cache. */
#include "counter.h"

/* Where a counter is made of fewer than two. */
#define SLUB_ABI_STAT_NONE SLUB_ABI_STAT_ALLOC_SPARE

const struct counter counters[] = {
#define COUNTER(name, meaning, kind, one, other) \
	{ #name, meaning, COUNTER_##kind, SLUB_ABI_STAT_##one, SLUB_ABI_STAT_##other },
#include "inspect/counter.def"
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

/* A difference that is so little below 0: the two were not read at one moment. */
#define SKEW_MAX 65536

/* Of two counters modulo 2^32; @one counts what @other does, and more. */
static uint64_t difference(uint64_t one, uint64_t other)
{
	if (one >= other)
		return one - other;
	return other - one <= SKEW_MAX ? 0 : (uint32_t)(one - other);
}

bool counter_value(const struct counter *counter,
		   const struct cache_view *cache, uint64_t *value)
{
	uint64_t one = cache->stats[counter->one];
	uint64_t other = cache->stats[counter->other];

	*value = 0;
	switch (counter->kind) {
	case COUNTER_IS:
		*value = one;
		break;
	case COUNTER_PLUS:
		*value = one + other;
		break;
	case COUNTER_MINUS:
		*value = difference(one, other);
		break;
	case COUNTER_NEVER:
		break;
	case COUNTER_UNKNOWN:
		return false;
	}
	return true;
}
