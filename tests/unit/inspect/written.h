/* SPDX-License-Identifier: MIT */
/* A statistics file of the process, mapped, for the tests of what is in it. */
#ifndef SLUB_TESTS_WRITTEN_H
#define SLUB_TESTS_WRITTEN_H

#include <cerrno>
#include <climits>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "lists.h"
#include "slub.h"
#include "start.h"

#include <slub/slub.h>

namespace {

inline uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

inline std::string read_all(const char *path)
{
	std::ifstream file(path, std::ios::binary);

	return { std::istreambuf_iterator<char>(file), {} };
}

/* "slub[12]: a line" without the number. */
inline std::string without_pid(const std::string &lines)
{
	return std::regex_replace(lines, std::regex("slub\\[\\d+\\]: "), "slub: ");
}

/* Field 22 of /proc/PID/stat, counted from the end of the name. */
inline uint64_t began(pid_t pid)
{
	std::string text = read_all(("/proc/" + std::to_string(pid) + "/stat").c_str());
	std::istringstream rest(text.substr(text.rfind(')') + 2));
	std::string word;

	for (int field = 3; field <= 22; field++)
		rest >> word;
	return std::stoull(word);
}

class written : public testing::Test {
protected:
	void SetUp() override
	{
		ASSERT_NE(mkdtemp(folder), nullptr);
		path = std::string(folder) + "/file";
	}
	void TearDown() override
	{
		unlink(path.c_str());
		rmdir(folder);
	}
	/* The file of this process. */
	void open_file()
	{
		start::option("STATS_FILE=" + path);
		stats_file_open();
		map();
	}
	void map()
	{
		int fd = open(path.c_str(), O_RDONLY);

		ASSERT_GE(fd, 0);
		ASSERT_EQ(fstat(fd, &status), 0);
		file = (struct slub_stats_head *)mmap(nullptr, (size_t)status.st_size, PROT_READ,
						      MAP_SHARED, fd, 0);
		close(fd);
		ASSERT_NE((void *)file, MAP_FAILED);
	}
	const struct slub_stats_cache *record(size_t number)
	{
		return (const struct slub_stats_cache *)((const char *)file +
			file->records_offset + number * file->record_bytes);
	}
	const struct slub_stats_cache *record_of(const struct slub_cache *cache)
	{
		return record(entry_number(cache->slot));
	}
	/* Until the heap has been counted once more. */
	void count()
	{
		uint64_t before = file->census_ns;

		for (int i = 0; i < 3000 && *(volatile uint64_t *)&file->census_ns == before; i++) {
			usleep(2000);
			stats_file_update(nullptr);
		}
		ASSERT_NE(file->census_ns, before);
	}

	char folder[32] = "/tmp/slub-written-XXXXXX";
	std::string path;
	struct stat status = {};
	const struct slub_stats_head *file = nullptr;
};

} /* namespace */

#endif
