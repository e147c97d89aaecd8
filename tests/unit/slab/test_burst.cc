/* SPDX-License-Identifier: MIT */
/* features/idle/left.c: when much of what a cache had in use was freed, its lists pin no slabs. */
#include <gtest/gtest.h>

#include "all_lists.h"

namespace {

/* Four times what may be held. */
enum { SIZE = 1024, NR = 8192 };

class burst : public all_lists {
protected:
	static void SetUpTestSuite()
	{
		/* A second CPU's lists would make those of the first shorter. */
		harness::stay_on_this_cpu();
		start::once([] { start::slab(512ul << 20, 2ul << 20); });
	}
	void SetUp() override
	{
		all_lists::SetUp();
		if (IsSkipped())
			return;
		for (int i = 0; i < NR; i++)
			objects.push_back(cache_alloc(cache));
		harness::Random random(1);
		for (size_t i = NR; i-- > 1;)
			std::swap(objects[i], objects[random.below(i + 1)]);
	}
	void free_some(size_t some)
	{
		for (; some; some--, objects.pop_back())
			cache_free(cache, objects.back());
	}
	size_t kept()
	{
		return cache->nodes[0]->nr_carved;
	}

	struct slub_cache *cache = test_cache(SIZE);
	std::vector<void *> objects;
};

TEST_F(burst, leaves_little_in_any_order)
{
	free_some(NR);
	EXPECT_LT(kept(), (size_t)NR / 4);
}

/* An eighth that comes and goes is no end of a burst. */
TEST_F(burst, lists_stay_while_use_is_steady)
{
	for (int round = 0; round < 20; round++) {
		free_some(NR / 8);
		EXPECT_GT(cache_nr_cached(cache), 0u) << round;
		while (objects.size() < (size_t)NR)
			objects.push_back(cache_alloc(cache));
	}
	EXPECT_EQ(kept(), NR + cache_nr_cached(cache));
	free_some(NR);
}

} // namespace
