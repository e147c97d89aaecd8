/* SPDX-License-Identifier: MIT */
/* Where askers find the mailbox; features/watch/debug_mailbox.c answers. */
#include "core/base/base.h"
#include "features/debug/mailbox.h"

/* Of features/watch/debug_wake.c; 0 without it, or on a CPU that has no such text. */
extern const char slub_wake[] __attribute__((weak, visibility("hidden")));
extern const char slub_wake_end[] __attribute__((weak, visibility("hidden")));

_Static_assert(offsetof(struct debug_mailbox, state) == DEBUG_MAILBOX_STATE_AT &&
	       MAILBOX_STATE == DEBUG_MAILBOX_STATE_MASK &&
	       MAILBOX_REQUEST == DEBUG_MAILBOX_STATE_REQUEST, "core/base/features.h");

SLUB_EXPORT struct debug_mailbox slub_debug_mailbox = {
	.magic = { 'S', 'L', 'U', 'B', 'M', 'B', 'O', 'X' },
	.version = DEBUG_MAILBOX_VERSION,
	.size = sizeof(struct debug_mailbox),
	.wake = (uintptr_t)slub_wake,
	.wake_end = (uintptr_t)slub_wake_end,
};
