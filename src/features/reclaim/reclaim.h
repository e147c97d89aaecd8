/* SPDX-License-Identifier: MIT */
/*
 * reclaim: getting memory back from those who hold what they can do without.
 *
 *   domain         readers without locks, and waiting for them (SRCU)
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
 *   SRCU-3  the counts of readers that left are summed up before those of
 *           readers that came: equal sums say that at one moment nobody was inside.
 *
 * Tests: tests/unit/reclaim/test_run.cc, tests/unit/malloc/test_tries.cc, tests/reclaim.
 * Page: docs/internals/reclaim.md.
 */
#ifndef SLUB_RECLAIM_H
#define SLUB_RECLAIM_H

#include "features/reclaim/numbered.h"

#include <slub/group.h>
#include <slub/shrinker.h>
#include <slub/srcu.h>

/* After percpu_start().  0 or -errno: the library's own domain works without counters. */
int reclaim_init(void);

/* Around fork: between percpu_fork_prepare() and percpu_fork_finish(). */
void reclaim_fork_prepare(void);
/* After percpu_fork_finish(). */
void reclaim_fork_finish(bool in_child);

/* srcu.c */
/* Gives a domain its counters if it has none.  Returns 0 or -errno. */
int srcu_get_counters(struct slub_srcu *domain);
/*
 * Would this thread wait for itself if it waited for the readers of slub_rcu_domain?  To be
 * asked before each such wait.  A section that another thread leaves counts as that of
 * the thread that entered it until a call of this finds no reader at all.
 */
bool srcu_is_inside(void);
/* Nobody but the calling thread came along: its readers are forgotten. */
void srcu_fork_child(void);
extern struct lock srcu_lock SLUB_INTERNAL;

/* run.c */
/*
 * What a layer above can give back by itself, in bytes; called with no lock held, by several
 * threads at once.  @run: before the shrinkers, and once more after shrinkers that freed
 * something.  @move: by functions of the program that move its objects, so after memory
 * pressure only, never inside an allocation.
 */
struct reclaimer {
	size_t (*run)(int priority);
	/*
	 * What was freed and waits for readers goes if they have left; with @is_last it is
	 * the last try, and worth a moment.  Returns how many objects went.
	 */
	size_t (*drain)(bool is_last);
	void (*idle)(void);	/* the pressure thread, a few times a second */
	size_t (*move)(uint64_t deadline_ns);
	size_t (*used)(void);	/* bytes handed out */
};
/* While the library starts. */
void reclaimer_set(const struct reclaimer *reclaimer);

void reclaim_configure(uint32_t nr_nodes);
extern uint32_t reclaim_nr_nodes SLUB_INTERNAL;

_Static_assert(RECLAIM_FIRST == SLUB_SHRINK_PRIORITY_MAX / 2, "core/base/features.h");
struct reclaim_result {
	size_t objects;		/* freed by shrinkers, as they say */
	size_t bytes;		/* given back by the layers above */
	bool is_cut_short;
};
/* One walk that ends after @ns; the next one goes on where it ended. */
struct reclaim_result reclaim_for(int priority, uint64_t ns);
/* The layers above: struct reclaimer. */
void reclaim_idle(void);
size_t reclaim_move(uint64_t deadline_ns);
size_t reclaim_used(void);
/*
 * The shrinkers of @group and of those below it only, and what waits for readers, whose
 * ever it is.
 */
size_t reclaim_group(const struct slub_group *group, int priority);
/* A request is about to be refused: what is freed and waits for readers, now or in a moment. */
size_t reclaim_drain(void);
/* False: this thread may not reclaim now: it is inside a reclaim, or holds a lock. */
bool reclaim_is_possible(void);
bool reclaim_enter(void);
void reclaim_leave(void);

/* walk.c: one walk, without what stands around it; @top NULL: all groups; @deadline_ns 0: none. */
size_t shrinkers_run(int priority, const struct slub_group *top);
size_t shrinkers_run_until(int priority, uint64_t deadline_ns,
			   bool *is_cut_short);

/* pressure.c */
/* SLUB_PRESSURE; false: not understood, and nothing changed. */
bool pressure_configure(const char *text);
/* At the end of the start: the thread, if it was asked for. */
void pressure_start(void);
void pressure_fork_child(void);

/* ---- groups, for the layers that hand out objects ---- */

/*
 * The groups this thread is in.  An *owner* is a number: it names the group that a charge
 * counts for, and is valid as long as something is charged to it.
 */
struct group_thread {
	uint16_t nr;
	bool is_switching;	/* the stock is of nobody for the moment */
	/* of group_current(); good while that is; else &no_stock */
	struct thread_stock *stock;
	/* The one before it, which may be another thread's by now. */
	struct thread_stock *last_stock;
	uint32_t owners[SLUB_GROUP_NESTING_MAX];
	uint32_t groups[SLUB_GROUP_NESTING_MAX];	/* their numbers */
};
extern __thread struct group_thread group_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * What a thread in a group keeps of its charges, in advance (thread_stock.c).  Its thread and
 * the handlers that interrupt it change it, so by single instructions without a lock prefix.
 */
struct thread_stock {
	uint64_t reserved[2];
	int64_t bytes;
	uint32_t owner;		/* 0: nobody's, and no thread's */
	/* Is it group_generation?  Else there is something to look at first. */
	uint32_t generation;
	uint64_t back;		/* what it gives back to another: a charge_word() */
	int64_t room;		/* how much may lie in it, */
	bool has_overflowed;	/* and was that too little? */
	void *pool_link;
} align_to(64);

/* Of a thread that has none: never current, and nobody's to take. */
extern struct thread_stock no_stock SLUB_INTERNAL;

/* Changes when a group becomes tight, or is so no more; never 0. */
extern uint32_t group_generation SLUB_INTERNAL;

/* Its room at first and, where its thread's blocks come and go by more, at last. */
#define THREAD_STOCK_MAX ((int64_t)64 << 10)
#define THREAD_STOCK_GROWN_MAX ((int64_t)1 << 20)
/* A word of {owner, bytes}: the owner is above these. */
#define CHARGE_BYTES_BITS 40
#define CHARGE_BYTES_MASK ((1ull << CHARGE_BYTES_BITS) - 1)

static inline uint64_t charge_word(uint32_t owner, uint64_t bytes)
{
	return (uint64_t)owner << CHARGE_BYTES_BITS | bytes;
}

static inline uint32_t charge_word_owner(uint64_t word)
{
	return (uint32_t)(word >> CHARGE_BYTES_BITS);
}

static inline size_t charge_word_bytes(uint64_t word)
{
	return word & CHARGE_BYTES_MASK;
}

/* Is @owner, of something that is charged, @group's or of a group below it? */
bool group_owns(const struct slub_group *group, uint32_t owner);
bool group_is_alive(const struct slub_group *group);
/* The owner of @group's charges, held until group_drop(); 0: @group is deleted. */
uint32_t group_hold(const struct slub_group *group);
void group_drop(uint32_t owner);
/*
 * A place that names the owner to be charged (0: none).  Setting it waits for threads that
 * have read it and not charged yet.  0, or -EINVAL: @group is deleted.
 */
int group_place_set(uint32_t *place, const struct slub_group *group);
/* The same in two steps; the first takes over the hold on @owner, and waits for nobody. */
uint32_t group_place_exchange(uint32_t *place, uint32_t owner);
void group_place_drop(uint32_t owner);
/* @place names the owner that @from names. */
void group_place_copy(uint32_t *place, const uint32_t *from);
/* group_charge() to the owner of @place, else of this thread: *@owner; 0: there is none. */
int group_charge_place(const uint32_t *place, size_t bytes, uint32_t *owner);

/* The owner of @group's charges, for as long as it is not deleted. */
uint32_t group_owner_number(const struct slub_group *group);
/* group_charge() without regard to limits, for something that is charged twice for a moment. */
void group_charge_anyway(uint32_t owner, size_t bytes);
static inline void thread_stock_add(struct thread_stock *stock, int64_t n)
{
#if SLUB_CPU_X86_64 && !SLUB_CONFIG_PLAIN_C
	__asm__ volatile("addq %[n], %[bytes]"
		: [bytes] "+m"(stock->bytes)
		: [n] "re"(n)
		: "memory", "cc");
#else
	__atomic_fetch_add(&stock->bytes, n, __ATOMIC_RELAXED);
#endif
}

/* True: the stock is below 0 now. */
static inline bool thread_stock_sub(struct thread_stock *stock, int64_t n)
{
#if SLUB_CPU_X86_64 && !SLUB_CONFIG_PLAIN_C
	bool negative;

	__asm__ volatile("subq %[n], %[bytes]"
		: [bytes] "+m"(stock->bytes), "=@ccs"(negative)
		: [n] "re"(n)
		: "memory");
	return negative;
#else
	return __atomic_sub_fetch(&stock->bytes, n, __ATOMIC_RELAXED) < 0;
#endif
}

/* False: *@word was not @old. */
static inline bool thread_stock_change(uint64_t *word, uint64_t old,
				       uint64_t value)
{
#if SLUB_CPU_X86_64 && !SLUB_CONFIG_PLAIN_C
	bool done;

	__asm__ volatile("cmpxchgq %[value], %[word]"
		: [word] "+m"(*word), "+a"(old), "=@ccz"(done)
		: [value] "r"(value)
		: "memory");
	return done;
#else
	return __atomic_compare_exchange_n(word, &old, value, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

static inline bool thread_stock_is_current(const struct thread_stock *stock)
{
	return stock->generation == __atomic_load_n(&group_generation,
						    __ATOMIC_RELAXED);
}

/* As group_charge() and group_uncharge(), for a thread in a group; false: these have to do it. */
static inline bool group_charge_fast(size_t bytes)
{
	struct thread_stock *stock = group_thread.stock;

	if (unlikely(!thread_stock_is_current(stock)))
		return false;
	if (likely(!thread_stock_sub(stock, (int64_t)bytes)))
		return true;
	thread_stock_add(stock, (int64_t)bytes);
	return false;
}

static inline bool group_uncharge_fast(uint32_t owner, size_t bytes)
{
	struct thread_stock *stock = group_thread.stock;

	if (unlikely(!owner || owner != group_current() ||
		     !thread_stock_is_current(stock) ||
		     __atomic_load_n(&stock->bytes, __ATOMIC_RELAXED) >=
			     stock->room))
		return false;
	thread_stock_add(stock, (int64_t)bytes);
	return true;
}

/* What @owner has in stock will be changed soon. */
extern struct pool owner_pool SLUB_INTERNAL;
static inline void group_prefetch(uint32_t owner)
{
	__builtin_prefetch(pool_item(&owner_pool, owner), 1);
}

/* @stock pays @bytes, and `back` becomes @sum; false: nothing has changed. */
static always_inline bool thread_stock_exchange(struct thread_stock *stock,
						uint64_t back, uint64_t sum,
						size_t bytes)
{
	if (unlikely(!thread_stock_is_current(stock)))
		return false;
	if (likely(!thread_stock_sub(stock, (int64_t)bytes)) &&
	    likely(thread_stock_change(&stock->back, back, sum)))
		return true;
	thread_stock_add(stock, (int64_t)bytes);
	return false;
}

/*
 * What @from, not 0, is charged with for something of @bytes is this thread's
 * owner's now: for runs of things that were @from's.  False: nothing has changed.
 */
static inline bool group_hand_over_fast(uint32_t from, size_t bytes)
{
	struct thread_stock *stock = group_thread.stock;
	uint64_t back = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	uint64_t sum = back + bytes;

	/* Of another owner it is beyond that by far. */
	if (unlikely((sum ^ charge_word(from, 0)) >
		     (uint64_t)THREAD_STOCK_MAX)) {
		if (back)
			return false;
		group_prefetch(from);
		sum = charge_word(from, bytes);
	}
	return thread_stock_exchange(stock, back, sum, bytes);
}

/*
 * The same in the middle of such a run, in fewer instructions: @from is an object's word,
 * with its flags above owners' numbers; 0: nobody's.
 */
static always_inline bool group_hand_over_run(uint32_t from, size_t bytes)
{
	struct thread_stock *stock = group_thread.stock;
	uint64_t back = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);

	/* Flags are shifted out.  It has 1 to THREAD_STOCK_MAX bytes of @from's. */
	if (unlikely((back ^ charge_word(from, 0)) - 1 >=
		     (uint64_t)THREAD_STOCK_MAX))
		return false;
	return thread_stock_exchange(stock, back, back + bytes, bytes);
}

/* group_charge() with one attempt: nobody is asked to make room. */
bool group_charge_try(uint32_t owner, size_t bytes);

/* Free objects in lists that are charged still (features/groups/owned.h); no lock is held. */
struct kept_charges {
	/* Gives them back: those of this CPU, or of all. */
	void (*settle)(bool of_all);
	bool (*are_none)(void);		/* as of a moment ago */
};
void group_set_kept(const struct kept_charges *charges);

/* Adds to what is only reported. */
static inline void reclaim_count(uint64_t *counter, uint64_t n)
{
	if (n)
		__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

#endif
