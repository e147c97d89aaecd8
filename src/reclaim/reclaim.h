/* SPDX-License-Identifier: MIT */
/*
 * reclaim: getting memory back from those who hold what they can do without.
 *
 *   domain         readers without locks, and who waits for them (SRCU)
 *   section        the time a reader is inside a domain
 *   grace period   the time until every section that was open has closed
 *
 * Registrants embed their structures, so this layer allocates nothing but
 * per-CPU counters, and stands below the page layer: "no pages left" is a call
 * downwards.
 *
 * Invariants:
 *   SRCU-1  a reader counts itself in before it looks: either a grace period
 *           finds the count, or the reader finds what was changed before;
 *   SRCU-2  a reader has looked before it counts itself out;
 *   SRCU-3  the counts of those who left are summed up before those of who
 *           came: equal sums say that at one moment nobody was inside.
 */
#ifndef SLUB_RECLAIM_H
#define SLUB_RECLAIM_H

#include "percpu/percpu.h"

#include <slub/srcu.h>

/*
 * After percpu_start(): gives the library's own domain its counters.
 * Returns 0 or -errno; the domain works without, at the price of atomic
 * instructions.
 */
int reclaim_init(void);

/* Around fork: between percpu_fork_prepare() and percpu_fork_finish(). */
void reclaim_fork_prepare(void);
/* After percpu_fork_finish(). */
void reclaim_fork_finish(bool in_child);

/* srcu.c */
/* Gives a domain its counters if it has none.  Returns 0 or -errno. */
int srcu_get_counters(struct slub_srcu *domain);
/* Nobody but the calling thread came along: its readers are forgotten. */
void srcu_fork_child(void);
extern struct lock srcu_lock SLUB_INTERNAL;

#endif
