/* SPDX-License-Identifier: MIT */
/*
 * features/profile/profile.c, profile_file.c and profile_mail.c: with a mean of one byte each
 * allocation is a sample of itself, so the file is known to the byte.
 */
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/profile/profile.h"
#include "features/profile/profile_trail.h"
}

#include <slub/slub.h>

namespace {

struct site {
	unsigned long live_samples, all_samples, live, live_bytes, all, all_bytes;
	std::string stack;
};

struct text_file {
	std::vector<std::string> lines, comments;
	std::vector<site> sites;
	site head;
};

std::string read_all(const std::string &path)
{
	std::ifstream file(path, std::ios::binary);

	return { std::istreambuf_iterator<char>(file), {} };
}

/* Every line has its form, or the test fails. */
text_file parse(const std::string &text)
{
	static const std::regex sums("(\\d+): (\\d+) \\[(\\d+): (\\d+)\\] @((?: 0x[0-9a-f]+)*)");
	static const std::regex samples("# samples (\\d+) (\\d+)");
	static const std::regex first("heap profile: (\\d+): (\\d+) \\[(\\d+): (\\d+)\\] "
				      "@ heapprofile");
	std::istringstream lines(text);
	std::string line;
	text_file file;
	std::smatch found;
	site next = {};

	auto number = [&](int n) { return std::stoul(found[n]); };
	auto take = [&](site &to) {
		to.live = number(1), to.live_bytes = number(2);
		to.all = number(3), to.all_bytes = number(4);
	};
	std::getline(lines, line);
	EXPECT_TRUE(std::regex_match(line, found, first)) << line;
	take(file.head);
	while (std::getline(lines, line) && line != "MAPPED_LIBRARIES:") {
		if (std::regex_match(line, found, samples)) {
			next.live_samples = number(1), next.all_samples = number(2);
		} else if (line[0] == '#') {
			file.comments.push_back(line);
		} else {
			EXPECT_TRUE(std::regex_match(line, found, sums)) << line;
			take(next);
			next.stack = found[5];
			file.sites.push_back(next);
			next = {};
		}
	}
	while (std::getline(lines, line))
		file.lines.push_back(line);
	return file;
}

class profiled : public testing::Test {
protected:
	void SetUp() override
	{
		ASSERT_NE(mkdtemp(folder), nullptr);
		path = std::string(folder) + "/heap";
	}
	void TearDown() override
	{
		slub_profile_stop();
		unlink(path.c_str());
		rmdir(folder);
	}
	text_file written()
	{
		EXPECT_EQ(slub_profile_write(path.c_str()), 0);
		return parse(read_all(path));
	}
	/* The one with these numbers. */
	static const site *find(const text_file &file, unsigned long live, unsigned long all,
				unsigned long bytes)
	{
		for (const site &one : file.sites) {
			if (one.live_samples == live && one.all_samples == all &&
			    one.all_bytes == all * bytes)
				return &one;
		}
		return nullptr;
	}

	char folder[32] = "/tmp/slub-profile-XXXXXX";
	std::string path;
};

__attribute__((noinline)) void allocate(void **to, size_t nr, size_t bytes)
{
	for (size_t i = 0; i < nr; i++)
		to[i] = harness::opaque(malloc(bytes));
}

TEST_F(profiled, each_line)
{
	void *mine[50];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t before = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;

	ASSERT_EQ(slub_profile_start(1), 0);
	allocate(mine, 50, 1111);
	for (int i = 0; i < 20; i++)
		free(mine[i]);
	ASSERT_EQ(slub_profile_stop(), 0);
	text_file file = written();
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t after = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	const site *ours = find(file, 30, 50, 1111);
	ASSERT_NE(ours, nullptr) << read_all(path);
	EXPECT_EQ(ours->live, 30u);
	EXPECT_EQ(ours->live_bytes, 30u * 1111);
	EXPECT_EQ(ours->all, 50u);
	EXPECT_NE(ours->stack, "");
	std::vector<std::string> heads;
	for (const std::string &comment : file.comments)
		if (comment.find("# build-id ") && comment.find("# alive ") &&
		    comment.find("# trails "))
			heads.push_back(comment);
	ASSERT_GE(heads.size(), 6u);
	EXPECT_EQ(heads[0], "# slub-profile 1");
	EXPECT_EQ(heads[1], "# mean_bytes 1");
	EXPECT_EQ(heads[2], "# pid " + std::to_string(getpid()));
	uint64_t start_ns = 0, written_ns = 0;
	EXPECT_EQ(sscanf(heads[3].c_str(), "# start_ns %lu", &start_ns), 1);
	EXPECT_EQ(sscanf(heads[4].c_str(), "# written_ns %lu", &written_ns), 1);
	EXPECT_TRUE(before <= start_ns && start_ns <= written_ns && written_ns <= after);
	EXPECT_EQ(heads[5], "# lost 0");
	site sum = {};
	for (const site &one : file.sites) {
		sum.live += one.live, sum.live_bytes += one.live_bytes;
		sum.all += one.all, sum.all_bytes += one.all_bytes;
	}
	EXPECT_EQ(file.head.live, sum.live);
	EXPECT_EQ(file.head.live_bytes, sum.live_bytes);
	EXPECT_EQ(file.head.all, sum.all);
	EXPECT_EQ(file.head.all_bytes, sum.all_bytes);
	EXPECT_GT(sum.all, sum.live);
	std::string maps = read_all("/proc/self/maps");
	size_t known = 0;
	for (const std::string &line : file.lines)
		known += maps.find(line) != maps.npos;
	EXPECT_GT(file.lines.size(), 10u);
	EXPECT_GE(known + 4, file.lines.size()) << "a mapping or two may have come since";
	for (int i = 20; i < 50; i++)
		free(mine[i]);
}

template <int N> __attribute__((noinline)) void *from_site()
{
	void *block = harness::opaque(malloc(2000 + N));

	/* No tail call: each has a frame of its own. */
	return harness::opaque(block);
}

template <int N> void from_sites(std::vector<void *> &to)
{
	to.push_back(from_site<N>());
	if constexpr (N > 0)
		from_sites<N - 1>(to);
}

/* More than one buffer of text, whatever the length of a line. */
TEST_F(profiled, many_sites)
{
	std::vector<void *> blocks;

	blocks.reserve(300);
	ASSERT_EQ(slub_profile_start(1), 0);
	from_sites<250>(blocks);
	ASSERT_EQ(slub_profile_stop(), 0);
	text_file file = written();
	EXPECT_GE(file.sites.size(), 251u);
	for (unsigned long n = 0; n <= 250; n++)
		EXPECT_NE(find(file, 1, 1, 2000 + n), nullptr) << n;
	for (void *block : blocks)
		free(block);
}

TEST_F(profiled, begins_anew)
{
	void *mine[10];

	ASSERT_EQ(slub_profile_start(1), 0);
	allocate(mine, 5, 3333);
	ASSERT_EQ(slub_profile_start(1), 0);
	allocate(mine + 5, 5, 3334);
	ASSERT_EQ(slub_profile_stop(), 0);
	text_file file = written();
	EXPECT_EQ(find(file, 5, 5, 3333), nullptr);
	EXPECT_NE(find(file, 5, 5, 3334), nullptr);
	free(mine[9]);
	void *after[3];
	allocate(after, 3, 3335);
	file = written();
	EXPECT_NE(find(file, 4, 5, 3334), nullptr) << "frees count when it is off, too";
	EXPECT_EQ(find(file, 3, 3, 3335), nullptr) << "allocations do not";
	for (int i = 0; i < 9; i++)
		free(mine[i]);
	for (void *block : after)
		free(block);
}

TEST_F(profiled, refuses_what_cannot_be)
{
	EXPECT_EQ(slub_profile_start(SLUB_PROFILE_BYTES_MAX + 1), -EINVAL);
	EXPECT_EQ(slub_profile_start(SLUB_PROFILE_BYTES_MAX), 0);
	EXPECT_TRUE(profile_has_begun());
	EXPECT_EQ(slub_profile_write(nullptr), -EINVAL);
	EXPECT_EQ(slub_profile_write((path + "/below").c_str()), -ENOENT);
	EXPECT_EQ(slub_profile_write("/dev/full"), -ENOSPC);
	EXPECT_EQ(slub_profile_start(0), 0);
	EXPECT_EQ(written().comments.at(1), "# mean_bytes " +
		  std::to_string(SLUB_PROFILE_BYTES_DEFAULT));
}

TEST_F(profiled, leaves_nothing_open)
{
	int before = dup(0), after;

	close(before);
	ASSERT_EQ(slub_profile_start(1), 0);
	EXPECT_EQ(slub_profile_write(path.c_str()), 0);
	EXPECT_EQ(slub_profile_write("/dev/full"), -ENOSPC);
	after = dup(0);
	close(after);
	EXPECT_EQ(before, after) << "the lowest number that is free";
}

/* ---- by mail ---- */

std::string mailed(long fd)
{
	return read_all("/proc/self/fd/" + std::to_string(fd));
}

TEST_F(profiled, by_mail)
{
	slub_profile_stop();
	for (const char *text : { "start 0", "start x", "start 1x", "start ", "start", "begin 1",
				  "", "stopp", "start 9999999999999999" })
		EXPECT_EQ(profile_by_mail(text), -EINVAL) << text;
	EXPECT_FALSE(sample_is_on(SAMPLE_PROFILE));
	EXPECT_EQ(profile_by_mail("start 1"), 0);
	EXPECT_TRUE(sample_is_on(SAMPLE_PROFILE));
	EXPECT_EQ(profile_by_mail("start 7"), 1) << "it is on";
	void *mine[7];
	allocate(mine, 7, 4444);
	EXPECT_EQ(profile_by_mail("stop"), 0);
	EXPECT_FALSE(sample_is_on(SAMPLE_PROFILE));
	EXPECT_EQ(profile_by_mail("stop"), 0);
	long fd = profile_by_mail("write");
	ASSERT_GE(fd, 0);
	EXPECT_EQ(fcntl((int)fd, F_GETFD), FD_CLOEXEC);
	text_file file = parse(mailed(fd));
	EXPECT_NE(find(file, 7, 7, 4444), nullptr);
	EXPECT_EQ(file.comments.at(1), "# mean_bytes 1");
	for (const std::string &comment : file.comments)
		EXPECT_EQ(comment.find("# build-id"), comment.npos) << "no modules";
	for (void *block : mine)
		free(block);
	EXPECT_EQ(profile_by_mail("close"), 0);
	EXPECT_EQ(fcntl((int)fd, F_GETFD), -1);
}

TEST_F(profiled, one_file_at_a_time)
{
	struct stat first, other;
	int other_fd;

	EXPECT_EQ(profile_by_mail("start 1"), 0);
	long fd = profile_by_mail("write");
	ASSERT_GE(fd, 0);
	ASSERT_EQ(fstat((int)fd, &first), 0);
	EXPECT_EQ(profile_by_mail("write"), fd) << "the number of the one that was closed";
	ASSERT_EQ(fstat((int)fd, &other), 0);
	EXPECT_NE(first.st_ino, other.st_ino);
	/* The program closes it, and opens another under its number. */
	close((int)fd);
	other_fd = open("/dev/null", O_RDONLY);
	ASSERT_EQ(other_fd, fd);
	EXPECT_EQ(profile_by_mail("close"), 0);
	EXPECT_NE(fcntl(other_fd, F_GETFD), -1) << "it is the program's";
	EXPECT_EQ(profile_by_mail("close"), 0);
	close(other_fd);
}

TEST_F(profiled, trails_by_mail)
{
	long ring = profile_by_mail("trails");

	if (!ring)
		GTEST_SKIP() << "no registers are known of this CPU";
	EXPECT_EQ(ring, (long)&trail_ring);
	EXPECT_TRUE(trails_are_on());
	ASSERT_EQ(slub_profile_start(1), 0);
	void *mine[3];
	allocate(mine, 3, 5555);
	ASSERT_EQ(slub_profile_stop(), 0);
	std::string text = (slub_profile_write(path.c_str()), read_all(path));
	uint64_t last = trail_ring.drawn;
	for (uint64_t n = last - 2; n <= last; n++)
		EXPECT_NE(text.find("\n# alive " + std::to_string(n) + "\n"), text.npos);
	EXPECT_NE(text.find("\n# trails " + std::to_string(last) + "\n"), text.npos);
	EXPECT_NE(text.find("\n# stack "), text.npos);
	EXPECT_EQ(profile_by_mail("trails off"), 0);
	EXPECT_FALSE(trails_are_on());
	for (void *block : mine)
		free(block);
}

/* ---- tracers ---- */

TEST_F(profiled, is_on_while_a_tracer_looks)
{
	void *block;

	slub_profile_stop();
	for (unsigned short *probe : { &sample_switch.probe_alloc, &sample_switch.probe_free }) {
		ASSERT_FALSE(sample_is_on(SAMPLE_PROFILE));
		__atomic_fetch_add(probe, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < 100000 && !sample_is_on(SAMPLE_PROFILE); i++) {
			block = harness::opaque(malloc(100000));
			free(block);
		}
		EXPECT_TRUE(sample_is_on(SAMPLE_PROFILE));
		__atomic_fetch_sub(probe, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < 100000 && sample_is_on(SAMPLE_PROFILE); i++) {
			block = harness::opaque(malloc(100000));
			free(block);
		}
		EXPECT_FALSE(sample_is_on(SAMPLE_PROFILE));
	}
}

/* A profile of its own is none of theirs. */
TEST_F(profiled, stays_on_when_tracers_have_gone)
{
	slub_profile_stop();
	__atomic_fetch_add(&sample_switch.probe_alloc, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 100000 && !sample_is_on(SAMPLE_PROFILE); i++)
		free(harness::opaque(malloc(100000)));
	__atomic_fetch_sub(&sample_switch.probe_alloc, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 100000 && sample_is_on(SAMPLE_PROFILE); i++)
		free(harness::opaque(malloc(100000)));
	ASSERT_FALSE(sample_is_on(SAMPLE_PROFILE));
	ASSERT_EQ(profile_by_mail("start 1"), 0);
	for (int i = 0; i < 1000; i++)
		free(harness::opaque(malloc(100000)));
	EXPECT_TRUE(sample_is_on(SAMPLE_PROFILE));
}

} /* namespace */
