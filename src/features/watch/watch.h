/* SPDX-License-Identifier: MIT */
/*
 * Watched caches.
 *
 * A cache that is watched has a twin, with the same objects in larger places, whose lists
 * are always empty and have no room: all that happens to its objects comes by the slow path.
 * New objects come from the twin.  Objects from before stay as they are, for the page map
 * says whose an object is, and so do the twin's when watching is switched off.
 *
 *   original   the cache that the program knows
 *   twin       the cache that its objects come from while it is watched
 *   watch      what is known of a twin beside the cache
 *
 * Tests: tests/unit/debug/test_watched.cc, tests/unit/debug/test_twins.cc,
 * tests/unit/debug/test_mailbox.cc, tests/debug/switch_test.cc, tests/tool.
 * Page: docs/internals/debugging.md.
 */
#ifndef SLUB_SLAB_WATCH_H
#define SLUB_SLAB_WATCH_H

#include "features/debug/debug.h"
#include "features/debug/mailbox.h"
#include "core/slab/slab_internal.h"
#include "features/typed/typed.h"

struct watch {
	struct debug_layout layout;	/* first: cache->debug names it */
	/* atomic; NULL: the twin is not in use, unless a switch is under way */
	struct slub_cache *original;
	struct watch *next;		/* all there ever were */
	uint64_t errors;		/* atomic; bugs and fixes, as the kernel counts */
	uint64_t bugs;			/* atomic; of these, for other processes */
	struct slub_cache cache;
};

static inline struct watch *watch_of(const struct slub_cache *twin)
{
	return (struct watch *)((char *)twin -
				offsetof(struct watch, cache));
}

static inline struct slub_cache *watch_original(const struct watch *watch)
{
	/* acquire: pairs with the release in twin_adopt() */
	return __atomic_load_n(&watch->original, __ATOMIC_ACQUIRE);
}

/* The bytes in front of the first object of a slab. */
static inline size_t watch_left(const struct slub_cache *cache)
{
	return cache->debug ? cache->debug->left : 0;
}

/* debug.c */
/* A case about @twin with the stack of the caller. */
void case_begin(struct debug_case *found, const struct slub_cache *twin,
		const void *frame);
/* Counts and writes what was found; without locks. */
void case_end(struct debug_case *found, const struct slub_cache *twin);

/* A free through @cache of what is @owner's, or in no slab: reported only. */
void debug_free_wrong(struct slub_cache *cache, struct slub_cache *owner,
		      const void *object);
bool debug_free_outside(struct slub_cache *cache, const void *object);

/* Is @object an object of the watched @twin, which has the size asked for? */
bool debug_knows_size(const struct slub_cache *twin, const void *object);
/* @object is about to be freed by the operator delete that @call belongs to. */
void debug_free_call(void *object, enum alloc_call call);
/* A free of @object that was told @told bytes, which cannot be. */
void debug_free_size(struct slub_cache *owner, const void *object, size_t told,
		     size_t have);

/* debug_slab.c: all under the node's lock */
/* Objects of a slab at the most, for what has a bit for each. */
#define WATCHED_OBJECTS_MAX 4096

struct free_marks {
	uint64_t words[WATCHED_OBJECTS_MAX / 64];
	uint32_t nr;
	void *last;	/* of the freelist */
};

static inline bool mark_is_set(const struct free_marks *marks, uint32_t i)
{
	return marks->words[i / 64] >> i % 64 & 1;
}

/* The first byte of the object with number @i of the slab at @base, watched or not. */
static inline void *object_at(const struct slub_cache *cache, void *base, size_t i)
{
	return (char *)base + i * cache->size +
	       (cache->debug ? cache->debug->left : 0);
}

static inline char *watched_object(const struct slub_cache *twin,
				   struct page *slab, uint32_t i)
{
	return (char *)object_at(twin, page_address(slab), i);
}

static inline struct cache_node *watched_node(const struct slub_cache *twin,
					      const struct page *slab)
{
	uint32_t n = page_node(slab);

	/* Whatever has been written over the descriptor. */
	return twin->nodes[n < slab_nr_nodes() ? n : 0];
}

/* Is @object one of the slab's? */
bool watched_is_object(const struct slub_cache *twin, struct page *slab,
		       const void *object);
uint32_t watched_index(const struct slub_cache *twin, struct page *slab,
		       const void *object);
void case_slab(struct debug_case *found, const struct slub_cache *twin,
	       struct page *slab);
/* A new slab of free objects, not on any list yet; without locks. */
struct page *watched_slab_new(struct slub_cache *twin, uint32_t node);
/* Gives it back; without locks, once no page of it is in the page map. */
void watched_slab_discard(struct slub_cache *twin, struct page *slab);
/* Changes the slab's word; nobody else does under the lock. */
void watched_set_state(struct page *slab, void *first, uintptr_t counters);
/*
 * What is free.  Returns what ends the freelist before its time, no object or one that was
 * there before; NULL: nothing.
 */
void *watched_mark_free(const struct slub_cache *twin, struct page *slab,
			struct free_marks *marks);
/* What is wrong is reported and put right: type and counters. */
void watched_check_slab(struct debug_case *found,
			const struct slub_cache *twin, struct page *slab);
/* The freelist, too. */
void watched_check(struct debug_case *found, const struct slub_cache *twin,
		   struct page *slab, struct free_marks *marks);
/* Everything: freelist, each object, padding. */
void watched_validate(struct debug_case *found, const struct slub_cache *twin,
		      struct page *slab);

/* debug_walk.c */
/*
 * Calls @visit for each slab of each twin of @cache (NULL: of all), with the
 * lock of the slab's node; then @after, without it.
 */
struct watched_visit {
	void (*visit)(struct slub_cache *twin, struct page *slab, void *arg);
	void (*after)(struct slub_cache *twin, void *arg);
	void *arg;
	const struct slub_cache *cache;
	/* NULL, or the originals' names: debug_is_meant() */
	const char *pattern;
};
void watched_for_each(const struct watched_visit *visit);
/*
 * The same, about 1 MiB of slabs from *@at on, NULL for the beginning.  True: there is
 * more, from *@at on.
 */
bool watched_for_some(const struct watched_visit *visit, char **at);

/* debug_switch.c */
struct watch *watch_first(void);
/* The next of @original behind @last, or the first of them if that is NULL; NULL: no more. */
struct watch *watch_next(const struct slub_cache *original, const struct watch *last);
/* The original of a cache that a program asks for; NULL: it gave none. */
static inline struct slub_cache *cache_asked(const struct slub_cache *cache)
{
	return cache ? cache_original(cache_real(cache)) : NULL;
}
enum switch_patience {
	SWITCH_AT_ONCE,		/* waits for nobody */
	SWITCH_FLUSHES,		/* waits for shrinks: up to a second */
	SWITCH_WAITS,		/* and for another switch */
};
/*
 * Watches what @cache hands out from now on by the letters @flags, 0: no more.  Returns 0 or
 * -errno: EINVAL for a letter that is none, ENOMEM, ENOSPC, EBUSY if another thread is at
 * it, E2BIG for an object's size; at once also EAGAIN: to be called again, for unwatched
 * objects may be in a list.
 */
int cache_debug_switch(struct slub_cache *cache, uint32_t flags,
		       enum switch_patience patience);
/* What @setting, as SLUB_DEBUG, says of @cache.  1: done, 0: nothing, or it is no more; -errno. */
int cache_debug_by(struct slub_cache *cache, const char *setting,
		   enum switch_patience patience);
/* Checks on from *@at what @pattern means, adds to *@bugs; true: there is more. */
bool debug_validate_some(char **at, long *bugs, const char *pattern);
/* What SLUB_DEBUG and the flags of a new cache ask for; waits for other switches. */
void debug_cache_made(struct slub_cache *cache);
/*
 * Of a cache that a thread is about to allocate from: one that another thread makes is live before
 * it is watched, and a sanitizer's runtime is to hear of its first object.
 */
static inline void debug_cache_first(struct slub_cache *cache)
{
	if (unlikely(sanitizer.is_there) && !cache_is_watched(cache))
		debug_cache_made(cache);
}
/* Has @cache objects that are watched? */
bool debug_has_slabs(const struct slub_cache *cache);
/* Frees the empty slabs of a cache's twins; true: some with free objects stay. */
bool debug_shrink_twins(struct slub_cache *cache);
/* Reports the watched objects that keep a cache from being destroyed. */
void debug_report_left(struct slub_cache *cache);

/* In a forked child: what other threads were at. */
void debug_after_fork(void);

/* debug_mailbox.c */
/* Does @pattern, "" all, match a name of @cache, which is no twin? */
bool debug_is_meant(const struct slub_cache *cache, const char *pattern);
/* At the start: SLUB_ATTACH. */
void debug_mailbox_configure(void);
void debug_mailbox_after_fork(void);
/* What is asked, by a thread that is in no handler for certain.  True: there is more, later. */
bool debug_mailbox_serve(void) SLUB_INTERNAL;
/* May this thread answer, but for a signal handler that it may be in? */
bool debug_mailbox_is_outside(void);
/* Sets an option by "name=value"; by a later layer. */
extern int (*debug_mailbox_set)(char *text) SLUB_INTERNAL;
/* As MAILBOX_PROFILE says; by a later layer. */
extern long (*debug_mailbox_profile)(const char *text) SLUB_INTERNAL;

/* debug_validate.c */
/* Watches malloc's caches as SLUB_DEBUG says. */
void debug_start(void);
/* At exit: looks at all that is watched, and writes what leaked. */
void debug_finish(void);

/* Makes a cache dead, and takes its twins: it is being destroyed. */
void debug_cache_unmade(struct slub_cache *cache);

#endif
