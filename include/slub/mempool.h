/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: a number of elements that are there whatever happens.
 *
 * A pool keeps a reserve of min_nr elements.  It allocates elements by a
 * function of yours (or from a cache, or from malloc) for as long as that has
 * any; when it fails the reserve is used; when that is empty, a caller that may
 * wait waits until somebody frees an element.  So work that needs one element
 * at a time to go on, and frees it when it is done, never stops for lack of
 * memory, however little there is.
 *
 *   alloc:  alloc_fn() --fails--> reserve --empty--> wait for a free, or fail
 *   free:   reserve, if it is not full; else free_fn()
 *
 * Elements may be freed by any thread.  A pool counts nothing while alloc_fn()
 * succeeds and the reserve is full: it then costs a call through a pointer.
 *
 * From: the kernel's mempool_t.
 */
#ifndef SLUB_INCLUDE_MEMPOOL_H
#define SLUB_INCLUDE_MEMPOOL_H

#include <slub/cache.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* A pool's reserve has at most so many elements. */
#define SLUB_MEMPOOL_NR_MAX (SLUB_SIZE(1) << 24)

/*
 * What a pool is made of.  All functions are called without any lock held, in
 * the thread that calls the pool, by several threads at a time; they may
 * allocate, and use other pools.
 */
struct slub_mempool_args {
	size_t min_nr;		/* elements in the reserve: 1 or more */
	/*
	 * A new element, or NULL: none can be had now.  It must not wait for a
	 * free of the same pool.  @flags: enum slub_alloc_flag.
	 */
	void *(*alloc_fn)(unsigned int flags, void *data);
	void (*free_fn)(void *element, void *data);
	/* Optional: each element that is about to be handed out, new or not. */
	void (*init_fn)(void *element, void *data);
	/*
	 * Optional: an element that came back and may be put into the reserve;
	 * it may be given to free_fn() after it, if others filled the reserve.
	 */
	void (*reset_fn)(void *element, void *data);
	/*
	 * Optional: is @element one that alloc_fn() returned?  What it denies
	 * is reported, counted and left alone by slub_mempool_free().
	 */
	bool (*owns_fn)(const void *element, void *data);
	void *data;		/* handed to all of them */
	uint64_t reserved[4];	/* 0 */
};

struct slub_mempool;

/*
 * slub_mempool_create, slub_mempool_create_args - make a pool and fill it.
 *
 * The reserve's elements are allocated now.  @data stays the caller's and must
 * outlive the pool; *@args is copied.
 *
 * Returns the pool, which the caller owns until slub_mempool_destroy(), or NULL
 * with errno set and nothing kept:
 *   EINVAL  min_nr is 0 or above SLUB_MEMPOOL_NR_MAX; alloc_fn or free_fn is
 *           missing;
 *   ENOSPC  the first pool, and no place for the cache that pools come from (slub/cache.h);
 *   ENOMEM  no memory, or alloc_fn() returned NULL before the reserve was full.
 * Context: any thread, not from a signal handler.  Cost: min_nr allocations.
 * From: mempool_create().
 */
SLUB_API struct slub_mempool *
slub_mempool_create(size_t min_nr,
		    void *(*alloc_fn)(unsigned int flags, void *data),
		    void (*free_fn)(void *element, void *data), void *data);
SLUB_API struct slub_mempool *
slub_mempool_create_args(const struct slub_mempool_args *args);

/*
 * slub_mempool_create_slab - a pool of objects of @cache.
 *
 * The cache must outlive the pool.  An object of another cache that is freed to
 * the pool is found.
 * Returns and errors: as slub_mempool_create(); EINVAL also for @cache NULL.
 * Context: as slub_mempool_create().
 * From: mempool_create_slab_pool().
 */
SLUB_API struct slub_mempool *
slub_mempool_create_slab(size_t min_nr, struct slub_cache *cache);

/*
 * slub_mempool_create_malloc - a pool of blocks of @size bytes from malloc().
 *
 * They are aligned as malloc() aligns them.  A block that is not from this
 * library, or smaller than @size, is found when it is freed to the pool.
 * Returns and errors: as slub_mempool_create(); EINVAL also for @size 0 or above
 * PTRDIFF_MAX.  Context: as slub_mempool_create().  From: mempool_create_kmalloc_pool().
 */
SLUB_API struct slub_mempool *slub_mempool_create_malloc(size_t min_nr,
							 size_t size);

/*
 * slub_mempool_destroy - free the reserve and the pool.
 *
 * NULL is allowed.  Returns 0, or, with the pool as it was:
 *   -EBUSY   elements are known to be out still (the reserve is not full), or
 *            threads wait for one.  Elements from alloc_fn() are not counted
 *            while the reserve is full: freeing them to the pool before is up
 *            to you;
 *   -EINVAL  not a pool, or destroyed already.
 * Nobody may use the pool meanwhile.
 * Context: any thread, not from a signal handler.  From: mempool_destroy(),
 * which answers nothing.
 */
SLUB_API int slub_mempool_destroy(struct slub_mempool *pool);

/*
 * slub_mempool_alloc - an element.
 *
 * @flags: enum slub_pool_flag, or 0.
 * Asks alloc_fn() first, with SLUB_ALLOC_NO_RESERVE: the library's emergency reserve
 * (reserve.h) is for callers without a reserve of their own.  Then takes an element of
 * the pool's reserve; then asks alloc_fn() with the caller's flags; then waits, if asked
 * to.
 * slub_mempool_free() wakes waiters in the order in which they came.  A thread that
 * comes at that moment may be quicker, and the woken one waits anew: some thread
 * makes progress, but no particular one.  Every five seconds a waiter asks alloc_fn()
 * again.  That is for memory that comes back elsewhere: an element that goes to free_fn()
 * by slub_mempool_free() wakes a waiter, even in the moment before the waiter sleeps,
 * unless membarrier(2) is refused.
 *
 * Returns the element, which the caller owns until slub_mempool_free(); its
 * contents are what alloc_fn(), reset_fn() or its last user left.  NULL with
 * errno set, but not with SLUB_POOL_WAIT:
 *   ENOMEM  neither alloc_fn() nor the reserve has one;
 *   EINVAL  not a pool; another flag (nothing is zeroed: what comes from the reserve
 *           is not zero); this even with SLUB_POOL_WAIT.
 * Context: any thread; sleeps with SLUB_POOL_WAIT.  From a signal handler if
 * alloc_fn() allows that, without SLUB_POOL_WAIT; the reserve is left alone by
 * one that interrupted this library (ENOMEM, also with SLUB_POOL_WAIT).
 * A thread that waits while it holds elements of the same pool may wait for
 * itself: have one at a time, or take them by slub_mempool_alloc_bulk().
 * Cost: a call through a pointer, and that of alloc_fn().
 * From: mempool_alloc().
 */
SLUB_API void *slub_mempool_alloc(struct slub_mempool *pool,
				  unsigned int flags);
#ifdef SLUB_CHECK_FLAGS
#define slub_mempool_alloc(pool, flags)					\
	slub_mempool_alloc(pool, SLUB_POOL_FLAGS(flags))
#endif

/*
 * slub_mempool_alloc_reserved - an element of the reserve, at once or not at all.
 *
 * Returns and errors: as slub_mempool_alloc(), without alloc_fn() being asked.
 * Context: as slub_mempool_alloc(); does not sleep but for the lock.
 * Cost: a lock.  From: mempool_alloc_preallocated().
 */
SLUB_API void *slub_mempool_alloc_reserved(struct slub_mempool *pool);

/*
 * slub_mempool_alloc_bulk - @nr elements, all or none.
 *
 * What alloc_fn() does not give is taken from the reserve in one step, so that
 * two callers never wait for each other with half of what they need.
 * Returns @nr, with the elements in @elements, or 0 with errno set as
 * slub_mempool_alloc(); EINVAL also when @nr is 0, or above the pool's min_nr
 * with SLUB_POOL_WAIT, for it could wait for ever.
 * A thread that waits for @nr waits for ever if the reserve becomes smaller than @nr
 * meanwhile.
 * Context: as slub_mempool_alloc().  From: mempool_alloc_bulk().
 */
SLUB_API size_t slub_mempool_alloc_bulk(struct slub_mempool *pool,
					unsigned int flags, size_t nr,
					void **elements);
#ifdef SLUB_CHECK_FLAGS
#define slub_mempool_alloc_bulk(pool, flags, nr, elements)		\
	slub_mempool_alloc_bulk(pool, SLUB_POOL_FLAGS(flags), nr, elements)
#endif

/*
 * slub_mempool_free, slub_mempool_free_bulk - give elements back to their pool.
 *
 * They go to the reserve if it is not full, and wake waiters; else to free_fn().
 * NULL is skipped.  Reported if messages are on, counted
 * (slub_mempool_stats.refused) and left alone: an element that owns_fn()
 * denies; while the reserve is not full, one that is among the 16 last ones put
 * into it, and so is freed twice.  When it is full nobody looks there: such an
 * element goes to free_fn(), and remains in the reserve.  A cache that is watched
 * by letter F or Z (slub-debug(7)) reports it when it gets the element for the
 * second time: at once if both frees went there, else when the element leaves the
 * reserve and is freed.  A foreign element of a pool without owns_fn() cannot be
 * told from an own one, and will be handed out by the pool.
 * Context: as free_fn(); does not sleep but for a lock.  From: mempool_free().
 */
SLUB_API void slub_mempool_free(struct slub_mempool *pool, void *element);
SLUB_API void slub_mempool_free_bulk(struct slub_mempool *pool, size_t nr,
				     void **elements);

/*
 * slub_mempool_resize - change how many elements the reserve has.
 *
 * Growing allocates the additional elements first; shrinking frees surplus ones
 * of the reserve.  A reserve from which elements are out may become smaller than
 * their number: they go to free_fn() when they come back.
 * Returns 0, or with the pool unchanged:
 *   -EINVAL  not a pool; @min_nr is 0 or above SLUB_MEMPOOL_NR_MAX;
 *   -ENOMEM  no memory, or alloc_fn() returned NULL;
 *   -EBUSY   another thread is resizing this pool;
 *   -EDEADLK called by a signal handler that interrupted the allocator.
 * Context: any thread, not from a signal handler; allocating and freeing go on
 * meanwhile.  From: mempool_resize().
 */
SLUB_API int slub_mempool_resize(struct slub_mempool *pool, size_t min_nr);

struct slub_mempool_stats {
	size_t min_nr;
	size_t available;	/* elements in the reserve now */
	size_t waiters;		/* threads that wait now */
	uint64_t taken;		/* elements taken from the reserve so far */
	uint64_t waits;		/* times a thread went to sleep */
	uint64_t timeouts;	/* of these, times nobody woke it for 5 s */
	uint64_t refused;	/* frees that were refused */
	uint64_t reserved[4];	/* 0 */
};

/*
 * slub_mempool_stats - read the numbers of @pool into *@stats.
 *
 * Returns 0; -EINVAL for no pool; -EDEADLK in a signal handler that interrupted
 * this library.  Context: any thread; takes a lock.
 */
SLUB_API int slub_mempool_stats(struct slub_mempool *pool,
				struct slub_mempool_stats *stats);

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
