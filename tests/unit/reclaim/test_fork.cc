/* SPDX-License-Identifier: MIT */
/* What a forked child finds of a thread that did not come along, or of its own in a handler. */
#include <gtest/gtest.h>

#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "reclaim/group.h"
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

	ASSERT_EQ(slub_srcu_init(&domain), 0);
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

} /* namespace */
