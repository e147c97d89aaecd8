/* SPDX-License-Identifier: MIT */
/* Who allocated, and who freed, an object last. */
#include "debug/debug.h"

bool debug_calls_are_told;

bool call_is_wrong(uint32_t was, enum alloc_call call)
{
	return debug_calls_are_told && was != CALL_UNKNOWN && was != call &&
	       was <= CALL_NEW_MANY;
}

const char *call_name(enum alloc_call call)
{
	if (call == CALL_MALLOC)
		return "malloc";
	return call == CALL_NEW ? "new" : "new[]";
}

void track_now(struct track *track, const struct stack *stack)
{
	*track = (struct track){
		.caller = stack->nr ? stack->frames[0] : 1,
		.when_ns = os_clock_ns(),
		.stack = stack_store(stack),
		.thread = (uint32_t)sys_call4(SYS_gettid, 0, 0, 0, 0),
		.cpu = os_cpu_current(),
		.call = stack->call,
	};
}

struct track *track_of(const struct debug_layout *layout, const void *object,
		       enum track_kind kind)
{
	if (!layout->track)
		return NULL;
	return (struct track *)((char *)object + layout->track) + kind;
}

void track_set(const struct debug_layout *layout, void *object,
	       enum track_kind kind, const struct track *track)
{
	struct track *to = track_of(layout, object, kind);

	if (to)
		*to = *track;
}
