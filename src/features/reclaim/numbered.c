/* SPDX-License-Identifier: MIT */
#include "features/reclaim/numbered.h"

#define COMMIT_BYTES ((size_t)64 << 10)
/* Where address space is short, do with a part of what was asked for. */
#define NR_MIN 1024

static void **last_word(const struct pool *pool, void *item)
{
	return (void **)((char *)item + pool->item_bytes) - 1;
}

static bool pool_reserve(struct pool *pool)
{
	while (!pool->start) {
		size_t bytes = (size_t)pool->nr_max * pool->item_bytes;

		pool->start = os_reserve(round_up(bytes, COMMIT_BYTES));
		if (!pool->start && pool->nr_max <= NR_MIN)
			return false;
		if (!pool->start)
			pool->nr_max /= 4;
	}
	return true;
}

static void *pool_make(struct pool *pool)
{
	uint32_t number = pool->nr_made;
	size_t bytes = ((size_t)number + 1) * pool->item_bytes;

	if (!pool_reserve(pool) || number >= pool->nr_max)
		return NULL;
	for (; pool->committed_bytes < bytes;
	     pool->committed_bytes += COMMIT_BYTES) {
		if (os_commit(pool->start + pool->committed_bytes,
			      COMMIT_BYTES))
			return NULL;
	}
	/* release: pairs with pool_end() */
	__atomic_store_n(&pool->nr_made, number + 1, __ATOMIC_RELEASE);
	return pool_item(pool, number);
}

void *pool_get(struct pool *pool)
{
	void *item;

	lock_acquire(&pool->lock);
	item = pool->returned;
	if (item)
		pool->returned = *last_word(pool, item);
	else
		item = pool_make(pool);
	if (item)
		pool->nr_used++;
	lock_release(&pool->lock);
	return item;
}

void pool_put(struct pool *pool, void *item)
{
	lock_acquire(&pool->lock);
	*last_word(pool, item) = pool->returned;
	pool->returned = item;
	pool->nr_used--;
	lock_release(&pool->lock);
}
