/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "instructions.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int instructions_open(void)
{
	struct perf_event_attr event;

	memset(&event, 0, sizeof(event));
	event.size = sizeof(event);
	event.type = PERF_TYPE_HARDWARE;
	event.config = PERF_COUNT_HW_INSTRUCTIONS;
	event.exclude_kernel = 1;
	event.exclude_hv = 1;
	return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

uint64_t instructions_read(int counter)
{
	uint64_t count = 0;

	if (counter < 0 || read(counter, &count, sizeof(count)) != sizeof(count))
		return 0;
	return count;
}

void instructions_close(int counter)
{
	if (counter >= 0)
		close(counter);
}
