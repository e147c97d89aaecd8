/* SPDX-License-Identifier: MIT */
/* Accounted objects of two groups, and what each group is charged with. */
#ifndef SLUB_TESTS_UNIT_OWNERS_H
#define SLUB_TESTS_UNIT_OWNERS_H

#include "typed.h"

#define _Static_assert static_assert
#define _Atomic
extern "C" {
#include "features/misuse/misuse.h"
#include "features/groups/group.h"
#include "features/groups/owned.h"
}
#undef _Static_assert
#undef _Atomic

#include <slub/debug.h>
#include <slub/group.h>

struct owners : typed {
	static constexpr uint32_t FREE = 0x80000000u;

	void SetUp() override
	{
		static char ignore[] = "SLUB_ON_ERROR=ignore";
		char *environment[] = { ignore, nullptr };

		option_read(environment);
		typed::SetUp();
		if (IsSkipped())
			return;
		percpu_enter();
		one = slub_group_create("one", nullptr);
		two = slub_group_create("two", nullptr);
		ASSERT_TRUE(one && two);
		first = group_owner_number(one);
		second = group_owner_number(two);
		cache = make("owned", 64, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE);
	}
	void TearDown() override
	{
		if (!cache)
			return;
		EXPECT_EQ(slub_thread.locks_held, 0u);
		end(cache);
		expect_usage(0, 0);
		EXPECT_EQ(slub_group_destroy(one), 0);
		EXPECT_EQ(slub_group_destroy(two), 0);
	}
	/* Without stocks, and nothing is settled for it. */
	void expect_usage(size_t of_one, size_t of_two)
	{
		EXPECT_EQ(group_usage(one), of_one);
		EXPECT_EQ(group_usage(two), of_two);
	}
	/* An object of nobody. */
	char *get(struct slub_cache *from = nullptr)
	{
		return (char *)slub_cache_alloc(from ? from : cache);
	}
	uint32_t &word(const void *object) { return *object_owner(cache_of(object), object); }
	/* From here on @group pays for @object, which nobody paid for. */
	void give(void *object, slub_group *group, uint32_t mark = 0)
	{
		ASSERT_EQ(group_charge(group_owner_number(group), cache_of(object)->object_size),
			  0);
		word(object) = group_owner_number(group) | mark;
	}
	/* Past the lists, which keep charges. */
	void back(void *object)
	{
		slub_cache_free(cache, object);
		EXPECT_TRUE(cache_flush(cache));
	}
	uint64_t double_frees()
	{
		struct slub_cache_stats now;

		EXPECT_EQ(slub_cache_stats(cache, &now), 0);
		return now.double_free;
	}

	slub_group *one = nullptr, *two = nullptr;
	uint32_t first, second;
	struct slub_cache *cache = nullptr;
};

/* In @group for as long as it lives. */
struct inside {
	slub_group *group;
	explicit inside(slub_group *g) : group(g) { EXPECT_EQ(slub_group_enter(group), 0); }
	~inside() { EXPECT_EQ(slub_group_leave(group), 0); }
};

#endif
