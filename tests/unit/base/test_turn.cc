/* SPDX-License-Identifier: MIT */
/* core/base/turn.h: one at a time, fork. */
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "slub.h"

namespace {

TEST(turn, is_of_one_thread)
{
	struct turn turn = { 0 };

	ASSERT_TRUE(turn_try(&turn));
	std::thread([&] {
		EXPECT_FALSE(turn_try(&turn));
	}).join();
	turn_end(&turn);
	std::thread([&] {
		ASSERT_TRUE(turn_try(&turn));
		turn_end(&turn);
	}).join();
}

TEST(turn, of_another_thread_does_not_come_along)
{
	struct turn mine = { 0 }, other = { 0 };

	ASSERT_TRUE(turn_try(&mine));
	std::thread([&] { ASSERT_TRUE(turn_try(&other)); }).join();
	EXPECT_FALSE(turn_try(&other));

	pid_t child = fork();
	if (child == 0) {
		turn_forks++;
		bool good = !turn_is_left(&mine) && !turn_try(&mine) &&
			    turn_is_left(&other) && turn_try(&other) &&
			    !turn_is_left(&other) && !turn_try(&other);
		_exit(good ? 0 : 1);
	}
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

} // namespace
