/* SPDX-License-Identifier: MIT */
/*
 * Emptying the lists of any CPU: the stop-a-CPU protocol.
 *
 *   1  point the CPU's base entry, in both tables, at the dummy area
 *   2  membarrier(PRIVATE_EXPEDITED_RSEQ): every sequence that had read the
 *      entry before is restarted, and reads the dummy
 *   3  the area is ours: move its lists out, leave it empty
 *   4  point the entry back
 *
 * Whoever comes by between 1 and 4 finds nothing and takes the slow path.
 * The lists are moved by copying the area's slots into the collection area,
 * so a CPU is stopped for a few microseconds, whatever is in its lists.
 */
#include "percpu/percpu.h"


#include "percpu/percpu_internal.h"

/* One collector at a time; not a lock, for it is held across others. */
static _Atomic uint32_t collecting;

/*
 * How often a thread that is in the middle of an operation is waited for; about
 * a second.  For ever it must not be: a signal handler that interrupted it may
 * wait for area_lock.
 */
#define BUSY_WAITS_MAX 10000
/* How often fork waits for a collector; then its lists are lost to the child. */
#define COLLECT_WAITS_MAX 2000

bool percpu_collect_begin(void)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&collecting, &none, thread_self(),
					   false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static bool is_collecting(void)
{
	return __atomic_load_n(&collecting, __ATOMIC_RELAXED) == thread_self();
}

void percpu_collect_end(void)
{
	__atomic_store_n(&collecting, 0, __ATOMIC_RELEASE);
}

/* What is moved out of an area, and where to (at the same offset). */
struct move {
	char *to;
	uintptr_t start;
	size_t bytes;
};

/*
 * Leaves the slots empty; by words, at which others glance (percpu_peek), and which
 * those who free empty slots store too (percpu_free_slots()).
 */
static void move_slots(char *from, const struct move *move)
{
	uint64_t *to = (uint64_t *)(move->to + move->start);
	uint64_t *word = (uint64_t *)(from + move->start);

	for (size_t i = 0; i < move->bytes / sizeof(*word); i++) {
		to[i] = __atomic_load_n(&word[i], __ATOMIC_RELAXED);
		__atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
	}
}

static bool collect_rseq(uint32_t cid, char *area, const struct move *move)
{
	bool stopped;

	lock_acquire(&area_lock);
	percpu_base_set(cid, NULL);
	inject(INJECT_stop);
	stopped = os_barrier_rseq() == 0;
	inject(INJECT_stopped);
	if (stopped)
		move_slots(area, move);
	inject(INJECT_restart);
	percpu_base_set(cid, area);
	lock_release(&area_lock);
	return stopped;
}

/* Waits until the owner is out of its operation; false: it takes too long. */
static bool wait_not_busy(_Atomic uint32_t *busy)
{
	for (unsigned int i = 0; i < BUSY_WAITS_MAX; i++) {
		if (!__atomic_load_n(busy, __ATOMIC_ACQUIRE))
			return true;
		sys_wait(i);
	}
	return false;
}

/*
 * An ending thread waits for area_lock, so its busy word stays readable; and
 * who takes over an area that has no owner waits too, so that only an area of
 * another live thread needs the barrier.
 */
static bool collect_thread(uint32_t cid, char *area, const struct move *move)
{
	_Atomic uint32_t *busy;
	bool stopped = true;

	lock_acquire(&area_lock);
	busy = *area_owner_busy(area);
	/* Also its own: a signal handler may come in between. */
	percpu_base_set(cid, NULL);
	inject(INJECT_stop);
	if (busy == &slub_thread.busy)
		stopped = !__atomic_load_n(busy, __ATOMIC_RELAXED);
	else if (busy)
		stopped = percpu_can_stop && os_barrier() == 0 &&
			  wait_not_busy(busy);
	inject(INJECT_stopped);
	if (stopped)
		move_slots(area, move);
	inject(INJECT_restart);
	percpu_base_set(cid, area);
	lock_release(&area_lock);
	return stopped;
}

static bool collect_tid(char *area, const struct move *move)
{
	uintptr_t end = move->start + move->bytes;

	for (uintptr_t slot = move->start; slot < end; slot += SLOT_BYTES) {
		struct slot *out = (struct slot *)(move->to + slot);

		out->main.head = percpu_tid_take(area, slot);
		out->spare.head = percpu_tid_take(area, slot + SLOT_SPARE);
	}
	return true;
}

static bool collect_lock(char *area, const struct move *move)
{
	lock_acquire(area_own_lock(area));
	move_slots(area, move);
	lock_release(area_own_lock(area));
	return true;
}

static bool collect(uint32_t cid, const struct move *move)
{
	char *area = percpu_area(cid);

	if (!area)
		return false;
	switch (percpu_backend) {
	case BACKEND_RSEQ:
		return percpu_can_stop && collect_rseq(cid, area, move);
	case BACKEND_THREAD:
		return collect_thread(cid, area, move);
	case BACKEND_TID:
		return collect_tid(area, move);
	case BACKEND_LOCK:
		return collect_lock(area, move);
	case BACKEND_NONE:
		break;
	}
	return false;
}

/* Slot 0 is the area's own. */
struct slot *percpu_collect(uint32_t cid)
{
	struct move move = { percpu_collect_area(), SLOT_BYTES,
			     percpu_slots_end() - SLOT_BYTES };

	return collect(cid, &move) ? (struct slot *)move.to : NULL;
}

bool percpu_peek(uint32_t cid, uintptr_t offset)
{
	char *area = percpu_area(cid);

	return area && __atomic_load_n((void **)(area + offset),
				       __ATOMIC_RELAXED);
}

bool percpu_collect_slot(uint32_t cid, uintptr_t offset, struct slot *out)
{
	struct move move = { (char *)out - offset, offset, SLOT_BYTES };

	/* Slot 0 is the area's own: @out's cache is no more. */
	return !offset || collect(cid, &move);
}

usual void percpu_fork_prepare(void)
{
	/*
	 * Wait for a collector: it holds lists that would be lost in the
	 * child.  Unless it is the code that this handler interrupted, or may
	 * be waiting for a lock that that code holds.
	 */
	if (!slub_thread.locks_held && !is_collecting()) {
		bool begun = percpu_collect_begin();

		for (unsigned int i = 0; !begun && i < COLLECT_WAITS_MAX;
		     i++) {
			sys_wait(i);
			begun = percpu_collect_begin();
		}
		if (begun)
			slub_thread.flags |= THREAD_FORKING;
	}
	lock_acquire_for_fork(&area_lock);
	if (percpu_shared_area())
		lock_acquire_for_fork(area_own_lock(percpu_shared_area()));
	if (percpu_backend != BACKEND_LOCK)
		return;
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		char *area = percpu_area(cid);

		if (area)
			lock_acquire_for_fork(area_own_lock(area));
	}
}

/* A CPU may have been stopped by a thread that did not come along. */
static void restart_all(void)
{
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		if (percpu_area(cid))
			percpu_base_set(cid, percpu_area(cid));
	}
}

/* Thread numbers of threads that did not come along. */
static void forget_owners(void)
{
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
		char *area = percpu_area(cid);

		if (area && *area_owner_busy(area) != &slub_thread.busy)
			*area_owner_busy(area) = NULL;
	}
}

usual void percpu_fork_finish(bool in_child)
{
	if (percpu_backend == BACKEND_LOCK) {
		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++) {
			char *area = percpu_area(cid);

			if (area)
				lock_release_after_fork(area_own_lock(area),
							in_child);
		}
	}
	if (percpu_shared_area())
		lock_release_after_fork(area_own_lock(percpu_shared_area()),
					in_child);
	if (in_child && percpu_backend == BACKEND_THREAD) {
		forget_owners();
		percpu_numbers_after_fork();
	}
	if (lock_release_after_fork(&area_lock, in_child))
		restart_all();
	/* The child does not inherit another thread's collection. */
	if (slub_thread.flags & THREAD_FORKING ||
	    (in_child && !is_collecting())) {
		slub_thread.flags &= ~(uint32_t)THREAD_FORKING;
		percpu_collect_end();
	}
	/* membarrier(2) wants each process to register for itself. */
	if (in_child)
		percpu_can_stop = percpu_can_stop && os_membarrier_register();
}
