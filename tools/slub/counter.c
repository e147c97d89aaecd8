/* SPDX-License-Identifier: MIT */
/* What is counted of a cache. */
#include "counter.h"

const struct counter counters[] = {
	/* the kernel's */
	{ "alloc_fastpath", "allocations from a CPU's list",
	  COUNTER_UNKNOWN, 0, 0 },
	{ "alloc_slowpath", "allocations that had to go to the slabs",
	  COUNTER_PLUS, SLUB_ABI_STAT_ALLOC_REFILL,
	  SLUB_ABI_STAT_ALLOC_DIRECT },
	{ "free_fastpath", "frees to a CPU's list",
	  COUNTER_UNKNOWN, 0, 0 },
	{ "free_slowpath", "frees that had to go to the slabs",
	  COUNTER_PLUS, SLUB_ABI_STAT_FREE_FLUSH,
	  SLUB_ABI_STAT_FREE_DIRECT },
	{ "free_rcu_sheaf", "deferred frees that no reader sees any more",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_RCU_SHEAF, 0 },
	{ "free_rcu_sheaf_fail", "deferred frees that there was no sheaf for",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_RCU_SHEAF_FAIL, 0 },
	{ "free_add_partial", "slabs that a free put on a partial list",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_ADD_PARTIAL, 0 },
	{ "free_remove_partial", "empty slabs that a free took off it",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_REMOVE_PARTIAL, 0 },
	{ "alloc_slab", "slabs got from the page layer",
	  COUNTER_IS, SLUB_ABI_STAT_SLAB_ALLOC, 0 },
	{ "free_slab", "slabs given back to the page layer",
	  COUNTER_IS, SLUB_ABI_STAT_SLAB_FREE, 0 },
	{ "alloc_node_mismatch", "allocations for a node that had nothing",
	  COUNTER_IS, SLUB_ABI_STAT_ALLOC_NODE_MISMATCH, 0 },
	{ "order_fallback", "slabs of a lower order: there are none",
	  COUNTER_NEVER, 0, 0 },
	{ "cmpxchg_double_fail", "exchanges that found a slab changed",
	  COUNTER_IS, SLUB_ABI_STAT_CMPXCHG_DOUBLE_FAIL, 0 },
	{ "sheaf_alloc", "lists made of objects of slabs",
	  COUNTER_MINUS, SLUB_ABI_STAT_ALLOC_REFILL,
	  SLUB_ABI_STAT_ALLOC_REFILL_FAIL },
	{ "sheaf_free", "lists that went back to the slabs",
	  COUNTER_PLUS, SLUB_ABI_STAT_FREE_FLUSH,
	  SLUB_ABI_STAT_LISTS_EMPTIED },
	{ "sheaf_refill", "objects taken from slabs into lists",
	  COUNTER_MINUS, SLUB_ABI_STAT_OBJECTS_OUT,
	  SLUB_ABI_STAT_ALLOC_DIRECT },
	{ "sheaf_flush", "objects of lists given back to slabs",
	  COUNTER_MINUS, SLUB_ABI_STAT_OBJECTS_BACK,
	  SLUB_ABI_STAT_FREE_DIRECT },
	{ "barn_get", "lists taken from a barn",
	  COUNTER_IS, SLUB_ABI_STAT_ALLOC_BARN, 0 },
	{ "barn_get_fail", "times that a barn had none",
	  COUNTER_IS, SLUB_ABI_STAT_ALLOC_REFILL, 0 },
	{ "barn_put", "lists put into a barn",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_BARN, 0 },
	{ "barn_put_fail", "lists that a barn did not take",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_FLUSH, 0 },
	{ "sheaf_prefill_fast", "prefills that the CPU's list had all for",
	  COUNTER_IS, SLUB_ABI_STAT_SHEAF_PREFILL_FAST, 0 },
	{ "sheaf_prefill_slow", "prefills that needed more than that",
	  COUNTER_IS, SLUB_ABI_STAT_SHEAF_PREFILL_SLOW, 0 },
	{ "sheaf_prefill_oversize", "prefills of more than a list may hold",
	  COUNTER_IS, SLUB_ABI_STAT_SHEAF_PREFILL_OVERSIZE, 0 },
	{ "sheaf_return_fast", "returned prefills that the CPU's list took",
	  COUNTER_IS, SLUB_ABI_STAT_SHEAF_RETURN_FAST, 0 },
	{ "sheaf_return_slow", "returned prefills that it had no room for",
	  COUNTER_IS, SLUB_ABI_STAT_SHEAF_RETURN_SLOW, 0 },
	/* the library's own, where they say more */
	{ "alloc_from_spare", "lists taken from the CPU's spare",
	  COUNTER_IS, SLUB_ABI_STAT_ALLOC_SPARE, 0 },
	{ "alloc_refill", "lists filled from slabs",
	  COUNTER_IS, SLUB_ABI_STAT_ALLOC_REFILL, 0 },
	{ "alloc_refill_fail", "of alloc_refill: there was no memory",
	  COUNTER_IS, SLUB_ABI_STAT_ALLOC_REFILL_FAIL, 0 },
	{ "alloc_direct", "objects handed out past the lists",
	  COUNTER_IS, SLUB_ABI_STAT_ALLOC_DIRECT, 0 },
	{ "free_to_spare", "full lists kept as the CPU's spare",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_SPARE, 0 },
	{ "free_flush", "full lists given back to slabs",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_FLUSH, 0 },
	{ "free_direct", "objects given back past the lists",
	  COUNTER_IS, SLUB_ABI_STAT_FREE_DIRECT, 0 },
	{ "lists_emptied", "lists given back to slabs for other reasons",
	  COUNTER_IS, SLUB_ABI_STAT_LISTS_EMPTIED, 0 },
	{ "objects_out", "objects taken from slabs",
	  COUNTER_IS, SLUB_ABI_STAT_OBJECTS_OUT, 0 },
	{ "objects_back", "objects given back to slabs",
	  COUNTER_IS, SLUB_ABI_STAT_OBJECTS_BACK, 0 },
	{ "objects_moved", "objects moved to other slabs",
	  COUNTER_IS, SLUB_ABI_STAT_OBJECTS_MOVED, 0 },
	{ "objects_stayed", "objects that could not be moved",
	  COUNTER_IS, SLUB_ABI_STAT_OBJECTS_STAYED, 0 },
	{ "wrong_cache", "frees into a cache that the object is not of",
	  COUNTER_IS, SLUB_ABI_STAT_WRONG_CACHE, 0 },
	{ "double_free", "frees of what was free",
	  COUNTER_IS, SLUB_ABI_STAT_DOUBLE_FREE, 0 },
	{ "wrong_size", "sized frees with a size that cannot be",
	  COUNTER_IS, SLUB_ABI_STAT_WRONG_SIZE, 0 },
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
