/* SPDX-License-Identifier: MIT */
/* mempool/pool.c, mempool/create.c: what the interface does not show. */
#include <gtest/gtest.h>
#include <thread>

#include "start.h"

#define _Static_assert static_assert
#define _Atomic
#define new new_value
extern "C" {
#include "mempool/mempool.h"
}
#undef _Static_assert
#undef _Atomic
#undef new

namespace {

int made;

void *make(unsigned int, void *) { return &((char *)nullptr)[++made * 16]; }

void unmake(void *, void *) { made--; }

slub_mempool *pool_of(size_t min_nr) { return slub_mempool_create(min_nr, make, unmake, nullptr); }

TEST(pool, elements_need_not_be_memory)
{
	slub_mempool *pool = pool_of(3);
	void *element = slub_mempool_alloc_reserved(pool);

	slub_mempool_free(pool, element);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(made, 0);
}

TEST(pool, small_reserves_lie_in_the_structure)
{
	slub_mempool *pool = pool_of(RESERVE_INLINE);

	EXPECT_EQ(pool->elements, pool->space);
	EXPECT_EQ(slub_mempool_resize(pool, RESERVE_INLINE + 1), 0);
	EXPECT_NE(pool->elements, pool->space);
	EXPECT_GE(pool->capacity, RESERVE_INLINE + 1u);
	EXPECT_EQ(slub_mempool_resize(pool, 1), 0);
	EXPECT_EQ(pool->nr, 1u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(made, 0);
}

TEST(pool, keep_takes_what_there_is_room_for)
{
	slub_mempool *pool = pool_of(4);
	void *elements[6];

	for (int i = 0; i < 3; i++)
		elements[i] = slub_mempool_alloc_reserved(pool);
	for (int i = 3; i < 6; i++)
		elements[i] = make(0, nullptr);
	uint32_t before = pool->frees;
	EXPECT_EQ(pool_keep(pool, 6, elements), 3u);
	EXPECT_EQ(pool->nr, 4u);
	EXPECT_NE(pool->frees, before) << "POOL-3";
	EXPECT_EQ(pool_keep(pool, 3, elements), 3u);
	for (int i = 0; i < 3; i++)
		unmake(elements[i], nullptr);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(made, 0);
}

TEST(pool, a_handler_that_interrupted_a_lock_leaves_the_reserve_alone)
{
	slub_mempool *pool = pool_of(2);

	slub_thread.locks_held++;
	EXPECT_EQ(slub_mempool_alloc_reserved(pool), nullptr);
	void *element = slub_mempool_alloc(pool, 0);
	EXPECT_NE(element, nullptr) << "the function may be asked";
	slub_mempool_free(pool, element);
	slub_mempool_stats stats;
	EXPECT_EQ(slub_mempool_stats(pool, &stats), -EAGAIN);
	EXPECT_EQ(slub_mempool_resize(pool, 5), -ENOMEM);
	EXPECT_EQ(pool_of(1), nullptr);
	slub_thread.locks_held--;
	EXPECT_EQ(pool->nr, 2u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(pool, only_one_resize_at_a_time)
{
	slub_mempool *pool = pool_of(2);

	pool->is_resizing = true;
	EXPECT_EQ(slub_mempool_resize(pool, 5), -EBUSY);
	pool->is_resizing = false;
	EXPECT_EQ(slub_mempool_resize(pool, 5), 0);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(pool, fork_takes_the_locks_and_lets_them_go)
{
	slub_mempool *pool = pool_of(2);

	lock_fork_begin();
	mempool_fork_prepare();
	EXPECT_TRUE(lock_is_mine(&pool->lock));
	pool->nr_waiters = 3;
	pool->is_resizing = true;
	mempool_fork_finish(true);
	EXPECT_FALSE(lock_is_mine(&pool->lock));
	EXPECT_EQ(pool->nr_waiters, 0u) << "they did not come along";
	EXPECT_FALSE(pool->is_resizing);
	EXPECT_EQ(slub_thread.locks_held, 0u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

} /* namespace */
