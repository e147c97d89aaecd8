/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "instructions.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int counter_open(uint64_t config)
{
	struct perf_event_attr event;

	memset(&event, 0, sizeof(event));
	event.size = sizeof(event);
	event.type = PERF_TYPE_HARDWARE;
	event.config = config;
	event.exclude_kernel = 1;
	event.exclude_hv = 1;
	return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int instructions_open(void)
{
	return counter_open(PERF_COUNT_HW_INSTRUCTIONS);
}

int clock_cycles_open(void)
{
	return counter_open(PERF_COUNT_HW_CPU_CYCLES);
}

uint64_t counter_read(int counter)
{
	uint64_t count = 0;

	if (counter < 0 || read(counter, &count, sizeof(count)) != sizeof(count))
		return 0;
	return count;
}

void counter_close(int counter)
{
	if (counter >= 0)
		close(counter);
}
