/* SPDX-License-Identifier: MIT */
/*
 * All caches, and one by its name: those that programs have made, and malloc's, without
 * their twins and shadows.
 */
#include "core/slab/slab_internal.h"
#include "features/typed/typed.h"

#include <errno.h>

static bool stands_for_another(const struct slub_cache *cache)
{
	return __atomic_load_n(&cache->root, __ATOMIC_RELAXED) || cache_is_twin(cache);
}

static cold struct slub_cache *find(const char *name)
{
	struct slub_cache *found = NULL;
	struct cache_named *n;

	lock_acquire(&cache_lock);
	for (n = cache_named_first(name); n && !found; n = cache_named_is(n->next, name)) {
		if (cache_is_live(n->cache) && !n->cache->is_left &&
		    !stands_for_another(n->cache))
			found = n->cache;
	}
	lock_release(&cache_lock);
	return found;
}

SLUB_EXPORT cold struct slub_cache *slub_cache_find(const char *name)
{
	int err = name ? slub_begin() : -EINVAL;
	struct slub_cache *found = err ? NULL : find(name);

	return found ? cache_public(found) : fail_with(err ? -err : ENOENT);
}

SLUB_EXPORT cold int
slub_cache_for_each(int (*visit)(struct slub_cache *cache, void *arg), void *arg)
{
	int ret = visit ? slub_begin() : -EINVAL;

	for (uint32_t n = percpu_next_number(0); !ret && n; n = percpu_next_number(n)) {
		struct slub_cache *cache = cache_numbered(n);
		struct cache_hold pin;

		/* Each by its first slot only. */
		if (!cache || entry_number(cache->slot) != n || stands_for_another(cache) ||
		    !cache_pin_any(cache, &pin))
			continue;
		ret = visit(cache_public(cache), arg);
		cache_unpin(&pin);
	}
	return ret;
}
