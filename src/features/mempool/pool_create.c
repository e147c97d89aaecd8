/* SPDX-License-Identifier: MIT */
/*
 * Pools made, resized, destroyed; and brought through a fork.
 *
 * The structures come from a cache of the library, the stacks of larger
 * reserves are blocks of pages.
 */
#include "features/mempool/mempool.h"
#include "features/guard/guard.h"
#include "features/typed/typed.h"

#include <errno.h>
#include <string.h>

static const struct slub_cache_args cache_args = {
	.name = "slub_mempool",
	.size = sizeof(struct slub_mempool),
	.flags = SLUB_CACHE_NO_MERGE,
};
static struct slub_cache pool_cache = { .args = &cache_args };

static struct lock pools_lock fork_writes = LOCK_INIT;
static struct list pools = { &pools, &pools };	/* under pools_lock */

/* ---- stacks ---- */

static void **pages_alloc(size_t nr)
{
	bool is_zero;

	return large_alloc(nr * sizeof(void *), PAGE_BYTES, &is_zero);
}

static void stack_free(struct slub_mempool *pool, void **stack)
{
	if (stack && stack != pool->space)
		large_free(stack);
}

/* ---- create ---- */

static int args_check(const struct slub_mempool_args *args)
{
	const char *what = NULL;

	if (!args)
		what = "no arguments";
	else if (!args->min_nr || args->min_nr > SLUB_MEMPOOL_NR_MAX)
		what = "a pool has 1 to 16777216 elements";
	else if (!args->alloc_fn || !args->free_fn)
		what = "alloc_fn and free_fn are needed";
	if (!what)
		return 0;
	log_message("slub_mempool_create: %s", what);
	return EINVAL;
}

/* Asks alloc_fn() for @nr elements, all or none. */
static bool fill(const struct slub_mempool_args *args, size_t nr,
		 void **elements)
{
	for (size_t i = 0; i < nr; i++) {
		elements[i] = args->alloc_fn(0, args->data);
		if (elements[i])
			continue;
		while (i)
			args->free_fn(elements[--i], args->data);
		return false;
	}
	return true;
}

static void pool_free(struct slub_mempool *pool)
{
	stack_free(pool, pool->elements);
	slub_cache_free(&pool_cache, pool);
}

/* NULL: *@err, an errno. */
static struct slub_mempool *create(const struct slub_mempool_args *args, int *err)
{
	struct slub_mempool *pool = slub_cache_zalloc(&pool_cache);

	*err = !pool && errno == ENOSPC ? ENOSPC : ENOMEM;
	if (!pool)
		return NULL;
	pool->args = *args;
	pool->min_nr = args->min_nr;
	pool->capacity = max_size(args->min_nr, RESERVE_INLINE);
	pool->elements = args->min_nr > RESERVE_INLINE ?
				 pages_alloc(args->min_nr) : pool->space;
	if (!pool->elements || !fill(args, args->min_nr, pool->elements)) {
		pool_free(pool);
		return NULL;
	}
	pool->nr = args->min_nr;
	lock_acquire(&pools_lock);
	list_add_tail(&pools, &pool->list);
	lock_release(&pools_lock);
	__atomic_store_n(&pool->magic, MEMPOOL_MAGIC, __ATOMIC_RELEASE);
	return pool;
}

SLUB_EXPORT struct slub_mempool *
slub_mempool_create_args(const struct slub_mempool_args *args)
{
	struct slub_mempool *pool;
	int err = args_check(args);

	if (!err)
		err = -slub_begin();
	if (err)
		return fail_with(err);
	pool = create(args, &err);
	return pool ? pool : fail_with(err);
}

SLUB_EXPORT struct slub_mempool *
slub_mempool_create(size_t min_nr,
		    void *(*alloc_fn)(unsigned int flags, void *data),
		    void (*free_fn)(void *element, void *data), void *data)
{
	struct slub_mempool_args args = {
		.min_nr = min_nr, .alloc_fn = alloc_fn, .free_fn = free_fn,
		.data = data,
	};

	return slub_mempool_create_args(&args);
}

static bool slab_owns(const void *element, void *data)
{
	const struct slub_cache *owner = cache_of(element);
	const struct slub_cache *cache = cache_real(data);

	if (guard_owns(element))
		return guard_cache_of(element) == cache;
	/* Watched and sampled objects are in caches beside it. */
	return owner && (owner == cache || owner->root == cache);
}

SLUB_EXPORT struct slub_mempool *
slub_mempool_create_slab(size_t min_nr, struct slub_cache *cache)
{
	struct slub_mempool_args args = {
		.min_nr = min_nr, .alloc_fn = pool_slab_alloc,
		.free_fn = pool_slab_free, .owns_fn = slab_owns,
		.data = cache,
	};
	struct slub_mempool *pool;

	if (!cache) {
		log_message("slub_mempool_create_slab: no cache");
		return fail_with(EINVAL);
	}
	pool = slub_mempool_create_args(&args);
	if (pool && !(cache_real(cache)->flags & SLUB_CACHE_TYPESAFE_BY_RCU))
		pool->known_bytes = cache_real(cache)->object_size;
	return pool;
}

/* ---- destroy ---- */

/* Under the lock: 0, and the pool is no pool any more, or why not. */
static const char *retire(struct slub_mempool *pool)
{
	if (pool->nr_waiters)
		return "threads wait for an element";
	if (pool->nr < pool->min_nr)
		return "elements of its reserve are not back";
	__atomic_store_n(&pool->magic, 0, __ATOMIC_RELAXED);
	return NULL;
}

SLUB_EXPORT int slub_mempool_destroy(struct slub_mempool *pool)
{
	const char *busy;

	if (!pool)
		return 0;
	if (!pool_is_live(pool)) {
		log_message("slub_mempool_destroy: %p is not a pool",
			    (void *)pool);
		return -EINVAL;
	}
	lock_acquire(&pool->lock);
	busy = retire(pool);
	lock_release(&pool->lock);
	if (busy) {
		log_message("slub_mempool_destroy: %p has %zu of %zu elements, "
			    "%u waiters: %s", (void *)pool, pool->nr,
			    pool->min_nr, pool->nr_waiters, busy);
		return -EBUSY;
	}
	lock_acquire(&pools_lock);
	list_remove(&pool->list);
	lock_release(&pools_lock);
	while (pool->nr)
		pool->args.free_fn(pool->elements[--pool->nr],
				   pool->args.data);
	pool_free(pool);
	return 0;
}

/* ---- resize ---- */

static void set_min_nr(struct slub_mempool *pool, size_t min_nr)
{
	__atomic_store_n(&pool->min_nr, min_nr, __ATOMIC_RELAXED);
}

static void shrink(struct slub_mempool *pool, size_t min_nr)
{
	bool is_surplus;

	do {
		void *element = NULL;

		lock_acquire(&pool->lock);
		set_min_nr(pool, min_nr);
		is_surplus = pool->nr > min_nr;
		if (is_surplus) {
			element = pool->elements[pool->nr - 1];
			__atomic_store_n(&pool->nr, pool->nr - 1,
					 __ATOMIC_RELAXED);
		}
		lock_release(&pool->lock);
		if (is_surplus)
			pool->args.free_fn(element, pool->args.data);
	} while (is_surplus);
}

/* Makes room for @min_nr elements: on @stack, if it is not NULL. */
static void stack_exchange(struct slub_mempool *pool, void **stack,
			   size_t min_nr)
{
	void **old = NULL;

	lock_acquire(&pool->lock);
	if (stack) {
		old = pool->elements;
		memcpy(stack, old, pool->nr * sizeof(void *));
		pool->elements = stack;
		pool->capacity = min_nr;
	}
	set_min_nr(pool, min_nr);
	lock_release(&pool->lock);
	stack_free(pool, old);
}

/* From the additional elements, which lie in @more, to a larger reserve. */
static int grow_by(struct slub_mempool *pool, size_t min_nr, size_t nr,
		   void **more)
{
	void **stack = NULL;

	if (min_nr > pool->capacity) {
		stack = pages_alloc(min_nr);
		if (!stack)
			return -ENOMEM;
	}
	if (!fill(&pool->args, nr, more)) {
		stack_free(pool, stack);
		return -ENOMEM;
	}
	stack_exchange(pool, stack, min_nr);
	/* Some may have come back meanwhile. */
	nr = pool_keep(pool, nr, more);
	while (nr)
		pool->args.free_fn(more[--nr], pool->args.data);
	return 0;
}

static int grow(struct slub_mempool *pool, size_t min_nr)
{
	void *few[RESERVE_INLINE], **more = few;
	size_t nr = min_nr - pool->min_nr;
	int err;

	if (nr > ARRAY_SIZE(few))
		more = pages_alloc(nr);
	if (!more)
		return -ENOMEM;
	err = grow_by(pool, min_nr, nr, more);
	if (more != few)
		large_free(more);
	return err;
}

SLUB_EXPORT int slub_mempool_resize(struct slub_mempool *pool, size_t min_nr)
{
	int err = 0;

	if (!pool_is_live(pool) || !min_nr || min_nr > SLUB_MEMPOOL_NR_MAX) {
		log_message("slub_mempool_resize(%p, %zu): %s", (void *)pool,
			    min_nr, pool_is_live(pool) ?
			    "a pool has 1 to 16777216 elements" :
			    "not a pool");
		return -EINVAL;
	}
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!turn_try(&pool->resizing))
		return -EBUSY;
	if (min_nr > pool->min_nr)
		err = grow(pool, min_nr);
	else
		shrink(pool, min_nr);
	turn_end(&pool->resizing);
	return err;
}

/* ---- numbers ---- */

SLUB_EXPORT int slub_mempool_stats(struct slub_mempool *pool,
				   struct slub_mempool_stats *stats)
{
	if (!pool_is_live(pool))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	lock_acquire(&pool->lock);
	memset(stats, 0, sizeof(*stats));
	stats->min_nr = pool->min_nr;
	stats->available = pool->nr;
	stats->waiters = pool->nr_waiters;
	stats->taken = pool->nr_taken;
	stats->waits = pool->nr_waits;
	stats->timeouts = pool->nr_timeouts;
	lock_release(&pool->lock);
	stats->refused = __atomic_load_n(&pool->nr_refused, __ATOMIC_RELAXED);
	return 0;
}

/* ---- fork ---- */

static struct slub_mempool *next_pool(const struct list *item)
{
	if (item->next == &pools)
		return NULL;
	return container_of(item->next, struct slub_mempool, list);
}

usual void mempool_fork_prepare(void)
{
	lock_acquire_for_fork(&pools_lock);
	/* Else the list may change under this walk. */
	if (!lock_fork_has(&pools_lock))
		return;
	for (struct slub_mempool *p = next_pool(&pools); p;
	     p = next_pool(&p->list))
		lock_acquire_for_fork(&p->lock);
}

usual void mempool_fork_finish(bool in_child)
{
	if (!lock_fork_has(&pools_lock))
		return;
	for (struct slub_mempool *p = next_pool(&pools); p;
	     p = next_pool(&p->list)) {
		/* Those did not come along.  A write would be a page fault. */
		if (in_child && unlikely(p->nr_waiters || p->nr_bulk_waiters)) {
			p->nr_waiters = 0;
			p->nr_bulk_waiters = 0;
		}
		lock_release_after_fork(&p->lock, in_child);
	}
	lock_release_after_fork(&pools_lock, in_child);
}
