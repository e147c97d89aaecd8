/* SPDX-License-Identifier: MIT */
/*
 * SRCU on per-CPU counters (slub/srcu.h; invariants SRCU-1 to 3: reclaim.h).
 *
 * A grace period, moved on by the threads that poll or wait:
 *
 *   IDLE --started++--> DRAIN_OLD --nobody in the other phase--> flip
 *     ^                                                            |
 *     +--completed = started-- nobody in the phase that was left --+ DRAIN_LEFT
 *
 * DRAIN_OLD is for readers that read the word before the flip before this one,
 * were preempted, and counted themselves in only now.
 *
 * Order.  The reader's side costs a compiler barrier, the writer's a
 * membarrier, in nobody_inside() between its two sums:
 *   - a reader whose entering the second sum misses came after the barrier, so
 *     it sees what was changed before the grace period (SRCU-1);
 *   - a reader whose leaving the first sum holds has left before the barrier,
 *     so what it looked at may be reused after it (SRCU-2).
 * Without membarrier each side has a seq_cst fence in that place.
 *
 * Locks: srcu_lock protects the list of domains.  `driver` admits one thread
 * to the grace period; nobody waits for it.
 */
#include "features/reclaim/reclaim_internal.h"

#include <errno.h>
#include <string.h>

#define COUNTERS_BYTES 32
#define COUNTERS_MASK (~31u)
#define GENERATION 2u
#define GENERATION_MASK 6u

/* How long a fence may sit in a CPU that was not told to execute one. */
#define SETTLE_NS 20000000u

enum step { STEP_IDLE, STEP_DRAIN_OLD, STEP_DRAIN_LEFT };

SLUB_EXPORT struct slub_srcu slub_rcu_domain fork_writes = SLUB_SRCU_INIT;

struct lock srcu_lock fork_writes = LOCK_INIT;
static struct slub_srcu *domains;	/* under srcu_lock */

_Static_assert(offsetof(struct slub_srcu, started) == 64, "a cache line on");
_Static_assert(sizeof(struct slub_srcu) == 128, "programs embed it");

/* ---- domains ---- */

static usual void list_domain(struct slub_srcu *domain)
{
	if (__atomic_load_n(&domain->is_listed, __ATOMIC_RELAXED))
		return;
	lock_acquire(&srcu_lock);
	if (!domain->is_listed) {
		__atomic_store_n(&domain->is_listed, 1, __ATOMIC_RELAXED);
		domain->next = domains;
		domains = domain;
	}
	lock_release(&srcu_lock);
}

static void unlist_domain(struct slub_srcu *domain)
{
	struct slub_srcu **link = &domains;

	lock_acquire(&srcu_lock);
	while (*link && *link != domain)
		link = &(*link)->next;
	if (*link)
		*link = domain->next;
	domain->is_listed = 0;
	lock_release(&srcu_lock);
}

usual int srcu_get_counters(struct slub_srcu *domain)
{
	uint32_t word = __atomic_load_n(&domain->reader, __ATOMIC_RELAXED);
	uintptr_t offset;

	if (word & COUNTERS_MASK)
		return 0;
	offset = percpu_alloc(COUNTERS_BYTES, COUNTERS_BYTES);
	if (!offset)
		return -errno;
	list_domain(domain);
	/* release: with zeroed counters; readers depend on the value itself */
	while (!__atomic_compare_exchange_n(
		&domain->reader, &word,
		(uint32_t)offset | (word & SLUB_SRCU_PHASE) |
			/* A sanitizer's runtime is told of readers that leave. */
			(percpu_can_stop && !sanitizer.is_there ? SLUB_SRCU_FAST : 0),
		false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		if (word & COUNTERS_MASK) {
			slub_percpu_free(offset);
			break;
		}
	}
	return 0;
}

SLUB_EXPORT int slub_srcu_create(struct slub_srcu *domain)
{
	int err = -ENOMEM;

	memset(domain, 0, sizeof(*domain));
	if (!slub_thread.locks_held && slub_start())
		err = srcu_get_counters(domain);
	return err;
}

/* ---- readers, where the inline functions leave it to us ---- */

static int64_t *shared_counter(struct slub_srcu *domain, uint32_t word,
			       uint32_t kind)
{
	return &domain->shared[kind / 8 + !!(word & SLUB_SRCU_PHASE)];
}

SLUB_EXPORT int (slub_srcu_read_lock)(struct slub_srcu *domain)
{
	uint32_t word = __atomic_load_n(&domain->reader, __ATOMIC_RELAXED);
	int kept = errno;

	if (!(word & COUNTERS_MASK) && !slub_thread.locks_held &&
	    slub_start()) {
		/* Counters, or a child that forgets readers that do without. */
		if (srcu_get_counters(domain))
			list_domain(domain);
		errno = kept;
		word = __atomic_load_n(&domain->reader, __ATOMIC_RELAXED);
	}
	slub_srcu_entered(domain);
	/* Its other end is to be slow too. */
	word &= ~SLUB_SRCU_FAST;
	if (word & COUNTERS_MASK) {
		slub_percpu_add(word, 1);
	} else {
		word |= domain->generation;
		__atomic_fetch_add(shared_counter(domain, word, 0), 1,
				   __ATOMIC_RELAXED);
	}
	full_fence();
	return (int)word;
}

SLUB_EXPORT void (slub_srcu_read_unlock)(struct slub_srcu *domain, int index)
{
	/* The section may have been entered inline: then its counter is the same. */
	uint32_t word = (uint32_t)index & ~SLUB_SRCU_FAST;

	sanitizer_release(domain);
	full_fence();
	if (word & COUNTERS_MASK)
		slub_percpu_add(word + SLUB_SRCU_LEFT, 1);
	else if ((word & GENERATION_MASK) == domain->generation)
		__atomic_fetch_add(shared_counter(domain, word, SLUB_SRCU_LEFT),
				   1, __ATOMIC_RELAXED);
	slub_srcu_left(domain);
}

/*
 * Each thread counts the sections of slub_rcu_domain that it entered and has not left
 * (slub/srcu.h).  A grace period that is over proves that it is in none.
 */
bool srcu_is_inside(void)
{
	uint64_t cookie;

	if (likely(!(slub_thread.self.sections & ~THREAD_DRAINING)))
		return false;
	cookie = slub_srcu_start_poll(&slub_rcu_domain);
	if (!slub_srcu_poll(&slub_rcu_domain, cookie))
		return true;
	slub_thread.self.sections &= THREAD_DRAINING;
	return false;
}

/* ---- sums ---- */

/* @kind: 0: readers that came, SLUB_SRCU_LEFT: that left; @word: counters and phase. */
static usual int64_t sum(const struct slub_srcu *domain, uint32_t word,
		   uint32_t kind)
{
	uint32_t phase = !!(word & SLUB_SRCU_PHASE);
	uintptr_t offset = (word & ~SLUB_SRCU_FAST) + kind;
	int64_t total = __atomic_load_n(&domain->shared[kind / 8 + phase],
					__ATOMIC_RELAXED);

	if (!(word & COUNTERS_MASK))
		return total;
	/* The last one is the shared area. */
	for (uint32_t cid = 0, end = percpu_areas_end(); cid <= end; cid++) {
		const char *area = cid < end ? percpu_area(cid) :
					       percpu_shared_area();

		if (area)
			total += __atomic_load_n((const int64_t *)(area + offset),
						 __ATOMIC_RELAXED);
	}
	return total;
}

/* Makes all CPUs execute a fence; false: that needs time. */
static bool fence_everybody(struct slub_srcu *domain)
{
	if (!(__atomic_load_n(&domain->reader, __ATOMIC_RELAXED) &
	      SLUB_SRCU_FAST)) {
		full_fence();
		return os_clock_ns() >= domain->not_before_ns;
	}
	if (os_barrier() == 0)
		return true;
	/*
	 * It was allowed at the start and is no more (a sandbox).  Readers
	 * fence from now on; those that do not yet are given a few ticks.
	 */
	domain->not_before_ns = os_clock_ns() + SETTLE_NS;
	__atomic_fetch_and(&domain->reader, ~SLUB_SRCU_FAST, __ATOMIC_SEQ_CST);
	return false;
}

/* Has nobody been inside, in the phase of @bit, at one moment from now on? */
static bool nobody_inside(struct slub_srcu *domain, uint32_t bit)
{
	uint32_t word = __atomic_load_n(&domain->reader, __ATOMIC_RELAXED);
	uint32_t look = (word & ~SLUB_SRCU_PHASE) | bit;
	int64_t left = sum(domain, look, SLUB_SRCU_LEFT);

	/* A first look without the barrier: somebody is. */
	if (sum(domain, look, 0) != left)
		return false;
	if (!fence_everybody(domain))
		return false;
	/* Counters came meanwhile, or a sandbox: look again. */
	if (__atomic_load_n(&domain->reader, __ATOMIC_RELAXED) != word)
		return false;
	return sum(domain, look, 0) == left;	/* SRCU-3 */
}

/* ---- the grace period ---- */

static bool is_done(const struct slub_srcu *domain, uint64_t cookie)
{
	/* acquire: pairs with the release in advance() */
	if (__atomic_load_n(&domain->completed, __ATOMIC_ACQUIRE) < cookie)
		return false;
	sanitizer_acquire(domain);
	return true;
}

/* One step; false: somebody is inside. */
static bool advance(struct slub_srcu *domain)
{
	uint32_t phase = __atomic_load_n(&domain->reader, __ATOMIC_RELAXED) &
			 SLUB_SRCU_PHASE;

	if (domain->step == STEP_IDLE) {
		__atomic_store_n(&domain->started, domain->started + 1,
				 __ATOMIC_RELAXED);
		/* Pairs with the fence in slub_srcu_start_poll(). */
		full_fence();
		domain->step = STEP_DRAIN_OLD;
		return true;
	}
	if (!nobody_inside(domain, phase ^ SLUB_SRCU_PHASE))
		return false;
	if (domain->step == STEP_DRAIN_OLD) {
		inject(INJECT_phase);
		__atomic_fetch_xor(&domain->reader, SLUB_SRCU_PHASE,
				   __ATOMIC_SEQ_CST);
		domain->step = STEP_DRAIN_LEFT;
		return true;
	}
	domain->step = STEP_IDLE;
	__atomic_store_n(&domain->completed, domain->started,
			 __ATOMIC_RELEASE);
	return true;
}

SLUB_EXPORT bool slub_srcu_poll(struct slub_srcu *domain, uint64_t cookie)
{
	uint32_t nobody = 0;

	if (is_done(domain, cookie))
		return true;
	/* acquire: pairs with the release below */
	if (!__atomic_compare_exchange_n(&domain->driver, &nobody,
					 thread_self(), false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	while (!is_done(domain, cookie) && advance(domain))
		continue;
	__atomic_store_n(&domain->driver, 0, __ATOMIC_RELEASE);
	return is_done(domain, cookie);
}

SLUB_EXPORT uint64_t slub_srcu_start_poll(struct slub_srcu *domain)
{
	if (!slub_thread.locks_held && slub_start())
		srcu_get_counters(domain);
	/*
	 * What the caller changed comes before this look: a grace period that
	 * it does not see begun will see the change.
	 */
	full_fence();
	return __atomic_load_n(&domain->started, __ATOMIC_RELAXED) + 1;
}

SLUB_EXPORT void slub_srcu_synchronize(struct slub_srcu *domain)
{
	uint64_t cookie = slub_srcu_start_poll(domain);

	if (unlikely(domain == &slub_rcu_domain && srcu_is_inside()))
		log_once("slub_srcu_synchronize: called inside slub_read_lock(): it "
			 "waits for its caller");
	for (unsigned int i = 0; !slub_srcu_poll(domain, cookie); i++)
		sys_wait_long(i);
}

static usual bool is_balanced(const struct slub_srcu *domain, uint32_t word)
{
	uint32_t other = word ^ SLUB_SRCU_PHASE;

	return sum(domain, word, SLUB_SRCU_LEFT) == sum(domain, word, 0) &&
	       sum(domain, other, SLUB_SRCU_LEFT) == sum(domain, other, 0);
}

SLUB_EXPORT void slub_srcu_destroy(struct slub_srcu *domain)
{
	uint32_t word = domain->reader;

	unlist_domain(domain);
	if (!is_balanced(domain, word))
		log_message("srcu: destroyed with a reader inside");
	else if (word & COUNTERS_MASK)
		slub_percpu_free(word & COUNTERS_MASK);
	memset(domain, 0, sizeof(*domain));
}

/* ---- fork ---- */

/*
 * Readers of other threads did not come along, and will never count themselves
 * out.  One of this thread's own may be inside and will: into the old counters,
 * so they are replaced and not cleared, or, where they are shared[], of the old
 * generation, which is not counted.
 */
static void forget_readers(struct slub_srcu *domain)
{
	uint32_t word = domain->reader;
	uintptr_t offset;

	if (!percpu_can_stop)
		word &= ~SLUB_SRCU_FAST;
	if (!is_balanced(domain, word)) {
		/* A handler that interrupted the holder of area_lock may fork. */
		offset = slub_thread.locks_held ? 0 :
			 percpu_alloc(COUNTERS_BYTES, COUNTERS_BYTES);
		word &= ~COUNTERS_MASK;
		word = offset ? word | (uint32_t)offset : word & ~SLUB_SRCU_FAST;
		memset(domain->shared, 0, sizeof(domain->shared));
		domain->generation = (domain->generation + GENERATION) &
				     GENERATION_MASK;
	}
	domain->reader = word;
	/* Else a handler that interrupted the driver forks, and goes on. */
	if (domain->driver != thread_self()) {
		domain->driver = 0;
		domain->step = STEP_IDLE;
		/* Also that which the last cookie is for. */
		domain->completed = ++domain->started;
	}
}

usual void srcu_fork_child(void)
{
	for (struct slub_srcu *d = domains; d; d = d->next)
		forget_readers(d);
}
