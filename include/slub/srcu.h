/* SPDX-License-Identifier: MIT */
/*
 * Readers without locks, that may sleep.
 *
 * A reader brackets its look with slub_srcu_read_lock() and
 * slub_srcu_read_unlock().  A writer takes an object out of where readers find
 * it, waits for slub_srcu_synchronize(), and may then free it: every reader
 * that could still have found it has left.  Readers never wait, not for each
 * other and not for writers; writers wait for readers only.
 *
 *   reader                               writer
 *   i = slub_srcu_read_lock(&d);         old = shared;
 *   p = atomic load of shared            atomic store of shared = new;
 *   ... use *p, sleep, allocate ...      slub_srcu_synchronize(&d);
 *   slub_srcu_read_unlock(&d, i);        free(old);
 *
 * A domain counts the readers that came and those that left, per CPU, in two
 * phases.  A writer waits until nobody of the phase before is left, turns to
 * the other phase, so that new readers cannot keep it waiting, and waits for
 * those of the phase it left.
 *
 * Readers execute no atomic instruction and no fence: the writer makes every
 * CPU that runs this process execute one (membarrier).  Where the kernel does
 * not allow that, readers execute a fence each; one bit of the word that they
 * read anyway says so.
 *
 * fork: in the child, readers of the other threads are gone, and do not count.
 * A section that the forking thread itself is in does not count either: leave
 * it as ever, but do not rely on it.  Grace periods that had been asked for
 * before are over.
 *
 * From: the kernel's srcu_read_lock(), synchronize_srcu(),
 * start_poll_synchronize_srcu(), poll_state_synchronize_srcu().
 */
#ifndef SLUB_INCLUDE_SRCU_H
#define SLUB_INCLUDE_SRCU_H

#include <slub/percpu.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/*
 * A domain: readers of one do not delay writers of another.  Embed it; the
 * members are the library's.
 */
struct slub_srcu {
	uint32_t reader;	/* what the next reader gets as its index */
	uint32_t is_listed;
	int64_t shared[4];	/* counters until there are per-CPU ones */
	uint64_t reserved0[3];
	/* above: what readers read; below: what writers write */
	uint64_t started;	/* grace periods begun */
	uint64_t completed;	/* and done */
	uint64_t not_before_ns;
	struct slub_srcu *next;
	uint32_t driver;	/* the thread that moves the grace period on */
	uint32_t step;
	uint32_t generation;	/* of shared[]: another one in a forked child */
	uint32_t reserved1[5];
};

/*
 * For a domain that is a variable: it is ready without slub_srcu_create(), and
 * gets its counters when they are first needed.  From then on the library knows
 * it: slub_srcu_destroy() before its memory goes.
 */
#define SLUB_SRCU_INIT							\
	{ 0, 0, { 0, 0, 0, 0 }, { 0, 0, 0 }, 0, 0, 0, NULL, 0, 0,	\
	  0, { 0, 0, 0, 0, 0 } }

/*
 * slub_srcu_create - make a domain.
 *
 * @domain: memory of the caller's, which must stay where it is until
 * slub_srcu_destroy().  Takes 32 bytes of per-CPU memory.
 * Returns 0, or
 *   -ENOSPC  the per-CPU areas are full (SLUB_PERCPU_BYTES);
 *   -ENOMEM  no memory, or the library could not start.
 * After an error the domain is usable all the same, with atomic instructions.
 * Context: any thread, not from a signal handler; takes a lock.
 * From: init_srcu_struct().
 */
SLUB_API int slub_srcu_create(struct slub_srcu *domain);

/*
 * slub_srcu_destroy - give a domain's counters back.
 *
 * No reader may be inside and nobody may wait.  If a reader is, the counters
 * are left to it for ever, and a message is written if messages are asked for.
 * Afterwards the domain is as SLUB_SRCU_INIT.
 * Context: as slub_srcu_create().  From: cleanup_srcu_struct().
 */
SLUB_API void slub_srcu_destroy(struct slub_srcu *domain);

/*
 * slub_srcu_synchronize - wait until every reader that is inside has left.
 *
 * What this thread took out of readers' sight before is known to nobody
 * afterwards.  Readers that come later are not waited for.  Calls that overlap
 * share their wait.
 * Context: any thread; sleeps; not inside a section of the same domain, where
 * it would wait for its caller for ever (of slub_rcu_domain that is said, if messages
 * are on); not from a signal handler.
 * Cost: a few microseconds where nobody is inside: two membarrier calls and two
 * cache misses per CPU.  From: synchronize_srcu().
 */
SLUB_API void slub_srcu_synchronize(struct slub_srcu *domain);

/*
 * slub_srcu_start_poll - a cookie for the grace period that begins now.
 *
 * Returns a number for slub_srcu_poll(): never 0; a larger one is of a later
 * time, so of several cookies the largest stands for all.
 * Errors: none.
 * Context: any thread, not from a signal handler for the first call of a
 * domain.  Cost: a fence.  From: start_poll_synchronize_srcu().
 */
SLUB_API uint64_t slub_srcu_start_poll(struct slub_srcu *domain);

/*
 * slub_srcu_poll - have the readers left that were inside when @cookie was had?
 *
 * There is no thread in the background: this call itself moves the grace period
 * on as far as it goes without waiting, so call it now and then.
 * Returns true when they have; it stays true.  Errors: none.
 * Context: anywhere, a signal handler included; does not sleep.
 * Cost: a load when it is true already; else a look at each CPU's counters and,
 * when these say that nobody is inside, a membarrier call.
 * From: poll_state_synchronize_srcu().
 */
SLUB_API bool slub_srcu_poll(struct slub_srcu *domain, uint64_t cookie);

/*
 * slub_srcu_read_lock - enter a section.
 *
 * Returns an index that belongs to slub_srcu_read_unlock(); any thread may hand
 * it in.  Sections nest, and may sleep.  Errors: none.
 * Context: anywhere, a signal handler included.
 * Cost: two loads and slub_percpu_add().  From: srcu_read_lock().
 */
SLUB_API int slub_srcu_read_lock(struct slub_srcu *domain);

/*
 * slub_srcu_read_unlock - leave a section.
 *
 * @index: what slub_srcu_read_lock() of the same domain returned.
 * Context and cost: as slub_srcu_read_lock().  From: srcu_read_unlock().
 */
SLUB_API void slub_srcu_read_unlock(struct slub_srcu *domain, int index);

/*
 * slub_rcu_domain - the domain of the library itself.
 *
 * What slub_free_deferred() and caches with SLUB_CACHE_TYPESAFE_BY_RCU (rcu.h, cache.h)
 * wait for.  Context: hand its address to the functions above, but not to
 * slub_srcu_create() or slub_srcu_destroy().
 */
extern SLUB_API struct slub_srcu slub_rcu_domain;

/*
 * The word `reader`, which is also what a section's index is:
 *
 *   bit 0       there are counters, and readers need no fence; else the
 *               functions in the library
 *   bits 1-2    of an index without counters: the generation
 *   bit 3       the phase
 *   bits 5-30   where the counters lie in an area:
 *               entered[2], left[2], 8 bytes each
 */
#define SLUB_SRCU_FAST 1u
#define SLUB_SRCU_PHASE 8u
#define SLUB_SRCU_LEFT 16u

/*
 * slub_srcu_entered, slub_srcu_left - for the inline functions: this thread has entered a
 * section, or left one.
 *
 * Those of slub_rcu_domain are counted: so a call that waits for readers knows that it
 * would wait for its caller.  A thread that leaves what another has entered does not go
 * below 0.
 * Context: anywhere, a signal handler included.  Errors: none.
 */
SLUB_INLINE void slub_srcu_entered(const struct slub_srcu *domain)
{
	if (domain == &slub_rcu_domain)
		slub_percpu_self.sections++;
}

SLUB_INLINE void slub_srcu_left(const struct slub_srcu *domain)
{
	if (domain == &slub_rcu_domain)
		slub_percpu_self.sections -= slub_percpu_self.sections != 0;
}

SLUB_INLINE int slub_srcu_read_lock_fast(struct slub_srcu *domain)
{
	uint32_t index = __atomic_load_n(&domain->reader, __ATOMIC_RELAXED);

	if (__builtin_expect(!(index & SLUB_SRCU_FAST), 0))
		return (slub_srcu_read_lock)(domain);
	slub_srcu_entered(domain);
	slub_percpu_add(index - SLUB_SRCU_FAST, 1);
	/* SRCU-1: the compiler keeps the order, membarrier does the rest. */
	__asm__ __volatile__("" ::: "memory");
	return (int)index;
}
#define slub_srcu_read_lock(...) slub_srcu_read_lock_fast(__VA_ARGS__)

SLUB_INLINE void slub_srcu_read_unlock_fast(struct slub_srcu *domain, int index)
{
	if (__builtin_expect(!((uint32_t)index & SLUB_SRCU_FAST), 0)) {
		(slub_srcu_read_unlock)(domain, index);
		return;
	}
	/* SRCU-2: what was read inside was read before this. */
	__asm__ __volatile__("" ::: "memory");
	slub_percpu_add((uint32_t)index + SLUB_SRCU_LEFT - SLUB_SRCU_FAST, 1);
	slub_srcu_left(domain);
}
#define slub_srcu_read_unlock(...) slub_srcu_read_unlock_fast(__VA_ARGS__)

/*
 * slub_read_lock, slub_read_unlock - a section of the library's own domain.
 *
 * A section that lasts keeps all deferred frees from memory, so do not sleep in
 * it for long.
 * What a reader may call: everything but what waits for readers.  That answers
 * -EDEADLK at once: slub_deferred_barrier(), slub_cache_destroy(),
 * slub_bucket_destroy(), slub_bucket_clear() and slub_bucket_destroy_all().
 * slub_cache_shrink(), slub_cache_for_each_object() and slub_bucket_stats() wait for
 * nobody there.  slub_srcu_synchronize() of slub_rcu_domain has no answer, and waits
 * for ever.  A section belongs to the thread that entered it: where another one
 * leaves it, the first may still get -EDEADLK, as long as any reader is inside, and the other
 * one is not warned while it has it.
 * Returns, errors, context and cost: as slub_srcu_read_lock() and
 * slub_srcu_read_unlock().
 * From: rcu_read_lock().
 */
SLUB_INLINE int slub_read_lock(void)
{
	return slub_srcu_read_lock(&slub_rcu_domain);
}

SLUB_INLINE void slub_read_unlock(int index)
{
	slub_srcu_read_unlock(&slub_rcu_domain, index);
}

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
