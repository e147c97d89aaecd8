/* SPDX-License-Identifier: MIT */
/* The hardened build: see the head of hardened.h. */
#include "slab/hardened.h"

#include "slab/debug.h"

#include <string.h>

#define SHUFFLED 128	/* objects that change places among each other */

bool hardened_zeroes;
static uint64_t order_state;

/* ---- secrets ---- */

#define GRND_NONBLOCK 1

/* As many as a start needs: one call is no dearer than the first one. */
static uint64_t secrets[96];
static uint32_t secrets_used;

static bool draw(uint64_t *to, size_t bytes)
{
	return sys_call4(SYS_getrandom, (long)to, (long)bytes, GRND_NONBLOCK,
			 0) == (long)bytes;
}

/* From what the kernel gave this process, whose second word nobody shows. */
static uint64_t makeshift(void)
{
	static uint64_t nr;
	uint64_t x = os_random_word(1) ^ os_clock_ns();

	x += __atomic_add_fetch(&nr, 1, __ATOMIC_RELAXED) *
	     0x9e3779b97f4a7c15ull;
	return (x ^ x >> 32) * 0x94d049bb133111ebull;
}

/* Each once: what shows one of them says nothing of the others. */
static uint64_t secret_new(void)
{
	uint32_t n = __atomic_fetch_add(&secrets_used, 1, __ATOMIC_RELAXED);
	uint64_t secret;

	if (n < ARRAY_SIZE(secrets) && secrets[n])
		return secrets[n];
	return draw(&secret, sizeof(secret)) ? secret : makeshift();
}

/* ---- caches ---- */

static const struct slot_check check_any = { .magic = 1 };

void hardened_init(void)
{
	if (!draw(secrets, sizeof(secrets)))
		memset(secrets, 0, sizeof(secrets));
	order_state = secret_new();
	hardened_zeroes = option_value(OPTION_zero_on_free) == 1;
	/* A watched cache checks its objects itself: any offset will do. */
	for (size_t i = 0; i < ARRAY_SIZE(slot_checks); i++)
		slot_checks[i] = check_any;
	/* Pages with these entries hold no objects and may not be readable: none will do. */
	for (uint32_t slot = 0; slot < MAP_SPECIAL_END; slot += SLOT_BYTES)
		slot_check(slot)->magic = 0;
}

void hardened_cache_made(const struct slub_cache *cache)
{
	struct slot_check check = {
		.secret = secret_new(),
		.mask = (uint32_t)(PAGE_BYTES << cache->order) - 1,
		.magic = UINT64_MAX / cache->size + 1,
	};

	/* A watched place is not where a multiple of the size is. */
	if (cache->debug)
		return;
	*slot_check(cache->slot) = check;
	/* What a constructor made, or a reader may look at, stays. */
	if (!cache->ctor && !(cache->flags & SLUB_TYPESAFE_BY_RCU))
		check.zero_bytes = cache->object_size;
	*slot_check(cache->list_slot) = check;
}

void hardened_slot_made(const struct slub_cache *cache, uint32_t slot)
{
	slot_check(slot)->secret = slot_check(cache->list_slot)->secret;
}

void hardened_cache_unmade(const struct slub_cache *cache)
{
	*slot_check(cache->slot) = check_any;
	*slot_check(cache->list_slot) = check_any;
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
	       is_at_object(slot_check(cache->slot), (void *)next);
}

void *hardened_next(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	uintptr_t next = link_decode(cache->list_slot, place, *place);

	if (likely(!next || is_in_cache(cache, next)))
		return (void *)next;
	chain_set_next(cache, object, NULL);
	say(cache, "Freepointer corrupt", object,
	    "Objects behind it are given up");
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
	    (owner->debug || is_at_object(slot_check(owner->slot), next)))
		return next;
	return hardened_next(cache, object);
}

static bool is_free_already(const struct slub_cache *cache, void *object)
{
	void **place = link_of(cache, object);
	uintptr_t next;

	if (!link_is_in_object(cache->link))
		return *place != HARDENED_MARK;
	next = link_decode(cache->list_slot, place, *place);
	return !next || is_in_cache(cache, next);
}

bool hardened_free(struct slub_cache *cache, void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);

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
	hardened_zero(cache, object);
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
