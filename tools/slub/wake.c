/* SPDX-License-Identifier: MIT */
/*
 * Which thread of a process is woken, and by whom.
 *
 * A child of the command traces the thread: the way in which a tracer ends is a part of it
 * (wake_trace.c), and a signal that ends the command does not end the child.
 */
#include "wake.h"
#include "input.h"
#include "slub.h"
#include "wake_trace.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Threads that are tried in one wake. */
#define TRIES 4
/* A thread that has not come back by then goes on alone. */
#define SECONDS_MAX 2.0
/* Without a clock for it, a shorter time than this begins anew. */
#define BEGINS_ANEW_MS 1000

struct candidate {
	struct wake_thread thread;
	enum call_kind kind;
	const char *call;
	double since;
	uint64_t stack;
};

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool is_c_library(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return !strncmp(name, "libc.so", 7) || !strncmp(name, "libc-", 5) ||
	       !strncmp(name, "libc.musl", 9) || !strncmp(name, "ld-musl", 7) ||
	       !strncmp(name, "libpthread", 10);
}

static void why(struct woken *woken, const char *format, const char *text)
{
	snprintf(woken->why_not, sizeof(woken->why_not), format, text);
}

/* Threads of the C library have a list there; a bare clone() shares its maker's, or has none. */
static bool has_own_storage(const struct wake_thread *thread)
{
	void *head = NULL;
	size_t length;

	if (thread->id == thread->process)
		return true;
	return !syscall(SYS_get_robust_list, thread->id, &head, &length) && head;
}

/*
 * The time that the call waits for has begun when?  False: nobody can tell, or it cannot be
 * given: a register would differ when the call returns, which only the C library's do not mind.
 */
static bool time_is_known(struct candidate *candidate, const struct mapping *text)
{
	double since = wake_thread_since(&candidate->thread);

	candidate->since = since > 0 ? since : now_seconds();
	return is_c_library(text->path) &&
	       (since > 0 || candidate->thread.arguments[3] <= BEGINS_ANEW_MS);
}

static void why_traced(struct woken *woken, const struct wake_thread *thread)
{
	snprintf(woken->why_not, sizeof(woken->why_not),
		 "process %d traces it (a debugger, or strace)", (int)thread->tracer);
}

/* May it be woken?  Else @woken says why not. */
static bool judge(const struct mailbox *mailbox, const struct process *process,
		  struct candidate *candidate, struct woken *woken)
{
	const struct wake_thread *thread = &candidate->thread;
	const struct mapping *text = process_mapping_at(process, thread->pc);
	const struct mapping *stack = process_mapping_at(process, thread->sp);

	if (thread->tracer) {
		why_traced(woken, thread);
	} else if (thread->state == 'T' || thread->state == 't') {
		why(woken, "it is stopped%s", "");
	} else if (thread->state != 'S' || !thread->is_in_call) {
		why(woken, "no thread of it waits%s", "");
		woken->ran = true;
	} else if (!text || !stack || !strcmp(text->path, mailbox->source.state.file->path)) {
		why(woken, "its thread %s waits inside the library", thread->name);
	} else if (thread->has_shadow_stack) {
		why(woken, "it has a shadow stack%s", "");
	} else if (thread->blocked & thread->handled && !mailbox->blocked) {
		why(woken, "its thread %s blocks signals that it handles, and may be in a "
		    "handler; --blocked asks there too", thread->name);
	} else if (!has_own_storage(thread)) {
		why(woken, "the C library did not make its thread %s", thread->name);
	} else {
		candidate->stack = stack->start;
		candidate->kind = call_kind(thread, &candidate->call);
		if (candidate->kind == CALL_TIMED && !time_is_known(candidate, text))
			candidate->kind = CALL_NOT;
		if (candidate->kind != CALL_NOT)
			return true;
		why(woken, "it waits in %s, which would be cut short",
		    *candidate->call ? candidate->call : "a system call");
	}
	return false;
}

/* The best that is no worse than those before; @tried are none any more. */
static bool choose(const struct mailbox *mailbox, const struct process *process,
		   const pid_t *tried, int nr_tried, struct candidate *best, struct woken *woken)
{
	struct candidate one = { .kind = CALL_NOT };
	char path[64];
	DIR *folder;
	pid_t id;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)process->pid);
	folder = opendir(path);
	best->kind = CALL_NOT;
	while (folder && best->kind != CALL_RESTARTS && wake_thread_next(folder, &id)) {
		bool was_tried = false;

		for (int i = 0; i < nr_tried; i++)
			was_tried |= tried[i] == id;
		if (!was_tried && wake_thread_read(&one.thread, process->pid, id) &&
		    judge(mailbox, process, &one, woken) && one.kind < best->kind)
			*best = one;
	}
	if (folder)
		closedir(folder);
	return best->kind != CALL_NOT;
}

/* ---- the child ---- */

static void ignore_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], SIG_IGN);
}

/* @trace is shared.  False: there is no child. */
static bool trace_by_child(struct trace *trace)
{
	pid_t child = fork(), done;

	if (!child) {
		ignore_signals();
		trace_wake(trace);
		_exit(0);
	}
	if (child < 0)
		return false;
	do {
		done = waitpid(child, NULL, 0);
	} while (done < 0 && errno == EINTR);
	return true;
}

static int yama_scope(void)
{
	FILE *file = input_kernel("/proc/sys/kernel/yama/ptrace_scope");
	int scope = 0;

	if (file) {
		if (fscanf(file, "%d", &scope) != 1)
			scope = 0;
		fclose(file);
	}
	return scope;
}

static void why_refused(struct woken *woken, const struct trace *trace)
{
	struct wake_thread now = { .tracer = 0 };
	int scope = yama_scope();

	if (wake_thread_read(&now, trace->thread.process, trace->thread.id) && now.tracer)
		why_traced(woken, &now);
	else if (trace->error == EPERM && scope)
		snprintf(woken->why_not, sizeof(woken->why_not),
			 "no permission to trace it: kernel.yama.ptrace_scope is %d%s", scope,
			 scope < 3 ? ", which takes CAP_SYS_PTRACE (root)" :
				     ", which allows nobody until the next boot");
	else if (trace->error == EPERM)
		/* Its memory could be opened, by the same right. */
		why(woken, "a seccomp filter (this command's container's) or a security module "
		    "refuses ptrace()%s", "");
	else
		why(woken, "it cannot be traced: %s", strerror(trace->error));
}

/* True: it was done, or no other thread will do better. */
static bool take(struct woken *woken, const struct candidate *candidate,
		 const struct trace *trace)
{
	switch (trace->end) {
	case TRACE_ANSWERED:
		woken->nr++;
		woken->ms += trace->ms;
		woken->thread = candidate->thread.id;
		snprintf(woken->name, sizeof(woken->name), "%s", candidate->thread.name);
		woken->call = candidate->call;
		*woken->why_not = '\0';
		return true;
	case TRACE_REFUSED:
		why_refused(woken, trace);
		return true;
	case TRACE_STOPPED:
		why(woken, "it is stopped%s", "");
		return true;
	case TRACE_LATE:
		why(woken, "its thread %s was woken, and has not come back; it goes on by "
		    "itself when it does", candidate->thread.name);
		return true;
	case TRACE_MOVED:
		why(woken, "its thread %s runs", candidate->thread.name);
		woken->ran = true;
		return false;
	case TRACE_INSIDE:
		why(woken, "its thread %s waits in a handler, or inside the library",
		    candidate->thread.name);
		return false;
	case TRACE_UNABLE:
		why(woken, "%s", trace->why);
		return false;
	case TRACE_ENDED:
		why(woken, "its thread %s has ended", candidate->thread.name);
		return false;
	}
	return false;
}

/* Of one PID namespace: else the kernel would take another process for this one. */
static bool proc_is_own(void)
{
	char text[32];
	ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

	text[length < 0 ? 0 : length] = '\0';
	return atoi(text) == (int)getpid();
}

static void try_threads(struct mailbox *mailbox, const struct process *process,
			struct trace *trace, const struct debug_mailbox *box)
{
	struct woken *woken = &mailbox->woken;
	struct candidate candidate;
	pid_t tried[TRIES];

	for (int nr = 0; nr < TRIES; nr++) {
		if (!choose(mailbox, process, tried, nr, &candidate, woken))
			return;
		*trace = (struct trace){
			.thread = candidate.thread, .kind = candidate.kind,
			.since = candidate.since, .memory = mailbox->memory, .box = box,
			.stack = candidate.stack, .seconds = SECONDS_MAX,
			.end = TRACE_ENDED,
		};
		if (!trace_by_child(trace)) {
			why(woken, "no child: %s", strerror(errno));
			return;
		}
		if (take(woken, &candidate, trace))
			return;
		tried[nr] = candidate.thread.id;
	}
}

void wake(struct mailbox *mailbox, const struct debug_mailbox *box)
{
	struct woken *woken = &mailbox->woken;
	struct process process;
	struct trace *trace;

	woken->ran = false;
	if (mailbox->source.state.is_static) {
		why(woken, "libslub is a part of the program, so it cannot be told where it "
		    "stands%s", "");
		return;
	}
	if (!box->wake) {
		why(woken, "its libslub cannot be woken (x86-64 alone)%s", "");
		return;
	}
	if (!proc_is_own()) {
		why(woken, "/proc is that of another PID namespace%s", "");
		return;
	}
	trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (trace == MAP_FAILED || process_open(&process, mailbox->source.process.pid)) {
		why(woken, "it has ended, or there is no memory%s", "");
	} else {
		try_threads(mailbox, &process, trace, box);
		process_close(&process);
	}
	if (trace != MAP_FAILED)
		munmap(trace, sizeof(*trace));
}
