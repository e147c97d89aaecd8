/* SPDX-License-Identifier: MIT */
/* Where a process's cgroup is, from the kernel's two lists. */
#include <gtest/gtest.h>

#include <string>

#include "slub.h"

extern "C" {
#include "features/pressure/cgroup_pressure.h"
}

namespace {

struct cgroup parse(std::string groups, std::string mounts)
{
	struct cgroup cgroup;

	cgroup_parse(&cgroup, groups.data(), mounts.data());
	return cgroup;
}

const char *const UNIFIED =
	"24 1 0:22 / /proc rw,nosuid - proc proc rw\n"
	"31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(Cgroup, Unified)
{
	struct cgroup found = parse("0::/system.slice/x.service\n", UNIFIED);

	EXPECT_STREQ(found.v2, "/sys/fs/cgroup/system.slice/x.service");
	EXPECT_STREQ(found.v1, "");
	EXPECT_STREQ(parse("0::/\n", UNIFIED).v2, "/sys/fs/cgroup");
}

TEST(Cgroup, InAContainerTheMountShowsAPart)
{
	const char *mounts = "31 24 0:27 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";

	EXPECT_STREQ(parse("0::/docker/abc\n", mounts).v2, "/sys/fs/cgroup");
	EXPECT_STREQ(parse("0::/docker/abc/job\n", mounts).v2, "/sys/fs/cgroup/job");
	/* Outside of what can be seen. */
	EXPECT_STREQ(parse("0::/../other\n", mounts).v2, "/sys/fs/cgroup");
	EXPECT_STREQ(parse("0::/docker/abcdef\n", mounts).v2, "/sys/fs/cgroup");
}

TEST(Cgroup, VersionOneAndBoth)
{
	const char *mounts =
		"32 31 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		"33 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		"34 31 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
	struct cgroup found = parse("5:memory:/user\n4:cpu,cpuacct:/elsewhere\n0::/u\n", mounts);

	EXPECT_STREQ(found.v1, "/sys/fs/cgroup/memory/user");
	EXPECT_STREQ(found.v2, "/sys/fs/cgroup/unified/u");
	found = parse("4:cpu:/elsewhere\n", mounts);
	EXPECT_STREQ(found.v1, "");
	EXPECT_STREQ(found.v2, "");
}

TEST(Cgroup, WhatTheKernelEscapes)
{
	struct {
		const char *written, *is;
	} const rows[] = {
		{ "/a\\040b", "/a b" }, { "/\\011\\012", "/\t\n" }, { "/\\134x", "/\\x" },
		{ "/a\\04", "/a\\04" }, { "/a\\", "/a\\" }, { "/a\\08z", "/a\\08z" },
		{ "/a\\x40", "/a\\x40" }, { "/a040", "/a040" }, { "/\\0401", "/ 1" },
		{ "/\\177\\040", "/\177 " }, { "/\\/040", "/\\/040" }, { "/\\04\\040", "/\\04 " },
	};

	for (auto &row : rows) {
		std::string mounts = std::string("31 24 0:27 / ") + row.written +
				     " rw - cgroup2 cgroup2 rw\n";

		EXPECT_STREQ(parse("0::/\n", mounts).v2, row.is) << row.written;
		/* And the part of the tree that is mounted. */
		mounts = std::string("31 24 0:27 ") + row.written + " /m rw - cgroup2 c rw\n";
		EXPECT_STREQ(parse(std::string("0::") + row.is + "/job\n", mounts).v2,
			     strchr(row.is, '\n') ? "/m" : "/m/job") << row.written;
	}
}

TEST(Cgroup, ListsAreOfWholeWords)
{
	for (auto [list, is_there] : { std::pair<const char *, bool>{ "memory", true },
				       { "rw,memory", true }, { "memory,rw", true },
				       { "rw,memory,cpu", true }, { "memoryx", false },
				       { "xmemory", false }, { "rw,memoryx,cpu", false },
				       { "memor", false }, { "rw", false } }) {
		std::string mounts = "33 31 0:29 / /m rw - cgroup cgroup " + std::string(list);

		EXPECT_STREQ(parse("5:memory:/user\n", mounts).v1, is_there ? "/m/user" : "")
			<< list;
		mounts = "33 31 0:29 / /m rw - cgroup cgroup rw,memory\n";
		EXPECT_STREQ(parse(std::string("5:") + list + ":/user\n", mounts).v1,
			     is_there ? "/m/user" : "") << list;
	}
	/* The first mount of a kind counts. */
	EXPECT_STREQ(parse("0::/\n", "1 1 0:1 / /one rw - cgroup2 x rw\n"
				     "1 1 0:1 / /two rw - cgroup2 x rw\n").v2, "/one");
	EXPECT_STREQ(parse("1:name:/x\n0::/y\n", "1 1 0:1 / /one rw - cgroup2 x rw\n").v2,
		     "/one/y");
	EXPECT_STREQ(parse("0:cpu:/y\n", "1 1 0:1 / /one rw - cgroup2 x rw\n").v2, "");
}

TEST(Cgroup, NonsenseIsNoGroup)
{
	for (const char *groups : { "", "\n\n", ":", "::", "0:", "0::", "x", "5:memory" }) {
		struct cgroup found = parse(groups, UNIFIED);

		EXPECT_STREQ(found.v1, "") << groups;
	}
	for (const char *mounts : { "", "-", "1 2 3", "1 2 3 / /x rw - cgroup2", "\n-\n" })
		EXPECT_STREQ(parse("0::/a\n", mounts).v2, "") << mounts;
	std::string longest = "0::/" + std::string(5000, 'x') + "\n";
	EXPECT_EQ(parse(longest, UNIFIED).v2,
		  ("/sys/fs/cgroup/" + std::string(5000, 'x')).substr(0, 511)) << "with its end";
}

} /* namespace */
