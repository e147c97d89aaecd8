/* SPDX-License-Identifier: MIT */
/*
 * membarrier(2): one thread pays so that the others' fast path need not.
 *
 * It must be registered once; a child of a fork is registered as its parent was.  At the start,
 * for in a process of several threads it takes a grace period of the kernel (28 ms with eight
 * threads) and before the second thread none; but under a filter when the first barrier is wanted.
 */
#include <linux/membarrier.h>

#include "core/os/os.h"

/* Linux 5.10; newer than some headers. */
#define CMD_EXPEDITED		(1 << 3)
#define CMD_REGISTER_EXPEDITED	(1 << 4)
#define CMD_RSEQ		(1 << 7)
#define CMD_REGISTER_RSEQ	(1 << 8)

static long os_membarrier(int cmd)
{
	return sys_call4(SYS_membarrier, cmd, 0, 0, 0);
}

static bool register_now(void)
{
	return os_membarrier(CMD_REGISTER_EXPEDITED) == 0 &&
	       os_membarrier(CMD_REGISTER_RSEQ) == 0;
}

bool os_membarrier_register(void)
{
	return os_is_filtered || register_now();
}

/* EPERM: it is not registered, or a filter says so. */
static cold int barrier(int cmd)
{
	long ret = os_membarrier(cmd);

	if (unlikely(ret == -EPERM) && register_now())
		ret = os_membarrier(cmd);
	return (int)ret;
}

cold int os_barrier_rseq(void)
{
	return barrier(CMD_RSEQ);
}

cold int os_barrier(void)
{
	return barrier(CMD_EXPEDITED);
}
