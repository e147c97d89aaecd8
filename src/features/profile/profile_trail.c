/* SPDX-License-Identifier: MIT */
/* Trails of sampled allocations, in a ring. */
#include "core/arch/arch.h"
#include "features/debug/debug.h"
#include "features/profile/profile_trail.h"

struct trail_ring trail_ring = {
	.magic = { 'S', 'L', 'U', 'B', 'T', 'R', 'L', 'S' },
	.version = TRAIL_VERSION,
	.nr_slots = TRAIL_SLOTS,
	.slot_bytes = TRAIL_SLOT_BYTES,
};

#define RING_BYTES ((size_t)TRAIL_SLOTS * TRAIL_SLOT_BYTES)

/* Called by one thread at a time: the one that answers the mailbox. */
cold struct trail_ring *trails_begin(void)
{
	void *slots = (void *)trail_ring.slots;

	if (!ARCH_HAS_REGISTERS)
		return NULL;
	if (!slots)
		slots = os_map(RING_BYTES);
	if (!slots)
		return NULL;
	trail_ring.slots = (uintptr_t)slots;
	trail_ring.read = __atomic_load_n(&trail_ring.drawn, __ATOMIC_RELAXED);
	/* release: pairs with the acquire in trail_draw() */
	__atomic_store_n(&trail_ring.is_on, 1, __ATOMIC_RELEASE);
	return &trail_ring;
}

/* A thread may be writing a trail yet: the slots stay, without memory. */
cold void trails_end(void)
{
	__atomic_store_n(&trail_ring.is_on, 0, __ATOMIC_RELAXED);
	if (trail_ring.slots)
		os_purge((void *)trail_ring.slots, RING_BYTES);
}

/* Signed: a number may have been read since it was drawn. */
static bool is_near(uint64_t number)
{
	return (int64_t)(number - __atomic_load_n(&trail_ring.read, __ATOMIC_RELAXED)) <=
	       TRAIL_BEHIND_MAX;
}

uint64_t trail_draw(void)
{
	uint64_t number;

	/* acquire: pairs with the release in trails_begin(), for the slots */
	if (!__atomic_load_n(&trail_ring.is_on, __ATOMIC_ACQUIRE))
		return 0;
	number = __atomic_add_fetch(&trail_ring.drawn, 1, __ATOMIC_RELAXED);
	/* Twice: this thread may not have run for long behind its first look. */
	if (likely(is_near(number)) || is_near(number))
		return number;
	trails_end();
	return 0;
}

static struct profile_trail *trail_claim(uint64_t number)
{
	struct profile_trail *trail = (struct profile_trail *)(trail_ring.slots +
		number % TRAIL_SLOTS * TRAIL_SLOT_BYTES);
	uint64_t was = __atomic_load_n(&trail->state, __ATOMIC_RELAXED);

	if (was % 2 || was > 2 * number ||
	    !__atomic_compare_exchange_n(&trail->state, &was, 2 * number + 1, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return NULL;
	/* release: the state comes before what is written; pairs with a reader's system calls */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return trail;
}

__attribute__((__noinline__)) void trail_write(uint64_t number, uint32_t site_stack,
					       uint64_t weight, uint64_t bytes)
{
	struct profile_trail *trail = trail_claim(number);
	uint64_t mine = 2 * number + 1;
	bool is_whole;

	if (!trail)
		return;
	trail->site_stack = site_stack;
	trail->weight = weight;
	trail->bytes = bytes;
	trail->known = ARCH_REGISTERS;
	trail->sp = ARCH_REGISTER_SP;
	trail->pc = registers_read(trail->registers);
	trail->copy_bytes = stack_copy(trail->copy, TRAIL_COPY_MAX,
				       (uintptr_t)trail->registers[ARCH_REGISTER_SP],
				       &is_whole);
	trail->flags = is_whole ? TRAIL_IS_WHOLE : 0;
	/* release: the trail is whole; pairs with a reader's system calls */
	__atomic_compare_exchange_n(&trail->state, &mine, 2 * number, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}
