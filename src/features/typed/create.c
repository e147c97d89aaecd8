/* SPDX-License-Identifier: MIT */
/*
 * The caches of programs (slub/cache.h): made, shared, destroyed.
 *
 * The structures are used for caches only, so a pointer to a destroyed cache can be told from a
 * live one until a new cache takes its place; the longest dead is taken first.
 *
 * Locks: cache_lock protects the list of dead caches, `users` and the names.
 */
#define _GNU_SOURCE
#include "features/reclaim/reclaim.h"
#include "core/base/line.h"
#include "core/base/word.h"
#include "features/shadow/shadow.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"
#include "features/typed/typed.h"
#include "features/rcu/rcu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_ALL (SLUB_CACHE_HWCACHE_ALIGN | SLUB_CACHE_PANIC | SLUB_CACHE_TYPESAFE_BY_RCU | \
		   SLUB_CACHE_ACCOUNT | SLUB_CACHE_RECLAIM_ACCOUNT | SLUB_CACHE_NO_MERGE | \
		   FLAGS_DEBUG)
#define FLAGS_DEBUG (SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON | \
		     SLUB_CACHE_STORE_USER | SLUB_CACHE_TRACE | SLUB_CACHE_FAILSLAB)
/* Caches that differ in these cannot share slabs. */
#define FLAGS_SHAPE (SLUB_CACHE_TYPESAFE_BY_RCU | SLUB_CACHE_ACCOUNT | \
		     SLUB_CACHE_RECLAIM_ACCOUNT)
#define ALIGN_MAX 4096
#define SHEAF_MAX 4096

/* under cache_lock */
static struct slub_cache *dead_first;
static struct slub_cache **dead_last = &dead_first;
static struct line making;	/* making_begin() */

/* ---- what is asked for ---- */

static bool offsets_are_valid(const struct slub_cache_args *args)
{
	size_t word = sizeof(void *);

	if (args->useroffset > args->size ||
	    args->usersize > args->size - args->useroffset)
		return false;
	if (!args->has_free_pointer_offset)
		return args->free_pointer_offset == 0;
	return args->free_pointer_offset % word == 0 && args->size >= word &&
	       args->free_pointer_offset <= args->size - word &&
	       args->free_pointer_offset < LINK_OFFSET_MAX;
}

/* 0, or an errno with a message that says what would be right. */
static int args_check(const struct slub_cache_args *args)
{
	const char *what = NULL;

	if (!args || !name_is_valid(args->name, SLUB_CACHE_NAME_MAX))
		what = "the name must have 1 to 47 printable characters "
		       "without blanks";
	else if (!args->size || args->size > SLUB_CACHE_SIZE_MAX)
		what = "the size must be 1 to 262144 bytes";
	else if (args->align & (args->align - 1) || args->align > ALIGN_MAX)
		what = "the alignment must be a power of two up to 4096, or 0";
	else if (args->flags & ~(unsigned long)FLAGS_ALL)
		what = "unknown flag";
	else if (!offsets_are_valid(args))
		what = "free pointer and user window must lie in the object, "
		       "the free pointer at a multiple of 8 below 4096";
	else if (args->sheaf_length > SHEAF_MAX)
		what = "a sheaf has 4096 objects at the most";
	if (!what)
		return 0;
	log_message("slub_cache_create(%s): %s",
		    args && args->name ? args->name : "NULL", what);
	return EINVAL;
}

/* ---- structures ---- */

/* Word by word, since walks read some of them meanwhile. */
static void clear(struct slub_cache *cache, size_t from, size_t to)
{
	uint64_t *words = (uint64_t *)cache;

	for (size_t i = from / sizeof(*words); i < to / sizeof(*words); i++)
		__atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
}

struct slub_cache *cache_struct_alloc(void)
{
	const size_t next = offsetof(struct slub_cache, next);
	const size_t nodes = offsetof(struct slub_cache, nodes);
	struct slub_cache *cache;

	lock_acquire(&cache_lock);
	cache = dead_first;
	if (cache) {
		dead_first = cache->next_dead;
		if (!dead_first)
			dead_last = &dead_first;
	}
	lock_release(&cache_lock);
	if (!cache)
		return meta_alloc(sizeof(*cache));
	/*
	 * As new, but for the nodes, which are used again, and the way on to the next cache:
	 * at no moment are they missing, for a walk may stand on it.
	 */
	clear(cache, 0, next);
	clear(cache, next + sizeof(cache->next), nodes);
	clear(cache, nodes + sizeof(cache->nodes), sizeof(*cache));
	return cache;
}

void cache_struct_free(struct slub_cache *cache)
{
	lock_acquire(&cache_lock);
	cache->next_dead = NULL;
	*dead_last = cache;
	dead_last = &cache->next_dead;
	lock_release(&cache_lock);
}

void cache_drop_shadow(struct slub_cache *shadow)
{
	debug_cache_unmade(shadow);	/* dead from here on */
	cache_unmake(shadow);
	cache_struct_free(shadow);
}

/* ---- making ---- */

/* May what @args ask for be another cache?  Not if SLUB_DEBUG names it, which is to be watched. */
static bool may_share(const struct slub_cache_args *args)
{
	uint32_t own = (uint32_t)args->flags & FLAGS_DEBUG;

	return option_value(OPTION_merge) == 1 && !args->ctor &&
	       !args->usersize && !args->has_free_pointer_offset &&
	       !args->sheaf_length &&
	       !(debug_letters_for(option_text(OPTION_debug), args->name, own) &
		 DEBUG_LETTERS);
}

/* A variable is its program's, which destroys it. */
static bool can_share(const struct slub_cache *cache,
		      const struct slub_cache_args *args)
{
	unsigned long unlike = FLAGS_DEBUG | SLUB_CACHE_NO_MERGE;
	size_t align = max_size(args->align, sizeof(void *));

	return !cache->is_internal && !cache->ctor && !cache->isolate &&
	       !cache->place && !cache->front && !cache->has_sheaf_length &&
	       !cache_is_watched(cache) &&
	       !((cache->flags | args->flags) & unlike) &&
	       (cache->flags & FLAGS_SHAPE) == (args->flags & FLAGS_SHAPE) &&
	       !(args->flags & ~cache->flags & SLUB_CACHE_HWCACHE_ALIGN) &&
	       !cache->usersize && cache->align % align == 0 &&
	       args->size <= cache->object_size &&
	       cache->size - round_up(args->size, sizeof(void *)) <
		       sizeof(void *);
}

/*
 * One cache is made or destroyed at a time, or gets what it cannot share with
 * another.
 *
 * The thread that has the turn waits for no reader (slub/srcu.h): a reader may wait for the
 * turn, in the first allocation from a cache that is a variable.
 *
 * False: this thread has it, and a handler or a shrinker's callback asks.
 */
bool making_begin(void)
{
	return line_wait(&making, LINE_PATIENCE_ANY);
}

void making_end(void)
{
	line_end(&making);
}

/* What is there already of a cache that is to be made; NULL: nothing. */
struct found {
	struct slub_cache *same;	/* a live cache of that name */
	struct slub_cache *shared;	/* one that can be shared */
};

/*
 * Under cache_lock: shadows come and go without the turn, and one that has ended could
 * be another, with no name yet, before it is compared.
 */
static struct found find(const struct slub_cache_args *args)
{
	bool merge = may_share(args);
	struct found found = { NULL, NULL };
	struct cache_named *n;

	lock_acquire(&cache_lock);
	for (n = cache_named_first(args->name); n; n = cache_named_is(n->next, args->name)) {
		if (cache_is_live(n->cache) && !n->cache->is_left)
			found.same = n->cache;
	}
	for (struct slub_cache *c = cache_first(); c && merge; c = cache_next(c)) {
		if (cache_is_live(c) && can_share(c, args))
			found.shared = c;
	}
	lock_release(&cache_lock);
	return found;
}

/* A cache that a plugin has left becomes @front's; false: its name is free. */
static bool take_over(struct slub_cache *left, struct cache_front *front)
{
	bool is_like = front && !left->ctor && cache_is_like(left, front->args);

	lock_acquire(&cache_lock);
	if (is_like)
		front_join(front, left);
	else
		front_leave(left);
	lock_release(&cache_lock);
	/* Where programs pop and push; the variable has a copy of it. */
	if (is_like)
		cache_inline_slot_set(left);
	return is_like;
}

/*
 * @out: one that is there already, or NULL: a new one is to be made.  In the child of a
 * fork a cache for @place may be there whose maker did not come along to say so.
 */
static int look(const struct slub_cache_args *args, struct cache_front *front,
		struct slub_cache **place, struct slub_cache **out)
{
	struct found found = find(args);

	*out = NULL;
	if (found.same && front_is_gone(found.same)) {
		if (take_over(found.same, front)) {
			*out = found.same;
			return 0;
		}
		found = find(args);
	}
	if (found.same && place && found.same->place_of == place) {
		*out = found.same;
	} else if (found.same) {
		log_message("slub_cache_create(%s): there is a cache of that "
			    "name", args->name);
		return EEXIST;
	} else if (!front && found.shared) {
		*out = found.shared;
		return alias_add(found.shared, args->name);
	}
	return 0;
}

static int make(const struct slub_cache_args *args, struct cache_front *front,
		struct slub_cache **place, struct slub_cache **out)
{
	int err = look(args, front, place, out);
	struct slub_cache *cache;

	if (err || *out)
		return err;
	cache = cache_struct_alloc();
	if (!cache)
		return ENOMEM;
	cache->place_of = place;
	if (front)
		front_join(front, cache);
	err = cache_make(cache, args);
	if (err) {
		front_part(cache);
		cache_struct_free(cache);
	}
	*out = cache;
	return -err;
}

static int create(const struct slub_cache_args *args, struct cache_front *front,
		  struct slub_cache **place, struct slub_cache **out)
{
	int err = args_check(args);

	if (!err)
		err = -slub_begin();
	if (err)
		return err;
	if (!making_begin())
		return ENOMEM;
	*out = front ? front_cache(front) :
	       place ? __atomic_load_n(place, __ATOMIC_RELAXED) : NULL;
	/* One that is being destroyed is still in the list. */
	if (front && cache_is_dead(*out))
		err = EINVAL;
	else if (front && !cache_is_live(*out))
		*out = NULL;
	if (!err && !*out)
		err = make(args, front, place, out);
	/* release: a thread that finds the cache there finds it complete */
	if (!err && place)
		__atomic_store_n(place, *out, __ATOMIC_RELEASE);
	making_end();
	return err;
}

struct slub_cache *cache_create_at(const struct slub_cache_args *args,
				   struct slub_cache **place)
{
	struct slub_cache *cache = NULL;
	int err = create(args, NULL, place, &cache);

	if (!err)
		return cache;
	if (args && args->flags & SLUB_CACHE_PANIC) {
		log_always("slub_cache_create(%s): error %d, and SLUB_CACHE_PANIC "
			   "was asked for",
			   args->name ? args->name : "NULL", err);
		abort();
	}
	return fail_with(err);
}

SLUB_EXPORT struct slub_cache *
slub_cache_create_args(const struct slub_cache_args *args)
{
	return cache_create_at(args, NULL);
}

SLUB_EXPORT struct slub_cache *slub_cache_create(const char *name, size_t size,
						 size_t align,
						 unsigned long flags,
						 void (*ctor)(void *))
{
	struct slub_cache_args args = {
		.name = name, .size = size, .align = align, .flags = flags,
		.ctor = ctor,
	};

	return slub_cache_create_args(&args);
}

struct slub_cache *cache_make_static(struct cache_front *front)
{
	struct slub_cache *cache;
	int err = create(front->args, front, NULL, &cache);

	return err ? fail_with(err) : cache;
}

/* ---- destroying ---- */

static int report_object(void *object, void *arg)
{
	struct slub_cache *cache = arg;

	log_message("slub_cache_destroy(%s): object %p is still allocated",
		    cache->name, object);
	return 0;
}

/* Gives back all slabs that are empty; has it others? */
static bool slabs_give(struct slub_cache *cache)
{
	for (uint32_t n = 0; n < slab_nr_nodes(); n++)
		node_shrink(cache, cache->nodes[n]);
	shadows_shrink(cache);
	debug_shrink_twins(cache);
	return cache_has_slabs(cache) || debug_has_slabs(cache) ||
	       guard_nr_objects(cache, NULL) || shadows_have_slabs(cache);
}

/*
 * Empties a cache that this thread has shut, and looks: 0, nothing of it is in use; -EBUSY; or
 * -EAGAIN, it is not known.
 *
 * The program has freed its objects before, so each lies in a list, in a slab or in the hands
 * of a thread that empties lists.  That thread is a shrink of all caches, which
 * cache_flush_shut() waits for, or it holds the cache: a flush of it, or that shrink, and
 * nobody else could pin it since it was shut.  Each puts what it has in hand into its slab
 * before it lets go.  So one flush will do, and the second look is exact.
 */
static int drain(struct slub_cache *cache)
{
	bool flushed = cache_flush_shut(cache);

	if (!slabs_give(cache) && !cache_is_pinned(cache))
		return 0;
	/* It was waited for already, a second long. */
	if (!flushed)
		return -EAGAIN;
	/* Also for a slab that is out of its node, and not given back. */
	cache_wait_unpinned(cache);
	return slabs_give(cache) ? -EBUSY : 0;
}

int cache_look_unused(struct slub_cache *cache)
{
	struct cache_hold hold;
	int ret = cache_shut(cache, &hold);

	if (ret)
		return ret;
	cache_settle(cache);
	ret = drain(cache);
	cache_open(&hold);
	return ret;
}

/* 0: it has this user alone; 1: it has one user less; else -errno.  In the turn. */
static int user_drop(struct slub_cache *cache)
{
	if (!cache_is_live(cache) || cache->is_internal)
		return -EINVAL;
	if (cache->users <= 1)
		return 0;
	alias_drop(cache);
	return 1;
}

/* It gets no user any more, unless it has one: @may_end.  As user_drop(). */
static int end_in_turn(struct slub_cache *cache, struct cache_hold *hold, bool may_end)
{
	int ret = -EBUSY;

	if (making_begin()) {
		ret = user_drop(cache);
		if (!ret && may_end)
			/* What came to share it since it was drained may have left something. */
			ret = slabs_give(cache) ? -EBUSY : 0;
		if (!ret && may_end)
			debug_cache_unmade(cache);
		/* Of one that is shared it may be another's from here on. */
		if (ret)
			cache_open(hold);
		making_end();
	} else {
		cache_open(hold);
	}
	return ret;
}

/*
 * 0: it is dead now, and shut; 1: it has one user less; else -errno.  The turn is had for looks
 * only: others, who make caches, need not wait until this one is drained.
 */
static int destroy_begin(struct slub_cache *cache, struct cache_hold *hold)
{
	int ret = end_in_turn(cache, hold, false);

	if (ret)
		return ret;
	ret = drain(cache);
	if (!ret)
		return end_in_turn(cache, hold, true);
	cache_open(hold);
	return ret;
}

static int destroy(struct slub_cache *cache)
{
	struct cache_hold hold;
	/* As a reader it would wait for itself. */
	int ret = srcu_is_inside() ? -EDEADLK : cache_shut(cache, &hold);

	if (ret)
		return ret;
	cache_settle(cache);
	ret = destroy_begin(cache, &hold);
	if (ret == -EAGAIN || ret == -EBUSY)
		debug_report_left(cache);
	if (ret == -EBUSY && log_is_enabled())
		slub_cache_for_each_object(cache, report_object, cache);
	if (ret)
		return ret < 0 ? ret : 0;
	cache_settle(cache);
	shadows_drop(cache);
	cache->isolate = NULL;
	cache->migrate = NULL;
	group_place_set(&cache->place, NULL);
	cache_unmake(cache);
	cache_open(&hold);
	cache_struct_free(cache);
	return 0;
}

SLUB_EXPORT int slub_cache_destroy(struct slub_cache *cache)
{
	return cache ? destroy(cache_real(cache)) : 0;
}
