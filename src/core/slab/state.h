/* SPDX-License-Identifier: MIT */
/*
 * The state of a slab: {freelist, counters}, changed as one by a double-word
 * compare-exchange, or under a lock bit in the descriptor's flags (lock_bit.c).
 * core/slab/slab.h draws the word.
 */
#ifndef SLUB_STATE_H
#define SLUB_STATE_H

#include "core/slab/slab.h"

#define STATE_FROZEN (1ul << 63)
#define STATE_LISTED (1ul << 62)
#define STATE_OBJECTS_SHIFT 30
#define STATE_COUNT_MASK ((1ul << 30) - 1)

static inline uint32_t state_inuse(struct double_word state)
{
	return (uint32_t)(state.second & STATE_COUNT_MASK);
}

static inline uint32_t state_objects(struct double_word state)
{
	return (uint32_t)(state.second >> STATE_OBJECTS_SHIFT &
			  STATE_COUNT_MASK);
}

static inline uintptr_t state_make(uint32_t objects, uintptr_t bits)
{
	return (uintptr_t)objects << STATE_OBJECTS_SHIFT | bits;
}

/*
 * The double word of a slab that nobody else can change; walks look at its counters
 * all the same.
 */
static inline void slab_state_set(struct page *slab, uintptr_t first,
				  uintptr_t second)
{
	struct double_word *state = page_state(slab);

	__atomic_store_n(&state->first, first, __ATOMIC_RELAXED);
	__atomic_store_n(&state->second, second, __ATOMIC_RELAXED);
}

/* Of the objects that were carved; under the node's lock, or as above. */
static inline void slab_count_set(struct page *slab, uint32_t count)
{
	__atomic_store_n(&slab->count, count, __ATOMIC_RELAXED);
}

/* ... and as a thread without the lock sees it. */
static inline uint32_t slab_count_read(const struct page *slab)
{
	return __atomic_load_n(&slab->count, __ATOMIC_RELAXED);
}

/* The counters alone: no lock bit is taken for a hint, and the slab may be gone. */
static inline struct double_word counters_of(struct page *slab)
{
	struct double_word state = {
		0, __atomic_load_n(&page_state(slab)->second, __ATOMIC_RELAXED)
	};

	return state;
}

/* In a forked child: frees lock bits whose holders did not come along. */
void slab_update_after_fork(void);
/* node.c: the state was not what a thread took it for; that is counted. */
cold void slab_update_failed(struct page *slab);

#if SLUB_CONFIG_LAYOUT == 2

struct double_word slab_read(struct page *slab);
bool slab_update(struct page *slab, struct double_word *old,
		 struct double_word new_state);

#else

static inline struct double_word slab_read(struct page *slab)
{
	struct double_word *state = page_state(slab);
	struct double_word now;

	/*
	 * May be torn: the exchange that follows finds out.  Acquire: pairs with
	 * slab_update().  A thread that learns by the counters alone that the last object has
	 * come back gives the pages away (slab_is_empty()), and one that takes one off the
	 * freelist reads its link first (move.c); the object may have come back
	 * without the lock that they hold.
	 */
	now.second = __atomic_load_n(&state->second, __ATOMIC_ACQUIRE);
	now.first = __atomic_load_n(&state->first, __ATOMIC_ACQUIRE);
	return now;
}

/* As double_word_exchange(). */
static inline bool slab_update(struct page *slab, struct double_word *old,
			       struct double_word new_state)
{
	inject(INJECT_update);
	if (likely(double_word_exchange(page_state(slab), old, new_state)))
		return true;
	slab_update_failed(slab);
	return false;
}

#endif

#endif
