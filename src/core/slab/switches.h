/* SPDX-License-Identifier: MIT */
/*
 * Words that the core's slow paths read and features write, beside those of a cache; all 0
 * unless a feature is in use.  They lie in core/slab/cache.c.
 */
#ifndef SLUB_SWITCHES_H
#define SLUB_SWITCHES_H

#include "core/slab/slab.h"

/* Read as one word by the slow paths: anything in it means "look closer". */
struct sample_switch {
	uint16_t probe_alloc;	/* how many tracers wait for otel_memory:alloc */
	uint16_t probe_free;	/* the same for otel_memory:free */
	uint32_t on;		/* enum sample_use, as bits */
} align_to(8);

/* What allocations are drawn for; one may be drawn for both. */
enum sample_use {
	SAMPLE_PROFILE = 1,
	SAMPLE_GUARD = 2,	/* features/guard/guard.h: one in so many, whatever its size */
};

extern struct sample_switch sample_switch SLUB_INTERNAL;

static inline bool sample_is_wanted(void)
{
	return __atomic_load_n((uint64_t *)&sample_switch, __ATOMIC_RELAXED);
}

static inline bool sample_is_on(enum sample_use use)
{
	return __atomic_load_n(&sample_switch.on, __ATOMIC_RELAXED) & use;
}

static inline bool sample_is_on_at_all(void)
{
	return __atomic_load_n(&sample_switch.on, __ATOMIC_RELAXED);
}

/* The room of a sample slot: however much is popped, no free pushes there. */
#define ROOM_NONE (-(1 << 30))

/* 0: it has none yet. */
static inline uint32_t cache_sample_slot(const struct slub_cache *cache)
{
	/* acquire: pairs with sample_slot_set() */
	return __atomic_load_n(&cache->sample_slot, __ATOMIC_ACQUIRE);
}

/* So many near slots no cache takes: they are for the samples of malloc's classes. */
#define SLOTS_SPARED 128
/*
 * cache.c: gives @nr caches in a row, which live for ever, a sample slot each.  Returns
 * 0, or -ENOSPC.
 */
int sample_caches_prepare(struct slub_cache *caches, uint32_t nr);

/* atomic; sampling has been on, so there may be sampled blocks. */
extern bool sample_was_on SLUB_INTERNAL;

/* A block is about to be freed or resized. */
static inline void sample_block_gone(void *ptr)
{
	if (unlikely(__atomic_load_n(&sample_was_on, __ATOMIC_RELAXED)))
		sample_gone(ptr);
}

/* Something waits for readers, or did. */
extern bool grace_was_used SLUB_INTERNAL;

static inline bool grace_is_used(void)
{
	return __atomic_load_n(&grace_was_used, __ATOMIC_RELAXED);
}

static inline void grace_use(void)
{
	if (unlikely(!grace_is_used()))
		__atomic_store_n(&grace_was_used, true, __ATOMIC_RELAXED);
}

/* In slow paths, with no lock held; a block of pages counts as many @steps. */
#define GRACE_STEPS_LARGE 16
static inline void grace_look(uint32_t steps)
{
	if (unlikely(grace_is_used()))
		slab_grace_look(steps);
}

/* Do letters watch large blocks?  Const after start. */
extern bool guard_watches_large SLUB_INTERNAL;

/*
 * Is a large block, or one of no size, watched if this thread asks for it now?  A
 * guarded object is charged to no group, so what a group asks for is not guarded.
 */
static inline bool guard_watches_block(void)
{
	return guard_watches_large && !group_current();
}

#endif
