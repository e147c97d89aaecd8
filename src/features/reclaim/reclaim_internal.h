/* SPDX-License-Identifier: MIT */
/* What the files of reclaim share with each other only. */
#ifndef SLUB_RECLAIM_INTERNAL_H
#define SLUB_RECLAIM_INTERNAL_H

#include "features/reclaim/reclaim.h"

#include "features/reclaim/bitmap.h"
#include "features/reclaim/numbered.h"

/*
 * A fence that pairs with another one.  ThreadSanitizer knows no fences, but it
 * knows an exchange of everybody's.
 */
static inline void full_fence(void)
{
#if SLUB_CONFIG_PLAIN_C
	extern uint32_t fence_word SLUB_INTERNAL;

	__atomic_fetch_add(&fence_word, 1, __ATOMIC_ACQ_REL);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#define SHRINKERS_MAX BITS_NR
#define GROUPS_MAX BITS_NR

/* ---- walkers: the threads inside callbacks ---- */

/* A thread that walks, written by that thread alone: WALK-1. */
struct walker {
	uint32_t owner;			/* thread_self() */
	struct slub_shrinker *inside;	/* what it uses now */
	struct slub_group *group;
	struct slub_group *handles;	/* it is in the handler of that one */
	struct slub_shrinker *waits_for;	/* it unregisters that one */
	uint32_t walks;			/* begun with this structure */
} align_to(64);

#define WALKERS_MAX 512

/* NULL: too many walk at once. */
struct walker *walker_begin(void);
void walker_end(struct walker *walker);
/* The walker in use that follows @before, or NULL; NULL: the first. */
struct walker *walker_next(const struct walker *before);
bool walker_is_mine(const struct walker *walker);
/* Does a walk, this thread's own included, use @group? */
bool walkers_use_group(const struct slub_group *group);
void walkers_fork_child(void);

/* ---- registry ---- */

/*
 * Every registered shrinker, by its id; read without a lock.  Its address, and
 * SHRINKER_SEEN once a walker has used it (WALK-2).
 */
extern uintptr_t shrinker_table[SHRINKERS_MAX];
#define SHRINKER_SEEN 1ul
/* Those that are asked in every walk. */
extern struct bits shrinkers_always;
/* Numbers from here on were never given out. */
extern uint32_t shrinkers_end;

/*
 * What each registration writes, in two cache lines of its own, for Intel's processors fetch
 * them in pairs.  Beside what walks read, the hint made a storm of registrations 0.60 as
 * fast as one without a walk (Ice Lake).
 */
struct registry {
	struct lock lock;
	uint32_t hint;		/* a number rests before it comes again */
	uint64_t last_stamp;
} align_to(128);

extern struct registry registry SLUB_INTERNAL;

/*
 * Makes @walker use the shrinker with number @id, in @group, which has @number,
 * or without one (NULL, 0).  NULL: there is no such shrinker or group any more.
 */
struct slub_shrinker *walker_enter(struct walker *walker, uint32_t id,
				   struct slub_group *group, uint32_t number);

static inline bool walker_is_inside(const struct walker *walker,
				    const struct slub_shrinker *shrinker)
{
	/* Cleared by this thread itself, if a callback unregisters. */
	return __atomic_load_n(&walker->inside, __ATOMIC_RELAXED) == shrinker;
}

static inline void walker_leave(struct walker *walker)
{
	/* release: pairs with the acquire in wait_for_callbacks() */
	__atomic_store_n(&walker->inside, NULL, __ATOMIC_RELEASE);
}

/* ---- maps: which shrinkers have something, by group and node ---- */

/* 64 shrinkers in one group on one node: which have something, and what is owed. */
struct map_unit {
	uint32_t number;	/* its shrinkers' ids begin at 64 times that */
	uint32_t next;		/* the next of the group and node, in unit_pool; 0: none */
	uint64_t set;
	int64_t deferred[64];
	void *pool_link;
} align_to(64);

/* Groups that have a bit set anywhere, by node; bit 0: no group. */
extern struct bits map_groups[OS_NODES_MAX];
/* Nodes from here on have no units. */
extern uint32_t map_nodes_end;

/* The units of a group and node; NULL: no more. */
struct map_unit *map_first(uint32_t group, uint32_t node);
struct map_unit *map_next(const struct map_unit *unit);
/* 0 or -ENOMEM.  @group: its number. */
int map_mark(uint32_t group, uint32_t node, uint32_t id);
/* To be followed by a new look at what the bit stands for. */
void map_unmark(struct map_unit *unit, uint32_t id);
void map_mark_again(struct map_unit *unit, uint32_t group, uint32_t node,
		    uint32_t id);
/* After a walk that found all units of a group empty. */
void map_tidy(uint32_t group, uint32_t node);
/* What @from has is @to's from now on. */
void map_move(uint32_t from, uint32_t to);
void map_fork(enum fork_step step);

/* ---- walk ---- */

/* One visit: the kernel's do_shrink_slab().  @owed: deferred work. */
size_t shrink_one(struct walker *walker, struct slub_shrinker *shrinker,
		  struct slub_shrink_control *control, int64_t *owed);

/* ---- groups ---- */

extern struct pool group_pool SLUB_INTERNAL;
static inline struct slub_group *group_of_number(uint32_t number)
{
	return number ? (struct slub_group *)pool_item(&group_pool, number) :
			NULL;
}
uint32_t group_number(const struct slub_group *group);
/* The numbers of those that live. */
extern struct bits groups_alive;
/* How many have a low limit. */
extern uint32_t groups_with_low;
/* Is @group @top or below it?  NULL is above all. */
bool group_is_below(const struct slub_group *group,
		    const struct slub_group *top);
/* Does it use no more than it was promised? */
bool group_is_protected(const struct slub_group *group);
void group_fork(enum fork_step step);

/* group/handler.c: what the program itself can do when there is no memory; true: try again. */
bool group_root_ask(size_t bytes);

#endif
