/* SPDX-License-Identifier: MIT */
/* reclaim/pressure: what who may not wait for the opening of the sources is told. */
#include <cerrno>
#include <gtest/gtest.h>

#include "slub.h"

#include <slub/pressure.h>

namespace {

/* As in a signal handler that interrupted the holder of a lock. */
int fd_under_a_lock()
{
	slub_thread.locks_held++;
	int fd = slub_pressure_fd();
	slub_thread.locks_held--;
	return fd;
}

TEST(Pressure, UnderALockTheDescriptorIsToldAndNotMade)
{
	EXPECT_EQ(fd_under_a_lock(), -EDEADLK);
	int fd = slub_pressure_fd();
	if (fd < 0)
		GTEST_SKIP() << "no source here: " << fd;
	struct slub_pressure_stats stats;
	ASSERT_EQ(slub_pressure_stats(&stats), 0);
	EXPECT_GT(stats.sources, 0u);
	EXPECT_EQ(fd_under_a_lock(), fd);
	EXPECT_EQ(slub_pressure_fd(), fd);
}

} /* namespace */
