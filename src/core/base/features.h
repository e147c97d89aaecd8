/* SPDX-License-Identifier: MIT */
/*
 * What the core asks of features: every call from the core to what stands beside it.
 *
 * The core allocates, frees, refills and flushes, and lies in src/core; all in src/features stands
 * beside it.  The core links and works without any feature, but for the checks of the hardened
 * build, which its fast paths make (cmake/core.cmake).
 * A feature takes part by defining functions of this list; src/core/without.c defines each of
 * them once more, weakly, as what holds where the feature is left out.  So the linker binds
 * the two, nothing is registered, and a call costs what any other costs.
 *
 * Beside the calls there are words that the core reads and features write: what a cache is
 * (struct slub_cache) and core/slab/switches.h.  A call about an object is made only where
 * such a word says so; the comments name it.
 *
 * A feature calls the core as it likes.  tests/core compares this list with the linker's view.
 */
#ifndef SLUB_BASE_FEATURES_H
#define SLUB_BASE_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/compiler.h"

struct debug_mailbox;
struct os_cpus;
struct page;
struct slub_cache;
struct zone;

/* ---- the process: features/features.c ---- */

/* The core has started, but for malloc's fast paths, which open between these two. */
void features_start(uint32_t nr_nodes);
void features_open(const struct os_cpus *cpus, uint32_t nr_nodes);
/* The constructor runs: threads may be started. */
void features_constructed(void);
/* The process ends. */
void features_end(void);
/* Around a fork: the locks above slab. */
void features_fork_prepare(void);
void features_fork_finish(bool in_child);
/* The same of slab, and in the child what other threads were at; that under cache_lock. */
void slab_features_fork_prepare(void);
void slab_features_fork_finish(bool in_child);
/* The same of page: features/hardened/fence.c. */
void page_features_fork_prepare(void);
void page_features_fork_finish(bool in_child);

/* ---- objects of a cache that is not plain ---- */

/* features/watch: of a cache with letters (cache->debug, or its twin has them) */
void *debug_alloc(struct slub_cache *twin, size_t bytes);
void debug_free(struct slub_cache *twin, void *object, const void *frame);
/* @object will be freed: its free waits for readers, or for a lock. */
void debug_note_free(const struct slub_cache *twin, const void *object);
/* Bytes that were asked for; that it is no object, or free, is reported. */
size_t debug_ask_size(struct slub_cache *twin, const void *object);
/* The same of @object of @cache, a twin, which is allocated. */
size_t debug_object_bytes(const struct slub_cache *cache, const void *object);

/* features/groups/owned.c: of a cache with owners (cache->is_accounted) */
/* Owners for @nr objects from @first on, which have just been carved. */
void account_carved(const struct slub_cache *cache, void *first, uint32_t nr);
/* @object is being freed: gives its charge back.  False: it is free already, and that was said. */
bool account_free(struct slub_cache *cache, void *object);
/* Gives back what the free objects of @chain are charged with (cache->account_path). */
void account_settle(const struct slub_cache *cache, void *chain);

/* features/profile/sample.c: @object of a sampled cache, or a block, is about to be freed */
void sample_gone(void *object);

/* ---- pages ---- */

/* features/growth/growth.c */
enum growth_cause {
	GROWTH_MORE,	/* the heap would have to grow */
	GROWTH_FAILED,	/* it cannot, or must not */
	GROWTH_TIGHT,	/* the limit is near */
};
/*
 * Asks the layers above for @bytes, with no lock held.  True: something was freed, and it is
 * worth looking again.
 */
bool page_growth_ask(size_t bytes, enum growth_cause cause);
/* Pages became resident, and there is a limit: asks if it is near. */
void page_tight_look(void);

/* features/growth/group_limit.c */
/* The heap in superblocks, when it has grown: the cgroup may limit it. */
void page_group_look(size_t superblocks);
/* Bytes that the cgroup allows, 0: no limit; if @is_auto the limit follows them from now on. */
size_t page_limit_follow(bool is_auto);
/* A request is about to be refused: a limit that is followed may have been raised. */
void page_limit_reread(void);

/* features/reserve/reserve.c: blocks kept aside for callers that must not be refused */
/*
 * One block for a reserve that is short of it: from *@whole, a superblock that came back
 * whole (set to NULL if it is used), or off the lists.  NULL: there is none.  Under the
 * zone's lock.
 */
struct page *reserve_claim(struct zone *zone, char **whole, size_t *dirty);
/* Counts a claimed block as used, and puts it into the reserve; with no lock held. */
void reserve_keep(struct zone *zone, struct page *page, size_t dirty);
/* After frees, with no lock held, where page_reserve_short is not 0: makes up for it. */
void reserve_refill(void);
/*
 * A block of 2^@order pages out of the reserve of @node, to which it has to go back; its
 * contents are undefined.  NULL: that is used up, or @order too large.  It is freed as any
 * block; what is freed refills the reserve first.
 */
void *page_reserve_take(uint32_t order, uint32_t node);
/*
 * A large block (page.h) of @bytes, aligned to @align, out of blocks of a reserve that lie side
 * by side; its contents are undefined.  NULL: there are none, or more than 1 MiB is asked for.
 */
void *reserve_take_large(size_t bytes, size_t align);

/*
 * features/hardened/fence.c, of the hardened build: large blocks with fences; large.c's functions
 * of such a name end here
 */
void *fence_alloc(size_t bytes, size_t align, bool *is_zero);
void *fence_alloc_reserve(size_t bytes, size_t align);
/* @own: its pages; @flags: its descriptor's, which is no more. */
void fence_free(void *ptr, size_t own, uint32_t flags);
void *fence_resize(void *ptr, size_t bytes);
/* @base of @pages pages was kept, perhaps closed.  False: the kernel does not open it. */
bool fence_open(void *base, size_t pages);
/* Pages of freed blocks that wait. */
size_t fence_nr_pages(void);
/* These go, for memory is short; with no lock held.  False: there were none. */
bool fence_flush(void);
/*
 * features/hardened/gap.c, the same: a closed page behind a slab that comes, now and then, or goes.
 */
bool gap_close(void *block, uint32_t order, uint32_t node);
void gap_open(void *block, uint32_t order, uint32_t node);
/* What was asked for; the bytes behind it are a pad, which somebody may have written to. */
size_t large_asked(const void *ptr);
bool large_pad_is_right(const void *ptr);

/* ---- slabs ---- */

/*
 * features/rcu: an empty slab whose memory readers may still look at (SLUB_CACHE_TYPESAFE_BY_RCU)
 */
void slab_give_back_later(struct page *slab);

/* features/idle/holes.c: of a slab with holes (page->holes), under the node's lock */
/* The objects of the first hole, to be carved. */
void holes_carve(const struct slub_cache *cache, const struct page *slab,
		 uint32_t *first, uint32_t *count);
/* And after they were counted as carved; pages that get memory again. */
uint32_t holes_carved(struct page *slab);
/* The slab goes back to the page layer, as if it had none. */
void holes_forget(struct slub_cache *cache, struct page *slab);
/* The same of a slab whose objects are larger (page->purged_from): its freelist was taken. */
void objects_taken(struct slub_cache *cache, struct page *slab);
/* features/idle/sparse.c: objects of @cache, which is pinned, went to slabs without a free. */
void slab_sparse_look(struct slub_cache *cache);

/* features/idle/left.c: the heap is about to take another superblock for a slab */
void slab_empty_left(void);
/* As many objects of @cache as it asked for (cache->left_in) are back in their slabs. */
void slab_left_look(struct slub_cache *cache);
/*
 * features/slab_features.c: all lists are about to be emptied; what waits for readers may go, too.
 * @is_all: all of it, for memory is short, or the program asks; else a little.
 */
void slab_shrink_begins(bool is_all);
/*
 * features/rcu/grace.c: where something waits for readers (grace_is_used()), a slow path worth
 * @steps: now and then it frees a little of what no reader can see any more.
 */
void slab_grace_look(uint32_t steps);

/* ---- caches ---- */

/*
 * features/typed/front.c: where programs pop and push has changed; the cache ends; under cache_lock
 */
void front_copy(const struct slub_cache *cache);
void front_part(struct slub_cache *cache);

/*
 * features/debug/mailbox.h: another process asks for something; in a slow path, with no lock held
 */
void debug_mailbox_answer(void);
/* It asks by the word that lies there in this; its form is the feature's. */
extern struct debug_mailbox slub_debug_mailbox;
#define DEBUG_MAILBOX_STATE_AT 20
#define DEBUG_MAILBOX_STATE_MASK 3
#define DEBUG_MAILBOX_STATE_REQUEST 1

/* ---- malloc ---- */

/* The call that asked for memory; kept in the tracks of allocations, and in tails. */
enum alloc_call {
	CALL_UNKNOWN,
	CALL_MALLOC,		/* and all that free() frees */
	CALL_NEW,
	CALL_NEW_MANY,		/* operator new[] */
	CALL_TOLD = 1 << 8,	/* as a bit: an operator delete has looked */
};

/*
 * features/groups/account.c: the thread is in a group (group_current()), or an object has an owner
 */
/* malloc() for a thread that is in a group. */
void *account_malloc(size_t bytes);
/* slow_alloc_aligned() for a thread that is in a group. */
void *account_alloc(size_t bytes, size_t align, bool *is_zero);
/*
 * Charges @ptr, a large block just taken, to this thread's owner.  False: that takes
 * more than an attempt, and the block is free again.
 */
bool account_large(void *ptr);
/*
 * The class for accounted objects that goes with @cache, one of malloc's; NULL:
 * it cannot be made.
 */
struct slub_cache *sizeclass_accounted(struct slub_cache *cache);
/* free() of an object of @cache, whose lists keep charges (cache->account_path). */
void account_free_object(void *ptr, struct slub_cache *cache);
/*
 * features/groups/charge.c, of a large block with an owner.  0, or -ENOMEM: the maximum of a
 * group is in the way.  May reclaim, call a handler and sleep if no lock is held; never
 * fails inside a reclaim.
 */
int group_charge(uint32_t owner, size_t bytes);
/*
 * Gives back what group_charge() took, all or in parts.  Takes a lock at most when @owner's
 * last charge goes.
 */
void group_uncharge(uint32_t owner, size_t bytes);

/* features/profile/sample.c: while sampling is wanted (sample_is_wanted()) */
/* An allocation of @bytes from @cache, whose fast path is at its sample slot. */
void *sample_alloc(struct slub_cache *cache, size_t bytes);
/* One that has no fast path, aligned to @align. */
void *sample_alloc_slowly(struct slub_cache *cache, size_t bytes, size_t align);
/* features/outside/outside.c: a large block is wanted, which may be sampled, watched or guarded */
void *large_alloc_told(size_t bytes, size_t align, bool *is_zero);
/* A large block has been allocated. */
void sample_large(void *ptr, size_t bytes);

/* features/outside/outside.c: blocks that lie in no slab and are no large ones (MAP_NONE) */
/* Usable bytes; 0: @ptr is no such block. */
size_t outside_bytes(const void *ptr);
enum outside_kind {
	OUTSIDE_NOT,
	OUTSIDE_HANDLERS,	/* a handler's */
	OUTSIDE_WATCHED,	/* between guard pages, allocated or not */
};
enum outside_kind outside_find(const void *ptr);
/* @call was asked about it.  False: it is not allocated, and that was said. */
bool outside_ask(const void *ptr, const char *call);
/* False: it is no such block. */
bool outside_free(void *ptr);

/*
 * features/guard/guard.c, of the hardened build: a block of no bytes, whose address nobody can
 * touch, in the name of @cache.  NULL: nobody has asked for such, there is no place, or it would
 * have to be charged.
 */
void *guard_alloc_empty(struct slub_cache *cache, size_t align);

/* features/outside/emergency.c: for a handler that may take no lock, and where addresses lack */
void *handler_alloc(size_t bytes, size_t align);

/*
 * features/misuse/sized.c: looks whether a block to be freed can be of @told bytes.  @align 0: none
 * was told.  False: that is certain corruption, and the block is to be left alone.
 */
bool sized_check(void *ptr, size_t told, size_t align);
/* features/watch/debug.c: of a pointer that malloc does not know.  False: nothing was said. */
bool debug_free_foreign(const char *call, const void *ptr);

/*
 * features/inspect/stats_file.c, where there is such a file (slab_is_told): brings the record of
 * @cache (NULL: of none) up to date, and now and then all of them; with no lock held.
 */
void stats_file_update(struct slub_cache *cache);

/* ---- certain corruption: features/misuse ---- */

enum misuse {
	MISUSE_DOUBLE_FREE,	/* the block is free already */
	MISUSE_INSIDE,		/* the pointer is not where a block begins */
	MISUSE_NO_BLOCK,	/* the pointer is of no block at all */
	MISUSE_LIST,		/* a free block's link leads to what is none */
	MISUSE_FREE_WRITTEN,	/* a free block was written to */
	MISUSE_BEYOND,		/* the bytes around a block were written to */
	MISUSE_SIZE,		/* a block is freed with a size that cannot be */
	MISUSE_CALL,		/* ... or by a call of another kind than its allocation */
	MISUSE_NR,
};
/*
 * misuse.c: says that @what was found of @address, in one write(2), and ends the process or
 * returns; without the feature it ends.  @call: the public function that was called with it, or
 * NULL; @where: the name of a cache, "large block", or NULL.  Takes no lock and allocates nothing.
 * Callers let go of locks first where they can: a handler of SIGABRT may be left by longjmp().
 */
cold void misuse_found(enum misuse what, const char *call, const void *address,
		       const char *where);
/*
 * foreign.c: the same of @ptr, given to @call, which is no block of this library and of
 * no cache, where it is certain to be nobody else's block either.  False: it may be.
 */
cold bool foreign_found(const char *call, const void *ptr);
/* From now on this thread looks at the heap as the process ends, or no longer. */
void misuse_exit(bool begins);

/* ---- memory is short, or is to go back ---- */

/*
 * features/reclaim/run.c: for a request of @bytes that failed.  Each call asks for more than the
 * one before, so that nobody loses all for one object; the last one asks what the program does
 * about it.  @priority: RECLAIM_FIRST at first.  True: try again; false: all was in vain.
 */
#define RECLAIM_FIRST 6
bool reclaim_more(int *priority, size_t bytes);
/* features/reserve/reserved.c: when all else has failed; NULL also without the right to it */
void *cache_alloc_from_reserve(struct slub_cache *cache, unsigned int flags);
/*
 * features/movable/defrag.c: gives back whole pages of free objects on slabs that are in use, until
 * @deadline_ns (0: none); of @node, or of each (SLUB_NODE_ANY).  To be called once the heap is
 * at rest, or memory is short: what is allocated next faults.
 */
void slab_purge_objects(uint64_t deadline_ns, int node);

#endif
