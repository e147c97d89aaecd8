/* SPDX-License-Identifier: MIT */
/*
 * The clock, from the kernel's own code (vdso.c), for an allocator asks in the middle of a
 * request, where no function of the C library that others may replace is called.
 *
 * Where the kernel has no such code it is a system call, which a sandbox may refuse.  Then
 * time stands still for this library: what it last was is what it is, and nobody is asked again.
 */
#include <time.h>

#include "core/os/os.h"

/* CLOCK_REALTIME is 0, and the last that is asked for CLOCK_MONOTONIC_COARSE. */
#define CLOCKS (CLOCK_MONOTONIC_COARSE + 1)

static bool is_refused;		/* atomic */
static uint64_t last_ns[CLOCKS];	/* atomic; only where calls are made */

static uint64_t to_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static cold uint64_t clock_ask(int clock)
{
	struct timespec now = { 0, 0 };
	uint64_t *last = &last_ns[(unsigned int)clock % CLOCKS];

	if (__atomic_load_n(&is_refused, __ATOMIC_RELAXED))
		return __atomic_load_n(last, __ATOMIC_RELAXED);
	if (sys_call4(SYS_clock_gettime, clock, (long)&now, 0, 0)) {
		__atomic_store_n(&is_refused, true, __ATOMIC_RELAXED);
		return __atomic_load_n(last, __ATOMIC_RELAXED);
	}
	__atomic_store_n(last, to_ns(&now), __ATOMIC_RELAXED);
	return to_ns(&now);
}

uint64_t os_clock_read_ns(int clock)
{
	const struct os_vdso *kernel = os_vdso();
	struct timespec now = { 0, 0 };

	if (likely(kernel->clock_gettime && !kernel->clock_gettime(clock, &now)))
		return to_ns(&now);
	return clock_ask(clock);
}

uint64_t os_clock_ns(void)
{
	return os_clock_read_ns(CLOCK_MONOTONIC_COARSE);
}
