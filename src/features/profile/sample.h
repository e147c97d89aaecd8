/* SPDX-License-Identifier: MIT */
/*
 * Sampling: of all bytes that are allocated each is a sample point with the
 * same small probability (a Poisson process of `mean` bytes between points), and
 * an allocation with a point in it is sampled: the profile is told
 * of it, and of its end.
 *
 * The fast path counts nothing.  Which allocation is sampled is drawn beforehand, when a
 * chain of objects is handed to a CPU (docs/operate/profile.md argues that this is exact):
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
 * The allocation that finds the main list empty and a rest in the spare is the sampled one.
 * It gets an object of the cache's `sampled` twin, whose pages name a slot without room, so
 * that free() of a sampled object, and of no other, leaves the fast path.
 *
 * A program's own cache pops and pushes at one slot.  For a guard that is its sample slot,
 * with a room below zero, so that a free takes the slow path.  For a profile it is slot 0,
 * which sends both to the slow path, where a coin is tossed for each.
 *
 * Invariants
 *   SAMPLE-1  a chain in the spare of a sample slot means: the next allocation
 *             from this slot is sampled, once its main list is empty;
 *   SAMPLE-2  objects of a sampled twin are handed out as sampled ones only.
 */
#ifndef SLUB_SAMPLE_H
#define SLUB_SAMPLE_H

#include "core/slab/switches.h"
#include "core/slab/slab.h"

/* The keeper of the profile; called with no lock held.  Set once, before a start. */
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
/* One allocation in @every is to be guarded. */
void sample_set_guard(uint64_t every, uint64_t seed);
/* Allocations may be sampled for @use, or not. */
void sample_switch_on(enum sample_use use, bool on);
/* One from a program's cache.  NULL: it is not sampled; allocate as ever. */
void *sample_alloc_typed(struct slub_cache *cache);
/* The same for the profile only. */
void *sample_alloc_unguarded(struct slub_cache *cache);
/* The guarded ones among @nr objects: how many lie in @objects; the rest is to do. */
size_t sample_bulk_guarded(struct slub_cache *cache, size_t nr, void **objects);
/* A program's cache was made: prepares it if there is a guard. */
void sample_cache_made(struct slub_cache *cache);
/* Guard or profile was switched on or off: the same for those there are. */
void sample_caches_switch(void);
/* Instead of a large block: one between guard pages; NULL: not this one. */
void *sample_large_guarded(size_t bytes, size_t align);
uint64_t sample_random(void);

#endif
