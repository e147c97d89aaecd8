/* SPDX-License-Identifier: MIT */
/*
 * group: what groups and charges are made of; of this layer only.
 *
 *   group   a node of the tree, with its counter and limits
 *   owner   the party that answers for a charge: objects refer to it
 *   stock   what an owner, or a thread in a group, keeps of its charges, in
 *           advance: see stock.c, thread_stock.c
 *
 * Invariants:
 *   GROUP-1  a group's parent is fixed and outlives it;
 *   GROUP-2  an owner without heir names a living group; one with an heir has
 *            lost its group, and the heir is the owner of that group's parent;
 *   GROUP-3  an owner lives as long as something is outstanding: bytes (in
 *            objects and in stocks), threads inside, its group, its testators;
 *   GROUP-4  usage = bytes of objects + bytes in stocks, of the group and of
 *            those below it;
 *   GROUP-5  a dead group's structure is used again only after all threads
 *            that could have found it by an owner have left group_domain, and no
 *            walk uses it.
 *
 * Tests: tests/unit/reclaim/test_group*.cc, tests/unit/slab/test_owned.cc,
 * tests/unit/malloc/test_account.cc, tests/reclaim/test_group*.cc,
 * tests/reclaim/test_account*.cc, tests/model/group.pml.
 * Page: docs/internals/reclaim.md.
 */
#ifndef SLUB_RECLAIM_GROUP_H
#define SLUB_RECLAIM_GROUP_H

#include "features/reclaim/reclaim_internal.h"

struct group_owner {
	struct slub_group *group;
	struct group_owner *heir;
	int64_t outstanding;	/* atomic */
	uint64_t word;		/* atomic; stock.c */
	uint64_t reserved[3];
	void *pool_link;
};

/* Of an owner's word. */
#define OWNER_STOCK_BITS 40
#define OWNER_INSIDE (1ull << OWNER_STOCK_BITS)	/* one thread that is inside */
#define OWNER_DEAD (1ull << 63)			/* its group is deleted */

static inline size_t owner_stock(uint64_t word)
{
	return word & (OWNER_INSIDE - 1);
}

struct slub_group {
	/* All that entering and charging look at, in one line.  Const while it lives: */
	struct slub_group *parent;
	struct group_owner *owner;
	/* atomic */
	int64_t usage;
	int64_t peak;
	size_t limits[3];	/* by enum slub_group_limit */
	uint32_t is_alive;	/* changed under group_lock */
	uint32_t tight;		/* CHARGE-1, CHARGE-2 */

	uint32_t depth;		/* const while it lives */
	char name[SLUB_GROUP_NAME_MAX + 1];
	uint32_t nr_children;	/* under group_lock */
	uint32_t nr_below;	/* the same, and those that are being deleted */
	uint64_t cookie;	/* GROUP-5 */
	struct slub_group *next_dead;
	/* atomic */
	struct double_word handler align_to(16);	/* function, argument: as one */
	uint64_t failures;
	uint64_t max_hits;
	uint64_t high_hits;
	void *pool_link;
} align_to(64);
_Static_assert(sizeof(struct slub_group) % 64 == 0, "no line is shared");
_Static_assert(offsetof(struct slub_group, depth) == 64, "one line");

/* Threads that may find a group by an owner are readers of this domain. */
extern struct slub_srcu group_domain SLUB_INTERNAL;

/* 0: @group is none, whatever it points to. */
static inline uint32_t group_number_checked(const struct slub_group *group)
{
	uintptr_t offset = (uintptr_t)group - (uintptr_t)group_pool.start;
	uint32_t number = (uint32_t)(offset / sizeof(*group));

	if (unlikely(offset >=
		     (uintptr_t)pool_end(&group_pool) * sizeof(*group)) ||
	    unlikely(number * sizeof(*group) != offset))
		return 0;
	return number;
}

static inline struct group_owner *owner_of(uint32_t number)
{
	return (struct group_owner *)(void *)owner_pool.start + number;
}

static inline uint32_t owner_number(const struct group_owner *owner)
{
	return (uint32_t)(owner - owner_of(0));
}

/* @number is one that was given out. */
static inline struct slub_group *group_at(uint32_t number)
{
	return (struct slub_group *)(void *)group_pool.start + number;
}

/* Inside group_domain: the group that answers for @owner's charges now. */
struct slub_group *owner_group(struct group_owner *owner);
/* @owner is held already; else see group_hold(). */
void owner_hold(struct group_owner *owner, int64_t n);
void owner_drop(struct group_owner *owner, int64_t n);

/* *@at is @value if it was *@word; else *@word is what was found. */
static inline bool owner_word_change(uint64_t *at, uint64_t *word,
				     uint64_t value)
{
	/* acq_rel: a thread that finds the last one gone has seen what it did */
	return __atomic_compare_exchange_n(at, word, value, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* stock.c */
#define STOCK_BATCH ((size_t)32 << 10)
#define STOCK_MAX (2 * STOCK_BATCH)
/* An owner's; less where there are many owners. */
extern size_t stock_max SLUB_INTERNAL;
void stock_set_max(uint32_t nr_owners);
/* Takes @bytes out of @owner's stock, or none; @all: whatever it has. */
size_t stock_take(uint32_t owner, size_t bytes, bool all);
/* Returns what there is no room for, even more than @bytes, for charge_drop(). */
size_t stock_put(uint32_t owner, size_t bytes);
/* A thread leaves the owner, and puts @bytes back. */
void owner_leave_slowly(uint32_t number, size_t bytes);
/* Its group is no more, and has let go of it. */
void owner_kill(struct group_owner *owner);
/* Of @group's usage, what lies in stocks.  Inside group_domain. */
int64_t stocks_of(const struct slub_group *group);
/* Gives back what owners of @top and below have in stock; false: nothing. */
bool stocks_drain(const struct slub_group *top);

/* charge.c */
extern uint32_t nr_tight SLUB_INTERNAL;	/* groups that are */
bool charge_is_tight_up(uint32_t number);
static inline bool charge_is_tight_anywhere(void)
{
	/* seq_cst: after a look at group_generation */
	return unlikely(__atomic_load_n(&nr_tight, __ATOMIC_SEQ_CST));
}

/* May @number's stocks not be used now? */
static inline bool charge_is_tight(uint32_t number)
{
	return charge_is_tight_anywhere() && charge_is_tight_up(number);
}
/* How far @number's group is below the tightest limit up to the root, at most 2^62. */
size_t charge_left(uint32_t number);
/* Gives @bytes of @number's charges back, to all groups up to the root. */
void charge_drop(uint32_t number, size_t bytes);
/* Of @number's charges, past this thread's stock. */
void charge_return(uint32_t number, size_t bytes);
/* Usage, or the maximum, or the group's life changed. */
void charge_tight_update(struct slub_group *group);
void charge_set_low(struct slub_group *group, size_t bytes);
/* Of @group's usage, what lies in stocks of threads.  Inside group_domain. */
int64_t thread_stocks_of(const struct slub_group *group);

static inline size_t limit_of(const struct slub_group *group,
			      enum slub_group_limit limit)
{
	return __atomic_load_n(&group->limits[limit], __ATOMIC_RELAXED);
}

/* kept.c */
/* Gives back what lists of this CPU keep, or all; that may sleep.  False: there was nothing. */
void kept_settle_here(void);
bool kept_settle_all(void);

/* thread_stock.c */
/* May @owner be charged out of this thread's stock?  Sees to it if need be. */
bool thread_stock_use(uint32_t owner);
/* Puts charges of @owner there, or gives them back. */
void thread_stock_fill(uint32_t owner, size_t bytes);
/* The same of what was freed; returns what there is no room for, even more than @bytes. */
size_t thread_stock_put(uint32_t owner, size_t bytes);
/* What to charge in advance where @owner's stocks have run dry. */
size_t thread_stock_batch(uint32_t owner);
/* Puts what is given back to @owner there; false: it does not belong there. */
bool thread_stock_give(uint32_t owner, size_t bytes);
/* What is in @stock goes to its owner. */
void thread_stock_put_away(struct thread_stock *stock);
/* What take_back() has taken: 0, or a charge_word(). */
void thread_stock_give_back(uint64_t word);

static inline uint32_t stock_owner(const struct thread_stock *stock)
{
	return __atomic_load_n(&stock->owner, __ATOMIC_RELAXED);
}

/* It is empty, and its thread does not look at it any more. */
static inline void stock_release(struct thread_stock *stock)
{
	/* release: pairs with the acquire in stock_try() */
	__atomic_store_n(&stock->owner, 0, __ATOMIC_RELEASE);
}
/* Gives back what this thread has in stock, if it is @owner's. */
void thread_stock_empty(uint32_t owner);
/* The stocks of threads that did not come along. */
void thread_stock_fork_child(void);
extern struct pool thread_stock_pool SLUB_INTERNAL;
/* What it uses; what lies free in lists counts as used, or has been settled. */
size_t group_usage(const struct slub_group *group);
size_t group_usage_settled(const struct slub_group *group);

/* handler.c */
/* What the program itself can do about @group's maximum; true: try again. */
bool group_handler_ask(struct slub_group *group, size_t bytes);
/* group.c: the root, or NULL: no group has been made. */
struct slub_group *group_root_if_made(void);
/* Function and argument, as one. */
void group_handler_change(struct slub_group *group,
			  struct double_word handler);
/*
 * Waits until no other thread is in the handler that @group had before the last change;
 * -EDEADLK: one is, and this thread is in a callback.
 */
int group_handler_wait(const struct slub_group *group);

#endif
