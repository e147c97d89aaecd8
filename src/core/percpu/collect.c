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
 * A sequence that comes by between 1 and 4 finds nothing, and its thread goes slow.
 * The lists are moved by copying the area's slots, so a CPU is stopped for a few
 * microseconds, whatever is in its lists.
 *
 * The barrier reaches every CPU that runs a thread of the process, so one is enough
 * for several: steps 1 and 3 are taken for up to COLLECT_CPUS of them in turn, with
 * one step 2 in between.  What holds for one CPU holds for each: its entry was set
 * before the barrier, so a sequence that had read the old one had begun before it, and
 * was restarted or had made its last store; none reads the old one after it.  Step 4
 * of one CPU may come before step 3 of another, for a sequence works on the area of
 * one CPU alone.
 */
#include "core/percpu/percpu.h"

#include "core/base/line.h"
#include "core/percpu/percpu_internal.h"

/* One collector at a time. */
static struct line collecting fork_writes;

/*
 * How often a thread that is in the middle of an operation is waited for; about
 * a second.  For ever it must not be: a signal handler that interrupted it may
 * wait for area_lock.
 */
#define BUSY_WAITS_MAX 10000
/* How often fork waits for a collector; then its lists are lost to the child. */
#define COLLECT_PATIENCE_MS 200

void percpu_collect_end(void)
{
	line_end(&collecting);
}

/* CPUs that are stopped together. */
struct stopped {
	uint32_t nr;
	uint32_t cids[COLLECT_CPUS];
};

/*
 * Leaves the slots empty.  It stores words, for other threads read single words
 * (percpu_peek()), and a thread that frees empty slots stores them too
 * (percpu_free_slots()).
 */
static void move_slots(char *area, struct collection *collection)
{
	size_t nr = collection->nr_slots * (SLOT_BYTES / sizeof(uint64_t));
	uint64_t *to = (uint64_t *)(collection->lists + collection->nr_lists);
	uint64_t *word = (uint64_t *)(area + collection->start);

	for (size_t i = 0; i < nr; i++) {
		to[i] = __atomic_load_n(&word[i], __ATOMIC_RELAXED);
		__atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
	}
	collection->nr_lists += collection->nr_slots;
}

/* Waits until the owner is out of its operation; false: it takes too long. */
static bool wait_not_busy(_Atomic uint32_t *busy, unsigned int *waits)
{
	while (__atomic_load_n(busy, __ATOMIC_ACQUIRE)) {
		if (*waits == BUSY_WAITS_MAX)
			return false;
		sys_wait((*waits)++);
	}
	return true;
}

/* NULL: no thread owns @area.  Backend rseq has a key in that place. */
static _Atomic uint32_t *owner_busy(char *area)
{
	return percpu_backend == BACKEND_THREAD ?
		__atomic_load_n(area_owner_busy(area), __ATOMIC_RELAXED) : NULL;
}

/*
 * Backends rseq and thread.  Of the latter: an ending thread waits for area_lock, so its
 * busy word stays readable; and a thread that takes over an area without an owner waits too,
 * so that only an area of another live thread needs the barrier.
 *
 * A handler that interrupted an operation of its thread does not wait for the lock: the
 * thread that holds the lock may wait for this one.
 */
static cold void collect_stopped(const struct stopped *cpus,
			    struct collection *collection)
{
	const bool is_rseq = percpu_backend == BACKEND_RSEQ;
	bool needs_barrier = is_rseq, fenced;
	unsigned int waits = 0;

	if (is_rseq ? !percpu_can_stop :
		      __atomic_load_n(&slub_thread.busy, __ATOMIC_RELAXED)) {
		collection->is_whole = false;
		return;
	}
	lock_acquire(&area_lock);
	for (uint32_t i = 0; i < cpus->nr; i++) {
		_Atomic uint32_t *busy = owner_busy(percpu_area(cpus->cids[i]));

		needs_barrier |= busy && busy != &slub_thread.busy;
		/* Also its own: a signal handler may come in between. */
		percpu_base_set(cpus->cids[i], NULL);
	}
	inject(INJECT_stop);
	fenced = needs_barrier && percpu_can_stop && collection->from != COLLECT_HERE &&
		 (is_rseq ? os_barrier_rseq() : os_barrier()) == 0;
	inject(INJECT_stopped);
	for (uint32_t i = 0; i < cpus->nr; i++) {
		char *area = percpu_area(cpus->cids[i]);
		_Atomic uint32_t *busy = owner_busy(area);
		bool stopped = !is_rseq || fenced;

		if (busy == &slub_thread.busy)
			stopped = !__atomic_load_n(busy, __ATOMIC_RELAXED);
		else if (busy)
			stopped = fenced && wait_not_busy(busy, &waits);
		if (stopped)
			move_slots(area, collection);
		if (stopped && is_rseq && collection->stopped)
			collection->stopped(collection, cpus->cids[i]);
		inject(INJECT_restart);
		percpu_base_set(cpus->cids[i], area);
		collection->is_whole &= stopped;
	}
	lock_release(&area_lock);
}

static void lists_collect(const struct stopped *cpus, struct collection *collection)
{
	/* Areas come with the backend. */
	slub_assert(percpu_backend != BACKEND_NONE);
	if (percpu_backend == BACKEND_RSEQ || percpu_backend == BACKEND_THREAD) {
		collect_stopped(cpus, collection);
		return;
	}
	for (uint32_t i = 0; i < cpus->nr; i++) {
		char *area = percpu_area(cpus->cids[i]);

		if (percpu_backend == BACKEND_TID) {
			percpu_tid_collect(area, collection);
			continue;
		}
		lock_acquire(area_own_lock(area));
		move_slots(area, collection);
		lock_release(area_own_lock(area));
	}
}

bool percpu_peek(uint32_t cid, uintptr_t offset)
{
	char *area = percpu_area(cid);

	return area && __atomic_load_n((void **)(area + offset),
				       __ATOMIC_RELAXED);
}

/* Is there anything to move, also a list's room?  As of a moment ago. */
static bool is_used(const char *area, const struct collection *collection)
{
	size_t nr = collection->nr_slots * (SLOT_BYTES / sizeof(uint64_t));
	const uint64_t *word = (const uint64_t *)(area + collection->start);

	for (size_t i = 0; i < nr; i++) {
		if (__atomic_load_n(&word[i], __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

static bool has_lists(uint32_t cid, const struct collection *collection)
{
	for (uint32_t i = 0; i < collection->nr_slots; i++) {
		uint32_t slot = collection->start + i * SLOT_BYTES;

		if (percpu_peek(cid, slot) ||
		    percpu_peek(cid, slot + SLOT_SPARE) ||
		    (collection->stopped && percpu_has_local(cid, slot)))
			return true;
	}
	return false;
}

/* Backend thread: the area of another thread, that lives; a guess. */
static bool is_of_another(char *area)
{
	_Atomic uint32_t *busy = owner_busy(area);

	return busy && busy != &slub_thread.busy;
}

static bool is_wanted(uint32_t cid, const struct collection *collection)
{
	char *area = percpu_area(cid);

	if (!area || collection->from == COLLECT_ALL)
		return area;
	if (collection->from == COLLECT_HERE && is_of_another(area))
		return false;
	return collection->from == COLLECT_USED ? is_used(area, collection) :
						  has_lists(cid, collection);
}

/* Its lists, by the operations of its own threads; the room is set right by the next of these. */
static bool collect_here(struct collection *collection)
{
	uint32_t cid = percpu_here();

	if (collection->next == collection->end || !percpu_area(cid))
		return false;
	collection->next = collection->end;
	collection->nr_lists = collection->nr_slots;
	for (uint32_t i = 0; i < collection->nr_slots; i++) {
		uint32_t slot = collection->start + i * SLOT_BYTES;
		struct slot *to = &collection->lists[i];

		/* A short list is as good as empty, and its class is to stay as it is. */
		if (percpu_is_short(cid, slot)) {
			*to = (struct slot){ .main.head = NULL };
			continue;
		}
		to->main.head = percpu_peek(cid, slot) ? percpu_take(slot, 0) : NULL;
		to->spare.head = percpu_peek(cid, slot + SLOT_SPARE) ?
				 percpu_take(slot + SLOT_SPARE, 0) : NULL;
	}
	return true;
}

bool percpu_collect(struct collection *collection)
{
	struct stopped cpus;
	uint32_t room;

	cpus.nr = 0;
	collection->nr_lists = 0;
	if (!collection->nr_slots)
		return false;
	if (collection->from == COLLECT_HERE && percpu_backend == BACKEND_RSEQ)
		return collect_here(collection);
	room = min_size(COLLECT_CPUS, collection->nr_lists_max /
				      collection->nr_slots);
	for (; collection->next < collection->end && cpus.nr < room;
	     collection->next++) {
		if (is_wanted(collection->next, collection))
			cpus.cids[cpus.nr++] = collection->next;
	}
	if (cpus.nr)
		lists_collect(&cpus, collection);
	return cpus.nr;
}

void percpu_collection_init(struct collection *collection,
			    enum collect_from from, uint32_t start,
			    uint32_t nr_slots)
{
	if (from == COLLECT_HERE && percpu_backend > BACKEND_THREAD)
		from = COLLECT_LISTS;
	collection->from = from;
	collection->stopped = NULL;
	collection->start = start;
	/* Slot 0 is the area's own: @start's cache is no more. */
	collection->end = start ? percpu_areas_end() : 0;
	collection->nr_slots = nr_slots;
	collection->next = 0;
	collection->is_whole = true;
	collection->nr_lists = 0;
}

/* Slot 0 is the area's own.  As many CPUs at a time as there is room for. */
bool percpu_collect_begin(struct collection *collection, enum collect_from from)
{
	if (!line_try(&collecting))
		return false;
	percpu_collection_init(collection, from, SLOT_BYTES,
			       percpu_slots_end() / SLOT_BYTES - 1);
	collection->lists = percpu_areas.collect;
	collection->nr_lists_max = COLLECT_LISTS_MAX;
	return true;
}

/* From the near slots, all of them, to the far ones, and through these by pieces. */
cold bool percpu_collect_more(struct collection *collection, enum collect_from from)
{
	uint32_t start = collection->start + collection->nr_slots * SLOT_BYTES;

	start = max_size(start, AREA_FAR);
	if (start >= percpu_far_slots_end())
		return false;
	percpu_collection_init(collection, from, start,
			       (uint32_t)min_size((percpu_far_slots_end() - start) / SLOT_BYTES,
						  COLLECT_LISTS_MAX));
	return true;
}

/* The shared area's own lock, and under backend lock those of all. */
static usual void own_locks_fork(enum fork_step step)
{
	uint32_t end = percpu_backend == BACKEND_LOCK ? percpu_areas_end() : 0;

	if (percpu_shared_area())
		lock_fork(area_own_lock(percpu_shared_area()), step);
	for (uint32_t cid = 0; cid < end; cid++) {
		if (percpu_area(cid))
			lock_fork(area_own_lock(percpu_area(cid)), step);
	}
}

usual void percpu_fork_prepare(void)
{
	/*
	 * Wait for a collector: it holds lists that would be lost in the
	 * child.  Unless it is the code that this handler interrupted, or may
	 * be waiting for a lock that that code holds.
	 */
	if (!slub_thread.locks_held &&
	    line_wait(&collecting, COLLECT_PATIENCE_MS))
		slub_thread.flags |= THREAD_FORKING;
	lock_acquire_for_fork(&area_lock);
	own_locks_fork(FORK_BEGINS);
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

usual void percpu_fork_let_collect(void)
{
	if (slub_thread.locks_held || !(slub_thread.flags & THREAD_FORKING))
		return;
	slub_thread.flags &= ~(uint32_t)THREAD_FORKING;
	percpu_collect_end();
}

usual void percpu_fork_finish(bool in_child)
{
	own_locks_fork(fork_end(in_child));
	if (in_child) {
		percpu_key_after_fork();
		percpu_nr_threads = percpu_nr_threads != 0;
	}
	if (in_child && percpu_backend == BACKEND_THREAD) {
		forget_owners();
		percpu_numbers_after_fork();
	}
	lock_release_after_fork(&area_lock, in_child);
	percpu_fork_let_collect();
}
