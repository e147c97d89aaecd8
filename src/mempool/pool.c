/* SPDX-License-Identifier: MIT */
/*
 * Elements in and out of a pool: from alloc_fn(), from the reserve, waiting;
 * and back.
 */
#include "mempool/mempool.h"

#include <limits.h>
#include <linux/futex.h>

/* A waiter asks alloc_fn() again after so long. */
#define WAIT_SECONDS 5
/* Elements of the reserve that one that comes back is compared with. */
#define TWICE_NR 16

/* ---- objects of a cache ---- */

void *pool_slab_alloc(unsigned int flags, void *data)
{
	return slub_cache_alloc_flags(data, flags);
}

void pool_slab_free(void *element, void *data)
{
	slub_cache_free(data, element);
}

/* ---- the reserve ---- */

/* Takes @nr elements, all or none; under the lock. */
static bool take_locked(struct slub_mempool *pool, size_t nr, void **elements)
{
	if (pool->nr < nr)
		return false;
	for (size_t i = 0; i < nr; i++)
		elements[i] = pool->elements[pool->nr - 1 - i];
	__atomic_store_n(&pool->nr, pool->nr - nr, __ATOMIC_RELAXED);
	pool->nr_taken += nr;
	return true;
}

static bool take(struct slub_mempool *pool, size_t nr, void **elements)
{
	bool done;

	if (slub_thread.locks_held)
		return false;
	lock_acquire(&pool->lock);
	done = take_locked(pool, nr, elements);
	lock_release(&pool->lock);
	return done;
}

/*
 * Changes `frees`, under the lock; atomic, for the kernel compares it.  True: wake() is to
 * follow without the lock.
 */
static bool count_free(struct slub_mempool *pool)
{
	__atomic_fetch_add(&pool->frees, 1, __ATOMIC_RELAXED);
	return pool->nr_waiters;
}

/* All, as the kernel does: which of them has enough now, each sees for itself. */
static void wake(struct slub_mempool *pool)
{
	sys_futex((uint32_t *)&pool->frees, FUTEX_WAKE_PRIVATE, INT_MAX);
}

static bool is_kept(const struct slub_mempool *pool, const void *element)
{
	size_t nr = min_size(pool->nr, TWICE_NR);

	for (size_t i = 1; i <= nr; i++) {
		if (pool->elements[pool->nr - i] == element)
			return true;
	}
	return false;
}

static void refuse(struct slub_mempool *pool, const void *element,
		   const char *why)
{
	__atomic_fetch_add(&pool->nr_refused, 1, __ATOMIC_RELAXED);
	log_message("slub_mempool_free: element %p %s; left alone", element,
		    why);
}

/*
 * As pool_keep(), to the first element that is in the reserve already: @nr becomes how
 * many remain, and true says that the last of these is such a one.
 */
static bool keep_some(struct slub_mempool *pool, size_t *nr, void **elements)
{
	bool twice = false, has_waiters = false;
	size_t before;

	lock_acquire(&pool->lock);
	before = pool->nr;
	while (*nr && pool->nr < pool->min_nr) {
		void *element = elements[*nr - 1];

		twice = is_kept(pool, element);
		if (twice)
			break;
		pool->elements[pool->nr] = element;
		__atomic_store_n(&pool->nr, pool->nr + 1, __ATOMIC_RELAXED);
		--*nr;
	}
	if (pool->nr != before)
		has_waiters = count_free(pool);
	lock_release(&pool->lock);
	if (has_waiters)
		wake(pool);
	return twice;
}

size_t pool_keep(struct slub_mempool *pool, size_t nr, void **elements)
{
	while (keep_some(pool, &nr, elements))
		refuse(pool, elements[--nr], "is free already");
	return nr;
}

/* ---- alloc ---- */

#define FLAGS_ALL (SLUB_POOL_WAIT | SLUB_POOL_RESERVE | SLUB_POOL_NO_RESERVE)

/* False: errno and a message say why. */
static bool alloc_check(const struct slub_mempool *pool, unsigned int flags)
{
	const char *what = NULL;

	if (!pool_is_live(pool))
		what = "not a pool";
	else if (flags & SLUB_ALLOC_ZERO)
		what = "SLUB_ALLOC_ZERO is not possible: what comes from the "
		       "reserve is not zero; use init_fn";
	else if (flags & ~(unsigned int)FLAGS_ALL)
		what = "unknown flag; there are SLUB_POOL_WAIT, SLUB_POOL_RESERVE, "
		       "SLUB_POOL_NO_RESERVE";
	if (!what)
		return true;
	log_message("slub_mempool_alloc(%p, 0x%x): %s", (const void *)pool,
		    flags, what);
	errno = EINVAL;
	return false;
}

/* The first try leaves the library's own reserve to threads without a pool. */
#define FIRST_FLAGS SLUB_ALLOC_NO_RESERVE

/* Up to @nr elements from alloc_fn(). */
static size_t ask_for(struct slub_mempool *pool, unsigned int flags,
		      size_t nr, void **elements)
{
	size_t have = 0;

	if (pool->args.alloc_fn == pool_slab_alloc && nr > 1 &&
	    slub_cache_alloc_bulk(pool->args.data, flags, nr, elements))
		return nr;
	while (have < nr && (elements[have] = pool->args.alloc_fn(
				     flags, pool->args.data)) != NULL)
		have++;
	return have;
}

/* One round of all that can be tried before sleeping; adds to @have. */
static size_t try_all(struct slub_mempool *pool, unsigned int flags,
		      size_t nr, size_t have, void **elements)
{
	have += ask_for(pool, FIRST_FLAGS, nr - have, elements + have);
	if (likely(have == nr))
		return nr;
	if (take(pool, nr - have, elements + have))
		return nr;
	if (flags & SLUB_POOL_NO_RESERVE)
		return have;
	return have + ask_for(pool, flags & SLUB_POOL_RESERVE ? SLUB_ALLOC_RESERVE : 0, nr - have,
			      elements + have);
}

/* False: nobody freed an element for WAIT_SECONDS. */
static bool sleep_until_free(struct slub_mempool *pool, uint32_t seen)
{
	struct {
		long seconds;
		long nanoseconds;
	} patience = { WAIT_SECONDS, 0 };

	return sys_call4(SYS_futex, (long)&pool->frees, FUTEX_WAIT_PRIVATE,
			 (long)seen, (long)&patience) != -ETIMEDOUT;
}

/*
 * Adds to @have, after one sleep if need be; less than @nr: there are too few still,
 * and alloc_fn() should be asked before the next sleep.
 */
static size_t wait_for(struct slub_mempool *pool, unsigned int flags,
		       size_t nr, size_t have, void **elements)
{
	bool woken = true;
	uint32_t seen;

	lock_acquire(&pool->lock);
	pool->nr_waiters++;
	seen = __atomic_load_n(&pool->frees, __ATOMIC_RELAXED);
	lock_release(&pool->lock);
	/* POOL-4; without it an element that comes now is found WAIT_SECONDS later. */
	os_barrier();
	have = try_all(pool, flags, nr, have, elements);
	if (have < nr) {
		__atomic_fetch_add(&pool->nr_waits, 1, __ATOMIC_RELAXED);
		woken = sleep_until_free(pool, seen);	/* POOL-3 */
	}
	lock_acquire(&pool->lock);
	pool->nr_timeouts += !woken;
	/* In a forked child it is 0. */
	pool->nr_waiters -= pool->nr_waiters > 0;
	if (take_locked(pool, nr - have, elements + have))
		have = nr;
	lock_release(&pool->lock);
	return have;
}

static bool alloc(struct slub_mempool *pool, unsigned int flags, size_t nr,
		  void **elements)
{
	size_t have = try_all(pool, flags, nr, 0, elements);

	while (unlikely(have < nr)) {
		if (!(flags & SLUB_POOL_WAIT) || slub_thread.locks_held) {
			slub_mempool_free_bulk(pool, have, elements);
			errno = ENOMEM;
			return false;
		}
		have = wait_for(pool, flags, nr, have, elements);
	}
	for (size_t i = 0; pool->args.init_fn && i < nr; i++)
		pool->args.init_fn(elements[i], pool->args.data);
	return true;
}

SLUB_EXPORT void *slub_mempool_alloc(struct slub_mempool *pool,
				     unsigned int flags)
{
	void *element;

	if (unlikely(!alloc_check(pool, flags)))
		return NULL;
	return alloc(pool, flags, 1, &element) ? element : NULL;
}

SLUB_EXPORT size_t slub_mempool_alloc_bulk(struct slub_mempool *pool,
					   unsigned int flags, size_t nr,
					   void **elements)
{
	size_t most;

	if (!alloc_check(pool, flags))
		return 0;
	most = __atomic_load_n(&pool->min_nr, __ATOMIC_RELAXED);
	if (!nr || (flags & SLUB_POOL_WAIT && nr > most)) {
		log_message("slub_mempool_alloc_bulk: %zu elements; 1 to %zu "
			    "can be waited for", nr, most);
		errno = EINVAL;
		return 0;
	}
	return alloc(pool, flags, nr, elements) ? nr : 0;
}

SLUB_EXPORT void *slub_mempool_alloc_reserved(struct slub_mempool *pool)
{
	void *element;

	if (!alloc_check(pool, 0))
		return NULL;
	if (!take(pool, 1, &element)) {
		errno = ENOMEM;
		return NULL;
	}
	if (pool->args.init_fn)
		pool->args.init_fn(element, pool->args.data);
	return element;
}

/* ---- free ---- */

/*
 * Is the reserve short?  Read without the lock: an element that was taken from
 * it is freed later, so the thread that has to refill it sees that.
 */
static bool is_short(const struct slub_mempool *pool)
{
	return __atomic_load_n(&pool->nr, __ATOMIC_RELAXED) <
		       __atomic_load_n(&pool->min_nr, __ATOMIC_RELAXED) &&
	       !slub_thread.locks_held;
}

/* The owner's function has memory again: somebody may want to ask it. */
static void wake_to_ask(struct slub_mempool *pool)
{
	compiler_barrier();	/* pairs with os_barrier() in wait_for(): POOL-4 */
	if (likely(!__atomic_load_n(&pool->nr_waiters, __ATOMIC_RELAXED)) ||
	    slub_thread.locks_held)
		return;
	lock_acquire(&pool->lock);
	count_free(pool);
	lock_release(&pool->lock);
	wake(pool);
}

/* False: it is NULL, or no element of this pool. */
static bool is_element(struct slub_mempool *pool, const void *element)
{
	if (!element || !pool->args.owns_fn ||
	    pool->args.owns_fn(element, pool->args.data))
		return element;
	refuse(pool, element, "is not of this pool");
	return false;
}

static void free_some(struct slub_mempool *pool, size_t nr, void **elements)
{
	if (unlikely(nr && is_short(pool))) {
		for (size_t i = 0; pool->args.reset_fn && i < nr; i++)
			pool->args.reset_fn(elements[i], pool->args.data);
		nr = pool_keep(pool, nr, elements);
	}
	for (size_t i = 0; i < nr; i++)
		pool->args.free_fn(elements[i], pool->args.data);
	if (nr)
		wake_to_ask(pool);
}

SLUB_EXPORT void slub_mempool_free_bulk(struct slub_mempool *pool, size_t nr,
					void **elements)
{
	void *copy[64];

	if (unlikely(!pool_is_live(pool))) {
		if (nr)
			log_message("slub_mempool_free: %p is not a pool; its "
				    "elements are left alone",
				    (const void *)pool);
		return;
	}
	for (size_t i = 0; i < nr;) {
		size_t n = 0;

		for (; i < nr && n < ARRAY_SIZE(copy); i++) {
			copy[n] = elements[i];
			n += is_element(pool, elements[i]);
		}
		free_some(pool, n, copy);
	}
}

SLUB_EXPORT void slub_mempool_free(struct slub_mempool *pool, void *element)
{
	slub_mempool_free_bulk(pool, element != NULL, &element);
}
