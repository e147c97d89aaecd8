/* SPDX-License-Identifier: MIT */
/*
 * System calls made directly: the result is a value or -errno, and errno
 * itself is never touched (free() must keep it).
 */
#ifndef SLUB_BASE_SYSCALL_H
#define SLUB_BASE_SYSCALL_H

#include <sys/syscall.h>

#include "base/compiler.h"

static inline long sys_call6(long nr, long a, long b, long c, long d, long e,
			     long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ __volatile__("syscall"
			     : "=a"(ret)
			     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10),
			       "r"(r8), "r"(r9)
			     : "rcx", "r11", "memory");
	return ret;
}

static inline long sys_call4(long nr, long a, long b, long c, long d)
{
	return sys_call6(nr, a, b, c, d, 0, 0);
}

static inline long sys_futex(uint32_t *word, int op, uint32_t value)
{
	return sys_call4(SYS_futex, (long)word, op, (long)value, 0);
}

#endif
