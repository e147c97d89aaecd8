/* SPDX-License-Identifier: MIT */
/*
 * Moving objects: giving back the memory of slabs with few objects.
 *
 * A slab goes back to the system when its last object is freed, so after a peak
 * one object in a hundred keeps everything.  Only the program knows the pointers
 * to an object.  So the program says how an object is moved, and the library says
 * which object, and where to.  Two ways:
 *
 * 1. A typed cache gets two functions.  @isolate is given addresses of a slab's
 *    objects, keeps those that are in use and may move, and sees to it that
 *    nobody frees them meanwhile (a lock, a count, a mark in the object);
 *    @migrate moves one of these into memory it is given:
 *
 *      slub_cache_setup_mobility(cache, isolate, migrate, NULL);
 *      ...
 *      slub_cache_defrag(cache, 100);
 *
 * 2. A program that can find its objects itself asks for each, malloc's too:
 *
 *      if (slub_object_is_sparse(p) && (q = slub_object_move(p)))
 *              everything that pointed to p now has to point to q;
 *
 * From: Christoph Lameter's slab movable objects (kmem_cache_setup_mobility());
 * the second way is what Redis asks of jemalloc.
 */
#ifndef SLUB_INCLUDE_DEFRAG_H
#define SLUB_INCLUDE_DEFRAG_H

#include <slub/cache.h>
#include <slub/shrinker.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At most so many addresses are given to isolate at once. */
#define SLUB_ISOLATE_MAX 64

/*
 * slub_isolate_fn - which of these objects may be moved now?
 *
 * Sets objects[i] to NULL for each that may not.  Those it leaves must stay
 * allocated until migrate has been called for them, which happens in the same
 * thread, once for each and at once.
 *
 * An address may be of an object that is free, or that another thread is just
 * allocating or freeing.  So it must be told from the program's own tables,
 * or from the object itself, which then needs a constructor: an object of a
 * cache with one keeps its bytes while it is free.
 *
 * Returns nothing.  Errors: none.
 * Context: the thread that called slub_cache_defrag(), slub_defrag_all() or
 * slub_pressure_handle(), or the pressure thread; without any lock of the
 * library: it may sleep, take locks of the program, allocate and free.  It must
 * return, not by longjmp() or an exception.
 */
typedef void slub_isolate_fn(struct slub_cache *cache, void **objects,
			     size_t nr, void *arg) SLUB_NOEXCEPT;

enum slub_migrate_result {
	/* It stays where it is; @to is as it was given. */
	SLUB_MIGRATE_FAILED = 0,
	/* It is at @to; the library frees @from, nobody uses it any more. */
	SLUB_MIGRATED = 1,
	/* It is at @to; the program frees @from itself, has or will. */
	SLUB_MIGRATED_FREE_LATER = 2,
};

/*
 * slub_migrate_fn - move the object at @from to @to.
 *
 * @to is a new object of @cache, as slub_cache_alloc() returns it.  Copy, let
 * all that point to @from point to @to, and undo what isolate did.  If objects
 * have a constructor, leave @from as you would for slub_cache_free().  With
 * readers that may still look at @from, free it with slub_free_deferred() and
 * return SLUB_MIGRATED_FREE_LATER.
 * Returns enum slub_migrate_result.  Errors: none.
 * Context: as slub_isolate_fn.
 */
typedef int slub_migrate_fn(struct slub_cache *cache, void *from, void *to,
			    void *arg) SLUB_NOEXCEPT;

/*
 * slub_cache_setup_mobility - say how objects of @cache are moved.
 *
 * @arg is given to both functions.  Both NULL: its objects stay where they are
 * from now on; waits until nobody is moving any.
 * With SLUB_CACHE_ACCOUNT an object stays charged to the group it is charged to; while
 * it is being moved both its places are.
 * Once set, objects are moved by slub_cache_defrag(), slub_defrag_all(), and
 * under memory pressure by slub_pressure_handle() or the pressure thread.  Never inside
 * an allocation, where the program may hold locks of its own.
 * Returns 0, or
 *   -EINVAL  no cache, malloc's own, or one of the functions is NULL;
 *   -EBUSY   the cache is shared with another user (SLUB_MERGE);
 *   -EDEADLK called from such a function.
 * Context: any thread, not from a signal handler; takes locks; may sleep.
 * From: kmem_cache_setup_mobility().
 */
SLUB_API int slub_cache_setup_mobility(struct slub_cache *cache,
				       slub_isolate_fn *isolate,
				       slub_migrate_fn *migrate, void *arg);

/*
 * slub_cache_defrag - empty the cache's sparse slabs by moving their objects.
 *
 * @max_fill: percent; slabs that are fuller stay as they are.  100: whatever
 * can be emptied at all.  Objects go to the fullest slabs that have room.  What
 * isolate or migrate refuse stays, and all on a node whose new objects another
 * thread is constructing; the next call tries again.
 * The cache works as ever meanwhile: objects may be allocated and freed.
 * slub_cache_destroy() in another thread waits for the batch it is at (see
 * there); what the functions use must live until it returned.
 * Objects that are debugged (slub_cache_debug()), or from the reserve, stay.
 *
 * Returns how many slabs went back to the page layer, or
 *   -EINVAL      no cache, or max_fill above 100;
 *   -EOPNOTSUPP  the cache has no such functions;
 *   -EDEADLK     called from such a function, or from a signal handler that
 *                interrupted the library;
 *   -EBUSY       the cache is being destroyed or its functions set
 *                (slub_cache_setup_mobility()).
 * Context: any thread; stops each CPU for a moment; calls the functions.  Cost:
 * a look at each slab with free objects, under the node's lock 256 at a time;
 * an atomic exchange per object moved.
 * From: kmem_cache_defrag().
 */
SLUB_API long slub_cache_defrag(struct slub_cache *cache,
				unsigned int max_fill);

/*
 * slub_defrag_all - the same for all caches whose objects can be moved.
 *
 * Returns how many slabs went back to the page layer in all, or -EINVAL or
 * -EDEADLK as slub_cache_defrag().  Context: as there.
 */
SLUB_API long slub_defrag_all(unsigned int max_fill);

/*
 * slub_object_is_sparse - does @object lie in a slab that is worth emptying?
 *
 * That is one at most half full, or no fuller than the slabs with room that were
 * asked for before are on average, in a cache that has other slabs with room.
 * Objects in lists of CPUs count as used, but for those that wait for their slab to
 * become empty; slub_shrink_all() brings all home.
 * Returns true if so; for any pointer: false for large blocks of malloc and for
 * what is not this library's.
 * Errors: none.  Context: anywhere; @object is not touched and may be free.
 * Cost: two or three cache misses, no lock.
 */
SLUB_API bool slub_object_is_sparse(const void *object);

/*
 * slub_object_move - copy @object to a fuller slab and free it.
 *
 * @object: malloc's or a cache's, allocated, and used by nobody else meanwhile.
 * It goes past the lists of the CPU, which would hand out the same place again:
 * with malloc(), memcpy() and free() nothing would be emptied.
 *
 * Returns the object's new place, which the caller owns as it did the old one;
 * NULL when it is not sparse, or no fuller slab was found: then it is where it
 * was.
 * Errors: none; errno stays as it is.
 * Context: any thread, not from a signal handler.  Cost: two uncontended locks
 * and the copy; no new place many times in a row also empties the lists of CPUs.
 */
SLUB_API void *slub_object_move(void *object);

#ifdef __cplusplus
}
#endif

#endif
