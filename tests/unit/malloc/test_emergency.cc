/* SPDX-License-Identifier: MIT */
/* features/outside/emergency.c: mappings without a lock, and frees that have to wait. */
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "core/base/list.h"
}

namespace {

TEST(emergency, sizes_and_alignments)
{
	for (size_t align : { 16ul, 4096ul, 65536ul, 2ul << 20 })
		for (size_t bytes : { 0ul, 1ul, 4096ul, 300000ul, 5ul << 20 }) {
			auto *ptr = (char *)handler_alloc(bytes, align);

			ASSERT_NE(ptr, nullptr);
			EXPECT_EQ((uintptr_t)ptr % std::max<size_t>(align, 4096), 0u);
			EXPECT_GE(emergency_bytes(ptr), bytes);
			EXPECT_EQ(harness::first_nonzero(ptr, bytes), bytes);
			memset(ptr, 0xff, emergency_bytes(ptr));
			EXPECT_FALSE(pagemap_covers(ptr));
			EXPECT_TRUE(emergency_free(ptr));
			EXPECT_EQ(emergency_bytes(ptr), 0u);
			EXPECT_FALSE(emergency_free(ptr)) << "a second time";
		}
}

TEST(emergency, what_cannot_be)
{
	EXPECT_EQ(handler_alloc(SIZE_MAX, 16), nullptr);
	EXPECT_EQ(handler_alloc(SIZE_MAX - 4096, 4096), nullptr);
	EXPECT_EQ(handler_alloc(PTRDIFF_MAX, (size_t)1 << 62), nullptr);
	EXPECT_EQ(handler_alloc((size_t)1 << 50, 16), nullptr);
	for (int i = 0; i < 2000; i++)	/* and leaves its entry free */
		EXPECT_EQ(handler_alloc((size_t)1 << 50, 16), nullptr);
	void *ptr = handler_alloc(4096, 16);
	EXPECT_NE(ptr, nullptr);
	EXPECT_TRUE(emergency_free(ptr));
}

TEST(emergency, strangers_are_not_unmapped)
{
	auto *ptr = (char *)handler_alloc(3 * 4096, 16);
	int on_stack = 5;

	for (void *other : { (void *)nullptr, (void *)1, (void *)&on_stack, (void *)(ptr + 4096),
			     (void *)(ptr + 16) }) {
		EXPECT_FALSE(emergency_free(other)) << other;
		EXPECT_EQ(emergency_bytes(other), 0u) << other;
	}
	ptr[2 * 4096] = 1;
	EXPECT_TRUE(emergency_free(ptr));
}

TEST(emergency, entries_run_out_and_come_back)
{
	for (int round = 0; round < 3; round++) {
		static void *all[2000];
		size_t n = 0;

		while (n < std::size(all) && (all[n] = handler_alloc(4096, 16)))
			n++;
		EXPECT_EQ(n, 1024u);
		for (size_t i = 0; i < n; i++)
			EXPECT_TRUE(emergency_free(all[i]));
	}
}

TEST(emergency, threads)
{
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([t] {
			for (int i = 0; i < 500; i++) {
				auto *ptr = (char *)handler_alloc(8192, 16);

				ASSERT_NE(ptr, nullptr);
				harness::fill(ptr, 8192, (uint64_t)t);
				ASSERT_TRUE(harness::intact(ptr, 8192, (uint64_t)t));
				ASSERT_TRUE(emergency_free(ptr));
			}
		});
	for (auto &thread : threads)
		thread.join();
}

/* core/base/list.h, which such frees go to. */
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
