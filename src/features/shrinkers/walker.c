/* SPDX-License-Identifier: MIT */
/*
 * The walkers, and what each of them uses at the moment, in a structure that it alone writes.
 * So walkers do not disturb each other, and unregister can wait for those in its shrinker.
 *
 * WALK-1  A walker announces, executes a fence, and looks again whether what
 *         it announced is still registered.  unregister takes it out of
 *         the table, executes a fence, and looks at all walkers.  At least one
 *         of the two sees the other.
 * WALK-2  The first walker that uses a shrinker says so in the table, between
 *         the fence and the use.  So a thread that unregisters a shrinker that no walker
 *         has used is spared the look at the walkers: a cache miss each.
 */
#include "features/reclaim/reclaim_internal.h"

static struct walker walkers[WALKERS_MAX] rarely_touched;
static uint64_t walkers_busy[WALKERS_MAX / 64];

/* Takes walker number @n, unless another thread has taken it. */
static struct walker *walker_take(uint32_t n)
{
	struct walker *walker = &walkers[n];

	/* seq_cst: before what the walker announces */
	if (__atomic_fetch_or(&walkers_busy[n / 64], bit_of(n),
			      __ATOMIC_SEQ_CST) & bit_of(n))
		return NULL;
	__atomic_store_n(&walker->owner, thread_self(), __ATOMIC_RELAXED);
	/* release: pairs with is_inside() in handler.c */
	__atomic_store_n(&walker->walks, walker->walks + 1, __ATOMIC_RELEASE);
	return walker;
}

struct walker *walker_begin(void)
{
	struct walker *walker = NULL;

	for (uint32_t n = 0; n < WALKERS_MAX && !walker; n++) {
		if (!bit_is_set(walkers_busy, n))
			walker = walker_take(n);
	}
	return walker;
}

void walker_end(struct walker *walker)
{
	uint32_t n = (uint32_t)(walker - walkers);

	walker_leave(walker);
	/* release: pairs with the acquire in group_handler_wait() */
	__atomic_store_n(&walker->handles, NULL, __ATOMIC_RELEASE);
	__atomic_store_n(&walker->group, NULL, __ATOMIC_RELEASE);
	__atomic_store_n(&walker->owner, 0, __ATOMIC_RELAXED);
	/* release: the next owner finds it empty */
	__atomic_fetch_and(&walkers_busy[n / 64], ~bit_of(n),
			   __ATOMIC_RELEASE);
}

struct walker *walker_next(const struct walker *before)
{
	uint32_t i = before ? (uint32_t)(before - walkers) + 1 : 0;

	for (; i < WALKERS_MAX; i++) {
		uint64_t rest = __atomic_load_n(&walkers_busy[i / 64],
						__ATOMIC_ACQUIRE) >> i % 64;

		if (!rest) {
			i |= 63;
			continue;
		}
		return &walkers[i + (uint32_t)__builtin_ctzll(rest)];
	}
	return NULL;
}

bool walker_is_mine(const struct walker *walker)
{
	return __atomic_load_n(&walker->owner, __ATOMIC_RELAXED) ==
	       thread_self();
}

bool walkers_use_group(const struct slub_group *group)
{
	/* seq_cst: pairs with the one in walker_enter() */
	full_fence();
	for (struct walker *w = walker_next(NULL); w; w = walker_next(w)) {
		if (__atomic_load_n(&w->group, __ATOMIC_ACQUIRE) == group)
			return true;
	}
	return false;
}

usual void walkers_fork_child(void)
{
	for (struct walker *w = walker_next(NULL); w; w = walker_next(w)) {
		w->waits_for = NULL;
		if (!walker_is_mine(w))
			walker_end(w);
	}
}
