/* SPDX-License-Identifier: MIT */
/*
 * Emptying sparse slabs by moving their objects.
 *
 * A chunk of slabs is taken off the partial list and *isolated*: frozen without
 * being the carving slab, so nobody allocates from them, none of them goes back
 * to the page layer, and frees to them take no lock.  The fullest that together
 * have room for the rest are kept, and what is free on them becomes the new
 * places; from the others each object is moved.  Then all go back where they
 * belong.  So no lock is held while the program's functions run, and what they
 * get wrong harms this cache's objects at most.
 *
 * While an accounted object is moved, both of its places are charged to its owner.
 * So the charge comes back whichever of them is freed, by any thread at any time.
 *
 * Locks: node->lock while slabs are isolated and put back.
 */
#include "core/page/purge.h"
#include "features/groups/owned.h"
#include "features/typed/typed.h"
#include "features/rcu/rcu.h"
#include "features/movable/movable.h"
#include "features/idle/idle.h"

#include <errno.h>
#include <string.h>

/* Slabs isolated at once. */
#define CHUNK 256
/* Slabs that are fuller are left alone under memory pressure; percent. */
#define PRESSURE_FILL 50

struct moving {
	struct slub_cache *cache;
	struct cache_node *node;
	uint32_t max_fill;
	uint64_t deadline_ns;	/* 0: none */
	/* the fullest first */
	struct page *slabs[CHUNK];
	uint32_t inuse[CHUNK];
	uint32_t nr;
	uint32_t nr_kept;	/* these take what the others have */
	uint32_t next_kept;
	void *room;		/* a chain of objects from kept slabs */
	size_t nr_freed;	/* slabs */
};

/* ---- one mover at a time ---- */

int movers_enter(struct slub_cache *cache, struct cache_hold *pin, bool moves)
{
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_DEFRAG)
		return -EDEADLK;
	if (!cache_pin(cache, pin))
		return cache_is_live(cache) ? -EBUSY : -EINVAL;
	/* It is not changed while there are movers. */
	if (moves && !cache->isolate) {
		cache_unpin(pin);
		return -EOPNOTSUPP;
	}
	slub_thread.flags |= THREAD_IN_DEFRAG;
	return 0;
}

void movers_leave(struct cache_hold *pin)
{
	slub_thread.flags &= ~(uint32_t)THREAD_IN_DEFRAG;
	cache_unpin(pin);
}

static bool is_over(const struct moving *m)
{
	return __atomic_load_n(&cache_original(m->cache)->closers, __ATOMIC_RELAXED) ||
	       (m->deadline_ns && os_clock_ns() >= m->deadline_ns);
}

/* ---- isolating slabs, and putting them back ---- */

static void state_bits_set(struct page *slab, uintptr_t bits)
{
	struct double_word old = slab_read(slab), new;

	do {
		new = old;
		new.second &= ~(STATE_FROZEN | STATE_LISTED);
		new.second |= bits;
	} while (!slab_update(slab, &old, new));
}

/*
 * Under the lock: has the node objects that a constructor has not made yet?  isolate
 * may tell by what it makes, and would take them for something.  So nothing is moved
 * then, nor in a child whose parent was forked in the middle of it.
 */
bool node_has_raw(const struct cache_node *node)
{
	/* acquire: what was made is seen */
	return __atomic_load_n(&node->nr_constructing, __ATOMIC_ACQUIRE);
}

void slab_isolate(struct cache_node *node, struct page *slab)
{
	partial_remove(node, slab);
	state_bits_set(slab, STATE_FROZEN);
}

/* Takes up to @left slabs from the front of the partial list. */
static void isolate_slabs(struct moving *m, size_t left)
{
	m->nr = 0;
	lock_acquire(&m->node->lock);
	if (unlikely(node_has_raw(m->node)))
		left = 0;
	while (left-- && m->nr < CHUNK && !list_is_empty(&m->node->partial)) {
		struct page *slab = container_of(m->node->partial.next,
						 struct page, list);

		slab_isolate(m->node, slab);
		m->slabs[m->nr++] = slab;
	}
	lock_release(&m->node->lock);
}

/* Under the lock; true: it is empty, and now the caller's. */
static bool put_back_locked(struct slub_cache *cache, struct cache_node *node,
			    struct page *slab, bool at_end)
{
	struct double_word state = slab_read(slab);

	if (state_inuse(state) == 0) {
		/* Nobody has an object of it, so nobody else changes it. */
		state_bits_set(slab, 0);
		node->nr_carved -= slab->count;
		node_count_slab(cache, node, -1);
		return true;
	}
	/* An object that comes back from here on finds the lock taken. */
	state_bits_set(slab, 0);
	state = slab_read(slab);
	if (state.first || slab->count < cache->objects) {
		state_bits_set(slab, STATE_LISTED);
		/* Full ones are filled up first, and others may become empty. */
		partial_add(node, slab, at_end || state_inuse(state) * 2 < cache->objects);
	}
	return false;
}

bool slab_put_back(struct slub_cache *cache, struct cache_node *node, struct page *slab,
		   bool at_end)
{
	bool is_empty;

	lock_acquire(&node->lock);
	is_empty = put_back_locked(cache, node, slab, at_end);
	lock_release(&node->lock);
	if (is_empty)
		slab_discard(cache, slab);
	return is_empty;
}

static void put_back(struct moving *m, bool at_end)
{
	for (uint32_t i = 0; i < m->nr; i++)
		m->nr_freed += slab_put_back(m->cache, m->node, m->slabs[i], at_end);
	m->nr = 0;
}

/* ---- which to empty ---- */

static void sort_by_fill(struct moving *m)
{
	for (uint32_t i = 0; i < m->nr; i++)
		m->inuse[i] = state_inuse(slab_read(m->slabs[i]));
	for (uint32_t i = 1; i < m->nr; i++) {
		struct page *slab = m->slabs[i];
		uint32_t inuse = m->inuse[i], j = i;

		for (; j && m->inuse[j - 1] < inuse; j--) {
			m->inuse[j] = m->inuse[j - 1];
			m->slabs[j] = m->slabs[j - 1];
		}
		m->inuse[j] = inuse;
		m->slabs[j] = slab;
	}
}

/* Keeps the fullest that have room for all objects of the others. */
static void choose_kept(struct moving *m)
{
	size_t room = 0, needed = 0;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < m->nr; i++)
		needed += m->inuse[i];
	for (; kept < m->nr; kept++) {
		bool is_sparse = (size_t)m->inuse[kept] * 100 <=
				 (size_t)m->max_fill * m->cache->objects;

		if (is_sparse && room >= needed)
			break;
		needed -= m->inuse[kept];
		room += m->slabs[kept]->count - m->inuse[kept];
	}
	m->nr_kept = kept;
	m->next_kept = 0;
}

/* ---- moving ---- */

static void room_add(struct moving *m, void *object)
{
	chain_set_next(m->cache, object, m->room);
	m->room = object;
}

static void *room_take(struct moving *m)
{
	void *object;

	while (!m->room && m->next_kept < m->nr_kept) {
		uint32_t nr = 0;

		m->room = chain_head(m->cache, take_freelist(m->cache, m->slabs[m->next_kept++],
							     STATE_FROZEN, &nr));
		stat_add_many(m->cache, STAT_OBJECTS_OUT, nr);
	}
	object = m->room;
	if (object)
		m->room = chain_next(m->cache, object);
	return chain_unchained(m->cache, object);
}

/* Did the program free @object, which was ours to free? */
static bool was_freed(struct slub_cache *cache, const void *object)
{
	if (likely(percpu_head(cache->list_slot) != object))
		return false;
	stat_add(cache, STAT_DOUBLE_FREE);
	log_message("slub_cache_defrag(%s): the program's function freed %p, "
		    "which it must not; not freed again", cache->name, object);
	return true;
}

static void stay(struct moving *m, void *to)
{
	stat_add(m->cache, STAT_OBJECTS_STAYED);
	if (!to)
		return;
	/* The program may have written to it. */
	hardened_fill(m->cache, to);
	room_add(m, to);
}

static void migrate_one(struct moving *m, struct page *slab, void *from,
			void *to)
{
	struct slub_cache *cache = m->cache;
	int result;

	account_both(cache, from, to);
	result = cache->migrate(cache_public(cache), from, to,
				cache->mobility_arg);
	if (result != SLUB_MIGRATED && result != SLUB_MIGRATED_FREE_LATER) {
		stay(m, !was_freed(cache, to) && account_one_less(cache, to) ?
				to : NULL);
		return;
	}
	stat_add(cache, STAT_OBJECTS_MOVED);
	if (result == SLUB_MIGRATED && !was_freed(cache, from) &&
	    account_one_less(cache, from)) {
		hardened_fill(cache, from);
		slab_free_objects(cache, slab, from, from, 1);
	}
}

/* @nr objects of @slab; false: there is no room for more. */
static bool migrate_batch(struct moving *m, struct page *slab, void **objects,
			  size_t nr)
{
	void *asked[SLUB_ISOLATE_MAX], *to[SLUB_ISOLATE_MAX];
	struct slub_cache *cache = m->cache;
	size_t n = 0;

	while (n < nr && (to[n] = room_take(m)))
		n++;
	memcpy(asked, objects, n * sizeof(*asked));
	if (n)
		cache->isolate(cache_public(cache), objects, n,
			       cache->mobility_arg);
	for (size_t i = 0; i < n; i++) {
		if (objects[i] == asked[i]) {
			migrate_one(m, slab, asked[i], to[i]);
			continue;
		}
		if (objects[i])
			log_message("slub_cache_defrag(%s): isolate made %p of "
				    "%p; taken as NULL", cache->name,
				    objects[i], asked[i]);
		stay(m, to[i]);
	}
	return n == nr;
}

/* False: no room, or no time. */
static bool migrate_slab(struct moving *m, struct page *slab)
{
	void *objects[SLUB_ISOLATE_MAX], *object;
	struct slab_iterator iterator;
	uint32_t nr = 0;

	if (!slab_iterate(&iterator, m->cache, slab))
		return true;
	while ((object = slab_next(&iterator)) != NULL) {
		objects[nr++] = object;
		if (nr < SLUB_ISOLATE_MAX)
			continue;
		if (!migrate_batch(m, slab, objects, nr) || is_over(m))
			return false;
		nr = 0;
	}
	return !nr || migrate_batch(m, slab, objects, nr);
}

/* False: that was the last one. */
static bool chunk(struct moving *m, size_t left)
{
	bool goes_on = true;

	isolate_slabs(m, left);
	inject(INJECT_isolate);
	sort_by_fill(m);
	choose_kept(m);
	/* The sparsest first, in case that time runs out. */
	for (uint32_t i = m->nr; goes_on && i > m->nr_kept; i--)
		goes_on = migrate_slab(m, m->slabs[i - 1]) && !is_over(m);
	chain_flush(m->cache, m->room);
	m->room = NULL;
	put_back(m, false);
	return !is_over(m);
}

/* Slabs freed; the caller is one of the cache's movers. */
static size_t move_objects(struct slub_cache *cache, uint32_t max_fill,
			   uint64_t deadline_ns)
{
	struct moving m = { .cache = cache, .max_fill = max_fill,
			    .deadline_ns = deadline_ns };
	bool goes_on = true;

	for (uint32_t n = 0; goes_on && n < slab_nr_nodes(); n++) {
		size_t left;

		m.node = cache->nodes[n];
		left = __atomic_load_n(&m.node->nr_partial, __ATOMIC_RELAXED);
		for (; goes_on && left; left -= min_size(left, CHUNK))
			goes_on = chunk(&m, left);
	}
	return m.nr_freed;
}

/* ---- free objects on slabs that are in use ---- */

bool cache_bytes_may_go(const struct slub_cache *cache)
{
	if (!cache_is_live(cache) || cache->ctor || cache->debug ||
	    cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU)
		return false;
	return !link_is_in_object(cache->link) || holes_are_allowed(cache);
}

size_t slab_purge_free(struct slub_cache *cache, struct page *slab, struct purge *purge)
{
	if (link_is_in_object(cache->link))
		return holes_make(cache, slab, purge);
	return objects_purge(cache, slab, purge);
}

/* Slabs isolated at once, for that. */
#define PURGE_CHUNK 32

/* The slabs of the list as it is; false: time is up. */
static bool purge_node(struct moving *m)
{
	size_t left = __atomic_load_n(&m->node->nr_partial, __ATOMIC_RELAXED);

	struct purge purge;

	purge_begin(&purge, false);
	for (; left && !is_over(m); left -= min_size(left, PURGE_CHUNK)) {
		isolate_slabs(m, min_size(left, PURGE_CHUNK));
		for (uint32_t i = 0; i < m->nr; i++)
			slab_purge_free(m->cache, m->slabs[i], &purge);
		/* All to the end: else the fuller half came again in place of the others. */
		put_back(m, true);
	}
	return !left;
}

static bool purge_nodes(struct slub_cache *cache, uint64_t deadline_ns, int node)
{
	struct moving m = { .cache = cache, .deadline_ns = deadline_ns };
	bool done = true;

	shrink_begin();
	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		if (node != SLUB_NODE_ANY && n != (uint32_t)node)
			continue;
		m.node = cache->nodes[n];
		done = purge_node(&m) && done;
	}
	shrink_end();
	return done;
}

static bool purge_cache(struct slub_cache *cache, uint64_t deadline_ns, int node)
{
	struct cache_hold pin;
	bool done = true;

	/* Looked at when it is pinned: it could become one with a constructor. */
	if (movers_enter(cache, &pin, false))
		return true;
	if (cache_bytes_may_go(cache))
		done = purge_nodes(cache, deadline_ns, node);
	movers_leave(&pin);
	return done;
}

void cache_purge_objects(struct slub_cache *cache)
{
	purge_cache(cache, 0, SLUB_NODE_ANY);
}

void slab_purge_objects(uint64_t deadline_ns, int node)
{
	/* How many caches a call with a deadline has done; the next one goes on there. */
	static uint32_t nr_done;
	uint32_t skip = deadline_ns ? __atomic_exchange_n(&nr_done, 0, __ATOMIC_RELAXED) : 0;
	uint32_t nr = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c), nr++) {
		if (nr < skip || purge_cache(c, deadline_ns, node))
			continue;
		__atomic_store_n(&nr_done, nr, __ATOMIC_RELAXED);
		return;
	}
}

static long defrag(struct slub_cache *cache, unsigned int max_fill)
{
	struct cache_hold pin;
	size_t nr_freed;
	int err = movers_enter(cache, &pin, true);

	if (err)
		return err;
	/* What lies in lists is free, and can be told only in its slab. */
	deferred_drain();
	cache_flush(cache);
	nr_freed = move_objects(cache, max_fill, 0);
	cache_shrink_nodes(cache);
	movers_leave(&pin);
	block_flush(COLLECT_LISTS);
	page_purge_regret();
	return (long)nr_freed;
}

/* ---- what programs call ---- */

static bool is_complete(const struct slub_cache *cache,
			slub_isolate_fn *isolate, slub_migrate_fn *migrate)
{
	return cache && !isolate == !migrate;
}

static int mobility_set(struct slub_cache *cache, slub_isolate_fn *isolate,
			slub_migrate_fn *migrate, void *arg)
{
	int err = -EBUSY;

	/* It must not become another's as well between the look and the change. */
	if (!making_begin())
		return err;
	if (cache->users == 1) {
		cache->isolate = isolate;
		cache->migrate = migrate;
		cache->mobility_arg = arg;
		err = 0;
	}
	making_end();
	return err;
}

SLUB_EXPORT int slub_cache_setup_mobility(struct slub_cache *cache,
					  slub_isolate_fn *isolate,
					  slub_migrate_fn *migrate, void *arg)
{
	struct cache_hold hold;
	int err;

	if (!is_complete(cache, isolate, migrate)) {
		log_message("slub_cache_setup_mobility: a cache, and both "
			    "functions or neither, must be given");
		return -EINVAL;
	}
	cache = cache_usable(cache);
	if (!cache || cache->is_internal)
		return -EINVAL;
	err = cache_shut(cache, &hold);
	if (err)
		return err;
	err = mobility_set(cache, isolate, migrate, arg);
	cache_open(&hold);
	return err;
}

SLUB_EXPORT long slub_cache_defrag(struct slub_cache *cache,
				   unsigned int max_fill)
{
	if (!cache || max_fill > 100)
		return -EINVAL;
	return defrag(cache_real(cache), max_fill);
}

SLUB_EXPORT long slub_defrag_all(unsigned int max_fill)
{
	long nr_freed = 0;

	if (max_fill > 100)
		return -EINVAL;
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_DEFRAG)
		return -EDEADLK;
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		long n = defrag(c, max_fill);

		nr_freed += n > 0 ? n : 0;
	}
	return nr_freed;
}

size_t defrag_until(uint64_t deadline_ns)
{
	size_t bytes = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		struct cache_hold pin;
		size_t nr_freed;

		/* Its lists were emptied by the walk before. */
		if (os_clock_ns() >= deadline_ns || movers_enter(c, &pin, true))
			continue;
		nr_freed = move_objects(c, PRESSURE_FILL, deadline_ns);
		bytes += nr_freed * (PAGE_BYTES << c->order);
		movers_leave(&pin);
	}
	if (bytes)
		block_flush(COLLECT_LISTS);
	return bytes;
}

/* ---- fork ---- */

static void relist(struct slub_cache *cache, struct page *slab, void *arg)
{
	struct cache_node *node = cache->nodes[page_node(slab)];
	struct double_word state = slab_read(slab);

	(void)arg;
	if (!cache->movers || cache_is_held(cache) || cache->debug || slab == node->carve ||
	    !(state.second & STATE_FROZEN))
		return;
	state_bits_set(slab, STATE_LISTED);
	if (state.first || slab->count < cache->objects)
		partial_add(node, slab, true);
	else
		state_bits_set(slab, 0);
}

/*
 * The new places that other threads had in hand are lost to the child.  Where this
 * thread, whom a handler or its own function interrupted, moves as well, so are the
 * slabs that others had isolated: they cannot be told from its own.
 */
usual void defrag_after_fork(void)
{
	bool any = false;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c))
		any |= c->movers && !cache_is_held(c);
	if (any)
		slab_for_each(relist, NULL);
}
