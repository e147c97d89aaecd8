/* SPDX-License-Identifier: MIT */
/* The policy for certain corruption: see the head of misuse.h. */
#define _GNU_SOURCE
#include "debug/misuse.h"

#include <errno.h>
#include <signal.h>

#include "debug/debug.h"

#define STDERR 2
/* Lines written per process: a loop that corrupts must not fill a disk. */
#define LINES_MAX 1000
#define LINE_BYTES ((size_t)640)
/* Room for the last words of a line, however long a file's name is. */
#define ACTION_BYTES ((size_t)96)

/* The words are fixed: docs/operate/hardening.md and libslub(7) list them. */
static const char *const words[MISUSE_NR] = {
	[MISUSE_DOUBLE_FREE] = "double free",
	[MISUSE_INSIDE] = "pointer inside a block",
	[MISUSE_NO_BLOCK] = "pointer to no block",
	[MISUSE_LIST] = "free list damaged",
	[MISUSE_FREE_WRITTEN] = "free block overwritten",
	[MISUSE_RED_ZONE] = "red zone overwritten",
	[MISUSE_CANARY] = "canary overwritten",
	[MISUSE_SIZE] = "wrong size",
	[MISUSE_CALL] = "wrong kind of call",
};

static _Atomic uint64_t nr_found;

uint64_t misuse_nr_found(void)
{
	return __atomic_load_n(&nr_found, __ATOMIC_RELAXED);
}

/* ---- the line ---- */

/* A set of signals, as the kernel has it. */
#define SIGNAL_BIT(nr) (1ull << ((nr) - 1))

/* Returns what was blocked before. */
static uint64_t signals_change(int how, uint64_t set)
{
	uint64_t before = 0;

	sys_call4(SYS_rt_sigprocmask, how, (long)&set, (long)&before,
		  sizeof(set));
	return before;
}

/*
 * In one call, so that lines of several threads and processes do not mix.  A pipe that
 * nobody reads any more would end a process that is to go on: SIGPIPE waits meanwhile,
 * and the one that the write has raised is taken.
 */
static void line_write(const char *line, size_t bytes)
{
	static const struct timespec at_once = { 0, 0 };
	const uint64_t pipe = SIGNAL_BIT(SIGPIPE);
	uint64_t before = signals_change(SIG_BLOCK, pipe), pending = 0;

	sys_call4(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0, 0);
	if (sys_call4(SYS_write, STDERR, (long)line, (long)bytes, 0) ==
		    -EPIPE && !(pending & pipe))
		sys_call4(SYS_rt_sigtimedwait, (long)&pipe, 0, (long)&at_once,
			  sizeof(pipe));
	signals_change(SIG_SETMASK, before);
}

/* The first caller that is none of the library's. */
static void text_caller(struct text *text, const void *frame)
{
	struct stack stack = { 0 };

	stack_read(&stack, frame);
	if (!stack.nr)
		return;
	text_printf(text, ", called from ");
	sink_describe(text, stack.frames[0]);
}

static void line_say(enum misuse what, const char *call, const void *address,
		     const char *where, const void *frame, const char *action)
{
	char buf[LINE_BYTES + ACTION_BYTES];
	struct text text = { buf, LINE_BYTES, 0 };

	text_printf(&text, "slub[%ld]: %s: ", sys_pid(), words[what]);
	text_printf(&text, call ? "%s(%p)" : "%s%p", call ? call : "", address);
	if (where)
		text_printf(&text, ", %s", where);
	text_printf(&text, ", thread %ld", sys_tid());
	text_caller(&text, frame);
	text_make_printable(&text);
	text.size_bytes = sizeof(buf);
	text_printf(&text, "; %s\n", action);
	line_write(buf, text.used_bytes);
}

/* ---- the end ---- */

/*
 * What abort(3) does: a program's handler of SIGABRT runs, and a core file is written.  Not
 * abort() itself: some C libraries take a lock there that another thread's handler may hold,
 * and that a forked child never gets.  If the handler misuses memory as well the second end
 * is without a handler: it would come here for ever.
 */
void misuse_end(void)
{
	/* The kernel's structure: handler, flags, restorer, mask.  The default. */
	uint64_t action[4] = { 0 };

	/* The second time round it was ignored, or the handler has returned. */
	for (int i = slub_thread.flags & THREAD_IN_ABORT ? 1 : 0; i < 2; i++) {
		slub_thread.flags |= THREAD_IN_ABORT;
		if (i)
			sys_call4(SYS_rt_sigaction, SIGABRT, (long)action, 0, sizeof(uint64_t));
		signals_change(SIG_UNBLOCK, SIGNAL_BIT(SIGABRT));
		sys_call4(SYS_tgkill, sys_pid(), sys_tid(), SIGABRT, 0);
	}
	__builtin_trap();
}

/* ---- the policy ---- */

static enum option_on_error policy(void)
{
	return (enum option_on_error)option_value(OPTION_on_error);
}

bool misuse_ends_debugging(void)
{
	return option_was_given(OPTION_on_error) && policy() == ON_ERROR_ABORT;
}

void misuse_found(enum misuse what, const char *call, const void *address,
		  const char *where)
{
	uint64_t nr = __atomic_add_fetch(&nr_found, 1, __ATOMIC_RELAXED);
	const void *frame = __builtin_frame_address(0);

	switch (policy()) {
	case ON_ERROR_ABORT:
		line_say(what, call, address, where, frame, "aborting");
		misuse_end();
	case ON_ERROR_REPORT:
		if (nr <= LINES_MAX)
			line_say(what, call, address, where, frame,
				 nr < LINES_MAX ? "left alone" :
				 "left alone; further ones are not reported");
		return;
	case ON_ERROR_IGNORE:
		return;
	}
}
