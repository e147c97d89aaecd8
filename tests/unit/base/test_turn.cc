/* SPDX-License-Identifier: MIT */
/* base/turn.h: one at a time, no waiting for oneself, fork. */
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "slub.h"

namespace {

TEST(turn, is_of_one_thread)
{
	struct turn turn = { 0 };

	ASSERT_TRUE(turn_try(&turn));
	std::thread([&] {
		EXPECT_FALSE(turn_try(&turn));
		EXPECT_FALSE(turn_wait(&turn, 3)) << "it takes too long";
	}).join();
	turn_end(&turn);
	std::thread([&] {
		ASSERT_TRUE(turn_try(&turn));
		turn_end(&turn);
	}).join();
}

TEST(turn, nobody_waits_for_himself)
{
	struct turn turn = { 0 };

	ASSERT_TRUE(turn_wait(&turn, TURN_TRIES_ANY));
	EXPECT_FALSE(turn_try(&turn));
	EXPECT_FALSE(turn_wait(&turn, TURN_TRIES_ANY));
	turn_end(&turn);
	EXPECT_TRUE(turn_wait(&turn, TURN_TRIES_ANY));
}

TEST(turn, hands_over_what_was_done_in_it)
{
	const int nr = 4, rounds = 20000;
	struct turn turn = { 0 };
	int plain = 0;
	std::vector<std::thread> threads;

	for (int i = 0; i < nr; i++)
		threads.emplace_back([&] {
			for (int n = 0; n < rounds; n++) {
				ASSERT_TRUE(turn_wait(&turn, TURN_TRIES_ANY));
				plain++;
				turn_end(&turn);
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(plain, nr * rounds);
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
