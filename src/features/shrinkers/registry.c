/* SPDX-License-Identifier: MIT */
/*
 * The shrinkers that are registered: a table by number, which walks read
 * without a lock.
 *
 * Locks: registry.lock, for the numbers.
 *
 * Tests: tests/unit/reclaim/test_marks.cc, tests/unit/reclaim/test_walker.cc,
 * tests/unit/reclaim/test_bits.cc, tests/reclaim/test_shrinker*.cc.
 * Page: docs/internals/reclaim.md.
 */
#include "features/reclaim/reclaim_internal.h"

#include <errno.h>

enum state { STATE_NONE, STATE_REGISTERED, STATE_LEAVING, STATE_STUCK };

#define SEEKS_MAX 1000000
#define FLAGS_ALL (SLUB_SHRINKER_NUMA_AWARE | SLUB_SHRINKER_GROUP_AWARE)

/* Looks before it is worth a message that one callback keeps unregister: ten seconds. */
#define PATIENCE 6500u
/* How far a ring of waiting callbacks is followed. */
#define RING_MAX 16

uintptr_t shrinker_table[SHRINKERS_MAX] rarely_touched;
struct bits shrinkers_always rarely_touched;
uint32_t shrinkers_end;

struct registry registry fork_writes = { .lock = LOCK_INIT, .hint = 1 };
static struct bits numbers rarely_touched;	/* under registry.lock */

/* @stamp: tells its shrinker from those that had the number before. */
static uint32_t number_take(uint64_t *stamp)
{
	uint32_t id;

	lock_acquire(&registry.lock);
	id = bits_next(&numbers, registry.hint, SHRINKERS_MAX, false);
	if (id == SHRINKERS_MAX)
		id = bits_next(&numbers, 1, SHRINKERS_MAX, false);
	if (id != SHRINKERS_MAX) {
		numbers.words[id / 64] |= bit_of(id);
		registry.hint = id + 1;
		*stamp = ++registry.last_stamp;
		if (shrinkers_end <= id)
			__atomic_store_n(&shrinkers_end, id + 1,
					 __ATOMIC_RELAXED);
	}
	/* Beyond 4,096 numbers the tables grow: use those there are first. */
	if (registry.hint >= 4096)
		registry.hint = 1;
	lock_release(&registry.lock);
	return id;
}

static void number_return(uint32_t id)
{
	lock_acquire(&registry.lock);
	numbers.words[id / 64] &= ~bit_of(id);
	lock_release(&registry.lock);
}

static bool state_change(struct slub_shrinker *shrinker, uint32_t from,
			 uint32_t to)
{
	return __atomic_compare_exchange_n(&shrinker->state, &from, to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

SLUB_EXPORT int slub_shrinker_create(struct slub_shrinker *shrinker)
{
	uint32_t id;
	int err;

	if (!shrinker || !shrinker->count || !shrinker->scan ||
	    shrinker->flags & ~(unsigned int)FLAGS_ALL ||
	    (shrinker->seeks > SEEKS_MAX && shrinker->seeks != SLUB_SHRINKER_SEEKS_NONE))
		return -EINVAL;
	err = slub_begin();
	if (err)
		return err;
	if (!state_change(shrinker, STATE_NONE, STATE_REGISTERED))
		return -EEXIST;
	id = number_take(&shrinker->stamp);
	if (id == SHRINKERS_MAX) {
		__atomic_store_n(&shrinker->state, STATE_NONE,
				 __ATOMIC_RELEASE);
		return -ENOSPC;
	}
	shrinker->id = id;
	for (uint32_t i = 0; i < OS_NODES_MAX; i++)
		shrinker->deferred[i] = 0;
	/* release: pairs with the acquire in walker_enter() */
	__atomic_store_n(&shrinker_table[id], (uintptr_t)shrinker,
			 __ATOMIC_RELEASE);
	if (!(shrinker->flags & SLUB_SHRINKER_GROUP_AWARE))
		bit_set(shrinkers_always.words, id);
	return 0;
}

/* Is @entry still in the table?  It says then that a walker has used it. */
static bool entry_see(uint32_t id, uintptr_t entry)
{
	if (likely(entry & SHRINKER_SEEN))
		return __atomic_load_n(&shrinker_table[id],
				       __ATOMIC_ACQUIRE) == entry;
	/* release: a thread that takes it out and finds it seen looks at walkers */
	return __atomic_compare_exchange_n(&shrinker_table[id], &entry,
					   entry | SHRINKER_SEEN, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

struct slub_shrinker *walker_enter(struct walker *walker, uint32_t id,
				   struct slub_group *group, uint32_t number)
{
	struct slub_shrinker *shrinker;
	uintptr_t entry;

	for (;;) {
		/* acquire: pairs with the release in register */
		entry = __atomic_load_n(&shrinker_table[id], __ATOMIC_ACQUIRE);
		if (!entry)
			return NULL;
		shrinker = (struct slub_shrinker *)(entry & ~SHRINKER_SEEN);
		__atomic_store_n(&walker->inside, shrinker, __ATOMIC_RELAXED);
		__atomic_store_n(&walker->group, group, __ATOMIC_RELAXED);
		full_fence();	/* WALK-1 */
		inject(INJECT_announce);
		if (likely(entry_see(id, entry)))
			break;
		walker_leave(walker);
	}
	if (number && !bit_is_set(groups_alive.words, number)) {
		walker_leave(walker);
		return NULL;
	}
	return shrinker;
}

/* ---- unregister ---- */

/* Says what this thread waits for; false: it is in no callback. */
static bool announce_wait(struct slub_shrinker *shrinker)
{
	bool in_callback = false;

	for (struct walker *w = walker_next(NULL); w; w = walker_next(w)) {
		if (walker_is_mine(w)) {
			__atomic_store_n(&w->waits_for, shrinker,
					 __ATOMIC_RELAXED);
			in_callback = true;
		}
	}
	/* seq_cst: of two that wait for each other, one sees the other */
	full_fence();
	return in_callback;
}

static bool am_inside(const struct slub_shrinker *shrinker)
{
	for (struct walker *w = walker_next(NULL); w; w = walker_next(w)) {
		if (walker_is_mine(w) && walker_is_inside(w, shrinker))
			return true;
	}
	return false;
}

/* Does somebody inside @shrinker wait, at last, for this thread? */
static bool waits_for_me(const struct slub_shrinker *shrinker, int steps)
{
	struct walker *w = steps > 0 ? walker_next(NULL) : NULL;

	for (; w; w = walker_next(w)) {
		const struct slub_shrinker *next;

		if (!walker_is_inside(w, shrinker))
			continue;
		next = __atomic_load_n(&w->waits_for, __ATOMIC_RELAXED);
		if (next && (am_inside(next) || waits_for_me(next, steps - 1)))
			return true;
	}
	return false;
}

/* True: another thread is inside.  This thread's own callback is let go. */
static bool somebody_inside(const struct slub_shrinker *shrinker)
{
	bool found = false;

	for (struct walker *w = walker_next(NULL); w; w = walker_next(w)) {
		/* acquire: pairs with the release in walker_leave() */
		if (__atomic_load_n(&w->inside, __ATOMIC_ACQUIRE) != shrinker)
			continue;
		if (walker_is_mine(w))
			walker_leave(w);
		else
			found = true;
	}
	return found;
}

static int wait_for_callbacks(struct slub_shrinker *shrinker)
{
	bool in_callback = false;
	int err = 0;

	for (unsigned int i = 0; somebody_inside(shrinker); i++) {
		if (i == 0)
			in_callback = announce_wait(shrinker);
		if (in_callback && waits_for_me(shrinker, RING_MAX)) {
			err = -EDEADLK;
			break;
		}
		sys_wait_long(i);
		if (i == PATIENCE)
			log_message("shrinker '%s': still waiting for its "
				    "callback to return", shrinker->name ?
				    shrinker->name : "");
	}
	if (in_callback)
		announce_wait(NULL);
	return err;
}

SLUB_EXPORT int slub_shrinker_destroy(struct slub_shrinker *shrinker)
{
	uintptr_t entry;
	uint32_t id;
	int err = 0;

	if (!shrinker)
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!state_change(shrinker, STATE_REGISTERED, STATE_LEAVING) &&
	    !state_change(shrinker, STATE_STUCK, STATE_LEAVING))
		return -EINVAL;
	id = shrinker->id;
	if (!(shrinker->flags & SLUB_SHRINKER_GROUP_AWARE))
		bit_clear(shrinkers_always.words, id);
	/* acquire: pairs with the release in entry_see() */
	entry = __atomic_exchange_n(&shrinker_table[id], 0, __ATOMIC_ACQ_REL);
	/* WALK-2; 0: this is the second try, after -EDEADLK. */
	if (!entry || entry & SHRINKER_SEEN) {
		inject(INJECT_unregister);
		full_fence();	/* WALK-1 */
		err = wait_for_callbacks(shrinker);
	}
	/* Only now: a callback may still be clearing its number's bits. */
	if (!err)
		number_return(id);
	__atomic_store_n(&shrinker->state, err ? STATE_STUCK : STATE_NONE,
			 __ATOMIC_RELEASE);
	return err;
}

SLUB_EXPORT int slub_shrinker_mark(struct slub_shrinker *shrinker,
				   struct slub_group *group, int node)
{
	int err;

	if (!shrinker || !(shrinker->flags & SLUB_SHRINKER_GROUP_AWARE) ||
	    __atomic_load_n(&shrinker->state, __ATOMIC_RELAXED) !=
		    STATE_REGISTERED ||
	    node < 0 || node >= OS_NODES_MAX ||
	    (node && !(shrinker->flags & SLUB_SHRINKER_NUMA_AWARE)) ||
	    (group && !group_is_alive(group)))
		return -EINVAL;
	err = map_mark(group_number(group), (uint32_t)node, shrinker->id);
	/* After a full barrier: its end has moved the mark up, or is seen here. */
	if (!err && group && !group_is_alive(group))
		err = -EINVAL;
	return err;
}

SLUB_EXPORT int slub_shrinker_for_each(int (*visit)(struct slub_shrinker *,
						    void *), void *arg)
{
	struct walker *walker = walker_begin();
	uint32_t end = __atomic_load_n(&shrinkers_end, __ATOMIC_RELAXED);
	int result = 0;

	for (uint32_t id = 1; walker && id < end && !result; id++) {
		struct slub_shrinker *shrinker;

		if (!__atomic_load_n(&shrinker_table[id], __ATOMIC_RELAXED))
			continue;
		shrinker = walker_enter(walker, id, NULL, 0);
		if (!shrinker)
			continue;
		result = visit(shrinker, arg);
		walker_leave(walker);
	}
	if (walker)
		walker_end(walker);
	return result;
}
