/* SPDX-License-Identifier: MIT */
/* Sampling: see the head of sample.h. */
#include "core/os/start_only.h"
#include "features/profile/sample.h"

#include "core/base/hash.h"
#include "features/shadow/shadow.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"
#include "features/typed/real.h"

/* What malloc() promises. */
#define MALLOC_ALIGN 16

const struct sample_keeper *sample_keeper start_only;

/* Written while sampling is off; atomic, since a thread may still draw by the old value. */
static double mean_bytes = 512 << 10;
static uint64_t random_state;
/* Points of the guard per allocation; in (0, GUARD_ALWAYS]. */
static double guard_rate;

/* An allocation has no point of this rate once in 10^17 times. */
#define GUARD_ALWAYS 40.0

/* ---- chance ---- */

uint64_t sample_random(void)
{
	return random_next(&random_state);
}

/* -ln of a random number in (0, 1]: exponentially distributed, mean 1. */
static double sample_draw(void)
{
	return -real_log((double)((sample_random() >> 11) + 1) * 0x1p-53);
}

static double atomic_read(const double *number)
{
	double now;

	__atomic_load(number, &now, __ATOMIC_RELAXED);
	return now;
}

/* How many allocations one sampled one of @bytes stands for. */
static double sample_weight(size_t bytes)
{
	return 1 / real_one_minus_exp((double)bytes /
				      atomic_read(&mean_bytes));
}

/* Points of the profile in an allocation of @bytes, on average. */
static double rate_profile(size_t bytes)
{
	return sample_is_on(SAMPLE_PROFILE) ?
		       (double)bytes / atomic_read(&mean_bytes) : 0;
}

static double rate_guard(const struct slub_cache *cache)
{
	return sample_is_on(SAMPLE_GUARD) && cache_sample_slot(cache) ?
		       atomic_read(&guard_rate) : 0;
}

/* Points of either kind in an allocation from @cache. */
static double rate_of(const struct slub_cache *cache)
{
	return rate_profile(cache->object_size) + rate_guard(cache);
}

/* Allocations from @cache that are not sampled before the next that is. */
static uint64_t draw_unsampled(const struct slub_cache *cache)
{
	double n = sample_draw() / rate_of(cache);

	/* If both were switched off meanwhile, the rate is 0 and n is infinite. */
	return n < 0x1p62 ? (uint64_t)n : 1ull << 62;
}

/* Uniform in [0, 1). */
static double draw_chance(void)
{
	return (double)(sample_random() >> 11) * 0x1p-53;
}

/*
 * The use of an allocation that is sampled: at least one of profile and guard, each with
 * the probability that it would have alone.  0: both were switched off meanwhile, and where
 * there was never a profile there is no book to write to.
 */
static uint32_t draw_use(const struct slub_cache *cache)
{
	double profile = rate_profile(cache->object_size);
	double guard = rate_guard(cache);

	if (guard == 0)
		return profile == 0 ? 0 : SAMPLE_PROFILE;
	if (profile == 0)
		return SAMPLE_GUARD;
	profile = real_one_minus_exp(profile);
	guard = real_one_minus_exp(guard);
	if (draw_chance() * (profile + guard - profile * guard) >= profile)
		return SAMPLE_GUARD;
	return SAMPLE_PROFILE | (draw_chance() < guard ? SAMPLE_GUARD : 0);
}

void sample_set(double mean, uint64_t seed)
{
	__atomic_store(&mean_bytes, &mean, __ATOMIC_RELAXED);
	__atomic_store_n(&random_state, seed, __ATOMIC_RELAXED);
}

void sample_set_guard(uint64_t every, uint64_t seed)
{
	double rate;

	__atomic_fetch_add(&random_state, seed, __ATOMIC_RELAXED);
	rate = every <= 1 ? GUARD_ALWAYS :
	       every < 1ull << 50 ? -real_log(1 - 1 / (double)every) :
				    1 / (double)every;
	__atomic_store(&guard_rate, &rate, __ATOMIC_RELAXED);
}

void sample_switch_on(enum sample_use use, bool on)
{
	/* The thread that frees a sampled block got the pointer from the one that sampled it. */
	if (on && use == SAMPLE_PROFILE)
		__atomic_store_n(&sample_was_on, true, __ATOMIC_RELAXED);
	if (on)
		__atomic_fetch_or(&sample_switch.on, use, __ATOMIC_RELEASE);
	else
		__atomic_fetch_and(&sample_switch.on, ~(uint32_t)use,
				   __ATOMIC_RELEASE);
}

/* ---- shadows ---- */

static bool shape(struct slub_cache *shadow, const struct slub_cache *cache)
{
	(void)cache;
	shadow->is_sampled = true;
	return true;
}

static const struct shadow_kind sampled_kind = {
	.place = SHADOW_SAMPLED,
	.suffix = "sampled",
	.flags_kept = SLUB_CACHE_TYPESAFE_BY_RCU,
	.shape = shape,
};

static void *alloc_sampled(struct slub_cache *cache)
{
	struct slub_cache *shadow = shadow_get(cache, &sampled_kind);

	return shadow ? cache_alloc(shadow) : NULL;
}

/* An object for *@use.  A use without memory is taken out of *@use. */
static void *alloc_for(struct slub_cache *cache, size_t bytes, size_t align,
		       uint32_t *use)
{
	void *object = NULL;

	if (*use & SAMPLE_GUARD)
		object = guard_alloc(cache, bytes, align);
	if (!object && *use & SAMPLE_PROFILE)
		object = alloc_sampled(cache);
	if (!object)
		*use = 0;
	return object;
}

/* The object's size decides the probability; the keeper is told the size asked for. */
static void tell(struct slub_cache *cache, void *object, size_t bytes)
{
	sample_keeper->taken(object, bytes, sample_weight(cache->object_size));
}

/* ---- chains ---- */

/* The last object of @chain, and in *@nr its length; looks at @most objects at most. */
static void *chain_end(struct slub_cache *cache, void *chain, uint32_t most,
		       uint32_t *nr)
{
	void *object = chain, *next;

	for (*nr = 1; *nr < most; (*nr)++, object = next) {
		next = chain_next(cache, object);
		if (!next)
			break;
	}
	return object;
}

/*
 * Objects for a sample slot: those freed on this CPU since the last time.  If these are
 * few, also the chain that a CPU with an empty list would get.
 */
static void *chain_gather(struct slub_cache *cache)
{
	uint32_t enough = (uint32_t)(cache->capacity + 1) / 2, nr = 0;
	void *chain = chain_head(cache, percpu_take(cache->list_slot, capacity_now(cache)));
	void *more, *end = NULL;

	if (chain) {
		end = chain_end(cache, chain, enough, &nr);
		if (nr >= enough)
			return chain;
	}
	nr = chain_length(cache);
	more = chain_head(cache, chain_fetch(cache, node_current(cache), &nr));
	if (!chain)
		return more;
	chain_set_next(cache, end, more);
	return chain;
}

/* A chain that no slot took.  The draw for its objects is void. */
static void chain_put_away(struct slub_cache *cache, void *chain)
{
	chain_give(cache, chain, chain_length(cache));
}

/* So many steps need no look whether there is an end. */
#define CHAIN_SHORT 65536

/*
 * Gives @chain to this CPU in two parts: the first @unsampled objects as the main list, the
 * rest as the spare list (SAMPLE-1).
 *
 * The thread may have moved to another CPU since it found the list empty.  If that CPU has
 * chains already, this one goes back to the cache, and its draw is void.  The check does not
 * depend on the draw: to try which part still fits would bias the sample.
 */
static void chain_deal(struct slub_cache *cache, void *chain,
		       uint64_t unsampled)
{
	uint32_t slot = cache_sample_slot(cache);
	void *rest = chain, *last = NULL;

	if (unsampled > CHAIN_SHORT && !chain_ends(cache, chain, CHAIN_MOST))
		return;
	while (rest && unsampled--) {
		last = rest;
		rest = chain_next(cache, rest);
	}
	if (percpu_head(slot) || percpu_head(slot + SLOT_SPARE) ||
	    (rest && !percpu_put(slot + SLOT_SPARE, rest, ROOM_NONE))) {
		chain_put_away(cache, chain);
		return;
	}
	if (!last)
		return;
	chain_set_next(cache, last, NULL);
	if (!percpu_put(slot, chain, ROOM_NONE))
		chain_put_away(cache, chain);
	cache_filled(cache);
}

/* ---- alloc ---- */

/* The main list of the sample slot is empty: samples this allocation, or deals a chain. */
static void *alloc_dealt(struct slub_cache *cache, size_t bytes, size_t align)
{
	void *chain = chain_head(cache, percpu_take(cache_sample_slot(cache) + SLOT_SPARE, 0));
	void *object = NULL;
	/* SAMPLE-1: with a spare list this allocation is the sampled one; without, draw. */
	uint64_t unsampled = chain ? 0 : draw_unsampled(cache);
	uint32_t use = 0;

	if (!chain)
		chain = chain_gather(cache);
	if (!chain)
		return NULL;
	if (!unsampled) {
		use = draw_use(cache);
		object = alloc_for(cache, bytes, align, &use);
		unsampled = draw_unsampled(cache) + !object;
	}
	if (!object) {
		object = chain;
		chain = chain_next(cache, chain);
		chain_unchained(cache, object);
		unsampled--;
	}
	/* It goes round, if it was plain before. */
	chain = chain_head(cache, chain);
	if (chain)
		chain_deal(cache, chain, unsampled);
	if (use & SAMPLE_PROFILE)
		tell(cache, object, bytes);
	return object;
}

/* False: sampling is off, or not possible while this thread holds a lock. */
static bool look_closer(void)
{
	if (slub_thread.locks_held || !sample_keeper)
		return false;
	sample_keeper->probes_changed();
	return sample_is_on_at_all();
}

/* Tosses a coin for one allocation.  NULL: it is not sampled. */
static void *alloc_tossed(struct slub_cache *cache, size_t bytes, size_t align)
{
	uint32_t use;
	void *object;

	if (sample_draw() >= rate_of(cache))
		return NULL;
	/* Of all that is guarded no list is ever empty or full: nobody else would answer. */
	debug_mailbox_poll();
	use = draw_use(cache);
	object = alloc_for(cache, bytes, align, &use);
	if (object && use & SAMPLE_PROFILE)
		tell(cache, object, bytes);
	return object;
}

/* From the list that was drawn for before: at its end comes a sampled one. */
static void *alloc_listed(struct slub_cache *cache, size_t bytes, size_t align)
{
	void *object = percpu_pop(cache_sample_slot(cache), list_link(cache));

	if (object)
		return chain_unchained(cache, object);
	if (SLUB_CONFIG_HARDENED)
		hardened_mend(cache, cache_sample_slot(cache));
	if (!slub_thread.locks_held)
		list_clear_way(cache, cache_sample_slot(cache), ROOM_NONE);
	/* As in alloc_tossed(); and before this thread has a chain in its hands. */
	debug_mailbox_poll();
	cache_free_postponed();
	percpu_enter();
	return alloc_dealt(cache, bytes, align);
}

void *sample_alloc_slowly(struct slub_cache *cache, size_t bytes,
			  size_t align)
{
	void *object = look_closer() ? alloc_tossed(cache, bytes, align) : NULL;

	return object ? object : cache_alloc_sized(cache, bytes);
}

void *sample_alloc(struct slub_cache *cache, size_t bytes)
{
	if (!look_closer() || !cache_sample_slot(cache))
		return cache_alloc_sized(cache, bytes);
	/* Lists of a watched cache stay empty (features/watch/watch.h). */
	if (unlikely(cache_is_watched(cache)))
		return sample_alloc_slowly(cache, bytes, MALLOC_ALIGN);
	return alloc_listed(cache, bytes, MALLOC_ALIGN);
}

/* ---- programs' caches ---- */

void *sample_alloc_typed(struct slub_cache *cache)
{
	if (!look_closer())
		return NULL;
	if (sample_is_on(SAMPLE_PROFILE) || cache_is_watched(cache))
		return alloc_tossed(cache, cache->object_size, cache->align);
	if (!cache_sample_slot(cache) || !sample_is_on(SAMPLE_GUARD))
		return NULL;
	return alloc_listed(cache, cache->object_size, cache->align);
}

void *sample_alloc_unguarded(struct slub_cache *cache)
{
	void *object;

	if (!look_closer() ||
	    sample_draw() >= rate_profile(cache->object_size))
		return NULL;
	object = alloc_sampled(cache);
	if (object)
		tell(cache, object, cache->object_size);
	return object;
}

size_t sample_bulk_guarded(struct slub_cache *cache, size_t nr, void **objects)
{
	size_t have = 0, at = 0;

	/* Those of a watched cache are allocated one by one. */
	if (!look_closer() || !sample_is_on(SAMPLE_GUARD) ||
	    !cache_sample_slot(cache) || cache_is_watched(cache))
		return 0;
	for (;; have++) {
		/* The number of objects up to the next guarded one is geometric. */
		uint64_t skipped = (uint64_t)(sample_draw() /
					      atomic_read(&guard_rate));

		if (skipped >= nr - at)
			return have;
		at += skipped + 1;
		objects[have] = guard_alloc(cache, cache->object_size,
					    cache->align);
		if (!objects[have])
			return have;
	}
}

void sample_cache_made(struct slub_cache *cache)
{
	if (cache->is_internal || !link_is_in_object(cache->link) ||
	    !sample_is_on(SAMPLE_GUARD))
		return;
	/* A cache without a slot is sampled for the profile only. */
	sample_caches_prepare(cache, 1);
	cache_inline_slot_set(cache);
}

void sample_caches_switch(void)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		struct cache_hold pin;

		/* Pinned: a cache that is destroyed meanwhile would keep its slot. */
		if (__atomic_load_n(&c->is_internal, __ATOMIC_RELAXED) ||
		    !cache_pin(c, &pin))
			continue;
		sample_cache_made(c);
		cache_unpin(&pin);
	}
	cache_inline_slots_set();
}

/* ---- large blocks ---- */

void *sample_large_guarded(size_t bytes, size_t align)
{
	if (!look_closer() || !sample_is_on(SAMPLE_GUARD) ||
	    sample_draw() >= atomic_read(&guard_rate))
		return NULL;
	return guard_alloc(NULL, bytes, max_size(align, MALLOC_ALIGN));
}

void sample_gone(void *object)
{
	sample_keeper->gone(object);
}

void sample_large(void *ptr, size_t bytes)
{
	if (look_closer() && sample_is_on(SAMPLE_PROFILE) &&
	    sample_draw() * atomic_read(&mean_bytes) < (double)bytes)
		sample_keeper->taken(ptr, bytes, sample_weight(bytes));
}
