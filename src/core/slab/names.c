/* SPDX-License-Identifier: MIT */
/*
 * Which caches have a name, their own or a further one: a table by the name's hash, for a program
 * may make thousands of caches, and each looks first whether its name is free.
 *
 * Locks: cache_lock protects the table.
 */
#include "core/base/hash.h"
#include "core/slab/slab_internal.h"

#include <string.h>

#define NAMES_BITS 9

static struct cache_named *table[1 << NAMES_BITS] rarely_touched;

static struct cache_named **names_head(uint32_t hash)
{
	return &table[(uint64_t)hash * HASH_MULTIPLIER >> (64 - NAMES_BITS)];
}

void cache_named_enter(struct cache_named *named, const char *name, struct slub_cache *cache)
{
	struct cache_named **head;

	named->hash = hash_gnu(name);
	named->name = name;
	named->cache = cache;
	head = names_head(named->hash);
	named->next = *head;
	*head = named;
}

void cache_named_leave(struct cache_named *named)
{
	struct cache_named **at = names_head(named->hash);

	while (*at && *at != named)
		at = &(*at)->next;
	if (*at)
		*at = named->next;
}

struct cache_named *cache_named_first(const char *name)
{
	return cache_named_is(*names_head(hash_gnu(name)), name);
}

struct cache_named *cache_named_is(struct cache_named *named, const char *name)
{
	uint32_t hash = hash_gnu(name);

	while (named && (named->hash != hash || strcmp(named->name, name) != 0))
		named = named->next;
	return named;
}

cold void cache_named_forget(void)
{
	memset(table, 0, sizeof(table));
}
