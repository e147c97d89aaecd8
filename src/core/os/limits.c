/* SPDX-License-Identifier: MIT */
/* How much memory and address space the process may use. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "core/os/os.h"

/*
 * A start makes 12 MiB writable, 8 MiB of heap and the per-CPU bitmaps among them.  Where
 * RLIMIT_DATA is but a few times that, idle memory is not to be kept.
 */
#define DATA_TIGHT_BYTES ((size_t)64 << 20)

#define MEMORY_UNKNOWN ((size_t)4 << 30)

/* "MemTotal:       24631316 kB" is its first line. */
static cold size_t memory_in_file(void)
{
	char line[64];
	const char *s = line;
	size_t kib;

	if (os_file_read("/proc/meminfo", line, sizeof(line)) <= 0)
		return MEMORY_UNKNOWN;
	while (*s && (*s < '0' || *s > '9'))
		s++;
	kib = os_parse_number(&s);
	return kib ? kib << 10 : MEMORY_UNKNOWN;
}

static size_t machine_memory(void)
{
	struct sysinfo info;
	long ret = os_is_filtered ? -ENOSYS : sys_call4(SYS_sysinfo, (long)&info, 0, 0, 0);

	if (ret < 0)
		return memory_in_file();
	return (size_t)info.totalram * info.mem_unit;
}

/* SIZE_MAX: there is none. */
static size_t resource_limit(int resource)
{
	struct rlimit rlimit = { RLIM_INFINITY, RLIM_INFINITY };

	sys_call4(SYS_prlimit64, 0, resource, 0, (long)&rlimit);
	return rlimit.rlim_cur == RLIM_INFINITY ? SIZE_MAX :
						  (size_t)rlimit.rlim_cur;
}

/* As of the last time that the kernel was asked. */
static _Atomic size_t address_limit = SIZE_MAX;

size_t os_address_limit(void)
{
	return __atomic_load_n(&address_limit, __ATOMIC_RELAXED);
}

size_t os_address_limit_ask(void)
{
	size_t bytes = resource_limit(RLIMIT_AS);

	__atomic_store_n(&address_limit, bytes, __ATOMIC_RELAXED);
	return bytes;
}

void os_limits_read(struct os_limits *limits)
{
	size_t data = resource_limit(RLIMIT_DATA);

	limits->memory_bytes = machine_memory();
	limits->address_bytes = os_address_limit_ask();
	if (data < DATA_TIGHT_BYTES)
		limits->address_bytes = min_size(limits->address_bytes, data);
}
