/* SPDX-License-Identifier: MIT */
/*
 * What waits for readers (slub/srcu.h): slabs of TYPESAFE caches that became
 * empty, and sheaves of objects that were freed deferred.
 *
 *   add --> fresh --grace period begins--> waiting --readers left--> ripe --> release
 *
 * Nobody works in the background: each call that adds something moves the queue
 * on as far as it goes without waiting, and releases a few ripe items, more
 * than it added: so the queue stays short however many threads add to it.  A program that
 * adds nothing more moves it on in malloc's slow paths (slab_grace_look()), and whoever is
 * short of memory takes all that is ripe (deferred_drain()).
 * What is waiting becomes ripe when all that was ripe before is released: items
 * are done in the order of their grace periods, and `done` tells which are.
 *
 * An item is the word that links it to the next.
 *
 * Locks: the queue's own; not held while the readers are asked for or items
 * are released.
 */
#include "core/base/turn.h"
#include "features/reclaim/reclaim.h"
#include "core/slab/switches.h"
#include "features/guard/guard.h"
#include "core/slab/slab_internal.h"
#include "features/rcu/rcu.h"

/* Released by one call at the most, which adds one. */
#define RELEASE_ITEMS 4

/* Under the lock: counts the batch, if all of it is released. */
static void batch_done(struct grace_queue *queue)
{
	if (queue->unreleased)
		return;
	/* release: pairs with grace_nr() */
	__atomic_store_n(&queue->done, queue->done + queue->batch,
			 __ATOMIC_RELEASE);
	queue->batch = 0;
}

/*
 * In a child what was being released counts no more: of other threads it is lost.  Of
 * this one, whose handler forked, it will be released before the thread does anything
 * else; but nobody in that handler could wait for it.
 */
static void forked(struct grace_queue *queue)
{
	queue->forks = turn_forks;
	queue->unreleased = queue->ripe_nr;
	batch_done(queue);
}

/* Not in the child's handler of fork, which may have interrupted the holder. */
static void queue_lock(struct grace_queue *queue)
{
	lock_acquire(&queue->lock);
	if (unlikely(queue->forks != turn_forks))
		forked(queue);
}

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

/* Under the lock: a few ripe items, which are the caller's then. */
static void **take_ripe(struct grace_queue *queue, uint64_t *nr)
{
	void **first = queue->ripe, **last = first;

	if (!first)
		return NULL;
	for (*nr = 1; *nr < RELEASE_ITEMS && *last; ++*nr)
		last = *last;
	queue->ripe = *last;
	queue->ripe_nr -= *nr;
	*last = NULL;
	return first;
}

/* What waits becomes ripe, if its readers have left. */
static void ripen(struct grace_queue *queue)
{
	uint64_t cookie;

	queue_lock(queue);
	begin(queue);
	cookie = queue->waiting && !queue->unreleased ? queue->cookie : 0;
	lock_release(&queue->lock);
	if (!cookie || !slub_srcu_poll(&slub_rcu_domain, cookie))
		return;
	inject(INJECT_ripen);
	queue_lock(queue);
	if (queue->waiting && queue->cookie == cookie && !queue->unreleased) {
		/* Whoever releases them need not have asked for the readers itself. */
		sanitizer_release(queue);
		queue->ripe = queue->waiting;
		queue->ripe_nr = queue->waiting_nr;
		queue->unreleased = queue->batch = queue->waiting_nr;
		queue->waiting = NULL;
		begin(queue);
	}
	lock_release(&queue->lock);
}

/* Releases a few items; false: none is ripe. */
static bool poll(struct grace_queue *queue)
{
	void **item, **next;
	uint64_t nr = 0;
	uint32_t forks;

	ripen(queue);
	queue_lock(queue);
	item = take_ripe(queue, &nr);
	forks = queue->forks;
	lock_release(&queue->lock);
	if (!item)
		return false;
	inject(INJECT_release);
	sanitizer_acquire(queue);
	for (; item; item = next) {
		next = *item;
		queue->release(item);
	}
	queue_lock(queue);
	/* A child that was forked in between does not count on these. */
	if (queue->forks == forks) {
		slub_assert(queue->unreleased >= nr);
		queue->unreleased -= nr;
		batch_done(queue);
	}
	lock_release(&queue->lock);
	return true;
}

bool grace_poll(struct grace_queue *queue)
{
	return grace_nr(queue) && !slub_thread.locks_held && poll(queue);
}

void grace_drain(struct grace_queue *queue)
{
	while (grace_poll(queue))
		continue;
}

void grace_put(struct grace_queue *queue, void **item)
{
	queue_lock(queue);
	*item = queue->fresh;
	queue->fresh = item;
	queue->fresh_nr++;
	__atomic_store_n(&queue->added, queue->added + 1, __ATOMIC_RELAXED);
	lock_release(&queue->lock);
}

void grace_add(struct grace_queue *queue, void **item)
{
	grace_put(queue, item);
	grace_poll(queue);
}

void grace_flush(struct grace_queue *queue)
{
	uint64_t target = 0;

	for (unsigned int i = 0;; i++) {
		bool done;

		queue_lock(queue);
		target = target ? target : queue->added;
		done = queue->done >= target;
		lock_release(&queue->lock);
		if (done)
			return;
		slub_srcu_synchronize(&slub_rcu_domain);
		while (poll(queue))
			;
		sys_wait(i);
	}
}

uint64_t grace_nr(const struct grace_queue *queue)
{
	/* In this order: what is done was added, also when we are preempted. */
	uint64_t done = __atomic_load_n(&queue->done, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&queue->added, __ATOMIC_RELAXED) - done;
}

/* ---- slabs of TYPESAFE caches ---- */

/* They are on no partial list.  (Their link is what holes.c, or an object, has.) */
static void slab_release(void **item)
{
	struct list *list = (struct list *)(void *)item;

	slab_give_back(container_of(list, struct page, list));
}

static struct grace_queue slabs fork_writes = { .release = slab_release };

void slab_give_back_later(struct page *slab)
{
	/* Empty and on no list. */
	struct double_word now = slab_read(slab);

	slab_state_set(slab, now.first,
		       now.second & ~(STATE_FROZEN | STATE_LISTED));
	grace_use();
	grace_add(&slabs, (void **)&slab->list.next);
}

void grace_drain_slabs(void)
{
	while (guard_poll())
		continue;
	grace_drain(&slabs);
}

/* A reader may not wait, for it would wait for itself. */
bool cache_settle(struct slub_cache *cache)
{
	if (unlikely(srcu_is_inside())) {
		deferred_drain();
		return false;
	}
	slub_deferred_barrier();
	if (cache->flags & SLUB_CACHE_TYPESAFE_BY_RCU) {
		guard_flush();
		grace_flush(&slabs);
	}
	return true;
}

/* ---- a slow path's look ---- */

/* What a look costs, some 100 ns for each CPU while a reader is inside, is spread. */
#define LOOK_STEPS 64

void slab_grace_look(uint32_t steps)
{
	/* Of all threads; a lost step is a look too few. */
	static uint32_t taken;
	bool is_more;

	steps += __atomic_load_n(&taken, __ATOMIC_RELAXED);
	__atomic_store_n(&taken, steps, __ATOMIC_RELAXED);
	if (likely(steps < LOOK_STEPS) || slub_thread.locks_held ||
	    slub_thread.self.sections & THREAD_DRAINING)
		return;
	slub_thread.self.sections |= THREAD_DRAINING;
	is_more = deferred_look() | grace_poll(&slabs);
	slub_thread.self.sections &= ~THREAD_DRAINING;
	/* What is ripe goes a few items at a time: the next one may begin at once. */
	__atomic_store_n(&taken, is_more ? LOOK_STEPS : 0, __ATOMIC_RELAXED);
}

usual void grace_fork(enum fork_step step)
{
	guard_fork(step);
	lock_fork(&slabs.lock, step);
}
