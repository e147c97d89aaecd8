/* SPDX-License-Identifier: MIT */
/* What to say of a process that was asked, and did not do it. */
#include "mailbox_silence.h"
#include "input.h"
#include "slub.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The state's letter, and the CPU time of all threads; '?': it cannot be read. */
static char state_read(const struct mailbox *mailbox, uint64_t *ticks)
{
	uint64_t user = 0, system = 0;
	char text[1024], state = '?';
	const char *behind_name;
	size_t length;
	FILE *file;

	*ticks = 0;
	snprintf(text, sizeof(text), "/proc/%d/stat",
		 (int)mailbox->source.process.pid);
	file = input_kernel(text);
	if (!file)
		return state;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	behind_name = strrchr(text, ')');
	if (!behind_name ||
	    sscanf(behind_name, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%" SCNu64 " %" SCNu64, &state, &user, &system) != 3)
		return '?';
	*ticks = user + system;
	return state;
}

void silence_begin(struct silence *silence, const struct mailbox *mailbox)
{
	state_read(mailbox, &silence->ticks);
}

int complain_error(const struct mailbox *mailbox, int error)
{
	const char *command = mailbox->command;
	const char *label = mailbox->source.label;

	switch (-error) {
	case ESRCH:
		complain("%s: %s has ended; whether it did that before is not "
			 "known", command, label);
		return STATUS_NO_TARGET;
	case EPERM:
	case EACCES:
		complain("%s: no permission to write to %s", command, label);
		return STATUS_NO_PERMISSION;
	}
	complain("%s: cannot write to %s: %s", command, label,
		 strerror(-error));
	return STATUS_FAILED;
}

/* The process says both, and may say anything. */
static int percent_done(const struct debug_mailbox *box)
{
	return box->done < box->total ?
	       (int)(100.0 * (double)box->done / (double)box->total) : 100;
}

/* What would have done, from the start of the process. */
static const char *instead(uint32_t operation)
{
	switch (operation) {
	case MAILBOX_DEBUG:
		return "SLUB_DEBUG at its start watches from then on; ";
	case MAILBOX_GUARD:
		return "SLUB_GUARD at its start guards from then on; ";
	}
	return "";
}

static const char *why_silent(char state, bool waited, bool refused)
{
	if (state == 'T' || state == 't')
		return "it is stopped, and goes on with SIGCONT or its debugger; ";
	if (refused)
		return "it allocates where it may be in a signal handler, or "
		       "blocks signals that it handles; --blocked asks there "
		       "too; ";
	if (waited)
		return "it waits, and does not allocate; ";
	return "it runs, and its lists serve all that it allocates; ";
}

int complain_silence(const struct mailbox *mailbox,
		     const struct silence *silence,
		     const struct debug_request *request,
		     const struct debug_mailbox *box, bool refused)
{
	const char *label = mailbox->source.label;
	uint64_t ticks;
	char state;

	if (box->begun == request->id && box->total) {
		complain("%s: %s did %d %% of it in %g s, and keeps that; the "
			 "rest is not done%s%s; --timeout waits longer",
			 mailbox->command, label,
			 percent_done(box), mailbox->seconds,
			 *mailbox->woken.why_not ? "; it was not woken: " : "",
			 mailbox->woken.why_not);
		return STATUS_FAILED;
	}
	if (box->request.id && box->request.id != request->id) {
		complain("%s: %s has not answered another command in %g s; try "
			 "again", mailbox->command, label, mailbox->seconds);
		return STATUS_FAILED;
	}
	state = state_read(mailbox, &ticks);
	complain("%s: %s has not answered in %g s: %s%s%s%s%s--timeout waits longer",
		 mailbox->command, label, mailbox->seconds,
		 why_silent(state, ticks == silence->ticks, refused),
		 *mailbox->woken.why_not ? "it was not woken: " : "",
		 mailbox->woken.why_not, *mailbox->woken.why_not ? "; " : "",
		 refused ? "" : instead(request->operation));
	return STATUS_FAILED;
}

int complain_result(const struct mailbox *mailbox, int64_t result)
{
	int error = result > -4096 ? (int)-result : EPROTO;

	complain("%s: %s could not do it: %s%s", mailbox->command,
		 mailbox->source.label, strerror(error),
		 error == EBUSY ? "; try again" :
		 error == EINVAL && (!strcmp(mailbox->command, "set") ||
				    !strcmp(mailbox->command, "shrink") ||
				    !strcmp(mailbox->command, "profile")) ?
		 "; its libslub is older than this command" :
		 error == E2BIG ? "; objects as large as these, with room for "
				  "what these letters need" : "");
	return STATUS_FAILED;
}
