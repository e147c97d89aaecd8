/* SPDX-License-Identifier: MIT */
/* core/os/cgroup.c: the lowest limit on the way up, read from a tree of files made for the test. */
#include <fstream>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "harness.h"
#include "slub.h"

namespace {

class cgroup : public testing::Test {
protected:
	void SetUp() override
	{
		char pattern[] = "/tmp/slub-cgroup-XXXXXX";

		root = mkdtemp(pattern);
		ASSERT_NE(root, "");
	}
	void TearDown() override
	{
		std::string command = "rm -r '" + root + "'";

		EXPECT_EQ(system(command.c_str()), 0);
	}
	void put(const std::string &name, const std::string &content)
	{
		for (size_t at = name.find('/'); at != std::string::npos;
		     at = name.find('/', at + 1))
			mkdir((root + "/" + name.substr(0, at)).c_str(), 0755);
		std::ofstream(root + "/" + name) << content;
	}
	size_t max()
	{
		return os_cgroup_memory_max((root + "/self").c_str(), (root + "/fs").c_str());
	}
	std::string root;
};

TEST_F(cgroup, version_2)
{
	put("self", "0::/a/b\n");
	put("fs/a/b/memory.max", "104857600\n");
	EXPECT_EQ(max(), 100ul << 20);
	put("fs/a/b/memory.max", "max\n");
	EXPECT_EQ(max(), 0u);
}

TEST_F(cgroup, the_lowest_on_the_way_up_counts)
{
	put("self", "0::/a/b/c\n");
	put("fs/a/b/c/memory.max", "max\n");
	put("fs/a/b/memory.max", "5000000\n");
	put("fs/a/memory.max", "4000000\n");
	put("fs/memory.max", "6000000\n");
	EXPECT_EQ(max(), 4000000u);
	put("memory.max", "1\n");
	EXPECT_EQ(max(), 4000000u) << "above the mount is nobody's";
}

TEST_F(cgroup, a_path_that_is_not_there_counts_as_far_as_it_is)
{
	put("self", "0::/docker/0123abc\n");
	put("fs/memory.max", "7000000\n");
	EXPECT_EQ(max(), 7000000u);
}

TEST_F(cgroup, version_1)
{
	put("self", "12:cpu,cpuacct:/x\n7:memory:/jobs/one\n1:name=systemd:/y\n0::/\n");
	put("fs/memory/jobs/one/memory.limit_in_bytes", "33554432\n");
	put("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
	EXPECT_EQ(max(), 32ul << 20);
	put("fs/memory/jobs/one/memory.limit_in_bytes", "9223372036854771712\n");
	EXPECT_EQ(max(), 0u) << "so large a number stands for none";
	put("self", "4:hugetlb,memory:/jobs\n");
	put("fs/memory/jobs/memory.limit_in_bytes", "1048576\n");
	EXPECT_EQ(max(), 1ul << 20);
	put("self", "4:nomemory:/jobs\n");
	EXPECT_EQ(max(), 0u);
}

TEST_F(cgroup, nonsense_is_no_limit)
{
	EXPECT_EQ(max(), 0u) << "no file";
	for (const char *content : { "", "\n", ":", "::", "0::", "0::\n", "no colons\n",
				     "4:memory\n", "\n\n0::/a" }) {
		put("self", content);
		EXPECT_EQ(max(), 0u) << content;
	}
	put("self", "0::/" + std::string(20000, 'x') + "\n");
	EXPECT_EQ(max(), 0u);
	put("self", "0::/a\n");
	put("fs/a/memory.max", "lots\n");
	EXPECT_EQ(max(), 0u);
}

} /* namespace */
