/* SPDX-License-Identifier: MIT */
/* Making shadows, and what is done to all of a cache: see shadow.h. */
#include "features/shadow/shadow.h"
#include "features/typed/typed.h"

#include "core/base/line.h"
#include "features/watch/watch.h"

#include <string.h>

/* What does not fit is cut from the cache's name: the suffix must. */
static void name_set(struct slub_cache *shadow, const struct slub_cache *cache,
		     const char *suffix)
{
	struct text name = { shadow->name_space, SLUB_CACHE_NAME_MAX, 0 };

	memset(shadow->name_space, 0, sizeof(shadow->name_space));
	text_printf(&name, "%s", cache->name);
	name.used_bytes = min_size(name.used_bytes,
				   SLUB_CACHE_NAME_MAX - 1 - strlen(suffix));
	text_printf(&name, ":%s", suffix);
	shadow->name_space[name.used_bytes] = '\0';
}

void shadow_copy(struct slub_cache *shadow, struct slub_cache *cache,
		 const char *suffix)
{
	if (suffix)
		name_set(shadow, cache, suffix);
	shadow->name = shadow->name_space;
	cache_sizes_set(shadow, cache->size, cache->object_size);
	shadow->align = cache->align;
	shadow->flags = cache->flags;
	shadow->ctor = cache->ctor;
	shadow->useroffset = cache->useroffset;
	shadow->usersize = cache->usersize;
	shadow->link = cache->link;
	cache_accounted_set(shadow, cache->is_accounted);
	cache_root_set(shadow, cache);
}

static bool shape(struct slub_cache *shadow, struct slub_cache *cache,
		  const struct shadow_kind *kind)
{
	shadow_copy(shadow, cache, kind->suffix);
	shadow->flags &= kind->flags_kept;
	if (!kind->shape(shadow, cache))
		return false;
	shadow->has_keys |= cache_may_have_keys(shadow);
	return true;
}

static struct slub_cache *make(struct slub_cache *cache,
			       const struct shadow_kind *kind)
{
	struct slub_cache *shadow = cache_struct_alloc();

	if (!shadow)
		return NULL;
	if (!shape(shadow, cache, kind) || cache_publish(shadow, 0)) {
		cache_struct_free(shadow);
		return NULL;
	}
	debug_cache_first(shadow);
	return shadow;
}

/*
 * Of two the second stays without use until @cache ends: others may have found it by now, and
 * what they pin is @cache, which this thread may have pinned itself.
 */
static struct slub_cache *hang(struct slub_cache *cache, const struct shadow_kind *kind,
			       struct slub_cache *shadow)
{
	struct slub_cache *first = NULL;

	if (!__atomic_compare_exchange_n(&cache->shadows[kind->place], &first,
					 shadow, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		stack_push(&cache->next_dead, shadow, &shadow->next_dead);
		return first;
	}
	if (kind->made)
		kind->made(shadow);
	return shadow;
}

struct slub_cache *shadow_get(struct slub_cache *cache,
			      const struct shadow_kind *kind)
{
	/* One thread makes a shadow, and others wait for it; a handler that meets it does not. */
	static struct line making;
	struct slub_cache *shadow = cache_shadow(cache, kind->place);
	bool mine;

	if (likely(shadow))
		return shadow;
	mine = line_wait(&making, LINE_PATIENCE);
	shadow = cache_shadow(cache, kind->place);
	if (!shadow) {
		shadow = make(cache, kind);
		shadow = shadow ? hang(cache, kind, shadow) : NULL;
	}
	if (mine)
		line_end(&making);
	return shadow;
}

bool shadows_shrink(struct slub_cache *cache)
{
	bool is_partial = false;

	for (int i = 0; i < SHADOWS_ROOTED; i++) {
		struct slub_cache *shadow = cache_shadow(cache, i);

		if (shadow)
			is_partial |= cache_shrink_nodes(shadow);
	}
	return is_partial;
}

bool shadows_have_slabs(const struct slub_cache *cache)
{
	for (int i = 0; i < SHADOWS_ROOTED; i++) {
		const struct slub_cache *shadow = cache_shadow(cache, i);

		if (shadow && cache_has_slabs(shadow))
			return true;
	}
	return false;
}

void shadows_drop(struct slub_cache *cache)
{
	struct slub_cache *unused = cache->next_dead;

	cache->next_dead = NULL;
	while (unused) {
		struct slub_cache *next = unused->next_dead;

		cache_drop_shadow(unused);
		unused = next;
	}
	for (int i = 0; i < SHADOWS_ROOTED; i++) {
		struct slub_cache *shadow = cache->shadows[i];

		/* Nobody finds it by its cache when it is dropped. */
		cache->shadows[i] = NULL;
		compiler_barrier();
		if (shadow)
			cache_drop_shadow(shadow);
	}
}
