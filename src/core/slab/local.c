/* SPDX-License-Identifier: MIT */
/*
 * Local lists, where objects are freed and taken: local.h has the word, and the rules LOCAL-1 to
 * LOCAL-7.
 *
 * The case for them is a million objects of 64 bytes that are freed in random order.  A list of
 * the CPU that holds one object of each slab makes free() wait for a line that is in no cache, the
 * flush of the list wait for it once more, one object after the other, and malloc() a third time;
 * and the list keeps all these slabs from becoming empty.  Here free() writes to the object and to
 * the descriptor, and reads the descriptor alone.
 *
 * Locks: node->lock; area_lock comes before it (local_stopped()).
 */
#include "core/slab/key.h"
#include "core/slab/local.h"
#include "core/slab/slab_internal.h"

/* A short list has so many objects. */
#define SHORT_OBJECTS KEPT_MAX
/*
 * A list is looked at when it has got so many objects since its refill, and gets longer if it is in
 * order: by the time that a long one is full, its links are in no cache.
 */
#define JUDGED_OBJECTS 32
/* A list has room for the others of its slab: no slab of more has one. */
#define LOCAL_OBJECTS_MAX (LOCAL_ROOM_MASK + 1)
/* The word of a list can name a place in so many bytes. */
#define LOCAL_SLAB_BYTES_MAX ((LOCAL_HEAD_MASK + 1u) << LOCAL_UNIT_SHIFT)
/* So many marked lists a slow call sets right. */
#define MARKED_MAX 8

uintptr_t local_bias rarely_touched;

/*
 * Only where a CPU can be stopped: a trim could not get at the lists of one that runs nothing any
 * more.
 */
cold void local_init(struct slub_cache *cache)
{
	if (!ARCH_HAS_LOCAL || percpu_backend != BACKEND_RSEQ || !cache->has_keys || cache->link ||
	    !cache->is_internal || cache->debug || cache->is_sampled || cache->is_accounted ||
	    cache->is_reserve || cache->list_slot != cache->slot || !cache->order ||
	    cache->objects > LOCAL_OBJECTS_MAX || cache->slab_mask >= LOCAL_SLAB_BYTES_MAX ||
	    !percpu_can_stop)
		return;
	for (uint32_t n = 0; n < slab_nr_nodes(); n++) {
		uintptr_t at = percpu_alloc(sizeof(struct local_slabs), sizeof(void *));

		if (!at)
			return;
		cache->nodes[n]->local = (uint32_t)at;
	}
	local_bias = descriptor_bias + (uintptr_t)page_state((struct page *)sizeof(struct page));
	cache->has_local = true;
}

/* ---- the sequences ---- */

static bool owned_push(const struct slub_cache *cache, void *object)
{
#if ARCH_HAS_LOCAL
	for (int i = 0; i < ABORTS_MAX; i++) {
		uintptr_t slot = cache->list_slot, t, u, v;

		RSEQ_FREE_KEY_IN(slub_thread.self, object, slot, t, u, v, slub_key,
				 local_bias);
		return true;
aborted:
		continue;
failed:
		break;
	}
#else
	(void)cache;
	(void)object;
#endif
	return false;
}

/* The local list is the caller's, and the word has no room; false: this CPU is not its owner. */
static bool owned_take(struct page *local, uint64_t *word)
{
#if ARCH_HAS_LOCAL
	for (int i = 0; i < ABORTS_MAX; i++) {
		uintptr_t w, t, v;

		RSEQ_LOCAL_TAKE(w, &page_state(local)->first, t, v);
		*word = w;
		return true;
aborted:
		continue;
failed:
		break;
	}
#endif
	(void)local;
	*word = 0;
	return false;
}

/* ---- the slabs of a CPU; under the node's lock ---- */

/* The list of @local leaves it; false: this CPU is not its owner. */
static bool owned_pop(struct local_slabs *slabs, struct page *local, struct detached_list *list)
{
	uint64_t word;

	if (!owned_take(local, &word))
		return false;
	*list = local_list_of(local, word);
	local_unlist(slabs, local);
	local_note_move();
	return true;
}

struct page *local_pop(struct local_slabs *slabs, struct detached_list *list)
{
	struct page *local = local_first(slabs);

	return local && owned_pop(slabs, local, list) ? local : NULL;
}

void local_mask_set(const struct slub_cache *cache, uint32_t cid)
{
	struct slot *slot = (struct slot *)(percpu_area(cid) + cache->list_slot);
	uint32_t mask = ~(uint32_t)cache->slab_mask;

	if (__atomic_load_n(&slot->main.unused, __ATOMIC_RELAXED) != mask)
		__atomic_store_n(&slot->main.unused, mask, __ATOMIC_RELAXED);
}

void local_own_slab(struct page *slab)
{
	uint32_t cid = percpu_here(), owner;

	if (cid >= LOCAL_OWNERS)
		return;
	owner = local_owner(local_read(local_of(slab)));
	if (owner != cid && owner != LOCAL_EMPTIED && !local_of(slab)->list.next)
		local_write(local_of(slab), local_none(cid));
}

/* LOCAL-5; @others: objects in use that are not in the list. */
static uint32_t room_for(struct page *local, uint32_t others)
{
	return (uint32_t)min_size(*local_is_shared(local) ? others / 2 : others - 1,
				  LOCAL_ROOM_MASK);
}

/* The list of @local has @list's objects, fewer than are in use, and room for others. */
static void owned_begin(struct local_slabs *slabs, struct page *local,
			const struct detached_list *list, uint32_t cid, uint32_t inuse)
{
	uint32_t room = room_for(local, inuse - list->nr);

	*local_last(local) = list->last;
	__atomic_store_n(&local->count, list->nr + room, __ATOMIC_RELAXED);
	__atomic_store_n(local_watermark(local), list->nr + room, __ATOMIC_RELAXED);
	list_add_tail(&slabs->slabs, &local->list);
	if (percpu_cpu_number != CPU_NUMBER_MM_CID)
		local_wandered(cid);
	local_write(local, local_make(local, list->head, list->sum, cid, room));
	local_note_move();
}

/* ---- free ---- */

/*
 * Is it @list that has all objects of @slab that were ever handed out, each once?  True: no object
 * need be read for it.
 */
static bool sum_is_right(const struct slub_cache *cache, struct page *slab,
			 const struct detached_list *list)
{
	const char *at = page_address(slab);
	uint32_t nr = slab_count_read(slab);
	uint64_t sum = 0;

	if (list->nr != nr || slab_holes_peek(cache, slab))
		return false;
	for (uint32_t i = 0; i < nr; i++, at += cache->size)
		sum += local_addend(at);
	return list->sum == sum;
}

/* Are these @list->nr objects of @slab, each once?  The first that is not, or NULL. */
static cold void *unsound_of(const struct slub_cache *cache, struct page *slab,
			     const struct detached_list *list)
{
	const char *base = page_address(slab);
	uint64_t seen[(LOCAL_OBJECTS_MAX + 63) / 64] = { 0 };
	char *at = list->head;

	for (uint32_t i = 0; i < list->nr; i++) {
		uint32_t n = (uint32_t)((at - base) / cache->size);

		if ((uintptr_t)(at - base) > cache->slab_mask || !cache_is_at_object(cache, at) ||
		    seen[n / 64] >> n % 64 & 1 || (at == list->last) != (i + 1 == list->nr))
			return at;
		seen[n / 64] |= 1ull << n % 64;
		at = *link_of(cache, at);
	}
	return NULL;
}

/*
 * LOCAL-6.  Where the sum is no proof, and for a list that goes before its slab is whole, which is
 * rare, the links are followed.
 */
static bool list_is_sound(struct slub_cache *cache, struct page *slab,
			  const struct detached_list *list, bool is_whole)
{
	void *unsound = is_whole && sum_is_right(cache, slab, list) ?
				NULL : unsound_of(cache, slab, list);

	if (likely(!unsound))
		return true;
	stat_add(cache, STAT_DOUBLE_FREE);
	misuse_found(MISUSE_DOUBLE_FREE, NULL, unsound, cache->name);
	return false;
}

void local_give_back(struct slub_cache *cache, struct page *local, struct detached_list *list)
{
	struct page *slab = local - 1;

	if (!list_is_sound(cache, slab, list, state_inuse(slab_read(slab)) == list->nr))
		return;
	/* Another list may have begun since, on another CPU too, with room for these. */
	local_join(cache, slab, list);
	slab_free_list(cache, slab, list->head, list->last, list->nr);
}

/* The first of the marked ones; NULL: there is none, or its room is right again. */
static struct page *pop_marked(struct cache_node *node, struct detached_list *list)
{
	uint32_t cid = percpu_here(), inuse;
	struct local_slabs *slabs = local_slabs_of(node, cid);
	struct page *local = NULL;

	if (slabs && slabs->nr_marked)
		local = local_pop(slabs, list);
	if (!local)
		return NULL;
	inuse = state_inuse(slab_read(local - 1));
	if (inuse <= list->nr)
		return local;
	owned_begin(slabs, local, list, cid, inuse);
	return NULL;
}

/* A glance without the lock: has this CPU a list that others have marked? */
static bool has_marked(const struct cache_node *node)
{
	const struct local_slabs *slabs = local_slabs_at(node, percpu_here());

	return slabs && __atomic_load_n(&slabs->nr_marked, __ATOMIC_RELAXED);
}

/* Some of those that others have marked: a slab that is whole by now goes. */
static void settle_marked(struct slub_cache *cache, struct cache_node *node)
{
	for (int i = 0; i < MARKED_MAX && has_marked(node); i++) {
		struct detached_list list;
		struct page *local;

		lock_acquire(&node->lock);
		local = pop_marked(node, &list);
		lock_release(&node->lock);
		if (local)
			local_give_back(cache, local, &list);
	}
}

enum outcome { NOT_OURS, PUT, LAST };

/* Under the lock; LAST: *@list, with @object in it, has left the slab. */
static enum outcome put_first_or_last(struct slub_cache *cache, struct cache_node *node,
				      struct page *slab, void *object, struct detached_list *list)
{
	uint32_t cid = percpu_here(), inuse = state_inuse(slab_read(slab));
	struct local_slabs *slabs = local_slabs_of(node, cid);
	struct page *local = local_of(slab);
	uint64_t word;

	if (!slabs || cache_is_watched(cache) || !local_is_owned(cache, node, local, cid))
		return NOT_OURS;
	word = local_read(local);
	if (!local->list.next) {
		if (!local_may_begin())
			return NOT_OURS;
		*list = (struct detached_list){ object, object, 1, local_addend(object) };
		chain_set_next(cache, object, NULL);
		if (inuse < 2)
			return LAST;
		local_mask_set(cache, cid);
		owned_begin(slabs, local, list, cid, inuse);
		return PUT;
	}
	if (local_room(word)) {
		/* Somebody was quicker, or this CPU was emptied but for this slab. */
		local_mask_set(cache, cid);
		return owned_push(cache, object) ? PUT : NOT_OURS;
	}
	if (!owned_pop(slabs, local, list))
		return NOT_OURS;
	chain_set_next(cache, object, list->head);
	list->head = object;
	list->nr++;
	list->sum += local_addend(object);
	inuse = state_inuse(slab_read(slab));
	if (inuse <= list->nr)
		return LAST;
	owned_begin(slabs, local, list, cid, inuse);
	return PUT;
}

/* LAST: its slab was whole, and is given back. */
static enum outcome go_home(struct slub_cache *cache, void *object)
{
	struct page *slab = slab_of(cache, object), *local = local_of(slab);
	struct cache_node *node = cache->nodes[page_node(slab)];
	struct detached_list list;
	enum outcome outcome;

	if (local_owner(local_read(local)) != percpu_here() && !local_goes_along())
		return NOT_OURS;
	inject(INJECT_local);
	lock_acquire(&node->lock);
	outcome = put_first_or_last(cache, node, slab, object, &list);
	lock_release(&node->lock);
	if (outcome == LAST)
		local_give_back(cache, local, &list);
	return outcome;
}

/*
 * A slab became whole, so the program frees more than it takes, and each object of a short list
 * pins the slab that it lies in: one goes home for each such slab.  Else the last objects that a
 * list got would keep as many slabs as they are, of each size, behind frees in random order.
 */
static void short_list_falls(struct slub_cache *cache)
{
	enum outcome outcome = LAST;

	while (outcome == LAST &&
	       __atomic_load_n(&percpu_lists(cache->list_slot)->main.room, __ATOMIC_RELAXED) <=
		       ROOM_SHORT) {
		void *object = percpu_pop(cache->list_slot, list_link(cache));

		if (!object)
			return;
		outcome = owned_push(cache, object) ? PUT : go_home(cache, object);
		if (outcome == NOT_OURS) {
			chain_set_next(cache, object, NULL);
			chain_settled_to_slabs(cache, object);
		}
	}
}

static bool free_home(struct slub_cache *cache, void *object)
{
	enum outcome outcome = go_home(cache, object);

	if (outcome == LAST) {
		short_list_falls(cache);
		slab_reclaim_if_needed();
	}
	return outcome != NOT_OURS;
}

/* Of a slab of another CPU, or of none: to a list of its own, in the place of the spare. */
static void free_foreign(struct slub_cache *cache, void *object)
{
	uint32_t half = cache->list_slot + SLOT_SPARE;
	void *full;

	if (percpu_push(half, object, list_link(cache)))
		return;
	full = percpu_take(half, LOCAL_FOREIGN);
	chain_set_next(cache, object, NULL);
	if (!percpu_put(half, object, LOCAL_FOREIGN - 1))
		chain_settled_to_slabs(cache, object);
	if (!full)
		return;
	stat_add(cache, STAT_FREE_FLUSH);
	chain_settled_to_slabs(cache, full);
	slab_reclaim_if_needed();
}

/* Past a short list. */
static void free_past(struct slub_cache *cache, void *object)
{
	struct cache_node *node = node_current(cache);

	if (!free_home(cache, object))
		free_foreign(cache, object);
	if (has_marked(node)) {
		settle_marked(cache, node);
		slab_reclaim_if_needed();
	}
}

/* ---- a list that is full ---- */

/* Its objects go home, and those of others by their freelists. */
static void disperse(struct slub_cache *cache, void *chain)
{
	void *others = NULL;

	while (chain) {
		void *next = chain_next_near(cache, chain);

		/* On the slab's freelist it would not be in the list's sum (LOCAL-6). */
		if (!owned_push(cache, chain) && !free_home(cache, chain)) {
			chain_set_next(cache, chain, others);
			others = chain;
		}
		chain = next;
	}
	if (others)
		chain_settled_to_slabs(cache, others);
}

static void shorten(struct slub_cache *cache, void *full)
{
	int32_t nr;
	void *rest = chain_cut(cache, full, SHORT_OBJECTS, &nr);

	stat_add(cache, STAT_FREE_FLUSH);
	/* Another thread on this CPU may have been quicker. */
	if (!percpu_put(cache->list_slot, full, ROOM_SHORT - nr))
		chain_settled_to_slabs(cache, full);
	disperse(cache, rest);
	disperse(cache, chain_head(cache, percpu_take(cache->list_slot + SLOT_SPARE,
						      LOCAL_FOREIGN)));
}

int32_t local_limit(const struct slub_cache *cache, int32_t nr)
{
	int32_t capacity = capacity_now(cache), limit = nr + JUDGED_OBJECTS;

	return limit < capacity ? limit : capacity;
}

/*
 * The list of @nr objects gets twice as long, and is looked at again then: a look at some links is
 * wrong now and then, and each object behind it is a miss in free(), in the flush and in malloc().
 * False: it is as long as lists of the cache may get.
 */
static bool lengthen(struct slub_cache *cache, void *full, int32_t nr)
{
	int32_t capacity = capacity_now(cache);

	if (nr >= capacity)
		return false;
	if (capacity > 2 * nr)
		capacity = 2 * nr;
	if (!percpu_put(cache->list_slot, full, list_room(capacity, nr)))
		chain_retire(cache, full, (uint32_t)nr);
	return true;
}

/* The list was full of @nr objects, and is empty now. */
static bool free_judged(struct slub_cache *cache, void *object, void *full, int32_t nr)
{
	if (chain_is_scattered(cache, full)) {
		shorten(cache, full);
		free_past(cache, object);
		return true;
	}
	if (lengthen(cache, full, nr))
		return percpu_push(cache->list_slot, object, list_link(cache));
	/* cache_free_to_list() has it once more. */
	if (!percpu_put(cache->list_slot, full, list_room(nr, nr)))
		chain_retire(cache, full, (uint32_t)nr);
	return false;
}

bool local_free(struct slub_cache *cache, void *object)
{
	int32_t nr = (int32_t)slot_main_nr(percpu_lists(cache->list_slot), capacity_now(cache));
	void *full;

	if (unlikely(!local_may_begin())) {
		if (local_takes(cache))
			local_leave_short(cache);
		return false;
	}
	if (local_takes(cache)) {
		free_past(cache, object);
		return true;
	}
	full = chain_head(cache, percpu_take(cache->list_slot, 0));
	return full && free_judged(cache, object, full, nr);
}

/* ---- alloc ---- */

void *local_take_objects(struct slub_cache *cache, struct cache_node *node, uint32_t wanted,
			 uint32_t *nr)
{
	void *chain = NULL;
	uint32_t have = 0;

	lock_acquire(&node->lock);
	while (have < wanted) {
		struct detached_list list;

		if (!local_pop(local_slabs_of(node, percpu_here()), &list))
			break;
		chain_set_next(cache, list.last, chain);
		chain = list.head;
		have += list.nr;
	}
	lock_release(&node->lock);
	*nr = have;
	return chain;
}

/* ---- others ---- */

/*
 * Under the lock: are the local list, whose word was @word, and @nr objects of the caller all that
 * is in use?  What was neither then has come back since, by others, for the number in use was read
 * later.  So nobody has anything to push, and the word stays as it is.
 */
static bool is_rest(struct page *slab, uint64_t word, uint32_t nr)
{
	return local_count(local_of(slab), word) + nr == state_inuse(slab_read(slab));
}

/* Under the lock; *@list: the local list, which is the caller's; false: it stays, and is marked. */
static bool take_rest(struct cache_node *node, struct page *slab, uint32_t nr,
		      struct detached_list *list)
{
	struct page *local = local_of(slab);
	/* acquire: before what it counts, and the links */
	uint64_t word = __atomic_load_n((uint64_t *)&page_state(local)->first, __ATOMIC_ACQUIRE);
	struct local_slabs *slabs = local_slabs_of(node, local_owner(word));

	if (!slabs || !local->list.next)
		return false;
	if (is_rest(slab, word, nr)) {
		*list = local_list_of(local, word);
		local_unlist(slabs, local);
		local_write(local, local_none(local_owner(word)));
		return true;
	}
	if (!*local_is_marked(local))
		local_mark(slabs, local);
	return false;
}

void local_join_list(struct slub_cache *cache, struct page *slab, struct detached_list *mine)
{
	struct cache_node *node = cache->nodes[page_node(slab)];
	struct page *local = local_of(slab);
	struct detached_list list;
	bool is_mine;

	/* A look without the lock: there is nothing to do. */
	if (__atomic_load_n(local_is_marked(local), __ATOMIC_RELAXED) &&
	    !is_rest(slab, local_read(local), mine->nr))
		return;
	lock_acquire(&node->lock);
	is_mine = take_rest(node, slab, mine->nr, &list);
	lock_release(&node->lock);
	if (!is_mine || !list_is_sound(cache, slab, &list, true))
		return;
	chain_set_next(cache, mine->last, list.head);
	mine->last = list.last;
	mine->nr += list.nr;
}
