/* SPDX-License-Identifier: MIT */
/*
 * The further names of a cache that several users share (SLUB_MERGE).
 *
 * An alias is a name and nothing else: its maker has the cache's own pointer.
 * So when one of the users leaves, nobody can tell which, and the name that was
 * given last is free again.
 *
 * Locks: cache_lock protects the lists.  Aliases are metadata, never unmapped.
 */
#include "core/slab/slab_internal.h"
#include "features/typed/typed.h"

#include <string.h>

struct cache_alias {
	struct cache_alias *next;	/* of the same cache, the last one first */
	char name[SLUB_CACHE_NAME_MAX + 1];
	struct cache_named named;	/* a reader of another process knows what is above */
};

static struct cache_alias *unused;	/* under cache_lock */

int alias_add(struct slub_cache *cache, const char *name)
{
	struct cache_alias *alias;

	lock_acquire(&cache_lock);
	alias = unused;
	if (alias)
		unused = alias->next;
	lock_release(&cache_lock);
	if (!alias)
		alias = meta_alloc(sizeof(*alias));
	if (!alias)
		return 12;	/* ENOMEM */
	memset(alias->name, 0, sizeof(alias->name));
	memcpy(alias->name, name, strnlen(name, SLUB_CACHE_NAME_MAX));
	lock_acquire(&cache_lock);
	alias->next = cache->aliases;
	/* release: a thread that follows it without the lock finds the name */
	__atomic_store_n(&cache->aliases, alias, __ATOMIC_RELEASE);
	cache_named_enter(&alias->named, alias->name, cache);
	cache->users++;
	lock_release(&cache_lock);
	return 0;
}

void alias_drop(struct slub_cache *cache)
{
	struct cache_alias *alias;

	lock_acquire(&cache_lock);
	cache->users--;
	alias = cache->aliases;
	if (alias) {
		cache_named_leave(&alias->named);
		cache->aliases = alias->next;
		alias->next = unused;
		unused = alias;
	}
	lock_release(&cache_lock);
}

void alias_names(const struct slub_cache *cache, char *to, size_t size)
{
	/* acquire: pairs with the release in alias_add() */
	const struct cache_alias *alias =
		__atomic_load_n(&cache->aliases, __ATOMIC_ACQUIRE);
	size_t used = 0;

	/* Each takes two bytes at least, so a list that changes has an end. */
	while (alias && used + 2 < size) {
		size_t n = strnlen(alias->name, SLUB_CACHE_NAME_MAX);

		if (!n || used + n + 2 > size)
			break;
		memcpy(to + used, alias->name, n);
		used += n;
		to[used++] = '\0';
		alias = __atomic_load_n(&alias->next, __ATOMIC_ACQUIRE);
	}
	to[used] = '\0';
}

/* The @n-th in the order in which they were given; under cache_lock. */
static const struct cache_alias *alias_at(const struct slub_cache *cache,
					  size_t n)
{
	const struct cache_alias *a = cache->aliases;
	size_t nr = 0;

	for (const struct cache_alias *all = a; all; all = all->next)
		nr++;
	if (n >= nr)
		return NULL;
	for (size_t i = nr - 1; i > n; i--)
		a = a->next;
	return a;
}

SLUB_EXPORT bool slub_cache_alias(const struct slub_cache *cache,
				  unsigned int n,
				  char name[SLUB_CACHE_NAME_MAX + 1])
{
	const struct cache_alias *alias = NULL;

	cache = cache_live(cache);
	if (!cache || slub_thread.locks_held)
		return false;
	lock_acquire(&cache_lock);
	alias = alias_at(cache, n);
	if (alias)
		memcpy(name, alias->name, sizeof(alias->name));
	lock_release(&cache_lock);
	return alias;
}
