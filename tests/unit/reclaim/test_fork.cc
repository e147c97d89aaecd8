/* SPDX-License-Identifier: MIT */
/* What a forked child finds of a thread that did not come along, or of its own in a handler. */
#include <gtest/gtest.h>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "reclaim/group/group.h"
}
#undef _Static_assert

namespace {

class Fork : public testing::Test {
protected:
	static void SetUpTestSuite() { start::percpu(); }
};

/* A handler that interrupted the holder of area_lock forks, and a reader is inside. */
TEST_F(Fork, TheChildOfALocksHolderHasNoNewCounters)
{
	struct slub_srcu domain = SLUB_SRCU_INIT;

	ASSERT_EQ(slub_srcu_create(&domain), 0);
	std::string errors;
	int status = harness::in_child([&] {
		int index = slub_srcu_read_lock(&domain);

		lock_acquire(&area_lock);
		srcu_fork_child();
		lock_release(&area_lock);
		slub_srcu_read_unlock(&domain, index);
		/* Readers count themselves all the same, and are waited for. */
		index = slub_srcu_read_lock(&domain);
		uint64_t cookie = slub_srcu_start_poll(&domain);
		if (slub_srcu_poll(&domain, cookie))
			_exit(1);
		slub_srcu_read_unlock(&domain, index);
		slub_srcu_synchronize(&domain);
		_exit(slub_srcu_poll(&domain, cookie) ? 0 : 2);
	}, &errors, 10);
	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
	slub_srcu_destroy(&domain);
}

int asked;

/* A bit that another thread had set below, and not yet above. */
TEST_F(Fork, AMarkThatWasOnItsWayUpwards)
{
	constexpr int NR = 192;
	static struct slub_shrinker all[NR];
	struct slub_group *group = slub_group_create("group", nullptr);
	int marked = 0;

	ASSERT_TRUE(group);
	for (struct slub_shrinker &shrinker : all) {
		shrinker.count = shrinker.scan = [](slub_shrinker *, slub_shrink_control *)
			noexcept -> size_t { asked++; return 0; };
		shrinker.flags = SLUB_SHRINKER_GROUP_AWARE;
		shrinker.seeks = SLUB_SHRINKER_SEEKS;
		ASSERT_EQ(slub_shrinker_create(&shrinker), 0);
	}
	/* In the oldest unit of the map, and in another. */
	for (int n : { 10, 140 }) {
		uint32_t number = group_number(group);

		ASSERT_EQ(slub_shrinker_mark(&all[n], group, 0), 0);
		bit_clear(map_groups[0].words, number);
		asked = 0;
		shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, group);
		EXPECT_EQ(asked, 0) << n;
		reclaim_fork_prepare();
		reclaim_fork_finish(true);
		shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, group);
		EXPECT_EQ(asked, ++marked) << n;
	}
	for (struct slub_shrinker &shrinker : all)
		slub_shrinker_destroy(&shrinker);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

} /* namespace */
