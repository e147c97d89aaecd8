/* SPDX-License-Identifier: MIT */
/*
 * The caches there are: making one, the table from slot to cache, taking one
 * out again.
 *
 * Locks: cache_lock protects the list of caches and the table.  Readers go
 * without it: a cache that is taken out keeps its `next`, and its memory is
 * used for nothing but caches, so a walk that stands on it goes on.
 */
#include "core/base/list.h"
#include "core/os/start_only.h"
#include "core/slab/local.h"
#include "core/slab/switches.h"
#include "core/slab/slab_internal.h"

#include <string.h>

/* ---- core/slab/switches.h ---- */

/* Where tracers look for the counters of the probes. */
struct sample_switch sample_switch
	__attribute__((section(".probes"), used)) = { 0, 0, 0 };
bool sample_was_on;
bool grace_was_used;
bool guard_watches_large;

struct lock cache_lock fork_writes = LOCK_INIT;

/* under cache_lock; read without it */
static struct slub_cache *caches;
struct slub_cache *cache_slot_owner[SLOT_NUMBERS] rarely_touched;
bool (*cache_make_others)(void) start_only;

/* atomic; never taken out, whatever becomes of their caches */
static struct cache_node *nodes_made;

static struct cache_node *node_create(uint32_t n)
{
	struct cache_node *node = meta_alloc(sizeof(*node));

	if (!node)
		return NULL;
	node->node = n;
	stack_push(&nodes_made, node, &node->next_made);
	return node;
}

/* A cache that was one before has its nodes still; they are empty. */
static int nodes_create(struct slub_cache *cache)
{
	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		struct cache_node *node = cache->nodes[n];

		if (!node)
			node = node_create(n);
		if (!node)
			return -ENOMEM;
		list_init(&node->partial);
		node->nr_partial = 0;
		node->nr_constructing = 0;
		node->nr_slabs_peak = 0;
		/* release: a walk may glance at a cache that is made anew */
		__atomic_store_n(&cache->nodes[n], node, __ATOMIC_RELEASE);
	}
	return 0;
}

static void slots_set(struct slub_cache *cache, uint32_t entry, uint32_t list)
{
	__atomic_store_n(&cache->slot, entry, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->list_slot, list, __ATOMIC_RELAXED);
}

/*
 * How far caches come in the near slots: the last of these are for samples of malloc's classes,
 * and a cache of two slots gains nothing from being there but where it shares pages with others.
 */
#define NEAR_END (AREA_NEAR_BYTES - SLOTS_SPARED * SLOT_BYTES)
#define NEAR_END_OF_TWO (256 * SLOT_BYTES)

/* An entry with @nr slots; *@list is the last of these. */
static cold int slots_alloc(uint32_t nr, uint32_t *entry, uint32_t *list)
{
	int err;

	*entry = percpu_alloc_slots_below(nr, nr == 1 ? NEAR_END : NEAR_END_OF_TWO);
	*list = *entry + (nr - 1) * SLOT_BYTES;
	if (*entry)
		return 0;
	err = percpu_alloc_far_slot(list);
	*entry = slot_entry(*list);
	return err;
}

/*
 * free() pushes to the slot that the map names, with the link in the first
 * word and the check word in the second.  A cache whose links lie elsewhere, whose objects have
 * no second word, or whose frees need more than that, has two slots: the map names the
 * first, which stays empty with room 0, so that free() leaves it alone.  So it does where
 * the map names nothing, for the slot is a far one.
 */
static int slots_create(struct slub_cache *cache)
{
	uint32_t nr = cache->link || cache->debug || cache->is_reserve ||
				      cache->is_sampled ||
				      (KEYS && !cache_may_have_keys(cache)) ||
				      (cache->is_accounted &&
				       !cache->frees_inline) ? 2 : 1;
	/* Malloc's classes have theirs before they are made. */
	uint32_t entry = cache->slot, list = entry + (nr - 1) * SLOT_BYTES;
	int err = entry ? 0 : slots_alloc(nr, &entry, &list);

	if (err)
		return err;
	slots_set(cache, entry, list);
	cache->frees_far = nr == 1 && slot_is_far(list);
	percpu_starts_set(entry, nr == 1 ? cache->size : 0, PAGE_BYTES << cache->order);
	if (SLUB_CONFIG_HARDENED)
		hardened_cache_made(cache);
	return 0;
}

/* What the map says of no page. */
#define ENTRY_NONE UINT32_MAX

/*
 * Where programs pop and push: in the cache's list; while there is a guard, in
 * its sample slot; in slot 0, where nothing is and nothing fits, while there is a
 * profile, and always where links are encoded, which programs cannot make, or the cache is
 * malloc's own.  Inline, the link is an offset: links in descriptors go slow.  One of three slots
 * is meant, as objects begin with link and check word, have both elsewhere, or have no check word,
 * so that no program takes one list for the other, or an old one writes no check words.
 */
static void inline_slot_set(struct slub_cache *cache)
{
	/* The hardened build has another: NOLINTNEXTLINE(*DeadStores) */
	uint32_t slot = cache->list_slot;
	bool begins_keyed = cache_begins_keyed(cache);
	bool is_malloc = begins_keyed && cache->is_internal;

	if (SLUB_CONFIG_HARDENED || cache->frees_inline || is_malloc)
		slot = 0;
	else if (!link_is_in_object(cache->link) || cache->is_accounted)
		slot = cache->slot;
	else if (cache->is_internal)
		;
	else if (sample_is_on(SAMPLE_PROFILE))
		slot = 0;
	else if (sample_is_on(SAMPLE_GUARD) && cache_sample_slot(cache))
		slot = cache_sample_slot(cache);
	__atomic_store_n(&cache->entry, begins_keyed ? cache->slot : ENTRY_NONE,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&cache->inline_slot, begins_keyed ? slot : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->plain_slot, cache_is_keyed(cache) ? 0 : slot, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->kept_slot, cache_is_keyed(cache) && !begins_keyed ? slot : 0,
			 __ATOMIC_RELAXED);
	/* Only allocations have to look at the owner. */
	if (cache->frees_inline && !is_malloc && !sample_is_on_at_all())
		slot = cache->list_slot;
	__atomic_store_n(&cache->free_slot, begins_keyed ? slot : 0, __ATOMIC_RELAXED);
	/* While nothing is sampled, and the allocating thread is charged. */
	if (!cache->frees_inline || slot != cache->list_slot || cache->place)
		slot = 0;
	__atomic_store_n(&cache->account_slot, slot, __ATOMIC_RELAXED);
	front_copy(cache);
}

cold void cache_inline_slot_set(struct slub_cache *cache)
{
	/* Of a dead one they are 0 by now, or will be. */
	lock_acquire(&cache_lock);
	if (cache_is_live(cache))
		inline_slot_set(cache);
	lock_release(&cache_lock);
}

cold void cache_inline_slots_set(void)
{
	/* One that is being made has its slot set behind this, or before. */
	lock_acquire(&cache_lock);
	for (struct slub_cache *c = caches; c; c = c->next) {
		if (cache_is_live(c))
			inline_slot_set(c);
	}
	lock_release(&cache_lock);
}

/* The inline functions must find nothing in an empty cache. */
static void slots_publish(struct slub_cache *cache, struct slub_cache *owner)
{
	uint32_t list = cache->list_slot;

	__atomic_store_n(&cache_slot_owner[entry_number(cache->slot)], owner, __ATOMIC_RELEASE);
	if (list != cache->slot && !slot_is_far(list))
		__atomic_store_n(&cache_slot_owner[list / SLOT_BYTES], owner, __ATOMIC_RELEASE);
}

int cache_publish(struct slub_cache *cache, uint32_t sheaf_length)
{
	int err;

	cache_choose_geometry(cache, sheaf_length);
	err = nodes_create(cache);
	if (!err)
		err = slots_create(cache);
	if (err)
		return err;
	/*
	 * malloc's sampled twins come with a profile, and would take what a
	 * program has of per-CPU memory.
	 */
	if (!cache->is_sampled || !cache->root->is_internal)
		cache->stats = (uint32_t)percpu_alloc(STAT_NR * 4, 4);
	if (!cache->is_sampled && !cache->debug && !cache->is_reserve)
		cache->barn = (uint32_t)percpu_alloc(sizeof(struct barn), 8);
	local_init(cache);
	cache->barn_credit = BARN_FIRST_CREDIT;
	cache->barn_refused = 0;
	cache->is_unguarded = cache->debug || cache->is_reserve ||
			      cache->align > PAGE_BYTES ||
			      (cache->is_internal ? cache->is_accounted :
			       !link_is_in_object(cache->link));
	cache->users = 1;
	lock_acquire(&cache_lock);
	inline_slot_set(cache);
	slots_publish(cache, cache);
	cache_named_enter(&cache->named, cache->name, cache);
	if (caches)
		caches->link_back = &cache->next;
	cache->link_back = &caches;
	/* release: a walk may stand here since its last life; see cache_next() */
	__atomic_store_n(&cache->next, caches, __ATOMIC_RELEASE);
	__atomic_store_n(&cache->state, CACHE_LIVE, __ATOMIC_RELEASE);
	/* release: a thread that finds the cache finds it complete */
	__atomic_store_n(&caches, cache, __ATOMIC_RELEASE);
	lock_release(&cache_lock);
	return 0;
}

void cache_name_set(struct slub_cache *cache, const char *name)
{
	memset(cache->name_space, 0, sizeof(cache->name_space));
	memcpy(cache->name_space, name, strnlen(name, SLUB_CACHE_NAME_MAX));
	cache->name = cache->name_space;
}

int cache_create(struct slub_cache *cache, const char *name, uint32_t size)
{
	return cache_create_tailed(cache, name, size, 0);
}

int cache_create_tailed(struct slub_cache *cache, const char *name,
			uint32_t size, uint32_t tail)
{
	cache_name_set(cache, name);
	cache_sizes_set(cache, size, size - tail);
	cache->align = (uint32_t)(size & -size);
	cache->link = size >= PAGE_BYTES ? page_link_bias : 0;
	cache_root_set(cache, NULL);
	return cache_publish(cache, 0);
}

/* Under cache_lock. */
static void inline_slots_clear(struct slub_cache *cache)
{
	__atomic_store_n(&cache->inline_slot, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->plain_slot, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->kept_slot, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->free_slot, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->account_slot, 0, __ATOMIC_RELAXED);
	front_copy(cache);
}

/* What samples of it were drawn by; it is not used any more. */
static void sample_slot_free(struct slub_cache *cache)
{
	uint32_t slot = cache->sample_slot;

	if (!slot)
		return;
	__atomic_store_n(&cache_slot_owner[slot_number(slot)], NULL,
			 __ATOMIC_RELEASE);
	percpu_free_slots(slot, 1);
	cache->sample_slot = 0;
}

/* Under cache_lock: @cache is no more. */
cold static void unlist(struct slub_cache *cache)
{
	struct slub_cache **link = cache->link_back, *next = cache->next;

	/* While it is in the list: the child of a fork finds it by that. */
	front_part(cache);
	if (link) {
		if (next)
			next->link_back = link;
		/* release: for walks that pass it without the lock */
		__atomic_store_n(link, next, __ATOMIC_RELEASE);
		cache->link_back = NULL;
		cache_named_leave(&cache->named);
	}
	__atomic_store_n(&cache->state, CACHE_DEAD, __ATOMIC_RELEASE);
}

/* It leaves the list last: in the child of a fork in between it is found by that. */
cold void cache_unmake(struct slub_cache *cache)
{
	uint32_t slot = cache->slot, list = cache->list_slot;
	uint32_t nr = slot_number(list) - slot_number(slot) + 1;

	__atomic_store_n(&cache->account_path, ACCOUNT_SLOW, __ATOMIC_RELAXED);
	lock_acquire(&cache_lock);
	slots_publish(cache, NULL);
	inline_slots_clear(cache);
	lock_release(&cache_lock);
	/* 0: a handler has forked, and this is the child. */
	if (slot) {
		if (SLUB_CONFIG_HARDENED)
			hardened_cache_unmade(cache);
		percpu_free_slots(list - (nr - 1) * SLOT_BYTES, nr);
	}
	sample_slot_free(cache);
	capacity_forget(cache);
	if (cache->stats)
		slub_percpu_free(cache->stats);
	cache->stats = 0;
	if (cache->barn)
		slub_percpu_free(cache->barn);
	cache->barn = 0;
	slots_set(cache, 0, 0);
	cache->frees_far = false;
	cache->link = 0;
	lock_acquire(&cache_lock);
	unlist(cache);
	lock_release(&cache_lock);
}

bool cache_name_copy(const struct slub_cache *cache,
		     char name[SLUB_CACHE_NAME_MAX + 1])
{
	bool is_live;

	if (slub_thread.locks_held)
		return false;
	/* One that is live under the lock is so, and in the list, until its end. */
	lock_acquire(&cache_lock);
	is_live = cache_is_live(cache);
	if (is_live)
		memcpy(name, cache->name, strlen(cache->name) + 1);
	lock_release(&cache_lock);
	return is_live;
}

cold void caches_forget(void)
{
	lock_acquire(&cache_lock);
	caches = NULL;
	cache_named_forget();
	nodes_made = NULL;
	memset(cache_slot_owner, 0, sizeof(cache_slot_owner));
	lock_release(&cache_lock);
}

usual struct slub_cache *cache_first(void)
{
	return __atomic_load_n(&caches, __ATOMIC_ACQUIRE);
}

/* ---- slots of sampled allocations (features/profile/sample.c, features/hardened) ---- */

/* False: another thread was faster, and the cache has a slot by now. */
static bool sample_slot_set(struct slub_cache *cache, uint32_t slot)
{
	uint32_t none = 0;

	if (SLUB_CONFIG_HARDENED)
		hardened_slot_made(cache, slot);
	/* A thread that empties the CPUs' lists finds the cache by this entry. */
	__atomic_store_n(&cache_slot_owner[slot_number(slot)], cache,
			 __ATOMIC_RELEASE);
	/* release: a thread that pops there finds the entry */
	if (__atomic_compare_exchange_n(&cache->sample_slot, &none, slot, false,
					__ATOMIC_RELEASE, __ATOMIC_RELAXED))
		return true;
	__atomic_store_n(&cache_slot_owner[slot_number(slot)], NULL,
			 __ATOMIC_RELEASE);
	return false;
}

cold int sample_caches_prepare(struct slub_cache *caches, uint32_t nr)
{
	uint32_t slot, list;
	int err = 0;

	if (__atomic_load_n(&caches[nr - 1].sample_slot, __ATOMIC_ACQUIRE))
		return 0;
	/* Of malloc's classes they are near, where its table of slots can name them. */
	if (nr == 1)
		err = slots_alloc(1, &slot, &list);
	else if (!(list = percpu_alloc_slots(nr)))
		err = -ENOSPC;
	if (err)
		return err;
	slot = list;
	for (uint32_t i = 0; i < nr; i++) {
		if (!sample_slot_set(&caches[i], slot + i * SLOT_BYTES))
			percpu_free_slots(slot + i * SLOT_BYTES, 1);
	}
	return 0;
}

/* ---- a walk over all slabs, by the page map ---- */

/*
 * Takes no lock: on a heap that changes meanwhile it may miss slabs that come and go.
 *
 * How far it is to the next slab is what the descriptor says.  The cache that the
 * map names may be one that is just ending, whose place another one takes: by the
 * order of that one the walk would pass over slabs of others, which did not change.
 */
cold bool slab_walk_on(char **at, size_t bytes,
		  void (*visit)(struct slub_cache *cache, struct page *slab,
				void *arg),
		  void *arg)
{
	char *end = (char *)heap_start + pagemap_committed();
	char *addr = *at ? *at : (char *)heap_start;
	char *stop = bytes < (size_t)(end - addr) ? addr + bytes : end;

	while (addr < stop) {
		struct slub_cache *cache = cache_of(addr);
		struct page *page = page_of(addr);
		uint32_t flags = page_flags_read(page);

		if (cache && page_flags_type(flags) == TYPE_SLAB) {
			visit(cache, page, arg);
			addr += PAGE_BYTES << page_flags_order(flags);
		} else {
			addr += PAGE_BYTES;
		}
	}
	*at = addr;
	return addr < end;
}

cold void slab_for_each(void (*visit)(struct slub_cache *cache, struct page *slab,
				 void *arg),
		   void *arg)
{
	char *at = NULL;

	slab_walk_on(&at, SIZE_MAX, visit, arg);
}

/* ---- fork ---- */

static struct cache_node *nodes_first(void)
{
	return __atomic_load_n(&nodes_made, __ATOMIC_ACQUIRE);
}

/* Was another thread of the parent destroying it? */
static usual bool is_dying(const struct slub_cache *cache)
{
	const struct slub_cache *root = cache->root ? cache->root : cache;

	return (cache_is_dead(cache) || cache_is_dead(root)) &&
	       !cache_is_held(root);
}

/* However far it was: what its slots and counters took is lost to the child. */
cold static void bury(struct slub_cache *cache)
{
	for (size_t i = 0; i < ARRAY_SIZE(cache_slot_owner); i++) {
		if (cache_slot_owner[i] == cache)
			cache_slot_owner[i] = NULL;
	}
	inline_slots_clear(cache);
	cache->account_path = ACCOUNT_SLOW;
	cache->slot = 0;
	cache->list_slot = 0;
	cache->frees_far = false;
	cache->sample_slot = 0;
	cache->stats = 0;
	cache->barn = 0;
	cache->link = 0;
	cache->place = 0;
	cache->front = NULL;
	cache->is_copied = false;
	cache->isolate = NULL;
	cache->migrate = NULL;
	cache->twin = NULL;
	memset(cache->shadows, 0, sizeof(cache->shadows));
	capacity_forget(cache);
	unlist(cache);
}

/* In a forked child: shadows before their roots, for these tell them. */
static void bury_dying(void)
{
	for (struct slub_cache *c = caches; c; c = c->next) {
		if (c->root && is_dying(c))
			bury(c);
	}
	for (struct slub_cache *c = caches; c; c = c->next) {
		if (is_dying(c))
			bury(c);
	}
}

/* A walk may stand on a dead cache, with the lock of its node, which a new one gets. */
usual void slab_fork_prepare(void)
{
	slab_features_fork_prepare();
	/* To walk all nodes for nothing costs a miss each. */
	if (lock_fork_is_alone())
		return;
	lock_acquire_for_fork(&cache_lock);
	for (struct cache_node *n = nodes_first(); n; n = n->next_made)
		lock_acquire_for_fork(&n->lock);
}

/* What no thread leaves half done that has taken no lock. */
static usual void locks_fork_finish(bool in_child)
{
	for (struct cache_node *n = nodes_first(); n; n = n->next_made)
		lock_release_after_fork(&n->lock, in_child);
	if (in_child)
		barns_after_fork();
}

usual void slab_fork_finish(bool in_child)
{
	if (in_child)
		slab_update_after_fork();
	if (!lock_fork_is_alone())
		locks_fork_finish(in_child);
	if (in_child) {
		bury_dying();
		shrink_after_fork();
	}
	slab_features_fork_finish(in_child);
	if (in_child)
		holds_after_fork();
	lock_release_after_fork(&cache_lock, in_child);
}
