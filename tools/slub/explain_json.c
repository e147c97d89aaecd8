/* SPDX-License-Identifier: MIT */
/* slub explain --json. */
#include "core.h"
#include "explain.h"
#include "symbols.h"
#include "view.h"

/* ---- the thread that died ---- */

void put_death(struct json *json, const struct source *source)
{
	struct core_stack stack;

	core_stack_read(&stack, &source->process);
	if (!stack.nr)
		return;
	json_open(json, "died");
	json_number(json, "thread", (uint64_t)source->process.core->thread.id);
	json_bool(json, "whole", stack.is_whole);
	symbols_put(json, &source->process, stack.frames, stack.nr, STACK_INTERRUPTED);
	json_close(json);
}

/* ---- guarded objects ---- */

static void put_track(struct json *json, const struct guard *guard,
		      const struct source *source, const char *what,
		      const struct track *track)
{
	uint64_t when = track->when_ns + guard->pool.clock_offset_ns;
	uint64_t frames[GUARD_FRAMES_MAX];
	size_t nr = guard_stack(guard, source, track, frames);

	if (!nr)
		return;
	json_open(json, what);
	json_real(json, "time", (double)when / 1e9);
	json_number(json, "thread", track->thread);
	json_number(json, "cpu", track->cpu);
	symbols_put(json, &source->process, frames, nr, STACK_OF_CALLS);
	json_close(json);
}

static void put_place(struct json *json, const struct guard *guard,
		      const struct source *source,
		      const struct guard_place *place)
{
	json_address(json, "object", place->object);
	json_number(json, "bytes", place->bytes);
	json_string(json, "cache", place->name);
	json_open_array(json, "errors");
	for (int i = 0; i < GUARD_ERRORS; i++) {
		if (place->errors & 1u << i)
			json_string(json, NULL, guard_errors[i]);
	}
	json_close(json);
	put_track(json, guard, source, "allocated", &place->allocated);
	put_track(json, guard, source, "freed", &place->freed);
}

void put_guarded(struct json *json, const struct guard *guard,
		 const struct source *source, uint64_t address)
{
	static const char *const words[] = {
		[GUARD_INSIDE_LIVE] = "inside",
		[GUARD_INSIDE_FREED] = "use after free",
		[GUARD_BEFORE] = "underrun",
		[GUARD_BEHIND] = "overrun",
		[GUARD_BEFORE_FREED] = "underrun after free",
		[GUARD_BEHIND_FREED] = "overrun after free",
		[GUARD_APART] = "between guard pages",
	};
	struct guard_finding f = guard_find(guard, address);

	json_string(json, "is", words[f.relation]);
	if (f.relation == GUARD_APART)
		return;
	json_number(json, "distance", f.distance);
	put_place(json, guard, source, f.place);
}

void put_found(struct json *json, const struct guard *guard,
	       const struct source *source)
{
	struct guard_sums sums = guard_sums(guard);
	uint64_t counts[GUARD_STATES];

	guard_count(guard, counts);
	json_open(json, "guard");
	json_number(json, "every", guard->pool.bytes ? guard->pool.every : 0);
	json_number(json, "allocated", counts[GUARD_LIVE]);
	json_number(json, "freed", counts[GUARD_FREED]);
	json_number(json, "lost", sums.lost);
	json_number(json, "errors", sums.errors);
	json_close(json);
	json_open_array(json, "objects");
	for (; guard; guard = guard->next) {
		uint32_t nr = guard->places ? guard->pool.nr_places : 0;

		for (uint32_t n = 0; n < nr; n++) {
			if (!guard->places[n].errors)
				continue;
			json_open(json, NULL);
			put_place(json, guard, source, &guard->places[n]);
			json_close(json);
		}
	}
	json_close(json);
}

/* ---- the rest of the heap ---- */

static void put_object(struct json *json, const struct search *search)
{
	static const char *const words[] = {
		[OBJECT_USED] = "object",
		[OBJECT_WATCHED] = "in a watched slab",
		[OBJECT_NEVER_USED] = "never used",
		[OBJECT_HOLE] = "without memory",
		[OBJECT_BEHIND] = "behind the objects",
	};
	struct search_object object = search_object(search);

	json_string(json, "is", words[object.kind]);
	json_string(json, "cache", object.cache->name);
	if (object.kind == OBJECT_WATCHED)
		put_watched(json, search);
	if (object.kind != OBJECT_USED)
		return;
	json_address(json, "object", object.address);
	json_number(json, "offset", object.offset);
}

void put_piece(struct json *json, const struct search *search)
{
	const struct piece *piece = &search->piece;

	if (!search->found) {
		json_string(json, "is", "not of the heap");
		return;
	}
	switch (piece->kind) {
	case PIECE_SLAB:
		put_object(json, search);
		break;
	case PIECE_LARGE:
		json_string(json, "is", "large block");
		json_address(json, "object", piece->address);
		json_number(json, "offset", search->address - piece->address);
		json_number(json, "pages", piece->pages);
		break;
	case PIECE_IDLE:
	case PIECE_FREE:
		json_string(json, "is", "free memory");
		break;
	case PIECE_UNREADABLE:
		json_string(json, "is", "unreadable");
	}
}
