/* SPDX-License-Identifier: MIT */
/*
 * Preloaded by tests/disturbed.sh: a signal each MICROSECONDS, which interrupts a thread of
 * the process and, with MOVES, takes it to another CPU that it may run on.  A thread that is
 * pinned stays where it is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NUMBER (SIGRTMAX - 3)

static int next_cpu(const cpu_set_t *allowed)
{
	int here = sched_getcpu();

	for (int i = 1; here >= 0 && i < CPU_SETSIZE; i++) {
		if (CPU_ISSET((here + i) % CPU_SETSIZE, allowed))
			return (here + i) % CPU_SETSIZE;
	}
	return here;
}

static void move(void)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2)
		return;
	CPU_ZERO(&one);
	CPU_SET(next_cpu(&allowed), &one);
	sched_setaffinity(0, sizeof(one), &one);
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

static void disturb(int number)
{
	int kept = errno;

	(void)number;
	if (MOVES)
		move();
	errno = kept;
}

__attribute__((__constructor__))
static void begin(void)
{
	struct sigaction action = { .sa_handler = disturb, .sa_flags = SA_RESTART | SA_ONSTACK };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = NUMBER };
	struct timespec pause = { .tv_sec = MICROSECONDS / 1000000,
				  .tv_nsec = MICROSECONDS % 1000000 * 1000 };
	struct itimerspec times = { pause, pause };
	timer_t timer;

	if (sigaction(NUMBER, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &times, NULL)) {
		perror("disturb");
		exit(127);
	}
}
