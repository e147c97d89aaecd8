/* SPDX-License-Identifier: MIT */
/* A signal arrives while its thread is in the library's part of fork, and its handler forks. */
#include <gtest/gtest.h>
#include <csignal>
#include <unistd.h>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "core/malloc/malloc.h"
}

namespace {

volatile sig_atomic_t handled;
pid_t children[2];

void fork_in_handler(int)
{
	pid_t pid = fork();

	if (!pid) {
		alarm(10);
		void *small = malloc(100), *large = malloc(1 << 20);

		free(small);
		free(large);
		_exit(small && large && !slub_thread.locks_held ? 0 : 1);
	}
	children[handled] = pid;
	handled = handled + 1;
}

TEST(fork_in_fork, waits_for_the_end_of_the_outer_one)
{
	struct sigaction action = {};
	sigset_t before = {}, after = {};

	action.sa_handler = fork_in_handler;
	sigaction(SIGUSR1, &action, nullptr);
	pthread_sigmask(SIG_SETMASK, nullptr, &before);
	for (bool in_child : { false, true }) {
		pid_t pid = in_child ? fork() : 0;

		if (pid) {
			ASSERT_GT(pid, 0);
			int status = harness::wait_for(pid);
			EXPECT_EQ(status, 0) << harness::describe_status(status);
			continue;
		}
		handled = 0;
		slub_fork_prepare();
		raise(SIGUSR1);
		EXPECT_EQ(handled, 0);
		slub_fork_finish(in_child);
		EXPECT_EQ(handled, 1);
		EXPECT_EQ(slub_thread.locks_held, 0u);
		pthread_sigmask(SIG_SETMASK, nullptr, &after);
		EXPECT_EQ(memcmp(&before, &after, sizeof(before)), 0);
		int status = harness::wait_for(children[0]);
		EXPECT_EQ(status, 0) << harness::describe_status(status);
		if (in_child)
			_exit(testing::Test::HasFailure());
	}
}

} /* namespace */
