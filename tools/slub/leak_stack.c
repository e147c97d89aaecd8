/* SPDX-License-Identifier: MIT */
/*
 * The stack that allocated an object, where it is known: to letter U, in its track; to the guard,
 * of an object between guard pages; to the heap profile, of one that it sampled.
 */
#include "leak.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

struct leak_sample {
	uint64_t object;
	uint32_t stack;
};

struct leak_stacks {
	struct leaks *leaks;
	bool has_tracks;
	struct watch *watches;		/* by index of the cache */
	uint64_t store;
	struct leak_sample *samples;	/* by address */
	size_t nr_samples;
};

#define ROUND_KINDS 2	/* a stack's number, or a caller alone */
#define SAMPLES_MAX (1u << 24)
#define CHUNK 1024u

static uint32_t of_store(const struct leak_stacks *stacks, uint32_t stack, uint64_t caller,
			 uint64_t *id, uint64_t frames[TRACE_FRAMES_MAX])
{
	const struct leaks *leaks = stacks->leaks;
	uint32_t nr = trace_stack_read(leaks->process, &leaks->snapshot.abi, stacks->store, stack,
				       frames);

	*id = nr ? (uint64_t)stack * ROUND_KINDS + 1 : caller * ROUND_KINDS;
	if (!nr && caller > 1)
		frames[nr++] = caller;
	return nr;
}

static uint32_t of_track(struct leak_stacks *stacks, const struct watch *watch, uint64_t address,
			 uint64_t *id, uint64_t frames[TRACE_FRAMES_MAX])
{
	const struct slub_abi *abi = &stacks->leaks->snapshot.abi;
	char track[1024];

	if (abi->track_bytes > sizeof(track) ||
	    !leak_copy(stacks->leaks, address + watch->track, track, abi->track_bytes))
		return 0;
	return of_store(stacks,
			(uint32_t)field_get(track, abi->track_fields[SLUB_ABI_TRACK_STACK]),
			field_get(track, abi->track_fields[SLUB_ABI_TRACK_CALLER]), id, frames);
}

static uint32_t of_guard(struct leak_stacks *stacks, uint32_t place, uint64_t *id,
			 uint64_t frames[TRACE_FRAMES_MAX])
{
	const struct leaks *leaks = stacks->leaks;
	const struct track *track = &leaks->guard.places[place].allocated;

	*id = track->stack ? (uint64_t)track->stack * ROUND_KINDS + 1 :
			     track->caller * ROUND_KINDS;
	return (uint32_t)guard_stack(&leaks->guard, leaks->source, track, frames);
}

static int by_address(const void *a, const void *b)
{
	const struct leak_sample *one = a, *other = b;

	return compare_numbers(one->object, other->object);
}

static uint32_t of_profile(struct leak_stacks *stacks, uint64_t address, uint64_t *id,
			   uint64_t frames[TRACE_FRAMES_MAX])
{
	struct leak_sample key = { .object = address };
	const struct leak_sample *found = NULL;

	if (stacks->nr_samples)
		found = bsearch(&key, stacks->samples, stacks->nr_samples, sizeof(key), by_address);
	return found ? of_store(stacks, found->stack, 0, id, frames) : 0;
}

uint32_t leak_stack_of(struct leak_stacks *stacks, uint64_t object, uint64_t *id,
		       uint64_t frames[TRACE_FRAMES_MAX])
{
	const struct leaks *leaks = stacks->leaks;
	const struct leak_slab *slab = &leaks->slabs[leak_block_of(leaks, object)->slab];
	uint64_t bytes, address = leak_object_at(leaks, object, &bytes);

	*id = 0;
	if (slab->cache == LEAK_GUARDED)
		return of_guard(stacks, slab->pages, id, frames);
	if (slab->cache >= 0 && stacks->has_tracks && stacks->watches[slab->cache].is_known)
		return of_track(stacks, &stacks->watches[slab->cache], address, id, frames);
	return of_profile(stacks, address, id, frames);
}

/* ---- the heap profile's book ---- */

/* The stack of site number @site, from 1 on; 0: not known. */
static uint32_t stack_of_site(const struct leak_stacks *stacks, uint64_t book, uint64_t site)
{
	const struct slub_abi_book *shape = &stacks->leaks->book;
	uint64_t at = book + shape->sites + (site - 1) * shape->site_bytes, stack = 0;

	if (!site || !leak_copy(stacks->leaks, at + shape->site_stack.offset, &stack,
				shape->site_stack.bytes))
		return 0;
	return (uint32_t)stack;
}

static void add_samples(struct leak_stacks *stacks, uint64_t book, const char *from, uint32_t nr)
{
	const struct slub_abi_book *shape = &stacks->leaks->book;

	for (uint32_t i = 0; i < nr; i++, from += shape->sample_bytes) {
		uint64_t object = field_get(from, shape->sample_object);
		uint32_t stack = 0;

		if (object)
			stack = stack_of_site(stacks, book, field_get(from, shape->sample_site));
		if (stack)
			stacks->samples[stacks->nr_samples++] =
				(struct leak_sample){ object, stack };
	}
}

/* Samples that are alive; of a process that runs, those that are so while they are read. */
static void read_book(struct leak_stacks *stacks)
{
	struct leaks *leaks = stacks->leaks;
	const struct slub_abi_book *shape = &leaks->book;
	uint64_t book = 0;
	uint32_t nr = 0;
	char *chunk;

	if (!shape->place || !leak_copy(leaks, shape->place, &book, sizeof(book)) || !book ||
	    !leak_copy(leaks, shape->nr_samples, &nr, sizeof(nr)) || nr > SAMPLES_MAX)
		return;
	chunk = must_have(malloc((size_t)CHUNK * shape->sample_bytes));
	stacks->samples = must_have(calloc((size_t)nr + 1, sizeof(*stacks->samples)));
	for (uint32_t at = 0; at < nr; at += CHUNK) {
		uint32_t part = nr - at < CHUNK ? nr - at : CHUNK;

		if (leak_copy(leaks, book + shape->samples + (uint64_t)at * shape->sample_bytes,
			      chunk, (size_t)part * shape->sample_bytes))
			add_samples(stacks, book, chunk, part);
	}
	free(chunk);
	qsort(stacks->samples, stacks->nr_samples, sizeof(*stacks->samples), by_address);
}

struct leak_stacks *leak_stacks_open(struct leaks *leaks)
{
	const struct snapshot *snapshot = &leaks->snapshot;
	struct leak_stacks *stacks = must_have(calloc(1, sizeof(*stacks)));

	stacks->leaks = leaks;
	stacks->has_tracks = trace_fields_fit(&snapshot->abi);
	stacks->store = trace_store(leaks->process, &snapshot->abi);
	stacks->watches = must_have(calloc(snapshot->nr_caches + 1, sizeof(*stacks->watches)));
	for (size_t i = 0; i < snapshot->nr_caches && stacks->has_tracks; i++) {
		if (cache_is_traced(snapshot, &snapshot->caches[i], ""))
			watch_read(leaks->process, &snapshot->abi, &snapshot->caches[i],
				   &stacks->watches[i]);
	}
	read_book(stacks);
	return stacks;
}

void leak_stacks_close(struct leak_stacks *stacks)
{
	free(stacks->watches);
	free(stacks->samples);
	free(stacks);
}
