/* SPDX-License-Identifier: MIT */
/*
 * May this thread be in a signal handler?
 *
 * The kernel keeps no record of that: a handler is a frame on a stack.  But it blocks
 * the signal while its handler runs, unless SA_NODEFER was asked for, so a thread that
 * blocks no signal that has a handler is in none.  A handler on a stack of its own is known for
 * certain, with SA_NODEFER too.
 */
#include "core/os/os.h"

#include "core/base/syscall.h"

#include <signal.h>

/* As the kernel has it; the C library's differs. */
struct kernel_action {
	uintptr_t handler;
	unsigned long flags;
	uintptr_t restorer;
	uint64_t mask;
};

bool os_is_on_signal_stack(void)
{
	stack_t stack = { .ss_flags = 0 };

	return !sys_call4(SYS_sigaltstack, 0, (long)&stack, 0, 0) &&
	       stack.ss_flags & SS_ONSTACK;
}

static bool has_handler(int number)
{
	struct kernel_action action = { .handler = 0 };

	return !sys_call4(SYS_rt_sigaction, number, 0, (long)&action,
			  sizeof(action.mask)) &&
	       action.handler != (uintptr_t)SIG_DFL &&
	       action.handler != (uintptr_t)SIG_IGN;
}

cold bool os_blocks_handled_signal(void)
{
	uint64_t blocked = 0;

	if (sys_call4(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&blocked,
		      sizeof(blocked)))
		return true;
	for (; blocked; blocked &= blocked - 1) {
		if (has_handler(__builtin_ctzll(blocked) + 1))
			return true;
	}
	return false;
}
