/* SPDX-License-Identifier: MIT */
/*
 * An asker alone with a mailbox, in which the process and other askers do what is told, whenever
 * this one sleeps.  The clock is the test's.
 */
#ifndef TOOL_ASKS_H
#define TOOL_ASKS_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "in_use.h"
#include "input.h"
#include "mailbox.h"
#include "mailbox_silence.h"
#include "said.h"
#include "slub.h"

#define ADDRESS 0x123450
#define MEMORY	9999
#define OWN	0x700000005u	/* what is drawn for an id */
#define NUMBER	(5u << 2)
#define OTHER	0x800000006u
#define NR_MAX	1000

static struct debug_mailbox box;
static struct mailbox mailbox;
static void (*behind_wake)(struct mailbox *asked);	/* what a wake does */
static int nr_wakes;
static double wakes[8];				/* when they were */
static struct said said;
static double now;
static long pauses[NR_MAX];
static int nr_pauses;
static void (*behind_pause)(int nr);	/* what the others do; @nr: from 1 on */
static int read_error, write_error, nr_until_error;	/* calls that pass before */
static size_t nr_read;			/* bytes of a read that comes short */
static uint64_t draws[4];
static int nr_draws, draw_error;
static bool is_told;			/* on a terminal, what it waits for */
static const char *stat_text;
static void (*handlers[32])(int);

/* ---- the system ---- */

static bool fails(int error)
{
	if (!error || nr_until_error-- > 0)
		return false;
	errno = error;
	return true;
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
	if (fd != MEMORY)		/* said.h */
		return lseek(fd, at, SEEK_SET) < 0 ? -1 : read(fd, to, bytes);
	EXPECT(at, ADDRESS);
	EXPECT(bytes, sizeof(box));
	if (fails(read_error))
		return -1;
	memcpy(to, &box, nr_read);
	return (ssize_t)nr_read;
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	EXPECT(fd, MEMORY);
	EXPECT(at >= ADDRESS && (size_t)at + bytes <= ADDRESS + sizeof(box), true);
	if (fails(write_error))
		return -1;
	memcpy((char *)&box + (at - ADDRESS), from, bytes);
	return (ssize_t)bytes;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	EXPECT(clock, CLOCK_MONOTONIC);
	time->tv_sec = (time_t)now;
	time->tv_nsec = (long)((now - (double)time->tv_sec) * 1e9);
	return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	EXPECT(time->tv_sec, 0);
	EXPECT(left == NULL, true);
	now += (double)time->tv_nsec / 1e9;
	pauses[nr_pauses++ % NR_MAX] = time->tv_nsec / 1000000;
	if (behind_pause)
		behind_pause(nr_pauses);
	return 0;
}

ssize_t getrandom(void *to, size_t bytes, unsigned int flags)
{
	EXPECT(bytes, 8);
	EXPECT(flags, 0);
	errno = draw_error;
	memcpy(to, &draws[nr_draws++ % 4], 8);
	return draw_error ? -1 : 8;
}

void progress(const char *what, uint64_t done, uint64_t all)
{
	EXPECT_TEXT(what, mailbox.source.label);
	EXPECT(done, box.done);
	EXPECT(all, box.total);
	is_told = true;
}

void progress_begin(const char *what)
{
	EXPECT_TEXT(what, mailbox.source.label);
	is_told = true;
}

void progress_end(void)
{
	is_told = false;
}

void wake(struct mailbox *asked, const struct debug_mailbox *seen)
{
	EXPECT(seen->wake, box.wake);
	EXPECT(box.state, NUMBER | MAILBOX_REQUEST);
	wakes[nr_wakes++ % 8] = now;
	if (behind_wake)
		behind_wake(asked);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	EXPECT(old == NULL, true);
	handlers[number] = action->sa_handler;
	return 0;
}

FILE *input_kernel(const char *path)
{
	EXPECT_TEXT(path, "/proc/77/stat");
	return stat_text ? fmemopen((char *)stat_text, strlen(stat_text), "r") : NULL;
}

/* ---- the tests ---- */

#define STAT(state, user, system) \
	"77 (a) b) R) " state " 1 2 3 4 5 6 7 8 9 10 " user " " system " 16 17\n"

static void begin(void)
{
	memset(&box, 0, sizeof(box));
	memcpy(box.magic, DEBUG_MAILBOX_MAGIC, sizeof(box.magic));
	mailbox = (struct mailbox){
		.command = "shrink", .target = "77", .seconds = 5, .address = ADDRESS,
		.memory = MEMORY, .box_bytes = sizeof(box), .no_wake = true,
		.source = { .process = { .pid = 77 } },
	};
	snprintf(mailbox.source.label, sizeof(mailbox.source.label), "process 77");
	now = 1000;
	nr_pauses = nr_draws = draw_error = 0;
	read_error = write_error = nr_until_error = 0;
	nr_read = sizeof(box);
	behind_pause = NULL;
	behind_wake = NULL;
	nr_wakes = 0;
	for (int i = 0; i < 4; i++)
		draws[i] = OWN;
	stat_text = STAT("S", "10", "20");
	memset(handlers, 0, sizeof(handlers));
}

static int ask_for(uint32_t operation, const char *text, int64_t *result)
{
	int status;

	said_begin(&said, 2);
	status = mailbox_ask(&mailbox, operation, text, result);
	said_end(&said);
	return status;
}

static void expect_ask(int line, int status, const char *expected)
{
	int64_t result = 0;

	expect_at(line, "the status", ask_for(MAILBOX_SHRINK, "text", &result), status);
	expect_text(line, said.text, expected);
}

#define EXPECT_ASK(status, expected) expect_ask(__LINE__, status, expected)

static void expect_gone(int line)
{
	expect_at(line, "request.id", (long long)box.request.id, 0);
	expect_at(line, "state", box.state, MAILBOX_IDLE);
}

#define EXPECT_GONE() expect_gone(__LINE__)

static void expect_silence(int line, uint32_t operation, const char *why)
{
	int64_t result = 0;
	char expected[512];

	expect_at(line, "the status", ask_for(operation, "text", &result), STATUS_FAILED);
	snprintf(expected, sizeof(expected), "slub: shrink: process 77 has not answered in 5 s: "
		 "%s--timeout waits longer\n", why);
	expect_text(line, said.text, expected);
}

#define EXPECT_SILENCE(operation, why) expect_silence(__LINE__, operation, why)

#endif
