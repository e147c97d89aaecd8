/* SPDX-License-Identifier: MIT */
/*
 * Memory groups: accounts and limits inside one process.
 *
 * Groups form a tree.  A thread enters a group; what is charged from then on
 * counts for that group and for all groups above it, so a group's usage
 * includes that of the groups below it.  A charge is given back to the group that it
 * was made to, by any thread, from any group.
 *
 *   tenant = slub_group_create("tenant-7", NULL);
 *   slub_group_limit_set(tenant, SLUB_GROUP_MAX, 64 << 20);
 *   slub_group_enter(tenant);
 *   block = malloc(1000);              ... NULL, ENOMEM: it has all it may have
 *   slub_group_leave(tenant);
 *   free(block);                       ... by any thread, in any group or none
 *
 * What a thread in a group allocates is charged by itself:
 *
 *   malloc, calloc, realloc, aligned_alloc and all their relatives, operator
 *   new: malloc_usable_size() of the block (without debugging), that is its
 *   size class, or the pages of one above 32 KiB;
 *   caches and buckets with SLUB_CACHE_ACCOUNT, by whatever call: slub_cache_size()
 *   for each object;
 *   a cache or bucket can be given a group of its own: slub_cache_group_set();
 *   nothing else: what the program got from elsewhere it may charge with
 *   slub_group_charge().
 *
 * realloc() that leaves a block in place leaves it to its group; one that moves
 * it charges the new block to the caller's.  Slabs hold objects of many groups,
 * so what is free in them is charged to none.  A thread that a thread in a group
 * makes is in no group.  In a signal handler that interrupted the library itself
 * blocks may come from a pool that is charged to nobody.
 *
 * Outside of groups malloc and free are what they are without groups; an
 * allocation from a cache with SLUB_CACHE_ACCOUNT is inline, too, and twice as long.
 *
 * A free object in a CPU's list keeps its charge until somebody takes it or the
 * list is emptied, which is done before a request is refused and before a report.
 *
 * A group, and each thread in one, keep up to 64 KiB of its charges in advance, so that charging
 * costs no atomic instruction; a thread whose blocks come and go by more keeps up to 1 MiB, but
 * a 64th of the bytes below the limits at most.  They count as used where usage is compared with
 * a limit at first; before a request is refused, and in slub_group_stats(), they are taken
 * off, so limits and reports are exact.
 *
 * From: the kernel's memory cgroups (low, high, max, obj_cgroup).
 */
#ifndef SLUB_INCLUDE_GROUP_H
#define SLUB_INCLUDE_GROUP_H

#include <slub/shrinker.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

struct slub_group;

/* Bounds: the longest name, the deepest tree, and what stands for no limit. */
#define SLUB_GROUP_NAME_MAX 47
#define SLUB_GROUP_DEPTH_MAX 32		/* groups above a group */
#define SLUB_GROUP_NESTING_MAX 8	/* groups a thread has entered */
#define SLUB_GROUP_NO_LIMIT (SLUB_SIZE(1) << 62)

/*
 * slub_group_root - the group above all others.
 *
 * Its usage is what is charged to any group.  It may be given limits; it cannot
 * be destroyed.
 * Returns it, or NULL with errno set:
 *   ENOMEM  no memory for it, or the library could not start.
 * Context: any thread; the first call not from a signal handler.  Cost: a load.
 */
SLUB_API struct slub_group *slub_group_root(void);

/*
 * slub_group_create - make a group below @parent; NULL: below the root.
 *
 * @name: 1 to SLUB_GROUP_NAME_MAX printable characters without blanks; copied;
 * need not be unique.  A group's parent never changes, so the tree has no cycles.
 * The caller owns the group until slub_group_destroy().
 * Returns it, or NULL with errno set:
 *   EINVAL  a bad name; @parent is not a group;
 *   E2BIG   more than SLUB_GROUP_DEPTH_MAX groups above it;
 *   ENOSPC  there are 65,535 groups, the root included; or 1,048,575 groups that live, or
 *           were deleted while something that is not freed yet was charged to them or a
 *           thread was inside;
 *   ENOMEM  no memory.
 * A program that makes a group for each request, and keeps an object of each, comes to
 * the second of these: a deleted group then is 64 bytes until the last of what was
 * charged to it is freed.  Nothing is lost then, and it works again after that.
 * Context: any thread, callbacks included; not from a signal handler; takes
 * locks.  Where all groups are taken it waits, a second at the most, for one that was
 * deleted a moment ago; one that was deleted in a callback can be made again when the
 * callback has returned.
 */
SLUB_API struct slub_group *slub_group_create(const char *name,
					      struct slub_group *parent);

/*
 * slub_group_destroy - the group ends.
 *
 * What is still charged to it stays charged to its parent, without a look at
 * the objects: in a constant time.  Threads that are inside charge to the parent
 * from now on, and still have to leave.  Shrinkers that had something in it are
 * asked on behalf of its parent.  A callback that runs for this group meanwhile is
 * not waited for, and may go on using the pointer until it returns.  Calls of its
 * handler in other threads are waited for, as by slub_group_handler_set(): the
 * handler's argument may be freed afterwards.
 * Returns 0, or
 *   -EINVAL   not a group, or deleted already;
 *   -EPERM    the root;
 *   -EBUSY    there are groups below it;
 *   -EDEADLK  called in a handler or callback: it is deleted, but another thread is
 *             still in its handler.  Keep the argument.  To know until when, set the
 *             handler to NULL first.
 * Context: as slub_group_create().
 */
SLUB_API int slub_group_destroy(struct slub_group *group);

/*
 * slub_group_enter, slub_group_leave - this thread works for @group.
 *
 * They nest; leave them in the reverse order, and before the thread ends (else
 * 128 bytes are lost, and what it had charged in advance stays so).
 * Return 0, or
 *   -EINVAL  enter: not a group; leave: not the group entered last;
 *   -ENOSPC  enter: nested deeper than SLUB_GROUP_NESTING_MAX.
 * Context: any thread.  Cost: an atomic addition, two short lists of the CPU.
 */
SLUB_API int slub_group_enter(struct slub_group *group);
SLUB_API int slub_group_leave(struct slub_group *group);

/*
 * slub_group_current - the group that this thread entered last.
 *
 * Returns it, even if it was deleted meanwhile; NULL: none.
 * Errors: none.  Context: anywhere.  Cost: two loads.
 */
SLUB_API struct slub_group *slub_group_current(void);

enum slub_group_limit {
	/*
	 * Up to this, pressure elsewhere leaves the group's shrinkers alone, but
	 * for the last resort.
	 */
	SLUB_GROUP_LOW,
	/*
	 * Above this, a thread that allocates reclaims from the group first, and is
	 * slowed down, by up to 10 ms for 32 KiB.
	 */
	SLUB_GROUP_HIGH,
	/* Never more than this: reclaim, the handler, and then ENOMEM. */
	SLUB_GROUP_MAX,
};

/*
 * slub_group_limit_set - set a limit in bytes; SLUB_GROUP_NO_LIMIT: none.
 *
 * Returns 0, or
 *   -EINVAL  not a group or a limit;
 *   -EBUSY   SLUB_GROUP_MAX below what is used, and reclaim did not help: the
 *            limit stays as it was.
 * Context: any thread, not from a signal handler; may call shrinkers.
 */
SLUB_API int slub_group_limit_set(struct slub_group *group,
				  enum slub_group_limit limit, size_t bytes);
/*
 * slub_group_limit_get - a limit of a group.
 *
 * Returns it in bytes, SLUB_GROUP_NO_LIMIT: none; 0 if that is no group or no
 * limit.  Errors: none but that.  Context: anywhere.
 */
SLUB_API size_t slub_group_limit_get(struct slub_group *group,
				     enum slub_group_limit limit);

/*
 * slub_group_handler_set - @handler is called before a request is refused.
 *
 * It is called in the thread that allocates, without locks, with the group whose
 * maximum is in the way and the bytes that are asked for.  It may free memory,
 * raise the limit, log.  If it returns true the request is tried once more.
 * What it allocates itself is charged without regard to limits.  NULL: none.
 * It runs in the middle of a malloc(), and the compiler does not know that: what it shares
 * with the rest of the program is under a lock, atomic or volatile (SHARED DATA in
 * slub/shrinker.h).
 *
 * The handler of slub_group_root() is also the process's: it is called when the system
 * has no memory or SLUB_LIMIT is in the way, after all has been reclaimed, whatever group the
 * thread is in or none.  Not for a size that could never be had.
 *
 * When this returns no other thread is in the handler that @group had before, so
 * the old argument may be freed.  It waits for calls of that handler, and for nothing
 * else; not for one that it is called in itself.  So hold nothing that the handler
 * waits for.  A handler has to return, in the thread that it was called in.
 * Returns 0, or
 *   -EINVAL   not a group;
 *   -EDEADLK  called in a handler or callback of this library, where it does not wait:
 *             @handler is set, but another thread is still in the old one.  Keep the
 *             old argument, and call again from elsewhere.
 * Context: any thread, callbacks included; sleeps; not from a signal handler.
 */
typedef bool slub_group_handler_fn(struct slub_group *group, size_t bytes,
				   void *arg) SLUB_NOEXCEPT;
SLUB_API int slub_group_handler_set(struct slub_group *group,
				    slub_group_handler_fn *handler, void *arg);

struct slub_group_stats {
	const char *name;
	struct slub_group *parent;
	size_t usage;		/* bytes charged now, exact; slub_group_memory()
				 * says what memory that keeps */
	size_t peak;		/* the most there ever was, what is charged in
				 * advance included, but not beyond the maximum */
	size_t low, high, max;
	uint64_t failures;	/* requests refused for this group's maximum */
	uint64_t max_hits;	/* times the maximum was in the way */
	uint64_t high_hits;	/* times usage was found above high */
	uint32_t nr_children;
	uint32_t depth;		/* groups above it */
	uint64_t reserved[4];	/* 0 */
};

/*
 * slub_group_stats - what can be said of @group.
 *
 * Returns 0, or -EINVAL: not a group.  Context: anywhere; in a handler that
 * interrupted the library what lies free in lists of CPUs counts as used.
 * Cost: 64 words of each CPU, and one of each thread in a group, are read; lists
 * with accounted objects are emptied, those of other CPUs by interrupting them.
 */
SLUB_API int slub_group_stats(struct slub_group *group,
				   struct slub_group_stats *stats);

/* What the objects of a group, and of those below it, keep of memory. */
struct slub_group_memory {
	size_t objects;		/* in slabs */
	size_t object_bytes;	/* what is charged for them */
	size_t slabs;		/* with at least one of these objects on it */
	size_t slab_bytes;	/* of these slabs: what they pin */
	/*
	 * The same, but of a slab that others are on too only the part that goes
	 * by the objects.  Over all groups and what is in none the sum is what
	 * slabs with objects have.
	 */
	size_t share_bytes;
	size_t large_blocks;
	size_t large_bytes;
	size_t reserved[4];	/* 0 */
};

/*
 * slub_group_memory - the slabs that @group's objects keep.
 *
 * slub_group_stats() says what is charged; this counts it, object by object.
 * While other threads allocate and free, the numbers are a sample.  First it empties
 * the CPUs' lists of accounted objects.
 * Returns 0, or
 *   -EINVAL  not a group;
 *   -EDEADLK in a handler that interrupted the library.
 * Context: any thread; takes locks.  Cost: a walk over the heap.
 */
SLUB_API int slub_group_memory(struct slub_group *group,
				    struct slub_group_memory *memory);

/*
 * slub_cache_group_set, slub_bucket_group_set - a cache, a bucket, moves to a group.
 *
 * From now on what is allocated there is charged to @group, whatever group the
 * allocating thread is in; NULL: to that thread's group again.  Objects that are
 * allocated already stay charged to whom they are until they are freed, so the
 * cost does not depend on how many there are; a thread that allocates at the same time is
 * charged the old or the new way.  When the group is deleted its parent takes
 * its place.  Allocations from such a cache cost a call and a slow path; frees
 * cost what they did.
 * Returns 0, or
 *   -EINVAL  not a live cache or bucket with SLUB_CACHE_ACCOUNT; not a group;
 *   -EBUSY   the cache is shared with another one of its kind (SLUB_CACHE_NO_MERGE);
 *   -EDEADLK in a handler that interrupted the library.
 * Context: any thread, not from a signal handler or a handler of this library;
 * waits until charges that are being made have been made.
 */
struct slub_cache;
struct slub_bucket;
SLUB_API int slub_cache_group_set(struct slub_cache *cache,
				  struct slub_group *group);
SLUB_API int slub_bucket_group_set(struct slub_bucket *bucket,
				   struct slub_group *group);

/*
 * slub_group_for_each - call @visit for every group, the root first.
 *
 * Stops when it returns non-zero.  No lock is held; a group that is deleted
 * meanwhile may be visited.
 * Returns what @visit returned last, else 0.  Errors: none.
 * Context: any thread, callbacks included.
 */
SLUB_API int slub_group_for_each(int (*visit)(struct slub_group *, void *),
				 void *arg);

/*
 * slub_group_charge, slub_group_uncharge - charge what the program got elsewhere.
 *
 * @bytes: from mmap() or a device, say.  @group: NULL is the group this thread
 * is in.
 *
 * Returns a token that belongs to slub_group_uncharge(), or 0 with errno:
 *   EINVAL  not a group, in no group, or 2^39 bytes or more;
 *   ENOMEM  a maximum is in the way.
 * The token stays good when the group is deleted, and when its charges are given
 * back in parts; the sum must be right.
 * Context: any thread; may call shrinkers and the handler, and sleep.
 */
SLUB_API uint32_t slub_group_charge(struct slub_group *group, size_t bytes);
SLUB_API void slub_group_uncharge(uint32_t token, size_t bytes);

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
