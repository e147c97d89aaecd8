/* SPDX-License-Identifier: MIT */
/*
 * A line on the terminal while something takes more than a second.
 *
 * What is told is shown at once, and a timer shows it where nothing is told for a while, as in a
 * library that reads debugging information.  It begins with the first word of something, and ends
 * with it; a sleep that it cuts short has to be one of several.
 */
#include "progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A line is shown anew so often. */
#define SHOW_SECONDS 0.2

static const char *volatile what_now;
static volatile uint64_t done_now, all_now;
static volatile double began, shown;
static bool is_timed;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned int percent(uint64_t done, uint64_t all)
{
	if (done >= all)
		return 100;
	/* Rounded, as far as there is room for that. */
	return all > UINT64_MAX / 256 ? (unsigned int)(done / (all / 100)) :
					(unsigned int)((done * 200 + all) / (2 * all));
}

/* Also by the timer: one write, and no stream. */
static void show(void)
{
	double now = seconds();
	char line[128];
	int length;

	if (now - began < 1 || now - shown < SHOW_SECONDS)
		return;
	shown = now;
	if (all_now)
		length = snprintf(line, sizeof(line), "\rslub: %.80s: %3u %%", what_now,
				  percent(done_now, all_now));
	else
		length = snprintf(line, sizeof(line), "\rslub: %.80s: %u s", what_now,
				  (unsigned int)(now - began));
	(void)!write(STDERR_FILENO, line, (size_t)length);
}

static void on_timer(int number)
{
	int saved = errno;

	(void)number;
	if (what_now)
		show();
	errno = saved;
}

static void set_timer(bool is_on)
{
	static const struct sigaction action = { .sa_handler = on_timer, .sa_flags = SA_RESTART };
	long us = (long)(SHOW_SECONDS * 1e6);
	struct itimerval time = { { 0, is_on ? us : 0 }, { is_on, 0 } };

	if (is_on)
		sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &time, NULL);
	is_timed = is_on;
}

static void tell(const char *what, uint64_t done, uint64_t all)
{
	/* Not into what `slub top` keeps for the time after its screen. */
	if (!isatty(STDERR_FILENO))
		return;
	done_now = done;
	all_now = all;
	what_now = what;
	if (!began) {
		began = seconds();
		set_timer(true);
	}
	show();
}

void progress(const char *what, uint64_t done, uint64_t all)
{
	if (all)
		tell(what, done, all);
}

void progress_begin(const char *what)
{
	tell(what, 0, 0);
}

void progress_end(void)
{
	if (is_timed)
		set_timer(false);
	what_now = NULL;
	if (shown > 0)
		(void)!write(STDERR_FILENO, "\r\033[K", 4);
	began = 0;
	shown = 0;
}
