/* SPDX-License-Identifier: MIT */
/*
 * A program that shuts itself into a seccomp filter as soon as main() begins, and works the heap
 * hard from then on.
 *
 *   sandboxed trace WORK    what the library asks the kernel for: each call, and how often
 *   sandboxed kill WORK     the library may make the C library's memory calls only; any other
 *                           one ends the process; the program itself may do anything
 *   sandboxed strict WORK   the whole process may make these, write() and exit_group() only
 *   sandboxed exec HOW COMMAND...   runs COMMAND under a filter that lets through what the C
 *                           library and its loader do at a start, and this program's work;
 *                           HOW: kill, or the errno that the other calls get
 *
 * WORK: alone (one thread), or all (threads that free for each other, forks, caches).
 * Whose a call is, the filter tells by the address that it is made from.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sandboxed.h"

#define SKIPPED 77

/* What the C library's own malloc asks for; brk is never asked for by this one. */
static const int memory_calls[] = {
	SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_futex,
};
/* Besides, fork holds signals back. */
static const int fork_calls[] = { SYS_rt_sigprocmask };
/* What the loader and the C library do before main(), and what ends a process. */
static const int start_calls[] = {
	SYS_execve, SYS_brk, SYS_openat, SYS_read, SYS_pread64, SYS_close, SYS_fstat,
	SYS_newfstatat, SYS_faccessat, SYS_readlinkat, SYS_set_tid_address, SYS_set_robust_list,
	SYS_rseq, SYS_prlimit64, SYS_getrandom, SYS_write, SYS_exit, SYS_exit_group,
#ifdef __x86_64__
	SYS_arch_prctl, SYS_access, SYS_readlink,
#endif
};
/* What this program does: threads, forks, its own filter. */
static const int own_calls[] = {
	SYS_clone, SYS_clone3, SYS_wait4, SYS_rt_sigprocmask, SYS_rt_sigaction,
	SYS_rt_sigreturn, SYS_sigaltstack, SYS_prctl, SYS_seccomp,
	SYS_getpid, SYS_gettid,
};

#define LENGTH(array_) (sizeof(array_) / sizeof(*(array_)))

/* ---- the filter ---- */

#define STATEMENTS_MAX 160

struct filter {
	struct sock_filter at[STATEMENTS_MAX];
	unsigned short nr;
};

static void put(struct filter *filter, unsigned short code, uint32_t k, unsigned char yes,
		unsigned char no)
{
	if (filter->nr == STATEMENTS_MAX)
		abort();
	filter->at[filter->nr++] = (struct sock_filter){ code, yes, no, k };
}

static void load(struct filter *filter, size_t offset)
{
	put(filter, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct filter *filter, uint32_t what)
{
	put(filter, BPF_RET | BPF_K, what, 0, 0);
}

static void allow(struct filter *filter, const int *calls, size_t nr)
{
	load(filter, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < nr; i++) {
		put(filter, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 1);
		answer(filter, SECCOMP_RET_ALLOW);
	}
}

/* Where the library's instructions are. */
struct text {
	uintptr_t start, end;
};

/* Whatever comes from anywhere else is let through. */
static void allow_others(struct filter *filter, const struct text *text)
{
	size_t ip = offsetof(struct seccomp_data, instruction_pointer);

	load(filter, ip + 4);
	put(filter, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(text->start >> 32), 1, 0);
	answer(filter, SECCOMP_RET_ALLOW);
	load(filter, ip);
	put(filter, BPF_JMP | BPF_JGE | BPF_K, (uint32_t)text->start, 1, 0);
	answer(filter, SECCOMP_RET_ALLOW);
	put(filter, BPF_JMP | BPF_JGT | BPF_K, (uint32_t)(text->end - 1), 0, 1);
	answer(filter, SECCOMP_RET_ALLOW);
}

static void install(struct filter *filter)
{
	struct sock_fprog program = { filter->nr, filter->at };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		printf("skipped: no seccomp filters here: %s\n", strerror(errno));
		exit(SKIPPED);
	}
}

/* ---- the library's text ---- */

static int note_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t inside = (uintptr_t)&malloc;
	struct text *text = arg, found = { UINTPTR_MAX, 0 };
	int is_it = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		is_it |= inside >= start && inside < start + part->p_memsz;
		found.start = start < found.start ? start : found.start;
		found.end = start + part->p_memsz > found.end ? start + part->p_memsz : found.end;
	}
	if (is_it)
		*text = found;
	return is_it;
}

/* The loader puts it elsewhere at each start; across 4 GiB the filter cannot say where it is. */
static struct text text_find(char **argv)
{
	struct text text = { 0, 0 };

	dl_iterate_phdr(note_text, &text);
	if (!text.end) {
		printf("skipped: malloc() is nobody's\n");
		exit(SKIPPED);
	}
	if (text.start >> 32 != (text.end - 1) >> 32)
		execv("/proc/self/exe", argv);
	return text;
}

/* ---- the trace ---- */

#define CALLS_MAX 1024
static uint32_t *made;		/* by number, shared with children */

static void on_call(int signal, siginfo_t *info, void *arg)
{
	ucontext_t *context = arg;
	long ret;

	(void)signal;
	if (info->si_syscall >= 0 && info->si_syscall < CALLS_MAX)
		__atomic_fetch_add(&made[info->si_syscall], 1, __ATOMIC_RELAXED);
	/* Made anew, from here, with the same arguments. */
#ifdef __x86_64__
	{
		greg_t *r = context->uc_mcontext.gregs;

		ret = syscall(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
			      r[REG_R8], r[REG_R9]);
		r[REG_RAX] = ret == -1 ? -errno : ret;
	}
#else
	{
		unsigned long long *r = context->uc_mcontext.regs;

		ret = syscall(info->si_syscall, r[0], r[1], r[2], r[3], r[4], r[5]);
		r[0] = (unsigned long long)(ret == -1 ? -errno : ret);
	}
#endif
}

static void trace_begin(const struct text *text)
{
	struct sigaction action = { .sa_sigaction = on_call,
				    .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };
	struct filter filter = { .nr = 0 };

	made = mmap(NULL, CALLS_MAX * sizeof(*made), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSYS, &action, NULL);
	allow_others(&filter, text);
	answer(&filter, SECCOMP_RET_TRAP);
	install(&filter);
}

static void trace_end(void)
{
	for (int i = 0; i < CALLS_MAX; i++) {
		if (made[i])
			printf("%d %u\n", i, made[i]);
	}
	fflush(stdout);
}

/* ---- filters that kill ---- */

static void kill_others(const struct text *text)
{
	struct filter filter = { .nr = 0 };

	allow_others(&filter, text);
	allow(&filter, memory_calls, LENGTH(memory_calls));
	allow(&filter, fork_calls, LENGTH(fork_calls));
	answer(&filter, SECCOMP_RET_KILL_PROCESS);
	install(&filter);
}

static void kill_all(void)
{
	static const int also[] = { SYS_write, SYS_exit_group };
	struct filter filter = { .nr = 0 };

	allow(&filter, memory_calls, LENGTH(memory_calls));
	allow(&filter, also, LENGTH(also));
	answer(&filter, SECCOMP_RET_KILL_PROCESS);
	install(&filter);
}

static void exec_filtered(const char *how, char **command)
{
	struct filter filter = { .nr = 0 };

	allow(&filter, memory_calls, LENGTH(memory_calls));
	allow(&filter, start_calls, LENGTH(start_calls));
	allow(&filter, own_calls, LENGTH(own_calls));
	answer(&filter, strcmp(how, "kill") ?
	       SECCOMP_RET_ERRNO | (uint32_t)atoi(how) : SECCOMP_RET_KILL_PROCESS);
	install(&filter);
	execvp(command[0], command);
	perror(command[0]);
	exit(1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *work = argc > 2 ? argv[2] : "";
	struct text text;

	if (argc > 3 && !strcmp(mode, "exec"))
		exec_filtered(work, argv + 3);
	if (strcmp(work, "alone") && strcmp(work, "all")) {
		fprintf(stderr, "usage: sandboxed trace|kill|strict alone|all\n");
		return 2;
	}
	text = text_find(argv);
	work_prepare();
	if (!strcmp(mode, "trace"))
		trace_begin(&text);
	else if (!strcmp(mode, "kill"))
		kill_others(&text);
	else if (!strcmp(mode, "strict"))
		kill_all();
	work_alone();
	if (!strcmp(work, "all"))
		work_all();
	if (!strcmp(mode, "trace"))
		trace_end();
	else if (write(1, "lived\n", 6) != 6)
		return 1;
	_exit(0);
}
