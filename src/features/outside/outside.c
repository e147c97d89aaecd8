/* SPDX-License-Identifier: MIT */
/*
 * Blocks that lie in no slab and are no large ones: between guard pages (features/guard/guard.h),
 * or a handler's (emergency.c).  The page map does not know them, so malloc asks here before
 * it calls a pointer foreign.
 *
 * Tests: tests/unit/malloc/test_emergency.cc, tests/contract/signal_test.cc.
 * Page: docs/internals/locking.md.
 */
#include "core/malloc/malloc.h"
#include "features/guard/guard.h"
#include "features/profile/sample.h"

void *large_alloc_told(size_t bytes, size_t align, bool *is_zero)
{
	bool is_watched = guard_watches_block();
	void *ptr = NULL;

	ptr = is_watched ?
		      guard_alloc(NULL, bytes, max_size(align, MALLOC_ALIGN)) :
		      sample_large_guarded(bytes, align);
	if (!ptr)
		ptr = large_alloc(bytes, align, is_zero);
	if (ptr)
		sample_large(ptr, bytes);
	return ptr;
}

size_t outside_bytes(const void *ptr)
{
	return guard_owns(ptr) ? guard_bytes(ptr) : emergency_bytes(ptr);
}

enum outside_kind outside_find(const void *ptr)
{
	if (guard_owns(ptr))
		return OUTSIDE_WATCHED;
	return emergency_bytes(ptr) ? OUTSIDE_HANDLERS : OUTSIDE_NOT;
}

bool outside_ask(const void *ptr, const char *call)
{
	return !guard_owns(ptr) || guard_ask(ptr, call);
}

bool outside_free(void *ptr)
{
	if (!guard_owns(ptr))
		return emergency_free(ptr);
	/* A handler that interrupted the holder of a lock leaves the sample. */
	if (sample_was_on && !slub_thread.locks_held)
		sample_keeper->gone(ptr);
	guard_free(ptr, NULL);
	return true;
}
