/* SPDX-License-Identifier: MIT */
/* Objects between guard pages, and the stacks of tracks. */
#include <string.h>

#include "made.h"

/* Where nothing is, and 4 bytes into made_ctor(). */
const uint64_t made_frames[4] = { 0x700000001000, 0x700000002000, 0x700000003000, 0 };

static struct guard_place places[6], more_places[1];

/* Records of 16 bytes and their frames; number n lies n * 16 behind. */
static struct {
	char unused[32];
	struct {
		uint32_t next, hash, nr, unused;
		uint64_t frames[3];
		uint64_t room;
	} records[2];
} stacks;

/* After the start by half a second: clock_offset_ns is the rest. */
static struct track track(uint64_t ms, uint32_t stack, uint32_t thread, uint32_t cpu)
{
	return (struct track){ .caller = made_frames[0], .when_ns = ms * 1000000, .stack = stack,
			       .thread = thread, .cpu = cpu };
}

static struct guard_place place(uint32_t n, uint64_t bytes, uint32_t state, uint32_t errors,
				int cache)
{
	struct guard_place made = {
		.object = GUARDED + 4096 + n * 8192 + 4096 - bytes, .bytes = bytes,
		.state = state, .errors = errors,
		.cache = cache < 0 ? 0 : (uintptr_t)&made_caches[cache],
	};

	strncpy(made.name, cache < 0 ? "large" : made_names[cache], sizeof(made.name) - 1);
	if (state != GUARD_NEVER)
		made.allocated = track(1250, 2, 71, 3);
	if (state == GUARD_FREED)
		made.freed = track(2375, 5, 72, 4);
	return made;
}

static struct guard_pool pools[2] = {
	{ .version = GUARD_VERSION, .size = sizeof(struct guard_pool), .every = 1000,
	  .base = GUARDED, .bytes = 6 * 8192 + 4096, .page_bytes = 4096, .place_bytes = 8192,
	  .nr_places = 6, .place_size = sizeof(struct guard_place), .lost = 11, .errors = 3,
	  .clock_offset_ns = 1600000000000000000, .stack_unit = 16 },
	{ .version = GUARD_VERSION, .size = sizeof(struct guard_pool), .base = GUARDED + 0x100000,
	  .bytes = 12288, .page_bytes = 4096, .place_bytes = 8192, .nr_places = 1,
	  .place_size = sizeof(struct guard_place), .lost = 5, .errors = 2 },
};

void make_guard(void)
{
	stacks.records[0].nr = 3;
	memcpy(stacks.records[0].frames, made_frames, 16);
	stacks.records[0].frames[2] = (uintptr_t)made_ctor + 4;
	stacks.records[1].nr = 2;
	memcpy(stacks.records[1].frames, made_frames + 1, 16);
	places[0] = place(0, 60, GUARD_LIVE, 0, 0);
	places[1] = place(1, 256, GUARD_FREED, GUARD_TWICE | GUARD_BEYOND, 1);
	places[2] = place(2, 100, GUARD_WAITING, 0, 0);
	places[3] = place(3, 3000, GUARD_LIVE, GUARD_ASKED, -1);
	places[4] = place(4, 32, GUARD_NEVER, 0, 0);
	places[5] = place(5, 16, GUARD_TAKEN, 0, 0);
	more_places[0] = place(0, 8, GUARD_FREED, GUARD_INSIDE | GUARD_CACHE | GUARD_SIZE |
			       GUARD_CALL, 2);
	more_places[0].object += 0x100000;
	pools[0].places = (uintptr_t)places;
	pools[0].stacks = (uintptr_t)&stacks;
	pools[0].next_pool = (uintptr_t)&pools[1];
	pools[1].places = (uintptr_t)more_places;
	slub_abi_state.guard = (uintptr_t)pools;
}

char *made_pool_at(unsigned long n)
{
	return (char *)&pools[n % 2];
}

char *made_place_at(unsigned long n)
{
	return (char *)&places[n % 6];
}

/* What is watched has the same store. */
uint64_t made_stacks(void)
{
	return (uintptr_t)&stacks;
}
