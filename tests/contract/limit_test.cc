/* SPDX-License-Identifier: MIT */
/*
 * Promise: with little memory or address space the library starts and serves, refuses with ENOMEM
 * what it cannot give, loses nothing by a refusal, and gives back what an idle process has freed.
 */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
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
