/* SPDX-License-Identifier: MIT */
/*
 * What /sys/kernel/slab shows of a cache, by the same names where the thing is
 * the same, and what only this library has.
 */
#ifndef SLUB_TOOL_ATTRIBUTE_H
#define SLUB_TOOL_ATTRIBUTE_H

#include "json.h"
#include "snapshot.h"

/* "name value", a line each. */
void attributes_print(const struct snapshot *snapshot,
		      const struct cache_view *cache);
/* As members of the object that is open. */
void attributes_put(struct json *json, const struct snapshot *snapshot,
		    const struct cache_view *cache);

#endif
