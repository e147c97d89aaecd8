/* SPDX-License-Identifier: MIT */
/*
 * Shadows: caches of the same objects as another cache, with slabs of their own.
 *
 * A shadow stands for its cache where an object needs something that a slab has to begin
 * with: memory of the reserve, a place that free() looks at, owners, red zones.  It is made
 * when it is first needed, hangs from its cache (cache_shadow()) and goes with it.  The
 * twins of debugging are switched on and off, and hang from features/watch/watch.h instead.
 *
 * Tests: tests/unit/slab/test_shadow*.cc.
 * Page: docs/ARCHITECTURE.md.
 */
#ifndef SLUB_SLAB_SHADOW_H
#define SLUB_SLAB_SHADOW_H

#include "core/slab/slab_internal.h"

/* What one kind of shadow has that another has not. */
struct shadow_kind {
	enum shadow_place place;
	const char *suffix;	/* of its name, behind the cache's; NULL: shape() makes a name */
	uint32_t flags_kept;	/* of its cache's flags */
	/* Changes what differs from the cache; false: of this one there is no such shadow. */
	bool (*shape)(struct slub_cache *shadow, const struct slub_cache *cache);
	/* NULL, or what follows once it can be found. */
	void (*made)(struct slub_cache *shadow);
};

/* Makes @shadow, which is to be published, like @cache; its name ends in @suffix, if not NULL. */
void shadow_copy(struct slub_cache *shadow, struct slub_cache *cache,
		 const char *suffix);
/* That of @cache, made if there is none; with no lock held.  NULL: none can be made. */
struct slub_cache *shadow_get(struct slub_cache *cache,
			      const struct shadow_kind *kind);
/* Those whose objects are @cache's.  Gives back their empty slabs; true: others are partial. */
bool shadows_shrink(struct slub_cache *cache);
bool shadows_have_slabs(const struct slub_cache *cache);
/* @cache, without objects, is about to end. */
void shadows_drop(struct slub_cache *cache);

#endif
