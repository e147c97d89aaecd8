/* SPDX-License-Identifier: MIT */
/*
 * Shrinkers: how a cache in your program gives memory back when it is short.
 *
 * A shrinker is two functions: one says how many objects could be freed, the
 * other frees some.  When memory is short the library calls them, each for a
 * share of what it holds: the shorter memory is, the larger the share.
 *
 *   static size_t count(struct slub_shrinker *s,
 *                       struct slub_shrink_control *c)
 *   { return number of idle entries; }
 *
 *   static size_t scan(struct slub_shrinker *s,
 *                      struct slub_shrink_control *c)
 *   { free up to c->nr_to_scan entries; return how many were freed; }
 *
 *   static struct slub_shrinker shrinker =
 *           SLUB_SHRINKER_INIT("entries", count, scan);
 *   slub_shrinker_create(&shrinker);
 *
 * A walk over the shrinkers takes no lock.  It may call the same shrinker from
 * several threads at once, and a callback may do what it wants: sleep,
 * allocate, free, register and unregister, itself too.  It must return: not
 * by longjmp(), an exception (std::terminate() is called), pthread_exit() or
 * cancellation.  What is allocated in it starts no further walk.
 *
 * A callback runs in whatever thread finds memory short, in the middle of that
 * thread's malloc(), with the locks that it holds there.  So a callback must
 * not wait for a lock that any thread holds while it allocates: take it by
 * pthread_mutex_trylock(), and answer 0 or SLUB_SHRINK_STOP if it is taken.
 * A thread that waits there for itself hangs; others go on.
 *
 * It also runs between what the program evaluates before a malloc() and after it: in
 *
 *   v[n] = malloc(100);
 *
 * v and n may have been read before the callback runs.  So it must not move or resize
 * what a caller of malloc() may be using: no vector that the program appends to, no
 * table that it walks through while it allocates.
 *
 * SHARED DATA.  Write a callback as if it ran in another thread at any moment, even in a
 * program with one thread: what it shares with the rest of the program, and what lies
 * behind pointers there, is read and written under a lock (which the callback tries, and
 * which is not recursive), or is atomic; volatile does where there is one thread.  For the
 * compiler does not know that a callback runs there: <stdlib.h> says of malloc() and its
 * relatives ("leaf"), and gcc and clang know of them and of operator new, that they change
 * no variable of the program and look at none.  In
 *
 *   idle = malloc(n);
 *   p = malloc(m);                     a callback frees idle, and sets it to NULL
 *   if (idle)
 *           memset(idle, 0, n);
 *
 * both compilers, from -O1 on, take the last idle from a register: a use after free.  Or
 * they store the first idle behind the second malloc(), and the callback finds nothing.
 * The same holds for all that allocates inside, as strdup() and containers do, and for
 * inline functions over malloc(), as kmalloc() of slub/kernel.h.  With a lock, an atomic or
 * a volatile variable no compiler may do so.  What does not help: -fno-builtin (gcc takes
 * the word of <stdlib.h>), and functions around the variable (the compiler looks into them).
 * The functions slub_*() promise the compiler nothing of the kind: where only these
 * allocate, slub_malloc() too, a plain variable will do in a program with one thread.
 * A compiler may leave out an allocation whose block nobody uses; then no callback runs.
 *
 * From: the kernel's shrinkers (shrinker_register(), do_shrink_slab()).
 */
#ifndef SLUB_INCLUDE_SHRINKER_H
#define SLUB_INCLUDE_SHRINKER_H

#include <slub/percpu.h>

#ifdef __cplusplus
extern "C" {
#endif

struct slub_group;
struct slub_shrinker;

/* What a callback is asked for. */
struct slub_shrink_control {
	size_t nr_to_scan;	/* scan: look at no more objects than that */
	/*
	 * scan: how many it looked at; preset to nr_to_scan.  Set it when you
	 * looked at fewer, or at more.
	 */
	size_t nr_scanned;
	/* the group to shrink, for a shrinker with SLUB_SHRINKER_GROUP_AWARE;
	 * NULL: none */
	struct slub_group *group;
	int node;		/* the NUMA node to shrink; 0 if not NUMA_AWARE */
	int priority;		/* 12: little pressure ... 0: all there is */
	uint64_t reserved[2];	/* 0 */
};

typedef size_t slub_shrinker_fn(struct slub_shrinker *shrinker,
				struct slub_shrink_control *control)
	SLUB_NOEXCEPT;

/* scan returns it: no progress is possible now. */
#define SLUB_SHRINK_STOP (~SLUB_SIZE(0))
/*
 * count returns it: there is nothing at all, in contrast to 0, nothing that
 * could be freed now.  The shrinker is not asked again for this group and node
 * until slub_shrinker_mark().
 */
#define SLUB_SHRINK_EMPTY (~SLUB_SIZE(0) - 1)

/* What seeks and batch of a struct slub_shrinker are if they are 0. */
#define SLUB_SHRINKER_SEEKS 2
#define SLUB_SHRINKER_BATCH 128
/* For seeks: it costs nothing to make an object anew. */
#define SLUB_SHRINKER_SEEKS_NONE (~0u)
/* The least pressure, and the one that walks begin with. */
#define SLUB_SHRINK_PRIORITY_MAX 12

enum slub_shrinker_flag {
	/* Has objects per NUMA node: asked for each node. */
	SLUB_SHRINKER_NUMA_AWARE = 1 << 0,
	/*
	 * Has objects per group: asked for those groups (and nodes) that
	 * slub_shrinker_mark() was called for.
	 */
	SLUB_SHRINKER_GROUP_AWARE = 1 << 1,
};

/* Embed it, fill in the first part, leave the rest zero. */
struct slub_shrinker {
	const char *name;
	slub_shrinker_fn *count;
	slub_shrinker_fn *scan;
	void *data;		/* yours */
	size_t batch;		/* objects per scan; 0: SLUB_SHRINKER_BATCH */
	/*
	 * What it costs to make an object anew; more asks for fewer.  0:
	 * SLUB_SHRINKER_SEEKS.  SLUB_SHRINKER_SEEKS_NONE: half of all is asked for
	 * at once.
	 */
	unsigned int seeks;
	unsigned int flags;	/* enum slub_shrinker_flag */

	/* the library's; the counts may be read */
	uint32_t id;
	uint32_t state;
	uint64_t freed;		/* objects that scan said it freed */
	uint64_t scanned;	/* objects that it said it looked at */
	uint64_t scans;		/* calls of scan */
	uint64_t cut_short;	/* visits that asked for too many scans */
	int64_t deferred[8];	/* by node: owed from earlier visits */
	uint64_t stamp;		/* of this registration */
	uint64_t reserved[3];
};

/*
 * SLUB_SHRINKER_INIT - what a struct slub_shrinker is to begin with.
 *
 * It has a name, two functions, and all else as usual.  Context: an initializer.
 */
#define SLUB_SHRINKER_INIT(name, count, scan)				\
	{ (name), (count), (scan), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0,	\
	  { 0, 0, 0, 0, 0, 0, 0, 0 }, 0, { 0, 0, 0 } }

/*
 * slub_shrinker_create - let @shrinker be asked from now on.
 *
 * @shrinker stays yours and must stay where it is until
 * slub_shrinker_destroy().
 * Returns 0, or
 *   -EINVAL  count or scan is NULL, an unknown flag, or seeks above 1,000,000;
 *   -EDEADLK called by a signal handler that interrupted the allocator;
 *   -ENOMEM  the library could not start;
 *   -EEXIST  it is registered;
 *   -ENOSPC  65,535 shrinkers are.
 * Context: any thread, callbacks included; not from a signal handler; takes a
 * lock for a moment.  Cost: a search in a bitmap.
 */
SLUB_API int slub_shrinker_create(struct slub_shrinker *shrinker);

/*
 * slub_shrinker_destroy - never ask @shrinker again.
 *
 * Waits for callbacks of this shrinker that run in other threads, and for
 * nothing else: not for walks that are elsewhere.  In a callback of the
 * shrinker itself it does not wait for that one.
 * Afterwards nobody calls it or looks at it, and its memory may be reused, even
 * before a callback that called this returns.
 * Returns 0, or
 *   -EINVAL   it is not registered;
 *   -EDEADLK  called by a signal handler that interrupted the allocator; or called in a
 *             callback whose end a callback of @shrinker waits for
 *             in its turn.  It is asked no more, but one callback still runs:
 *             keep the memory, and call again from elsewhere.
 * Context: any thread; sleeps; not from a signal handler.
 */
SLUB_API int slub_shrinker_destroy(struct slub_shrinker *shrinker);

/*
 * slub_shrinker_mark - @shrinker has something in @group on @node.
 *
 * To be called after the first object of that group and node was added, for a
 * shrinker with SLUB_SHRINKER_GROUP_AWARE; more often does no harm.  @group NULL:
 * objects of no group.  @node: 0 unless it is NUMA_AWARE.
 * Returns 0, or
 *   -EINVAL  it is not registered, not group-aware, or there is no such node
 *            or group, or that is being deleted: mark its parent then;
 *   -ENOMEM  no memory for the bitmap.  The objects are not asked for then:
 *            call again with the next one.
 * Context: any thread; the first time for a group and 64 shrinkers it takes a
 * lock.  Cost: a fence and three loads when it is marked already, and a load for each
 * 64 others that were marked there since.
 * From: set_shrinker_bit().
 */
SLUB_API int slub_shrinker_mark(struct slub_shrinker *shrinker,
				struct slub_group *group, int node);

/*
 * slub_shrink - one walk over all shrinkers.
 *
 * @priority: 0 to SLUB_SHRINK_PRIORITY_MAX.  A shrinker that says it has n objects is
 * asked for (n >> priority) * 4 / seeks, in batches; the remainder is owed,
 * up to 2n, and asked for in later walks.
 * Before that the library empties the lists it keeps for CPUs, and after it
 * gives free memory back to the system.
 * Returns the number of objects that shrinkers say they freed; 0 as well
 * inside a callback, where it does nothing.  Errors: none.
 * Context: any thread, not from a signal handler; calls the callbacks.
 * From: shrink_slab().
 */
SLUB_API size_t slub_shrink(int priority);

/*
 * slub_shrink_all - free all that shrinkers can free.
 *
 * Walks at priority 0 until a walk frees next to nothing, ten times at the most.
 * Returns, errors and context: as slub_shrink().  From: drop_slab().
 */
SLUB_API size_t slub_shrink_all(void);

/*
 * slub_shrinker_for_each - call @visit for each registered shrinker.
 *
 * Stops when it returns non-zero.  The shrinker is held while @visit runs, as by
 * a callback.
 * Returns what @visit returned last, else 0.  Errors: none; without memory for
 * the walk nothing is visited.
 * Context: any thread, callbacks included; not from a signal handler.
 */
SLUB_API int slub_shrinker_for_each(int (*visit)(struct slub_shrinker *, void *),
				    void *arg);

#ifdef __cplusplus
}
#endif

#endif
