/* SPDX-License-Identifier: MIT */
/*
 * Promise: the pool with queues of its own that bench/kernel/qmempool measures is a right one. No
 * object is handed out twice under any of its guards, also beside handlers, and all come back.
 */
#include <csignal>
#include <gtest/gtest.h>
#include <set>
#include <sys/time.h>
#include <thread>
#include <vector>

#include "queued.h"

namespace {

struct packet {
	uintptr_t owner;
	uintptr_t state[31];
};

/* What the handler works on. */
struct queued_pool *handled;
enum queued_guard handled_guard;
volatile uint32_t runs, spoilt;

void take_and_give()
{
	struct packet *objects[QUEUED_BULK + 4];
	uint32_t nr = 0;

	/* Of a cache whose lock the thread holds a handler may get none. */
	while (nr < QUEUED_BULK + 4) {
		objects[nr] = (struct packet *)queued_alloc(handled, handled_guard);
		if (!objects[nr])
			break;
		objects[nr++]->owner = (uintptr_t)&runs;
	}
	while (nr) {
		if (objects[--nr]->owner != (uintptr_t)&runs)
			spoilt = spoilt + 1;
		queued_free(handled, objects[nr], handled_guard);
	}
	runs = runs + 1;
}

void handler(int)
{
	if (handled_guard == QUEUED_SEQUENCE || queued_may_run())
		take_and_give();
}

class queued : public testing::TestWithParam<enum queued_guard> {
protected:
	void SetUp() override
	{
		cache = slub_cache_create("queued", sizeof(struct packet), 0, SLUB_CACHE_NO_MERGE,
					  nullptr);
		ASSERT_NE(cache, nullptr);
		ASSERT_TRUE(queued_create(&pool, cache, 32, 256));
		queued_enter(&local, take_and_give);
		handled = &pool;
		handled_guard = GetParam();
		runs = spoilt = 0;
	}
	void TearDown() override
	{
		queued_leave(&pool);
		queued_destroy(&pool);
		EXPECT_EQ(slub_cache_destroy(cache), 0) << "objects were lost";
	}
	/* @rounds of @nr objects, each with its own mark. */
	void pattern(int rounds, size_t nr, uintptr_t mark)
	{
		std::vector<struct packet *> objects(nr);

		for (int round = 0; round < rounds; round++) {
			for (struct packet *&object : objects) {
				object = (struct packet *)queued_alloc(&pool, GetParam());
				ASSERT_NE(object, nullptr);
				object->owner = mark;
			}
			for (struct packet *object : objects) {
				ASSERT_EQ(object->owner, mark);
				queued_free(&pool, object, GetParam());
			}
		}
	}
	struct slub_cache *cache;
	struct queued_pool pool;
	struct queued_local local;
};

TEST_P(queued, objects_are_different_and_pass_through_both_queues)
{
	std::vector<void *> objects(1000);
	struct slub_cache_stats before = {}, after = {};

	for (int round = 0; round < 10; round++) {
		for (void *&object : objects)
			object = queued_alloc(&pool, GetParam());
		EXPECT_EQ(std::set<void *>(objects.begin(), objects.end()).size(), objects.size());
		for (void *object : objects)
			queued_free(&pool, object, GetParam());
		EXPECT_EQ(pool.shared.nr, 256u) << "full, and the rest is the cache's";
	}
	/* What the shared queue holds needs no cache. */
	slub_cache_stats(cache, &before);
	for (size_t i = 0; i < 256; i++)
		objects[i] = queued_alloc(&pool, GetParam());
	EXPECT_LE(pool.shared.nr, 32u);
	slub_cache_stats(cache, &after);
	EXPECT_EQ(after.alloc_refill, before.alloc_refill);
	for (size_t i = 0; i < 256; i++)
		queued_free(&pool, objects[i], GetParam());
}

TEST_P(queued, serves_several_threads)
{
	std::vector<std::thread> threads;

	for (uintptr_t i = 1; i <= 4; i++) {
		threads.emplace_back([this, i] {
			struct queued_local own;

			queued_enter(&own, take_and_give);
			pattern(300, 100 + 50 * i, i);
			queued_leave(&pool);
		});
	}
	for (std::thread &thread : threads)
		thread.join();
}

TEST_P(queued, serves_a_handler_too)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = {};

	if (GetParam() == QUEUED_PLAIN)
		GTEST_SKIP() << "nothing protects it from handlers";
	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, nullptr);
	for (int i = 0; i < 2000 && runs < 200; i++)
		pattern(10, 100, 1);
	setitimer(ITIMER_REAL, &never, nullptr);
	signal(SIGALRM, SIG_DFL);
	EXPECT_GT(runs, 0u);
	EXPECT_EQ(spoilt, 0u);
}

/* The pair of local_bh_disable() and local_bh_enable(). */
TEST_P(queued, work_of_a_handler_waits_for_the_mark)
{
	if (GetParam() != QUEUED_MASKED)
		GTEST_SKIP() << "no mark";
	signal(SIGUSR1, handler);
	queued_mask();
	queued_mask();
	raise(SIGUSR1);
	raise(SIGUSR1);
	queued_unmask();
	EXPECT_EQ(runs, 0u);
	queued_unmask();
	EXPECT_EQ(runs, 1u);
	raise(SIGUSR1);
	EXPECT_EQ(runs, 2u);
	signal(SIGUSR1, SIG_DFL);
}

INSTANTIATE_TEST_SUITE_P(by, queued,
			 testing::Values(QUEUED_SEQUENCE, QUEUED_PLAIN, QUEUED_MASKED,
					 QUEUED_BLOCKED));

} /* namespace */
