/* SPDX-License-Identifier: MIT */
/*
 * Asking: the protocol of debug/mailbox.h, from the asker's side.
 *
 * Askers keep out of each other's way by a lock on the process's /proc file, so
 * what is found in a mailbox is of an asker that died, or of one that sees
 * another /proc; the latter is waited for.
 */
#include "mailbox.h"
#include "slub.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS_MIN 500000l
#define PAUSE_NS_MAX 20000000l

/* Ctrl-C: the request must not stay behind. */
static volatile sig_atomic_t interrupted;

struct wait {
	double until;
	long pause_ns;
};

static void on_signal(int number)
{
	interrupted = number;
}

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* False: the time is over, or somebody wants this command to end. */
static bool wait_on(struct wait *wait)
{
	struct timespec pause = { 0, wait->pause_ns };

	if (interrupted || now_seconds() >= wait->until)
		return false;
	nanosleep(&pause, NULL);
	if (wait->pause_ns < PAUSE_NS_MAX)
		wait->pause_ns *= 2;
	return true;
}

/* ---- the process's memory ---- */

/*
 * By the descriptor alone: reads and writes of 0 bytes are those of a process that has
 * ended, or that runs another program now.
 */
static int error_of(ssize_t done, size_t bytes)
{
	if (done < 0)
		return errno == EIO ? -ESRCH : -errno;
	return (size_t)done == bytes ? 0 : -ESRCH;
}

static int box_read(const struct mailbox *mailbox, struct debug_mailbox *box)
{
	int error = error_of(pread(mailbox->memory, box, sizeof(*box),
				   (off_t)mailbox->address), sizeof(*box));

	if (!error && memcmp(box->magic, DEBUG_MAILBOX_MAGIC,
			     sizeof(box->magic)))
		error = -ESRCH;
	return error;
}

static int box_write(const struct mailbox *mailbox, size_t offset,
		     const void *from, size_t bytes)
{
	return error_of(pwrite(mailbox->memory, from, bytes,
			       (off_t)(mailbox->address + offset)), bytes);
}

static int write_state(const struct mailbox *mailbox, uint32_t state)
{
	return box_write(mailbox, offsetof(struct debug_mailbox, state), &state,
			 sizeof(state));
}

static uint32_t state_of(const struct debug_mailbox *box)
{
	return box->state & MAILBOX_STATE;
}

/* ---- messages ---- */

static int complain_error(const struct mailbox *mailbox, int error)
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

static int complain_silence(const struct mailbox *mailbox, bool is_taken)
{
	if (interrupted)
		;
	else if (is_taken)
		complain("%s: %s is not done after %g s, and goes on with it; "
			 "--timeout waits longer", mailbox->command,
			 mailbox->source.label, mailbox->seconds);
	else
		complain("%s: %s has not answered in %g s: one that is stopped, "
			 "does not allocate, or only what its lists have, does "
			 "not answer; --timeout waits longer",
			 mailbox->command, mailbox->source.label,
			 mailbox->seconds);
	return STATUS_FAILED;
}

static int complain_busy(const struct mailbox *mailbox)
{
	if (!interrupted)
		complain("%s: %s has not answered another asker in %g s; try "
			 "again", mailbox->command, mailbox->source.label,
			 mailbox->seconds);
	return STATUS_FAILED;
}

/* What the library says why not. */
static int complain_result(const struct mailbox *mailbox, int64_t result)
{
	int error = result > -4096 ? (int)-result : EPROTO;

	complain("%s: %s could not do it: %s%s", mailbox->command,
		 mailbox->source.label, strerror(error),
		 error == EBUSY ? "; try again" :
		 error == E2BIG ? "; objects as large as these, with room for "
				  "what these letters need" : "");
	return STATUS_FAILED;
}

/* ---- the protocol ---- */

static bool asker_is_gone(const struct debug_mailbox *box)
{
	pid_t pid = (pid_t)(box->id >> 32);

	return pid <= 0 || pid == getpid() ||
	       (kill(pid, 0) && errno == ESRCH);
}

/* Waits until nobody else asks; what a dead asker left is taken away. */
static int wait_for_idle(struct mailbox *mailbox, struct wait *wait)
{
	struct debug_mailbox box;
	int error;

	while (flock(mailbox->memory, LOCK_EX | LOCK_NB)) {
		if (!wait_on(wait))
			return complain_busy(mailbox);
	}
	for (;;) {
		error = box_read(mailbox, &box);
		if (error)
			return complain_error(mailbox, error);
		if (state_of(&box) == MAILBOX_IDLE)
			return 0;
		if (state_of(&box) != MAILBOX_TAKEN && asker_is_gone(&box)) {
			error = write_state(mailbox, MAILBOX_IDLE);
			if (error)
				return complain_error(mailbox, error);
		}
		if (!wait_on(wait))
			return complain_busy(mailbox);
	}
}

static int post(struct mailbox *mailbox, struct debug_mailbox *box,
		uint32_t operation, const char *text)
{
	size_t from = offsetof(struct debug_mailbox, operation);
	size_t end = offsetof(struct debug_mailbox, withdrawn);
	uint64_t id;
	int error;

	*box = (struct debug_mailbox){ .operation = operation };
	/* The time in us as its number; 0 would be none. */
	id = (uint64_t)getpid() << 32 |
	     (uint32_t)(uint64_t)(now_seconds() * 1e6) | 1;
	box->id = id;
	snprintf(box->text, sizeof(box->text), "%s", text);
	error = box_write(mailbox, from, (char *)box + from, end - from);
	if (!error)
		error = box_read(mailbox, box);
	if (!error && (box->id != id || state_of(box) != MAILBOX_IDLE))
		return complain_busy(mailbox);
	if (!error)
		error = write_state(mailbox, MAILBOX_NUMBER(id) |
					     MAILBOX_REQUEST);
	return error ? complain_error(mailbox, error) : 0;
}

/*
 * Afterwards the state is REQUEST or IDLE if the request was withdrawn and will
 * not be done; TAKEN or DONE if it was too late for that.
 */
static int withdraw(struct mailbox *mailbox, struct debug_mailbox *box,
		    uint64_t id)
{
	uint32_t number = MAILBOX_NUMBER(id);
	struct timespec pause = { 0, PAUSE_NS_MAX };
	int error = box_write(mailbox, offsetof(struct debug_mailbox,
						withdrawn), &number,
			      sizeof(number));

	if (!error)
		error = box_read(mailbox, box);
	if (!error && box->id == id && state_of(box) == MAILBOX_REQUEST)
		return write_state(mailbox, MAILBOX_IDLE);
	/* Who has just taken it may find it withdrawn, or be done at once. */
	nanosleep(&pause, NULL);
	return error ? error : box_read(mailbox, box);
}

static int await(struct mailbox *mailbox, struct wait *wait, uint64_t id,
		 int64_t *result)
{
	struct debug_mailbox box;
	int error;

	do {
		error = box_read(mailbox, &box);
		/* It was forked a moment ago, and forgot what its parent had. */
		if (!error && box.id == id && state_of(&box) == MAILBOX_IDLE)
			error = write_state(mailbox, MAILBOX_NUMBER(id) |
						     MAILBOX_REQUEST);
	} while (!error && box.id == id && state_of(&box) != MAILBOX_DONE &&
		 wait_on(wait));
	if (!error && box.id == id && state_of(&box) != MAILBOX_DONE)
		error = withdraw(mailbox, &box, id);
	if (error)
		return complain_error(mailbox, error);
	if (box.id != id)
		return complain_busy(mailbox);
	if (state_of(&box) != MAILBOX_DONE)
		return complain_silence(mailbox,
					state_of(&box) == MAILBOX_TAKEN);
	*result = box.result;
	/* It may have ended since; its answer counts. */
	write_state(mailbox, MAILBOX_IDLE);
	return *result < 0 ? complain_result(mailbox, *result) : 0;
}

int mailbox_ask(struct mailbox *mailbox, uint32_t operation, const char *text,
		int64_t *result)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct wait wait = {
		now_seconds() + mailbox->seconds, PAUSE_NS_MIN
	};
	struct debug_mailbox box;
	int status;

	if (strlen(text) > DEBUG_MAILBOX_TEXT_MAX) {
		complain("%s: '%.40s...' is too long; %d letters at most",
			 mailbox->command, text, DEBUG_MAILBOX_TEXT_MAX);
		return STATUS_USAGE;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	status = wait_for_idle(mailbox, &wait);
	if (!status)
		status = post(mailbox, &box, operation, text);
	if (!status)
		status = await(mailbox, &wait, box.id, result);
	flock(mailbox->memory, LOCK_UN);
	return interrupted ? 128 + interrupted : status;
}
