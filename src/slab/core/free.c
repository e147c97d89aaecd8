/* SPDX-License-Identifier: MIT */
/*
 * The slow path of freeing: the CPU's main list is full, or this thread may
 * not use it.
 */
#include "base/list.h"
#include "slab/core/key.h"
#include "slab/core/local.h"
#include "slab/core/switches.h"
#include "slab/slab_internal.h"

/*
 * Objects freed where no lock may be taken: by a signal handler that
 * interrupted the holder of one.
 */
void *cache_postponed;

static void postpone(struct slub_cache *cache, void *object)
{
	void **link = link_of(cache, object);

	if (unlikely(cache->debug != NULL))
		debug_note_free(cache, object);
	stack_push(&cache_postponed, object, link);
}

/* @nr objects went to slabs: the program may be done with this cache's. */
static void count_given(struct slub_cache *cache, uint32_t nr)
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
	count_given(cache, chain_settled_to_slabs(cache, chain));
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
		count_given(cache, chain_flush(cache, spare));
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
	struct detached_list own = { object, object, 1 };
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
	if (percpu_push(cache->list_slot, object, cache->link))
		return;
	chain_set_next(cache, object, NULL);
	if (cache->has_local)
		capacity = local_limit(cache, 1);
	if (percpu_put(cache->list_slot, object, list_room(capacity, 1)))
		return;
	if (unlikely(cache->account_path != ACCOUNT_SLOW))
		account_settle(cache, object);
	free_direct(cache, object);
}

static void free_to_list(struct slub_cache *cache, void *object)
{
	int32_t capacity = free_capacity(cache);
	int32_t nr = (int32_t)slot_main_nr(percpu_lists(cache->list_slot), capacity);
	void *full = percpu_take(cache->list_slot, capacity);

	if (full)
		free_to_new_list(cache, object, full, nr, capacity);
	else
		free_first(cache, object, capacity);
}

static void free_slow(struct slub_cache *cache, void *object)
{
	if (!cache->has_local || !local_free(cache, object))
		free_to_list(cache, object);
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
 * An object that was looked at, and has its key.  What is looked at here is what
 * cache_takes_chains() says no to.
 */
static void free_marked(struct slub_cache *cache, void *object)
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
	if (percpu_push(cache->list_slot, object, cache->link))
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

void cache_free(struct slub_cache *cache, void *object)
{
	/* debug_free() looks at what is watched. */
	if (KEYS && !cache->debug) {
		if (unlikely(!free_is_plain(cache, object) ||
			     suspect_is_uncarved(cache, object)) &&
		    !suspect_free(cache, object, "free"))
			return;
		if (cache->has_keys)
			key_set(cache, object);
	}
	free_marked(cache, object);
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
 * They have keys since they were postponed.  To look at them once more would accuse each
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
		free_marked(cache, object);
		object = next;
	}
}
