/* SPDX-License-Identifier: MIT */
/*
 * Runs a program whose system calls fail as planned.  A seccomp filter hands
 * the calls in question, and no others, to the tracer, which counts them and
 * lets them happen or answers with an error in their stead.
 *
 * brk is never failed: the kernel never does.  rseq is failed only where the
 * library calls it: glibc ends the process when it cannot register a thread.
 */
#include "sweep/sweep.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

static const struct fallible {
	long number;
	const char *name;
	int errors[2];
} fallible[] = {
	{ SYS_mmap, "mmap", { ENOMEM, ENOMEM } },
	{ SYS_mremap, "mremap", { ENOMEM, EFAULT } },
	{ SYS_munmap, "munmap", { ENOMEM, EINVAL } },
	{ SYS_madvise, "madvise", { ENOMEM, EINVAL } },
	{ SYS_mprotect, "mprotect", { ENOMEM, EACCES } },
	{ SYS_membarrier, "membarrier", { EPERM, ENOSYS } },
	{ SYS_rseq, "rseq", { ENOSYS, EPERM } },
	{ SYS_prctl, "prctl", { EPERM, EINVAL } },
	{ SYS_getrandom, "getrandom", { ENOSYS, EPERM } },
};

#define FALLIBLE (sizeof(fallible) / sizeof(fallible[0]))

static struct {
	uint64_t library_start, library_end;
	const char *library;
	bool begun, ended;
} state;

/*
 * What a request of a thread has called so far, by where: a list of blocks that goes back makes a
 * call for each of them, and no call twice.  For mmap() all count as one place.  Two threads, or
 * two places, that share an entry by chance count as one.
 */
#define REQUESTS 1024
#define PLACES 1021

static struct {
	bool is_open;
	unsigned short calls[PLACES];
} requests[REQUESTS];

/* A cell stops at its call and at the workload's word only. */
static void install_filter_of_cell(const struct refusable *call)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->number, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(125);
}

static void install_filter(void)
{
	struct sock_filter code[FALLIBLE + 3];
	struct sock_fprog program = { FALLIBLE + 3, code };

	code[0] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned int i = 0; i < FALLIBLE; i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, fallible[i].number,
			FALLIBLE - i, 0);
	code[FALLIBLE + 1] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[FALLIBLE + 2] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, SECCOMP_RET_TRACE);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(125);
}

/* Where the library's code is mapped, once it is. */
static void find_library(pid_t pid)
{
	char path[64], line[4400], rights[8];
	uint64_t start, end;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strstr(line, state.library) ||
		    sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3 ||
		    rights[2] != 'x')
			continue;
		state.library_start = start;
		state.library_end = end;
	}
	if (maps)
		fclose(maps);
}

static bool in_library(pid_t pid, uint64_t address)
{
	if (!state.library_end)
		find_library(pid);
	return address >= state.library_start && address < state.library_end;
}

static const struct fallible *find_call(long number)
{
	for (unsigned int i = 0; i < FALLIBLE; i++)
		if (fallible[i].number == number)
			return &fallible[i];
	return NULL;
}

static bool may_fail(pid_t pid, const struct plan *plan,
		     const struct user_regs_struct *registers)
{
	const char *only = fire_opt_str("only", NULL);

	if (plan->call)
		return state.begun && !state.ended &&
		       registers->orig_rax == (unsigned long long)plan->call->number &&
		       in_library(pid, registers->rip);
	if (state.ended ||
	    (only && strcmp(only, find_call(registers->orig_rax)->name)))
		return false;
	if (plan->from == FROM_LIBRARY)
		return in_library(pid, registers->rip);
	if (!state.begun)
		return false;
	return registers->orig_rax != SYS_rseq ||
	       in_library(pid, registers->rip);
}

static void answer(pid_t pid, struct user_regs_struct *registers, long value)
{
	registers->orig_rax = -1;	/* no call happens */
	registers->rax = value;
	ptrace(PTRACE_SETREGS, pid, 0, registers);
}

static void on_command(pid_t pid, const struct plan *plan,
		       struct outcome *outcome,
		       struct user_regs_struct *registers)
{
	long value = 0;

	switch ((enum sweep_command)registers->rsi) {
	case SWEEP_BEGIN:
		state.begun = true;
		break;
	case SWEEP_END:
		state.ended = true;
		break;
	case SWEEP_MORE:
		value = outcome->failures < plan->failures_wanted;
		break;
	case SWEEP_REQUEST:
		memset(&requests[pid % REQUESTS], 0, sizeof(requests[0]));
		requests[pid % REQUESTS].is_open = true;
		break;
	case SWEEP_ANSWER:
		requests[pid % REQUESTS].is_open = false;
		break;
	}
	answer(pid, registers, value);
}

static bool chosen(struct plan *plan, const struct outcome *outcome)
{
	switch (plan->call ? plan->turn : TURNS) {
	case TURN_NONE:
		return false;
	case TURN_ALWAYS:
		return true;
	case TURN_SECOND:
		return outcome->calls % 2 == 0;
	case TURN_FROM:
		return outcome->calls >= plan->turn_from;
	case TURNS:
		break;
	}
	if (plan->which)
		return outcome->calls == plan->which;
	return fire_below(&plan->rng, 1000000) < plan->chance * 1000000;
}

static void count_in_request(pid_t pid, const struct user_regs_struct *registers,
			     struct outcome *outcome)
{
	unsigned long place = registers->orig_rax == SYS_mmap ? 0 : registers->rdi >> 12;
	unsigned long calls;

	if (!requests[pid % REQUESTS].is_open)
		return;
	calls = ++requests[pid % REQUESTS].calls[place % PLACES];
	outcome->most = outcome->most > calls ? outcome->most : calls;
}

static void on_call(pid_t pid, struct plan *plan, struct outcome *outcome)
{
	struct user_regs_struct registers;
	const struct fallible *call;

	if (ptrace(PTRACE_GETREGS, pid, 0, &registers))
		return;		/* gone meanwhile */
	if (registers.orig_rax == SYS_prctl && registers.rdi == SWEEP_MAGIC) {
		on_command(pid, plan, outcome, &registers);
		return;
	}
	if (!may_fail(pid, plan, &registers))
		return;
	outcome->calls++;
	count_in_request(pid, &registers, outcome);
	if (!chosen(plan, outcome))
		return;
	outcome->failures++;
	if (plan->call) {
		answer(pid, &registers, -plan->error);
		return;
	}
	call = find_call(registers.orig_rax);
	snprintf(outcome->failed, sizeof(outcome->failed),
		 "%s -> %s", call->name,
		 strerrorname_np(call->errors[plan->variant % 2]));
	answer(pid, &registers, -call->errors[plan->variant % 2]);
}

static pid_t start(const char *library, const struct plan *plan)
{
	const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP |
			     PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
			     PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
	char kind[32], seed[48], byte;
	int gate[2];
	pid_t pid;

	snprintf(kind, sizeof(kind), "--workload=%d", plan->which == 0 &&
		 plan->failures_wanted > 0);
	snprintf(seed, sizeof(seed), "--seed=%llu",
		 (unsigned long long)plan->rng);
	if (pipe(gate))
		fire_fail("pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		if (read(gate[0], &byte, 1) != 1)
			_exit(126);
		setenv("LD_PRELOAD", library, 1);
		if (plan->call)
			install_filter_of_cell(plan->call);
		else
			install_filter();
		execl("/proc/self/exe", "sweep", kind, seed,
		      plan->call ? "--counted=1" : "--counted=0", NULL);
		_exit(126);
	}
	if (ptrace(PTRACE_SEIZE, pid, 0, options))
		fire_skip("ptrace: %s", strerror(errno));
	if (write(gate[1], "g", 1) != 1)
		fire_fail("pipe: %s", strerror(errno));
	close(gate[0]);
	close(gate[1]);
	return pid;
}

void supervise(const char *library, struct plan *plan, struct outcome *outcome)
{
	pid_t first, pid;
	int status;

	memset(&state, 0, sizeof(state));
	memset(outcome, 0, sizeof(*outcome));
	state.library = library;
	first = start(library, plan);
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		int signal = 0;

		if (!WIFSTOPPED(status)) {
			if (pid == first)
				outcome->status = status;
			continue;
		}
		if (status >> 16 == PTRACE_EVENT_SECCOMP)
			on_call(pid, plan, outcome);
		else if (!(status >> 16))
			signal = WSTOPSIG(status);
		ptrace(PTRACE_CONT, pid, 0, signal);
	}
}
