/* SPDX-License-Identifier: MIT */
/* malloc/emergency.c: two arenas without a lock, and frees that have to wait. */
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "start.h"

extern "C" {
#include "base/list.h"
}

namespace {

class emergency : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		static bool started;

		if (started)
			return;
		started = true;
		EXPECT_EQ(emergency_alloc(16, 16), nullptr) << "before the start";
		start::slab(64ul << 20, 16ul << 20);
		ASSERT_EQ(emergency_init(), 0);
	}
};

/* All blocks of one kind that there are. */
std::vector<void *> take_all(size_t bytes, size_t align = 16)
{
	std::vector<void *> all;
	void *ptr;

	all.reserve(8192);
	while ((ptr = emergency_alloc(bytes, align)))
		all.push_back(ptr);
	return all;
}

void free_all(const std::vector<void *> &all)
{
	for (void *ptr : all)
		emergency_free(ptr);
}

TEST_F(emergency, blocks_are_what_was_asked_for)
{
	for (size_t bytes : { 0ul, 1ul, 64ul, 65ul, 1000ul, 4096ul, 4097ul, 65536ul, 262144ul }) {
		auto *ptr = (char *)emergency_alloc(bytes, 16);

		ASSERT_NE(ptr, nullptr) << bytes;
		EXPECT_EQ(pagemap_get(ptr), (uint32_t)MAP_EMERGENCY);
		EXPECT_GE(emergency_bytes(ptr), std::max<size_t>(bytes, 1));
		EXPECT_LT(emergency_bytes(ptr), bytes + (bytes <= 4096 ? 65 : 4097));
		EXPECT_EQ((uintptr_t)ptr % 16, 0u);
		memset(ptr, 0xff, emergency_bytes(ptr));
		emergency_free(ptr);
	}
}

TEST_F(emergency, alignment_or_nothing)
{
	for (size_t align = 16; align <= 4096; align *= 2)
		for (size_t bytes : { 1ul, 100ul, 5000ul }) {
			void *ptr = emergency_alloc(bytes, align);

			ASSERT_NE(ptr, nullptr);
			EXPECT_EQ((uintptr_t)ptr % align, 0u);
			emergency_free(ptr);
		}
	EXPECT_EQ(emergency_alloc(1, 8192), nullptr);
	EXPECT_EQ(emergency_alloc(262145, 16), nullptr);
	EXPECT_EQ(emergency_alloc(PTRDIFF_MAX, 16), nullptr);
	EXPECT_EQ(emergency_alloc(PTRDIFF_MAX, 4096), nullptr);
	for (size_t bytes : { SIZE_MAX, SIZE_MAX - 4094, SIZE_MAX - 4095 })
		for (size_t align : { 16, 4096 })
			EXPECT_EQ(emergency_alloc(bytes, align), nullptr) << "rounding up wraps";
}

TEST_F(emergency, exhaustion_and_reuse)
{
	for (size_t bytes : { 64ul, 640ul, 4096ul, 8192ul, 262144ul }) {
		auto all = take_all(bytes);

		ASSERT_GT(all.size(), 4u) << bytes;
		for (size_t i = 0; i < all.size(); i++)
			harness::fill(all[i], bytes, i);
		for (size_t i = 0; i < all.size(); i++)
			ASSERT_TRUE(harness::intact(all[i], bytes, i)) << "blocks overlap";
		/* One more fits as soon as one is free, and only there. */
		emergency_free(all[all.size() / 2]);
		EXPECT_EQ(emergency_alloc(bytes, 16), all[all.size() / 2]);
		EXPECT_EQ(emergency_alloc(bytes, 16), nullptr);
		free_all(all);
		EXPECT_EQ(take_all(bytes).size(), all.size()) << "some were lost";
		free_all(all);
	}
}

TEST_F(emergency, small_and_big_do_not_share)
{
	auto small = take_all(4096), big = take_all(262144);

	EXPECT_EQ(small.size(), 64u);
	EXPECT_EQ(big.size(), 7u);
	free_all(small);
	EXPECT_EQ(emergency_alloc(5000, 16), nullptr);
	void *ptr = emergency_alloc(100, 16);
	EXPECT_NE(ptr, nullptr);
	emergency_free(ptr);
	free_all(big);
}

TEST_F(emergency, free_of_what_is_no_start_does_nothing)
{
	auto *ptr = (char *)emergency_alloc(640, 16);
	auto *other = (char *)emergency_alloc(64, 16);

	harness::fill(other, 64, 1);
	emergency_free(ptr + 64);
	emergency_free(ptr + 576);
	EXPECT_EQ(emergency_bytes(ptr), 640u);
	emergency_free(ptr);
	EXPECT_EQ(emergency_bytes(ptr), 0u);
	emergency_free(ptr);	/* a second time */
	EXPECT_TRUE(harness::intact(other, 64, 1));
	EXPECT_EQ(emergency_bytes(other), 64u);
	emergency_free(other);
}

TEST_F(emergency, threads)
{
	std::vector<std::thread> threads;
	std::atomic<int> errors{0};
	auto all = take_all(64);
	size_t before = all.size();

	free_all(all);
	for (uint64_t t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			harness::Random random(t);
			std::vector<std::pair<void *, size_t>> mine;

			for (int i = 0; i < 30000; i++) {
				if (mine.size() < 20 && random.below(2)) {
					size_t bytes = random.below(300) + 1;
					void *ptr = emergency_alloc(bytes, 16);

					if (!ptr)
						continue;
					harness::fill(ptr, bytes, t * 1000003 + bytes);
					mine.emplace_back(ptr, bytes);
				} else if (!mine.empty()) {
					auto [ptr, bytes] = mine.back();

					mine.pop_back();
					errors += !harness::intact(ptr, bytes, t * 1000003 + bytes);
					emergency_free(ptr);
				}
			}
			for (auto [ptr, bytes] : mine)
				emergency_free(ptr);
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(errors, 0);
	all = take_all(64);
	EXPECT_EQ(all.size(), before);
	free_all(all);
}

/* base/list.h, which such frees go to. */
void *waiting;

void deferred_push(void **block) { stack_push(&waiting, block, block); }
void *deferred_take() { return stack_take(&waiting); }

TEST(deferred, taken_all_at_once_the_last_first)
{
	void *blocks[3] = {};

	EXPECT_EQ(deferred_take(), nullptr);
	for (void *&block : blocks)
		deferred_push(&block);
	void *chain = deferred_take();
	EXPECT_EQ(chain, &blocks[2]);
	EXPECT_EQ(*(void **)chain, &blocks[1]);
	EXPECT_EQ(blocks[1], &blocks[0]);
	EXPECT_EQ(blocks[0], nullptr);
	EXPECT_EQ(deferred_take(), nullptr);
}

TEST(deferred, none_is_lost_between_threads)
{
	const size_t per_thread = 20000;
	static void *blocks[4][per_thread];
	std::vector<std::thread> threads;
	std::atomic<int> running{4};
	size_t n = 0;

	for (auto &mine : blocks)
		threads.emplace_back([&mine, &running] {
			for (void *&block : mine)
				deferred_push(&block);
			running--;
		});
	for (bool last = false; !last;) {
		last = running == 0;
		for (void *block = deferred_take(); block; block = *(void **)block)
			n++;
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(n, 4 * per_thread);
}

} /* namespace */
