/* SPDX-License-Identifier: MIT */
/* Guarded objects: see the head of guard.h. */
#include "core/base/list.h"
#include "core/os/start_only.h"
#include "features/misuse/misuse.h"
#include "features/watch/watch.h"
#include "features/guard/guard_internal.h"
#include "features/rcu/rcu.h"

#include <string.h>
#include <time.h>

#include "features/profile/sample.h"

#define PLACES_MIN 16
/* Places that are looked at for one that can be used. */
#define TRIES 128
/* ... behind one that was freed lately. */
#define TRIES_BEYOND 16

/* Places for large blocks: one for so many of the others. */
#define PLACES_PER_LARGE 64
/* ... while letters watch them. */
#define PLACES_WATCHED 256
/* For blocks of no size.  Nobody asks for these, so they take little: 8 MiB of addresses. */
#define PLACES_EMPTY 1024
/* Of a limited address space a pool takes this part at most. */
#define LIMIT_SHARE 16

#define POOL(next_one) {				\
	.version = GUARD_VERSION,				\
	.size = sizeof(struct guard_pool),		\
	.place_size = sizeof(struct guard_place),	\
	.stack_unit = STACK_UNIT,			\
	.next_pool = (uintptr_t)(next_one),		\
}

struct guard_pool guard_pools[GUARD_POOLS] = {
	[GUARD_OBJECTS] = POOL(&guard_pools[GUARD_LARGE]),
	[GUARD_LARGE] = POOL(&guard_pools[GUARD_EMPTY]),
	[GUARD_EMPTY] = POOL(NULL),
};

/* Other processes read them: guard_place.h. */
_Static_assert(sizeof(struct guard_place) == 152 && offsetof(struct guard_place, name) == 104 &&
	       sizeof(struct guard_pool) == 112 && offsetof(struct guard_pool, next_pool) == 104,
	       "a layout has a version");

int (*guard_switch)(uint64_t every) start_only;

/* Are objects filled before they are handed out (letter P)? */
static bool is_poisoning;
/* On each side of a large block; const once there is a pool. */
static size_t zone_bytes;

/* ---- the pool ---- */

/* The place whose pages, or the guard page before them, @ptr points to. */
static struct guard_place *place_of(const void *ptr)
{
	const struct guard_pool *pool = pool_of(ptr);
	size_t n = ((uintptr_t)ptr - pool->base) / pool->place_bytes;

	return n < pool->nr_places ? place_at(pool, (uint32_t)n) : NULL;
}

/* The place of @ptr; NULL: @ptr is no object that is allocated. */
static struct guard_place *place_live(const void *ptr)
{
	struct guard_place *place = place_of(ptr);

	return place && place_state(place) == GUARD_LIVE &&
	       place->object == (uintptr_t)ptr ? place : NULL;
}

static char *place_start(const struct guard_pool *pool,
			 const struct guard_place *place)
{
	size_t n = (size_t)(place - place_at(pool, 0));

	return (char *)pool->base + n * pool->place_bytes + pool->page_bytes;
}

static char *place_end(const struct guard_pool *pool,
		       const struct guard_place *place)
{
	return place_start(pool, place) + pool->place_bytes - pool->page_bytes;
}

static bool pool_make(struct guard_pool *pool, uint32_t nr, size_t page,
		      size_t place)
{
	size_t bytes = nr * place + page;
	size_t table = round_up(nr * sizeof(struct guard_place), page);
	char *range = os_reserve(bytes + table);

	if (!range)
		return false;
	if (os_commit(range + bytes, table)) {
		os_unreserve(range, bytes + table);
		return false;
	}
	pool->page_bytes = (uint32_t)page;
	pool->place_bytes = (uint32_t)place;
	pool->nr_places = nr;
	pool->places = (uintptr_t)range + bytes;
	pool->base = (uintptr_t)range;
	/* release: a thread that takes a pointer for a guarded one finds its place */
	__atomic_store_n(&pool->bytes, bytes, __ATOMIC_RELEASE);
	return true;
}

/* For objects of @most bytes, @nr of them or as many as there is room for. */
static bool pool_open(struct guard_pool *pool, uint32_t nr, size_t most)
{
	size_t page = os_page_size();
	size_t place = round_up(most, page) + page;
	size_t room = os_address_limit() / LIMIT_SHARE;

	while (!pool->bytes && nr >= PLACES_MIN &&
	       (nr * place > room || !pool_make(pool, nr, page, place)))
		nr /= 2;
	if (!pool->bytes)
		return false;
	pool->clock_offset_ns = os_clock_read_ns(CLOCK_REALTIME) - os_clock_ns();
	return true;
}

void guard_say_every(uint64_t every)
{
	guard_pools[GUARD_OBJECTS].every = every;
	guard_pools[GUARD_LARGE].every = every;
}

int guard_open(uint64_t every)
{
	uint32_t nr = (uint32_t)option_value(OPTION_guard_places);

	if (!pool_open(&guard_pools[GUARD_OBJECTS], nr, GUARD_BYTES_MAX))
		return -ENOMEM;
	/* Without these large blocks are not guarded, and counted as lost. */
	nr = (uint32_t)max_size(nr / PLACES_PER_LARGE, PLACES_MIN);
	if (guard_watches_large)
		pool_open(&guard_pools[GUARD_LARGE], PLACES_WATCHED,
			  GUARD_WATCHED_MAX + 2 * zone_bytes);
	else
		pool_open(&guard_pools[GUARD_LARGE], nr, GUARD_LARGE_MAX);
	guard_say_every(every);
	return 0;
}

cold void guard_open_for_empty(void)
{
	pool_open(&guard_pools[GUARD_EMPTY], PLACES_EMPTY, os_page_size());
}

cold void guard_watch(uint32_t letters)
{
	uint64_t every = option_value(OPTION_guard);

	if (!(letters & (SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE |
			 SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER)))
		return;
	guard_watches_large = true;
	is_poisoning = letters & SLUB_CACHE_POISON;
	zone_bytes = every ? 0 : os_page_size();
	guard_open(every);
	guard_watches_large = guard_pools[GUARD_LARGE].bytes;
}

/* ---- places ---- */

static bool place_try(struct guard_place *place, uint32_t state)
{
	return __atomic_compare_exchange_n(&place->state, &state, GUARD_TAKEN,
					   false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void place_set(struct guard_place *place, enum guard_state state)
{
	/* release: what is known of it is complete */
	__atomic_store_n(&place->state, state, __ATOMIC_RELEASE);
}

/*
 * Blocks of no size count places that were looked at, for one atomic operation less: twice as
 * many as objects at the most while few are allocated, so half a round is less than that.  Once
 * they have come round `turns` says so, for guard_visit().
 */
static uint64_t turn_now(const struct guard_pool *pool)
{
	if (pool == &guard_pools[GUARD_EMPTY])
		return __atomic_load_n(&pool->next, __ATOMIC_RELAXED);
	return __atomic_load_n(&pool->turns, __ATOMIC_RELAXED);
}

static void looked_at(struct guard_pool *pool, uint32_t places)
{
	uint32_t next = __atomic_fetch_add(&pool->next, places, __ATOMIC_RELAXED);

	if (unlikely(next + places >= pool->nr_places &&
		     !__atomic_load_n(&pool->turns, __ATOMIC_RELAXED)))
		__atomic_store_n(&pool->turns, pool->nr_places, __ATOMIC_RELAXED);
}

/*
 * The next in turn that is free, and has been for half a round if one such is
 * near.  NULL: they are all in use, as far as was looked.
 *
 * Two threads may look at the same places, and each takes another one.
 */
static struct guard_place *place_take(struct guard_pool *pool, uint64_t turn)
{
	uint32_t nr = pool->nr_places, end = (uint32_t)min_size(TRIES, nr), i;
	uint32_t n = __atomic_load_n(&pool->next, __ATOMIC_RELAXED) % nr;
	struct guard_place *early = NULL, *taken = NULL;

	for (i = 0; i < end && !taken; i++) {
		struct guard_place *place = place_at(pool, n);
		uint32_t state = place_state(place);

		n = n + 1 < nr ? n + 1 : 0;
		if (state != GUARD_NEVER && state != GUARD_FREED)
			continue;
		if (state == GUARD_NEVER || turn - place->turn >= nr / 2) {
			taken = place_try(place, state) ? place : NULL;
		} else if (!early) {
			early = place;
			end = (uint32_t)min_size(end, i + TRIES_BEYOND);
		}
	}
	looked_at(pool, i);
	if (!taken && early && place_try(early, GUARD_FREED))
		taken = early;
	return taken;
}

/* ---- the pages of an object ---- */

static size_t zone_of(const void *ptr)
{
	return pool_owns(&guard_pools[GUARD_LARGE], ptr) ? zone_bytes : 0;
}

/* None for an object of no size. */
struct pages pages_of(const struct guard_place *place)
{
	size_t page = os_page_size();
	char *object = (char *)place->object;
	size_t zone = zone_of(object);
	char *start = (char *)round_down((uintptr_t)object, page) - zone;
	size_t bytes = (size_t)(object - start) + place->bytes + zone;

	if (!place->bytes)
		return (struct pages){ object, 0 };
	return (struct pages){ start, round_up(bytes, page) };
}

/* What is beside the object in its pages must stay as it is. */
static void slack_fill(const struct guard_place *place)
{
	struct pages pages = pages_of(place);
	char *object = (char *)place->object, *end = object + place->bytes;

	memset(pages.start, DEBUG_ZONE_USED, (size_t)(object - pages.start));
	memset(end, DEBUG_ZONE_USED,
	       (size_t)(pages.start + pages.bytes - end));
}

/* The first byte beside the object that was written; NULL: none. */
static const unsigned char *slack_find(const struct guard_place *place)
{
	struct pages pages = pages_of(place);
	unsigned char *start = (unsigned char *)pages.start;
	unsigned char *object = (unsigned char *)place->object;
	unsigned char *end = object + place->bytes;
	const unsigned char *at = bytes_wrong(start, (size_t)(object - start), DEBUG_ZONE_USED);

	return at ? at : bytes_wrong(end, (size_t)(start + pages.bytes - end), DEBUG_ZONE_USED);
}

/* ---- alloc ---- */

static bool can_be_guarded(const struct guard_pool *pool, size_t bytes,
			   size_t align)
{
	size_t most = pool->place_bytes - pool->page_bytes;
	/* A larger alignment may leave so much in front, also of no bytes. */
	size_t front = align > pool->page_bytes ? align : 0;

	if (pool == &guard_pools[GUARD_LARGE])
		most -= 2 * zone_bytes;
	return pool->bytes && front < most && bytes <= most - front;
}

static void place_describe(struct guard_place *place,
			   const struct slub_cache *cache, const void *frame)
{
	const char *name = cache ? cache->name : "large block";

	/* Blocks of no size are all of one cache: it takes half as long again with all of that. */
	if (place->bytes || !*place->name || place->cache != (uintptr_t)cache) {
		memset(place->name, 0, sizeof(place->name));
		memcpy(place->name, name, strnlen(name, sizeof(place->name) - 1));
	}
	place->cache = (uintptr_t)cache;
	place->errors = 0;
	/* A block of no size comes again and again: its callers are enough. */
	track_frame_now(&place->allocated, frame, place->bytes);
	memset(&place->freed, 0, sizeof(place->freed));
}

static void place_choose(const struct guard_pool *pool,
			 struct guard_place *place, size_t bytes, size_t align)
{
	size_t zone = zone_of(place_start(pool, place));
	uintptr_t start = (uintptr_t)place_start(pool, place) + zone;
	uintptr_t end = (uintptr_t)place_end(pool, place) - zone;
	enum option_guard_side side =
		(enum option_guard_side)option_value(OPTION_guard_side);
	bool right = bytes && (side == GUARD_SIDE_ANY ? sample_random() >> 63 :
							side == GUARD_SIDE_BEHIND);

	place->object = right ? round_down(end - bytes, align) :
				round_up(start, align);
	place->bytes = bytes;
}

static void *alloc_lost(struct guard_pool *pool)
{
	__atomic_fetch_add(&pool->lost, 1, __ATOMIC_RELAXED);
	return NULL;
}

static struct guard_pool *pool_for(size_t bytes)
{
	if (!bytes && guard_pools[GUARD_EMPTY].bytes)
		return &guard_pools[GUARD_EMPTY];
	return &guard_pools[bytes <= GUARD_BYTES_MAX ? GUARD_OBJECTS :
						       GUARD_LARGE];
}

void *guard_alloc(struct slub_cache *cache, size_t bytes, size_t align)
{
	struct guard_pool *pool = pool_for(bytes);
	uint64_t turn;
	struct guard_place *place;
	struct pages pages;

	if (!can_be_guarded(pool, bytes, align))
		return NULL;
	guard_poll();
	turn = turn_now(pool);
	if (pool != &guard_pools[GUARD_EMPTY])
		turn = __atomic_fetch_add(&pool->turns, 1, __ATOMIC_RELAXED);
	place = place_take(pool, turn);
	if (!place)
		return alloc_lost(pool);
	place_choose(pool, place, bytes, align);
	pages = pages_of(place);
	if (pages.bytes && os_commit(pages.start, pages.bytes)) {
		place->turn = turn;
		place_set(place, GUARD_FREED);
		return alloc_lost(pool);
	}
	if (pages.bytes)
		slack_fill(place);
	if (is_poisoning)
		memset((void *)place->object, DEBUG_POISON, bytes);
	if (cache && cache->ctor)
		cache->ctor((void *)place->object);
	place_describe(place, cache, __builtin_frame_address(0));
	/* Now there is a store of stacks. */
	if (unlikely(!pool->stacks))
		__atomic_store_n(&pool->stacks, stack_store_base(), __ATOMIC_RELAXED);
	place_set(place, GUARD_LIVE);
	return (void *)place->object;
}

void *guard_alloc_empty(struct slub_cache *cache, size_t align)
{
	if (!pool_for(0)->bytes || slub_thread.locks_held || group_current())
		return NULL;
	return guard_alloc(cache, 0, align);
}

/* ---- what was freed ---- */

static void withdraw(struct guard_place *place)
{
	struct pages pages = pages_of(place);

	if (pages.bytes)
		os_withdraw(pages.start, pages.bytes);
	place->turn = turn_now(pool_of(pages.start));
	place_set(place, GUARD_FREED);
}

static void release(void **item)
{
	withdraw(container_of(item, struct guard_place, turn));
}

static struct grace_queue waiting fork_writes = { .release = release };

/* Places on their way to the queue, which has a lock: handlers free too. */
static void *fresh;

static void fresh_queue(void)
{
	void **item = stack_take(&fresh);

	while (item) {
		void **next = *item;

		grace_add(&waiting, item);
		item = next;
	}
}

static bool has_readers(const struct guard_place *place)
{
	const struct slub_cache *cache = (struct slub_cache *)place->cache;

	return cache && cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU;
}

static void withdraw_later(struct guard_place *place)
{
	place_set(place, GUARD_WAITING);
	stack_push(&fresh, (void **)&place->turn, (void **)&place->turn);
	guard_poll();
}

bool guard_poll(void)
{
	if (slub_thread.locks_held)
		return false;
	fresh_queue();
	return grace_poll(&waiting);
}

void guard_flush(void)
{
	fresh_queue();
	grace_flush(&waiting);
}

usual void guard_fork(enum fork_step step)
{
	lock_fork(&waiting.lock, step);
}

/* ---- free ---- */

/* In the counters of its cache: of a freed place's the cache may be gone. */
static void count(const struct guard_place *place, enum cache_stat stat)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		if ((uintptr_t)c == place->cache && cache_is_live(c))
			stat_add(c, stat);
	}
}

/* True: it was reported, and is to stay as it is. */
static bool check_call(struct guard_place *place, const void *ptr,
		       enum alloc_call call, const void *frame)
{
	if (call_is_wrong(place->allocated.call, call) &&
	    guard_say(place, GUARD_CALL, call_free_name(call), ptr, frame))
		return true;
	place->allocated.call |= CALL_TOLD;
	return false;
}

/* Is @ptr what @place has allocated, for @cache or free() to take?  Then it is TAKEN. */
static bool free_begins(struct guard_place *place, const void *ptr,
			const struct slub_cache *cache, const void *frame)
{
	const char *call = cache ? "slub_cache_free" : "free";

	if (place->object != (uintptr_t)ptr) {
		guard_say(place, GUARD_INSIDE, call, ptr, frame);
		return false;
	}
	/* A large block is no cache's: as without a guard, it is left alone. */
	if (cache && !place->cache && place_state(place) == GUARD_LIVE) {
		guard_say(place, GUARD_CACHE, call, ptr, frame);
		return false;
	}
	if (place_try(place, GUARD_LIVE))
		return true;
	count(place, STAT_DOUBLE_FREE);
	guard_say(place, GUARD_TWICE, call, ptr, frame);
	return false;
}

void guard_free(void *ptr, const struct slub_cache *cache)
{
	const char *call = cache ? "slub_cache_free" : "free";
	const void *frame = __builtin_frame_address(0);
	struct guard_place *place = place_of(ptr);
	const unsigned char *written;
	bool stays;

	if (!place) {	/* the last guard page */
		if (!debug_free_foreign(call, ptr))
			foreign_found(call, ptr);
		return;
	}
	if (!free_begins(place, ptr, cache, frame))
		return;
	track_frame_now(&place->freed, frame, place->bytes);
	written = place->bytes ? slack_find(place) : NULL;
	stays = check_call(place, ptr, CALL_MALLOC, frame);
	if (written && guard_say(place, GUARD_BEYOND, call, written, frame))
		stays = true;
	if (stays) {
		memset(&place->freed, 0, sizeof(place->freed));
		place_set(place, GUARD_LIVE);
		return;
	}
	if (cache && place->cache != (uintptr_t)cache) {
		count(place, STAT_WRONG_CACHE);
		guard_say(place, GUARD_CACHE, call, ptr, frame);
	}
	if (has_readers(place))
		withdraw_later(place);
	else
		withdraw(place);
}

bool guard_free_call(void *ptr, enum alloc_call call)
{
	struct guard_place *place = place_live(ptr);

	return !place || !check_call(place, ptr, call, __builtin_frame_address(0));
}

void guard_free_size(void *ptr)
{
	guard_say(place_of(ptr), GUARD_SIZE, NULL, ptr, __builtin_frame_address(0));
}

/* ---- questions ---- */

bool guard_was_looked_at(const void *ptr)
{
	const struct guard_place *place = place_live(ptr);

	return place && place->allocated.call & CALL_TOLD;
}

bool guard_ask(const void *ptr, const char *call)
{
	struct guard_place *place = place_of(ptr);
	uint32_t state = place ? place_state(place) : GUARD_TAKEN;

	if (state == GUARD_TAKEN || (state == GUARD_LIVE && place->object == (uintptr_t)ptr))
		return true;
	return !guard_say(place, GUARD_ASKED, call, ptr, __builtin_frame_address(0));
}

size_t guard_bytes(const void *ptr)
{
	const struct guard_place *place = place_live(ptr);

	return place ? place->bytes : 0;
}

/* NULL: what is there is no object of a cache, nor memory that readers may take for one. */
static struct slub_cache *cache_at(const struct guard_place *place)
{
	uint32_t state = place ? place_state(place) : GUARD_NEVER;

	return state == GUARD_LIVE || state == GUARD_WAITING ?
		       (struct slub_cache *)place->cache : NULL;
}

struct slub_cache *guard_cache_of(const void *ptr)
{
	const struct guard_place *place = place_of(ptr);
	struct slub_cache *cache = cache_at(place);

	return cache && place->object == (uintptr_t)ptr ? cache : NULL;
}

struct slub_cache *guard_cache_inside(const void *ptr, size_t *offset)
{
	const struct guard_place *place = place_of(ptr);
	struct slub_cache *cache = cache_at(place);

	if (!cache)
		return NULL;
	*offset = (uintptr_t)ptr - place->object;
	return *offset < place->bytes ? cache : NULL;
}
