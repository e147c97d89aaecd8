/* SPDX-License-Identifier: MIT */
/*
 * Local lists: what a CPU frees to slabs that it owns.
 *
 * The list of a CPU is for what is hot.  Where it is full, and its objects lie scattered over
 * slabs, an object goes home: to the local list of its slab, if this CPU took the slab's objects
 * last.  One store of a restartable sequence does it, to a word in the slab's second descriptor:
 *
 *    63 ............. 33 32 ....... 21 20 .... 11 10 .... 0
 *   +-------------------+-------------+----------+---------+
 *   | sum               | head        |  owner   |  room   |
 *   +-------------------+-------------+----------+---------+
 *
 *   sum    of what the list has (LOCAL-6)
 *   head   where in the slab its first object is, in units of 16 bytes
 *   owner  the number of the CPU; LOCAL_NOBODY; LOCAL_EMPTIED: its list is on the way to the
 *          slab's freelist; or LOCAL_CLAIMED: it is about to change (LOCAL-7)
 *   room   pushes before one goes the slow way
 *
 * Sum and head are 0 without a list.  The descriptor's count is what the room would be without
 * objects, and 0 without a list.
 *
 * It is the kernel's cpu slab turned round: there a CPU allocates from one slab that is its own,
 * and frees to others by an exchange; here it allocates from its list, and each slab that it
 * filled the list from takes its frees without one.
 *
 *   LOCAL-1  While room is not 0 the sequences of the owner alone change the word; others stop
 *            the owner's CPU before, but for LOCAL-7.  A sequence has owner and room from one load.
 *   LOCAL-2  While room is 0 no sequence stores to the word but one that takes the list, which
 *            is under the node's lock as all other changes are.  So the owner changes without a
 *            barrier, and only while the list is empty.
 *   LOCAL-3  A slab is in the list of its owner (struct local_slabs) exactly while its local list
 *            has objects; both change under the node's lock.
 *   LOCAL-4  An object in a local list counts as in use in the slab's state, as one in the list
 *            of a CPU does: the rest of the library knows nothing of it.  So a slab with a local
 *            list is never empty and never goes, and these lists are emptied with the lists of
 *            the CPU.
 *   LOCAL-5  A list begins with one object, and room for all others in use but one: the last
 *            comes the slow way, and its slab is whole.  Threads that give objects to the slab's
 *            freelist meanwhile leave fewer for that room.  Objects in the list and its room
 *            together are the slab's low watermark: while more are in use the owner comes the slow
 *            way in time, and nobody else looks at the list.  At the watermark the room is too
 *            much.  The thread that gives the object marks the list, and the owner sets it right
 *            (settle_marked()).  Where the list and what that thread gives are all that is
 *            in use, it takes the list, whose owner has nothing to push: no barrier is needed for
 *            it (local_join()).  Where a list begins between that thread's look and its exchange,
 *            or another thread gives objects there, the room is too much and nobody is told.
 *            Then a slab that is whole stays with its owner until this takes the list, or a trim
 *            does.
 *            A list that was marked has room for half of the others from then on: else each
 *            object that another CPU gives would be at the watermark.
 *   LOCAL-6  A sequence does not read what it frees, so a block that is freed twice may be in the
 *            list twice.  A list is looked at before it goes back to its slab (list_is_sound()),
 *            and a block that is popped has lost its key by then (suspect_popped()).  The look
 *            mostly reads no object: the word has a sum over what was pushed, the square of each
 *            address under the key modulo 2^31, and where a slab is whole that is the sum over
 *            all of its objects.  With one, y, there twice and another, x, missing the sums
 *            differ by xx - yy = (x - y)(x + y), and x and y are odd, for the key is: 2 divides
 *            x - y fewer than 16 times, for they lie in one slab, so it divides x + y once.  A
 *            program that does not know the key cannot make two such faults cancel.
 *   LOCAL-7  Where numbers are those of CPUs (no mm_cid) a thread goes from CPU to CPU, and would
 *            leave free memory behind on each.  So lists begin there in a process of one thread
 *            alone, which takes them along (local_over.c), under the node's lock: an exchange
 *            writes LOCAL_CLAIMED in the owner's place, if the word is what was read; then
 *            percpu_nr_threads is read, and if it is 1 the new owner is written.  Each thread is
 *            counted before its first sequence, with a fence between, as is one between exchange
 *            and look: so either it is seen, or its sequences see the claim, and fail.  Where one
 *            is seen an exchange takes the claim back, unless that thread has stored over it: its
 *            sequence had read the word before, and the list is as if nobody had claimed it.
 */
#ifndef SLUB_LOCAL_H
#define SLUB_LOCAL_H

#include "core/base/list.h"
#include "core/slab/state.h"
#include "core/slab/slab.h"

#define LOCAL_NOBODY LOCAL_OWNER_MASK
#define LOCAL_EMPTIED (LOCAL_OWNER_MASK - 1)
#define LOCAL_CLAIMED (LOCAL_OWNER_MASK - 2)
#define LOCAL_OWNERS LOCAL_CLAIMED	/* CPUs with a number below it own slabs */

/* Of a CPU, for each node of a cache; under the node's lock. */
struct local_slabs {
	struct list slabs;	/* by their second descriptors; next is NULL at first */
	uint32_t nr_marked;	/* so many, all in front */
	uint32_t looked;	/* 1 + local_wanders when no other CPU had a list */
};

/* For a collection (core/percpu/percpu.h): what was taken of the CPUs while they were stopped. */
struct local_emptied {
	struct slub_cache *cache;	/* NULL: all */
	struct page *first;
};

/* Without a list. */
static inline uint64_t local_none(uint32_t owner)
{
	return (uint64_t)owner << LOCAL_OWNER_SHIFT;
}

static inline uint32_t local_owner(uint64_t word)
{
	return (uint32_t)(word >> LOCAL_OWNER_SHIFT) & LOCAL_OWNER_MASK;
}

static inline uint32_t local_room(uint64_t word)
{
	return (uint32_t)word & LOCAL_ROOM_MASK;
}

/* Head and sum. */
static inline uint64_t local_list_bits(uint64_t word)
{
	return word >> LOCAL_HEAD_SHIFT << LOCAL_HEAD_SHIFT;
}

static inline uint64_t local_sum(uint64_t word)
{
	return word >> LOCAL_SUM_SHIFT << LOCAL_SUM_SHIFT;
}

/* The second descriptor of @slab: its state has the word. */
static inline struct page *local_of(struct page *slab)
{
	return slab + 1;
}

static inline uint64_t local_read(struct page *local)
{
	return __atomic_load_n((uint64_t *)&page_state(local)->first, __ATOMIC_RELAXED);
}

static inline void local_write(struct page *local, uint64_t word)
{
	/* release: behind the link of the first object, and behind local->count */
	__atomic_store_n((uint64_t *)&page_state(local)->first, word, __ATOMIC_RELEASE);
}

/* The first object of the list of @local, whose word is @word, if there is a list. */
static inline void *local_head(struct page *local, uint64_t word)
{
	uintptr_t place = (uintptr_t)(word >> LOCAL_HEAD_SHIFT) & LOCAL_HEAD_MASK;

	return (char *)page_address(local - 1) + (place << LOCAL_UNIT_SHIFT);
}

/* A list with @head and the sum @sum. */
static inline uint64_t local_make(struct page *local, const void *head, uint64_t sum,
				  uint32_t owner, uint32_t room)
{
	uint64_t place = (uintptr_t)head - (uintptr_t)page_address(local - 1);

	return sum | place >> LOCAL_UNIT_SHIFT << LOCAL_HEAD_SHIFT | local_none(owner) | room;
}

/* What @object adds to the sum. */
static inline uint64_t local_addend(const void *object)
{
	uint64_t word = slub_key ^ (uintptr_t)object;

	return word * word << LOCAL_SUM_SHIFT;
}

/* The last object of the list: beside the word, which nobody exchanges together with it. */
static inline void **local_last(struct page *local)
{
	return (void **)&page_state(local)->second;
}

/* 1: it is one of its owner's nr_marked.  A word that slabs of objects without links use. */
static inline uint32_t *local_is_marked(struct page *local)
{
	return &local->nr_purged;
}

/* 1: others gave objects there past a list, since the slab was new. */
static inline uint32_t *local_is_shared(struct page *local)
{
	return &local->purged_from;
}

/*
 * LOCAL-5; 0: there is no list.  It lies beside the slab's state, which a thread that gives objects
 * writes to anyway: the line of the word is the owner's.  Large blocks have another use for it.
 */
static inline uint32_t *local_watermark(struct page *local)
{
	return page_owner(local - 1);
}

/* Objects in the local list, whose word is @word; a guess without the lock. */
static inline uint32_t local_count(const struct page *local, uint64_t word)
{
	uint32_t start = __atomic_load_n(&local->count, __ATOMIC_RELAXED);

	return start - (uint32_t)min_size(local_room(word), start);
}

/* ---- the slabs of a CPU; under the node's lock ---- */

/* For a glance at nr_marked, also without the lock: its list may not have begun. */
static inline struct local_slabs *local_slabs_at(const struct cache_node *node, uint32_t cid)
{
	char *area = cid < LOCAL_OWNERS ? percpu_area(cid) : NULL;

	return area && node->local ? (struct local_slabs *)(area + node->local) : NULL;
}

/* NULL: the CPU has none of this node, or no such CPU is known. */
static inline struct local_slabs *local_slabs_of(const struct cache_node *node, uint32_t cid)
{
	struct local_slabs *slabs = local_slabs_at(node, cid);

	if (slabs && !slabs->slabs.next)
		list_init(&slabs->slabs);
	return slabs;
}

static inline struct page *local_first(const struct local_slabs *slabs)
{
	return slabs && !list_is_empty(&slabs->slabs) ?
		       container_of(slabs->slabs.next, struct page, list) : NULL;
}

/* Its room may be too much (LOCAL-5). */
static inline void local_mark(struct local_slabs *slabs, struct page *local)
{
	list_remove(&local->list);
	list_add_head(&slabs->slabs, &local->list);
	*local_is_shared(local) = 1;
	__atomic_store_n(local_is_marked(local), 1, __ATOMIC_RELAXED);
	__atomic_store_n(&slabs->nr_marked, slabs->nr_marked + 1, __ATOMIC_RELAXED);
}

/* @local leaves @slabs, with its list. */
static inline void local_leave(struct local_slabs *slabs, struct page *local)
{
	list_remove(&local->list);
	__atomic_store_n(&slabs->nr_marked, slabs->nr_marked - *local_is_marked(local),
			 __ATOMIC_RELAXED);
	__atomic_store_n(local_is_marked(local), 0, __ATOMIC_RELAXED);
}

static inline void local_unlist(struct local_slabs *slabs, struct page *local)
{
	local_leave(slabs, local);
	__atomic_store_n(&local->count, 0, __ATOMIC_RELAXED);
	__atomic_store_n(local_watermark(local), 0, __ATOMIC_RELAXED);
}

/* Linked objects of one slab, of the caller alone; the kernel's detached_freelist. */
struct detached_list {
	void *head;	/* NULL: nothing */
	void *last;
	uint32_t nr;
	uint64_t sum;	/* of a local list: LOCAL-6 */
};

/* Once its word is another's, the others are, too: so under the lock. */
static inline struct detached_list local_list_of(struct page *local, uint64_t word)
{
	return (struct detached_list){ local_head(local, word), *local_last(local),
				       local_count(local, word), local_sum(word) };
}

/*
 * The first slab of this CPU leaves it, with its list.  NULL: there is none, or this CPU is
 * stopped.
 */
struct page *local_pop(struct local_slabs *slabs, struct detached_list *list);

/* ---- without a lock ---- */

/* Of a cache that is being made: may its slabs have local lists? */
void local_init(struct slub_cache *cache);

/* Of a slab that nobody uses yet. */
static inline void local_clear(const struct slub_cache *cache, struct page *slab)
{
	if (!cache->has_local)
		return;
	local_of(slab)->list.next = NULL;
	*local_is_marked(local_of(slab)) = 0;
	*local_is_shared(local_of(slab)) = 0;
	*local_watermark(local_of(slab)) = 0;
	local_of(slab)->count = 0;
	local_write(local_of(slab), local_none(LOCAL_NOBODY));
}

/* Where the sequences of CPU number @cid find the slab of an object, from now on. */
void local_mask_set(const struct slub_cache *cache, uint32_t cid);
void local_own_slab(struct page *slab);
/* This CPU takes objects of @slab; under the node's lock. */
static inline void local_own(const struct slub_cache *cache, struct page *slab)
{
	if (cache->has_local)
		local_own_slab(slab);
}

/* Is this CPU's list short, and full?  As of a moment ago. */
static inline bool local_takes(const struct slub_cache *cache)
{
	return cache->has_local &&
	       __atomic_load_n(&percpu_lists(cache->list_slot)->main.room, __ATOMIC_RELAXED) <=
		       ROOM_SHORT;
}

/* Frees @object, for which this CPU's list has no room; false: by the way of other caches. */
bool local_free(struct slub_cache *cache, void *object);
/* How many objects a list may have that begins with @nr, until it is looked at. */
int32_t local_limit(const struct slub_cache *cache, int32_t nr);

void *local_take_objects(struct slub_cache *cache, struct cache_node *node, uint32_t wanted,
			 uint32_t *nr);
/*
 * The local lists of slabs that this CPU owns, at least @wanted objects if there are so many;
 * *@nr: how many.  NULL: there are none.
 */
static inline void *local_take(struct slub_cache *cache, struct cache_node *node, uint32_t wanted,
			       uint32_t *nr)
{
	return cache->has_local ? local_take_objects(cache, node, wanted, nr) : NULL;
}

void local_join_list(struct slub_cache *cache, struct page *slab, struct detached_list *mine);
/*
 * The caller is about to give *@mine to the freelist of @slab.  Where that makes the slab whole its
 * local list is behind them then.
 */
static inline void local_join(struct slub_cache *cache, struct page *slab,
			      struct detached_list *mine)
{
	uint32_t low;

	if (!cache->has_local)
		return;
	low = __atomic_load_n(local_watermark(local_of(slab)), __ATOMIC_RELAXED);
	if (low && state_inuse(counters_of(slab)) <= low + mine->nr)
		local_join_list(cache, slab, mine);
}

/* *@list, not empty, goes to its slab. */
void local_give_back(struct slub_cache *cache, struct page *local, struct detached_list *list);

/* ---- local_over.c ---- */

/* How often a list began on another CPU than the last one: an estimate with many threads. */
extern uint32_t local_wanders SLUB_INTERNAL;	/* atomic */
void local_wandered(uint32_t cid);

/* Without mm_cid: is there one thread, as far as anybody knows? */
static inline bool local_goes_along(void)
{
	return percpu_cpu_number == CPU_NUMBER_CPU_ID &&
	       __atomic_load_n(&percpu_nr_threads, __ATOMIC_RELAXED) == 1;
}

/* May a list begin? */
static inline bool local_may_begin(void)
{
	return percpu_cpu_number == CPU_NUMBER_MM_CID || local_goes_along();
}

bool local_over_slab(const struct slub_cache *cache, struct cache_node *node, struct page *local,
		     uint32_t cid);
/* Under the node's lock: CPU @cid, this thread's, owns @local from now on; false: it does not. */
static inline bool local_is_owned(const struct slub_cache *cache, struct cache_node *node,
				  struct page *local, uint32_t cid)
{
	return local_owner(local_read(local)) == cid ||
	       (local_goes_along() && local_over_slab(cache, node, local, cid));
}

/*
 * Under the node's lock: some lists of other CPUs are this one's from now on.  False: none has any,
 * and none will until this thread wanders.
 */
bool local_over_some(const struct slub_cache *cache, struct cache_node *node);
void *local_over_objects(struct slub_cache *cache, struct cache_node *node, uint32_t wanted,
			 uint32_t *nr);
/* @node is about to grow: as local_take(), of slabs of CPUs that this thread has left. */
static inline void *local_over(struct slub_cache *cache, struct cache_node *node, uint32_t wanted,
			       uint32_t *nr)
{
	return cache->has_local && local_goes_along() ?
		       local_over_objects(cache, node, wanted, nr) : NULL;
}

/* No lists begin any more: this CPU's list, which is short, is to be one like others. */
void local_leave_short(struct slub_cache *cache);

/* ---- local_empty.c ---- */

/*
 * Nobody counts what lies in local lists, so nothing of it is held memory (features/idle/sparse.c).
 * In a program that falls silent they go to their slabs: none has begun or ended for a tick,
 * and visits come seldom.  Each CPU does it for its own, a piece in each slow path.
 */
extern uint32_t local_silences SLUB_INTERNAL;		/* atomic: how many */
extern uint32_t local_silent[AREAS_MAX] SLUB_INTERNAL;	/* atomic: a CPU's last */
extern bool local_moved SLUB_INTERNAL;	/* atomic: a list, since the last quiet tick */
extern bool local_rests SLUB_INTERNAL;	/* atomic: none has moved for less than a tick */

/* A list begins or ends; the thread's next malloc() is to come by. */
static inline void local_note_move(void)
{
	if (!__atomic_load_n(&local_moved, __ATOMIC_RELAXED))
		__atomic_store_n(&local_moved, true, __ATOMIC_RELAXED);
	slub_thread.malloc_limit = 0;
}

static inline bool local_is_to_empty(void)
{
	uint32_t now = __atomic_load_n(&local_silences, __ATOMIC_RELAXED), cid;

	if (likely(!now))
		return false;
	cid = percpu_here();
	return cid < AREAS_MAX && __atomic_load_n(&local_silent[cid], __ATOMIC_RELAXED) != now;
}

/* Is this CPU to come by again for it? */
static inline bool local_waits(void)
{
	return __atomic_load_n(&local_moved, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&local_rests, __ATOMIC_RELAXED) || local_is_to_empty();
}

/* A tick begins, and few calls came by in the last. */
void local_tick(void);
/* All were emptied, so nobody need come by. */
static inline void local_all_are_empty(void)
{
	__atomic_store_n(&local_moved, false, __ATOMIC_RELAXED);
	__atomic_store_n(&local_rests, false, __ATOMIC_RELAXED);
}
/* Those of this CPU: *@most objects to their slabs, or somewhat more. */
void local_empty_some(ptrdiff_t *most);

/* All local lists of this CPU go to their slabs. */
void local_empty_here(struct slub_cache *cache);
/* collection->stopped; collection->arg is a struct local_emptied */
void local_stopped(struct collection *collection, uint32_t cid);
void local_give_all(struct local_emptied *emptied);
/* With all CPUs running again. */
static inline void local_give(struct local_emptied *emptied)
{
	if (emptied->first)
		local_give_all(emptied);
}
/* Objects in local lists, as of a moment ago; 0 where this thread may hold the lock. */
size_t local_nr(const struct slub_cache *cache);

#endif
