/* SPDX-License-Identifier: MIT */
/* progress.c by a clock of this test: what is shown on a terminal, when, and how it goes. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "in_use.h"
#include "progress.h"
#include "said.h"

static double now;
static bool is_terminal;
static struct said said;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	EXPECT(clock, CLOCK_MONOTONIC);
	time->tv_sec = (time_t)now;
	time->tv_nsec = (long)((now - (double)time->tv_sec) * 1e9);
	return 0;
}

int isatty(int fd)
{
	EXPECT(fd, STDERR_FILENO);
	return is_terminal;
}

/* What it says at this time, in seconds. */
static const char *at(double seconds, uint64_t done, uint64_t all)
{
	now = seconds;
	said_begin(&said, 2);
	progress("work", done, all);
	said_end(&said);
	return said.text;
}

static const char *at_the_end(void)
{
	said_begin(&said, 2);
	progress_end();
	said_end(&said);
	return said.text;
}

static void test_all(void)
{
	is_terminal = true;
	for (int round = 0; round < 2; round++) {
		EXPECT_TEXT(at(100.25, 0, 8), "");
		EXPECT_TEXT(at(101, 1, 8), "");
		EXPECT_TEXT(at(101.25, 1, 8), "\rslub: work:  13 %");
		EXPECT_TEXT(at(101.375, 2, 8), "");
		EXPECT_TEXT(at(101.5, 3, 8), "\rslub: work:  38 %");
		EXPECT_TEXT(at(101.625, 3, 8), "");
		EXPECT_TEXT(at(101.75, 8, 8), "\rslub: work: 100 %");
		EXPECT_TEXT(at(102, 8, 0), "");
		EXPECT_TEXT(at(102, 0, 1), "\rslub: work:   0 %");
		EXPECT_TEXT(at(102.25, 9, 1), "\rslub: work: 100 %");
		EXPECT_TEXT(at(102.5, 1ull << 62, 1ull << 63), "\rslub: work:  50 %");
		EXPECT_TEXT(at_the_end(), "\r\033[K");
		EXPECT_TEXT(at_the_end(), "");
	}
	/* What took less than a second leaves nothing to wipe away. */
	EXPECT_TEXT(at(200, 1, 2), "");
	EXPECT_TEXT(at(200.875, 1, 2), "");
	EXPECT_TEXT(at_the_end(), "");
	is_terminal = false;
	EXPECT_TEXT(at(300, 1, 2), "");
	EXPECT_TEXT(at(302, 1, 2), "");
	EXPECT_TEXT(at_the_end(), "");
}

/* Nothing is told any more, and the timer goes on. */
static void test_timer(void)
{
	struct itimerval left;

	is_terminal = true;
	now = 400;
	progress_begin("work");
	getitimer(ITIMER_REAL, &left);
	EXPECT(left.it_value.tv_sec + left.it_value.tv_usec > 0, true);
	now = 403.5;
	said_begin(&said, 2);
	raise(SIGALRM);
	now = 403.75;
	raise(SIGALRM);
	said_end(&said);
	EXPECT_TEXT(said.text, "\rslub: work: 3 s\rslub: work: 3 s");
	EXPECT_TEXT(at_the_end(), "\r\033[K");
	getitimer(ITIMER_REAL, &left);
	EXPECT(left.it_value.tv_sec + left.it_value.tv_usec, 0);
	/* One that was on its way. */
	said_begin(&said, 2);
	raise(SIGALRM);
	said_end(&said);
	EXPECT_TEXT(said.text, "");
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	do_twice(test_timer);
	return failures != 0;
}
