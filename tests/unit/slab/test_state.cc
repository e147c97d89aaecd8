/* SPDX-License-Identifier: MIT */
/* core/slab/state.h: the double word of a slab changes as one, in odd and even descriptors. */
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "start.h"

namespace {

class update : public testing::TestWithParam<int> {
protected:
	static void SetUpTestSuite()
	{
		static bool started;

		if (!started)
			start::slab(64ul << 20, 16ul << 20);
		started = true;
		ASSERT_EQ(pagemap_commit(4ul << 20), 0);
	}
	struct page *slab = page_of((char *)heap_start + (size_t)GetParam() * PAGE_BYTES);
	void SetUp() override
	{
		memset(slab, 0, sizeof(*slab));
	}
};

TEST_P(update, changes_both_words_or_none)
{
	struct double_word old = { 0, 0 };

	ASSERT_TRUE(slab_update(slab, &old, { 7, 8 }));
	EXPECT_EQ(slab_read(slab).first, 7u);
	EXPECT_EQ(slab_read(slab).second, 8u);
	for (struct double_word wrong : { double_word{ 7, 9 }, double_word{ 6, 8 },
					  double_word{ 8, 7 } }) {
		old = wrong;
		EXPECT_FALSE(slab_update(slab, &old, { 1, 1 }));
		EXPECT_EQ(old.first, 7u) << "tells what is there";
		EXPECT_EQ(old.second, 8u);
		EXPECT_EQ(page_state(slab)->first, 7u);
		EXPECT_EQ(page_state(slab)->second, 8u);
	}
	EXPECT_EQ(slub_thread.locks_held, 0u);
}

TEST_P(update, leaves_the_rest_of_the_descriptor_alone)
{
	struct page before, after;
	struct double_word old = { ~0ul, ~0ul };

	memset(slab, 0xff, sizeof(*slab));
	slab->flags &= ~PAGE_LOCK_BIT;
	before = *slab;
	ASSERT_TRUE(slab_update(slab, &old, { 0, 0 }));
	after = *slab;
	/* All ones again where the state is: then nothing may differ. */
	size_t at = (size_t)((char *)page_state(slab) - (char *)slab);
	memset((char *)&after + at, 0xff, sizeof(struct double_word));
	EXPECT_EQ(memcmp(&before, &after, sizeof(before)), 0);
}

TEST_P(update, nothing_is_lost_between_threads)
{
	const uintptr_t rounds = 100000;
	std::vector<std::thread> threads;
	std::atomic<int> torn{0};

	/* The second word is always thrice the first. */
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&] {
			for (uintptr_t i = 0; i < rounds; i++) {
				struct double_word old = slab_read(slab), now;

				do {
					now = { old.first + 1, old.second + 3 };
				} while (!slab_update(slab, &old, now));
				torn += old.second != 3 * old.first;
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(torn, 0);
	EXPECT_EQ(page_state(slab)->first, 4 * rounds);
	EXPECT_EQ(page_state(slab)->second, 12 * rounds);
	EXPECT_EQ(slab->flags, 0u);
}

INSTANTIATE_TEST_SUITE_P(descriptor, update, testing::Values(0, 1, 2, 3));

TEST(state, parts_do_not_overlap)
{
	for (uint32_t objects : { 1u, 255u, 65536u, (1u << 30) - 1 })
		for (uint32_t inuse : { 0u, 1u, 255u, (1u << 30) - 1 })
			for (uintptr_t bits : { 0ul, STATE_FROZEN, STATE_LISTED }) {
				struct double_word state = { 0, state_make(objects, bits) | inuse };

				EXPECT_EQ(state_objects(state), objects);
				EXPECT_EQ(state_inuse(state), inuse);
				EXPECT_EQ(state.second & (STATE_FROZEN | STATE_LISTED), bits);
			}
}

} /* namespace */
