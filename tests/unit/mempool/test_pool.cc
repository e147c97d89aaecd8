/* SPDX-License-Identifier: MIT */
/* features/mempool/pool.c, features/mempool/pool_create.c: what the interface does not show. */
#include <gtest/gtest.h>
#include <atomic>
#include <thread>
#include <vector>

#include "start.h"
#if defined(__x86_64__)
#include "steps.h"
#endif

#define _Static_assert static_assert
#define _Atomic
#define new new_value
extern "C" {
#include "features/mempool/mempool.h"
}
#undef _Static_assert
#undef _Atomic
#undef new

namespace {

struct poison {
	void *element;
	size_t bytes;
	bool is_out;
	bool operator==(const poison &other) const
	{
		return element == other.element && bytes == other.bytes && is_out == other.is_out;
	}
};
std::vector<poison> told;	/* to a sanitizer */

} /* namespace */

extern "C" {
void __wrap_sanitizer_tell_order(const void *, bool) {}
void __wrap_sanitizer_tell_out(void *object, size_t bytes, bool is_kept)
{
	EXPECT_TRUE(is_kept);
	told.push_back({ object, bytes, true });
}
void __wrap_sanitizer_tell_back(void *object, size_t bytes, bool is_kept, bool is_readable)
{
	EXPECT_TRUE(is_kept && !is_readable);
	told.push_back({ object, bytes, false });
}
}

namespace {

std::atomic<int> made, numbers, left{1 << 30};

/* Numbers in the place of pointers. */
void *make(unsigned int, void *)
{
	if (left-- <= 0) {
		left++;
		return nullptr;
	}
	made++;
	return (void *)(uintptr_t)(++numbers * 16);
}

void unmake(void *, void *)
{
	made--;
	left++;
}

slub_mempool *pool_of(size_t min_nr) { return slub_mempool_create(min_nr, make, unmake, nullptr); }

class pool : public testing::Test {
protected:
	static void SetUpTestSuite() { start::slab(256ul << 20, 16ul << 20); }
	void TearDown() override { EXPECT_EQ(made, 0); }
};

TEST_F(pool, elements_need_not_be_memory)
{
	slub_mempool *pool = pool_of(3);
	void *element = slub_mempool_alloc_reserved(pool);

	slub_mempool_free(pool, element);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST_F(pool, small_reserves_lie_in_the_structure)
{
	slub_mempool *pool = pool_of(RESERVE_INLINE);

	EXPECT_EQ(pool->elements, pool->space);
	EXPECT_EQ(slub_mempool_resize(pool, RESERVE_INLINE + 1), 0);
	EXPECT_NE(pool->elements, pool->space);
	EXPECT_GE(pool->capacity, RESERVE_INLINE + 1u);
	EXPECT_EQ(slub_mempool_resize(pool, 1), 0);
	EXPECT_EQ(pool->nr, 1u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST_F(pool, keep_takes_what_there_is_room_for)
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
}

TEST_F(pool, keep_refuses_each_element_that_is_there)
{
	slub_mempool *pool = pool_of(4);
	void *element = slub_mempool_alloc_reserved(pool);
	void *other = slub_mempool_alloc_reserved(pool), *elements[64];
	struct slub_mempool_stats stats;

	for (void *&each : elements)
		each = element;
	EXPECT_EQ(pool_keep(pool, std::size(elements), elements), 0u);
	EXPECT_EQ(pool->nr, 3u) << "once";
	EXPECT_EQ(slub_mempool_stats(pool, &stats), 0);
	EXPECT_EQ(stats.refused, std::size(elements) - 1);
	slub_mempool_free(pool, other);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST_F(pool, a_handler_that_interrupted_a_lock_leaves_the_reserve_alone)
{
	slub_mempool *pool = pool_of(2);

	slub_thread.locks_held++;
	EXPECT_EQ(slub_mempool_alloc_reserved(pool), nullptr);
	void *element = slub_mempool_alloc(pool, 0);
	EXPECT_NE(element, nullptr) << "the function may be asked";
	slub_mempool_free(pool, element);
	struct slub_mempool_stats stats;
	EXPECT_EQ(slub_mempool_stats(pool, &stats), -EDEADLK);
	EXPECT_EQ(slub_mempool_resize(pool, 5), -EDEADLK);
	EXPECT_EQ(pool_of(1), nullptr);
	slub_thread.locks_held--;
	EXPECT_EQ(pool->nr, 2u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* The room for more elements goes back if these are not to be had. */
TEST_F(pool, a_resize_that_fails_keeps_nothing)
{
	slub_mempool *pool = pool_of(2);
	size_t used = page_used_bytes();

	left = 1000;
	for (size_t nr : { 2000, 20000, 200000, 1000000 }) {
		EXPECT_EQ(slub_mempool_resize(pool, nr), -ENOMEM);
		EXPECT_EQ(page_used_bytes(), used) << nr;
		EXPECT_EQ(made, 2) << nr;
	}
	left = 1 << 30;
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* Somebody waits, the reserve is full, and the function has an element again. */
TEST_F(pool, a_free_past_a_full_reserve_is_told_under_the_lock)
{
	slub_mempool *pool = pool_of(2);
	void *element = slub_mempool_alloc(pool, 0);
	struct slub_mempool_stats stats;

	ASSERT_EQ(pool->nr, 2u);
	pool->nr_waiters = 1;
	slub_mempool_free(pool, element);
	EXPECT_EQ(slub_thread.locks_held, 0u);
	pool->nr_waiters = 0;
	memset(&stats, 0xff, sizeof(stats));
	EXPECT_EQ(slub_mempool_stats(pool, &stats), 0);
	for (uint64_t each : stats.reserved)
		EXPECT_EQ(each, 0u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST_F(pool, only_one_resize_at_a_time)
{
	slub_mempool *pool = pool_of(2);

	ASSERT_TRUE(turn_try(&pool->resizing));
	EXPECT_EQ(slub_mempool_resize(pool, 5), -EBUSY);
	turn_end(&pool->resizing);
	EXPECT_EQ(slub_mempool_resize(pool, 5), 0);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST_F(pool, fork_takes_the_locks_and_lets_them_go)
{
	slub_mempool *pool = pool_of(2);

	lock_fork_begin();
	mempool_fork_prepare();
	EXPECT_TRUE(lock_is_mine(&pool->lock));
	pool->nr_waiters = 3;
	/* another's */
	pool->resizing.owner = (uint64_t)turn_forks << 32 | (thread_self() + 2);
	EXPECT_FALSE(turn_try(&pool->resizing));
	turn_forks++;
	mempool_fork_finish(true);
	EXPECT_FALSE(lock_is_mine(&pool->lock));
	EXPECT_EQ(pool->nr_waiters, 0u) << "they did not come along";
	EXPECT_TRUE(turn_try(&pool->resizing));
	turn_end(&pool->resizing);
	EXPECT_EQ(slub_thread.locks_held, 0u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST_F(pool, threads_that_wait_and_one_that_resizes)
{
	constexpr int rounds = 2000;
	slub_mempool *pool = pool_of(4);
	std::vector<std::thread> threads;
	std::atomic<int> running{6};
	bool in_use[1 << 16] = {};	/* by number; written by who has the element */

	left = 8;
	for (int t = 0; t < 6; t++) {
		threads.emplace_back([&, t] {
			std::vector<void *> elements(1 + t / 2);

			for (int i = 0; i < rounds; i++) {
				if (slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, elements.size(),
							    elements.data()) == 0)
					continue;	/* too many, at this size */
				for (void *e : elements) {
					bool &mine = in_use[(uintptr_t)e / 16 % (1 << 16)];

					EXPECT_FALSE(mine);
					mine = true;
				}
				for (void *e : elements)
					in_use[(uintptr_t)e / 16 % (1 << 16)] = false;
				slub_mempool_free_bulk(pool, elements.size(), elements.data());
			}
			running--;
		});
	}
	for (size_t i = 0; running; i++) {
		slub_mempool_resize(pool, 3 + i % 5);
		usleep(100);
	}
	for (auto &thread : threads)
		thread.join();
	left = 1 << 30;
	EXPECT_EQ(pool->nr, pool->min_nr);
	EXPECT_EQ(pool->nr_waiters, 0u);
	EXPECT_EQ(pool->nr_bulk_waiters, 0u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* Each wrong request says so, once, where messages are asked for. */
TEST_F(pool, a_wrong_request_says_what_is_wrong)
{
	static char verbose[] = "SLUB_VERBOSE=1";
	char *environment[] = { verbose, nullptr };
	slub_mempool *pool = pool_of(1);
	std::string said;

	EXPECT_EQ(harness::in_child([&] {
		option_read(environment);
		for (unsigned int flags : { (unsigned int)SLUB_ALLOC_ZERO, 1u << 31 }) {
			if (slub_mempool_alloc(nullptr, 0) || slub_mempool_alloc(pool, flags))
				_exit(1);
		}
		_exit(0);
	}, &said), 0);
	for (const char *what : { "not a pool", "SLUB_ALLOC_ZERO is not possible", "unknown flag" })
		EXPECT_NE(said.find(what), said.npos) << what << ": " << said;
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

#if defined(__x86_64__)
/* Fork cannot have the lock of the list of pools, which is being changed. */
TEST_F(pool, fork_leaves_a_list_alone_that_changes)
{
	slub_mempool *pool = pool_of(2), *last = pool_of(1);
	bool held = false;
	sem_t inside, go_on;

	sem_init(&inside, 0, 0);
	sem_init(&go_on, 0, 0);
	{
		steps::Other other;

		other.begin([&] {
			steps::run([&] { EXPECT_EQ(slub_mempool_destroy(last), 0); }, [&] {
				if (!slub_thread.locks_held || pool->list.next == &last->list)
					return true;
				held = true;
				sem_post(&inside);
				while (sem_wait(&go_on))
					continue;
				return false;
			});
			sem_post(&inside);
		});
		while (sem_wait(&inside))
			continue;
		ASSERT_TRUE(held);
		/* In a handler that interrupted the holder of a lock. */
		struct lock own = LOCK_INIT;
		lock_acquire(&own);
		lock_fork_begin();
		mempool_fork_prepare();
		EXPECT_FALSE(lock_is_mine(&pool->lock));
		EXPECT_EQ(slub_thread.locks_held, 1u);
		EXPECT_FALSE(lock_fork_is_whole());
		mempool_fork_finish(false);
		lock_release(&own);
		sem_post(&go_on);
		other.finish();
	}
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}
#endif

/* An element that is known waits in the reserve as one that is free; another's is its owner's. */
TEST_F(pool, tells_a_sanitizer_what_is_in_the_reserve)
{
	for (size_t bytes : { 48ul, 0ul }) {
		slub_mempool *pool = slub_mempool_create(1, make, unmake, nullptr);

		pool->known_bytes = bytes;
		told.clear();
		sanitizer.is_told = true;
		void *one = slub_mempool_alloc_reserved(pool), *two = slub_mempool_alloc(pool, 0);

		slub_mempool_free(pool, one);	/* stays */
		slub_mempool_free(pool, two);	/* goes on */
		sanitizer.is_told = false;
		std::vector<poison> should{ { one, bytes, true }, { two, bytes, true } };
		if (bytes)
			should.push_back({ one, bytes, false });
		EXPECT_EQ(told, should);
		EXPECT_EQ(slub_mempool_destroy(pool), 0);
	}
}

} /* namespace */
