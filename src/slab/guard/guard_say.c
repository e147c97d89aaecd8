/* SPDX-License-Identifier: MIT */
/*
 * What is said of guarded objects: a report in the form of debugging, where somebody reads
 * those; and where no letters were asked for (SLUB_DEBUG), which report and go on, the
 * line and the end that certain corruption has anywhere else.
 */
#include "debug/misuse.h"
#include "slab/watch/watch.h"
#include "slab/guard/guard_internal.h"

/* What it is called in the report of an error. */
static const char *words_of(const struct guard_place *place,
			    enum guard_error error, const void *at)
{
	switch (error) {
	case GUARD_TWICE:
		return "Object already free";
	case GUARD_INSIDE:
		return "Invalid object pointer";
	case GUARD_BEYOND:
		return "Redzone overwritten";
	case GUARD_CACHE:
		return "Wrong slab cache";
	case GUARD_SIZE:
		return "Wrong size";
	case GUARD_CALL:
		return "Wrong kind";
	case GUARD_ASKED:
		break;
	}
	return place->object == (uintptr_t)at ? "Object is free" :
						"Invalid object pointer";
}

/* MISUSE_NR: a bug of the program that harms no memory here. */
static enum misuse misuse_of(const struct guard_place *place,
			     enum guard_error error, const void *at)
{
	bool is_object = place->object == (uintptr_t)at;

	switch (error) {
	case GUARD_TWICE:
	case GUARD_INSIDE:
	case GUARD_ASKED:
		if (is_object)
			return MISUSE_DOUBLE_FREE;
		/* The place was never used. */
		return place->object ? MISUSE_INSIDE : MISUSE_NO_BLOCK;
	case GUARD_BEYOND:
		return MISUSE_RED_ZONE;
	case GUARD_CALL:
		/* As of any block of that build. */
		if (SLUB_CONFIG_HARDENED && option_value(OPTION_check_calls))
			return MISUSE_CALL;
		break;
	case GUARD_CACHE:
	case GUARD_SIZE:
		break;
	}
	return MISUSE_NR;
}

static void report(const struct guard_place *place, enum guard_error error,
		   const void *at, const void *frame)
{
	const struct debug_layout layout = {
		.name = place->name[0] ? place->name : "guard",
	};
	struct debug_case found = { .layout = &layout };

	if (frame)
		stack_read(&found.stack, frame);
	report_bug(&found, NULL, "%s: %p, guarded object %p of %zu bytes",
		   words_of(place, error, at), at, (void *)place->object,
		   (size_t)place->bytes);
	report_track(&found, "Allocated", &place->allocated);
	report_track(&found, "Freed", &place->freed);
	if (error == GUARD_TWICE || error == GUARD_INSIDE)
		report_fix(&found, "%p left alone", at);
	report_finish(&found);
}

bool guard_say(struct guard_place *place, enum guard_error error,
	       const char *call, const void *at, const void *frame)
{
	enum misuse what = misuse_of(place, error, at);

	__atomic_fetch_or(&place->errors, error, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pool_of((void *)place->object)->errors, 1,
			   __ATOMIC_RELAXED);
	report(place, error, at, frame);
	if (option_text(OPTION_debug) || what == MISUSE_NR)
		return false;
	if (what == MISUSE_RED_ZONE)
		at = (void *)place->object;
	misuse_found(what, call, at, place->name[0] ? place->name : NULL);
	return true;
}

/* ---- what keeps a cache from being destroyed ---- */

struct left {
	struct slub_cache *cache, *twin;
	const void *frame;
};

static void left_say(const struct guard_place *place, size_t bytes, void *arg)
{
	const struct left *left = arg;
	struct debug_case found;

	(void)bytes;
	if (place->cache != (uintptr_t)left->cache)
		return;
	case_begin(&found, left->twin, left->frame);
	report_bug(&found, NULL, "Objects remaining on slub_cache_destroy(): "
		   "guarded object %p", (void *)place->object);
	report_track(&found, "Allocated", &place->allocated);
	report_fix(&found, "Cache kept, with its objects");
	case_end(&found, left->twin);
}

cold void guard_report_left(struct slub_cache *cache, struct slub_cache *twin)
{
	struct left left = { cache, twin, __builtin_frame_address(0) };

	guard_visit(left_say, &left);
}
