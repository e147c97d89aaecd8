/* SPDX-License-Identifier: MIT */
/*
 * What waits for readers (slub/srcu.h): slabs of TYPESAFE caches that became
 * empty, and sheaves of objects that were freed deferred.
 *
 *   add --> fresh --grace period begins--> waiting --readers left--> release
 *
 * Nobody works in the background: each call that adds something moves the queue
 * on as far as it goes without waiting.  One thread at a time releases, so
 * items are released in the order of their grace periods, and `done` tells
 * which are.
 *
 * An item is the word that links it to the next.
 *
 * Locks: the queue's own; not held while the readers are asked for or items
 * are released.
 */
#include "slab/slab_internal.h"

/* Under the lock: begins a grace period for what is fresh. */
static void begin(struct grace_queue *queue)
{
	if (queue->waiting || !queue->fresh)
		return;
	queue->waiting = queue->fresh;
	queue->waiting_nr = queue->fresh_nr;
	queue->fresh = NULL;
	queue->fresh_nr = 0;
	queue->cookie = slub_srcu_start_poll(&slub_rcu_domain);
}

static void release_all(struct grace_queue *queue, void **item, uint64_t nr)
{
	while (item) {
		void **next = *item;

		queue->release(item);
		item = next;
	}
	lock_acquire(&queue->lock);
	queue->done += nr;
	queue->releasing = false;
	lock_release(&queue->lock);
}

/* Takes what may be released, if nobody else is at it. */
static void **take_ripe(struct grace_queue *queue, uint64_t *nr)
{
	uint64_t cookie;
	void **items = NULL;

	lock_acquire(&queue->lock);
	begin(queue);
	cookie = queue->waiting ? queue->cookie : 0;
	lock_release(&queue->lock);
	if (!cookie || !slub_srcu_poll(&slub_rcu_domain, cookie))
		return NULL;
	lock_acquire(&queue->lock);
	if (queue->waiting && queue->cookie == cookie && !queue->releasing) {
		items = queue->waiting;
		*nr = queue->waiting_nr;
		queue->waiting = NULL;
		queue->releasing = true;
		begin(queue);
	}
	lock_release(&queue->lock);
	return items;
}

void grace_poll(struct grace_queue *queue)
{
	void **items;
	uint64_t nr;

	if (!__atomic_load_n(&queue->added, __ATOMIC_RELAXED) ||
	    slub_thread.locks_held)
		return;
	items = take_ripe(queue, &nr);
	if (items)
		release_all(queue, items, nr);
}

void grace_add(struct grace_queue *queue, void **item)
{
	lock_acquire(&queue->lock);
	*item = queue->fresh;
	queue->fresh = item;
	queue->fresh_nr++;
	__atomic_store_n(&queue->added, queue->added + 1, __ATOMIC_RELAXED);
	lock_release(&queue->lock);
	grace_poll(queue);
}

static bool is_done(struct grace_queue *queue, uint64_t target)
{
	bool done;

	lock_acquire(&queue->lock);
	done = queue->done >= target;
	lock_release(&queue->lock);
	return done;
}

void grace_flush(struct grace_queue *queue)
{
	uint64_t target;

	lock_acquire(&queue->lock);
	target = queue->added;
	lock_release(&queue->lock);
	while (!is_done(queue, target)) {
		slub_srcu_synchronize(&slub_rcu_domain);
		grace_poll(queue);
		sys_call4(SYS_sched_yield, 0, 0, 0, 0);
	}
}

uint64_t grace_nr(const struct grace_queue *queue)
{
	return __atomic_load_n(&queue->added, __ATOMIC_RELAXED) -
	       __atomic_load_n(&queue->done, __ATOMIC_RELAXED);
}

void grace_fork_prepare(struct grace_queue *queue)
{
	lock_acquire_for_fork(&queue->lock);
}

void grace_fork_finish(struct grace_queue *queue, bool in_child)
{
	bool torn = lock_release_after_fork(&queue->lock, in_child);

	if (!in_child)
		return;
	/* What another thread was releasing is lost to the child. */
	if (queue->releasing || torn) {
		queue->releasing = false;
		queue->done = queue->added - queue->fresh_nr -
			      (queue->waiting ? queue->waiting_nr : 0);
	}
	if (torn) {
		queue->fresh = queue->waiting = NULL;
		queue->done = queue->added;
	}
}

/* ---- slabs of TYPESAFE caches ---- */

static void slab_release(void **item)
{
	slab_give_back(container_of(item, struct page, link));
}

static struct grace_queue slabs = { .release = slab_release };

void slab_give_back_later(struct page *slab)
{
	grace_add(&slabs, (void **)&slab->link);
}

void cache_settle(struct slub_cache *cache)
{
	slub_deferred_barrier();
	if (cache->flags & SLUB_TYPESAFE_BY_RCU)
		grace_flush(&slabs);
}

void grace_fork(bool prepare, bool in_child)
{
	if (prepare)
		grace_fork_prepare(&slabs);
	else
		grace_fork_finish(&slabs, in_child);
}
