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

/* "max 100000" or "150000 100000": microseconds of CPU time per period. */
static uint32_t quota_of(const char *path)
{
	char buf[64];
	const char *s = buf;
	size_t quota, period;

	if (os_file_read(path, buf, sizeof(buf)) <= 0)
		return 0;
	quota = os_parse_number(&s);
	if (*s != ' ')
		return 0;
	s++;
	period = os_parse_number(&s);
	return quota && period ? (uint32_t)((quota + period - 1) / period) : 0;
}

/* The two files of cgroup v1: a quota of -1 means none. */
static uint32_t quota_v1(void)
{
	char buf[32];
	const char *s = buf;
	size_t quota, period;

	if (os_file_read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", buf,
			 sizeof(buf)) <= 0)
		return 0;
	quota = os_parse_number(&s);
	if (os_file_read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", buf,
			 sizeof(buf)) <= 0)
		return 0;
	s = buf;
	period = os_parse_number(&s);
	return quota && period ? (uint32_t)((quota + period - 1) / period) : 0;
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

uint32_t os_cpu_quota(void)
{
	/* Seen from inside a container, its own group is the root. */
	uint32_t quota = quota_of("/sys/fs/cgroup/cpu.max");

	return quota ? quota : quota_v1();
}

uint32_t os_cpu_current(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (uint32_t)cpu;
}

int os_cpu_pin(void)
{
	unsigned long mask[CPUS_MAX / 64] = { 0 };
	uint32_t cpu = os_cpu_current();

	mask[cpu / 64] = 1ul << cpu % 64;
	return (int)sys_call4(SYS_sched_setaffinity, 0, sizeof(mask),
			      (long)mask, 0);
}
