/* SPDX-License-Identifier: MIT */
/*
 * The heap profile of a living process, on demand: it is asked by its mailbox to sample, and
 * later to write what it knows to a file in memory, which is opened as /proc/PID/fd/N.
 *
 * Where the process had a profile on already that stays as it is, and what is told is the
 * difference of two looks; otherwise sampling ends here, whatever happens in between.
 */
#include "mailbox.h"
#include "profile.h"
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

static void wait_for(double seconds)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct timespec left = { (time_t)seconds, (long)(fmod(seconds, 1) * 1e9) };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	while (!is_over && nanosleep(&left, &left) && errno == EINTR)
		;
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
	status = profile_read(profile, path);
	if (status)
		profile_free(profile);
	ask(mailbox, "close", &ignored);
	return status;
}

/* The profile is on; @was_on: it was so before. */
static int sample(struct mailbox *mailbox, struct profile *profile,
		  const struct profile_live *live, bool was_on)
{
	struct profile before = { .pid = 0 };
	int64_t ignored;
	int status = was_on ? look(mailbox, &before) : 0;

	if (status)
		return status;
	wait_for(live->seconds);
	/* What is known is watched being freed further on. */
	if (!was_on)
		status = ask(mailbox, "stop", &ignored);
	if (!status && live->leaks)
		wait_for(live->seconds);
	if (!status)
		status = look(mailbox, profile);
	if (!status)
		profile_subtract(profile, &before);
	profile_free(&before);
	return status;
}

int profile_of_process(struct profile *profile, const char *target,
		       const struct profile_live *live)
{
	struct mailbox mailbox = {
		.command = "profile", .pattern = "", .target = target,
		.seconds = live->timeout,
	};
	char text[64];
	int64_t was_on;
	int status;

	memset(profile, 0, sizeof(*profile));
	status = mailbox_open(&mailbox);
	if (status)
		return status;
	snprintf(text, sizeof(text), "start %.0f", live->bytes);
	status = ask(&mailbox, text, &was_on);
	if (!status)
		status = sample(&mailbox, profile, live, was_on);
	mailbox_close(&mailbox);
	return status;
}
