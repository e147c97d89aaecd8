/* SPDX-License-Identifier: MIT */
/* What a cache is called, and whether it is the one that is asked for. */
#ifndef SLUB_TOOL_CACHE_NAME_H
#define SLUB_TOOL_CACHE_NAME_H

#include "snapshot.h"

/* A watched cache has a second one, its twin, named "malloc-64:FZPU". */
bool cache_is_twin(const struct cache_view *cache);
/* The name that the program knows: without ":FZPU", and whole. */
void cache_plain_name(const struct snapshot *snapshot,
		      const struct cache_view *cache,
		      char name[CACHE_NAME_SIZE]);
/*
 * Does that, its own, or one of the names it is shared under match @pattern: a name, in which
 * '*' and '?' stand for any text and one character, or "" for all?
 */
bool cache_is_called(const struct snapshot *snapshot,
		     const struct cache_view *cache, const char *pattern);

#endif
