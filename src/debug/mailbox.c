/* SPDX-License-Identifier: MIT */
/* Where askers find the mailbox; slab/watch/debug_mailbox.c answers. */
#include "base/base.h"
#include "debug/mailbox.h"

SLUB_EXPORT struct debug_mailbox slub_debug_mailbox = {
	.magic = { 'S', 'L', 'U', 'B', 'M', 'B', 'O', 'X' },
	.version = DEBUG_MAILBOX_VERSION,
	.size = sizeof(struct debug_mailbox),
};
