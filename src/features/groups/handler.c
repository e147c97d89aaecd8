/* SPDX-License-Identifier: MIT */
/*
 * A group's handler: what the program itself can do when a maximum is in the way.  Function
 * and argument are changed as one.
 *
 * HANDLER-1  A call is announced, then comes a fence, and then the handler is read.
 *            A change is followed by a fence, and by a look at all walkers.  So either
 *            the call is one of the new handler, or the look finds it.
 * HANDLER-2  What is announced after the look is a call of the new handler, so each
 *            walker is waited for once: until it has ended the call that was found,
 *            however many follow.
 *
 * Nobody waits in a callback of the library: what that one waits for may wait for it.
 */
#include "features/groups/group.h"

#include <errno.h>

static const struct double_word no_handler;

void group_handler_change(struct slub_group *group, struct double_word new)
{
	struct double_word old = no_handler;

	while (!double_word_exchange(&group->handler, &old, new))
		;
}

/* Both words at one moment: none is exchanged for none, or they are returned. */
static struct double_word handler_read(struct slub_group *group)
{
	struct double_word now = no_handler;

	double_word_exchange(&group->handler, &now, no_handler);
	return now;
}

/* ---- the call ---- */

/* How often a walker is waited for where all are taken: a tenth of a second. */
#define WALKER_WAITS_MAX 1000

static bool call(struct walker *walker, struct slub_group *group, size_t bytes)
{
	struct double_word now;
	slub_group_handler_fn *handler;

	/* The group is no other one's meanwhile: walkers_use_group(). */
	__atomic_store_n(&walker->group, group, __ATOMIC_RELAXED);
	/* release: pairs with the acquire in is_inside() */
	__atomic_store_n(&walker->handles, group, __ATOMIC_RELEASE);
	full_fence();	/* HANDLER-1 */
	inject(INJECT_handler);
	now = handler_read(group);
	handler = (slub_group_handler_fn *)now.first;
	return handler && handler(group, bytes, (void *)now.second);
}

bool group_handler_ask(struct slub_group *group, size_t bytes)
{
	struct walker *walker;
	bool again;

	if (!handler_read(group).first || !reclaim_enter())
		return false;
	walker = walker_begin();
	for (unsigned int i = 0; i < WALKER_WAITS_MAX && !walker; i++) {
		sys_wait(i);
		walker = walker_begin();
	}
	again = walker && call(walker, group, bytes);
	if (walker)
		walker_end(walker);
	reclaim_leave();
	return again;
}

/* The root's, for it is above all of the process; it is never destroyed. */
cold bool group_root_ask(size_t bytes)
{
	struct slub_group *root = group_root_if_made();

	return root && group_handler_ask(root, bytes);
}

/* ---- the change ---- */

static bool am_in_callback(void)
{
	struct walker *w = walker_next(NULL);

	if (slub_thread.locks_held ||
	    slub_thread.flags & (THREAD_IN_RECLAIM | THREAD_IN_DEFRAG))
		return true;
	while (w && !walker_is_mine(w))
		w = walker_next(w);
	return w;
}

/* Is @walker in the call of @group's handler that is its @walks-th walk? */
static bool is_inside(const struct walker *walker,
		      const struct slub_group *group, uint32_t walks)
{
	/* acquire: pairs with the releases in walker_take() and walker_end() */
	return __atomic_load_n(&walker->handles, __ATOMIC_ACQUIRE) == group &&
	       __atomic_load_n(&walker->walks, __ATOMIC_ACQUIRE) == walks &&
	       !walker_is_mine(walker);
}

int group_handler_wait(const struct slub_group *group)
{
	bool may_wait = !am_in_callback();

	full_fence();	/* HANDLER-1 */
	for (struct walker *w = walker_next(NULL); w; w = walker_next(w)) {
		uint32_t walks = __atomic_load_n(&w->walks, __ATOMIC_ACQUIRE);

		for (unsigned int i = 0; is_inside(w, group, walks); i++) {
			if (!may_wait)
				return -EDEADLK;
			sys_wait(i);
		}
	}
	return 0;
}

SLUB_EXPORT int slub_group_handler_set(struct slub_group *group,
				       slub_group_handler_fn *handler,
				       void *arg)
{
	/* Inside, its structure is no other group's: GROUP-5. */
	int index = slub_srcu_read_lock(&group_domain);
	bool was_alive = group_is_alive(group), is_alive = was_alive;
	int waited;

	if (was_alive) {
		group_handler_change(group, (struct double_word){
			(uintptr_t)handler, (uintptr_t)arg });
		full_fence();
		/* A delete in between has taken the new one off, or is seen here. */
		is_alive = group_is_alive(group);
		if (!is_alive)
			group_handler_change(group, no_handler);
	}
	slub_srcu_read_unlock(&group_domain, index);
	if (!was_alive)
		return -EINVAL;
	waited = group_handler_wait(group);
	return is_alive ? waited : -EINVAL;
}
