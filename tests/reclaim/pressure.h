/* SPDX-License-Identifier: MIT */
/* What tests of memory pressure share. */
#ifndef SLUB_TESTS_RECLAIM_PRESSURE_H
#define SLUB_TESTS_RECLAIM_PRESSURE_H

#include <slub/pressure.h>
#include <slub/shrinker.h>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

namespace {

/* Counts how often it is asked, and can make that last. */
struct Witness : slub_shrinker {
	std::atomic<int> counts{0}, priority{-1};
	int sleep_us = 0;

	Witness() : slub_shrinker()
	{
		name = "witness";
		count = [](slub_shrinker *s, slub_shrink_control *c) noexcept -> size_t {
			auto *witness = static_cast<Witness *>(s);

			witness->counts++;
			witness->priority = c->priority;
			usleep((useconds_t)witness->sleep_us);
			return 0;
		};
		scan = [](slub_shrinker *, slub_shrink_control *) noexcept -> size_t {
			return SLUB_SHRINK_STOP;
		};
		slub_shrinker_create(this);
	}
	~Witness() { slub_shrinker_destroy(this); }
};

inline bool is_readable(int fd, int timeout_ms)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, timeout_ms) == 1;
}

inline struct slub_pressure_stats stats()
{
	struct slub_pressure_stats stats;

	slub_pressure_stats(&stats);
	return stats;
}

/* A directory that goes with everything in it. */
struct Folder {
	char path[32] = "/tmp/slub-pressure-XXXXXX";

	Folder() { EXPECT_NE(mkdtemp(path), nullptr); }
	~Folder()
	{
		unlink(file("watch").c_str());
		rmdir(path);
	}
	std::string file(const char *name) { return std::string(path) + "/" + name; }
};

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
			_exit(1); \
		} \
	} while (0)

/* Each in a child: sources are opened once in the life of a process. */
inline void expect_good(const std::function<void()> &body)
{
	std::string errors;

	EXPECT_EQ(harness::in_child([&] { body(); _exit(0); }, &errors, 60), 0) << errors;
}

} /* namespace */

#endif
