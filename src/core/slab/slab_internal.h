/* SPDX-License-Identifier: MIT */
/* What the files of slab share with each other only. */
#ifndef SLUB_SLAB_INTERNAL_H
#define SLUB_SLAB_INTERNAL_H

#include "features/hardened/hardened.h"
#include "core/slab/key.h"
#include "core/slab/state.h"
#include "core/slab/slab.h"

static inline void **link_of(const struct slub_cache *cache, void *object)
{
	return object_link(cache->link, object);
}

/* hardened.c: the next object of a chain; what makes no sense is reported. */
void *hardened_next(const struct slub_cache *cache, void *object);

static inline bool chain_is_encoded(const struct slub_cache *cache)
{
	return SLUB_CONFIG_HARDENED && link_is_in_object(cache->link) && !cache->debug;
}

/* suspect.c: what follows @object is none of @cache; says so, and ends the chain there. */
void *chain_damaged(const struct slub_cache *cache, void *object);
/* alloc.c: @more follows @chain of @nr objects; false: one was freed twice, which was reported */
bool chain_append(struct slub_cache *cache, void *chain, uint32_t nr, void *more);
/* No list has as many objects, and no slab. */
#define CHAIN_MOST ((uint32_t)1 << 20)
/* Has it @most objects at the most?  False: it goes round, which was reported, and is given up. */
bool chain_ends(struct slub_cache *cache, void *chain, uint32_t most);

/* Is @next, which a link names, an object of @cache, whose links lie in objects? */
static inline bool link_is_sound(const struct slub_cache *cache, const void *next)
{
	return pagemap_get(next) == cache->slot &&
	       cache_is_at_object(cache, next);
}

/* alloc.c: the same with a look at what comes. */
void *chain_next_sound(const struct slub_cache *cache, void *object);

/* What follows @object in its chain. */
static inline void *chain_next(const struct slub_cache *cache, void *object)
{
	if (chain_is_encoded(cache))
		return hardened_next(cache, object);
	return SLUB_CONFIG_CHECKS ? chain_next_sound(cache, object) :
				    *link_of(cache, object);
}

/*
 * The same for loops, mostly without a call: the right check word of @object, at which somebody has
 * looked, speaks for the link, and what lies in the slab of @object is of its cache.
 */
static always_inline void *chain_next_near(const struct slub_cache *cache, void *object)
{
	void *next;

	if (!KEYS || !link_is_in_object(cache->link) || cache->debug)
		return chain_next(cache, object);
	next = *link_of(cache, object);
	if (cache->has_keys)
		return likely(!next || key_seems_right(cache, next)) ?
			       next : chain_damaged(cache, object);
	if (!next)
		return NULL;
	if (likely((((uintptr_t)next ^ (uintptr_t)object) <= cache->slab_mask ||
		    pagemap_get(next) == cache->slot) &&
		   cache_is_at_object(cache, next)))
		return next;
	return chain_next_sound(cache, object);
}

static inline void chain_set_next(const struct slub_cache *cache, void *object,
				  void *next)
{
	void **place = link_of(cache, object);

	if (cache_is_keyed(cache))
		link_set_keyed(place, next);
	else if (chain_is_encoded(cache))
		*place = (void *)link_encode(cache->list_slot, place, next);
	else
		*place = next;
}

/* @object leaves its chain for the program: it has no link any more. */
static inline void *chain_unchained(const struct slub_cache *cache,
				    void *object)
{
	if (SLUB_CONFIG_HARDENED && object && !cache->debug)
		return hardened_unchained((struct slub_cache *)cache, object);
	if (cache_has_keys(cache) && object)
		key_drop(cache, object);
	return object;
}

/* The first page of the slab that @object lies in. */
static inline struct page *slab_of(const struct slub_cache *cache, const void *object)
{
	return page_of((void *)round_down((uintptr_t)object, PAGE_BYTES << cache->order));
}

/*
 * A chain gets as long as cache->capacity, but a cache that only frees shortens
 * its chains bit by bit: the objects in them when the frees end keep a slab
 * each from being given back, in the worst case.  So it may stay as long as
 * that is an eighth of the node's slabs.  (Down to CAPACITY_MIN in any case, a
 * program that frees 45,000 nodes of a tree goes behind the list 2,500 times and
 * not 300.)  A refill shows that objects are wanted again, and doubles the length.
 */
#define CAPACITY_SHARE 8
#define CAPACITY_MIN 16

static inline int32_t capacity_now(const struct slub_cache *cache)
{
	return __atomic_load_n(&cache->capacity_now, __ATOMIC_RELAXED);
}

/* Objects in a chain that a CPU has given away, about; see list_given(). */
static inline uint32_t chain_length(const struct slub_cache *cache)
{
	return list_given(capacity_now(cache));
}

/*
 * So many objects are enough for a refill: to put two chains together is to walk one of them, at
 * a miss for each object (docs/notes.md, "A refill that is content").
 */
#define REFILL_ENOUGH 32
static inline uint32_t refill_wanted(const struct slub_cache *cache)
{
	return (uint32_t)min_size(((uint32_t)capacity_now(cache) + 1) / 2, REFILL_ENOUGH);
}

/* alloc.c: a thread that finds a list empty has asked for @bytes */
void slack_note(struct slub_cache *cache, size_t bytes);
/* alloc.c: the main list was found empty */
void capacity_grow(struct slub_cache *cache);
/* Chains get as long as @n objects from now on. */
void capacity_set(struct slub_cache *cache, int32_t n);
/* Lists of @cache are not counted until one is found empty: it ends, or others are wanted more. */
void capacity_forget(struct slub_cache *cache);
/* geometry.c: the program is done with what it has: as short as those of a new cache */
void capacity_restart(struct slub_cache *cache);

static inline void capacity_decay(struct slub_cache *cache,
				  const struct cache_node *node)
{
	size_t slabs = __atomic_load_n(&node->nr_slabs, __ATOMIC_RELAXED);
	int32_t n = capacity_now(cache);

	if ((size_t)n > max_size(slabs / CAPACITY_SHARE, CAPACITY_MIN))
		capacity_set(cache, n - n / 16);
}

/* alloc.c, free.c: chains between a CPU and what is behind it */
void *chain_fetch(struct slub_cache *cache, struct cache_node *node, uint32_t *nr);
/* ... not from this CPU's spare list */
void *chain_fetch_far(struct slub_cache *cache, struct cache_node *node, uint32_t *nr);
/* ... from slabs, of other nodes if need be; *@nr: of how many objects */
void *chain_refill(struct slub_cache *cache, struct cache_node *node, uint32_t *nr);
void chain_store(struct slub_cache *cache, void *chain, uint32_t nr);
/* Of about @nr objects. */
void chain_retire(struct slub_cache *cache, void *chain, uint32_t nr);
/* Cuts @chain behind @most objects, or at its end; *@nr: how many.  Returns what is behind. */
void *chain_cut(struct slub_cache *cache, void *chain, int32_t most, int32_t *nr);
/* About @nr objects to this CPU's barn, else to the slabs; true: the barn has them. */
bool chain_give(struct slub_cache *cache, void *chain, uint32_t nr);

/* node.c.  Objects for a CPU that has none: a chain of *@nr; NULL: there is no memory. */
void *node_refill(struct slub_cache *cache, struct cache_node *node, uint32_t *nr);
/* Gives the node a slab to carve; false: no memory. */
bool node_grow(struct slub_cache *cache, struct cache_node *node);
/*
 * The next object of a slab that is as the system gave it: it reads as zero.  NULL: there is
 * none, or what was freed goes first; *@may_grow: the node has nothing at all.
 */
void *node_carve_fresh(struct slub_cache *cache, struct cache_node *node, bool *may_grow);
/* Gives @nr objects of one slab, @head to @tail, back to it. */
void slab_free_objects(struct slub_cache *cache, struct page *slab,
		       void *head, void *tail, uint32_t nr);
/* The same, where nothing follows @tail. */
void slab_free_list(struct slub_cache *cache, struct page *slab, void *head, void *tail,
		    uint32_t nr);
/* Takes the whole freelist of @slab; @bits are its new state bits. */
void *take_freelist(struct slub_cache *cache, struct page *slab,
		    uintptr_t bits, uint32_t *nr);
/* A slab came (@n 1) or went (-1); under the node's lock. */
void node_count_slab(struct slub_cache *cache, struct cache_node *node, int n);
/* Back to the page layer; without locks. */
void slab_discard(struct slub_cache *cache, struct page *slab);
void partial_add(struct cache_node *node, struct page *slab, bool tail);
void partial_remove(struct cache_node *node, struct page *slab);
/* Frees slabs that are empty, whatever min_partial says. */
void node_shrink(struct slub_cache *cache, struct cache_node *node);
struct cache_node *node_current(struct slub_cache *cache);

/* shrink.c */
void shrink_after_fork(void);
/* Lists and barns are being emptied: the next cache whose barns are; NULL: no more. */
extern struct slub_cache *_Atomic slab_emptying SLUB_INTERNAL;
static inline bool slab_is_emptying(void)
{
	return unlikely(__atomic_load_n(&slab_emptying, __ATOMIC_RELAXED) != NULL);
}
/* Between them this thread may have objects in hand that are free. */
void shrink_begin(void);
void shrink_end(void);
/* First, by a thread that does not do so on the way of another thread's flush. */
void shrink_lets_flushers_in(void);
/* Has nobody objects in hand?  As of a moment ago; to be asked behind a look at lists. */
bool shrinks_are_over(void);
/* Waits for that, a tenth of a second at the most; this thread is none of them. */
void shrinks_wait(void);
/* Are main and spare list of CPU number @cid empty, as of a moment ago? */
bool cache_list_is_empty(const struct slub_cache *cache, uint32_t cid);
/* What lies in the lists of all CPUs goes to its slabs; @cache is pinned or malloc's. */
void cache_empty_lists(struct slub_cache *cache);
/*
 * Empties this CPU's lists and all barns of @cache, which is pinned or malloc's, and
 * gives back what slabs are empty; false: a flush is waited for.
 */
bool cache_empty(struct slub_cache *cache);
/* Gives one chain of its barns to its slabs; false: there is none, or it may not be. */
bool cache_empty_barns_by_one(struct slub_cache *cache);

/*
 * holes.c: pages that went back to the system while objects on others of their slab
 * are in use.  Objects that touch one are uncarved again: not counted in
 * slab->count, on no freelist.  A slab with holes has a bit for each page in its
 * descriptor; one without has carved its first slab->count objects.
 */
#define HOLES_ORDER_MAX 6	/* as many pages as a word has bits */

static inline uint64_t slab_holes(const struct slub_cache *cache, const struct page *slab)
{
	return link_is_in_object(cache->link) && !cache->debug ?
		       slab->holes : 0;
}

/* suspect.c: of a slab that is looked at without the lock, and may have gone */
uint64_t slab_holes_peek(const struct slub_cache *cache, const struct page *slab);

static inline void slab_holes_clear(const struct slub_cache *cache,
				    struct page *slab)
{
	if (link_is_in_object(cache->link))
		slab->holes = 0;
}

/*
 * Of a slab whose objects have no link in them: some of its freelist have no memory behind
 * them, as holes.c notes.
 */
static inline bool slab_has_purged(const struct slub_cache *cache, const struct page *slab)
{
	return !link_is_in_object(cache->link) && unlikely(slab->purged_from);
}

static inline void slab_purged_clear(const struct slub_cache *cache, struct page *slab)
{
	*page_looked(slab) = 0;
	if (link_is_in_object(cache->link))
		return;
	slab->purged_from = 0;
	slab->nr_purged = 0;
}

/* The freelist has been taken: these may get memory again. */
static inline void slab_purged_taken(struct slub_cache *cache, struct page *slab)
{
	if (slab_has_purged(cache, slab))
		objects_taken(cache, slab);
}

/* Does object @i touch one of @holes?  It is smaller than a page. */
static inline bool object_is_hole(const struct slub_cache *cache,
				  uint64_t holes, size_t i)
{
	size_t first = i * cache->size / PAGE_BYTES;
	size_t last = (i * cache->size + cache->size - 1) / PAGE_BYTES;

	return unlikely(holes) && (holes >> first | holes >> last) & 1;
}

/* Objects are numbered below it. */
static inline uint32_t slab_objects_end(const struct slub_cache *cache,
					const struct page *slab)
{
	return slab_holes(cache, slab) ? cache->objects : slab->count;
}

/* free.c */
/*
 * Gives a chain that is charged to nobody, for barn_put() has refused it, back to its
 * slabs; returns how many objects it had.
 */
uint32_t chain_settled_to_slabs(struct slub_cache *cache, void *chain);
/* The same of a list that is emptied without a free that found it full. */
uint32_t chain_flush(struct slub_cache *cache, void *chain);

/* barn.c */
/* That of CPU number @cid; NULL: there is no such CPU, or the cache has no barns. */
struct barn *barn_of(const struct slub_cache *cache, uint32_t cid);
/* Chains in @barn, as of a moment ago. */
uint32_t barn_nr(const struct barn *barn);
/* A chain of about *@nr objects for this CPU; NULL: no CPU has one. */
void *barn_get(struct slub_cache *cache, uint32_t *nr);
/* False: there is no room. */
bool barn_put(struct slub_cache *cache, void *chain, uint32_t nr);
/* Does each of the first links of @chain lead to another slab? */
bool chain_is_scattered(struct slub_cache *cache, void *chain);
/* The oldest chain of CPU number @cid, to empty its barn. */
void *barn_take(struct slub_cache *cache, uint32_t cid);
/* In a forked child. */
void barns_after_fork(void);

/* geometry.c: order, objects, lists; from size, object_size, link */
void cache_choose_geometry(struct slub_cache *cache, uint32_t sheaf_length);
extern uint32_t slab_nodes SLUB_INTERNAL;	/* const after start */
static inline uint32_t slab_nr_nodes(void)
{
	return slab_nodes;
}

extern struct lock cache_lock SLUB_INTERNAL;

/* What walks glance at, of a cache that is being made; see struct slub_cache. */
static inline void cache_sizes_set(struct slub_cache *cache, size_t size, size_t object_size)
{
	__atomic_store_n(&cache->size, (uint32_t)size, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->object_size, (uint32_t)object_size, __ATOMIC_RELAXED);
}

static inline void cache_accounted_set(struct slub_cache *cache, bool is_accounted)
{
	__atomic_store_n(&cache->is_accounted, is_accounted, __ATOMIC_RELAXED);
}

/* The library's own, and what stands for @root, if there is one. */
static inline void cache_root_set(struct slub_cache *cache, struct slub_cache *root)
{
	__atomic_store_n(&cache->root, root, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->is_internal, true, __ATOMIC_RELAXED);
}

/* From size, object_size, link and debug to a cache in the list. */
int cache_publish(struct slub_cache *cache, uint32_t sheaf_length);

/* In every slow path, with no lock held. */
static inline void debug_mailbox_poll(void)
{
	const char *box = (const char *)&slub_debug_mailbox;
	uint32_t state = __atomic_load_n((const uint32_t *)(box + DEBUG_MAILBOX_STATE_AT),
					 __ATOMIC_RELAXED);

	if (unlikely((state & DEBUG_MAILBOX_STATE_MASK) == DEBUG_MAILBOX_STATE_REQUEST))
		debug_mailbox_answer();
}

/* ---- watched caches: features/watch/watch.h ---- */

static inline struct slub_cache *cache_twin(const struct slub_cache *cache)
{
	/* acquire: pairs with the release in cache_debug_switch() */
	return __atomic_load_n(&cache->twin, __ATOMIC_ACQUIRE);
}

/* Its shadow at @place, complete; NULL: there is none. */
static inline struct slub_cache *cache_shadow(const struct slub_cache *cache,
					      enum shadow_place place)
{
	/* acquire: pairs with shadow_get() */
	return __atomic_load_n(&cache->shadows[place], __ATOMIC_ACQUIRE);
}

/* The cache that a program knows: what this one stands for, or the cache itself. */
static inline struct slub_cache *cache_original(struct slub_cache *cache)
{
	return cache && cache->root ? cache->root : cache;
}

/* Is it one that stands for another and has watched objects?  It stays what it is. */
static inline bool cache_is_twin(const struct slub_cache *cache)
{
	return __atomic_load_n(&cache->debug, __ATOMIC_RELAXED);
}

/* Are its objects, or those that it hands out now, watched? */
static inline bool cache_is_watched(const struct slub_cache *cache)
{
	return unlikely(cache->debug || cache_twin(cache));
}

/*
 * May a chain of freed objects go onto the lists of @cache as it is?  If not, cache_free()
 * has to look at each object.  Owners do not matter here: account_free_many() settles
 * those of many objects at a time.
 */
static inline bool cache_takes_chains(const struct slub_cache *cache)
{
	return !SLUB_CONFIG_HARDENED && !cache->is_sampled &&
	       !cache->is_reserve && !cache_is_watched(cache) &&
	       !slub_thread.locks_held;
}

/*
 * For a caller that may have filled a list of @cache: empties it again if the cache was
 * switched to debugging meanwhile.
 */
static inline void cache_filled(struct slub_cache *cache)
{
	compiler_barrier();
	if (unlikely(cache_twin(cache) != NULL))
		cache_flush(cache);
}

/* pin.c: what this thread does with a cache, for a while; on its stack */
struct cache_hold {
	struct slub_cache *cache;
	uint32_t *count;	/* in which it is counted */
	struct cache_hold *next;
};
/* @cache does not end meanwhile, nor its root.  False: it is dead, or about to be. */
bool cache_pin(struct slub_cache *cache, struct cache_hold *pin);
/* The same of any cache that a walk finds; malloc's own never end, so those are not pinned. */
bool cache_pin_any(struct slub_cache *cache, struct cache_hold *pin);
/*
 * The same for a thread with an object of it in hand, so that it cannot end: also while it
 * is shut.  The destroying thread waits for that when it has shut the cache and emptied
 * its lists (drain()).
 */
void cache_pin_held(struct slub_cache *cache, struct cache_hold *pin);
bool cache_is_pinned(const struct slub_cache *cache);
/* Until it is not; pins are short. */
void cache_wait_unpinned(struct slub_cache *cache);
/* ... which @slab is of, whose cache @cache was when a walk found it; false also: no more. */
bool cache_pin_slab(struct slub_cache *cache, const struct page *slab,
		    struct cache_hold *pin);
void cache_unpin(struct cache_hold *pin);
/*
 * Nobody pins @cache from here on, until cache_open(), but who has an object of it in hand.
 * Returns 0, -EINVAL (not live) or -EDEADLK (this thread holds it, or moves objects).
 */
int cache_shut(struct slub_cache *cache, struct cache_hold *hold);
void cache_open(struct cache_hold *hold);
/* Has this thread pinned or shut it? */
bool cache_is_held(const struct slub_cache *cache);
/* Any? */
bool thread_holds_cache(void);
/* In a forked child: those of other threads are none. */
void holds_after_fork(void);
/* names.c, under cache_lock: @name, which stays, is one of @cache, until it leaves. */
void cache_named_enter(struct cache_named *named, const char *name, struct slub_cache *cache);
void cache_named_leave(struct cache_named *named);
/* The caches of that name: `for (n = first(name); n; n = is(n->next, name))`. */
struct cache_named *cache_named_first(const char *name);
struct cache_named *cache_named_is(struct cache_named *named, const char *name);
void cache_named_forget(void);
/* node.c: to the page layer, at once */
void slab_give_back(struct page *slab);

#endif
