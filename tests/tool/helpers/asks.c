/* SPDX-License-Identifier: MIT */
/* mailbox.c and mailbox_silence.c: how a process is asked, and what is said if it is silent. */
#include "asks.h"

/* As the process would, in two pieces. */
static void answer(int nr)
{
	if (nr == 1) {
		EXPECT(box.request.id, OWN);
		EXPECT(box.request.operation, MAILBOX_SHRINK);
		EXPECT(box.request.check, debug_request_check(&box.request));
		EXPECT_TEXT(box.request.text, "text");
		EXPECT(box.state, MAILBOX_IDLE);
	} else if (nr == 2) {
		EXPECT(box.state, NUMBER | MAILBOX_REQUEST);
		box.state = NUMBER | MAILBOX_TAKEN;
	} else if (nr == 3) {
		box.state = NUMBER | MAILBOX_REQUEST;
	} else if (nr == 4) {
		box.result = 7;
		box.answered = OWN;
		box.state = MAILBOX_IDLE;
	}
}

static void test_answered(void)
{
	static const long expected[] = { 2, 4, 8, 16 };
	int64_t result = 0;

	begin();
	behind_pause = answer;
	EXPECT(ask_for(MAILBOX_SHRINK, "text", &result), 0);
	EXPECT_TEXT(said.text, "");
	EXPECT(result, 7);
	EXPECT_GONE();
	EXPECT(nr_pauses, 4);
	for (int i = 0; i < 4; i++)
		EXPECT(pauses[i], expected[i]);
	EXPECT(box.beat, 3);
	EXPECT(box.request.flags, 0);
	EXPECT(handlers[SIGINT] && handlers[SIGTERM] && handlers[SIGHUP], true);
	/* Threads in handlers, too. */
	begin();
	behind_pause = answer;
	mailbox.blocked = true;
	EXPECT_ASK(0, "");
	EXPECT(box.request.flags, MAILBOX_BLOCKED_TOO);
	/* A number that is no state's is drawn again. */
	begin();
	behind_pause = answer;
	draws[0] = 0x4000000000000000;
	draws[1] = 0;
	EXPECT_ASK(0, "");
	EXPECT(nr_draws, 3);
}

static void test_texts(void)
{
	char text[300], expected[400];
	int64_t result = 0;

	begin();
	memset(text, 'x', 256);
	text[256] = '\0';
	EXPECT(ask_for(MAILBOX_SHRINK, text, &result), STATUS_USAGE);
	snprintf(expected, sizeof(expected),
		 "slub: shrink: '%.40s...' is too long; 255 letters at most\n", text);
	EXPECT_TEXT(said.text, expected);
	EXPECT(nr_draws, 0);
	text[255] = '\0';
	mailbox.seconds = 0.001;
	EXPECT(ask_for(MAILBOX_SHRINK, text, &result), STATUS_FAILED);
	EXPECT_TEXT(box.request.text, text);
	begin();
	draw_error = ENOSYS;
	EXPECT_ASK(STATUS_FAILED, "slub: shrink: no random number: Function not implemented\n");
	EXPECT(box.request.operation, 0);
}

/* ---- nobody answers ---- */

#define SILENT \
	"slub: shrink: process 77 has not answered in 5 s: it waits, and does not allocate; " \
	"--timeout waits longer\n"

static void take_and_keep(int nr)
{
	if (nr == 3)
		box.state = NUMBER | MAILBOX_TAKEN;
}

/* While it is waited for at the end, the piece is over. */
static void end_late(int nr)
{
	take_and_keep(nr);
	if (now > 1005.03)
		box.state = NUMBER | MAILBOX_REQUEST;
}

static void begin_a_part(int nr)
{
	if (nr != 3)
		return;
	box.begun = OWN;
	box.done = 1;
	box.total = 3;
}

static void test_silent(void)
{
	begin();
	EXPECT_ASK(STATUS_FAILED, SILENT);
	EXPECT_GONE();
	/* 2, 4, 8, 16 and then 32 milliseconds each. */
	EXPECT(pauses[3] == 16 && pauses[4] == 32 && pauses[20] == 32, true);
	EXPECT(nr_pauses, 4 + 156);
	EXPECT(now >= 1005 && now < 1005.033, true);
	/* At a piece, which ends soon, or not. */
	begin();
	behind_pause = take_and_keep;
	EXPECT_ASK(STATUS_FAILED, SILENT);
	EXPECT(box.request.id == 0 && box.state == (NUMBER | MAILBOX_TAKEN), true);
	EXPECT(pauses[nr_pauses - 1], 20);
	EXPECT(nr_pauses, 4 + 156 + 1);
	begin();
	behind_pause = end_late;
	EXPECT_ASK(STATUS_FAILED, SILENT);
	EXPECT_GONE();
	begin();
	behind_pause = begin_a_part;
	EXPECT_ASK(STATUS_FAILED,
		   "slub: shrink: process 77 did 33 % of it in 5 s, and keeps that; the rest is "
		   "not done; --timeout waits longer\n");
	EXPECT_GONE();
	/* What a process left behind is wiped away, once. */
	begin();
	box.state = MAILBOX_NUMBER(OTHER) | MAILBOX_REQUEST;
	EXPECT_ASK(STATUS_FAILED, SILENT);
	EXPECT_GONE();
}

static void refuse_some(int nr)
{
	box.nr_refused += nr == 2;
}

static void run_a_little(int nr)
{
	(void)nr;
	stat_text = STAT("R", "10", "21");
}

static void test_why(void)
{
	static const char stopped[] =
		"it is stopped, and goes on with SIGCONT or its debugger; ",
		runs[] = "it runs, and its lists serve all that it allocates; ",
		waits[] = "it waits, and does not allocate; ",
		refuses[] = "it allocates where it may be in a signal handler, or blocks signals "
			"that it handles; --blocked asks there too; ";

	begin();
	behind_pause = run_a_little;
	EXPECT_SILENCE(MAILBOX_SHRINK, runs);
	begin();
	stat_text = STAT("T", "10", "20");
	EXPECT_SILENCE(MAILBOX_SHRINK, stopped);
	begin();
	stat_text = STAT("t", "10", "20");
	behind_pause = refuse_some;
	EXPECT_SILENCE(MAILBOX_SHRINK, stopped);
	begin();
	behind_pause = refuse_some;
	EXPECT_SILENCE(MAILBOX_DEBUG, refuses);
	begin();
	box.nr_refused = 5;		/* before */
	EXPECT_SILENCE(MAILBOX_SHRINK, waits);
	/* Its start would have done. */
	begin();
	EXPECT_SILENCE(MAILBOX_DEBUG, "it waits, and does not allocate; SLUB_DEBUG at its start "
		       "watches from then on; ");
	begin();
	EXPECT_SILENCE(MAILBOX_GUARD, "it waits, and does not allocate; SLUB_GUARD at its start "
		       "guards from then on; ");
	/* Nothing is known of it. */
	begin();
	stat_text = NULL;
	EXPECT_SILENCE(MAILBOX_SHRINK, waits);
	begin();
	stat_text = "77 no name";
	EXPECT_SILENCE(MAILBOX_SHRINK, waits);
	begin();
	stat_text = "77 (a) T 1 2 3";
	EXPECT_SILENCE(MAILBOX_SHRINK, waits);
}

static void test_part(void)
{
	static const struct {
		uint64_t begun, done, total;
		const char *expected;
	} cases[] = {
		{ OWN, 0, 1, "did 0 % of it in 5 s, and keeps that; the rest is not done" },
		{ OWN, 5, 5, "did 100 % of it in 5 s, and keeps that; the rest is not done" },
		{ OWN, 9, 5, "did 100 % of it in 5 s, and keeps that; the rest is not done" },
		{ OWN, 199, 200, "did 99 % of it in 5 s, and keeps that; the rest is not done" },
		{ OWN, 0, 0, "has not answered in 5 s: it waits, and does not allocate" },
		{ OTHER, 1, 2, "has not answered in 5 s: it waits, and does not allocate" },
	};
	char expected[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		box.begun = cases[i].begun;
		box.done = cases[i].done;
		box.total = cases[i].total;
		snprintf(expected, sizeof(expected),
			 "slub: shrink: process 77 %s; --timeout waits longer\n",
			 cases[i].expected);
		EXPECT_ASK(STATUS_FAILED, expected);
	}
}

/* ---- other askers ---- */

static void beat_on(int nr)
{
	box.beat = 100u + (unsigned int)nr;
}

/* The last beat is at 1.2 seconds, and a second later it asks no more. */
static void beat_a_while(int nr)
{
	if (now < 1001.2)
		box.beat = 100u + (unsigned int)nr;
	if (now < 1002.1)
		EXPECT(box.request.id, OTHER);
	if (now > 1002.3)
		EXPECT(box.request.id, OWN);
}

static void write_over(int nr)
{
	if (nr == 2)
		box.request.id = OTHER;
	if (nr == 3)
		EXPECT(box.request.id, OTHER);
	if (nr == 4)
		box.request.id = 0;
	if (nr == 5) {
		EXPECT(box.request.id, OWN);
		EXPECT(pauses[3], 16);
		EXPECT(pauses[4], 2);
	}
}

static void test_others(void)
{
	static const char busy[] = "slub: shrink: process 77 has not answered another command in "
		"5 s; try again\n";

	begin();
	box.request.id = OTHER;
	behind_pause = beat_on;
	EXPECT_ASK(STATUS_FAILED, busy);
	EXPECT(box.request.id, OTHER);
	EXPECT(box.request.operation, 0);
	begin();
	box.request.id = OTHER;
	behind_pause = beat_a_while;
	EXPECT_ASK(STATUS_FAILED, SILENT);
	EXPECT_GONE();
	/* Without a beat, and a thread is at it. */
	begin();
	box.request.id = OTHER;
	box.state = MAILBOX_NUMBER(OTHER) | MAILBOX_TAKEN;
	EXPECT_ASK(STATUS_FAILED, busy);
	EXPECT(box.request.id, OTHER);
	EXPECT(box.state, MAILBOX_NUMBER(OTHER) | MAILBOX_TAKEN);
	/* Both wrote; this one is the later one to see it. */
	begin();
	behind_pause = write_over;
	EXPECT_ASK(STATUS_FAILED, SILENT);
	EXPECT_GONE();
}

/* ---- what goes wrong ---- */

static void answer_with_error(int nr)
{
	(void)nr;
	box.answered = OWN;
}

static void test_results(void)
{
	static const struct {
		const char *command;
		int64_t result;
		int error;
		const char *more;
	} cases[] = {
		{ "shrink", -EBUSY, EBUSY, "; try again" },
		{ "shrink", -EINVAL, EINVAL, "; its libslub is older than this command" },
		{ "set", -EINVAL, EINVAL, "; its libslub is older than this command" },
		{ "profile", -EINVAL, EINVAL, "; its libslub is older than this command" },
		{ "debug", -EINVAL, EINVAL, "" },
		{ "debug", -E2BIG, E2BIG, "; objects as large as these, with room for what these "
		  "letters need" },
		{ "set", -ENOMEM, ENOMEM, "" }, { "set", -4095, 4095, "" },
		{ "set", -4096, EPROTO, "" }, { "set", INT64_MIN, EPROTO, "" },
	};
	char expected[256];
	int64_t result = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		behind_pause = answer_with_error;
		mailbox.command = cases[i].command;
		box.result = cases[i].result;
		snprintf(expected, sizeof(expected), "slub: %s: process 77 could not do it: %s%s\n",
			 cases[i].command, strerror(cases[i].error), cases[i].more);
		EXPECT_ASK(STATUS_FAILED, expected);
		EXPECT(box.request.id, 0);
	}
	/* One that is no error for those who asked an old library. */
	begin();
	behind_pause = answer_with_error;
	mailbox.may_be_unknown = true;
	box.result = -EINVAL;
	EXPECT(ask_for(MAILBOX_SET, "x", &result), 0);
	EXPECT(result, -EINVAL);
	EXPECT_TEXT(said.text, "");
	box.result = -ENOMEM;
	box.answered = 0;
	EXPECT(ask_for(MAILBOX_SET, "x", &result), STATUS_FAILED);
	EXPECT(result, -ENOMEM);
}

static void test_errors(void)
{
	static const char ended[] = "slub: shrink: process 77 has ended; whether it did that "
		"before is not known\n",
		refused[] = "slub: shrink: no permission to write to process 77\n";
	/* The request; the state and the beat; the next beat. */
	static const int pauses_before[] = { 0, 1, 1, 2 };

	/* Another program runs there now, or none; or it has unmapped it. */
	for (int passed = 0; passed < 5; passed++) {
		begin();
		nr_until_error = passed;
		read_error = EIO;
		EXPECT_ASK(STATUS_NO_TARGET, ended);
		EXPECT(nr_pauses, passed < 2 ? 0 : passed - 1);
	}
	begin();
	nr_read = 0;
	EXPECT_ASK(STATUS_NO_TARGET, ended);
	begin();
	nr_read = sizeof(box) - 1;
	EXPECT_ASK(STATUS_NO_TARGET, ended);
	begin();
	box.magic[7] ^= 1;
	EXPECT_ASK(STATUS_NO_TARGET, ended);
	for (int passed = 0; passed < 4; passed++) {
		begin();
		nr_until_error = passed;
		write_error = passed % 2 ? EACCES : EPERM;
		EXPECT_ASK(STATUS_NO_PERMISSION, refused);
		EXPECT(nr_pauses, pauses_before[passed]);
	}
	begin();
	read_error = EFAULT;
	EXPECT_ASK(STATUS_FAILED, "slub: shrink: cannot write to process 77: Bad address\n");
	/* While it is withdrawn. */
	begin();
	mailbox.seconds = 0;
	nr_until_error = 1;
	write_error = EIO;
	EXPECT_ASK(STATUS_NO_TARGET, ended);
	EXPECT(nr_pauses, 0);		/* the time was over */
}

/* Ends with the signal's number, and leaves nothing behind. */
static void interrupt(int nr)
{
	if (nr == 3)
		handlers[SIGTERM](SIGTERM);
	EXPECT(nr <= 3, true);
}

static void test_interrupted(void)
{
	begin();
	behind_pause = interrupt;
	EXPECT_ASK(128 + SIGTERM, "");
	EXPECT_GONE();
	EXPECT(nr_pauses, 3);
}

static void test_all(void)
{
	test_answered();
	test_texts();
	test_silent();
	test_why();
	test_part();
	test_others();
	test_results();
	test_errors();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	test_interrupted();		/* the last thing that the command does */
	return failures != 0;
}
