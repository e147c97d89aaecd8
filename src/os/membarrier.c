/* SPDX-License-Identifier: MIT */
/*
 * membarrier(2): one thread pays so that the others' fast path need not.
 * Must be registered once, and again in a forked child.
 */
#include <linux/membarrier.h>

#include "os/os.h"

/* Linux 5.10; newer than some headers. */
#define CMD_EXPEDITED		(1 << 3)
#define CMD_REGISTER_EXPEDITED	(1 << 4)
#define CMD_RSEQ		(1 << 7)
#define CMD_REGISTER_RSEQ	(1 << 8)

static long os_membarrier(int cmd)
{
	return sys_call4(SYS_membarrier, cmd, 0, 0, 0);
}

bool os_membarrier_register(void)
{
	return os_membarrier(CMD_REGISTER_EXPEDITED) == 0 &&
	       os_membarrier(CMD_REGISTER_RSEQ) == 0;
}

int os_barrier_rseq(void)
{
	return (int)os_membarrier(CMD_RSEQ);
}

int os_barrier(void)
{
	return (int)os_membarrier(CMD_EXPEDITED);
}
