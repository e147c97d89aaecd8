/* SPDX-License-Identifier: MIT */
/*
 * wake.c: what is said where a thread cannot be traced, by what the kernel refuses and by
 * kernel.yama.ptrace_scope.  The process, its thread and the tracer are told here.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"
#include "text.h"
#include "wake.h"
#include "wake_trace.h"

#define TEXT 0x1000
#define STACK 0x9000

static struct mapping mappings[] = {
	{ .start = TEXT, .end = 0x2000, .path = (char *)"/lib/libc.so.6" },
	{ .start = STACK, .end = 0xa000, .path = (char *)"[stack]" },
	{ .start = 0x4000, .end = 0x5000, .path = (char *)"/lib/libslub.so.1" },
};
static const char *scope;	/* NULL: the kernel has no such file */
static int refusal, tracer, nr_threads, nr_reads;
static bool is_traced_late;	/* not yet as it is chosen */

int process_open(struct process *process, pid_t pid)
{
	*process = (struct process){ .pid = pid, .mappings = mappings, .nr_mappings = 3 };
	return 0;
}

void process_close(struct process *process)
{
	process->nr_mappings = 0;
}

bool wake_thread_next(DIR *folder, pid_t *id)
{
	(void)folder;
	*id = getpid();
	return nr_threads++ % 2 == 0;
}

bool wake_thread_read(struct wake_thread *thread, pid_t process, pid_t id)
{
	*thread = (struct wake_thread){
		.process = process, .id = id, .name = "main", .state = 'S', .is_in_call = true,
		.tracer = is_traced_late && !nr_reads++ ? 0 : tracer,
		.pc = TEXT + 4, .sp = STACK + 8,
	};
	return true;
}

double wake_thread_since(const struct wake_thread *thread)
{
	(void)thread;
	return 0;
}

enum call_kind call_kind(const struct wake_thread *thread, const char **name)
{
	(void)thread;
	*name = "poll";
	return CALL_RESTARTS;
}

void trace_wake(struct trace *trace)
{
	trace->end = TRACE_REFUSED;
	trace->error = refusal;
}

FILE *input_kernel(const char *path)
{
	EXPECT_TEXT(path, "/proc/sys/kernel/yama/ptrace_scope");
	errno = ENOENT;
	return scope ? fmemopen((void *)scope, strlen(scope), "r") : NULL;
}

/* What @number and the kernel's @setting come to. */
static const char *said(int number, const char *setting)
{
	static struct mailbox mailbox;
	static const struct debug_mailbox box = { .wake = 0x4000 };

	mailbox = (struct mailbox){ .memory = -1 };
	mailbox.source.process.pid = getpid();
	mailbox.source.state.file = &mappings[2];
	refusal = number;
	scope = setting;
	nr_threads = nr_reads = 0;
	wake(&mailbox, &box);
	EXPECT(mailbox.woken.nr, 0);
	return mailbox.woken.why_not;
}

int main(void)
{
#define YAMA "no permission to trace it: kernel.yama.ptrace_scope is "
#define FILTER "a seccomp filter (this command's container's) or a security module refuses ptrace()"
	EXPECT_TEXT(said(EPERM, "1\n"), YAMA "1, which takes CAP_SYS_PTRACE (root)");
	EXPECT_TEXT(said(EPERM, "2\n"), YAMA "2, which takes CAP_SYS_PTRACE (root)");
	EXPECT_TEXT(said(EPERM, "3\n"), YAMA "3, which allows nobody until the next boot");
	EXPECT_TEXT(said(EPERM, "0\n"), FILTER);
	EXPECT_TEXT(said(EPERM, NULL), FILTER);
	EXPECT_TEXT(said(EPERM, "nonsense\n"), FILTER);
	EXPECT_TEXT(said(ENOSYS, "1\n"), "it cannot be traced: Function not implemented");
	tracer = 4711;
	for (int late = 0; late < 2; late++) {
		is_traced_late = late;
		EXPECT_TEXT(said(EPERM, "1\n"), "process 4711 traces it (a debugger, or strace)");
	}
	return failures != 0;
}
