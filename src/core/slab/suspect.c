/* SPDX-License-Identifier: MIT */
/*
 * What looks like misuse, made certain or dropped.
 *
 * A key in an object that is freed may be one that the program has copied, so it accuses
 * nobody.  Whether the object is free is a question that has an answer: what lies in
 * lists and barns goes to the slabs, and under the node's lock the slab's freelist is
 * looked through.  There it only gets longer (a thread that takes objects off it holds
 * the lock), so what is found there is free for as long as the lock is held; and an object that is
 * allocated is in no list, whatever others do meanwhile.
 *
 * Where that cannot be done now, in a handler that interrupted the holder of a lock or
 * where a CPU cannot be stopped, nobody is accused, and the object is left alone: at
 * worst it is lost, but never in a list twice.
 */
#include "core/slab/key.h"
#include "core/slab/slab_internal.h"

/* Objects that were found innocent, of one cache; from then on keys say nothing there. */
#define SUSPECTS_MAX 100
/* How often: another thread may have a chain in hand, on its way from list to list. */
#define LOOKS_MAX 3

usual bool cache_may_have_keys(const struct slub_cache *cache)
{
	if (!KEYS || cache->debug || !link_is_in_object(cache->link) ||
	    cache->link + KEY_BYTES_MIN > cache->size)
		return false;
	if (cache->link)
		return cache->link >= cache->object_size;
	return !cache->ctor && !(cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU);
}

enum finding { FOUND_FREE, FOUND_USED, FOUND_NOTHING };

/* An allocated object keeps its slab, so one whose page is of another is free. */
static bool is_on_freelist(struct slub_cache *cache, const void *object)
{
	struct page *slab = slab_of(cache, object);
	struct cache_node *node = cache->nodes[page_node(slab)];
	char *base = page_address(slab), *at;
	bool found;

	lock_acquire(&node->lock);
	found = pagemap_get(object) != cache->slot;
	at = (char *)slab_read(slab).first;
	for (uint32_t i = 0; !found && at && i < cache->objects; i++) {
		if ((uintptr_t)(at - base) > cache->slab_mask)
			break;
		found = at == object;
		at = *link_of(cache, at);
	}
	lock_release(&node->lock);
	return found;
}

static enum finding suspect_look(struct slub_cache *cache, const void *object)
{
	if (slub_thread.locks_held)
		return FOUND_NOTHING;
	for (unsigned int i = 0; i < LOOKS_MAX; i++) {
		bool is_all;

		if (i)
			sys_wait(i - 1);
		is_all = cache_flush(cache);
		if (is_on_freelist(cache, object))
			return FOUND_FREE;
		if (!is_all)
			return FOUND_NOTHING;
	}
	return FOUND_USED;
}

static bool is_tired(const struct slub_cache *cache)
{
	return __atomic_load_n(&cache->suspects, __ATOMIC_RELAXED) >=
	       SUSPECTS_MAX;
}

static __attribute__((__noinline__)) void
say_second(struct slub_cache *cache, void *object, const char *call)
{
	stat_add(cache, STAT_DOUBLE_FREE);
	misuse_found(MISUSE_DOUBLE_FREE, call, object, cache->name);
}

static cold bool suspect_marked(struct slub_cache *cache, void *object,
				const char *call)
{
	switch (is_tired(cache) ? FOUND_USED : suspect_look(cache, object)) {
	case FOUND_FREE:
		say_second(cache, object, call);
		return false;
	case FOUND_NOTHING:
		/* Where nothing is popped by it, it says too little to lose an object. */
		return !cache_has_keys(cache);
	case FOUND_USED:
		break;
	}
	if (!is_tired(cache))
		__atomic_fetch_add(&cache->suspects, 1, __ATOMIC_RELAXED);
	return true;
}

/* The holes of a slab that is a free block by now is any word. */
usual may_race uint64_t slab_holes_peek(const struct slub_cache *cache,
				  const struct page *slab)
{
	if (!link_is_in_object(cache->link) || cache->debug ||
	    cache->order > HOLES_ORDER_MAX)
		return 0;
	return __atomic_load_n(&slab->holes, __ATOMIC_RELAXED);
}

usual bool suspect_is_uncarved(const struct slub_cache *cache, const void *object)
{
	struct page *slab = slab_of(cache, object);
	uint64_t at = (uintptr_t)object & cache->slab_mask;
	uint64_t end = slab_holes_peek(cache, slab) ? cache->objects :
						      slab_count_read(slab);

	return at >= end * cache->size;
}

bool suspect_free(struct slub_cache *cache, void *object, const char *call)
{
	if (!cache_is_at_object(cache, object)) {
		misuse_found(MISUSE_INSIDE, call, object, cache->name);
		return false;
	}
	if (suspect_is_uncarved(cache, object)) {
		misuse_found(MISUSE_NO_BLOCK, call, object, cache->name);
		return false;
	}
	return suspect_marked(cache, object, call);
}

/*
 * Is @object the first of a CPU's list?  Then it is free, whatever others do meanwhile: an
 * object that the program has is in no list.
 */
static bool is_first(const struct slub_cache *cache, const void *object)
{
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		const char *area = percpu_area(cid);
		const struct slot *slot;

		if (!area)
			continue;
		slot = (const struct slot *)(area + cache->list_slot);
		if (__atomic_load_n(&slot->main.head, __ATOMIC_RELAXED) == object ||
		    __atomic_load_n(&slot->spare.head, __ATOMIC_RELAXED) == object)
			return true;
	}
	return false;
}

/*
 * No look through slabs here: it would stop the CPUs, and so abort other pushes.  Nearly all
 * aborted pushes are of first frees, and of the second ones nearly all follow the first at
 * once.  (With a look, two threads on one CPU made 50 system calls in 1,000 preemptions.)
 * Each program is preempted now and then, so the code lies with what all programs run.
 */
cold usual bool suspect_aborted(struct slub_cache *cache, void *object)
{
	void *place = keyed_place(cache, object);

	if (key_is_right(place) && is_first(cache, object)) {
		say_second(cache, object, "free");
		return false;
	}
	key_clear(place);
	return true;
}

/*
 * The link that named @chain had a right check word, so it is an object, and was free.  A free that
 * goes to the local list of a slab looks at nothing, so it may be in use: it was freed twice then
 * (LOCAL-6).
 */
cold bool suspect_chain(const struct slub_cache *cache, void *chain)
{
	misuse_found(MISUSE_FREE_WRITTEN, NULL, chain, cache->name);
	return false;
}

cold void suspect_count(const struct slub_cache *cache, const void *object)
{
	char where[96];
	struct text text = { where, sizeof(where), 0 };

	text_printf(&text, "%s, this block or another one of its slab", cache->name);
	misuse_found(MISUSE_DOUBLE_FREE, NULL, object, where);
}

cold void suspect_list(struct slub_cache *cache, uint32_t slot, int32_t room)
{
	void *chain = percpu_take(slot, room);

	if (chain)
		chain_flush(cache, chain);
}

/* A free of what is no object's start has come here, or somebody has written to the link. */
static cold void say_unsound(const struct slub_cache *cache, const void *object,
			     const void *next)
{
	bool is_inside = pagemap_get(next) == cache->slot;

	misuse_found(is_inside ? MISUSE_INSIDE : MISUSE_LIST, NULL,
		     is_inside ? next : object, cache->name);
}

cold void *chain_damaged(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	void *next = *place;

	if (!cache_is_keyed(cache) || (key_is_right(place) && !link_is_sound(cache, next))) {
		say_unsound(cache, object, next);
		chain_set_next(cache, object, NULL);
	} else if (key_is_right(place)) {
		suspect_chain(cache, next);
		chain_set_next(cache, object, NULL);
	} else {
		/* It may be in use: nothing is written there. */
		suspect_chain(cache, object);
	}
	return NULL;
}

cold bool chain_ends(struct slub_cache *cache, void *chain, uint32_t most)
{
	for (void *o = chain; o; o = chain_next_near(cache, o)) {
		if (most--)
			continue;
		suspect_count(cache, chain);
		return false;
	}
	return true;
}

/* The first @most objects of @chain; returns how many there are. */
static uint32_t uncarved_look(struct slub_cache *cache, void *chain, uint32_t most)
{
	uint32_t nr = 0;

	for (void *o = chain; o && nr < most; o = chain_next(cache, o)) {
		if (suspect_is_uncarved(cache, o))
			misuse_found(MISUSE_NO_BLOCK, "free", o, cache->name);
		nr++;
	}
	return nr;
}

static void uncarved_list_look(struct slub_cache *cache)
{
	int32_t capacity = capacity_now(cache);
	void *chain = percpu_take(cache->list_slot, capacity);
	uint32_t nr;

	if (!chain)
		return;
	if (!link_is_sound(cache, chain)) {
		say_unsound(cache, chain, chain);
		return;
	}
	nr = uncarved_look(cache, chain, (uint32_t)cache->capacity);
	chain_store(cache, chain, nr);
}

usual void suspect_lists(void)
{
	if (!KEYS || slub_thread.locks_held)
		return;
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		/* Programs' own may be ending. */
		if (cache_is_keyed(c) && !c->root && c->is_internal)
			uncarved_list_look(c);
	}
}
