/* SPDX-License-Identifier: MIT */
/* The objects between guard pages of a process. */
#include "guard.h"
#include "slub.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MAX (1u << 16)
#define PLACE_SIZE_MAX 1024u
/* A damaged chain of pools ends somewhere. */
#define POOLS_MAX 8

static bool pool_is_sane(const struct guard_pool *pool)
{
	return pool->size >= offsetof(struct guard_pool, next_pool) &&
	       pool->place_bytes &&
	       pool->nr_places && pool->nr_places <= PLACES_MAX &&
	       pool->place_size >= sizeof(struct guard_place) &&
	       pool->place_size <= PLACE_SIZE_MAX &&
	       pool->bytes / pool->place_bytes >= pool->nr_places &&
	       pool->base <= UINT64_MAX - pool->bytes;
}

static int read_places(struct guard *guard, const struct process *process)
{
	const struct guard_pool *pool = &guard->pool;
	size_t bytes = (size_t)pool->nr_places * pool->place_size;
	char *raw = must_have(malloc(bytes));
	int error = process_read(process, pool->places, raw, bytes);

	guard->places = must_have(calloc(pool->nr_places, sizeof(*guard->places)));
	for (uint32_t n = 0; n < pool->nr_places && !error; n++) {
		struct guard_place *place = &guard->places[n];

		memcpy(place, raw + (size_t)n * pool->place_size,
		       sizeof(*place));
		clean_text(place->name, sizeof(place->name));
	}
	free(raw);
	return error;
}

static int read_pool(struct guard *guard, const struct process *process,
		     uint64_t address)
{
	struct guard_pool *pool = &guard->pool;
	int error;

	*guard = (struct guard){ .places = NULL };
	error = process_read(process, address, pool, sizeof(*pool));
	if (error)
		return error;
	if (pool->version != GUARD_VERSION)
		return -EPROTO;
	if (pool->size < sizeof(*pool))
		pool->next_pool = 0;
	if (!pool->bytes)
		return 0;
	if (!pool_is_sane(pool))
		return -EBADMSG;
	return read_places(guard, process);
}

int guard_read(struct guard *guard, const struct source *source)
{
	uint64_t address = source->state.abi.guard;

	*guard = (struct guard){ .places = NULL };
	for (int i = 0; address && i < POOLS_MAX; i++) {
		int error = read_pool(guard, &source->process, address);

		/* All of one library are of one version. */
		if (error)
			return error == -EPROTO && i ? -EBADMSG : error;
		address = guard->pool.next_pool;
		if (!address)
			break;
		guard->next = must_have(calloc(1, sizeof(*guard->next)));
		guard = guard->next;
	}
	return 0;
}

void guard_free(struct guard *guard)
{
	struct guard *next = guard->next;

	free(guard->places);
	while (next) {
		struct guard *after = next->next;

		free(next->places);
		free(next);
		next = after;
	}
}

static void count_live(const struct guard_place *place,
		       struct snapshot *snapshot)
{
	if (!place->cache) {
		snapshot->large_blocks++;
		snapshot->large_bytes += place->bytes;
		return;
	}
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		struct cache_view *cache = &snapshot->caches[i];

		if (cache->address != place->cache)
			continue;
		cache->guarded++;
		cache->carved++;
		cache->active++;
		return;
	}
}

void guard_count_live(const struct guard *guard, struct snapshot *snapshot)
{
	for (; guard; guard = guard->next) {
		uint32_t nr = guard->places ? guard->pool.nr_places : 0;

		for (uint32_t n = 0; n < nr; n++) {
			if (guard->places[n].state == GUARD_LIVE)
				count_live(&guard->places[n], snapshot);
		}
	}
}

const struct guard *guard_of(const struct guard *guard, uint64_t address)
{
	for (; guard; guard = guard->next) {
		if (address - guard->pool.base < guard->pool.bytes)
			return guard;
	}
	return NULL;
}

/* What @address has to do with the object of one place. */
static struct guard_finding relate(const struct guard_place *place,
				   uint64_t address)
{
	struct guard_finding f = { GUARD_APART, UINT64_MAX, place };
	bool live = place->state == GUARD_LIVE;

	if (!live && place->state != GUARD_FREED &&
	    place->state != GUARD_WAITING)
		return f;
	if (address < place->object) {
		f.relation = live ? GUARD_BEFORE : GUARD_BEFORE_FREED;
		f.distance = place->object - address;
	} else if (address - place->object < place->bytes) {
		f.relation = live ? GUARD_INSIDE_LIVE : GUARD_INSIDE_FREED;
		f.distance = address - place->object;
	} else {
		f.relation = live ? GUARD_BEHIND : GUARD_BEHIND_FREED;
		f.distance = address - place->object - place->bytes;
	}
	return f;
}

static bool is_inside(const struct guard_finding *f)
{
	return f->relation == GUARD_INSIDE_LIVE ||
	       f->relation == GUARD_INSIDE_FREED;
}

/* The guard page in front of a place is that behind its neighbour, too. */
struct guard_finding guard_find(const struct guard *guard, uint64_t address)
{
	uint64_t n = (address - guard->pool.base) / guard->pool.place_bytes;
	struct guard_finding best = { GUARD_APART, UINT64_MAX, NULL };

	for (uint64_t i = n ? n - 1 : 0; i <= n; i++) {
		struct guard_finding f;

		if (i >= guard->pool.nr_places)
			break;
		f = relate(&guard->places[i], address);
		if (is_inside(&f))
			return f;
		if (f.relation != GUARD_APART && f.distance < best.distance)
			best = f;
	}
	return best;
}

size_t guard_stack(const struct guard *guard, const struct source *source,
		   const struct track *track,
		   uint64_t frames[GUARD_FRAMES_MAX])
{
	uint64_t at = guard->pool.stacks +
		      (uint64_t)track->stack * guard->pool.stack_unit;
	struct stack_record stack;
	size_t nr;

	if (!track->caller)
		return 0;
	frames[0] = track->caller;
	if (!track->stack || !guard->pool.stacks ||
	    process_read(&source->process, at, &stack, sizeof(stack)) ||
	    !stack.nr)
		return 1;
	nr = stack.nr < GUARD_FRAMES_MAX ? stack.nr : GUARD_FRAMES_MAX;
	if (process_read(&source->process, at + sizeof(stack), frames,
			 nr * sizeof(*frames)))
		return 1;
	return nr;
}
