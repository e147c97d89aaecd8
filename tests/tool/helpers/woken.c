/* SPDX-License-Identifier: MIT */
/* mailbox.c: when a thread of a process is woken that does not answer. */
#include "asks.h"

static void answer_all(struct mailbox *asked)
{
	asked->woken.nr++;
	box.result = 7;
	box.answered = OWN;
	box.state = MAILBOX_IDLE;
}

/* Three times. */
static void answer_parts(struct mailbox *asked)
{
	box.begun = OWN;
	box.total = 3;
	if (++box.done == 3)
		answer_all(asked);
	else
		asked->woken.nr++;
}

static void cannot(struct mailbox *asked)
{
	snprintf(asked->woken.why_not, sizeof(asked->woken.why_not), "it is a stone");
}

/* Twenty times; then it waits. */
static void runs(struct mailbox *asked)
{
	asked->woken.ran = nr_wakes < 20;
	if (!asked->woken.ran)
		answer_all(asked);
}

static void progress_slowly(int nr)
{
	box.begun = OWN;
	box.total = 1000;
	box.done = (uint64_t)nr / 10;
}

static void begin_waking(void (*wake_does)(struct mailbox *asked))
{
	begin();
	mailbox.no_wake = false;
	behind_wake = wake_does;
}

static void test_woken(void)
{
	begin_waking(answer_all);
	EXPECT_ASK(0, "");
	EXPECT_GONE();
	EXPECT(nr_wakes, 1);
	EXPECT(wakes[0] >= 1000.4 && wakes[0] < 1000.45, true);
	begin_waking(answer_all);
	mailbox.wake_seconds = 2;
	EXPECT_ASK(0, "");
	EXPECT(wakes[0] >= 1002 && wakes[0] < 1002.05, true);
	/* What one wake has not done the next does soon, and not that the process is at it. */
	begin_waking(answer_parts);
	EXPECT_ASK(0, "");
	EXPECT(nr_wakes, 3);
	EXPECT(wakes[1] > wakes[0] && wakes[2] > wakes[1] && wakes[2] < 1000.5, true);
	/* Where none can be woken it is tried again. */
	begin_waking(cannot);
	EXPECT_SILENCE(MAILBOX_DEBUG, "it waits, and does not allocate; it was not woken: "
		       "it is a stone; SLUB_DEBUG at its start watches from then on; ");
	EXPECT(nr_wakes, 10);
	/* One that ran just then may wait in a moment. */
	begin_waking(runs);
	EXPECT_ASK(0, "");
	EXPECT(nr_wakes, 20);
	EXPECT(now < 1002.5, true);
	begin_waking(cannot);
	box.begun = OWN;
	box.total = 2;
	box.done = 1;
	EXPECT_ASK(STATUS_FAILED, "slub: shrink: process 77 did 50 % of it in 5 s, and "
		   "keeps that; the rest is not done; it was not woken: it is a stone; --timeout "
		   "waits longer\n");
	/* Not while it goes on by itself, nor for another asker. */
	begin_waking(answer_all);
	behind_pause = progress_slowly;
	EXPECT(ask_for(MAILBOX_SHRINK, "text", &(int64_t){ 0 }), STATUS_FAILED);
	EXPECT(nr_wakes, 0);
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_woken);
	return failures != 0;
}
