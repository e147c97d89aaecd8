/* SPDX-License-Identifier: MIT */
/*
 * A kernel that has registered every thread, each on a CPU of its own: the sequences run, and
 * nothing interrupts them.  For CPUs whose emulator has no rseq(2).  No CPU can be stopped.
 */
#include "slub.h"

#include <errno.h>

namespace {

/* What the kernel would fill in. */
alignas(32) __thread uint32_t area[8] __attribute__((tls_model("initial-exec")));
uint32_t nr_threads;

} /* namespace */

extern "C" void os_rseq_read(struct os_rseq *rseq)
{
	rseq->available = true;
	rseq->is_ours = false;
	rseq->has_mm_cid = true;
	rseq->offset = (uintptr_t)area - (uintptr_t)__builtin_thread_pointer();
}

extern "C" bool os_rseq_is_registered(void)
{
	if (!area[RSEQ_CPU_ID_START / 4])
		area[RSEQ_CPU_ID_START / 4] = __atomic_add_fetch(&nr_threads, 1, __ATOMIC_RELAXED);
	area[RSEQ_CPU_ID / 4] = area[RSEQ_CPU_ID_START / 4];
	area[RSEQ_MM_CID / 4] = area[RSEQ_CPU_ID_START / 4];
	return true;
}

extern "C" bool os_rseq_register(void)
{
	return false;
}

extern "C" void os_rseq_unregister(void)
{
}

extern "C" bool os_thread_is_first(void)
{
	return sys_call4(SYS_gettid, 0, 0, 0, 0) == sys_call4(SYS_getpid, 0, 0, 0, 0);
}

extern "C" int32_t os_rseq_cpu(void)
{
	return -1;
}

extern "C" bool os_rseq_has_cpu(void)
{
	return true;
}

extern "C" bool os_membarrier_register(void)
{
	return false;
}

extern "C" int os_barrier_rseq(void)
{
	return -ENOSYS;
}

extern "C" int os_barrier(void)
{
	return -ENOSYS;
}
