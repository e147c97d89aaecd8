/* SPDX-License-Identifier: MIT */
/*
 * Asking: the protocol of features/debug/mailbox.h, from the asker's side.
 *
 * An asker is what it writes: a request under an id, and a beat.  Of another one it
 * knows no more, for that may be in another PID namespace, and have another /proc.
 */
#include "mailbox.h"
#include "mailbox_silence.h"
#include "progress.h"
#include "slub.h"
#include "wake.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* From the second on another asker has had the time to see what was written. */
#define PAUSE_NS_MIN 2000000l
#define PAUSE_NS_MAX 20000000l
/* Whose beat stands still for so long asks no more: some 50 of its pauses. */
#define BEAT_SECONDS 1.0
/* Where a wake was not enough the next comes soon; where there was none, in a while. */
#define WAKE_AGAIN 0.01
#define WAKE_LATER 0.5
/* One that ran may wait in a moment. */
#define WAKE_SOON 0.05

/* Ctrl-C: the request must not stay behind. */
static volatile sig_atomic_t interrupted;

struct wait {
	double until;
	long pause_ns;
};

/* What another asker was seen to do. */
struct other {
	uint64_t id;
	uint64_t beat;
	double since;		/* when the beat was seen to change */
};

/* How the request went on. */
struct idle {
	uint64_t done;
	double patience;	/* seconds */
	double wake_at;		/* unless it goes on before */
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
	int error;

	*box = (struct debug_mailbox){ .wake = 0 };
	error = error_of(pread(mailbox->memory, box, mailbox->box_bytes,
			       (off_t)mailbox->address), mailbox->box_bytes);

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

static int write_id(const struct mailbox *mailbox, uint64_t id)
{
	return box_write(mailbox, offsetof(struct debug_mailbox, request.id),
			 &id, sizeof(id));
}

static uint32_t state_of(const struct debug_mailbox *box)
{
	return box->state & MAILBOX_STATE;
}

static bool state_is_of(const struct debug_mailbox *box, uint64_t id)
{
	return (box->state & ~(uint32_t)MAILBOX_STATE) == MAILBOX_NUMBER(id);
}

/* ---- the protocol ---- */

static bool request_make(struct debug_request *request, uint32_t operation,
			 const struct mailbox *mailbox, const char *text)
{
	*request = (struct debug_request){
		.operation = operation,
		.flags = mailbox->blocked ? MAILBOX_BLOCKED_TOO : 0,
	};
	snprintf(request->text, sizeof(request->text), "%s", text);
	while (!MAILBOX_NUMBER(request->id)) {
		if (getrandom(&request->id, sizeof(request->id), 0) !=
		    sizeof(request->id))
			return false;
	}
	request->check = debug_request_check(request);
	return true;
}

/* Does nobody ask, or one that asks no more? */
static bool is_free(struct other *other, const struct debug_mailbox *box)
{
	double now = now_seconds();

	if (!box->request.id)
		return true;
	if (box->request.id != other->id || box->beat != other->beat)
		*other = (struct other){ box->request.id, box->beat, now };
	return state_of(box) != MAILBOX_TAKEN &&
	       now - other->since >= BEAT_SECONDS;
}

/* The mailbox has this request's id. */
static int keep_asking(const struct mailbox *mailbox,
		       const struct debug_mailbox *box)
{
	uint64_t beat = box->beat + 1;
	uint32_t state = MAILBOX_NUMBER(box->request.id) | MAILBOX_REQUEST;

	/* Before it is posted, or forgotten by a child that was just forked. */
	if (state_of(box) == MAILBOX_IDLE) {
		int error = write_state(mailbox, state);

		if (error)
			return error;
	} else if (state_of(box) == MAILBOX_REQUEST && box->state != state) {
		/* Left behind; the process that takes it finds that it is none. */
		return write_state(mailbox, MAILBOX_IDLE);
	}
	return box_write(mailbox, offsetof(struct debug_mailbox, beat), &beat,
			 sizeof(beat));
}

static int step(struct mailbox *mailbox, struct wait *wait, struct other *other,
		const struct debug_request *request, struct debug_mailbox *box)
{
	int error = box_read(mailbox, box);

	if (error || box->answered == request->id)
		return error;
	if (box->request.id == request->id)
		return keep_asking(mailbox, box);
	if (!is_free(other, box))
		return 0;
	wait->pause_ns = PAUSE_NS_MIN;
	return box_write(mailbox, offsetof(struct debug_mailbox, request),
			 request, sizeof(*request));
}

/*
 * Afterwards no piece of the request is begun any more (MAILBOX-3); one that a thread
 * is at ends soon, and may be the last one.
 */
static int withdraw(const struct mailbox *mailbox, uint64_t id,
		    struct debug_mailbox *box)
{
	struct timespec pause = { 0, PAUSE_NS_MAX };
	int error = box_read(mailbox, box);

	if (!error && box->request.id == id)
		error = write_id(mailbox, 0);
	if (!error)
		error = box_read(mailbox, box);
	if (!error && state_is_of(box, id) && state_of(box) == MAILBOX_TAKEN) {
		nanosleep(&pause, NULL);
		error = box_read(mailbox, box);
	}
	if (!error && state_is_of(box, id) && state_of(box) == MAILBOX_REQUEST)
		error = write_state(mailbox, MAILBOX_IDLE);
	return error;
}

/* Is the process at this request, but nobody there comes by? */
static bool is_idle(struct idle *idle, const struct debug_request *request,
		    const struct debug_mailbox *box)
{
	bool is_own = box->request.id == request->id && state_is_of(box, request->id) &&
		      state_of(box) == MAILBOX_REQUEST;
	uint64_t done = box->begun == request->id ? box->done : 0;

	if (done != idle->done) {
		idle->done = done;
		idle->wake_at = now_seconds() + idle->patience;
	}
	return is_own && now_seconds() >= idle->wake_at;
}

/* Of what a wake has done, is_idle() shall not think that the process did. */
static int wake_once(struct mailbox *mailbox, struct idle *idle,
		     const struct debug_request *request, struct debug_mailbox *box)
{
	const struct woken *woken = &mailbox->woken;
	uint32_t nr = woken->nr;
	int error;

	wake(mailbox, box);
	error = box_read(mailbox, box);
	idle->done = box->begun == request->id ? box->done : 0;
	idle->wake_at = now_seconds() + (woken->nr > nr ? WAKE_AGAIN :
					 woken->ran ? WAKE_SOON : WAKE_LATER);
	return error;
}

/* How far it is, for a terminal. */
static void tell(const struct mailbox *mailbox, const struct debug_request *request,
		 const struct debug_mailbox *box)
{
	if (box->begun == request->id && box->total)
		progress(mailbox->source.label, box->done, box->total);
	else
		progress_begin(mailbox->source.label);
}

static int ask(struct mailbox *mailbox, struct wait *wait,
	       const struct debug_request *request, int64_t *result)
{
	struct silence silence;
	struct debug_mailbox box = { .wake = 0 };
	struct other other = { 0 };
	double patience = mailbox->wake_seconds ? mailbox->wake_seconds : MAILBOX_WAKE_SECONDS;
	struct idle idle = { 0, patience, now_seconds() + patience };
	uint64_t refused = 0;
	int error;

	silence_begin(&silence, mailbox);
	error = box_read(mailbox, &box);
	if (!error)
		refused = box.nr_refused;
	do {
		if (!error)
			error = step(mailbox, wait, &other, request, &box);
		tell(mailbox, request, &box);
		if (!error && !mailbox->no_wake && box.answered != request->id &&
		    is_idle(&idle, request, &box))
			error = wake_once(mailbox, &idle, request, &box);
	} while (!error && box.answered != request->id && wait_on(wait));
	progress_end();
	if (!error)
		error = withdraw(mailbox, request->id, &box);
	if (error)
		return complain_error(mailbox, error);
	if (box.answered != request->id)
		return interrupted ? STATUS_FAILED :
		       complain_silence(mailbox, &silence, request, &box,
					box.nr_refused != refused);
	/* What is read first need not have been written first. */
	if (!box_read(mailbox, &box) && box.answered == request->id)
		*result = box.result;
	if (*result == -EINVAL && mailbox->may_be_unknown)
		return 0;
	return *result < 0 ? complain_result(mailbox, *result) : 0;
}

int mailbox_ask(struct mailbox *mailbox, uint32_t operation, const char *text,
		int64_t *result)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct wait wait = {
		now_seconds() + mailbox->seconds, PAUSE_NS_MIN
	};
	struct debug_request request;
	int status;

	if (strlen(text) > DEBUG_MAILBOX_TEXT_MAX) {
		complain("%s: '%.40s...' is too long; %d letters at most",
			 mailbox->command, text, DEBUG_MAILBOX_TEXT_MAX);
		return STATUS_USAGE;
	}
	if (!request_make(&request, operation, mailbox, text)) {
		complain("%s: no random number: %s", mailbox->command,
			 strerror(errno));
		return STATUS_FAILED;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	status = ask(mailbox, &wait, &request, result);
	/* One line says why it was not done. */
	if (status)
		mailbox->woken.nr = 0;
	return interrupted ? 128 + interrupted : status;
}
