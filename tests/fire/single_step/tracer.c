/* SPDX-License-Identifier: MIT */
#include "single_step/tracer.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#include "single_step/cpu.h"

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
	tracer->hardware = !cpu_watch(pid, 0x1000) && !cpu_watch(pid, 0);
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
		must(cpu_watch(pid, address), "debug register");
		return;
	}
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, address, 0);
	if (errno)
		fire_fail("ptrace peek: %s", strerror(errno));
	tracer->original = word;
	must(ptrace(PTRACE_POKETEXT, pid, address,
		    (word & ~CPU_TRAP_MASK) | CPU_TRAP), "poke");
}

void tracer_disarm(struct tracer *tracer)
{
	if (!tracer->armed)
		return;
	if (tracer->hardware)
		must(cpu_watch(tracer->pid, 0), "debug register");
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

	must(cpu_registers_read(tracer->pid, &registers), "registers");
	met = cpu_place(&registers) - (tracer->hardware ? 0 : CPU_TRAP_BYTES);
	if (!tracer->armed || met != tracer->armed) {
		cpu_place(&registers) += CPU_ROUND_BYTES;
		must(cpu_registers_write(tracer->pid, &registers), "registers");
		return STOP_ROUND;
	}
	tracer_disarm(tracer);
	cpu_place(&registers) = met;
	must(cpu_registers_write(tracer->pid, &registers), "registers");
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
