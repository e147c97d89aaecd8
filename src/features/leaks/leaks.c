/* SPDX-License-Identifier: MIT */
/*
 * slub_leaks_find(): the search by reachability, from inside.
 *
 *   program                              child
 *   +------------------------------+     +--------------------------------------+
 *   | stack pointers of threads    |     |                                      |
 *   | signals wait; clone -------- | --> | objects, roots, marks, groups        |
 *   | signals; waits for the child | <-- | leaks, in memory that both have      |
 *   | visits                       |     | ends                                 |
 *   +------------------------------+     +--------------------------------------+
 *
 * The child has a copy of memory as of one moment, which nobody changes; so the search needs no
 * lock, stops no thread, and cannot be overtaken by a pointer on its way from one place to another.
 * It is made by the system call and not by fork(): no handler of the program's runs, no lock of the
 * C library is taken, and with no signal at its end no wait() of the program's sees it.
 *
 * LEAK-1  holds for all that runs here behind child_run(); signals are blocked there for good.
 */
#define _GNU_SOURCE
#include "features/leaks/leak.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <slub/leaks.h>

/* What a compiler may have saved of registers right below the frame that it names. */
#define SAVED_BYTES (SLUB_CPU_X86_64 ? 64 : 192)
#define NAME_LARGE "malloc-large"

/* The process that searches; 0: none.  A child of a fork may find its parent's number. */
static _Atomic uint32_t searching;

static bool search_begin(void)
{
	uint32_t pid = (uint32_t)sys_pid(), now = 0;

	/* Twice: it may be of the process before a fork. */
	for (int i = 0; i < 2; i++) {
		if (__atomic_compare_exchange_n(&searching, &now, pid, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
		if (now == pid)
			return false;
	}
	return false;
}

static void search_end(void)
{
	__atomic_store_n(&searching, 0, __ATOMIC_RELEASE);
}

/* ---- the child ---- */

static long search_run(struct leak_shared *shared, uintptr_t stack)
{
	struct leak_search search = { .shared = shared };
	int error = leak_index(&search);

	if (error)
		return error;
	leak_mark_own(&search);
	error = leak_roots(&search, stack);
	if (error)
		return error;
	leak_mark_rest(&search);
	return (long)leak_group(&search);
}

/* What it breaks on leaves no core file; and it ends with its parent. */
static void child_run(struct leak_shared *shared, uintptr_t stack)
{
	struct rlimit none = { 0, 0 };

	sys_call4(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	sys_call4(SYS_prlimit64, 0, RLIMIT_CORE, (long)&none, 0);
	shared->result = search_run(shared, stack);
	/* release: pairs with the acquire in child_wait() */
	__atomic_store_n(&shared->is_done, 1, __ATOMIC_RELEASE);
	for (;;)
		sys_call4(SYS_exit_group, 0, 0, 0, 0);
}

/* Its number or -errno. */
static long child_start(struct leak_shared *shared, uintptr_t stack)
{
	uint64_t all = ~UINT64_C(0), before = 0;
	long pid;

	sys_call4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all));
	pid = sys_call6(SYS_clone, 0, 0, 0, 0, 0, 0);
	if (!pid)
		child_run(shared, stack);
	sys_call4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before));
	return pid;
}

/* What it found, or -errno. */
static long child_wait(const struct leak_shared *shared, long pid)
{
	while (sys_call4(SYS_wait4, pid, 0, __WALL, 0) == -EINTR)
		;
	/* acquire: pairs with the release in child_run() */
	return __atomic_load_n(&shared->is_done, __ATOMIC_ACQUIRE) ? shared->result : -EIO;
}

/* ---- the caller ---- */

typedef int leak_visitor(const struct slub_leak *leak, void *arg);

static void name_copy(const struct slub_cache *cache, char name[SLUB_CACHE_NAME_MAX + 1])
{
	if (!cache)
		memcpy(name, NAME_LARGE, sizeof(NAME_LARGE));
	else if (!cache_name_copy(cache_original((struct slub_cache *)cache), name))
		name[0] = '\0';
}

static void visit_all(const struct leak_shared *shared, leak_visitor *visit, void *arg)
{
	char name[SLUB_CACHE_NAME_MAX + 1];

	for (size_t i = 0; i < shared->nr_found; i++) {
		const struct leak_found *found = &shared->found[i];
		struct slub_leak leak = {
			.object = (void *)found->object, .bytes = found->bytes,
			.beneath = found->beneath, .beneath_bytes = found->beneath_bytes,
			.cache = name, .is_ring = found->is_ring,
		};

		name_copy(found->cache, name);
		leak.frames = stack_frames(found->stack, &leak.nr_frames);
		if (visit(&leak, arg))
			return;
	}
}

static struct leak_shared *shared_make(void)
{
	long ret = sys_call6(SYS_mmap, 0, sizeof(struct leak_shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sys_has_failed(ret) ? NULL : (void *)ret;
}

static long find_shared(struct leak_shared *shared, uintptr_t stack, leak_visitor *visit,
			void *arg)
{
	long result;

	shared->arg = (uintptr_t)arg;
	leak_threads(shared);
	result = child_start(shared, stack);
	if (result < 0)
		return result;
	/* Another fork of the program's has no use for it. */
	sys_call4(SYS_madvise, (long)shared, sizeof(*shared), MADV_DONTFORK, 0);
	result = child_wait(shared, result);
	if (result > 0 && visit)
		visit_all(shared, visit, arg);
	return result;
}

static cold long find(uintptr_t stack, leak_visitor *visit, void *arg)
{
	struct leak_shared *shared;
	long result = -ENOMEM;

	if (SLUB_CONFIG_HARDENED)
		return -ENOTSUP;
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!slub_start())
		return -ENOMEM;
	if (!search_begin())
		return -EBUSY;
	shared = shared_make();
	if (shared) {
		result = find_shared(shared, stack, visit, arg);
		os_unreserve(shared, sizeof(*shared));
	}
	search_end();
	return result;
}

SLUB_EXPORT long slub_leaks_find(leak_visitor *visit, void *arg)
{
	long result;

	/* All registers that calls keep lie in this frame then. */
	__builtin_unwind_init();
	result = find((uintptr_t)__builtin_frame_address(0) - SAVED_BYTES, visit, arg);
	/* No jump in place of the call: the frame stays. */
	compiler_barrier();
	return result;
}
