/* SPDX-License-Identifier: MIT */
/*
 * The tree of groups, and the threads in them.
 *
 * Locks: group_lock, for the tree; the pools' own.
 */
#include "core/base/list.h"
#include "core/base/word.h"
#include "features/groups/group.h"

#include <errno.h>
#include <string.h>

#define OWNERS_MAX (1u << 20)
/* Looks at the dead before there is no group for the caller: about a second. */
#define DEAD_TRIES 5000u

struct pool group_pool fork_writes = POOL_INIT(sizeof(struct slub_group), GROUPS_MAX);
struct pool owner_pool fork_writes = POOL_INIT(sizeof(struct group_owner), OWNERS_MAX);
struct slub_srcu group_domain = SLUB_SRCU_INIT;
struct bits groups_alive rarely_touched;

static struct lock group_lock fork_writes = LOCK_INIT;
/* under group_lock: the dead, the longest dead first */
static struct slub_group *dead_first;
static struct slub_group **dead_end = &dead_first;
static struct slub_group *root;

/* ---- numbers ---- */

uint32_t group_number(const struct slub_group *group)
{
	return group ? pool_number(&group_pool, group) : 0;
}

bool group_is_alive(const struct slub_group *group)
{
	return group_number_checked(group) &&
	       __atomic_load_n(&group->is_alive, __ATOMIC_ACQUIRE);
}

bool group_is_below(const struct slub_group *group, const struct slub_group *top)
{
	for (; group; group = group->parent) {
		if (group == top)
			return true;
	}
	return !top;
}

bool group_is_protected(const struct slub_group *group)
{
	size_t low = limit_of(group, SLUB_GROUP_LOW);

	return low && (size_t)__atomic_load_n(&group->usage,
					      __ATOMIC_RELAXED) <= low;
}

uint32_t groups_with_low;

void charge_set_low(struct slub_group *group, size_t bytes)
{
	size_t before = __atomic_exchange_n(&group->limits[SLUB_GROUP_LOW],
					    bytes, __ATOMIC_RELAXED);

	__atomic_fetch_add(&groups_with_low,
			   (uint32_t)(bytes != 0) - (uint32_t)(before != 0),
			   __ATOMIC_RELAXED);
}

/* ---- owners ---- */

struct slub_group *owner_group(struct group_owner *owner)
{
	struct group_owner *heir;

	/* acquire: pairs with the release in group_wind_up() */
	while ((heir = __atomic_load_n(&owner->heir, __ATOMIC_ACQUIRE)) != NULL)
		owner = heir;
	/* A thread that adds up stocks may meet a number that another group has by now. */
	return __atomic_load_n(&owner->group, __ATOMIC_RELAXED);
}

void owner_hold(struct group_owner *owner, int64_t n)
{
	__atomic_fetch_add(&owner->outstanding, n, __ATOMIC_RELAXED);
}

/* False: nobody holds it, so it is another's soon, or is in the pool. */
static bool owner_hold_if_held(struct group_owner *owner)
{
	int64_t n = __atomic_load_n(&owner->outstanding, __ATOMIC_RELAXED);

	/* acquire: pairs with the release in owner_make() */
	while (n > 0 && !__atomic_compare_exchange_n(&owner->outstanding, &n,
						     n + 1, true,
						     __ATOMIC_ACQUIRE,
						     __ATOMIC_RELAXED))
		continue;
	return n > 0;
}

/*
 * An owner goes back to the pool with its last reference, and may be another group's a
 * moment later.  Three steps, in this order:
 *
 *   group_domain  the group lives, and its structure is no other group's until
 *                 this thread has left the domain (GROUP-5);
 *   hold          only an owner that is held: from 0 none comes back but by owner_make();
 *   look          an owner that is held stays what it is.  If it is not this group's, it
 *                 went to the pool between the first two steps, and came back.
 */
uint32_t group_hold(const struct slub_group *group)
{
	int index = slub_srcu_read_lock(&group_domain);
	struct group_owner *owner = NULL;

	if (group_is_alive(group))
		owner = group->owner;
	inject(INJECT_hold);
	if (owner && !owner_hold_if_held(owner))
		owner = NULL;
	if (owner && __atomic_load_n(&owner->group, __ATOMIC_RELAXED) != group) {
		owner_drop(owner, 1);
		owner = NULL;
	}
	slub_srcu_read_unlock(&group_domain, index);
	return owner ? owner_number(owner) : 0;
}

/*
 * Those that nobody refers to and the pool does not have yet: a handler that
 * interrupted the holder of a lock may drop a last reference, and takes none.
 */
static struct group_owner *owners_left;

static void owners_collect(void)
{
	struct group_owner *owner = stack_take(&owners_left);

	while (owner) {
		struct group_owner *next = owner->pool_link;

		pool_put(&owner_pool, owner);
		owner = next;
	}
}

static void owner_put(struct group_owner *owner)
{
	if (unlikely(slub_thread.locks_held)) {
		stack_push(&owners_left, owner, &owner->pool_link);
		return;
	}
	pool_put(&owner_pool, owner);
	owners_collect();
}

void owner_drop(struct group_owner *owner, int64_t n)
{
	/* acq_rel: the last one out has seen what all others did */
	while (owner && __atomic_sub_fetch(&owner->outstanding, n,
					   __ATOMIC_ACQ_REL) == 0) {
		struct group_owner *heir = owner->heir;

		owner_put(owner);
		owner = heir;
		n = 1;
	}
}

static struct group_owner *owner_make(struct slub_group *group)
{
	struct group_owner *owner;

	owners_collect();
	owner = pool_get(&owner_pool);
	if (!owner)
		return NULL;
	__atomic_store_n(&owner->group, group, __ATOMIC_RELAXED);
	__atomic_store_n(&owner->heir, NULL, __ATOMIC_RELAXED);
	/* release: pairs with owner_hold_if_held() */
	__atomic_store_n(&owner->outstanding, 1, __ATOMIC_RELEASE);
	/* release: pairs with owner_enter() */
	__atomic_store_n(&owner->word, 0, __ATOMIC_RELEASE);
	stock_set_max(pool_end(&owner_pool));
	return owner;
}

/* ---- making ---- */

/*
 * One that died long ago, if nobody can have it in hand any more: GROUP-5.  A walk
 * that stays in a group holds up that one, and none of those behind it.
 */
static struct slub_group *take_dead(bool *has_dead)
{
	struct slub_group *group, **link = &dead_first;

	lock_acquire(&group_lock);
	*has_dead = dead_first != NULL;
	for (; (group = *link) != NULL; link = &group->next_dead) {
		if (!slub_srcu_poll(&group_domain, group->cookie)) {
			group = NULL;
			break;
		}
		if (!walkers_use_group(group))
			break;
	}
	if (group) {
		*link = group->next_dead;
		if (dead_end == &group->next_dead)
			dead_end = link;
	}
	lock_release(&group_lock);
	return group;
}

/*
 * Where no new one can be had, those that have died are waited for: nobody is inside
 * group_domain for longer than it takes to charge.  Not for ever, for the caller may be
 * in a callback for one of them, or a handler have interrupted the thread that is inside.
 */
static struct slub_group *wait_for_dead(void)
{
	struct slub_group *group = NULL;
	bool has_dead = !slub_thread.locks_held;

	for (unsigned int i = 0; i < DEAD_TRIES && !group && has_dead; i++) {
		sys_wait(i);
		group = take_dead(&has_dead);
	}
	return group;
}

static void put_dead(struct slub_group *group)
{
	group->next_dead = NULL;
	lock_acquire(&group_lock);
	*dead_end = group;
	dead_end = &group->next_dead;
	lock_release(&group_lock);
}

/* A walk over groups may look at one that has died and lives again. */
static void counts_clear(struct slub_group *group)
{
	__atomic_store_n(&group->failures, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&group->max_hits, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&group->high_hits, 0, __ATOMIC_RELAXED);
	charge_set_low(group, 0);
	__atomic_store_n(&group->limits[SLUB_GROUP_HIGH], SLUB_GROUP_NO_LIMIT,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&group->limits[SLUB_GROUP_MAX], SLUB_GROUP_NO_LIMIT,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&group->usage, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&group->peak, 0, __ATOMIC_RELAXED);
}

static void group_set_up(struct slub_group *group, const char *name,
			 struct slub_group *parent, struct group_owner *owner)
{
	memset(group->name, 0, sizeof(group->name));
	for (size_t i = 0; name[i]; i++)
		group->name[i] = name[i];
	__atomic_store_n(&group->parent, parent, __ATOMIC_RELAXED);
	group->owner = owner;
	__atomic_store_n(&group->depth, parent ? parent->depth + 1 : 0,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&group->nr_children, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&group->nr_below, 0, __ATOMIC_RELAXED);
	group_handler_change(group, (struct double_word){ 0, 0 });
	counts_clear(group);
	charge_tight_update(group);
}

/* Under the lock; reports read it without. */
static void children_add(struct slub_group *group, uint32_t n)
{
	__atomic_store_n(&group->nr_children, group->nr_children + n,
			 __ATOMIC_RELAXED);
}

/* Hangs @group in; false: @parent died meanwhile. */
static bool group_hang(struct slub_group *group, struct slub_group *parent)
{
	bool good = true;

	lock_acquire(&group_lock);
	if (parent)
		good = parent->is_alive;
	else if (root)
		good = false;
	else
		root = group;
	if (good) {
		if (parent) {
			children_add(parent, 1);
			__atomic_fetch_add(&parent->nr_below, 1,
					   __ATOMIC_RELAXED);
		}
		/* release: pairs with group_is_alive() */
		__atomic_store_n(&group->is_alive, 1, __ATOMIC_RELEASE);
		bit_set(groups_alive.words, group_number(group));
	}
	lock_release(&group_lock);
	return good;
}

/* Why pool_get() had none: its numbers have ended, or there was no memory. */
static int none_left(const struct pool *pool)
{
	return pool->start && pool_end(pool) >= pool->nr_max ? ENOSPC : ENOMEM;
}

static struct slub_group *group_make(const char *name,
				     struct slub_group *parent)
{
	bool has_dead;
	struct slub_group *group = take_dead(&has_dead);
	struct group_owner *owner;

	if (!group)
		group = pool_get(&group_pool);
	if (!group)
		group = wait_for_dead();
	if (!group)
		return fail_with(none_left(&group_pool));
	owner = owner_make(group);
	if (!owner) {
		put_dead(group);
		return fail_with(none_left(&owner_pool));
	}
	group_set_up(group, name, parent, owner);
	if (group_hang(group, parent))
		return group;
	owner_kill(owner);
	put_dead(group);
	return fail_with(EINVAL);
}

struct slub_group *group_root_if_made(void)
{
	return __atomic_load_n(&root, __ATOMIC_ACQUIRE);
}

SLUB_EXPORT struct slub_group *slub_group_root(void)
{
	struct slub_group *group = group_root_if_made();

	if (group || slub_thread.locks_held || !slub_start())
		return group;
	group = group_make("root", NULL);
	/* Two at once: the other one's. */
	return group ? group : group_root_if_made();
}

SLUB_EXPORT struct slub_group *slub_group_create(const char *name,
						 struct slub_group *parent)
{
	if (!parent)
		parent = slub_group_root();
	if (!parent)
		return fail_with(ENOMEM);
	if (!name_is_valid(name, SLUB_GROUP_NAME_MAX) || !group_is_alive(parent))
		return fail_with(EINVAL);
	if (parent->depth >= SLUB_GROUP_DEPTH_MAX)
		return fail_with(E2BIG);
	return group_make(name, parent);
}

/* ---- the end of a group ---- */

/* Under the lock: 0 if it is dead now. */
static int group_unhang(struct slub_group *group)
{
	if (!group_is_alive(group))
		return -EINVAL;
	if (group == root)
		return -EPERM;
	if (group->nr_children)
		return -EBUSY;
	children_add(group->parent, -1u);
	/* Here, where the parent is alive: it may be deleted in a moment, too. */
	owner_hold(group->parent->owner, 1);
	__atomic_store_n(&group->is_alive, 0, __ATOMIC_RELEASE);
	bit_clear(groups_alive.words, group_number(group));
	return 0;
}

/*
 * What shrinkers have goes to the next group up that lives.  The parent may be deleted
 * at the same time, and have moved what it had before this comes to it.
 */
static void bits_move_up(struct slub_group *group)
{
	do {
		map_move(group_number(group), group_number(group->parent));
		group = group->parent;
		/* Pairs with that in group_wind_up(): one of the two sees the other. */
		full_fence();
	} while (!group_is_alive(group));
}

/* Inside group_domain.  What it has goes to its parent. */
static void group_wind_up(struct slub_group *group)
{
	struct slub_group *parent = group->parent;

	inject(INJECT_disinherit);
	/*
	 * From now on its charges are its parent's, which is held: GROUP-2.
	 * release: pairs with the acquire in owner_group()
	 */
	__atomic_store_n(&group->owner->heir, parent->owner, __ATOMIC_RELEASE);
	owner_kill(group->owner);
	/* release: its owner's stock is empty */
	__atomic_fetch_sub(&parent->nr_below, 1, __ATOMIC_RELEASE);
	inject(INJECT_reparent);
	full_fence();
	__atomic_store_n(&group->usage, 0, __ATOMIC_RELAXED);
	charge_tight_update(group);
	bits_move_up(group);
	charge_set_low(group, 0);
}

SLUB_EXPORT int slub_group_destroy(struct slub_group *group)
{
	int err, index;

	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!group_is_alive(group))
		return -EINVAL;
	/* The parent may be deleted too meanwhile: GROUP-5. */
	index = slub_srcu_read_lock(&group_domain);
	lock_acquire(&group_lock);
	err = group_unhang(group);
	lock_release(&group_lock);
	if (!err) {
		group_wind_up(group);
		group_handler_change(group, (struct double_word){ 0, 0 });
	}
	slub_srcu_read_unlock(&group_domain, index);
	if (err)
		return err;
	/* Outside: threads inside stay for no longer than a charge takes. */
	err = group_handler_wait(group);
	group->cookie = slub_srcu_start_poll(&group_domain);
	put_dead(group);
	return err;
}

/* ---- limits ---- */

/* False: @group is deleted.  Inside group_domain, so that no other group is meant. */
static bool limit_change(struct slub_group *group, enum slub_group_limit limit,
			 size_t bytes)
{
	int index = slub_srcu_read_lock(&group_domain);
	bool lives = group_is_alive(group);

	if (lives && limit == SLUB_GROUP_LOW) {
		charge_set_low(group, bytes);
		/* As CHARGE-3: this, or group_wind_up(), comes last and sees the other. */
		full_fence();
		if (!group_is_alive(group))
			charge_set_low(group, 0);
	} else if (lives) {
		__atomic_store_n(&group->limits[limit], bytes,
				 __ATOMIC_RELAXED);
		charge_tight_update(group);
	}
	slub_srcu_read_unlock(&group_domain, index);
	return lives;
}

SLUB_EXPORT int slub_group_limit_set(struct slub_group *group,
				     enum slub_group_limit limit, size_t bytes)
{
	int priority = SLUB_SHRINK_PRIORITY_MAX;

	if (!group_is_alive(group) || (unsigned int)limit > SLUB_GROUP_MAX)
		return -EINVAL;
	if (bytes > SLUB_GROUP_NO_LIMIT)
		bytes = SLUB_GROUP_NO_LIMIT;
	for (; limit == SLUB_GROUP_MAX && group_usage_settled(group) > bytes;
	     priority--) {
		if (priority < 0)
			return -EBUSY;
		reclaim_group(group, priority);
	}
	return limit_change(group, limit, bytes) ? 0 : -EINVAL;
}

SLUB_EXPORT size_t slub_group_limit_get(struct slub_group *group,
					enum slub_group_limit limit)
{
	if (!group_is_alive(group) || (unsigned int)limit > SLUB_GROUP_MAX)
		return 0;
	return limit_of(group, limit);
}

uint32_t group_owner_number(const struct slub_group *group)
{
	return owner_number(group->owner);
}

/* ---- what is known of a group ---- */

SLUB_EXPORT int slub_group_stats(struct slub_group *group,
				      struct slub_group_stats *stats)
{
	if (!group_is_alive(group))
		return -EINVAL;
	memset(stats, 0, sizeof(*stats));
	stats->name = group->name;
	stats->parent = __atomic_load_n(&group->parent, __ATOMIC_RELAXED);
	stats->usage = group_usage_settled(group);
	stats->peak = (size_t)__atomic_load_n(&group->peak, __ATOMIC_RELAXED);
	stats->low = limit_of(group, SLUB_GROUP_LOW);
	stats->high = limit_of(group, SLUB_GROUP_HIGH);
	stats->max = limit_of(group, SLUB_GROUP_MAX);
	stats->failures = __atomic_load_n(&group->failures, __ATOMIC_RELAXED);
	stats->max_hits = __atomic_load_n(&group->max_hits, __ATOMIC_RELAXED);
	stats->high_hits = __atomic_load_n(&group->high_hits, __ATOMIC_RELAXED);
	stats->nr_children = __atomic_load_n(&group->nr_children,
					     __ATOMIC_RELAXED);
	stats->depth = __atomic_load_n(&group->depth, __ATOMIC_RELAXED);
	return 0;
}

SLUB_EXPORT int slub_group_for_each(int (*visit)(struct slub_group *, void *),
				    void *arg)
{
	int result = 0;

	for (uint32_t n = 1; n < pool_end(&group_pool) && !result; n++) {
		struct slub_group *group = group_of_number(n);

		if (group_is_alive(group))
			result = visit(group, arg);
	}
	return result;
}

usual void group_fork(enum fork_step step)
{
	lock_fork(&group_lock, step);
	lock_fork(&group_pool.lock, step);
	lock_fork(&owner_pool.lock, step);
	lock_fork(&thread_stock_pool.lock, step);
}
