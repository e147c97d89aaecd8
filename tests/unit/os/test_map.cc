/* SPDX-License-Identifier: MIT */
/*
 * core/os/map.c and core/os/place.c: what is mapped where it is wanted, and whose addresses are
 * whose.
 */
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>

#include "harness.h"
#include "slub.h"

namespace {

const size_t bytes = 1 << 20;

class map_at : public testing::Test {
protected:
	void SetUp() override
	{
		start = (char *)os_place(bytes);
		ASSERT_NE(start, nullptr);
	}
	void TearDown() override
	{
		os_unreserve(start, bytes);
	}
	char *start;
};

TEST_F(map_at, what_is_free)
{
	ASSERT_EQ(os_map_at(start, bytes), 0);
	EXPECT_EQ(harness::first_nonzero(start, bytes), bytes);
	harness::fill(start, bytes, 1);
	EXPECT_TRUE(harness::intact(start, bytes, 1));
}

TEST_F(map_at, what_is_mapped_stays_as_it_is)
{
	ASSERT_EQ(os_map_at(start, bytes), 0);
	start[0] = 1;
	EXPECT_EQ(os_map_at(start, bytes), -EEXIST);
	EXPECT_EQ(start[0], 1);
}

/* Somebody wanted an address of the place for a mapping of his own: it is not to be taken. */
TEST_F(map_at, somebody_else_was_there)
{
	for (size_t at : { (size_t)0, bytes / 2, bytes - 65536 }) {
		char *theirs = (char *)mmap(start + at, 65536, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
					    -1, 0);

		ASSERT_EQ(theirs, start + at);
		theirs[5] = 5;
		EXPECT_EQ(os_map_at(start, bytes), -EEXIST) << at;
		EXPECT_EQ(theirs[5], 5);
		os_unreserve(start, bytes);
	}
}

/* In KiB, of /proc/self/status. */
size_t status(const std::string &name)
{
	std::ifstream file("/proc/self/status");
	std::string word;
	size_t value = 0;

	while (file >> word)
		if (word == name + ":")
			file >> value;
	return value;
}

/* Nothing of it is mapped, nor was for a moment: what limits and monitors look at stays. */
TEST(place, costs_no_address_space)
{
	if (harness::is_emulated())
		GTEST_SKIP() << "the emulator's address space is counted";
	size_t before = status("VmPeak");
	char *place = (char *)os_place(256ul << 30);

	ASSERT_NE(place, nullptr);
	EXPECT_EQ((uintptr_t)place % (2ul << 20), 0u);
	EXPECT_LT(status("VmPeak"), before + 65536);
	EXPECT_EQ(os_map_at(place + (256ul << 30) - bytes, bytes), 0);
	os_unreserve(place + (256ul << 30) - bytes, bytes);
}

TEST(place, under_a_limit_too)
{
	if (harness::is_emulated())
		GTEST_SKIP() << "an emulator heeds no limit";
	EXPECT_EQ(harness::in_child([] {
		const size_t now = status("VmSize") << 10;
		const struct rlimit limit = { now + 16 * bytes, now + 16 * bytes };

		os_places_forget();
		setrlimit(RLIMIT_AS, &limit);
		char *place = (char *)os_place(256ul << 30);

		if (!place || os_map_at(place, bytes))
			_exit(1);
		_exit(os_map_at(place + bytes, 32 * bytes) == -ENOMEM ? 0 : 2);
	}), 0);
}

/* For the test behind this one: where the first two places are, from where they might begin. */
TEST(place, DISABLED_say)
{
	char *first = (char *)os_place(bytes), *second = (char *)os_place(bytes);

	std::printf("places %zx %zx\n", (size_t)first, (size_t)(second - first));
}

static std::set<std::string> places_of_eight(const char *before)
{
	const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
	const std::string command = std::string(before) + own +
				    " --gtest_also_run_disabled_tests"
				    " --gtest_filter=place.DISABLED_say";
	std::set<std::string> all;

	for (int i = 0; i < 8; i++) {
		FILE *said = popen(command.c_str(), "r");
		char line[256];

		while (said && fgets(line, sizeof(line), said))
			if (!strncmp(line, "places ", 7))
				all.insert(strrchr(line, ' '));
		if (said)
			pclose(said);
	}
	return all;
}

/* Not as far apart as the addresses of libraries say. */
TEST(place, is_drawn_for_each_process)
{
	if (harness::is_emulated())
		GTEST_SKIP() << "an emulator has its places where it can";
	/* One in some 16,000 processes has its stack where it says that addresses do not vary. */
	EXPECT_GE(places_of_eight("").size(), 6u);
	if (system("setarch -R true 2>/dev/null"))
		GTEST_SKIP() << "addresses always vary here";
	EXPECT_EQ(places_of_eight("setarch -R ").size(), 1u) << "as a debugger wants it";
}

TEST(place, no_two_overlap)
{
	char *first = (char *)os_place(3 * bytes), *second = (char *)os_place(bytes);

	EXPECT_GE(second, first + 3 * bytes);
}

/* As of another copy of the library in the process, which looks for itself. */
TEST(place, what_is_used_is_passed_over)
{
	EXPECT_EQ(harness::in_child([] {
		os_places_forget();
		char *first = (char *)os_place(64 * bytes);

		if (os_map_at(first + 32 * bytes, bytes))
			_exit(1);
		os_places_forget();
		char *second = (char *)os_place(64 * bytes);

		_exit(second && (second >= first + 33 * bytes ||
				 second + 64 * bytes <= first + 32 * bytes) ? 0 : 2);
	}), 0);
}

} /* namespace */
