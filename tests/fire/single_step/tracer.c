/* SPDX-License-Identifier: MIT */
#include "single_step/tracer.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#define RESUME_FLAG (1ul << 16)
#define DEBUG_REGISTER(n) (offsetof(struct user, u_debugreg) + (n) * 8)

void tracer_attach(struct tracer *tracer, pid_t pid)
{
	*tracer = (struct tracer){ .pid = pid };
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC))
		fire_skip("ptrace: %s", strerror(errno));
}

void tracer_choose(struct tracer *tracer, const char *kind)
{
	pid_t pid = tracer->pid;

	if (!strcmp(kind, "instruction"))
		return;
	tracer->hardware =
		!ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(0), 0x1000) &&
		!ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(7), 1) &&
		!ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(7), 0);
	if (!tracer->hardware && !strcmp(kind, "hardware"))
		fire_skip("no debug registers here: %s", strerror(errno));
}

static void must(long result, const char *what)
{
	if (result < 0)
		fire_fail("ptrace %s: %s", what, strerror(errno));
}

void tracer_arm(struct tracer *tracer, uint64_t address)
{
	pid_t pid = tracer->pid;
	long word;

	tracer->armed = address;
	if (tracer->hardware) {
		must(ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(0), address),
		     "debug register 0");
		must(ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(7), 1),
		     "debug register 7");
		return;
	}
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, address, 0);
	if (errno)
		fire_fail("ptrace peek: %s", strerror(errno));
	tracer->original = word;
	must(ptrace(PTRACE_POKETEXT, pid, address, (word & ~0xffl) | 0xcc),
	     "poke");
}

void tracer_disarm(struct tracer *tracer)
{
	if (!tracer->armed)
		return;
	if (tracer->hardware)
		must(ptrace(PTRACE_POKEUSER, tracer->pid, DEBUG_REGISTER(7), 0),
		     "debug register 7");
	else
		must(ptrace(PTRACE_POKETEXT, tracer->pid, tracer->armed,
			    tracer->original), "poke");
	tracer->armed = 0;
}

/* A SIGTRAP: ours, or the end of a round.  Takes the breakpoint away. */
static enum stop trapped(struct tracer *tracer)
{
	struct user_regs_struct registers;
	uint64_t met;

	must(ptrace(PTRACE_GETREGS, tracer->pid, 0, &registers), "registers");
	met = registers.rip - (tracer->hardware ? 0 : 1);
	if (!tracer->armed || met != tracer->armed)
		return STOP_ROUND;
	tracer_disarm(tracer);
	registers.rip = met;
	/* Else the next instruction would pass a debug register unseen. */
	registers.eflags &= ~RESUME_FLAG;
	must(ptrace(PTRACE_SETREGS, tracer->pid, 0, &registers), "registers");
	return STOP_BREAKPOINT;
}

/* What to do with a stop that does not count; the signal to go on with. */
static int pass(struct tracer *tracer, int signal, bool *listen)
{
	int event = tracer->status >> 16;

	*listen = false;
	if (event == PTRACE_EVENT_STOP && signal == SIGSTOP) {
		*listen = true;		/* it stands: wake it up */
		return 0;
	}
	return event ? 0 : signal;
}

enum stop tracer_run(struct tracer *tracer, int signal)
{
	bool listen = false;

	for (;;) {
		must(ptrace(listen ? PTRACE_LISTEN : PTRACE_CONT, tracer->pid,
			    0, listen ? 0 : signal), "continue");
		if (listen)
			kill(tracer->pid, SIGCONT);
		if (waitpid(tracer->pid, &tracer->status, __WALL) < 0)
			fire_fail("waitpid: %s", strerror(errno));
		if (!WIFSTOPPED(tracer->status))
			return STOP_END;
		signal = WSTOPSIG(tracer->status);
		if (signal == SIGTRAP && !(tracer->status >> 16))
			return trapped(tracer);
		signal = pass(tracer, signal, &listen);
	}
}

enum stop tracer_stop_and_continue(struct tracer *tracer)
{
	syscall(SYS_tgkill, tracer->pid, tracer->pid, SIGSTOP);
	return tracer_run(tracer, 0);
}
