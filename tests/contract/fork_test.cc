/* SPDX-License-Identifier: MIT */
/*
 * Promise: a process may fork at any time, from any thread and out of a signal handler; the child
 * allocates and frees at once, and the parent's blocks are whole in both.
 */
#include <atomic>
#include <csignal>
#include <cstdio>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"

extern char **environ;

/* Threads that allocate, check and free until told to stop. */
class BusyThreads {
public:
	explicit BusyThreads(int count)
	{
		for (int i = 0; i < count; i++)
			threads.emplace_back([this, i] { work(i); });
	}
	~BusyThreads() { stop(); }
	uint64_t stop()
	{
		stopping = true;
		for (auto &thread : threads)
			if (thread.joinable())
				thread.join();
		return damaged;
	}

private:
	std::vector<std::thread> threads;
	std::atomic<bool> stopping{false};
	std::atomic<uint64_t> damaged{0};

	void work(uint64_t seed)
	{
		struct Live {
			void *block;
			size_t bytes;
		} live[64] = {};
		harness::Random random(seed);

		for (uint64_t step = 0; !stopping; step++) {
			Live &one = live[random.below(64)];
			if (one.block && !harness::intact(one.block, one.bytes, seed))
				damaged++;
			free(one.block);
			one.bytes = 1 + random.below(size_t{1} << random.below(17));
			one.block = malloc(one.bytes);
			if (one.block)
				harness::fill(one.block, one.bytes, seed);
			else
				damaged++;
		}
		for (Live &one : live)
			free(one.block);
	}
};

/* What a child does first: every class, some large blocks, a trim.  0, or what went wrong. */
static int allocate_everywhere()
{
	void *blocks[400];
	size_t sizes[400];
	int count = 0;

	for (size_t n = 1; n < 100000 && count < 400; n += n / 16 + 1, count++) {
		sizes[count] = n;
		blocks[count] = malloc(n);
		if (!blocks[count])
			return 71;
		harness::fill(blocks[count], n, n);
	}
	for (int i = 0; i < count; i++) {
		if (!harness::intact(blocks[i], sizes[i], sizes[i]))
			return 72;
		free(blocks[i]);
	}
	void *large = malloc(1 << 20);
	if (!large)
		return 73;
	harness::fill(large, 1 << 20, 1);
	large = realloc(large, 3 << 20);
	if (!large || !harness::intact(large, 1 << 20, 1))
		return 74;
	free(large);
	malloc_trim(0);
	return 0;
}

static void expect_clean(int pid, const char *what)
{
	ASSERT_GT(pid, 0) << what;
	int status = harness::wait_for(pid);
	EXPECT_EQ(status, 0) << what << ": " << harness::describe_status(status)
			     << " (71..79: see this file; signal 14: it hung)";
}

static int fork_and_allocate()
{
	int pid = fork();

	if (pid == 0) {
		alarm(20);
		_exit(allocate_everywhere());
	}
	return pid;
}

TEST(Fork, ChildAllocatesAtOnce)
{
	for (int i = 0; i < 20; i++)
		expect_clean(fork_and_allocate(), "child");
}

TEST(Fork, OutOfEightBusyThreads)
{
	BusyThreads busy(8);

	for (int i = 0; i < 200 && !testing::Test::HasFailure(); i++)
		expect_clean(fork_and_allocate(), "child of busy threads");
	EXPECT_EQ(busy.stop(), 0u) << "blocks damaged in the parent";
}

TEST(Fork, FromSeveralThreadsAtOnce)
{
	BusyThreads busy(2);
	std::vector<std::thread> forkers;
	std::atomic<int> failures{0};

	for (int i = 0; i < 4; i++)
		forkers.emplace_back([&failures] {
			for (int j = 0; j < 25; j++)
				failures += harness::wait_for(fork_and_allocate()) != 0;
		});
	for (auto &forker : forkers)
		forker.join();
	EXPECT_EQ(failures, 0);
	EXPECT_EQ(busy.stop(), 0u);
}

/* What the parent's threads held is reachable and whole in the child, and can be freed there. */
TEST(Fork, ChildFreesTheParentsBlocks)
{
	std::vector<void *> blocks;
	std::thread([&blocks] {
		for (size_t n = 1; n < 200000; n += n / 32 + 1) {
			blocks.push_back(malloc(n));
			harness::fill(blocks.back(), n, n);
		}
	}).join();
	auto check_and_free = [&blocks] {
		size_t i = 0;
		for (size_t n = 1; n < 200000; n += n / 32 + 1, i++) {
			if (!harness::intact(blocks[i], n, n))
				return 75;
			free(blocks[i]);
		}
		return allocate_everywhere();
	};

	int pid = fork();
	if (pid == 0) {
		alarm(20);
		_exit(check_and_free());
	}
	expect_clean(pid, "child");
	EXPECT_EQ(check_and_free(), 0) << "in the parent";
}

TEST(Fork, ChildMakesThreadsAndForksAgain)
{
	BusyThreads busy(4);

	for (int i = 0; i < 10; i++) {
		int pid = fork();
		if (pid == 0) {
			alarm(20);
			std::vector<std::thread> threads;
			std::atomic<int> failures{0};
			for (int j = 0; j < 4; j++)
				threads.emplace_back([&failures] {
					failures += allocate_everywhere() != 0;
				});
			int grandchild = fork_and_allocate();
			failures += harness::wait_for(grandchild) != 0;
			for (auto &thread : threads)
				thread.join();
			_exit(failures != 0 ? 76 : 0);
		}
		expect_clean(pid, "child with threads");
	}
	EXPECT_EQ(busy.stop(), 0u);
}

/*
 * The child stays in the handler, which may have interrupted the library at work: so a refusal is
 * right as well, but no damage and no hang.  0, or what went wrong.
 */
static int allocate_in_handler()
{
	for (size_t n = 1; n < 300000; n = n * 3 / 2 + 1) {
		void *block = malloc(n), *other = calloc(1, n);
		if (n <= 1024 && (!block || !other))
			return 77;
		if (block)
			harness::fill(block, n, n);
		if (other && harness::first_nonzero(other, n) != n)
			return 78;
		if (block && !harness::intact(block, n, n))
			return 79;
		free(block);
		free(other);
	}
	malloc_trim(0);
	return 0;
}

/* The handler's children are waited for by the test: a handler must not wait. */
static volatile sig_atomic_t forked;
static int children[400];

static void fork_in_handler(int)
{
	if (forked >= 100)
		return;
	int pid = fork();
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		signal(SIGALRM, SIG_DFL);
		sigprocmask(SIG_SETMASK, &none, nullptr);
		alarm(20);
		_exit(allocate_in_handler());
	}
	children[forked] = pid;
	forked = forked + 1;
}

TEST(Fork, FromASignalHandlerThatInterruptedMalloc)
{
	struct sigaction action = {};
	struct itimerval every = {{0, 2000}, {0, 2000}}, never = {};

	action.sa_handler = fork_in_handler;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, nullptr);
	setitimer(ITIMER_REAL, &every, nullptr);
	while (forked < 100) {
		for (size_t n : {16, 500, 9000, 100000}) {
			char *block = static_cast<char *>(malloc(n));
			block[0] = 1;
			free(block);
		}
	}
	setitimer(ITIMER_REAL, &never, nullptr);
	signal(SIGALRM, SIG_DFL);
	for (int i = 0; i < forked; i++)
		expect_clean(children[i], "child of the handler");
}

TEST(Fork, SpawnedAndPopenedOutOfBusyThreads)
{
	BusyThreads busy(4);

	for (int i = 0; i < 30; i++) {
		char *argv[] = {const_cast<char *>("true"), nullptr};
		pid_t pid = -1;
		ASSERT_EQ(posix_spawnp(&pid, "true", nullptr, nullptr, argv, environ), 0);
		expect_clean(pid, "posix_spawn");
		FILE *stream = popen("echo 42", "r");
		int answer = 0;
		ASSERT_NE(stream, nullptr);
		EXPECT_EQ(fscanf(stream, "%d", &answer), 1);
		EXPECT_EQ(answer, 42);
		EXPECT_EQ(pclose(stream), 0);
	}
	EXPECT_EQ(busy.stop(), 0u);
}

/* A vfork child runs on its parent's memory and TLS; what it frees is the parent's. */
TEST(Fork, VforkChildAllocates)
{
	BusyThreads busy(4);

	for (volatile int i = 0; i < 100; i = i + 1) {
		void *volatile given = malloc(300);
		harness::fill(given, 300, 3);
		volatile int failed = 0;
		pid_t pid = vfork();
		if (pid == 0) {
			alarm(20);
			failed = allocate_everywhere();
			free(given);
			_exit(failed);
		}
		expect_clean(pid, "vfork child");
	}
	EXPECT_EQ(allocate_everywhere(), 0) << "in the parent afterwards";
	EXPECT_EQ(busy.stop(), 0u);
}

static int clone_body(void *)
{
	alarm(20);
	return allocate_everywhere();
}

/* As vfork, but with a stack of its own, as sandboxes and posix_spawn make them. */
TEST(Fork, CloneWithSharedMemoryAllocates)
{
	BusyThreads busy(2);
	const size_t stack_bytes = 1 << 20;
	char *stack = static_cast<char *>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	for (int i = 0; i < 100; i++) {
		int flags = CLONE_VM | (i % 2 ? CLONE_VFORK : 0) | SIGCHLD;
		expect_clean(clone(clone_body, stack + stack_bytes, flags, nullptr), "clone child");
	}
	for (int i = 0; i < 20; i++)
		expect_clean(clone(clone_body, stack + stack_bytes, SIGCHLD, nullptr),
			     "clone child with memory of its own");
	EXPECT_EQ(allocate_everywhere(), 0) << "in the parent afterwards";
	EXPECT_EQ(busy.stop(), 0u);
	munmap(stack, stack_bytes);
}

TEST(Fork, CloneWithoutAFunctionOrAStackIsRefused)
{
	alignas(64) static char stack[65536];

	for (int flags : { SIGCHLD, CLONE_VM | SIGCHLD, CLONE_VM | CLONE_SETTLS | SIGCHLD }) {
		errno = 0;
		EXPECT_EQ(clone(nullptr, stack + sizeof(stack), flags, nullptr), -1);
		EXPECT_EQ(errno, EINVAL);
		errno = 0;
		EXPECT_EQ(clone(clone_body, nullptr, flags, nullptr), -1);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_EQ(allocate_everywhere(), 0);
}

/* Around the C library's fork, so none of its handlers run: the child must cope as well. */
TEST(Fork, RawSystemCall)
{
	for (int i = 0; i < 20; i++) {
#if defined(SYS_fork)
		int pid = static_cast<int>(syscall(SYS_fork));
#else
		int pid = static_cast<int>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
#endif
		if (pid == 0) {
			alarm(20);
			_exit(allocate_everywhere());
		}
		expect_clean(pid, "child of the raw system call");
	}
}
