/* SPDX-License-Identifier: MIT */
/*
 * clone(): a child with memory of its own is a fork, and needs the library's
 * locks held around it just as much, although the C library runs no handlers
 * for it.  A child that shares memory and thread-local storage is a vfork in
 * other words; see core/percpu/vfork.c.
 *
 * Tests: tests/contract/fork_test.cc, tests/contract/deepbind_test.cc.
 * Page: docs/internals/locking.md.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdarg.h>

#include "core/malloc/malloc.h"

#if defined(__GLIBC__)	/* musl does not say where its own is */

typedef int child_function(void *arg);

/* The C library's own name for it, in the shared and the static library. */
extern int __clone(child_function *fn, void *stack, int flags, void *arg, ...);

struct clone_call {
	child_function *fn;
	void *stack;
	int flags;
	void *arg;
	void *parent_tid;
	void *tls;
	void *child_tid;
};

static int clone_call(const struct clone_call *call)
{
	return __clone(call->fn, call->stack, call->flags, call->arg,
		       call->parent_tid, call->tls, call->child_tid);
}

/* Runs in the child, on a copy of the caller's memory. */
static int forked_child(void *arg)
{
	const struct clone_call *call = arg;

	slub_fork_finish(true);
	return call->fn(call->arg);
}

static int clone_copied(const struct clone_call *call)
{
	struct clone_call inner = *call;
	int ret;

	inner.fn = forked_child;
	inner.arg = (void *)call;
	slub_fork_prepare();
	ret = clone_call(&inner);
	slub_fork_finish(false);
	return ret;
}

static int clone_shared(const struct clone_call *call)
{
	uintptr_t saved[2];
	int ret;

	percpu_share(saved);
	ret = clone_call(call);
	/* Without CLONE_VFORK both go on at once: stay off the fast path. */
	if ((call->flags & CLONE_VFORK) || ret < 0)
		percpu_unshare(saved);
	return ret;
}

/* Runs in a child with thread-local storage of its own, on its own stack. */
static int numberless_child(void *arg)
{
	const struct clone_call *call = arg;

	/* It will not run the exit handler that gives a number back. */
	slub_thread.flags |= THREAD_CHECKED;
	return call->fn(call->arg);
}

static int clone_threaded(const struct clone_call *call)
{
	struct clone_call inner = *call;
	struct clone_call *kept;

	if (percpu_backend != BACKEND_THREAD)
		return clone_call(call);
	/* At the top of the child's stack, for the caller's may be gone. */
	kept = (void *)round_down((uintptr_t)call->stack - sizeof(*kept), 64);
	*kept = *call;
	inner.fn = numberless_child;
	inner.arg = kept;
	inner.stack = kept;
	return clone_call(&inner);
}

SLUB_EXPORT int clone(child_function *fn, void *stack, int flags, void *arg,
		      ...)
{
	struct clone_call call = { fn, stack, flags, arg, NULL, NULL, NULL };
	va_list args;

	va_start(args, arg);
	call.parent_tid = va_arg(args, void *);
	call.tls = va_arg(args, void *);
	call.child_tid = va_arg(args, void *);
	va_end(args);
	/* EINVAL; what is put in their place here would hide it. */
	if (!fn || !stack)
		return clone_call(&call);
	if (!(flags & CLONE_VM))
		return clone_copied(&call);
	if (flags & CLONE_SETTLS)
		return clone_threaded(&call);
	return clone_shared(&call);
}

#endif
