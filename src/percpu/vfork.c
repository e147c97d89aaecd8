/* SPDX-License-Identifier: MIT */
/*
 * vfork() and clone(): a child that shares its parent's thread-local storage
 * is not registered with the kernel, yet finds the parent's registration, with
 * the CPU number where the parent stopped.  No sequence may run in it, so
 * both functions put the thread on the dummy table first.  The parent of a
 * vfork child sleeps meanwhile and gets its table back when it wakes up.
 *
 * A child made by a system call of the program's own, without these
 * functions, cannot be seen; it shares errno with its parent just as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>

#include "percpu/percpu.h"

#include "percpu/percpu_internal.h"

/* In slub_thread: the table, and behind it locks_held and flags. */
_Static_assert(offsetof(struct thread_state, cpu_base) == 0, "assembly below");
_Static_assert(offsetof(struct thread_state, flags) == 12, "assembly below");

/* Called by the assembly below; saves into two words of the caller. */
__attribute__((visibility("hidden"), used))
void slub_vfork_enter(uintptr_t saved[2])
{
	saved[0] = (uintptr_t)slub_thread.cpu_base;
	saved[1] = slub_thread.flags;
	if (percpu_backend == BACKEND_RSEQ) {
		slub_thread.cpu_base = slub_dummy_base;
		slub_thread.flags |= THREAD_CHECKED;
	}
}

__attribute__((visibility("hidden"), used))
long slub_vfork_leave(long ret, uintptr_t table, uintptr_t flags)
{
	slub_thread.cpu_base = (void **)table;
	slub_thread.flags = (uint32_t)flags;
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

/*
 * The child runs on the parent's stack and returns from here first; it may
 * overwrite everything above the stack pointer, so what the parent needs
 * afterwards stays in registers: the return address, and what
 * slub_vfork_enter() saved.
 */
#if defined(__x86_64__)
__asm__(".pushsection .text\n\t"
	".globl vfork\n\t.type vfork, @function\n"
	".globl __vfork\n\t.type __vfork, @function\n"
	"vfork:\n__vfork:\n\t"
	"subq $24, %rsp\n\t"
	"movq %rsp, %rdi\n\t"
	"call slub_vfork_enter\n\t"
	"movq (%rsp), %r8\n\t"		/* table */
	"movq 8(%rsp), %r9\n\t"		/* flags */
	"addq $24, %rsp\n\t"
	"popq %r10\n\t"			/* return address */
	"movl $58, %eax\n\t"		/* SYS_vfork */
	"syscall\n\t"
	"pushq %r10\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"			/* the child */
	"movq %rax, %rdi\n\t"
	"movq %r8, %rsi\n\t"
	"movq %r9, %rdx\n\t"
	"jmp slub_vfork_leave\n"
	"1:\tret\n\t"
	".size vfork, .-vfork\n\t"
	".popsection");
#endif

typedef int clone_function(int (*)(void *), void *, int, void *, ...);

static clone_function *real_clone(void)
{
	static clone_function *found;

	if (!found)
		found = (clone_function *)dlsym(RTLD_NEXT, "clone");
	return found;
}

SLUB_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg,
		      ...);

SLUB_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg,
		      ...)
{
	bool shares_tls = (flags & CLONE_VM) && !(flags & CLONE_SETTLS);
	clone_function *next = real_clone();
	uintptr_t saved[2];
	va_list args;
	void *parent_tid, *tls, *child_tid;
	int ret;

	va_start(args, arg);
	parent_tid = va_arg(args, void *);
	tls = va_arg(args, void *);
	child_tid = va_arg(args, void *);
	va_end(args);
	if (!next) {
		errno = ENOSYS;
		return -1;
	}
	if (!shares_tls)
		return next(fn, stack, flags, arg, parent_tid, tls, child_tid);
	slub_vfork_enter(saved);
	ret = next(fn, stack, flags, arg, parent_tid, tls, child_tid);
	/* Without CLONE_VFORK both go on at once: stay off the fast path. */
	if ((flags & CLONE_VFORK) || ret < 0) {
		slub_thread.cpu_base = (void **)saved[0];
		slub_thread.flags = (uint32_t)saved[1];
	}
	return ret;
}
