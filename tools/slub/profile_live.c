/* SPDX-License-Identifier: MIT */
/*
 * The heap profile of a living process, on demand: it is asked by its mailbox to sample, and
 * later to write what it knows to a file in memory, which is opened as /proc/PID/fd/N.
 *
 * Where the process had a profile on already that stays as it is, and what is told is the
 * difference of two looks; otherwise sampling ends here, whatever happens in between.
 *
 * While it samples it leaves trails, which are taken and unwound here (profile_trail.h).
 */
#include "mailbox.h"
#include "profile.h"
#include "profile_trail.h"
#include "progress.h"
#include "slub.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* Ctrl-C: the time is over, and what there is is told. */
static volatile sig_atomic_t is_over;

static void on_signal(int number)
{
	(void)number;
	is_over = 1;
}

/* The ring of trails is full after 256 samples. */
#define POLL_SECONDS 0.002

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* So often the line about it is written anew. */
#define SHOW_SECONDS 0.2

/* @what: it does meanwhile, for a terminal. */
static void wait_for(const char *what, double all, struct trail_book *book)
{
	struct sigaction action = { .sa_handler = on_signal };
	double end = now_seconds() + all, seconds;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	while (!is_over && !(book && trail_book_is_over(book)) &&
	       (seconds = end - now_seconds()) > 0) {
		struct timespec pause;

		progress(what, (uint64_t)((all - seconds) * 1000), (uint64_t)(all * 1000));
		if (book && trail_book_work(book))
			continue;
		seconds = fmin(seconds, book ? POLL_SECONDS : SHOW_SECONDS);
		pause = (struct timespec){ (time_t)seconds, (long)(fmod(seconds, 1) * 1e9) };
		nanosleep(&pause, NULL);
	}
	progress_end();
}

static int ask(struct mailbox *mailbox, const char *text, int64_t *result)
{
	return mailbox_ask(mailbox, MAILBOX_PROFILE, text, result);
}

/* What the process knows now. */
static int look(struct mailbox *mailbox, struct profile *profile)
{
	char path[64];
	int64_t fd, ignored;
	int status = ask(mailbox, "write", &fd);

	if (status)
		return status;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)mailbox->source.process.pid,
		 (int)fd);
	/* The number is an answer, behind which anything may be. */
	status = profile_read(profile, path, INPUT_FILE, mailbox->seconds);
	if (status)
		profile_free(profile);
	ask(mailbox, "close", &ignored);
	return status;
}

/* The profile is on; @was_on: it was so before. */
static int sample(struct mailbox *mailbox, struct profile *profile,
		  const struct profile_live *live, bool was_on, struct trail_book *book)
{
	struct profile before = { .pid = 0 };
	int64_t ignored;
	int status = was_on ? look(mailbox, &before) : 0;

	if (status)
		return status;
	wait_for("sampling", live->seconds, book);
	/* What is known is watched being freed further on. */
	if (!was_on)
		status = ask(mailbox, "stop", &ignored);
	if (book)
		trail_book_finish(book, false);
	if (!status && live->leaks)
		wait_for("watching what is freed", live->seconds, was_on ? book : NULL);
	if (!status)
		status = look(mailbox, profile);
	if (!status)
		profile_subtract(profile, &before);
	if (!status && book) {
		trail_book_finish(book, true);
		trail_book_join(book, profile, before.last_trail);
	}
	profile_free(&before);
	return status;
}

static int start(struct mailbox *mailbox, struct profile *profile,
		 const struct profile_live *live, struct trail_book *book)
{
	char text[64];
	int64_t was_on;
	int status;

	snprintf(text, sizeof(text), "start %.0f", live->bytes);
	status = ask(mailbox, text, &was_on);
	return status ? status : sample(mailbox, profile, live, was_on, book);
}

/* With trails; where there are none the profile is as the process walks its stacks. */
static int start_unwound(struct mailbox *mailbox, struct profile *profile,
			 const struct profile_live *live)
{
	struct trail_book *book;
	int64_t ring = 0, ignored;
	int status;

	mailbox->may_be_unknown = true;
	status = ask(mailbox, "trails", &ring);
	mailbox->may_be_unknown = false;
	if (status)
		return status;
	if (ring < 0)
		return start(mailbox, profile, live, NULL);
	book = trail_book_open(&mailbox->source.process, mailbox->memory, (uint64_t)ring);
	status = start(mailbox, profile, live, book);
	if (book)
		trail_book_close(book);
	/* One that has ended has no ring. */
	if (status != STATUS_NO_TARGET)
		ask(mailbox, "trails off", &ignored);
	return status;
}

int profile_of_process(struct profile *profile, const char *target,
		       const struct profile_live *live)
{
	struct mailbox mailbox = {
		.command = "profile", .pattern = "", .target = target,
		.seconds = live->timeout, .no_wake = live->no_wake,
	};
	int status;

	memset(profile, 0, sizeof(*profile));
	status = mailbox_open(&mailbox);
	if (status)
		return status;
	status = SLUB_TOOL_LIBDW && !live->frame_pointers ?
		 start_unwound(&mailbox, profile, live) :
		 start(&mailbox, profile, live, NULL);
	mailbox_close(&mailbox);
	return status;
}
