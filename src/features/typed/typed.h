/* SPDX-License-Identifier: MIT */
/*
 * Typed caches: those that programs make, by create and destroy or as a variable of theirs (the
 * front), and their objects one by one, in bulk, and in a walk.
 *
 * Tests: tests/unit/slab/test_create*.cc, tests/unit/slab/test_bulk*.cc,
 * tests/unit/slab/test_cache_object.cc, tests/unit/slab/test_visit.cc,
 * tests/api/cache_*_test.cc, tests/api/bulk_test.cc.
 * Pages: docs/api/c.md, docs/ARCHITECTURE.md.
 */
#ifndef SLUB_TYPED_H
#define SLUB_TYPED_H

#include "core/slab/slab_internal.h"

/* ---- front.c ---- */

/* The structure that @front stands for; one that is not live: there is none. */
struct slub_cache *front_cache(const struct cache_front *front);
/* From here on @front stands for @cache, which is about to be made; until front_part(). */
void front_join(struct cache_front *front, struct slub_cache *cache);
/* Has the plugin been unloaded that @cache is a variable of? */
bool front_is_gone(const struct slub_cache *cache);
/* Then: it is nobody's. */
void front_leave(struct slub_cache *cache);

/* A cache as programs know it: the structure, or a variable in its place. */
static always_inline struct slub_cache *cache_real(const struct slub_cache *cache)
{
	if (unlikely(cache->args))
		return front_cache((const struct cache_front *)cache);
	return (struct slub_cache *)cache;
}

/* The structure of @cache, which a program gave; NULL: none, or none that is live. */
static inline struct slub_cache *cache_live(const struct slub_cache *cache)
{
	struct slub_cache *real = cache ? cache_real(cache) : NULL;

	return real && cache_is_live(real) ? real : NULL;
}

/* ---- create.c, shape.c ---- */

/* Makes @cache as @args say, which are valid.  Returns 0 or -errno. */
int cache_make(struct slub_cache *cache, const struct slub_cache_args *args);
/* Does @cache have the shape that @args ask for? */
bool cache_is_like(const struct slub_cache *cache,
		   const struct slub_cache_args *args);
/* Makes a program's variable the first time it is used; NULL: errno. */
struct slub_cache *cache_make_static(struct cache_front *front);
/*
 * slub_cache_create_args() of a cache that *@place is to name.  Caches are made one at a
 * time: what *@place names by then another thread has made, and is returned.
 */
struct slub_cache *cache_create_at(const struct slub_cache_args *args,
				   struct slub_cache **place);
/*
 * Is no object of @cache allocated?  0, or -errno: EBUSY, one is; EAGAIN, a CPU could not be
 * stopped; EDEADLK, this thread is in a visit of it; EINVAL, it is not live.  As of now: nobody
 * may use it meanwhile.  Stops each CPU once.
 */
int cache_look_unused(struct slub_cache *cache);

/*
 * Between them no cache is made, shared or destroyed by others.  False: this thread is at it,
 * and a handler or a function of the program asks.
 */
bool making_begin(void);
void making_end(void);

/* Structures for caches that programs do not name. */
struct slub_cache *cache_struct_alloc(void);
void cache_struct_free(struct slub_cache *cache);
/* Takes out a shadow without slabs. */
void cache_drop_shadow(struct slub_cache *shadow);

/* ---- alias.c ---- */

/* The further names of a shared cache; each with a user more or less. */
int alias_add(struct slub_cache *cache, const char *name);	/* 0 or an errno */
void alias_drop(struct slub_cache *cache);
/*
 * As many of the names as @to has room for, the last one first, a NUL after each
 * and after all.  Takes no lock: a name may be that of a moment ago.
 */
void alias_names(const struct slub_cache *cache, char *to, size_t size);

/* ---- object.c, bulk.c ---- */

/*
 * The structure of @cache, which a program gave; NULL, with errno: nothing can be allocated
 * from it.
 */
struct slub_cache *cache_usable(struct slub_cache *cache);
/* An object that is linked, so none between guard pages. */
void *cache_alloc_unguarded(struct slub_cache *cache, unsigned int flags);
/* Frees objects of any caches, which count them as deferred. */
void cache_free_deferred(size_t nr, void **objects);

/* ---- visit.c ---- */

/* For slub_cache_for_each_object(); adds 1 to the size_t at @arg. */
int object_count(void *object, void *arg);

/*
 * The free objects of a slab are marked for so many at a time: all of most slabs, and few
 * enough for a small stack.  A larger one's freelist is followed once for each window.
 */
#define WINDOW_WORDS 128
#define WINDOW_OBJECTS (WINDOW_WORDS * 64)
/* The objects of a slab that are allocated, in the order of their addresses. */
struct slab_iterator {
	struct slub_cache *cache;
	struct page *slab;
	uint32_t next;
	uint32_t end;
	uint32_t window;		/* the first object that has a bit */
	uint64_t free[WINDOW_WORDS];	/* a bit for each object from there on */
};

/*
 * Of a cache that stays what it is meanwhile; the slab may go.  False: it changes under
 * our eyes, and cannot be told.
 */
bool slab_iterate(struct slab_iterator *iterator, struct slub_cache *cache,
		  struct page *slab);
/* NULL: that was the last one. */
void *slab_next(struct slab_iterator *iterator);
/* slub_cache_shrink(), once its lists are empty, but for what waits for readers */
bool cache_give_back_slabs(struct slub_cache *cache);

#endif
