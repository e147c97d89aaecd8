/* SPDX-License-Identifier: MIT */
/* The hardened build: see the head of hardened.h. */
#include "core/base/hash.h"
#include "core/slab/slab_internal.h"

#include <string.h>

/* A table, for no one shift leaves nothing of a word. */
const uint64_t words_behind[9] = {
	UINT64_MAX << 0,  UINT64_MAX << 8,  UINT64_MAX << 16, UINT64_MAX << 24,
	UINT64_MAX << 32, UINT64_MAX << 40, UINT64_MAX << 48, UINT64_MAX << 56,
	0,
};

static uint32_t fill_bytes;	/* const after start */
static uint64_t order_state;
uint64_t tail_secret;

/* ---- secrets ---- */

#define GRND_NONBLOCK 1

/*
 * As many as a start needs, and as what it may make of malloc's caches later (sampling): by then
 * a sandbox may end the process for getrandom.  One call is no dearer than the first one.
 */
static uint64_t secrets[224];
static uint32_t secrets_used;

static bool draw(uint64_t *to, size_t bytes)
{
	return sys_call4(SYS_getrandom, (long)to, (long)bytes, GRND_NONBLOCK,
			 0) == (long)bytes;
}

/* Made of a random word that the kernel gave this process, and that is shown nowhere. */
static uint64_t makeshift(void)
{
	static uint64_t nr;
	uint64_t x = os_random_word(1) ^ os_clock_ns();

	x += __atomic_add_fetch(&nr, 1, __ATOMIC_RELAXED) *
	     HASH_MULTIPLIER;
	return (x ^ x >> 32) * 0x94d049bb133111ebull;
}

/* Each secret is used once: to learn one tells nothing of the others.  Odd: tail_key(). */
static uint64_t secret_new(void)
{
	uint32_t n = __atomic_fetch_add(&secrets_used, 1, __ATOMIC_RELAXED);
	uint64_t secret;

	if (n < ARRAY_SIZE(secrets) && secrets[n])
		return secrets[n] | 1;
	return (draw(&secret, sizeof(secret)) ? secret : makeshift()) | 1;
}

/* ---- caches ---- */

static void large_was_written(const void *ptr)
{
	misuse_found(MISUSE_FREE_WRITTEN, NULL, ptr, "large block");
}

static const struct slot_check check_any = { .magic = 1, .secret = 1 };

void hardened_init(void)
{
	if (!draw(secrets, sizeof(secrets)))
		memset(secrets, 0, sizeof(secrets));
	order_state = secret_new();
	tail_secret = secret_new() & ~(uint64_t)1;
	fence_found = large_was_written;
	fill_bytes = (uint32_t)option_value(OPTION_free_fill);
	/* A watched cache checks its objects itself: here any offset will do. */
	for (uint32_t slot = 0; slot < AREA_NEAR_BYTES; slot += SLOT_BYTES)
		*slot_check(slot) = check_any;
	/* Pages with these entries hold no objects, and may be unreadable: no offset will do. */
	for (uint32_t slot = 0; slot < MAP_SPECIAL_END; slot += SLOT_BYTES) {
		slot_check(slot)->magic = 0;
		slot_check(slot)->fill = UINT32_MAX;
	}
}

/* The offset of the tail of an object; 0: there is no room behind the object. */
static uint32_t tail_offset(const struct slub_cache *cache)
{
	size_t used = cache->object_size;

	if (link_is_in_object(cache->link))
		used = max_size(used, cache->link + sizeof(void *));
	return cache->size - used >= TAIL_BYTES ?
		       cache->size - (uint32_t)TAIL_BYTES : 0;
}

/*
 * What a free fills: pairs of words behind the link; the last two may overlap.  What a
 * constructor made, or a reader may look at, stays.
 */
static uint32_t fill_of(const struct slub_cache *cache, uint32_t tail)
{
	size_t fill = min_size(8 + round_up((size_t)fill_bytes, 16), tail);

	if (cache->ctor || (cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU) ||
	    !fill_bytes)
		return 0;
	return fill < 8 + 16 ? 0 : (uint32_t)fill;
}

void hardened_cache_made(const struct slub_cache *cache)
{
	struct slot_check check = {
		.secret = secret_new(),
		.mask = (uint32_t)(PAGE_BYTES << cache->order) - 8,
		.magic = UINT64_MAX / cache->size + 1,
	};

	/* Watched objects do not begin at multiples of the size. */
	if (cache->debug) {
		*slot_check(cache->list_slot) = check_any;
		return;
	}
	check.tail = tail_offset(cache);
	check.tail_most = TAIL_MOST(check.tail);
	check.fill = fill_of(cache, check.tail);
	*entry_check(cache->slot) = check;
	*slot_check(cache->list_slot) = check;
}

void hardened_slot_made(const struct slub_cache *cache, uint32_t slot)
{
	const struct slot_check *own = slot_check(cache->list_slot);

	*slot_check(slot) = *own;
}

void hardened_cache_unmade(const struct slub_cache *cache)
{
	*entry_check(cache->slot) = check_any;
	*slot_check(cache->list_slot) = check_any;
}

/* ---- what is found ---- */

static bool is_in_cache(const struct slub_cache *cache, uintptr_t next)
{
	return link_is_plausible(next) &&
	       pagemap_get((void *)next) == cache->slot &&
	       is_at_object(slot_check(cache->list_slot), (void *)next);
}

void *hardened_next(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	uintptr_t next = link_decode(cache->list_slot, place, *place);

	if (likely(!next || is_in_cache(cache, next)))
		return (void *)next;
	chain_set_next(cache, object, NULL);
	misuse_found(MISUSE_FREE_WRITTEN, NULL, object, cache->name);
	return NULL;
}

void *hardened_next_aside(struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	void *next = (void *)link_decode(cache->list_slot, place, *place);
	struct slub_cache *owner = NULL;

	if (link_is_plausible((uintptr_t)next))
		owner = cache_of(next);
	if (owner && owner != cache &&
	    cache_original(owner) == cache_original(cache) &&
	    (owner->debug || is_at_object(slot_check(owner->list_slot), next)))
		return next;
	return hardened_next(cache, object);
}

static bool is_free_already(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	uintptr_t next;

	if (!link_is_in_object(cache->link))
		return *place != LINK_USED;
	next = link_decode(cache->list_slot, place, *place);
	return !next || is_in_cache(cache, next);
}

/* Was @object carved?  If not, it has never been handed out. */
static bool is_carved(const struct slub_cache *cache, const void *object)
{
	const struct page *slab = slab_of(cache, object);
	size_t at = (size_t)((const char *)object -
			     (const char *)page_address(slab));

	return at / cache->size < slab_count_read(slab);
}

/* The tail of @object, @bits, is not that of an allocated one; its link says nothing. */
static cold enum misuse look_at_tail(const struct slub_cache *cache,
				     const void *object, uint64_t bits)
{
	size_t tail = slot_check(cache->list_slot)->tail;

	if ((bits ^ TAIL_FREE) <= tail)
		return MISUSE_DOUBLE_FREE;
	return (bits ^ (TAIL_FREE | TAIL_NEW)) <= tail ||
			       !is_carved(cache, object) ?
		       MISUSE_NO_BLOCK : MISUSE_BEYOND;
}

/* What is wrong with @object, which a program says is its own; MISUSE_NR: nothing. */
static enum misuse look(const struct slub_cache *cache, void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t bytes;

	if (unlikely(!is_at_object(g, object)))
		return MISUSE_INSIDE;
	if (unlikely(is_free_already(cache, object)))
		return MISUSE_DOUBLE_FREE;
	if (!g->tail)
		return MISUSE_NR;
	bytes = tail_read(g, object);
	if (unlikely(bytes > g->tail))
		return look_at_tail(cache, object, bytes);
	/* The object in front of it may be a free one of a page or more, without its tail. */
	if (unlikely(!pad_is_right(g, object, bytes) ||
		     (!tail_is_far(g) && !tail_before_is_right(g, object))))
		return MISUSE_BEYOND;
	return MISUSE_NR;
}

bool hardened_check(const struct slub_cache *cache, void *object,
		    const char *call)
{
	enum misuse what;

	if (cache->debug)
		return true;
	what = look(cache, object);
	if (likely(what == MISUSE_NR))
		return true;
	if (what == MISUSE_DOUBLE_FREE)
		stat_add(cache, STAT_DOUBLE_FREE);
	misuse_found(what, call, object, cache->name);
	return false;
}

bool hardened_free(struct slub_cache *cache, void *object)
{
	if (!hardened_check(cache, object, "free"))
		return false;
	hardened_fill(cache, object);
	return true;
}

uint64_t hardened_call(const void *ptr)
{
	const struct slub_cache *cache = cache_of(ptr);
	const struct slot_check *g;
	size_t bytes;

	if (!cache)
		return pagemap_get(ptr) == MAP_LARGE &&
				       !((uintptr_t)ptr % PAGE_BYTES) ?
			       large_call(ptr) : TAIL_CALL(CALL_UNKNOWN);
	g = slot_check(cache->list_slot);
	if (cache->debug || !g->tail || !is_at_object(g, ptr) ||
	    is_free_already(cache, (void *)ptr))
		return TAIL_CALL(CALL_UNKNOWN);
	bytes = tail_read_all(g, ptr);
	return (bytes & ~TAIL_CALL_MASK) > g->tail ? TAIL_CALL(CALL_UNKNOWN) :
						     bytes & TAIL_CALL_MASK;
}

void hardened_fill_far(void *object, size_t bytes)
{
	memset(object, 0, bytes);
}

bool hardened_fill_far_is_right(const char *object, size_t bytes)
{
	uint64_t all = word_load(object + bytes - 8);

	for (size_t at = 8; at < bytes - 8; at += 8)
		all |= word_load(object + at);
	return !all;
}

static cold bool report(enum misuse what, const struct slot_check *g, void *object)
{
	uintptr_t slot = (uintptr_t)g - (uintptr_t)slot_checks;
	const struct slub_cache *cache = cache_of_slot((uint32_t)slot);

	misuse_found(what, NULL, object, cache ? cache->name : NULL);
	return false;
}

bool hardened_look(const struct slot_check *g, void *object)
{
	uint64_t bits;

	/* Perhaps nothing is mapped there. */
	if (entry_check(pagemap_get(object))->secret != g->secret || !is_at_object(g, object))
		return report(MISUSE_LIST, g, object);
	bits = tail_read_all(g, object) ^ TAIL_FREE;
	if (likely((bits ^ TAIL_NEW) <= g->tail))
		return true;
	/* Pages of large objects that were free may have gone back to the system. */
	if (tail_is_far(g) && !*tail_of(g, object))
		return true;
	if (bits > g->tail)
		return report(MISUSE_FREE_WRITTEN, g, object);
	if (fill_is_far(g) ? hardened_fill_far_is_right(object, g->fill) :
			     fill_is_right(g, object))
		return true;
	return report(MISUSE_FREE_WRITTEN, g, object);
}

#define INSTEAD_TRIES 64

/* False: it is to be left out of use. */
static bool unchain(const struct slub_cache *cache, void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);

	if (g->tail && !hardened_may_hand_out(g, object))
		return false;
	*link_of(cache, object) = link_is_in_object(cache->link) ? NULL : LINK_USED;
	/* All of it; what a constructor has made stays. */
	if (g->tail)
		tail_set(g, object, g->tail);
	return true;
}

/* In place of one that is left out of use. */
static cold void *instead(struct slub_cache *cache)
{
	for (int i = 0; i < INSTEAD_TRIES && !slub_thread.locks_held; i++) {
		uint32_t nr = 1;
		void *chain = chain_fetch_far(cache, node_current(cache), &nr), *rest;

		if (!chain || !hardened_is_head(cache, chain))
			return NULL;
		rest = chain_next(cache, chain);
		if (rest)
			chain_give(cache, rest, nr - 1);
		if (unchain(cache, chain))
			return chain;
	}
	return NULL;
}

void *hardened_unchained(struct slub_cache *cache, void *object)
{
	return likely(unchain(cache, object)) ? object : instead(cache);
}

/* A link that was overwritten in part may have led to this head. */
bool hardened_is_head(const struct slub_cache *cache, void *chain)
{
	if (likely(is_in_cache(cache, (uintptr_t)chain)))
		return true;
	misuse_found(MISUSE_LIST, NULL, chain, cache->name);
	return false;
}

void hardened_mend(struct slub_cache *cache, uint32_t slot)
{
	int32_t room;
	void *chain;

	if (likely(!percpu_glance(slot, &room)) || slub_thread.locks_held)
		return;
	chain = percpu_take(slot, capacity_now(cache));
	if (chain && hardened_is_head(cache, chain))
		chain_flush(cache, chain);
}

/* ---- new slabs ---- */

/*
 * Under the node's lock, for a thread that carves the next objects of the slab looks at the
 * tail of the last of these.
 */
void hardened_carved(const struct slub_cache *cache, char *first, uint32_t nr)
{
	const struct slot_check *g = slot_check(cache->list_slot);

	for (uint32_t i = 0; g->tail && !cache->debug && i < nr; i++)
		tail_set(g, first + (size_t)i * cache->size,
			 TAIL_FREE | TAIL_NEW);
}

uint32_t hardened_random(uint32_t end)
{
	return (uint32_t)((random_next(&order_state) >> 32) * end >> 32);
}

/* Puts @nr pointers in random order. */
static void shuffle(void **objects, uint32_t nr)
{
	/* A weak generator will do: only the order of addresses shows its numbers. */
	uint64_t x = random_next(&order_state);

	for (; nr > 1; nr--) {
		uint32_t i = (uint32_t)((x >> 32) * nr >> 32);
		void *other = objects[i];

		objects[i] = objects[nr - 1];
		objects[nr - 1] = other;
		/* As good as its seed, and the state of that is shown nowhere. */
		x = x * 0xd1342543de82ef95ull + 1;
	}
}

void *hardened_link(struct slub_cache *cache, char *first, uint32_t nr)
{
	void *chain = NULL;

	for (uint32_t from = 0, n; from < nr; from += n) {
		void *objects[2 * HARDENED_SHUFFLED - 1];

		/* The last ones are the first to be handed out: never a few by themselves. */
		n = nr - from < 2 * HARDENED_SHUFFLED ? nr - from : HARDENED_SHUFFLED;
		for (uint32_t i = 0; i < n; i++)
			objects[i] = first + (size_t)(from + i) * cache->size;
		shuffle(objects, n);
		for (uint32_t i = 0; i < n; i++) {
			chain_set_next(cache, objects[i], chain);
			chain = objects[i];
		}
	}
	return chain;
}

/* ---- exit: the tails of what is never freed ---- */

/* Slabs that are looked at: an exit is not to read all of a large heap. */
#define FINISH_BYTES ((size_t)64 << 20)

struct finish {
	size_t bytes;
	void *object;		/* one that is not as it was left */
};

/*
 * Other threads may go on: they write the pad first, and the tail with one store, so that a
 * tail that stays the same has its pad.  A free object has none.
 */
static bool is_intact(const struct slot_check *g, const char *object)
{
	const uint64_t *place = tail_of(g, object);
	uint64_t word = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	size_t bytes = tail_rotated(word ^ tail_key(g, object)) << 2 >> 2;

	/* Never written, or its page went back to the system. */
	if (!word)
		return true;
	if (bytes <= g->tail ? pad_is_right(g, object, bytes) :
	    (bytes & ~(TAIL_FREE | TAIL_NEW)) <= g->tail)
		return true;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(place, __ATOMIC_RELAXED) != word;
}

static void slab_look(struct slub_cache *cache, struct page *slab, void *arg)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	struct cache_node *node = cache->nodes[page_node(slab)];
	char *base = page_address(slab), *at = base;
	struct finish *finish = arg;

	if (!g->tail || cache->debug || !node || finish->object ||
	    finish->bytes >= FINISH_BYTES)
		return;
	finish->bytes += PAGE_BYTES << cache->order;
	lock_acquire(&node->lock);
	/* It was found without the lock, and may have gone back. */
	if (pagemap_get(base) == cache->slot) {
		char *end = base + slab_count_read(slab) * cache->size;

		while (at < end && is_intact(g, at))
			at += cache->size;
		if (at < end)
			finish->object = at;
	}
	lock_release(&node->lock);
	if (finish->object)
		misuse_found(MISUSE_BEYOND, NULL, finish->object, cache->name);
}

cold void hardened_finish(void)
{
	struct finish finish = { 0, NULL };

	if (slub_thread.locks_held)
		return;
	slab_for_each(slab_look, &finish);
	hardened_lists_look();
}
