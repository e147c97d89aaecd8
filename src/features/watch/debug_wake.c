/* SPDX-License-Identifier: MIT */
/*
 * What a thread does that another process has woken out of a system call (features/debug/wake.h).
 *
 * The asker has seen that the thread stands outside the library, and blocks no signal that has
 * a handler.  Signals wait until it stands there again.  The pieces are those of a slow path
 * (debug_mailbox.c), with one thing less: nobody is asked for memory, and the heap does not
 * grow, so no code of the program runs.
 */
#include "core/arch/wake.h"
#include "features/debug/wake.h"
#include "features/watch/watch.h"

#if ARCH_HAS_WAKE
uint32_t debug_woken(struct wake_frame *frame) SLUB_INTERNAL;

/* The text calls it. */
__attribute__((used)) cold uint32_t debug_woken(struct wake_frame *frame)
{
	uint8_t growth;
	bool more;

	(void)frame;
	/* A handler may have interrupted a list operation (backend thread). */
	if (!debug_mailbox_is_outside() || slub_thread.busy)
		return WAKE_INSIDE;
	if (os_is_on_signal_stack())
		return WAKE_ON_HANDLER_STACK;
	growth = thread_growth_set(THREAD_GROWTH_QUIET);
	more = debug_mailbox_serve();
	thread_growth_set(growth);
	return more ? WAKE_LATER : WAKE_ANSWERED;
}

ARCH_WAKE_TEXT(debug_woken);
#endif
