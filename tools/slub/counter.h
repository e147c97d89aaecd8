/* SPDX-License-Identifier: MIT */
/*
 * What is counted of a cache, by the kernel's names where it is the same, and what
 * only this library counts.
 */
#ifndef SLUB_TOOL_COUNTER_H
#define SLUB_TOOL_COUNTER_H

#include "features/inspect/counter.h"
#include "snapshot.h"

struct counter {
	const char *name;
	const char *meaning;
	enum counter_kind kind;
	enum slub_abi_stat one, other;
};

extern const struct counter counters[];
extern const size_t nr_counters;

/* Does the library that was read count it? */
bool counter_is_there(const struct snapshot *snapshot,
		      const struct counter *counter);
uint64_t counter_value(const struct counter *counter, const struct cache_view *cache);

#endif
