/* SPDX-License-Identifier: MIT */
/*
 * System calls made directly: the result is a value or -errno, and errno
 * itself is never touched (free() must keep it).
 */
#ifndef SLUB_BASE_SYSCALL_H
#define SLUB_BASE_SYSCALL_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/base/compiler.h"

#if defined(__clang_analyzer__) || SLUB_CONFIG_SCALE
/*
 * The analyzer takes what a call of another function is handed for written, and not so with
 * assembly; bench/scale counts system calls in its own.
 */
long sys_call6(long nr, long a, long b, long c, long d, long e, long f);
#elif SLUB_CPU_X86_64
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
#elif SLUB_CPU_AARCH64
static inline long sys_call6(long nr, long a, long b, long c, long d, long e,
			     long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ __volatile__("svc #0"
			     : "+r"(x0)
			     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4),
			       "r"(x5)
			     : "memory");
	return x0;
}
#else
/* The C library's: on its way through errno the result comes to the same. */
static inline long sys_call6(long nr, long a, long b, long c, long d, long e,
			     long f)
{
	extern long syscall(long nr, ...);
	int saved = errno;
	long ret = syscall(nr, a, b, c, d, e, f);

	if (ret == -1) {
		ret = -errno;
		errno = saved;
	}
	return ret;
}
#endif

static inline long sys_call4(long nr, long a, long b, long c, long d)
{
	return sys_call6(nr, a, b, c, d, 0, 0);
}

/* Did a call that returns addresses fail? */
static inline bool sys_has_failed(long ret)
{
	return ret < 0 && ret > -4096;
}

/* No child of exec() gets it. */
static inline long sys_open(const char *path, int flags, unsigned int mode)
{
	return sys_call4(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, mode);
}

static inline void sys_close(long fd)
{
	sys_call4(SYS_close, fd, 0, 0, 0);
}

static inline long sys_pid(void)
{
	return sys_call4(SYS_getpid, 0, 0, 0, 0);
}

static inline long sys_tid(void)
{
	return sys_call4(SYS_gettid, 0, 0, 0, 0);
}

/*
 * A futex that nobody wakes: a sandbox lets through what the C library's malloc makes, and
 * that is neither nanosleep nor sched_yield.
 */
static inline void sys_sleep_ns(uint64_t ns)
{
	struct timespec pause = { (long)(ns / 1000000000u), (long)(ns % 1000000000u) };
	uint32_t nobody = 0;

	sys_call4(SYS_futex, (long)&nobody, FUTEX_WAIT_PRIVATE, 0, (long)&pause);
}

/*
 * The @i-th wait for another thread that is in the middle of something.  At first it may be
 * over in a moment; but the other thread may have been preempted, on this very CPU: so then
 * sleep.
 */
#define WAIT_SPINS 8
#define SPIN_TURNS 32
#define WAIT_NS 50000

static inline void sys_wait(unsigned int i)
{
	if (i >= WAIT_SPINS || !SLUB_CONFIG_SMP) {
		sys_sleep_ns(WAIT_NS);
		return;
	}
	for (unsigned int turn = 0; turn < SPIN_TURNS; turn++)
		cpu_relax();
}

/*
 * The same for what may take long, and costs others something each time that it is looked
 * at: the sleep doubles every 64 waits, up to 1.6 ms.
 */
static inline void sys_wait_long(unsigned int i)
{
	unsigned int doubled = i < WAIT_SPINS ? 0 : (i - WAIT_SPINS) / 64;

	if (!doubled)
		sys_wait(i);
	else
		sys_sleep_ns((uint64_t)WAIT_NS << (doubled < 5 ? doubled : 5));
}

static inline long sys_futex(uint32_t *word, int op, uint32_t value)
{
	return sys_call4(SYS_futex, (long)word, op, (long)value, 0);
}

/* While it is @value, and for @ns at the most: 0, -EAGAIN, -EINTR, -ETIMEDOUT, or a refusal. */
static inline long sys_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec most = { (long)(ns / 1000000000u), (long)(ns % 1000000000u) };

	return sys_call4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)value, (long)&most);
}

#endif
