/* SPDX-License-Identifier: MIT */
/* What the tests of trails share: a ring in this process, which is read as that of another one. */
#ifndef TOOL_TRAILS_H
#define TOOL_TRAILS_H

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"
#include "in_use.h"
#include "profile.h"
#include "profile_trail.h"
#include "slub.h"

#define NR_SLOTS 48
#define WHOLE	 1	/* trail.flags */

static struct trail_ring ring;
static _Alignas(16) char slots[NR_SLOTS][TRAIL_SLOT_BYTES];
static int memory;

static struct profile_trail *slot_of(uint64_t number)
{
	return (struct profile_trail *)slots[number % ring.nr_slots];
}

static void begin(void)
{
	memset(slots, 0, sizeof(slots));
	ring = (struct trail_ring){
		.version = TRAIL_VERSION, .is_on = 1, .nr_slots = NR_SLOTS,
		.slot_bytes = TRAIL_SLOT_BYTES, .slots = (uintptr_t)slots,
	};
	memcpy(ring.magic, TRAIL_MAGIC, sizeof(ring.magic));
}

static void write_trail(uint64_t number, uint32_t stack, const uint64_t *frames, size_t nr)
{
	struct profile_trail *trail = slot_of(number);

	*trail = (struct profile_trail){
		.state = 2 * number, .weight = 256 * number, .bytes = 1000 * number,
		.site_stack = stack, .flags = WHOLE, .sp = 7,
		.copy_bytes = nr * sizeof(*frames),
	};
	memcpy(trail->copy, frames, nr * sizeof(*frames));
}

static const uint64_t plain[] = { 0x10, 0x1000, 0x2000, 0x3000 };

static void draw(void)
{
	write_trail(++ring.drawn, 5, plain, 4);
}

static void test_all(void);

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	memory = open("/proc/self/mem", O_RDWR);
	if (memory < 0) {
		puts("the test needs /proc");
		return 77;
	}
	do_twice(test_all);
	close(memory);
	return failures != 0;
}

#endif
