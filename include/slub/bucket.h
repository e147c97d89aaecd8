/* SPDX-License-Identifier: MIT */
/*
 * Buckets: malloc's size classes once more, for one subsystem or tenant.
 *
 * What a bucket hands out shares slabs with nothing else.  So the bucket can
 * say how much of it is in use, its fragmentation is its own, and a
 * use-after-free of one subsystem does not hit objects of another.  A request of
 * up to 32 KiB is an object of a cache named "NAME-SIZE", made when the first of
 * that size is wanted; a larger one is a block of pages that is marked as the
 * bucket's.
 *
 *   struct slub_bucket *b = slub_bucket_create("tenant7", 0);
 *   char *text = slub_bucket_alloc(b, length + 1);
 *   ...
 *   free(text);
 *
 * Blocks may be freed by free() and slub_free() too.  Each size class that is in
 * use takes one of some 16,000 places that there are for caches.
 *
 * From: kmem_buckets_create().
 */
#ifndef SLUB_INCLUDE_BUCKET_H
#define SLUB_INCLUDE_BUCKET_H

#include <slub/cache.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* The longest name; what a cache's name leaves for "-SIZE". */
#define SLUB_BUCKET_NAME_MAX (SLUB_CACHE_NAME_MAX - 6)

struct slub_bucket;

/*
 * slub_bucket_create - make a bucket.
 *
 * @name: 1 to SLUB_BUCKET_NAME_MAX printable characters without blanks, not
 * that of another bucket; copied.  @flags: of enum slub_cache_flag those for
 * accounting (SLUB_CACHE_ACCOUNT, SLUB_CACHE_RECLAIM_ACCOUNT), for debugging and
 * SLUB_CACHE_PANIC; they hold for its caches.  These are never merged.
 *
 * Returns the bucket, which the caller owns until slub_bucket_destroy(), or NULL
 * with errno set (with SLUB_CACHE_PANIC it reports and aborts):
 *   EINVAL  the name is missing, empty, too long or not printable; another flag;
 *   EEXIST  there is a bucket of that name;
 *   ENOSPC  the first one, and no place for the cache that buckets come from;
 *   ENOMEM  no memory.
 * Context: any thread, not from a signal handler.  Cost: one allocation.
 */
SLUB_API struct slub_bucket *slub_bucket_create(const char *name,
						unsigned long flags);
#ifdef SLUB_CHECK_FLAGS
#define slub_bucket_create(name, flags)					\
	slub_bucket_create(name, SLUB_CACHE_FLAGS(flags))
#endif

/*
 * slub_bucket_destroy - give a bucket and its caches back.
 *
 * NULL is allowed.  Returns 0, or, with the bucket in use as before:
 *   -EBUSY   blocks are still allocated; how many is told if messages are on;
 *   -EINVAL  not a bucket, or destroyed already;
 *   -EDEADLK called inside slub_read_lock(), where it would wait for its caller, in a visit of
 *            one of its caches by slub_cache_for_each(), or by a signal handler that
 *            interrupted the allocator;
 *   -EAGAIN  the lists of another CPU could not be emptied (no membarrier).
 * Waits for deferred frees.  Nobody may use the bucket meanwhile.
 * Context: any thread, not from a signal handler; sleeps.  Cost: a walk over the page map,
 * if it ever had a block above 32 KiB, and each CPU is stopped once for each size class, up
 * to the first with a block that is still allocated; then slub_cache_destroy() for each.
 */
SLUB_API int slub_bucket_destroy(struct slub_bucket *bucket);

/*
 * slub_bucket_clear - free all blocks of a bucket, which stays.
 *
 * For what ends together, as a request does: nobody has to know the blocks.  Small and
 * large ones go, watched ones with their checks, and what was charged to groups is
 * given back, as if each had been freed.  Every pointer to a block is void afterwards,
 * and nobody may use the bucket meanwhile or free a block of it, in any thread.
 * Destructors are not called.  What was freed deferred goes first: it waits for readers.
 * Returns 0; -EINVAL: not a bucket; -EDEADLK as slub_bucket_destroy(), and nothing was
 * freed; -EAGAIN: the lists of another CPU could not be emptied
 * (no membarrier), and some blocks are still allocated: call it again.
 * Context: any thread, not from a signal handler; stops each CPU for a moment per class.
 * Cost: a walk over the page map for each class that is in use and one for the large
 * blocks, and each block is freed by itself: nothing is gained by it over frees but
 * that the program keeps no list.
 */
SLUB_API int slub_bucket_clear(struct slub_bucket *bucket);

/*
 * slub_bucket_destroy_all - slub_bucket_clear(), then slub_bucket_destroy().
 *
 * NULL is allowed.  Returns 0, or, with the bucket in use as before and some of its
 * blocks left or none: -EINVAL, -EAGAIN, -EBUSY, -EDEADLK, as these two.
 * Context and cost: as both.
 */
SLUB_API int slub_bucket_destroy_all(struct slub_bucket *bucket);

/*
 * slub_bucket_alloc, slub_bucket_calloc - allocate from a bucket.
 *
 * As malloc() and calloc(): a block of at least @size (or @nr times @size) bytes,
 * aligned to 16; a request for 0 bytes gets a block of its own.  Contents are
 * undefined, or zero with calloc.  The caller owns the block until
 * slub_bucket_free().
 * Returns NULL with errno set:
 *   ENOMEM  no memory; the product of calloc overflows; size above PTRDIFF_MAX;
 *   ENOSPC  the first of its size, and no place for another cache;
 *   EEXIST  the first of its size, and a cache of the program has that name;
 *   EINVAL  not a bucket.
 * Context: any thread.  From a signal handler that interrupted this library, or
 * for the first block of a size: NULL is possible.
 * Cost: as slub_cache_alloc() not inline, and the search of the class.
 * From: kmem_buckets_alloc().
 */
SLUB_API void *slub_bucket_alloc(struct slub_bucket *bucket, size_t size);
SLUB_API void *slub_bucket_calloc(struct slub_bucket *bucket, size_t nr,
				  size_t size);

/*
 * slub_bucket_aligned_alloc - the same, aligned to @align.
 *
 * @align: a power of two; below 16 it is 16.  slub_bucket_realloc() may move the
 * block to where it is aligned to 16 only.  The caller owns the block until
 * slub_bucket_free().
 * Returns and errors: as slub_bucket_alloc(); EINVAL also if @align is not a power
 * of two, ENOMEM also if it is above what malloc's aligned_alloc() takes.
 * Context and cost: as slub_bucket_alloc(); up to twice @size is used.
 */
SLUB_API void *slub_bucket_aligned_alloc(struct slub_bucket *bucket,
					 size_t align, size_t size);

/*
 * slub_bucket_realloc - change the size of a block, within the bucket.
 *
 * As realloc(): @ptr NULL allocates; @size 0 frees.
 * (The C library's realloc() takes blocks of a bucket, but when it has to move
 * one it moves it out of the bucket.)
 *
 * Returns the block, moved or not, with the old contents up to the smaller
 * size; NULL for @size 0, and on failure, when the old block stays as it was.
 * Errors: as slub_bucket_alloc(); EINVAL also when @ptr is not of this bucket.
 * Context and cost: as slub_bucket_alloc(), and a copy if the block moves.
 */
SLUB_API void *slub_bucket_realloc(struct slub_bucket *bucket, void *ptr,
				   size_t size);

/*
 * slub_bucket_free - free a block of the bucket.
 *
 * NULL is allowed.  A block of malloc, of a cache or of another bucket is
 * freed where it belongs, a foreign pointer left alone; both are counted
 * (slub_bucket_stats.refused) and reported if messages are on.
 * Context: as free().  Cost: as free() after one comparison.
 */
SLUB_API void slub_bucket_free(struct slub_bucket *bucket, void *ptr);

struct slub_bucket_stats {
	size_t live_bytes;	/* allocated, as rounded up: what they occupy */
	size_t live_blocks;
	size_t large_bytes;	/* of these, above 32 KiB */
	size_t large_blocks;
	size_t slab_bytes;	/* memory of its slabs, used and free */
	size_t classes;		/* caches it has */
	uint64_t refused;	/* frees of blocks that were not its own */
	uint64_t reserved[4];	/* 0 */
};

/*
 * slub_bucket_stats - what a bucket holds, into *@stats.
 *
 * Counted by looking, so that alloc and free need not count: the lists of its
 * caches are emptied first.  Exact when nobody uses the bucket meanwhile.
 * Returns 0; -EINVAL for no bucket; -EAGAIN when a CPU's lists could not be
 * emptied (what is in them then counts as live); -EDEADLK: called by a signal handler that
 * interrupted the allocator.  What was freed deferred is freed first; inside
 * slub_read_lock() it waits for no reader, and counts what that section keeps.
 * Context: any thread, not from a signal handler; stops each CPU for a moment
 * per class.  Cost: a walk over the page map.
 */
SLUB_API int slub_bucket_stats(struct slub_bucket *bucket,
			       struct slub_bucket_stats *stats);

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
