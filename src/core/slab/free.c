/* SPDX-License-Identifier: MIT */
/*
 * The slow path of freeing: the CPU's main list is full, or this thread may not use it.  A full
 * list goes to the spare, to the barn, or back to its slabs.
 */
#include "core/base/list.h"
#include "core/slab/key.h"
#include "core/slab/local.h"
#include "core/slab/switches.h"
#include "core/slab/slab_internal.h"

/*
 * Objects freed where no lock may be taken: by a signal handler that
 * interrupted the holder of one.
 */
void *cache_postponed;

static void postpone(struct slub_cache *cache, void *object)
{
	void *top = __atomic_load_n(&cache_postponed, __ATOMIC_RELAXED);

	if (unlikely(cache->debug != NULL))
		debug_note_free(cache, object);
	do {
		void **place = link_of(cache, object);

		*place = top;
		if (cache_is_keyed(cache))
			link_set_keyed(place, top);
		/* release: pairs with the acquire of a thread that finds the object */
	} while (!__atomic_compare_exchange_n(&cache_postponed, &top, object, true,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* ---- a chain goes back to its slabs ---- */

/*
 * Grouped: one exchange per slab and not per object.  Neighbours in a chain mostly share a slab,
 * but two or three slabs often take turns, so a small table of open groups is kept.
 */
#define GROUPS 16

struct group {
	struct page *slab;
	struct detached_list own;
};

/* Open groups, each at the place that its slab's number gives it. */
struct groups {
	struct group at[GROUPS];
	uint32_t open;	/* bit n: at[n] is one; else it was never written */
	uint32_t nr;	/* objects that are back, and not counted yet */
};

/*
 * Mostly the slab has other objects free, and others in use: then one exchange does it, and
 * no list changes.  False: node.c has to see to it.
 */
static bool group_returns(struct slub_cache *cache, const struct group *group)
{
	struct double_word old = slab_read(group->slab), new;

	do {
		if (!(old.second & (STATE_FROZEN | STATE_LISTED)) ||
		    state_inuse(old) <= group->own.nr)
			return false;
		chain_set_next(cache, group->own.last, (void *)old.first);
		new.first = (uintptr_t)group->own.head;
		new.second = old.second - group->own.nr;
	} while (!slab_update(group->slab, &old, new));
	return true;
}

static void group_close(struct slub_cache *cache, struct groups *groups, struct group *group)
{
	local_join(cache, group->slab, &group->own);
	if (likely(group_returns(cache, group)))
		groups->nr += group->own.nr;
	else
		slab_free_objects(cache, group->slab, group->own.head, group->own.last,
				  group->own.nr);
}

static uint32_t group_place(const struct slub_cache *cache,
			    const struct page *slab)
{
	size_t number = ((uintptr_t)slab / sizeof(*slab)) >> cache->order;

	return number % GROUPS;
}

static void groups_add(struct slub_cache *cache, struct groups *groups,
		       const struct group *run)
{
	uint32_t place = group_place(cache, run->slab);
	struct group *group = &groups->at[place];

	if (groups->open >> place & 1) {
		if (group->slab == run->slab) {
			chain_set_next(cache, run->own.last, group->own.head);
			group->own.head = run->own.head;
			group->own.nr += run->own.nr;
			return;
		}
		group_close(cache, groups, group);
	}
	groups->open |= 1u << place;
	*group = *run;
}

/*
 * The objects from @object on that lie in one slab.  They are linked as they
 * have to be, so they are only read.  Returns what follows them.
 */
static void *run_take(struct slub_cache *cache, void *object,
		      struct group *run)
{
	uintptr_t slab_bytes = PAGE_BYTES << cache->order;
	uintptr_t base = round_down((uintptr_t)object, slab_bytes);
	uint32_t nr = 0;

	run->slab = page_of((void *)base);
	/* It is written when its group closes, some runs later. */
	__builtin_prefetch(run->slab, 1);
	run->own.head = object;
	do {
		run->own.last = object;
		object = chain_next_near(cache, object);
		nr++;
	} while ((uintptr_t)object - base < slab_bytes && nr <= cache->objects);
	/* More than a slab has: one of them was freed twice. */
	if (SLUB_CONFIG_CHECKS && unlikely(nr > cache->objects)) {
		suspect_count(cache, run->own.head);
		object = NULL;
	}
	run->own.nr = nr;
	return object;
}

uint32_t chain_settled_to_slabs(struct slub_cache *cache, void *chain)
{
	struct groups groups;
	uint32_t nr = 0;

	groups.open = 0;
	groups.nr = 0;
	chain = chain_head(cache, chain);
	while (chain) {
		struct group run;

		chain = run_take(cache, chain, &run);
		groups_add(cache, &groups, &run);
		nr += run.own.nr;
	}
	for (; groups.open; groups.open &= groups.open - 1)
		group_close(cache, &groups,
			    &groups.at[__builtin_ctz(groups.open)]);
	stat_add_many(cache, STAT_OBJECTS_BACK, groups.nr);
	slab_tell(cache);
	return nr;
}

uint32_t chain_flush(struct slub_cache *cache, void *chain)
{
	if (chain)
		stat_add(cache, STAT_LISTS_EMPTIED);
	if (unlikely(cache->account_path != ACCOUNT_SLOW))
		account_settle(cache, chain);
	return chain_settled_to_slabs(cache, chain);
}

/* ---- where chains go ---- */

/* @nr objects went to slabs: the program may be done with this cache's. */
static void chain_count_given(struct slub_cache *cache, uint32_t nr)
{
	uint32_t left = __atomic_load_n(&cache->left_in, __ATOMIC_RELAXED);

	if (likely(left > nr))
		__atomic_store_n(&cache->left_in, left - nr, __ATOMIC_RELAXED);
	else
		slab_left_look(cache);
}

bool chain_give(struct slub_cache *cache, void *chain, uint32_t nr)
{
	if (barn_put(cache, chain, nr)) {
		stat_add(cache, STAT_FREE_BARN);
		return true;
	}
	stat_add(cache, STAT_FREE_FLUSH);
	chain_count_given(cache, chain_settled_to_slabs(cache, chain));
	return false;
}

/*
 * The program frees more of these than it takes: objects of the spare list would only pin
 * their slabs.  (What stays of bursts of 30 to 150 MiB, freed at random by threads that go on
 * over a heap that stays: 21 MiB on average before scattered chains passed the barns by, 14
 * since.)
 */
static void spare_to_slabs(struct slub_cache *cache)
{
	void *spare;

	/* There it is a quarantine: its objects are the oldest, and come next. */
	if (SLUB_CONFIG_HARDENED)
		return;
	spare = percpu_take(cache->list_slot + SLOT_SPARE, 0);
	if (spare)
		chain_count_given(cache, chain_flush(cache, spare));
}

/* The full main list: to the spare, else to the barn, else to the slabs. */
void chain_retire(struct slub_cache *cache, void *chain, uint32_t nr)
{
	inject(INJECT_retire);
	if (percpu_put(cache->list_slot + SLOT_SPARE, chain, nr)) {
		stat_add(cache, STAT_FREE_SPARE);
		if (page_purge_is_owed())
			slab_reclaim_if_needed();
		return;
	}
	if (!chain_give(cache, chain, nr)) {
		spare_to_slabs(cache);
		capacity_decay(cache, node_current(cache));
	}
	/* Also where a barn has it, for another may have given one to its slabs. */
	slab_reclaim_if_needed();
}

void *chain_cut(struct slub_cache *cache, void *chain, int32_t most, int32_t *nr)
{
	void *rest;

	for (*nr = 1; *nr < most; ++*nr) {
		void *next = chain_next_near(cache, chain);

		if (!next)
			return NULL;
		chain = next;
	}
	rest = chain_next(cache, chain);
	chain_set_next(cache, chain, NULL);
	return rest;
}

/* ---- an object without room in the list ---- */

/* @full, of about @nr objects, has left the main list: @object and a part of it are the new one. */
static void free_to_new_list(struct slub_cache *cache, void *object, void *full,
			     int32_t nr, int32_t capacity)
{
	int32_t kept = list_kept(capacity);
	void *rest = full;

	/* A cache with a second list, the quarantine's or sampling's: whole ones change places. */
	if (SLUB_CONFIG_HARDENED && cache_sample_slot(cache))
		kept = 0;
	if (kept)
		rest = chain_cut(cache, full, kept, &kept);
	chain_set_next(cache, object, kept ? full : NULL);
	/* Another thread on this CPU may have been quicker. */
	if (!percpu_put(cache->list_slot, object, list_room(capacity, kept + 1)))
		chain_retire(cache, object, (uint32_t)kept + 1);
	if (rest)
		chain_retire(cache, rest, nr > kept ? (uint32_t)(nr - kept) : 1);
}

/* Past the lists. */
static void free_direct(struct slub_cache *cache, void *object)
{
	struct detached_list own = { .head = object, .last = object, .nr = 1 };
	struct page *slab = slab_of(cache, object);

	stat_add(cache, STAT_FREE_DIRECT);
	local_join(cache, slab, &own);
	slab_free_objects(cache, slab, own.head, own.last, own.nr);
}

/* An empty slab fills the reserve, also the one that is being carved. */
static void free_to_reserve(struct slub_cache *cache, void *object)
{
	struct page *slab = slab_of(cache, object);
	struct cache_node *node = cache->nodes[page_node(slab)];

	free_direct(cache, object);
	/* It may be gone: then this is a look too many. */
	if (!state_inuse(counters_of(slab)))
		node_shrink(cache, node);
}

/* While memory is to go back lists are short, for it goes in the slow paths alone. */
#define OWED_CAPACITY 16

static int32_t free_capacity(const struct slub_cache *cache)
{
	int32_t capacity = capacity_now(cache);

	return page_purge_is_owed() && capacity > OWED_CAPACITY ? OWED_CAPACITY : capacity;
}

/* The list is empty, or stopped: @object begins it, or goes to its slab. */
static void free_first(struct slub_cache *cache, void *object, int32_t capacity)
{
	if (percpu_push(cache->list_slot, object, list_link(cache)))
		return;
	chain_set_next(cache, object, NULL);
	if (cache->has_local && local_may_begin())
		capacity = local_limit(cache, 1);
	if (percpu_put(cache->list_slot, object, list_room(capacity, 1)))
		return;
	if (unlikely(cache->account_path != ACCOUNT_SLOW))
		account_settle(cache, object);
	free_direct(cache, object);
}

static void cache_free_to_list(struct slub_cache *cache, void *object)
{
	int32_t capacity = free_capacity(cache);
	int32_t nr = (int32_t)slot_main_nr(percpu_lists(cache->list_slot), capacity);
	void *full = chain_head(cache, percpu_take(cache->list_slot, capacity));

	if (full)
		free_to_new_list(cache, object, full, nr, capacity);
	else
		free_first(cache, object, capacity);
}

static void free_slow(struct slub_cache *cache, void *object)
{
	if (!cache->has_local || !local_free(cache, object))
		cache_free_to_list(cache, object);
	slab_tell(cache);
	cache_filled(cache);
}

/*
 * An object of a twin, or one from before its cache was watched: then the lists
 * are to stay empty.
 */
static __attribute__((__noinline__)) void
free_watched(struct slub_cache *cache, void *object)
{
	if (cache->debug) {
		debug_free(cache, object, __builtin_frame_address(0));
		return;
	}
	free_direct(cache, object);
	slab_reclaim_if_needed();
}

/*
 * An object that was looked at.  What is looked at here is what cache_takes_chains() says no
 * to.
 */
static void free_looked_at(struct slub_cache *cache, void *object)
{
	/* Its owner's last charge may take a lock. */
	if (unlikely(cache->is_accounted && slub_thread.locks_held)) {
		postpone(cache, object);
		return;
	}
	if (unlikely(cache->is_sampled)) {
		if (slub_thread.locks_held) {
			postpone(cache, object);
			return;
		}
		sample_gone(object);
	}
	if (SLUB_CONFIG_HARDENED && !hardened_free(cache, object))
		return;
	/* A watched one has to be looked at first: debug_free(). */
	if (unlikely(cache->is_accounted && !cache->debug) &&
	    !account_free(cache, object))
		return;
	if (percpu_push(cache->list_slot, object, list_link(cache)))
		return;
	if (slub_thread.locks_held) {
		postpone(cache, object);
		return;
	}
	debug_mailbox_poll();
	cache_free_postponed();
	grace_look(1);
	if (unlikely(cache->is_reserve)) {
		free_to_reserve(cache, object);
		return;
	}
	percpu_enter();
	if (cache_is_watched(cache))
		free_watched(cache, object);
	else
		free_slow(cache, object);
}

/*
 * Is @object, of a cache with keys, not to be freed by the look of it?  One that goes to a local
 * list is not read, here as in the sequence (LOCAL-6): it is in no cache.
 */
static always_inline bool free_is_odd(struct slub_cache *cache, void *object)
{
	if (local_takes(cache)) {
		__builtin_prefetch(object, 1);
		__builtin_prefetch(slab_of(cache, object));
		return !cache_is_at_object(cache, object);
	}
	return !free_is_plain(cache, object) || suspect_is_uncarved(cache, object);
}

void cache_free(struct slub_cache *cache, void *object)
{
	/* debug_free() looks at what is watched. */
	if (KEYS && !cache->debug && unlikely(free_is_odd(cache, object)) &&
	    !suspect_free(cache, object, "free"))
		return;
	free_looked_at(cache, object);
}

/* It begins this CPU's next list, and the charge stays with it. */
bool cache_free_kept(struct slub_cache *cache, void *object)
{
	if (unlikely(!cache_takes_chains(cache)))
		return false;
	debug_mailbox_poll();
	cache_free_postponed();
	percpu_enter();
	free_slow(cache, object);
	return true;
}

/*
 * They are marked since they were postponed.  To look at them once more would accuse each
 * and empty every CPU's lists for it, which may postpone others: with signals under
 * backend thread a program stood still for minutes.
 */
void cache_free_all_postponed(void)
{
	void *object = stack_take(&cache_postponed);

	while (object) {
		struct slub_cache *cache = cache_of(object);
		void *next = *link_of(cache, object);

		/* Its user's bytes are there still. */
		if (SLUB_CONFIG_HARDENED && !cache->debug)
			hardened_postponed(cache, object);
		free_looked_at(cache, object);
		object = next;
	}
}
