/* SPDX-License-Identifier: MIT */
/* Guarded objects: see the head of guard.h. */
#include "slab/guard.h"

#include <string.h>
#include <time.h>

#include "slab/sample.h"

#define PLACES_MIN 16
/* Places that are looked at for one that can be used. */
#define TRIES 128

struct guard_pool guard_pool = {
	.version = 1,
	.size = sizeof(struct guard_pool),
	.place_size = sizeof(struct guard_place),
};

int (*guard_switch)(uint64_t every);

/* ---- the pool ---- */

static struct guard_place *place_at(uint32_t n)
{
	return (struct guard_place *)guard_pool.places + n;
}

/* The place whose pages, or the guard page before them, @ptr points to. */
static struct guard_place *place_of(const void *ptr)
{
	size_t n = ((uintptr_t)ptr - guard_pool.base) / guard_pool.place_bytes;

	return n < guard_pool.nr_places ? place_at((uint32_t)n) : NULL;
}

static char *place_start(const struct guard_place *place)
{
	size_t n = (size_t)(place - place_at(0));

	return (char *)guard_pool.base + n * guard_pool.place_bytes +
	       guard_pool.page_bytes;
}

static char *place_end(const struct guard_place *place)
{
	return place_start(place) + guard_pool.place_bytes -
	       guard_pool.page_bytes;
}

static uint64_t clock_offset(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
	       os_clock_ns();
}

static bool pool_make(uint32_t nr, size_t page, size_t place)
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
	guard_pool.page_bytes = (uint32_t)page;
	guard_pool.place_bytes = (uint32_t)place;
	guard_pool.nr_places = nr;
	guard_pool.places = (uintptr_t)range + bytes;
	guard_pool.base = (uintptr_t)range;
	/* release: whoever takes a pointer for ours finds its place */
	__atomic_store_n(&guard_pool.bytes, bytes, __ATOMIC_RELEASE);
	return true;
}

int guard_open(uint64_t every)
{
	size_t page = os_page_size();
	size_t place = round_up(GUARD_BYTES_MAX, page) + page;
	uint32_t nr = (uint32_t)option_value(OPTION_guard_places);

	while (!guard_pool.bytes && nr >= PLACES_MIN &&
	       !pool_make(nr, page, place))
		nr /= 2;
	if (!guard_pool.bytes)
		return -12;	/* ENOMEM */
	guard_pool.clock_offset_ns = clock_offset();
	guard_pool.stacks = stack_store_base(&guard_pool.stack_unit);
	guard_pool.every = every;
	return 0;
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

static uint32_t place_state(const struct guard_place *place)
{
	return __atomic_load_n(&place->state, __ATOMIC_ACQUIRE);
}

/*
 * The next in turn that is free, and has been for half a round if one such is
 * near.  NULL: they are all in use, as far as was looked.
 */
static struct guard_place *place_take(uint64_t turn)
{
	uint32_t nr = guard_pool.nr_places;
	struct guard_place *early = NULL;

	for (uint32_t i = 0; i < min_size(TRIES, nr); i++) {
		uint32_t n = __atomic_fetch_add(&guard_pool.next, 1,
						__ATOMIC_RELAXED);
		struct guard_place *place = place_at(n % nr);
		uint32_t state = place_state(place);

		if (state == GUARD_LIVE || state == GUARD_TAKEN)
			continue;
		if (state == GUARD_FREED && turn - place->turn < nr / 2) {
			if (!early)
				early = place;
			continue;
		}
		if (place_try(place, state))
			return place;
	}
	return early && place_try(early, GUARD_FREED) ? early : NULL;
}

/* ---- the pages of an object ---- */

struct pages {
	char *start;
	size_t bytes;
};

static struct pages pages_of(const struct guard_place *place)
{
	size_t page = guard_pool.page_bytes;
	char *object = (char *)place->object;
	char *start = (char *)round_down((uintptr_t)object, page);
	size_t bytes = (size_t)(object - start) + max_size(place->bytes, 1);

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

/* The first byte of @from .. @end that was written; NULL: none. */
static const unsigned char *find_written(const char *from, const char *end)
{
	for (; from < end; from++) {
		if ((unsigned char)*from != DEBUG_ZONE_USED)
			return (const unsigned char *)from;
	}
	return NULL;
}

static const unsigned char *slack_find(const struct guard_place *place)
{
	struct pages pages = pages_of(place);
	char *object = (char *)place->object;
	const unsigned char *at = find_written(pages.start, object);

	return at ? at : find_written(object + place->bytes,
				      pages.start + pages.bytes);
}

/* ---- alloc ---- */

static bool can_be_guarded(const struct slub_cache *cache, size_t bytes,
			   size_t align)
{
	/* Readers may look at what was freed; a group is charged by slabs. */
	return !(cache->flags & (SLUB_TYPESAFE_BY_RCU | SLUB_ACCOUNT)) &&
	       bytes <= GUARD_BYTES_MAX && align <= guard_pool.page_bytes;
}

static void place_describe(struct guard_place *place,
			   const struct slub_cache *cache, const void *frame)
{
	struct text name = { place->name, sizeof(place->name) - 1, 0 };
	struct stack stack;

	memset(place->name, 0, sizeof(place->name));
	text_printf(&name, "%s", cache->name);
	place->cache = (uintptr_t)cache;
	place->errors = 0;
	stack_read(&stack, frame);
	track_now(&place->allocated, &stack);
	memset(&place->freed, 0, sizeof(place->freed));
}

static void place_choose(struct guard_place *place, size_t bytes, size_t align)
{
	size_t least = max_size(bytes, 1);
	uintptr_t start = (uintptr_t)place_start(place);
	bool right = sample_random() >> 63;

	place->object = right ? round_down((uintptr_t)place_end(place) - least,
					   align) : start;
	place->bytes = bytes;
}

void *guard_alloc(struct slub_cache *cache, size_t bytes, size_t align)
{
	uint64_t turn = __atomic_fetch_add(&guard_pool.turns, 1,
					   __ATOMIC_RELAXED);
	struct guard_place *place;
	struct pages pages;

	if (!can_be_guarded(cache, bytes, align))
		return NULL;
	place = place_take(turn);
	if (!place) {
		__atomic_fetch_add(&guard_pool.lost, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	place_choose(place, bytes, align);
	pages = pages_of(place);
	if (os_commit(pages.start, pages.bytes)) {
		place->turn = turn;
		place_set(place, GUARD_FREED);
		__atomic_fetch_add(&guard_pool.lost, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	slack_fill(place);
	if (cache->ctor)
		cache->ctor((void *)place->object);
	place_describe(place, cache, __builtin_frame_address(0));
	place_set(place, GUARD_LIVE);
	return (void *)place->object;
}

/* ---- free ---- */

static void say(struct guard_place *place, enum guard_error error,
		const char *what, const void *at, const void *frame)
{
	const struct debug_layout layout = {
		.name = place->name[0] ? place->name : "guard",
	};
	struct debug_case found = { .layout = &layout };

	__atomic_fetch_or(&place->errors, error, __ATOMIC_RELAXED);
	__atomic_fetch_add(&guard_pool.errors, 1, __ATOMIC_RELAXED);
	stack_read(&found.stack, frame);
	report_bug(&found, NULL, "%s: %p, guarded object %p of %zu bytes",
		   what, at, (void *)place->object, (size_t)place->bytes);
	report_track(&found, "Allocated", &place->allocated);
	report_track(&found, "Freed", &place->freed);
	if (error == GUARD_TWICE || error == GUARD_INSIDE)
		report_fix(&found, "%p left alone", at);
	report_finish(&found);
}

static bool cache_is_right(const struct guard_place *place,
			   const struct slub_cache *cache)
{
	return !cache || place->cache == (uintptr_t)cache;
}

void guard_free(void *ptr, const struct slub_cache *cache)
{
	const void *frame = __builtin_frame_address(0);
	struct guard_place *place = place_of(ptr);
	const unsigned char *written;
	struct stack stack;
	struct pages pages;

	if (!place)
		return;		/* the last guard page */
	if (place->object != (uintptr_t)ptr) {
		say(place, GUARD_INSIDE, "Invalid object pointer", ptr, frame);
		return;
	}
	if (!place_try(place, GUARD_LIVE)) {
		say(place, GUARD_TWICE, "Object already free", ptr, frame);
		return;
	}
	stack_read(&stack, frame);
	track_now(&place->freed, &stack);
	written = slack_find(place);
	if (written)
		say(place, GUARD_BEYOND, "Redzone overwritten", written, frame);
	if (!cache_is_right(place, cache))
		say(place, GUARD_CACHE, "Wrong slab cache", ptr, frame);
	pages = pages_of(place);
	os_withdraw(pages.start, pages.bytes);
	place->turn = __atomic_load_n(&guard_pool.turns, __ATOMIC_RELAXED);
	place_set(place, GUARD_FREED);
}

void guard_free_size(void *ptr, size_t told)
{
	(void)told;
	say(place_of(ptr), GUARD_SIZE, "Wrong size", ptr,
	    __builtin_frame_address(0));
}

/* ---- questions ---- */

static struct guard_place *place_live(const void *ptr)
{
	struct guard_place *place = place_of(ptr);

	return place && place_state(place) == GUARD_LIVE &&
	       place->object == (uintptr_t)ptr ? place : NULL;
}

size_t guard_bytes(const void *ptr)
{
	const struct guard_place *place = place_live(ptr);

	return place ? place->bytes : 0;
}

struct slub_cache *guard_cache_of(const void *ptr)
{
	const struct guard_place *place = place_live(ptr);

	return place ? (struct slub_cache *)place->cache : NULL;
}

bool guard_has_objects(const struct slub_cache *cache)
{
	for (uint32_t n = 0; n < guard_pool.nr_places; n++) {
		const struct guard_place *place = place_at(n);

		if (place_state(place) == GUARD_LIVE &&
		    place->cache == (uintptr_t)cache)
			return true;
	}
	return false;
}
