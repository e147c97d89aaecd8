/* SPDX-License-Identifier: MIT */
/*
 * What is said of guarded objects: a report in the form of debugging, where somebody reads
 * those; and where no letters were asked for (SLUB_DEBUG), which report and go on, the
 * line and the end that certain corruption has anywhere else.
 */
#include "features/misuse/misuse.h"
#include "features/watch/watch.h"
#include "features/guard/guard_internal.h"

/* What it is called in the report of an error. */
static const char *words_of(enum guard_error error, bool is_object)
{
	static const char *const words[] = {
		"Object already free", "Invalid object pointer", "Redzone overwritten",
		"Wrong slab cache", "Wrong size", "Wrong kind",
	};

	if (error == GUARD_ASKED)
		return is_object ? "Object is free" : "Invalid object pointer";
	return words[__builtin_ctz(error)];
}

/* MISUSE_NR: a bug of the program that harms no memory here. */
static enum misuse misuse_of(const struct guard_place *place,
			     enum guard_error error, bool is_object)
{
	if (error & (GUARD_TWICE | GUARD_INSIDE | GUARD_ASKED))
		return is_object ? MISUSE_DOUBLE_FREE :
		       place->object ? MISUSE_INSIDE :
				       MISUSE_NO_BLOCK;	/* never used */
	if (error == GUARD_BEYOND)
		return MISUSE_BEYOND;
	/* As of any block of that build. */
	return error == GUARD_CALL && SLUB_CONFIG_HARDENED &&
	       option_value(OPTION_check_calls) ? MISUSE_CALL : MISUSE_NR;
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
		   words_of(error, place->object == (uintptr_t)at), at,
		   (void *)place->object,
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
	enum misuse what = misuse_of(place, error, place->object == (uintptr_t)at);

	__atomic_fetch_or(&place->errors, error, __ATOMIC_RELAXED);
	/* Not the object's, for there may never have been one. */
	__atomic_fetch_add(&pool_of(at)->errors, 1, __ATOMIC_RELAXED);
	report(place, error, at, frame);
	if (option_text(OPTION_debug) || what == MISUSE_NR)
		return false;
	if (what == MISUSE_BEYOND)
		at = (void *)place->object;
	/* A free that finds a write has noted itself. */
	misuse_found_of(what, call, at, place->name[0] ? place->name : NULL,
			(struct misuse_known){ &place->allocated,
					       what == MISUSE_BEYOND ? NULL : &place->freed });
	return true;
}

/* ---- what keeps a cache from being destroyed ---- */

struct left {
	struct slub_cache *cache, *twin;
	const void *frame;
};

static int left_say(struct guard_place *place, size_t bytes, void *arg)
{
	const struct left *left = arg;
	struct debug_case found;

	(void)bytes;
	if (place->cache != (uintptr_t)left->cache)
		return 0;
	case_begin(&found, left->twin, left->frame);
	report_bug(&found, NULL, "Objects remaining on slub_cache_destroy(): "
		   "guarded object %p", (void *)place->object);
	report_track(&found, "Allocated", &place->allocated);
	report_fix(&found, "Cache kept, with its objects");
	case_end(&found, left->twin);
	return 0;
}

cold void guard_report_left(struct slub_cache *cache, struct slub_cache *twin)
{
	struct left left = { cache, twin, __builtin_frame_address(0) };

	guard_visit(left_say, &left);
}
