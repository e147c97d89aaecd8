/* SPDX-License-Identifier: MIT */
/*
 * Sampling: of all bytes that are allocated each is a sample point with the
 * same small probability (a Poisson process of `mean` bytes between points), and
 * an allocation with a point in it is sampled: it is told to who keeps the
 * profile, and so is its end.
 *
 * The fast path counts nothing, and counts nothing while sampling is on either.
 * Which allocation is sampled is drawn beforehand, when a chain of objects is
 * handed to a CPU (docs/profile.md has the argument that this is exact):
 *
 *   malloc pops from here                   free pushes here, as ever
 *   +-----------------------------+         +-------------------------+
 *   | sample slot                 |         | the cache's own slot    |
 *   | main: n objects             |         | main        | spare     |
 *   | spare: the rest of the chain|         +-------------------------+
 *   +-----------------------------+              |  taken as the next chain
 *        ^                                       v
 *        +-- n drawn: so many more are not sampled, then one is
 *
 * So the allocation that finds the main list empty and a rest in the spare is
 * the sampled one.  It gets an object of the cache's `sampled` twin: the same
 * objects in slabs of their own, whose pages name a slot without room, so that
 * free() of a sampled object, and of no other, leaves the fast path.
 *
 * Invariants
 *   SAMPLE-1  a chain in the spare of a sample slot means: the next allocation
 *             from this slot is sampled, once its main list is empty;
 *   SAMPLE-2  objects of a sampled twin are handed out as sampled ones only.
 */
#ifndef SLUB_SAMPLE_H
#define SLUB_SAMPLE_H

#include "slab/slab.h"

/* Read as one word by the slow paths: anything in it means "look closer". */
struct sample_switch {
	uint16_t probe_alloc;	/* how many tracers wait for otel_memory:alloc */
	uint16_t probe_free;	/* the same for otel_memory:free */
	uint32_t on;
} align_to(8);

extern struct sample_switch sample_switch SLUB_INTERNAL;

static inline bool sample_is_wanted(void)
{
	return __atomic_load_n((uint64_t *)&sample_switch, __ATOMIC_RELAXED);
}

static inline bool sample_is_on(void)
{
	return __atomic_load_n(&sample_switch.on, __ATOMIC_RELAXED);
}

/* Who keeps the profile; called with no lock held.  Set once, before a start. */
struct sample_keeper {
	/* @weight: how many such allocations this one stands for. */
	void (*taken)(void *object, size_t bytes, double weight);
	/* @object is about to be freed; it may be one that was not told. */
	void (*gone)(void *object);
	/* There are tracers, and sampling is not on; or the other way round. */
	void (*probes_changed)(void);
};

extern const struct sample_keeper *sample_keeper SLUB_INTERNAL;

/* Mean bytes between points, and what the random numbers begin with. */
void sample_set(double mean_bytes, uint64_t seed);
/* After what malloc_sample() did: allocations may be sampled, or not. */
void sample_switch_on(bool on);
/* Sampling has been on, so there may be sampled blocks. */
extern bool sample_was_on SLUB_INTERNAL;

/*
 * Gives @nr caches in a row, which live for ever, a sample slot each.  Returns
 * 0, or -ENOSPC.
 */
int sample_caches_prepare(struct slub_cache *caches, uint32_t nr);

/* While sampling is wanted, the slow paths end here. */
/* An allocation of @bytes from @cache, whose fast path is at its sample slot. */
void *sample_alloc(struct slub_cache *cache, size_t bytes);
/* One that has no fast path. */
void *sample_alloc_slowly(struct slub_cache *cache, size_t bytes);
/* A large block has been allocated. */
void sample_large(void *ptr, size_t bytes);
/* It is about to be freed or has been resized. */
static inline void sample_large_gone(void *ptr)
{
	if (unlikely(sample_was_on))
		sample_keeper->gone(ptr);
}

/* -ln of a random number in (0, 1]: exponentially distributed, mean 1. */
double sample_draw(void);
/* How many allocations one sampled one of @bytes stands for. */
double sample_weight(size_t bytes);

#endif
