/* SPDX-License-Identifier: MIT */
/* How many CPUs there are, may be used, and which one this is. */
#include "core/os/os.h"

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
	long bytes = os_is_filtered ? -ENOSYS :
		     sys_call4(SYS_sched_getaffinity, 0, sizeof(mask), (long)mask, 0);
	uint32_t n = 0;

	for (long i = 0; i < bytes / (long)sizeof(mask[0]); i++)
		n += (uint32_t)__builtin_popcountl(mask[i]);
	cpus->allowed = n ? n : 1;
	cpus->possible = bytes > 0 && bytes <= BOUND_ENOUGH / 8 ?
			 (uint32_t)bytes * 8 : os_cpus_possible();
}

/* Without entering the kernel where that is possible; 0 and 0 where it refuses. */
static void cpu_ask(unsigned int *cpu, unsigned int *node)
{
	const struct os_vdso *vdso = os_vdso();

	*cpu = *node = 0;
	if (!vdso->getcpu || vdso->getcpu(cpu, node, NULL))
		sys_call4(SYS_getcpu, (long)cpu, (long)node, 0, 0);
}

/* The area of this thread says it, too: on aarch64 a system call less. */
uint32_t os_cpu_current(void)
{
	int32_t known = os_rseq_cpu();
	unsigned int cpu, node;

	if (known >= 0)
		return (uint32_t)known;
	cpu_ask(&cpu, &node);
	return cpu;
}

uint32_t os_cpu_node(void)
{
	unsigned int cpu, node;

	cpu_ask(&cpu, &node);
	return node;
}

void os_cpu_pin(void)
{
	unsigned long mask[CPUS_MAX / 64] = { 0 };
	uint32_t cpu = os_cpu_current();

	mask[cpu / 64] = 1ul << cpu % 64;
	sys_call4(SYS_sched_setaffinity, 0, sizeof(mask), (long)mask, 0);
}
