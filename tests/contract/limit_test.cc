/* SPDX-License-Identifier: MIT */
/*
 * Promise: with little memory or address space the library starts and serves, refuses with ENOMEM
 * what it cannot give, loses nothing by a refusal, and gives back what an idle process has freed.
 */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "harness.h"

static const size_t mib = 1 << 20;

/* Takes blocks of n bytes in a chain until none comes; returns how many. */
static size_t exhaust(size_t n, void **chain)
{
	size_t count = 0;

	for (;; count++) {
		errno = 0;
		auto **block = static_cast<void **>(malloc(n));
		if (!block)
			break;
		*block = *chain;
		*chain = block;
	}
	if (errno != ENOMEM)
		_exit(61);
	return count;
}

static void release(void **chain)
{
	while (*chain) {
		void **block = static_cast<void **>(*chain);
		*chain = *block;
		free(block);
	}
}

/* The part that runs in a process started under the limit. */
static int serve_under_limit()
{
	for (size_t n : {64, 1000, 5000, 40000, 1 << 20}) {
		void *chain = nullptr;
		size_t first = exhaust(n, &chain);
		if (first * n < 16 * mib)
			return 62;
		release(&chain);
		if (exhaust(n, &chain) < first * 9 / 10)
			return 63;
		release(&chain);
		malloc_trim(0);
	}
	return 0;
}

static int status_under_limit(size_t bytes)
{
	return harness::in_child([bytes] {
		struct rlimit limit = {bytes, bytes};
		setrlimit(RLIMIT_AS, &limit);
		execl("/proc/self/exe", "limit_test", "--act", nullptr);
		_exit(64);
	}, nullptr, 60);
}

extern "C" int act_instead(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "--act") != 0)
		return -1;
	return serve_under_limit();
}

TEST(Limit, AddressSpaceOf64MiB)
{
	int status = status_under_limit(64 * mib);
	EXPECT_EQ(status, 0) << harness::describe_status(status)
			     << " (61: errno, 62: served less than 16 MiB, 63: lost memory)";
}

TEST(Limit, AddressSpaceOf400MiB)
{
	int status = status_under_limit(400 * mib);
	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

/* Without an allocation. */
static size_t address_bytes()
{
	char text[256] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (read(fd, text, sizeof(text) - 1) <= 0)
		_exit(60);
	close(fd);
	return strtoul(text, nullptr, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_address_space(size_t bytes)
{
	const struct rlimit limit = {bytes, RLIM_INFINITY};

	setrlimit(RLIMIT_AS, &limit);
}

/* Until none comes, or far more than there may be: a link in each block. */
static size_t exhaust_most(size_t n, size_t most, void **chain)
{
	size_t taken = 0;

	while (taken < most) {
		errno = 0;
		auto **block = static_cast<void **>(malloc(n));
		if (!block)
			break;
		*block = *chain;
		*chain = block;
		taken += n;
	}
	return taken;
}

static void *return_argument(void *argument)
{
	return argument;
}

/* What the rest of the program wants of its address space. */
static int rest_works(size_t mapping)
{
	pthread_t thread;
	void *map = mmap(nullptr, mapping, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	if (map == MAP_FAILED)
		return 71;
	munmap(map, mapping);
	if (pthread_create(&thread, nullptr, return_argument, nullptr))
		return 72;
	pthread_join(thread, nullptr);
	void *library = dlopen("libm.so.6", RTLD_NOW);
	if (!library)
		return 73;
	dlclose(library);
	return 0;
}

/* A limit that the process sets for itself, as a sandbox or a test of errors does. */
TEST(Limit, SetByTheRunningProcess)
{
	for (size_t n : {64ul, 1000ul, 5000ul, 40000ul, 1ul << 20, 5ul << 20}) {
		int status = harness::in_child([n] {
			const size_t limit = 200 * mib;
			void *chain = nullptr;

			limit_address_space(limit);
			if (int what = rest_works(32 * mib))
				_exit(what);
			size_t taken = exhaust_most(n, 2048 * mib, &chain);
			if (taken > limit || taken < limit / 4)
				_exit(74);
			if (errno != ENOMEM)
				_exit(75);
			if (address_bytes() > limit)
				_exit(76);
			/* With the heap as large as it may be. */
			if (int what = rest_works(16 * mib))
				_exit(what + 20);
			release(&chain);
			if (exhaust_most(n, 2048 * mib, &chain) < taken * 9 / 10)
				_exit(77);
			release(&chain);
			_exit(0);
		}, nullptr, 60);
		EXPECT_EQ(status, 0) << n << ": " << harness::describe_status(status)
				     << " (74: not the limit's, 77: lost memory, 71 to 73 and 91"
					" to 93: a mapping, a thread, a library)";
	}
}

/* Lower than what is used already: nothing comes, and everything goes. */
TEST(Limit, SetBelowWhatIsUsed)
{
	int status = harness::in_child([] {
		void *chain = nullptr, *more = nullptr;
		char *large = static_cast<char *>(malloc(20 * mib));

		if (exhaust_most(1000, 100 * mib, &chain) < 100 * mib || !large)
			_exit(80);
		memset(large, 7, 20 * mib);
		limit_address_space(50 * mib);
		/* Idle memory may serve, new memory is refused. */
		if (exhaust_most(3 * mib, 2048 * mib, &more) > 50 * mib || errno != ENOMEM)
			_exit(81);
		if (realloc(large, 500 * mib) || errno != ENOMEM || large[20 * mib - 1] != 7)
			_exit(82);
		release(&more);
		release(&chain);
		free(large);
		if (exhaust_most(1000, 90 * mib, &chain) < 90 * mib)
			_exit(83);
		release(&chain);
		malloc_trim(0);
		limit_address_space(RLIM_INFINITY);
		if (exhaust_most(1 << 20, 300 * mib, &chain) < 300 * mib)
			_exit(84);
		_exit(0);
	}, nullptr, 60);
	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

/* What monitors show, and what a limit counts, is what the program uses. */
TEST(Limit, NoAddressSpaceIsReserved)
{
	EXPECT_LT(address_bytes(), 400 * mib);
}

/* Waits, without calling the library, until little is resident; false after ten seconds. */
static bool falls_below(size_t bytes)
{
	for (int tenths = 0; tenths < 100; tenths++) {
		if (harness::resident_bytes() <= bytes)
			return true;
		usleep(100000);
	}
	return false;
}

TEST(Limit, AnIdleProcessGivesMemoryBack)
{
	int status = harness::in_child([] {
		size_t before = harness::resident_bytes();
		size_t held = 0;
		void *chain = nullptr;
		harness::Random random(1);

		while (held < 512 * mib) {
			size_t n = 16 + random.below(497);
			auto **block = static_cast<void **>(malloc(n));
			memset(block, 1, n);
			*block = chain;
			chain = block;
			held += n;
		}
		release(&chain);
		_exit(falls_below(before + 48 * mib) ? 0 : 65);
	}, nullptr, 60);
	EXPECT_EQ(status, 0) << harness::describe_status(status) << " (65: still resident)";
}
