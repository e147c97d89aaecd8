/* SPDX-License-Identifier: MIT */
/* Promise: slub/control.h. */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <slub/slub.h>

static std::string get(const char *name)
{
	char value[600];
	int err = slub_option_get(name, value, sizeof(value));

	return err ? "error " + std::to_string(-err) : value;
}

TEST(Option, IsReadByName)
{
	EXPECT_EQ(get("guard_places"), "4096");
	EXPECT_EQ(get("fastpath"), "auto");
	EXPECT_EQ(get("DEEPBIND"), "drop");
	EXPECT_EQ(get("slabinfo"), "") << "a text that was not given";
	EXPECT_EQ(get("min_order"), "2") << "given in the environment of this test";
	EXPECT_EQ(get("debug"), "F,nothing-*");
}

TEST(Option, RefusesWhatCannotBe)
{
	char value[4] = "abc";

	EXPECT_EQ(slub_option_get("no_such", value, sizeof(value)), -ENOENT);
	EXPECT_EQ(slub_option_get("", value, sizeof(value)), -ENOENT);
	EXPECT_EQ(slub_option_get("fastpath", value, sizeof(value)), -ERANGE);
	EXPECT_STREQ(value, "abc");
	EXPECT_EQ(slub_option_get("fastpath", value, 0), -ERANGE);
	EXPECT_EQ(slub_option_get(nullptr, value, sizeof(value)), -EINVAL);
	EXPECT_EQ(slub_option_get("fastpath", nullptr, 9), -EINVAL);

	EXPECT_EQ(slub_option_set("no_such", "1"), -ENOENT);
	for (const char *name : { "fastpath", "reserve", "slabinfo", "guard", "mode", "debug" })
		EXPECT_EQ(slub_option_set(name, "auto"), -EPERM) << name;
	for (const char *bad : { "", "many", "5X", "-1", "64M ", "99999T", "auto" })
		EXPECT_EQ(slub_option_set("retain", bad), -EINVAL) << bad;
	EXPECT_EQ(slub_option_set("limit", "1"), -EINVAL) << "below the least";
	EXPECT_EQ(slub_option_set("on_error", "perhaps"), -EINVAL);
	EXPECT_EQ(slub_option_set(nullptr, "1"), -EINVAL);
	EXPECT_EQ(slub_option_set("retain", nullptr), -EINVAL);
	EXPECT_EQ(get("on_error"), "abort");
}

/* The list in slub/control.h. */
TEST(Option, ChangesWhereThePageSaysSo)
{
	const struct { const char *name, *value, *then; } all[] = {
		{ "retain", "3M", "3145728" }, { "limit", "256M", "268435456" },
		{ "limit", "0", "0" }, { "RECLAIM_RATE", "7", "7" }, { "verbose", "0", "0" },
		{ "on_error", "REPORT", "report" }, { "on_error", "abort", "abort" },
		{ "debug_abort", "1", "1" }, { "debug_abort", "0", "0" },
		{ "debug_fail", "9", "9" }, { "attach", "1", "1" }, { "attach", "auto", "auto" },
	};

	for (auto &[name, value, then] : all) {
		EXPECT_EQ(slub_option_set(name, value), 0) << name;
		EXPECT_EQ(get(name), then) << name;
	}
}

TEST(Option, LimitRefusesFromThenOn)
{
	size_t bytes = 64 << 20;
	void *block = malloc(bytes), *next;

	ASSERT_NE(block, nullptr);
	EXPECT_EQ(slub_option_set("limit", "32M"), 0);
	next = malloc(bytes);
	EXPECT_EQ(next, nullptr) << "what is in use stays, and nothing comes";
	EXPECT_EQ(*(volatile char *)block, 0);
	EXPECT_EQ(slub_option_set("limit", "0"), 0);
	next = malloc(bytes);
	EXPECT_NE(next, nullptr);
	free(next);
	free(block);
}

/* Memory in the process, in pages of 4 KiB. */
static long resident()
{
	long all = 0, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file && fscanf(file, "%ld %ld", &all, &pages) != 2)
		pages = 0;
	if (file)
		fclose(file);
	return pages;
}

TEST(Option, RetainGivesBackAtOnce)
{
	const size_t nr = 300, bytes = 40000;
	std::vector<void *> blocks(nr);
	long full, kept, given;

	ASSERT_EQ(slub_option_set("retain", "64M"), 0);
	for (void *&block : blocks) {
		block = malloc(bytes);
		memset(block, 1, bytes);
	}
	full = resident();
	for (void *block : blocks)
		free(block);
	kept = resident();
	ASSERT_EQ(slub_option_set("retain", "0"), 0);
	given = resident();
	EXPECT_LT(full - kept, 1000) << "64 MiB may stay";
	EXPECT_GT(kept - given, 1500) << "11.4 MiB went, in the call";
}

TEST(Option, ForkedChildMayChangeItToo)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0)
		_exit(slub_option_set("retain", "5M") || get("retain") != "5242880");
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(slub_option_set("retain", "1M"), 0);
	EXPECT_EQ(get("retain"), "1048576");
}
