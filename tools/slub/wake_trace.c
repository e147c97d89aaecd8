/* SPDX-License-Identifier: MIT */
/*
 * One thread is woken.
 *
 * PTRACE_INTERRUPT ends the call that the thread waits in, and the thread stops on its way out
 * of the kernel, before any signal.  There its registers hold the call and how it ended:
 *
 *   -ERESTART...   The kernel will make the call again, when the thread goes on with these
 *                  registers and no handler comes first.  That is its own business.
 *   -EINTR         It will not.  So the thread goes back to the instruction of the call, and
 *                  stays traced until it is in the call again: a signal that comes first
 *                  would have ended the call, and so it does.
 *   anything else  The call ended by itself.
 *
 * In between the thread runs the library at features/debug/wake.h's text.  By WAKE-1 the order is:
 * frame, registers, mask; and back: mask, vector registers, registers.
 */
#include "wake_trace.h"
#include "features/debug/wake.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <elf.h>
#include <linux/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

/* What the kernel calls these, for itself alone. */
#define ERESTART_SYS 512
#define ERESTART_NOINTR 513
#define ERESTART_NOHAND 514
#define ERESTART_BLOCK 516

#define RED_ZONE 128
#define STATE_MAX 16384		/* of XSAVE: AMX is half of that */
#define STACK_NEEDED 16384	/* below the frame; 4.3 KiB were used at the most */
#define FLAGS_OFF 0x40500u	/* alignment checks, direction, single steps */
#define CODE_64 0x33
#define POLL_NS_MIN 20000
#define POLL_NS_MAX 200000

/* What is restored. */
struct whole {
	struct user_regs_struct registers;
	uint64_t mask;			/* the thread's */
	uint64_t mask_in_call;		/* while it waits: ppoll(), sigsuspend() */
	uint64_t state_bytes;
	_Alignas(64) unsigned char state[STATE_MAX];
};

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool ended(struct trace *trace, enum trace_end end)
{
	trace->end = end;
	return false;
}

static bool unable(struct trace *trace, const char *why)
{
	snprintf(trace->why, sizeof(trace->why), "%s", why);
	return ended(trace, TRACE_UNABLE);
}

/* ---- stops ---- */

static long ask(const struct trace *trace, int request, uint64_t address, uint64_t data)
{
	return ptrace((enum __ptrace_request)request, trace->thread.id, (void *)address,
		      (void *)data);
}

static void let_go(const struct trace *trace, int signal_number)
{
	ask(trace, PTRACE_DETACH, 0, (uint64_t)signal_number);
}

/* Waits for the next stop.  False: the thread has ended. */
static bool wait_stop(struct trace *trace, int *status)
{
	pid_t done;

	do {
		done = waitpid(trace->thread.id, status, __WALL);
	} while (done < 0 && errno == EINTR);
	if (done == trace->thread.id && WIFSTOPPED(*status))
		return true;
	return ended(trace, TRACE_ENDED);
}

static bool is_event(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

/* The one that was asked for, or SIGCONT's. */
static bool is_trap(int status)
{
	return is_event(status) && WSTOPSIG(status) == SIGTRAP;
}

static bool is_call(int status)
{
	return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* ---- registers ---- */

static bool get_state(const struct trace *trace, struct whole *whole)
{
	struct iovec state = { whole->state, sizeof(whole->state) };

	if (ask(trace, PTRACE_GETREGSET, NT_X86_XSTATE, (uint64_t)&state))
		return false;
	whole->state_bytes = state.iov_len;
	/* There is a header, and no part of it is packed. */
	return state.iov_len >= 576 && state.iov_len < sizeof(whole->state);
}

static bool set_state(const struct trace *trace, struct whole *whole)
{
	struct iovec state = { whole->state, whole->state_bytes };

	return !ask(trace, PTRACE_SETREGSET, NT_X86_XSTATE, (uint64_t)&state);
}

static bool get_registers(const struct trace *trace, struct user_regs_struct *registers)
{
	return !ask(trace, PTRACE_GETREGS, 0, (uint64_t)registers);
}

static bool set_registers(const struct trace *trace, const struct user_regs_struct *registers)
{
	return !ask(trace, PTRACE_SETREGS, 0, (uint64_t)registers);
}

static bool set_mask(const struct trace *trace, uint64_t mask)
{
	return !ask(trace, PTRACE_SETSIGMASK, sizeof(mask), (uint64_t)&mask);
}

static bool will_restart(const struct whole *whole)
{
	int64_t result = (int64_t)whole->registers.rax;

	return result == -ERESTART_SYS || result == -ERESTART_NOINTR ||
	       result == -ERESTART_NOHAND || result == -ERESTART_BLOCK;
}

/* Did it end with EINTR for the stop alone, and nothing of it was done? */
static bool was_cut_short(const struct trace *trace, const struct whole *whole)
{
	if ((int64_t)whole->registers.rax != -EINTR)
		return false;
	switch (trace->kind) {
	case CALL_AGAIN:
	case CALL_TIMED:
		return true;
	case CALL_RESTARTS:
		/* Some device's: it read nothing. */
		return whole->registers.orig_rax == SYS_read;
	case CALL_NOT:
		break;
	}
	return false;
}

/* ---- the frame ---- */

static void fill_registers(struct wake_frame *frame, const struct whole *whole)
{
	const struct user_regs_struct *r = &whole->registers;
	const uint64_t in_order[WAKE_NR] = {
		r->rax, r->rcx, r->rdx, r->rbx, r->rsp - RED_ZONE - 8, r->rbp, r->rsi, r->rdi,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->eflags,
	};

	memcpy(frame->registers, in_order, sizeof(in_order));
}

static bool write_all(const struct trace *trace, uint64_t at, const void *from, size_t bytes)
{
	return pwrite(trace->memory, from, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Where the thread goes on without its tracer: it makes the call again. */
static uint64_t jump_alone(const struct trace *trace, const struct whole *whole,
			   struct wake_frame *frame)
{
	bool restarts = will_restart(whole);

	if (!restarts && !was_cut_short(trace, whole))
		return whole->registers.rip;
	frame->registers[0] = (int64_t)whole->registers.rax == -ERESTART_BLOCK ?
			      219 /* restart_syscall */ : whole->registers.orig_rax;
	return whole->registers.rip - 2;
}

static bool write_frame(struct trace *trace, struct whole *whole, uint64_t *at)
{
	struct wake_frame frame = { .mask = whole->mask };
	uint64_t jump_at = whole->registers.rsp - RED_ZONE - 8, jump;

	*at = (jump_at - whole->state_bytes - sizeof(frame)) & ~(uint64_t)63;
	if (*at > whole->registers.rsp || *at < trace->stack ||
	    *at - trace->stack < STACK_NEEDED)
		return unable(trace, "its stack has too little room");
	fill_registers(&frame, whole);
	jump = jump_alone(trace, whole, &frame);
	if (!write_all(trace, jump_at, &jump, sizeof(jump)) ||
	    !write_all(trace, *at + sizeof(frame), whole->state, whole->state_bytes) ||
	    !write_all(trace, *at, &frame, sizeof(frame)))
		return ended(trace, TRACE_ENDED);
	return true;
}

static bool read_frame(const struct trace *trace, uint64_t at, struct wake_frame *frame)
{
	return pread(trace->memory, frame, sizeof(*frame), (off_t)at) == sizeof(*frame);
}

/* ---- into the library ---- */

/* The signals that stay: those of a fault, for the kernel forces them anyhow. */
static uint64_t all_but_faults(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	uint64_t set = ~(uint64_t)0;

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		set &= ~((uint64_t)1 << (faults[i] - 1));
	return set;
}

static bool enter(struct trace *trace, struct whole *whole, uint64_t frame_at)
{
	struct user_regs_struct registers = whole->registers;

	registers.rip = trace->box->wake;
	registers.rsp = frame_at;
	registers.rax = 0;
	registers.orig_rax = (unsigned long long)-1;
	registers.eflags &= ~(unsigned long long)FLAGS_OFF;
	if (!set_registers(trace, &registers) || !set_mask(trace, all_but_faults()) ||
	    ask(trace, PTRACE_CONT, 0, 0))
		return ended(trace, TRACE_ENDED);
	return true;
}

/* Is a call of the library's own interrupted that keeps the end of its time where a sleep does? */
static bool keeps_time(const struct trace *trace)
{
	struct user_regs_struct now;

	return !get_registers(trace, &now) ||
	       ((int64_t)now.orig_rax >= 0 && (int64_t)now.rax == -ERESTART_BLOCK);
}

/*
 * Waits until the thread stands in the text again, behind its call, and is stopped there.
 * Signals that come by all the same are delivered, a stop of the process is passed through.
 * @is_lost: the rest of a sleep may be overwritten.
 */
static bool wait_done(struct trace *trace, uint64_t frame_at, bool *is_lost)
{
	double until = now_seconds() + trace->seconds;
	struct timespec pause = { 0, POLL_NS_MIN };
	bool is_asked = false;
	struct wake_frame frame;
	int status;
	pid_t done;

	for (;;) {
		done = waitpid(trace->thread.id, &status, __WALL | WNOHANG);
		if (done < 0 || (done && !WIFSTOPPED(status)))
			return ended(trace, TRACE_ENDED);
		if (done && is_asked && is_event(status))
			return true;
		if (done) {
			int number = is_event(status) ? 0 : WSTOPSIG(status);

			*is_lost |= keeps_time(trace);
			if (ask(trace, PTRACE_CONT, 0, (uint64_t)number))
				return ended(trace, TRACE_ENDED);
			continue;
		}
		if (!is_asked && read_frame(trace, frame_at, &frame) && frame.is_done) {
			ask(trace, PTRACE_INTERRUPT, 0, 0);
			is_asked = true;
			pause.tv_nsec = POLL_NS_MIN;
		}
		if (now_seconds() > until)
			return ended(trace, TRACE_LATE);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < POLL_NS_MAX)
			pause.tv_nsec += pause.tv_nsec / 2;
	}
}

/* ---- back ---- */

/* What is left of the time, in ms; never too little, for the clocks differ a little. */
static uint64_t ms_left(const struct trace *trace)
{
	double ms = (double)(int32_t)trace->thread.arguments[3];
	double waited = (now_seconds() - trace->since) * 1000;

	waited -= waited / 1000 + 0.25;
	if (waited <= 0)
		return (uint64_t)ms;
	return waited >= ms ? 0 : (uint64_t)(ms - waited) + 1;
}

static bool is_ignored(const struct trace *trace, int number)
{
	static const int by_default[] = { SIGCHLD, SIGURG, SIGWINCH, SIGCONT };

	if (signal_is_in(trace->thread.ignored, number))
		return true;
	if (signal_is_in(trace->thread.handled, number))
		return false;
	for (size_t i = 0; i < sizeof(by_default) / sizeof(by_default[0]); i++) {
		if (by_default[i] == number)
			return true;
	}
	return false;
}

/* A signal came before the call was made again: it ends the call, unless that blocks it. */
static void leave_by_signal(struct trace *trace, const struct whole *whole, int number)
{
	struct user_regs_struct registers = whole->registers;

	registers.rax = (unsigned long long)-EINTR;
	registers.orig_rax = (unsigned long long)-1;
	if (!signal_is_in(whole->mask_in_call, number))
		set_registers(trace, &registers);
	let_go(trace, number);
}

/* It is at its call: nothing comes in between any more, so the time is told here. */
static void begin_call(const struct trace *trace)
{
	if (trace->kind == CALL_TIMED)
		ask(trace, PTRACE_POKEUSER, offsetof(struct user, regs.r10), ms_left(trace));
	ask(trace, PTRACE_CONT, 0, 0);
}

/*
 * The call is made once more.  The thread stays traced until it is in it, and is let go by the
 * tracer's end: to be let go at the stop there would be one more interruption.
 */
static void leave_again(struct trace *trace, const struct whole *whole)
{
	struct user_regs_struct registers = whole->registers;
	int status, number = 0;

	registers.rip -= 2;
	registers.rax = registers.orig_rax;
	registers.orig_rax = (unsigned long long)-1;
	if (trace->kind == CALL_TIMED)
		registers.r10 = ms_left(trace);
	set_registers(trace, &registers);
	for (;;) {
		if (ask(trace, PTRACE_SYSCALL, 0, (uint64_t)number) || !wait_stop(trace, &status))
			return;
		if (is_call(status)) {
			begin_call(trace);
			return;
		}
		if (is_event(status)) {
			let_go(trace, 0);
			return;
		}
		number = WSTOPSIG(status);
		if (!is_ignored(trace, number)) {
			leave_by_signal(trace, whole, number);
			return;
		}
	}
}

/* Where nothing was changed. */
static void leave_alone(struct trace *trace, const struct whole *whole)
{
	if (was_cut_short(trace, whole))
		leave_again(trace, whole);
	else
		let_go(trace, 0);
}

static void leave(struct trace *trace, const struct whole *whole)
{
	bool waits_masked = whole->mask != whole->mask_in_call &&
			    (int64_t)whole->registers.rax == -ERESTART_NOHAND;

	if (waits_masked)
		leave_again(trace, whole);
	else
		leave_alone(trace, whole);
}

/* By WAKE-1, in this order. */
static bool give_back(struct trace *trace, struct whole *whole)
{
	return set_mask(trace, whole->mask) && set_state(trace, whole) &&
	       set_registers(trace, &whole->registers);
}

/* The thread is at a stop again: where? */
static void come_back(struct trace *trace, struct whole *whole, uint64_t frame_at, bool is_lost)
{
	struct user_regs_struct now;
	struct wake_frame frame = { .answer = WAKE_NOTHING };

	if (!get_registers(trace, &now) || now.rip < trace->box->wake ||
	    now.rip >= trace->box->wake_end) {
		/* It was faster, and has given back all by itself. */
		let_go(trace, 0);
		trace->end = TRACE_ANSWERED;
		return;
	}
	read_frame(trace, frame_at, &frame);
	if (is_lost && (int64_t)whole->registers.rax == -ERESTART_BLOCK)
		whole->registers.rax = (unsigned long long)-EINTR;
	if (give_back(trace, whole))
		leave(trace, whole);
	trace->end = frame.answer == WAKE_ANSWERED || frame.answer == WAKE_LATER ?
		     TRACE_ANSWERED : TRACE_INSIDE;
}

/* ---- the whole ---- */

/* It may have been made anew, with another time: that of the one before would end it early. */
static bool is_made_anew(struct trace *trace, const uint64_t arguments[6])
{
	struct wake_thread *thread = &trace->thread;
	bool was_timed = trace->kind == CALL_TIMED;
	const char *name;

	memcpy(thread->arguments, arguments, sizeof(thread->arguments));
	trace->kind = call_kind(thread, &name);
	trace->since = now_seconds();
	/* Of one without a time nobody has looked whether its registers may differ. */
	return trace->kind != CALL_NOT && (was_timed || trace->kind != CALL_TIMED);
}

/* Is it the call that was seen, or the same one again? */
static bool is_same_call(struct trace *trace, const struct user_regs_struct *r,
			 const uint64_t arguments[6])
{
	const struct wake_thread *thread = &trace->thread;

	return r->rip == thread->pc && r->rsp == thread->sp && r->orig_rax == thread->call &&
	       (!memcmp(arguments, thread->arguments, sizeof(thread->arguments)) ||
		is_made_anew(trace, arguments));
}

/* It has left the call that was seen.  Another may have been cut short, which had just begun. */
static bool moved(struct trace *trace, const struct user_regs_struct *r,
		  const uint64_t arguments[6])
{
	struct wake_thread *thread = &trace->thread;
	const char *name;

	thread->call = r->orig_rax;
	memcpy(thread->arguments, arguments, sizeof(thread->arguments));
	trace->kind = call_kind(thread, &name);
	if (trace->kind == CALL_NOT && *name)
		trace->kind = CALL_AGAIN;
	trace->since = now_seconds();
	return ended(trace, TRACE_MOVED);
}

/* Is the thread, which is stopped, in the call that was seen? */
static bool is_where_it_was(struct trace *trace, struct whole *whole)
{
	const struct wake_thread *thread = &trace->thread;
	const struct user_regs_struct *r = &whole->registers;
	const uint64_t arguments[6] = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 };
	struct wake_thread now;
	unsigned char text[2];

	if (!wake_thread_read(&now, thread->process, thread->id))
		return ended(trace, TRACE_ENDED);
	whole->mask_in_call = now.blocked;
	if (!is_same_call(trace, r, arguments) ||
	    (!will_restart(whole) && !was_cut_short(trace, whole)))
		return moved(trace, r, arguments);
	/* One more for the stop: else it has returned meanwhile, and waits anew. */
	if (now.switches > thread->switches + 1)
		trace->since = now_seconds();
	if (pread(trace->memory, text, 2, (off_t)(r->rip - 2)) != 2)
		return ended(trace, TRACE_ENDED);
	if (r->cs != CODE_64 || text[0] != 0x0f || text[1] != 0x05)
		return unable(trace, "its system call is no plain one");
	return get_state(trace, whole) ||
	       unable(trace, "the kernel does not show its vector registers");
}

/* Its system calls may end in a handler, which would find the library's there. */
static bool dispatches(const struct trace *trace)
{
	struct {
		uint64_t mode, selector, offset, length;
	} config = { 0 };

	return !ask(trace, 0x4211 /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG */,
		    sizeof(config), (uint64_t)&config) && config.mode;
}

static void run(struct trace *trace, struct whole *whole)
{
	bool is_lost = false;
	uint64_t frame_at;

	if (!get_registers(trace, &whole->registers) ||
	    ask(trace, PTRACE_GETSIGMASK, sizeof(whole->mask), (uint64_t)&whole->mask)) {
		ended(trace, TRACE_ENDED);
		return;
	}
	if (!is_where_it_was(trace, whole) ||
	    (dispatches(trace) && !unable(trace, "its system calls are dispatched to it")) ||
	    !write_frame(trace, whole, &frame_at)) {
		leave_alone(trace, whole);
		return;
	}
	if (enter(trace, whole, frame_at) && wait_done(trace, frame_at, &is_lost))
		come_back(trace, whole, frame_at, is_lost);
}

/* Nothing was changed yet: a signal goes its way. */
static bool stop(struct trace *trace)
{
	int status;

	if (ask(trace, PTRACE_SEIZE, 0, PTRACE_O_TRACESYSGOOD)) {
		trace->error = errno;
		return ended(trace, errno == ESRCH ? TRACE_ENDED : TRACE_REFUSED);
	}
	ask(trace, PTRACE_INTERRUPT, 0, 0);
	if (!wait_stop(trace, &status))
		return false;
	if (is_trap(status))
		return true;
	let_go(trace, is_event(status) ? 0 : WSTOPSIG(status));
	return ended(trace, is_event(status) ? TRACE_STOPPED : TRACE_MOVED);
}

void trace_wake(struct trace *trace)
{
	static struct whole whole;
	double start = now_seconds();

	if (stop(trace))
		run(trace, &whole);
	trace->ms = (now_seconds() - start) * 1000;
}
#else
void trace_wake(struct trace *trace)
{
	snprintf(trace->why, sizeof(trace->why), "on this CPU no thread can be woken");
	trace->end = TRACE_UNABLE;
}
#endif
