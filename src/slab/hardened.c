/* SPDX-License-Identifier: MIT */
/* The hardened build: see the head of hardened.h. */
#include "slab/hardened.h"

#include <string.h>
#include <sys/auxv.h>

#define SHUFFLED 128	/* objects that change places among each other */

struct hardened_geometry hardened_geometry[AREA_BYTES / SLOT_BYTES] rarely_touched;
bool hardened_zeroes;
static uint64_t order_state;

/* ---- start ---- */

#define GRND_NONBLOCK 1

static void choose_secrets(uint64_t secrets[2])
{
	const uint64_t *random = (const uint64_t *)getauxval(AT_RANDOM);

	if (sys_call4(SYS_getrandom, (long)secrets, 2 * sizeof(*secrets),
		      GRND_NONBLOCK, 0) == 2 * sizeof(*secrets))
		return;
	/* The second word: the first is the stack protector's. */
	secrets[0] = (random ? random[1] : 0) ^
		     os_clock_ns() * 0x9e3779b97f4a7c15ull;
	secrets[1] = secrets[0] * 0x94d049bb133111ebull ^ secrets[0] >> 32;
}

void hardened_init(void)
{
	uint64_t secrets[2] = { 0, 0 };

	choose_secrets(secrets);
	link_secret = secrets[0];
	order_state = secrets[1];
	hardened_zeroes = option_value(OPTION_zero_on_free) == 1;
	/* What is no cache's: any offset will do. */
	for (size_t i = 0; i < ARRAY_SIZE(hardened_geometry); i++)
		hardened_geometry[i] = (struct hardened_geometry){ 1, 0, 0 };
	hardened_geometry[MAP_LARGE / SLOT_BYTES] = (struct hardened_geometry){
		UINT64_MAX / PAGE_BYTES + 1, PAGE_BYTES - 1, 0 };
}

void hardened_cache_made(const struct slub_cache *cache)
{
	struct hardened_geometry g = {
		.mask = (uint32_t)(PAGE_BYTES << cache->order) - 1,
		.magic = UINT64_MAX / cache->size + 1,
	};

	/* A watched place is not where a multiple of the size is. */
	if (cache->debug)
		return;
	hardened_geometry[cache->slot / SLOT_BYTES] = g;
	/* What a constructor made, or a reader may look at, stays. */
	if (!cache->ctor && !(cache->flags & SLUB_TYPESAFE_BY_RCU))
		g.zero_bytes = cache->object_size;
	hardened_geometry[cache->list_slot / SLOT_BYTES] = g;
}

void hardened_cache_unmade(const struct slub_cache *cache)
{
	const struct hardened_geometry none = { 1, 0, 0 };

	hardened_geometry[cache->slot / SLOT_BYTES] = none;
	hardened_geometry[cache->list_slot / SLOT_BYTES] = none;
}

/* ---- what is found ---- */

static cold void say(const struct slub_cache *cache, const char *what,
		     const void *at, const char *fix)
{
	const struct debug_layout layout = { .name = cache->name };
	struct debug_case found = { .layout = &layout };

	/* What a handler finds that interrupted us, or we under a lock. */
	if (slub_thread.locks_held)
		return;
	stack_read(&found.stack, __builtin_frame_address(0));
	report_bug(&found, NULL, "%s: %p", what, at);
	report_fix(&found, "%s", fix);
	report_finish(&found);
}

static bool is_in_cache(const struct slub_cache *cache, uintptr_t next)
{
	return link_is_plausible(next) &&
	       pagemap_get((void *)next) == cache->slot &&
	       is_at_object(geometry_of(cache->slot), (void *)next);
}

void *hardened_next(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	uintptr_t next = link_decode(place, *place);

	if (likely(!next || is_in_cache(cache, next)))
		return (void *)next;
	chain_set_next(cache, object, NULL);
	say(cache, "Freepointer corrupt", object,
	    "Objects behind it are given up");
	return NULL;
}

static bool is_free_already(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	uintptr_t next;

	if (!link_is_in_object(cache->link))
		return *place != HARDENED_MARK;
	next = link_decode(place, *place);
	return !next || is_in_cache(cache, next);
}

bool hardened_free(struct slub_cache *cache, void *object)
{
	const struct hardened_geometry *g = geometry_of(cache->list_slot);

	if (cache->debug)
		return true;
	if (unlikely(!is_at_object(g, object))) {
		say(cache, "Invalid object pointer", object, "Left alone");
		return false;
	}
	if (unlikely(is_free_already(cache, object))) {
		stat_add(cache, STAT_DOUBLE_FREE);
		say(cache, "Object already free", object, "Left alone");
		return false;
	}
	if (hardened_zeroes)
		memset(object, 0, g->zero_bytes);
	return true;
}

void hardened_free_size(const struct slub_cache *cache, const void *object)
{
	say(cache, "Wrong size told for", object, "Freed by its own size");
}

void hardened_mend(struct slub_cache *cache, uint32_t slot)
{
	void *chain;

	if (likely(!percpu_head(slot)) || slub_thread.locks_held)
		return;
	chain = percpu_take(slot, capacity_now(cache));
	if (chain)
		chain_flush(cache, chain);
}

/* ---- random order ---- */

/* splitmix64: nobody sees what comes of it but by the order of addresses. */
static uint64_t order_random(void)
{
	uint64_t x = __atomic_add_fetch(&order_state, 0x9e3779b97f4a7c15ull,
					__ATOMIC_RELAXED);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static void shuffle(uint8_t *order, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		order[i] = (uint8_t)i;
	for (uint32_t i = nr; i > 1; i--) {
		uint32_t j = (uint32_t)((order_random() >> 32) * i >> 32);
		uint8_t other = order[j];

		order[j] = order[i - 1];
		order[i - 1] = other;
	}
}

void *hardened_link(struct slub_cache *cache, char *first, uint32_t nr)
{
	void *chain = NULL;

	for (uint32_t from = 0; from < nr; from += SHUFFLED) {
		uint32_t n = (uint32_t)min_size(nr - from, SHUFFLED);
		uint8_t order[SHUFFLED];

		shuffle(order, n);
		for (uint32_t i = 0; i < n; i++) {
			void *object = first +
				       (size_t)(from + order[i]) * cache->size;

			chain_set_next(cache, object, chain);
			chain = object;
		}
	}
	return chain;
}
