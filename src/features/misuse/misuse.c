/* SPDX-License-Identifier: MIT */
/* The policy for certain corruption: see the head of misuse.h. */
#define _GNU_SOURCE
#include "features/misuse/misuse.h"

#include <errno.h>
#include <signal.h>

#include "core/base/turn.h"
#include "features/debug/debug.h"

#define STDERR 2
/* Lines written per process: a loop that corrupts must not fill a disk. */
#define LINES_MAX 1000
#define LINE_BYTES ((size_t)960)
/* Room for the last words of a line, however long a file's name is. */
#define ACTION_BYTES ((size_t)224)

#define ALLOCATED "SLUB_DEBUG=FZPU names who allocated the block"
#define STOPPED "SLUB_GUARD=1 stops such a write as it is made"

/*
 * What happened, and what to do next.  The first words are fixed: docs/operate/hardening.md and
 * libslub(7) list them.
 */
static const struct {
	const char *what, *next;
} words[MISUSE_NR] = {
	[MISUSE_DOUBLE_FREE] = { "double free", "SLUB_DEBUG=FZPU names who freed it first" },
	[MISUSE_INSIDE] = { "pointer inside a block", ALLOCATED },
	[MISUSE_NO_BLOCK] = { "pointer to no block", "no block of malloc begins there now" },
	[MISUSE_LIST] = { "free list damaged",
			  "a block was written to after its free; " STOPPED },
	[MISUSE_FREE_WRITTEN] = { "a block was written to after its free",
				  STOPPED ", SLUB_DEBUG=FZPU names who freed the block" },
	[MISUSE_BEYOND] = { "a write beyond a block", ALLOCATED },
	[MISUSE_SIZE] = { "wrong size", ALLOCATED },
	[MISUSE_CALL] = { "wrong kind of call", ALLOCATED },
};

static _Atomic uint64_t nr_found;

uint64_t misuse_nr_found(void)
{
	return __atomic_load_n(&nr_found, __ATOMIC_RELAXED);
}

/* The thread that looks at the heap as the process ends. */
static _Atomic long exiting;

usual void misuse_exit(bool begins)
{
	__atomic_store_n(&exiting, begins ? sys_tid() : 0, __ATOMIC_RELAXED);
}

bool misuse_is_exiting(void)
{
	long thread = __atomic_load_n(&exiting, __ATOMIC_RELAXED);

	return thread && thread == sys_tid();
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

/* ---- what others read ---- */

struct misuse_last misuse_last rarely_touched;
static struct turn keeping;

static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; from && from[n] && n < size - 1; n++)
		to[n] = from[n];
	to[n] = '\0';
}

/* Two that find something at once: one of them is kept. */
static void keep(const struct misuse_last *said, const char *what, const char *call,
		 const char *where, const char *line)
{
	struct misuse_last *last = &misuse_last;

	if (!turn_try(&keeping))
		return;
	last->size = sizeof(*last);
	last->thread = said->thread;
	last->nr = misuse_nr_found();
	last->address = said->address;
	last->caller = said->caller;
	copy_text(last->what, sizeof(last->what), what);
	copy_text(last->call, sizeof(last->call), call);
	copy_text(last->where, sizeof(last->where), where);
	copy_text(last->line, sizeof(last->line), line);
	turn_end(&keeping);
}

void misuse_keep(const char *what, const void *address, const char *where)
{
	struct misuse_last said = { .thread = (uint32_t)sys_tid(), .address = (uintptr_t)address };

	keep(&said, what, NULL, where, NULL);
}

/* ---- the words of a line ---- */

/* The first caller that is none of the library's; 0: not known. */
static uintptr_t text_caller(struct text *text, const char *how, const void *frame)
{
	struct stack stack = { 0 };

	stack_read(&stack, frame);
	if (!stack.nr)
		return 0;
	text_printf(text, ", %s from ", how);
	sink_describe(text, stack.frames[0]);
	return stack.frames[0];
}

/* The call that has come to it is the culprit only if the call itself was wrong. */
static uintptr_t text_found(struct text *text, enum misuse what, const char *call,
			    const void *frame)
{
	if (misuse_is_exiting()) {
		text_printf(text, ", found at exit");
		return 0;
	}
	text_printf(text, ", thread %ld", sys_tid());
	return text_caller(text, call && what != MISUSE_BEYOND ? "called" :
								       "found in a call",
			   frame);
}

static void text_known(struct text *text, const char *what, const struct track *track)
{
	if (!track || !track->caller)
		return;
	text_printf(text, ", %s by thread %u from ", what, track->thread);
	sink_describe(text, track->caller);
}

/* Does the guard's report have the stacks? */
static bool stacks_were_asked_for(void)
{
	const char *report = option_text(OPTION_debug_report);

	return (report && *report) || option_text(OPTION_debug) || log_is_enabled();
}

/* What to do next: nothing that was done already. */
static const char *next_of(enum misuse what, struct misuse_known known)
{
	if (known.allocated)
		return stacks_were_asked_for() ? NULL :
						 "SLUB_DEBUG_REPORT=stderr prints whole stacks";
	return option_text(OPTION_debug) ? NULL : words[what].next;
}

static void line_say(enum misuse what, const char *call, const void *address,
		     const char *where, struct misuse_known known, const void *frame,
		     const char *action)
{
	char buf[LINE_BYTES + ACTION_BYTES];
	struct text text = { buf, LINE_BYTES, 0 };
	const char *next = next_of(what, known);
	struct misuse_last said = { .thread = (uint32_t)sys_tid(), .address = (uintptr_t)address };

	text_printf(&text, "slub[%ld]: %s: ", sys_pid(), words[what].what);
	text_printf(&text, call ? "%s(%p)" : "%s%p", call ? call : "", address);
	if (where)
		text_printf(&text, ", %s", where);
	said.caller = text_found(&text, what, call, frame);
	text_known(&text, "allocated", known.allocated);
	text_known(&text, "freed", known.freed);
	text_make_printable(&text);
	text.size_bytes = sizeof(buf);
	text_printf(&text, next ? "; %s; %s\n" : "; %s%s\n", next ? next : "", action);
	line_write(buf, text.used_bytes);
	buf[min_size(text.used_bytes, sizeof(buf)) - 1] = '\0';
	keep(&said, words[what].what, call, where, buf);
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

void misuse_found_of(enum misuse what, const char *call, const void *address,
		     const char *where, struct misuse_known known)
{
	uint64_t nr = __atomic_add_fetch(&nr_found, 1, __ATOMIC_RELAXED);
	const void *frame = __builtin_frame_address(0);

	switch (policy()) {
	case ON_ERROR_ABORT:
		line_say(what, call, address, where, known, frame, "aborting");
		misuse_end();
	case ON_ERROR_REPORT:
		if (nr <= LINES_MAX)
			line_say(what, call, address, where, known, frame,
				 nr < LINES_MAX ? "left alone" :
				 "left alone; further ones are not reported");
		return;
	case ON_ERROR_IGNORE:
		return;
	}
}

void misuse_found(enum misuse what, const char *call, const void *address,
		  const char *where)
{
	misuse_found_of(what, call, address, where, (struct misuse_known){ NULL, NULL });
}
