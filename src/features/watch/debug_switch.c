/* SPDX-License-Identifier: MIT */
/*
 * Switching watching on and off, and the caches that are watched from the start.
 *
 * On: the original names its twin, then its lists are emptied on every CPU;
 * they have no room then, so allocations reach the slow path, which goes to
 * the twin.  A slow path that had not seen the twin may fill a list again
 * after that; so a thread that fills a list looks at `twin` once more and then
 * empties it (cache_filled()).  Emptying stops each CPU with a barrier, so either the
 * one sees the list or the other sees the twin.
 *
 * Off: the original forgets its twin.  The twin lives on with its objects, and
 * serves again when the same letters are asked for.
 */
#include "core/base/line.h"
#include "features/shadow/shadow.h"
#include "features/watch/watch.h"

#include <string.h>

/* The largest place; a slab is 1 MiB. */
#define PLACE_MAX ((size_t)512 << 10)

/* atomic; entries are never taken out */
static struct watch *watches;
/* One switch at a time. */
static struct line switching;

usual struct watch *watch_first(void)
{
	return __atomic_load_n(&watches, __ATOMIC_ACQUIRE);
}

struct watch *watch_next(const struct slub_cache *original, const struct watch *last)
{
	struct watch *w = last ? last->next : watch_first();

	while (w && watch_original(w) != original)
		w = w->next;
	return w;
}

/* The watch of @original by these letters. */
static struct watch *watch_find(const struct slub_cache *original,
				uint32_t flags)
{
	struct watch *w = watch_next(original, NULL);

	while (w && (w->layout.flags & DEBUG_LETTERS) != flags)
		w = watch_next(original, w);
	return w;
}

/* ---- a twin ---- */

static uint32_t kind_of(const struct slub_cache *original)
{
	uint32_t owned = original->is_accounted ? DEBUG_OWNED : 0;

	if (original->is_internal)
		return DEBUG_SIZED | owned;
	if (original->ctor || original->flags & SLUB_CACHE_TYPESAFE_BY_RCU)
		return DEBUG_KEPT | owned;
	return owned;
}

/* @watch names its original from here on: its twin is published, and is found by it. */
static void twin_adopt(struct watch *watch)
{
	struct slub_cache *twin = &watch->cache;

	if (twin->objects > WATCHED_OBJECTS_MAX)
		__atomic_store_n(&twin->objects, WATCHED_OBJECTS_MAX,
				 __ATOMIC_RELAXED);
	/* release: a thread that finds the twin of its cache finds it complete */
	__atomic_store_n(&watch->original, twin->root, __ATOMIC_RELEASE);
}

static int twin_make(struct watch *watch, struct slub_cache *original,
		     uint32_t flags)
{
	struct slub_cache *twin = &watch->cache;
	size_t align = min_size(original->align, PAGE_BYTES);
	char letters[8];
	int err;

	if (!debug_layout_make(&watch->layout, original->name,
			       original->object_size, align,
			       flags | kind_of(original), PLACE_MAX))
		return -E2BIG;
	shadow_copy(twin, original, debug_letters_text(flags, letters));
	cache_sizes_set(twin, watch->layout.stride, original->object_size);
	twin->align = (uint32_t)align;
	twin->flags = (original->flags & ~(uint32_t)DEBUG_LETTERS) | flags;
	twin->link = watch->layout.link == DEBUG_LINK_OUTSIDE ?
			     page_link_bias : watch->layout.link;
	__atomic_store_n(&twin->debug, &watch->layout, __ATOMIC_RELAXED);
	twin->letters = (uint8_t)(flags / SLUB_CACHE_CONSISTENCY_CHECKS);
	watch->errors = watch->bugs = 0;
	err = cache_publish(twin, 0);
	if (!err)
		twin_adopt(watch);
	return err;
}

/* For a twin that is to be made; NULL: no memory. */
static struct watch *watch_unused(void)
{
	struct watch *watch = watch_next(NULL, NULL);

	if (!watch) {
		watch = meta_alloc(sizeof(*watch));
		if (watch)
			stack_push(&watches, watch, &watch->next);
	}
	return watch;
}

/* ---- the switch ---- */

static int switch_on(struct slub_cache *cache, uint32_t flags,
		     enum switch_patience patience)
{
	struct watch *watch = watch_find(cache, flags);
	int err = 0;

	if (!watch) {
		watch = watch_unused();
		err = watch ? twin_make(watch, cache, flags) : -ENOMEM;
	}
	if (err)
		return err;
	/* release: a thread that sees the twin sees it complete */
	__atomic_store_n(&cache->twin, &watch->cache, __ATOMIC_RELEASE);
	if (patience == SWITCH_AT_ONCE)
		err = cache_flush_now(cache);
	else
		err = cache_flush(cache) ? 0 : -EIO;
	if (err == -EAGAIN)
		return err;
	if (err)
		log_message("debugging %s: the lists of a CPU could not be "
			    "emptied; objects in them are not watched",
			    cache->name);
	return 0;
}

/* The library's own know their objects' cache, and ask nobody whose they are. */
static bool may_be_watched(const struct slub_cache *cache)
{
	return !cache->is_internal || strncmp(cache->name, "malloc-", 7) == 0;
}

/* Letter O: not if it would make the smallest slab that holds an object larger. */
static uint32_t without_growth(const struct slub_cache *cache, uint32_t flags)
{
	uint32_t letters = flags & DEBUG_LETTERS;
	struct debug_layout layout;

	if (letters == flags ||
	    (debug_layout_make(&layout, cache->name, cache->object_size,
			       cache->align, letters | kind_of(cache),
			       PLACE_MAX) &&
	     order_of(round_up(layout.stride, PAGE_BYTES) / PAGE_BYTES) <=
		     order_of(round_up(cache->size, PAGE_BYTES) / PAGE_BYTES)))
		return letters;
	return letters & ~(uint32_t)(SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON |
				     SLUB_CACHE_STORE_USER);
}

int cache_debug_switch(struct slub_cache *cache, uint32_t flags,
		       enum switch_patience patience)
{
	int err = -EINVAL;

	cache = cache_original(cache);
	if (cache && !may_be_watched(cache))
		return 0;
	if (!cache || flags & ~(uint32_t)(DEBUG_LETTERS | DEBUG_NO_GROWTH))
		return err;
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!(patience == SWITCH_WAITS ? line_wait(&switching, LINE_PATIENCE) :
					 line_try(&switching)))
		return -EBUSY;
	/* Else destroyed since it was found: debug_cache_unmade(). */
	if (cache_is_live(cache)) {
		flags = without_growth(cache, flags);
		/* Its runtime is told of each object: no list has any (core/base/sanitizer.h). */
		if (unlikely(sanitizer.is_there))
			flags |= SLUB_CACHE_CONSISTENCY_CHECKS;
		err = 0;
		if (flags)
			err = switch_on(cache, flags, patience);
		else
			__atomic_store_n(&cache->twin, NULL, __ATOMIC_RELEASE);
	}
	line_end(&switching);
	return err;
}

/* As the kernel's kmem_cache_flags(): what SLUB_DEBUG says comes to the cache's own letters. */
void debug_cache_made(struct slub_cache *cache)
{
	const char *setting = option_text(OPTION_debug);
	uint32_t own = cache->flags & DEBUG_LETTERS;
	uint32_t flags = own | debug_letters_for(setting, cache->name, 0);

	if (flags & DEBUG_LETTERS || unlikely(sanitizer.is_there))
		cache_debug_switch(cache, flags, SWITCH_WAITS);
}

bool debug_has_slabs(const struct slub_cache *cache)
{
	struct watch *w = watch_next(cache, NULL);

	while (w && !cache_has_slabs(&w->cache))
		w = watch_next(cache, w);
	return w;
}

/*
 * A thread that switches letters on may have found the cache a moment ago, and would make a
 * twin of a cache that is gone.  So no switch is under way here, and a later one finds a
 * dead cache.
 */
void debug_cache_unmade(struct slub_cache *cache)
{
	bool mine = line_wait(&switching, LINE_PATIENCE);

	__atomic_store_n(&cache->state, CACHE_DEAD, __ATOMIC_RELEASE);
	__atomic_store_n(&cache->twin, NULL, __ATOMIC_RELEASE);
	for (struct watch *w = watch_next(cache, NULL); w; w = watch_next(cache, w)) {
		__atomic_store_n(&w->cache.state, CACHE_DEAD,
				 __ATOMIC_RELEASE);
		cache_unmake(&w->cache);
		/* release: it may be used anew from here on */
		__atomic_store_n(&w->original, NULL, __ATOMIC_RELEASE);
	}
	if (mine)
		line_end(&switching);
}

bool debug_shrink_twins(struct slub_cache *cache)
{
	bool is_partial = false;

	for (struct watch *w = watch_next(cache, NULL); w; w = watch_next(cache, w))
		is_partial |= cache_shrink_nodes(&w->cache);
	return is_partial;
}

usual void debug_after_fork(void)
{
	/* A twin that was published is adopted; the watch of a dead one is free. */
	for (struct watch *w = watch_first(); w; w = w->next) {
		bool is_live = cache_is_live(&w->cache);

		if (!watch_original(w) && is_live)
			twin_adopt(w);
		else if (!is_live && !cache_is_held(watch_original(w)))
			w->original = NULL;
	}
	debug_mailbox_after_fork();
}
