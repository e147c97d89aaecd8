/* SPDX-License-Identifier: MIT */
/* features/pressure: what who may not wait for the opening of the sources is told. */
#include <cerrno>
#include <gtest/gtest.h>

#include "slub.h"

extern "C" {
#include "features/pressure/pressure.h"
}

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

TEST(Pressure, AnOptionIsTakenWholeOrNotAtAll)
{
	const struct pressure_options before = pressure_options;
	auto are = [](uint64_t some, uint64_t full, uint64_t window, bool wants_thread) {
		EXPECT_EQ(pressure_options.some_us, some);
		EXPECT_EQ(pressure_options.full_us, full);
		EXPECT_EQ(pressure_options.window_us, window);
		EXPECT_EQ(pressure_options.wants_thread, wants_thread);
	};

	EXPECT_TRUE(pressure_configure(""));
	are(before.some_us, before.full_us, before.window_us, before.wants_thread);
	EXPECT_TRUE(pressure_configure("some=50000,full=20000,window=3000000,thread"));
	are(50000, 20000, 3000000, true);
	for (const char *wrong : { "some=7,bogus", "full=0", "window=10000001", "threads",
				   "some=", "some=1x", "off,thread," }) {
		EXPECT_FALSE(pressure_configure(wrong)) << wrong;
		are(50000, 20000, 3000000, true);
	}
	EXPECT_TRUE(pressure_configure("off"));
	are(50000, 20000, 3000000, false);
	EXPECT_TRUE(pressure_configure("some=1,full=10000000"));
	are(1, 10000000, 3000000, false);
	pressure_options = before;
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
