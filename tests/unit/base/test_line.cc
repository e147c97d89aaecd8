/* SPDX-License-Identifier: MIT */
/* core/base/line.h: in order, asleep, with handlers, forks and a kernel that refuses futex(2). */
#include <atomic>
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "slub.h"

namespace {

/* So many threads stand in @line. */
size_t nr_waiting(struct line *line)
{
	size_t nr = 0;

	lock_acquire(&line_lock);
	if (line->waiters.next && line->forks == turn_forks)
		for (struct list *l = line->waiters.next; l != &line->waiters; l = l->next)
			nr++;
	lock_release(&line_lock);
	return nr;
}

void wait_for(struct line *line, size_t nr)
{
	while (nr_waiting(line) != nr)
		usleep(200);
}

/* What this process asks of the kernel that a thread which polls would: each call is counted. */
std::atomic<unsigned> nr_polls;

void on_call(int, siginfo_t *info, void *context)
{
	auto *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	nr_polls++;
#ifdef __x86_64__
	regs[REG_RAX] = 0;
#endif
	(void)regs;
	(void)info;
}

/* @action for each of @calls, in this thread and those that it makes. */
bool filter(const std::vector<int> &calls, unsigned action)
{
	std::vector<struct sock_filter> code = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program;

	for (int call : calls) {
		code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1));
		code.push_back(BPF_STMT(BPF_RET | BPF_K, action));
	}
	code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	program.len = (unsigned short)code.size();
	program.filter = code.data();
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Calls @work in a child, and returns what that exits with. */
template <typename Work> int in_child(Work work)
{
	pid_t child = fork();
	int status = -1;

	if (!child) {
		turn_forks++;
		_exit(work());
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

TEST(line, is_of_one_thread)
{
	struct line line = {};

	ASSERT_TRUE(line_try(&line));
	std::thread([&] {
		EXPECT_FALSE(line_try(&line));
		EXPECT_FALSE(line_wait(&line, 3)) << "it takes too long";
	}).join();
	EXPECT_EQ(nr_waiting(&line), 0u);
	line_end(&line);
	std::thread([&] {
		ASSERT_TRUE(line_try(&line));
		line_end(&line);
	}).join();
	EXPECT_EQ(line.turn.owner, 0u);
}

TEST(line, nobody_waits_for_himself)
{
	struct line line = {};

	ASSERT_TRUE(line_wait(&line, LINE_PATIENCE_ANY));
	EXPECT_FALSE(line_try(&line));
	EXPECT_FALSE(line_wait(&line, LINE_PATIENCE_ANY));
	line_end(&line);
	EXPECT_TRUE(line_wait(&line, LINE_PATIENCE_ANY));
	line_end(&line);
	EXPECT_EQ(line.turn.owner, 0u);
}

TEST(line, nobody_waits_with_a_lock)
{
	struct line line = {};

	ASSERT_TRUE(line_try(&line));
	std::thread([&] {
		slub_thread.locks_held++;
		EXPECT_FALSE(line_wait(&line, LINE_PATIENCE_ANY));
		slub_thread.locks_held--;
	}).join();
	line_end(&line);
}

/* A thread that asks again at once comes behind all who waited: LINE-1. */
TEST(line, goes_on_in_the_order_in_which_they_came)
{
	struct line line = {};
	std::vector<std::thread> threads;
	std::vector<size_t> order;
	std::atomic<bool> was_tried = false;

	ASSERT_TRUE(line_try(&line));
	for (size_t i = 0; i < 20; i++) {
		threads.emplace_back([&, i] {
			ASSERT_TRUE(line_wait(&line, LINE_PATIENCE_ANY));
			while (!was_tried)
				sched_yield();
			order.push_back(i);
			line_end(&line);
		});
		wait_for(&line, i + 1);
	}
	line_end(&line);
	EXPECT_FALSE(line_try(&line)) << "it was handed over";
	was_tried = true;
	ASSERT_TRUE(line_wait(&line, LINE_PATIENCE_ANY));
	EXPECT_EQ(order.size(), 20u);
	line_end(&line);
	for (auto &thread : threads)
		thread.join();
	for (size_t i = 0; i < order.size(); i++)
		EXPECT_EQ(order[i], i);
	EXPECT_EQ(line.turn.owner, 0u);
}

TEST(line, hands_over_what_was_done_in_it)
{
	const int nr = 4, rounds = 20000;
	struct line line = {};
	int plain = 0;
	std::vector<std::thread> threads;

	for (int i = 0; i < nr; i++)
		threads.emplace_back([&] {
			for (int n = 0; n < rounds; n++) {
				ASSERT_TRUE(line_wait(&line, LINE_PATIENCE_ANY));
				plain++;
				line_end(&line);
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(plain, nr * rounds);
	EXPECT_EQ(line.turn.owner, 0u);
}

/* Some lose their patience, others come and go: nobody is forgotten, and nobody told twice. */
TEST(line, impatient_threads_leave)
{
	struct line line = {};
	std::atomic<int> plain{ 0 }, inside{ 0 }, wrong{ 0 };
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < 8; i++)
		threads.emplace_back([&, i] {
			for (int n = 0; n < 200; n++) {
				if (!line_wait(&line, i % 2 ? LINE_PATIENCE_ANY : 1))
					continue;
				wrong += inside++ != 0;
				plain++;
				if (n % 8 == 0)
					usleep(300);
				inside--;
				line_end(&line);
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(wrong, 0);
	EXPECT_GE(plain, 4 * 200);
	EXPECT_EQ(line.turn.owner, 0u);
	EXPECT_EQ(nr_waiting(&line), 0u);
}

/* LINE-2: one does it, all others go home by one end of a turn. */
TEST(line, what_was_waited_for_is_there_for_all)
{
	static std::atomic<bool> is_there;
	struct line line = {};
	std::atomic<int> nr_over{ 0 }, nr_taken{ 0 };
	std::vector<std::thread> threads;
	auto look = [](const void *) { return is_there.load(); };

	ASSERT_TRUE(line_try(&line));
	for (size_t i = 0; i < 16; i++) {
		threads.emplace_back([&, i] {
			/* Every fourth wants the turn itself. */
			if (i % 4 == 0) {
				ASSERT_TRUE(line_wait(&line, LINE_PATIENCE_ANY));
				nr_taken++;
				while (nr_over < 12)
					usleep(100);
				line_end(&line);
				return;
			}
			EXPECT_EQ(line_stand(&line, LINE_PATIENCE_ANY, look, nullptr), LINE_OVER);
			nr_over++;
		});
		wait_for(&line, i + 1);
	}
	is_there = true;
	line_end(&line);
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(nr_over, 12);
	EXPECT_EQ(nr_taken, 4);
	EXPECT_EQ(line_stand(&line, LINE_PATIENCE_ANY, look, nullptr), LINE_OVER);
	EXPECT_EQ(line.turn.owner, 0u);
}

/* While threads wait, and while they go on, none of them looks again and again. */
TEST(line, nobody_polls)
{
#ifndef __x86_64__
	GTEST_SKIP() << "the calls are counted by registers of x86-64";
#endif
	if (SLUB_CONFIG_PLAIN_C)
		GTEST_SKIP() << "ThreadSanitizer's runtime polls, where threads begin and end";
	int said = in_child([] {
		static struct line line;
		struct sigaction action = {};
		std::vector<std::thread> threads;
		std::atomic<unsigned> nr_done{ 0 };

		action.sa_sigaction = on_call;
		action.sa_flags = SA_SIGINFO;
		sigaction(SIGSYS, &action, nullptr);
		if (!filter({ SYS_nanosleep, SYS_sched_yield, SYS_clock_nanosleep },
			    SECCOMP_RET_TRAP))
			return 77;
		line_try(&line);
		for (size_t i = 0; i < 64; i++)
			threads.emplace_back([&] {
				for (int n = 0; n < 50; n++) {
					if (!line_wait(&line, LINE_PATIENCE_ANY))
						_exit(3);
					nr_done++;
					line_end(&line);
				}
			});
		while (nr_waiting(&line) != 64)
			continue;
		line_end(&line);
		for (auto &thread : threads)
			thread.join();
		return nr_done != 64 * 50 ? 2 : nr_polls ? 1 : 0;
	});
	if (said == 77)
		GTEST_SKIP() << "no seccomp";
	EXPECT_EQ(said, 0) << "1: it was polled";
}

/* The same work where the kernel says no, in each way; and where it says so to some. */
TEST(line, a_kernel_that_refuses_futex)
{
	if (SLUB_CONFIG_PLAIN_C)
		GTEST_SKIP() << "ThreadSanitizer's runtime needs futex(2) itself";
	for (int err : { EPERM, ENOSYS, EACCES, EINVAL }) {
		int said = in_child([err] {
			static struct line line;
			const int rounds = 20;
			static std::atomic<int> nr_left{ 6 };
			int plain = 0;

			line_try(&line);
			for (int i = 0; i < 6; i++)
				std::thread([&plain, err] {
					/* Not what joins them, nor the harness. */
					if (!filter({ SYS_futex },
						    SECCOMP_RET_ERRNO | (unsigned)err))
						_exit(77);
					for (int n = 0; n < rounds; n++) {
						if (!line_wait(&line, LINE_PATIENCE_ANY))
							_exit(3);
						plain++;
						line_end(&line);
					}
					nr_left--;
					/* The C library's end of a thread needs a futex. */
					for (;;)
						pause();
				}).detach();
			while (nr_waiting(&line) != 6)
				usleep(100);
			line_end(&line);
			while (nr_left)
				usleep(100);
			return plain == 6 * rounds ? 0 : 2;
		});
		if (said == 77)
			GTEST_SKIP() << "no seccomp";
		EXPECT_EQ(said, 0) << "errno " << err;
	}
}

/* A wake-up that never comes: its thread looks by itself after a while. */
TEST(line, a_wake_up_that_is_swallowed)
{
	int said = in_child([] {
		static struct line line;
		std::atomic<bool> has{ false };

		line_try(&line);
		std::thread sleeper([&] {
			has = line_wait(&line, LINE_PATIENCE_ANY);
			line_end(&line);
		});
		while (nr_waiting(&line) != 1)
			usleep(100);
		usleep(20000);	/* asleep */
		if (!filter({ SYS_futex }, SECCOMP_RET_ERRNO | EPERM))
			return 77;
		line_end(&line);
		while (!has)
			usleep(1000);
		_exit(0);
		return 0;
	});
	if (said == 77)
		GTEST_SKIP() << "no seccomp";
	EXPECT_EQ(said, 0);
}

/* ---- handlers ---- */

struct line handled;
std::atomic<unsigned> nr_handled, nr_handler_had;
sem_t handler_is_in;

/* A handler that asks for what its thread waits for: LINE-3. */
void on_signal(int)
{
	nr_handled++;
	sem_post(&handler_is_in);
	if (line_wait(&handled, LINE_PATIENCE_ANY)) {
		nr_handler_had++;
		line_end(&handled);
	}
}

TEST(line, a_handler_stands_in_its_threads_place)
{
	std::atomic<bool> had{ false };
	std::atomic<bool> other_had{ false }, in_order{ false };

	sem_init(&handler_is_in, 0, 0);
	signal(SIGUSR1, on_signal);
	ASSERT_TRUE(line_try(&handled));
	std::thread waits([&] {
		had = line_wait(&handled, LINE_PATIENCE_ANY);
		in_order = !other_had;
		line_end(&handled);
	});
	wait_for(&handled, 1);
	std::thread behind([&] {
		ASSERT_TRUE(line_wait(&handled, LINE_PATIENCE_ANY));
		other_had = true;
		line_end(&handled);
	});
	wait_for(&handled, 2);
	pthread_kill(waits.native_handle(), SIGUSR1);
	while (sem_wait(&handler_is_in))
		continue;
	EXPECT_EQ(nr_waiting(&handled), 2u);
	line_end(&handled);
	waits.join();
	behind.join();
	EXPECT_TRUE(had);
	EXPECT_TRUE(in_order) << "the handler's end is not its thread's";
	EXPECT_EQ(nr_handler_had, 1u);
	EXPECT_EQ(handled.turn.owner, 0u);
}

/* A storm of them, at any instruction. */
TEST(line, handlers_at_any_instruction)
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;
	std::atomic<int> inside{ 0 }, wrong{ 0 };
	std::atomic<unsigned> nr{ 0 };

	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 4; i++)
		threads.emplace_back([&] {
			while (!stop) {
				if (!line_wait(&handled, LINE_PATIENCE_ANY))
					continue;
				wrong += inside++ != 0;
				nr++;
				inside--;
				line_end(&handled);
			}
		});
	for (int i = 0; i < 20000; i++)
		pthread_kill(threads[(size_t)i % 4].native_handle(), SIGUSR1);
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(wrong, 0);
	EXPECT_GT(nr, 0u);
	EXPECT_EQ(handled.turn.owner, 0u);
	EXPECT_EQ(nr_waiting(&handled), 0u);
}

/* ---- fork ---- */

TEST(line, of_another_thread_does_not_come_along)
{
	if (SLUB_CONFIG_PLAIN_C)
		GTEST_SKIP() << "ThreadSanitizer's runtime allows no thread in such a child";
	struct line mine = {}, other = {};

	ASSERT_TRUE(line_try(&mine));
	std::thread([&] { ASSERT_TRUE(line_try(&other)); }).join();
	std::thread waits([&] {
		ASSERT_TRUE(line_wait(&mine, LINE_PATIENCE_ANY));
		line_end(&mine);
	});
	wait_for(&mine, 1);
	EXPECT_EQ(in_child([&] {
		bool good = !line_is_left(&mine) && !line_try(&mine) && line_is_left(&other) &&
			    line_try(&other) && !line_is_left(&other) && !line_try(&other) &&
			    nr_waiting(&mine) == 0;

		/* Its line is empty: nobody is told, and others come. */
		line_end(&mine);
		good &= mine.turn.owner == 0;
		std::thread([&] {
			good &= line_wait(&mine, LINE_PATIENCE_ANY);
			line_end(&mine);
		}).join();
		return good && mine.turn.owner == 0 ? 0 : 1;
	}), 0);
	line_end(&mine);
	waits.join();
	EXPECT_EQ(mine.turn.owner, 0u);
}

struct line forked;
std::atomic<int> forked_status{ -1 };

void on_fork(int)
{
	pid_t child = fork();
	int status;

	if (!child) {
		turn_forks++;
		return;	/* the child goes on where its thread waited: LINE-4 */
	}
	waitpid(child, &status, 0);
	forked_status = status;
}

TEST(line, a_child_of_a_handler_goes_on_without_those_who_waited)
{
	pid_t parent = getpid();
	std::atomic<bool> had{ false };

	signal(SIGUSR2, on_fork);
	ASSERT_TRUE(line_try(&forked));
	std::thread before([&] {
		ASSERT_TRUE(line_wait(&forked, LINE_PATIENCE_ANY));
		line_end(&forked);
	});
	wait_for(&forked, 1);
	std::thread waits([&] {
		had = line_wait(&forked, LINE_PATIENCE_ANY);
		line_end(&forked);
		if (getpid() != parent)
			_exit(had && forked.turn.owner == 0 ? 0 : 1);
	});
	wait_for(&forked, 2);
	pthread_kill(waits.native_handle(), SIGUSR2);
	while (forked_status == -1)
		usleep(1000);
	EXPECT_EQ(forked_status, 0);
	EXPECT_EQ(nr_waiting(&forked), 2u) << "the parent's line is as it was";
	line_end(&forked);
	before.join();
	waits.join();
	EXPECT_TRUE(had);
}

} // namespace
