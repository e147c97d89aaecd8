/* SPDX-License-Identifier: MIT */
/* How many CPUs there are, may be used, and which one this is. */
#define _GNU_SOURCE
#include <sched.h>

#include "os/os.h"

#define CPUS_MAX 8192

uint32_t os_cpus_possible(void)
{
	uint32_t end = os_list_end("/sys/devices/system/cpu/possible");

	return end && end <= CPUS_MAX ? end : CPUS_MAX;
}

/* The kernel copies out as many bits as there can be CPUs, and some more. */
#define BOUND_ENOUGH 512

void os_cpus_read(struct os_cpus *cpus)
{
	unsigned long mask[CPUS_MAX / 64];
	long bytes = sys_call4(SYS_sched_getaffinity, 0, sizeof(mask),
			       (long)mask, 0);
	uint32_t n = 0;

	for (long i = 0; i < bytes / (long)sizeof(mask[0]); i++)
		n += (uint32_t)__builtin_popcountl(mask[i]);
	cpus->allowed = n ? n : 1;
	cpus->possible = bytes > 0 && bytes <= BOUND_ENOUGH / 8 ?
			 (uint32_t)bytes * 8 : os_cpus_possible();
}

uint32_t os_cpu_current(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (uint32_t)cpu;
}

void os_cpu_pin(void)
{
	unsigned long mask[CPUS_MAX / 64] = { 0 };
	uint32_t cpu = os_cpu_current();

	mask[cpu / 64] = 1ul << cpu % 64;
	sys_call4(SYS_sched_setaffinity, 0, sizeof(mask), (long)mask, 0);
}
