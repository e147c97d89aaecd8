/* SPDX-License-Identifier: MIT */
/* What to say of a process that was asked, and did not do it. */
#ifndef SLUB_TOOL_MAILBOX_SILENCE_H
#define SLUB_TOOL_MAILBOX_SILENCE_H

#include "mailbox.h"

/* How a process stood when it was asked. */
struct silence {
	uint64_t ticks;			/* of CPU time that it had used */
};

void silence_begin(struct silence *silence, const struct mailbox *mailbox);

/* Each prints a message and returns an exit status. */
int complain_error(const struct mailbox *mailbox, int error);
/* No answer: @box is how the mailbox stood at the end. */
int complain_silence(const struct mailbox *mailbox,
		     const struct silence *silence,
		     const struct debug_request *request,
		     const struct debug_mailbox *box, bool refused);
/* What the library says why not. */
int complain_result(const struct mailbox *mailbox, int64_t result);

#endif
