/* SPDX-License-Identifier: MIT */
/* Tests that do something to groups at each step of something else. */
#ifndef SLUB_TESTS_UNIT_GROUP_STEPS_H
#define SLUB_TESTS_UNIT_GROUP_STEPS_H

#include <gtest/gtest.h>

#include "start.h"
#include "steps.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

class GroupSteps : public testing::Test {
protected:
	void SetUp() override
	{
		static bool started = (start::percpu(), true);

		(void)started;
		if (!start::has_wanted_backend() || percpu_backend == BACKEND_RSEQ)
			GTEST_SKIP() << "a sequence that is stepped through never ends";
		ASSERT_TRUE(slub_group_root());
	}
	static struct slub_group *make(const char *name, struct slub_group *parent = nullptr)
	{
		struct slub_group *group = slub_group_create(name, parent);

		EXPECT_TRUE(group) << name;
		return group;
	}
};

/* A group `top` stands below the root, and what a fixture makes in begin() goes in end(). */
class BelowTop : public GroupSteps {
protected:
	void SetUp() final
	{
		GroupSteps::SetUp();
		if (IsSkipped())
			return;
		top = make("top");
		ASSERT_TRUE(top);
		begin();
	}
	void TearDown() final
	{
		if (!top)
			return;
		end();
		EXPECT_EQ(slub_group_destroy(top), 0);
		EXPECT_EQ(nr_tight, 0u);
	}
	virtual void begin() {}
	virtual void end() {}

	struct slub_group *top = nullptr;
};

#endif
