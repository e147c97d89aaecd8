/* SPDX-License-Identifier: MIT */
/*
 * Elements in and out of a pool: from alloc_fn(), from the reserve, waiting;
 * and back.
 */
#include "features/mempool/mempool.h"

#include <errno.h>
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

/* Under the lock, which orders it; atomic, for the kernel compares it. */
static void count_free(struct slub_mempool *pool)
{
	__atomic_fetch_add(&pool->frees, 1, __ATOMIC_RELAXED);
}

static void wake(struct slub_mempool *pool, size_t nr)
{
	if (nr)
		sys_futex((uint32_t *)&pool->frees, FUTEX_WAKE_PRIVATE,
			  (uint32_t)min_size(nr, INT_MAX));
}

/*
 * How many to wake after @nr elements came, under the lock.  One that waits for
 * several may be woken in vain and sleep again: then everybody has to look.
 */
static size_t wake_nr(const struct slub_mempool *pool, size_t nr)
{
	if (!pool->nr_waiters)
		return 0;
	return pool->nr_bulk_waiters ? INT_MAX : nr;
}

/* False: nobody freed an element for WAIT_SECONDS. */
static bool sleep_until_free(struct slub_mempool *pool, uint32_t seen)
{
	const struct timespec patience = { WAIT_SECONDS, 0 };

	return sys_call4(SYS_futex, (long)&pool->frees, FUTEX_WAIT_PRIVATE,
			 (long)seen, (long)&patience) != -ETIMEDOUT;
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

/* As pool_keep(); stops at an element that is there already. */
static size_t keep_locked(struct slub_mempool *pool, size_t nr,
			  void **elements)
{
	while (nr && pool->nr < pool->min_nr) {
		void *element = elements[nr - 1];

		if (is_kept(pool, element))
			break;
		pool->elements[pool->nr] = element;
		__atomic_store_n(&pool->nr, pool->nr + 1, __ATOMIC_RELAXED);
		nr--;
	}
	return nr;
}

/* @nr becomes how many are left; true: the last of these is in the reserve already. */
static bool keep_some(struct slub_mempool *pool, size_t *nr, void **elements)
{
	size_t left, woken = 0;
	bool twice;

	lock_acquire(&pool->lock);
	left = keep_locked(pool, *nr, elements);
	twice = left && pool->nr < pool->min_nr;
	if (left < *nr) {
		count_free(pool);
		woken = wake_nr(pool, *nr - left);
	}
	lock_release(&pool->lock);
	wake(pool, woken);
	*nr = left;
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

static int alloc_check(const struct slub_mempool *pool, unsigned int flags)
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
		return 0;
	log_message("slub_mempool_alloc(%p, 0x%x): %s", (const void *)pool,
		    flags, what);
	return EINVAL;
}

/* The first try leaves the library's own reserve to threads without a pool. */
#define FIRST_FLAGS SLUB_ALLOC_NO_RESERVE

static void *ask(struct slub_mempool *pool, unsigned int flags)
{
	return pool->args.alloc_fn(flags, pool->args.data);
}

/* Up to @nr elements from alloc_fn(). */
static size_t ask_for(struct slub_mempool *pool, unsigned int flags,
		      size_t nr, void **elements)
{
	size_t have;

	if (pool->args.alloc_fn == pool_slab_alloc && nr > 1 &&
	    slub_cache_alloc_bulk(pool->args.data, flags, nr, elements))
		return nr;
	for (have = 0; have < nr; have++) {
		elements[have] = ask(pool, flags);
		if (!elements[have])
			break;
	}
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

/* What is counted of a thread that waits. */
struct wait {
	uint32_t seen;	/* of `frees` */
	uint32_t is_bulk;
};

static struct wait wait_begin(struct slub_mempool *pool, bool is_bulk)
{
	struct wait wait = { 0, is_bulk };

	lock_acquire(&pool->lock);
	pool->nr_waiters++;
	pool->nr_bulk_waiters += wait.is_bulk;
	wait.seen = __atomic_load_n(&pool->frees, __ATOMIC_RELAXED);
	lock_release(&pool->lock);
	return wait;
}

/* False: nobody freed an element for WAIT_SECONDS. */
static bool wait_sleep(struct slub_mempool *pool, const struct wait *wait)
{
	lock_acquire(&pool->lock);
	pool->nr_waits++;
	lock_release(&pool->lock);
	return sleep_until_free(pool, wait->seen);
}

/* Takes @nr elements that are missing; false: there are too few still. */
static bool wait_end(struct slub_mempool *pool, const struct wait *wait,
		     bool woken, size_t nr, void **elements)
{
	size_t others = 0;
	bool done;

	lock_acquire(&pool->lock);
	pool->nr_timeouts += !woken;
	/* In a forked child they are 0. */
	pool->nr_waiters -= pool->nr_waiters > 0;
	pool->nr_bulk_waiters -= pool->nr_bulk_waiters >= wait->is_bulk ?
				 wait->is_bulk : 0;
	done = take_locked(pool, nr, elements);
	/* One wake-up may stand for several elements (timeouts, signals). */
	if (pool->nr)
		others = wake_nr(pool, pool->nr);
	lock_release(&pool->lock);
	if (done)
		wake(pool, others);
	return done;
}

/*
 * Adds to @have, after one sleep if need be; less than @nr: there are too few still,
 * and alloc_fn() should be asked before the next sleep.
 */
static size_t wait_for(struct slub_mempool *pool, unsigned int flags,
		       size_t nr, size_t have, void **elements)
{
	struct wait wait = wait_begin(pool, nr - have > 1);
	bool woken = true;

	/* POOL-4; without it an element that comes now is found WAIT_SECONDS later. */
	os_barrier();
	have = try_all(pool, flags, nr, have, elements);
	if (have < nr)
		woken = wait_sleep(pool, &wait);	/* POOL-3 */
	return wait_end(pool, &wait, woken, nr - have, elements + have) ? nr :
									  have;
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
	for (size_t i = 0; i < nr; i++)
		sanitizer_out(elements[i], pool->known_bytes, true);
	for (size_t i = 0; pool->args.init_fn && i < nr; i++)
		pool->args.init_fn(elements[i], pool->args.data);
	return true;
}

SLUB_EXPORT void *slub_mempool_alloc(struct slub_mempool *pool,
				     unsigned int flags)
{
	int err = alloc_check(pool, flags);
	void *element;

	if (unlikely(err))
		return fail_with(err);
	return alloc(pool, flags, 1, &element) ? element : NULL;
}

SLUB_EXPORT size_t slub_mempool_alloc_bulk(struct slub_mempool *pool,
					   unsigned int flags, size_t nr,
					   void **elements)
{
	int err = alloc_check(pool, flags);
	size_t most = err ? 0 : __atomic_load_n(&pool->min_nr,
						__ATOMIC_RELAXED);

	if (!err && (!nr || (flags & SLUB_POOL_WAIT && nr > most))) {
		log_message("slub_mempool_alloc_bulk: %zu elements; 1 to %zu "
			    "can be waited for", nr, most);
		err = EINVAL;
	}
	if (err) {
		errno = err;
		return 0;
	}
	return alloc(pool, flags, nr, elements) ? nr : 0;
}

SLUB_EXPORT void *slub_mempool_alloc_reserved(struct slub_mempool *pool)
{
	int err = alloc_check(pool, 0);
	void *element;

	if (!err && !take(pool, 1, &element))
		err = ENOMEM;
	if (err)
		return fail_with(err);
	sanitizer_out(element, pool->known_bytes, true);
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
	wake(pool, 1);
}

/* What is no element of this pool becomes NULL. */
static void sort_out(struct slub_mempool *pool, size_t nr, void **elements)
{
	for (size_t i = 0; i < nr; i++) {
		if (!elements[i] ||
		    pool->args.owns_fn(elements[i], pool->args.data))
			continue;
		refuse(pool, elements[i], "is not of this pool");
		elements[i] = NULL;
	}
}

/* Moves the elements that are not NULL to the front. */
static size_t close_up(size_t nr, void **elements)
{
	size_t to = 0;

	for (size_t i = 0; i < nr; i++) {
		if (elements[i])
			elements[to++] = elements[i];
	}
	return to;
}

/*
 * To the reserve, as far as that is short; returns how many remain.  What is there is free to the
 * program, and keeps what is in it.
 */
static size_t keep_reset(struct slub_mempool *pool, size_t nr, void **elements)
{
	for (size_t i = 0; pool->args.reset_fn && i < nr; i++)
		pool->args.reset_fn(elements[i], pool->args.data);
	for (size_t i = 0; pool->known_bytes && i < nr; i++)
		sanitizer_back(elements[i], pool->known_bytes, true, false);
	return pool_keep(pool, nr, elements);
}

static void free_some(struct slub_mempool *pool, size_t nr, void **elements)
{
	if (pool->args.owns_fn)
		sort_out(pool, nr, elements);
	nr = close_up(nr, elements);
	for (size_t i = 0; i < nr; i++)
		sanitizer_release(elements[i]);
	if (unlikely(nr && is_short(pool)))
		nr = keep_reset(pool, nr, elements);
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
	for (size_t i = 0; i < nr; i += ARRAY_SIZE(copy)) {
		size_t n = min_size(nr - i, ARRAY_SIZE(copy));

		for (size_t k = 0; k < n; k++)
			copy[k] = elements[i + k];
		free_some(pool, n, copy);
	}
}

SLUB_EXPORT void slub_mempool_free(struct slub_mempool *pool, void *element)
{
	slub_mempool_free_bulk(pool, element != NULL, &element);
}
