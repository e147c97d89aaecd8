/* SPDX-License-Identifier: MIT */
/* features/typed/front.c: caches that are variables of programs, also of such as went; real.h. */
#include <cmath>

#include "asked.h"

extern "C" {
#include "features/typed/real.h"
}

namespace {

struct fronts : create_args {
	void SetUp() override
	{
		create_args::SetUp();
		front = {};
		front.args = &args;
		front.is_inline = true;
	}
	struct slub_cache *variable(struct cache_front *of = nullptr)
	{
		return (struct slub_cache *)(of ? of : &front);
	}
	struct cache_front front;
};

TEST_F(fronts, are_made_by_the_first_allocation)
{
	EXPECT_STREQ(slub_cache_name(variable()), "asked");
	EXPECT_EQ(slub_cache_destroy(variable()), -EINVAL) << "there is none";
	void *p = slub_cache_alloc(variable());
	ASSERT_NE(p, nullptr);
	struct slub_cache *cache = front.cache;
	ASSERT_NE(cache, nullptr);
	EXPECT_EQ(cache->front, &front);
	EXPECT_TRUE(cache->is_copied);
	EXPECT_EQ(front.slot, cache->slot);
	EXPECT_EQ(front.inline_slot, cache->inline_slot);
	EXPECT_EQ(front.link, cache->link);
	EXPECT_EQ(front.free_slot, cache->free_slot);
	EXPECT_EQ(front.account_slot, cache->account_slot);
	EXPECT_EQ(front.slab_mask, cache->slab_mask);
	EXPECT_EQ(front.owner_reciprocal, cache->owner_reciprocal);
	EXPECT_EQ(front.owners, cache->owners);
	EXPECT_EQ(front.entry, cache->entry);
	EXPECT_EQ(front.plain_slot, cache->plain_slot);
	EXPECT_EQ(front.kept_slot, cache->kept_slot);
	EXPECT_EQ(front.start.mask, cache->start.mask);
	EXPECT_EQ(front.start.magic, cache->start.magic);
	EXPECT_EQ(slub_cache_of(p), variable());
	EXPECT_EQ(slub_cache_find("asked"), variable());
	EXPECT_EQ(front_cache(&front), cache);
	EXPECT_FALSE(front_is_gone(cache));
	slub_cache_free(variable(), p);
	end(variable());
	EXPECT_EQ(front.slot, 0u);
	EXPECT_EQ(front.inline_slot, 0u);
	EXPECT_EQ(front.plain_slot, 0u);
	EXPECT_EQ(front.kept_slot, 0u);
	EXPECT_EQ(front.cache, nullptr);
	EXPECT_EQ(cache->front, nullptr);
	EXPECT_FALSE(cache->is_copied);
	EXPECT_NE(front_cache(&front), cache);
	/* And once more. */
	p = slub_cache_alloc(variable());
	EXPECT_NE(p, nullptr);
	slub_cache_free(variable(), p);
	end(variable());
}

TEST_F(fronts, without_inline_functions_get_no_copy)
{
	front.is_inline = false;
	front.slot = front.inline_slot = 77;
	void *p = slub_cache_alloc(variable());

	ASSERT_NE(p, nullptr);
	EXPECT_FALSE(front.cache->is_copied);
	EXPECT_EQ(front.slot, 77u);
	EXPECT_EQ(front.inline_slot, 77u);
	slub_cache_free(variable(), p);
	end(variable());
	EXPECT_EQ(front.cache, nullptr);
}

TEST_F(fronts, that_cannot_be_made_say_so)
{
	args.size = 0;
	EXPECT_EQ(said([&] {
		errno = 0;
		EXPECT_EQ(slub_cache_alloc(variable()), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}), "slub_cache_create(asked): the size must be 1 to 262144 bytes\n");
	EXPECT_EQ(front.cache, nullptr);
}

/* A plugin went without a word; what it left is its own when it comes back. */
TEST_F(fronts, that_went_leave_a_cache)
{
	for (int way = 0; way < 3; way++) {
		struct cache_front next = {};
		auto other = args;

		next.args = &other;
		next.is_inline = true;
		other.size = way == 1 ? 128 : 64;
		void *p = slub_cache_alloc(variable());
		struct slub_cache *left = front.cache, *now;
		ASSERT_NE(left, nullptr);
		front.cache = nullptr;	/* zero again */
		EXPECT_TRUE(front_is_gone(left));
		if (way < 2) {
			void *q = slub_cache_alloc(variable(&next));

			ASSERT_NE(q, nullptr);
			now = next.cache;
			EXPECT_EQ(now == left, way == 0) << "of the same shape it is taken over";
			EXPECT_EQ(left->is_left, way == 1);
			EXPECT_EQ(left->front, way == 0 ? &next : nullptr);
			EXPECT_EQ(next.inline_slot, now->inline_slot);
			EXPECT_EQ(slub_cache_find("asked"), variable(&next));
			slub_cache_free(variable(&next), q);
			if (way == 0)
				slub_cache_free(variable(&next), p);
			end(variable(&next));
		} else {
			/* For one that is no variable its name is free. */
			now = of();
			ASSERT_NE(now, nullptr);
			EXPECT_NE(now, left);
			EXPECT_TRUE(left->is_left);
			EXPECT_FALSE(left->is_copied);
			EXPECT_EQ(slub_cache_find("asked"), now);
			end(now);
			EXPECT_EQ(slub_cache_find("asked"), nullptr) << "not what was left";
		}
		if (way) {
			slub_cache_free(left, p);
			EXPECT_EQ(slub_cache_destroy(left), 0);
		}
		front = {};
		front.args = &args;
		front.is_inline = true;
	}
}

TEST_F(fronts, that_are_unmapped_are_gone)
{
	auto *far = (struct cache_front *)os_map(os_page_size());

	far->args = &args;
	void *p = slub_cache_alloc(variable(far));
	struct slub_cache *left = far->cache;
	ASSERT_NE(p, nullptr);
	EXPECT_FALSE(front_is_gone(left));
	os_unreserve(far, os_page_size());
	EXPECT_TRUE(front_is_gone(left));
	struct slub_cache *now = of();
	ASSERT_NE(now, nullptr) << "its name is free";
	EXPECT_EQ(left->front, nullptr);
	EXPECT_FALSE(front_is_gone(left)) << "it has none";
	end(now);
	slub_cache_free(left, p);
	EXPECT_EQ(slub_cache_destroy(left), 0);
}

TEST_F(fronts, share_with_nobody)
{
	set("SLUB_MERGE=1");
	args.flags = 0;
	void *p = slub_cache_alloc(variable());
	args.name = "sharer";
	struct slub_cache *cache = of();
	EXPECT_NE(cache, front.cache);
	struct slub_cache_args third = args;
	struct cache_front next = {};
	third.name = "third";
	next.args = &third;
	void *q = slub_cache_alloc(variable(&next));
	EXPECT_NE(next.cache, cache);
	slub_cache_free(variable(&next), q);
	end(variable(&next));
	end(cache);
	slub_cache_free(variable(), p);
	args.name = "asked";
	end(variable());
}

/* ---- numbers ---- */

TEST(real, is_good_to_twelve_digits)
{
	for (double x = 1e-9; x < 1e9; x *= 1.0371) {
		EXPECT_NEAR(real_log(x), log(x), 1e-12 * (1 + fabs(log(x)))) << x;
		if (x < 100) {
			EXPECT_NEAR(real_one_minus_exp(x) / -expm1(-x), 1, 1e-12) << x;
		}
	}
	EXPECT_EQ(real_log(1), 0);
	EXPECT_EQ(real_one_minus_exp(0), 0);
	EXPECT_EQ(real_one_minus_exp(41), 1);
}

} /* namespace */
