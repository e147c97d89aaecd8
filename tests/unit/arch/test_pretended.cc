/* SPDX-License-Identifier: MIT */
/*
 * The library on its restartable sequences, under a kernel that is pretended (pretend.cc): so the
 * sequences of a CPU run where its emulator has no rseq(2).
 */
#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <thread>
#include <vector>

#include "harness.h"
#include "slub.h"

#include <slub/cache.h>

#if ARCH_HAS_RSEQ

extern "C" void *fast_pop(size_t bytes);

namespace {

const size_t sizes[] = { 1, 16, 24, 64, 500, 2048, 4095, 4096, 9000, 16384, 40000 };

struct block {
	unsigned char *at;
	size_t bytes;
	unsigned char mark;
};

block take(harness::Random &random)
{
	block b = { nullptr, sizes[random.below(std::size(sizes))], 0 };

	b.mark = (unsigned char)random.below(256);
	b.at = (unsigned char *)malloc(b.bytes);
	memset(b.at, b.mark, b.bytes);
	return b;
}

bool give(const block &b)
{
	bool same = true;

	for (size_t i = 0; i < b.bytes; i++)
		same &= b.at[i] == b.mark;
	free(b.at);
	return same;
}

/* Returns how many blocks had not what was written to them. */
size_t churn(uint64_t seed, int nr, std::vector<block> *left)
{
	harness::Random random(seed);
	size_t wrong = 0;

	for (int i = 0; i < nr; i++) {
		if (left->size() < 200 && random.below(2)) {
			left->push_back(take(random));
		} else if (!left->empty()) {
			std::swap((*left)[random.below(left->size())], left->back());
			wrong += !give(left->back());
			left->pop_back();
		}
	}
	return wrong;
}

class pretended : public testing::Test {
protected:
	void SetUp() override
	{
		free(malloc(1));
		if (option_value(OPTION_fastpath) > BACKEND_RSEQ)
			GTEST_SKIP() << "SLUB_FASTPATH chooses another";
		ASSERT_EQ(percpu_backend, BACKEND_RSEQ);
		ASSERT_EQ(slub_thread.self.base, slub_cpu_base);
	}
};

TEST_F(pretended, malloc_takes_what_was_freed_last)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "what was freed last is not what comes next";
	for (size_t bytes : sizes) {
		if (bytes > 16384)
			continue;
		void *first = malloc(bytes), *second = malloc(bytes);

		free(first);
		free(second);
		EXPECT_EQ(fast_pop(bytes), second) << bytes;
		EXPECT_EQ(fast_pop(bytes), first) << bytes;
		free(first);
		free(second);
	}
}

TEST_F(pretended, blocks_keep_their_bytes)
{
	/* In a build for one processor all threads share one area, and nothing interrupts them. */
	const int nr = SLUB_CONFIG_SMP ? 4 : 1;
	std::vector<block> lefts[4];
	std::vector<std::thread> threads;
	size_t wrong[4] = {};

	for (int i = 0; i < nr; i++)
		threads.emplace_back([&, i] { wrong[i] = churn(i + 1, 20000, &lefts[i]); });
	for (auto &thread : threads)
		thread.join();
	for (int i = 0; i < nr; i++) {
		EXPECT_EQ(wrong[i], 0u) << i;
		for (const block &b : lefts[i])
			EXPECT_TRUE(give(b));
	}
}

/* Each of the slow functions tries its sequence first. */
TEST_F(pretended, words_count)
{
	uintptr_t word = slub_percpu_alloc(8, 8), half = slub_percpu_alloc(4, 4);

	(slub_percpu_add)(word, 5);
	EXPECT_EQ((slub_percpu_fetch_add)(word, 1ll << 40), 5);
	EXPECT_EQ((slub_percpu_cmpxchg)(word, 4, 9), 5 + (1ll << 40));
	EXPECT_EQ((slub_percpu_cmpxchg)(word, 5 + (1ll << 40), -7), 5 + (1ll << 40));
	EXPECT_EQ(slub_percpu_sum(word), -7);
	(slub_percpu_add32)(half, -3);
	EXPECT_EQ((slub_percpu_cmpxchg32)(half, -2, 8), -3);
	EXPECT_EQ((slub_percpu_cmpxchg32)(half, -3, 8), -3);
	EXPECT_EQ(slub_percpu_sum32(half), 8);
	/* Of this CPU, and not the shared ones. */
	EXPECT_EQ(*(int64_t *)(percpu_area(percpu_cid()) + word), -7);
	EXPECT_EQ(*(int32_t *)(percpu_area(percpu_cid()) + half), 8);
	slub_percpu_free(word);
	slub_percpu_free(half);
}

TEST_F(pretended, lists_have_their_limit)
{
	uintptr_t list = slub_percpu_alloc(sizeof(slub_percpu_list), SLUB_PERCPU_LIST_ALIGN);
	void *objects[4][4];

	for (int i = 0; i < 4; i++)
		EXPECT_EQ((slub_percpu_push)(list, objects[i], 3), i < 3) << i;
	for (int i = 2; i >= 0; i--)
		EXPECT_EQ((slub_percpu_pop)(list), (void *)objects[i]);
	EXPECT_EQ((slub_percpu_pop)(list), nullptr);
	slub_percpu_free(list);
}

TEST_F(pretended, objects_come_and_go_in_bulk)
{
	slub_cache *cache = slub_cache_create("pretended", 120, 8, 0, nullptr);
	void *objects[100];

	ASSERT_NE(cache, nullptr);
	for (int round = 0; round < 200; round++) {
		size_t nr = 1 + round % 100;

		ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects), nr);
		for (size_t i = 0; i < nr; i++)
			memset(objects[i], (int)i, 120);
		for (size_t i = 0; i < nr; i++)
			ASSERT_EQ(((unsigned char *)objects[i])[119], i);
		slub_cache_free_bulk(cache, nr, objects);
	}
	/* What lies in lists cannot be fetched: no CPU can be stopped here. */
	EXPECT_EQ(slub_cache_destroy(cache), -EAGAIN);
}

} /* namespace */

#else

TEST(pretended, DISABLED_this_build_has_none) {}

#endif
