/* SPDX-License-Identifier: MIT */
/* Objects of watched caches, with tracks of who allocated and freed them. */
#include <string.h>

#include "made.h"

#define LEFT 64

struct made_layout {
	uint32_t left, track;
	uint16_t requested, owner;
};

static const struct made_layout layout = { LEFT, 128, 112, 104 };
static uint64_t store;

static char *object(uint32_t page, uint32_t n)
{
	return (char *)(uintptr_t)(page_at(page) + LEFT + n * 512);
}

static void put_track(char *at, uint64_t caller, uint32_t stack, uint64_t ms, uint32_t thread,
		      uint32_t cpu)
{
	struct track track = { .caller = caller, .when_ns = ms * 1000000, .stack = stack,
			       .thread = thread, .cpu = cpu };

	memcpy(at, &track, sizeof(track));
}

static void put_object(uint32_t n, uint64_t requested, uint64_t caller, uint32_t stack,
		       uint64_t ms)
{
	memcpy(object(24, n) + 112, &requested, 8);
	put_track(object(24, n) + 128, caller, stack, ms, 80 + n, n);
}

/* 0, 1, 3, 4, 6 and 8 are allocated, 7 is about to be free, 2 and 5 are free. */
static void make_tracks(void)
{
	uint64_t link = page_at(24) + LEFT + 5 * 512;
	uint16_t is_freed = 1;

	put_object(0, 90, made_frames[0], 2, 1000);
	put_object(1, 100, made_frames[0], 2, 2000);
	put_object(2, 77, made_frames[0], 2, 2500);
	put_object(3, 41, made_frames[0], 2, 4000);
	put_object(4, 500, made_frames[1], 5, 5000);
	put_object(5, 77, made_frames[1], 5, 5500);
	put_object(6, 10, made_frames[2], 0, 6000);
	put_object(7, 77, made_frames[0], 2, 6100);
	put_object(8, 60, made_frames[1], 5, 6200);
	memcpy(object(24, 2), &link, 8);
	memcpy(object(24, 7) + 128 + offsetof(struct track, is_freed), &is_freed, 2);
	put_track(object(24, 3) + 128 + sizeof(struct track), made_frames[2], 0, 3000, 99, 200);
}

static void put_watched_owner(uint32_t n, uint32_t owner)
{
	memcpy(object(36, n) + 104, &owner, 4);
}

uint64_t made_stacks(void);

#define LAYOUT(member) { offsetof(struct made_layout, member), sizeof(layout.member) }
#define TRACK(member) { offsetof(struct track, member), sizeof(((struct track *)0)->member) }

void make_watched(void)
{
	struct slub_abi *abi = &slub_abi_state;

	store = made_stacks();
	abi->stacks = (uintptr_t)&store;
	abi->stack_unit = 16;
	abi->stack_nr = offsetof(struct stack_record, nr);
	abi->stack_frames = offsetof(struct stack_record, frames);
	abi->watch_bytes = sizeof(layout);
	abi->track_bytes = sizeof(struct track);
	abi->watch_fields[SLUB_ABI_WATCH_LEFT] = (struct slub_abi_field)LAYOUT(left);
	abi->watch_fields[SLUB_ABI_WATCH_TRACK] = (struct slub_abi_field)LAYOUT(track);
	abi->watch_fields[SLUB_ABI_WATCH_REQUESTED] = (struct slub_abi_field)LAYOUT(requested);
	abi->watch_fields[SLUB_ABI_WATCH_OWNER] = (struct slub_abi_field)LAYOUT(owner);
	abi->track_fields[SLUB_ABI_TRACK_CALLER] = (struct slub_abi_field)TRACK(caller);
	abi->track_fields[SLUB_ABI_TRACK_WHEN] = (struct slub_abi_field)TRACK(when_ns);
	abi->track_fields[SLUB_ABI_TRACK_STACK] = (struct slub_abi_field)TRACK(stack);
	abi->track_fields[SLUB_ABI_TRACK_THREAD] = (struct slub_abi_field)TRACK(thread);
	abi->track_fields[SLUB_ABI_TRACK_CPU] = (struct slub_abi_field)TRACK(cpu);
	abi->track_fields[SLUB_ABI_TRACK_IS_FREED] = (struct slub_abi_field)TRACK(is_freed);
	made_caches[5].debug = made_caches[9].debug = (uintptr_t)&layout;
	make_tracks();
	put_watched_owner(0, 2);
	put_watched_owner(1, 2);
	put_watched_owner(3, 2 | SLUB_ABI_OWNER_FREE);
	put_watched_owner(7, 3);
}
