/* SPDX-License-Identifier: MIT */
/* How much memory and address space the process may use. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "os/os.h"

static size_t machine_memory(void)
{
	struct sysinfo info;
	long ret = sys_call4(SYS_sysinfo, (long)&info, 0, 0, 0);

	if (ret < 0)
		return (size_t)4 << 30;
	return (size_t)info.totalram * info.mem_unit;
}

void os_limits_read(struct os_limits *limits)
{
	struct rlimit rlimit = { RLIM_INFINITY, RLIM_INFINITY };

	sys_call4(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&rlimit);
	limits->memory_bytes = machine_memory();
	limits->address_bytes = rlimit.rlim_cur == RLIM_INFINITY ?
				SIZE_MAX : (size_t)rlimit.rlim_cur;
}
