/* SPDX-License-Identifier: MIT */
/*
 * Cells: a system call of the library x an error that its manual page names x when it is refused.
 * The workload checks that nothing is damaged, that each refused request answers ENOMEM, and, once
 * the refusals have ended, that all of it works and its memory goes back.  Here the calls are
 * counted: a refusal is no reason to ask again and again.
 *
 * A new row is a new line of the table.  The calls are the shipped library's: a filter hands them
 * to this program, and those of the C library pass.
 */
#include "sweep/sweep.h"

#include <sys/syscall.h>
#include <sys/wait.h>

/* Not brk, which never fails; rseq and membarrier are refused from the start in modes/. */
static const struct refusable calls[] = {
	{ SYS_mmap, "mmap", { ENOMEM, EAGAIN, EEXIST, EINVAL, EPERM } },
	{ SYS_munmap, "munmap", { ENOMEM, EINVAL } },
	{ SYS_mremap, "mremap", { ENOMEM, EFAULT, EAGAIN, EINVAL, ENOSYS } },
	{ SYS_madvise, "madvise", { ENOMEM, EINVAL, EAGAIN, EPERM, EBADF, EIO } },
	{ SYS_mprotect, "mprotect", { ENOMEM, EACCES, EINVAL } },
	{ SYS_mincore, "mincore", { ENOMEM, EAGAIN, EINVAL } },
	{ SYS_membarrier, "membarrier", { EPERM, ENOSYS, EINVAL } },
	{ SYS_rseq, "rseq", { ENOSYS, EPERM, EINVAL } },
	{ SYS_prlimit64, "prlimit64", { EPERM, EINVAL, ENOSYS } },
	{ SYS_openat, "openat", { EMFILE, ENOENT, EACCES, ENOMEM } },
	{ SYS_read, "read", { EIO, EINTR, EINVAL } },
	{ SYS_process_vm_readv, "process_vm_readv", { EPERM, ENOSYS, EFAULT } },
	{ SYS_gettid, "gettid", { EPERM, ENOSYS } },
	{ SYS_getpid, "getpid", { EPERM, ENOSYS } },
	{ SYS_mbind, "mbind", { EPERM, ENOSYS, EINVAL, ENOMEM } },
	{ SYS_sched_yield, "sched_yield", { ENOSYS, EPERM } },
	{ SYS_getrandom, "getrandom", { ENOSYS, EAGAIN, EPERM } },
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

static const char *const turn_names[] = { "none", "always", "second", "from" };

/*
 * A workload of 1,800 requests makes few calls; one request that is refused may make
 * CALLS_OF_REQUEST of a kind for one place, whatever the error is, and its frees make none.
 */
#define CALLS_FACTOR 4
#define CALLS_OF_REQUEST 16
#define CALLS_MORE (CALLS_OF_REQUEST * 1800)

static bool is_patient(const struct outcome *outcome)
{
	return outcome->most <= CALLS_OF_REQUEST;
}

static bool cell(const char *library, struct plan *plan, unsigned long usual)
{
	unsigned long most = usual * CALLS_FACTOR + CALLS_MORE;
	struct outcome outcome;
	bool good;

	supervise(library, plan, &outcome);
	good = WIFEXITED(outcome.status) && !WEXITSTATUS(outcome.status) &&
	       outcome.calls <= most && is_patient(&outcome);
	printf("%s %-16s %-8s %-6s %6lu calls, %6lu refused, %6lu usual, %3lu at most\n",
	       good ? "good" : "FAIL", plan->call->name, strerrorname_np(plan->error),
	       turn_names[plan->turn], outcome.calls, outcome.failures, usual,
	       outcome.most);
	if (!good && outcome.calls > most)
		printf("FAIL: more than %lu calls\n", most);
	else if (!good && !is_patient(&outcome))
		printf("FAIL: more than %d calls of one request for one place\n", CALLS_OF_REQUEST);
	else if (!good)
		printf("FAIL: status %#x\n", outcome.status);
	return good;
}

/* Of what is asked for memory: refused from the first on, from the second, and so on. */
#define EACH_CALL_MOST 64

static bool is_for_memory(const struct refusable *call)
{
	return call->number == SYS_mmap || call->number == SYS_munmap ||
	       call->number == SYS_mremap || call->number == SYS_madvise ||
	       call->number == SYS_mprotect;
}

static unsigned long from_each_call(const char *library, struct plan *plan, unsigned long usual,
				    unsigned long *cells)
{
	unsigned long bad = 0;

	plan->turn = TURN_FROM;
	plan->error = plan->call->errors[0];
	for (unsigned long k = 1; k <= usual && k <= EACH_CALL_MOST; k++) {
		plan->turn_from = k;
		bad += !cell(library, plan, usual);
		++*cells;
	}
	return bad;
}

unsigned long refusals(const char *library, bool all)
{
	unsigned long bad = 0, cells = 0;

	for (unsigned int i = 0; i < CALLS; i++) {
		const char *only = fire_opt_str("only", calls[i].name);
		struct plan plan = { .from = FROM_LIBRARY, .call = &calls[i] };
		struct outcome usual;

		if (strcmp(only, calls[i].name))
			continue;
		supervise(library, &plan, &usual);
		if (!usual.calls)
			continue;	/* not made in this mode */
		plan.turn_from = usual.calls / 3 + 1;
		for (int e = 0; e < (all ? 6 : 1) && calls[i].errors[e]; e++) {
			plan.error = calls[i].errors[e];
			for (plan.turn = TURN_ALWAYS; plan.turn < TURNS; plan.turn++) {
				bad += !cell(library, &plan, usual.calls);
				cells++;
			}
		}
		if (all && is_for_memory(&calls[i]))
			bad += from_each_call(library, &plan, usual.calls, &cells);
	}
	printf("%lu cells, %lu of them bad\n", cells, bad);
	if (!cells)
		fire_fail("the library made no call: is it %s?", library);
	return bad;
}
