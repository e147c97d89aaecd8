/* SPDX-License-Identifier: MIT */
/*
 * What waits for readers: deferred frees, and slabs whose objects readers may look at after their
 * free (SLUB_CACHE_TYPESAFE_BY_RCU).  The readers themselves, SRCU, are declared in
 * features/reclaim/reclaim.h.
 *
 * Tests: tests/unit/slab/test_grace.cc, tests/unit/slab/test_deferred*.cc,
 * tests/unit/reclaim/test_grace.cc, tests/unit/reclaim/test_counters.cc,
 * tests/api/deferred_test.cc, tests/api/reader*_test.cc, tests/reclaim/test_srcu.cc,
 * tests/model.
 * Pages: docs/api/c.md, docs/internals/reclaim.md.
 */
#ifndef SLUB_RCU_FEATURE_H
#define SLUB_RCU_FEATURE_H

#include "core/slab/slab.h"

/* ---- grace.c ---- */

/* Items that wait; the lock is the queue's own. */
struct grace_queue {
	struct lock lock;
	/* under lock */
	void **fresh;
	void **waiting;		/* for the grace period @cookie */
	void **ripe;		/* nobody can see them any more */
	uint64_t fresh_nr;
	uint64_t waiting_nr;
	uint64_t ripe_nr;
	uint64_t unreleased;	/* ripe, or just being released */
	uint64_t batch;		/* of how many */
	uint64_t cookie;
	uint64_t added;
	uint64_t done;
	uint32_t forks;		/* turn_forks as of the last look: see forked() */
	void (*release)(void **item);	/* const; called without the lock */
};

/* An item is its link. */
void grace_put(struct grace_queue *queue, void **item);
/* The same; moves the queue on, and may release other items. */
void grace_add(struct grace_queue *queue, void **item);
/* True: something was released, and there may be more. */
bool grace_poll(struct grace_queue *queue);
/* Releases all that no reader can see any more; waits for nobody. */
void grace_drain(struct grace_queue *queue);
/* ... of empty slabs, and of guarded objects. */
void grace_drain_slabs(void);
/* Waits until all that was added before is released. */
void grace_flush(struct grace_queue *queue);
uint64_t grace_nr(const struct grace_queue *queue);
/*
 * Waits until no slab or object of @cache is on its way back.  False: this thread is a
 * reader, so what its section keeps is still there.
 */
bool cache_settle(struct slub_cache *cache);
void grace_fork(enum fork_step step);

/* ---- deferred.c ---- */

int deferred_init(void);
struct deferred_numbers {
	uint64_t objects;
	uint64_t bytes;
};
/* What was given to slub_free_deferred() and is not free yet. */
void deferred_count(struct deferred_numbers *out);
/*
 * For an inspector: the offset of what each CPU has added, as these two numbers (0: none);
 * *@released: what to take off their sums.
 */
uint32_t deferred_counts(const struct deferred_numbers **released);
/*
 * Frees what no reader can see any more, of all CPUs; waits for nobody.  Returns how many
 * objects were freed meanwhile.
 */
size_t deferred_drain(void);
/*
 * The same for a caller that is about to refuse a request: looks again for a moment, 100 ms at
 * most, until all is free that was pending; not if it is a reader itself, nor for a second
 * after that was in vain.
 */
size_t deferred_drain_patiently(void);

/* Hands over this CPU's sheaf; true: something was released, and there may be more. */
bool deferred_look(void);
void deferred_fork(enum fork_step step);

#endif
