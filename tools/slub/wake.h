/* SPDX-License-Identifier: MIT */
/*
 * Wakes a process that does not come by its mailbox: one of its threads, which waits in a system
 * call, answers, and waits again.
 */
#ifndef SLUB_TOOL_WAKE_H
#define SLUB_TOOL_WAKE_H

#include "mailbox.h"

/* Asks once.  What came of it is added to @mailbox->woken. */
void wake(struct mailbox *mailbox, const struct debug_mailbox *box);

/* wake_told.c: the line that says what was done, on stderr; nothing if nothing was. */
void wake_tell(const struct mailbox *mailbox);
/* The same, a member of an object. */
void wake_json(const struct mailbox *mailbox, struct json *json);

#endif
