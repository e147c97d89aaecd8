/* SPDX-License-Identifier: MIT */
/* inspect/slabinfo.c: the table parses as /proc/slabinfo 2.1, and says what the census says. */
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>

#include "harness.h"
#include "lists.h"
#include "slub.h"

namespace {

struct row {
	size_t active, objects;
	unsigned int size, per_slab, pages;
	size_t active_slabs, slabs;
};

std::string read_all(const std::string &path)
{
	std::ifstream file(path);

	return { std::istreambuf_iterator<char>(file), {} };
}

/* Every line has to have the form of the kernel's. */
std::map<std::string, row> parse(const std::string &text)
{
	std::map<std::string, row> rows;
	std::istringstream lines(text);
	std::string line;

	std::getline(lines, line);
	EXPECT_EQ(line, "slabinfo - version: 2.1");
	std::getline(lines, line);
	EXPECT_EQ(line.rfind("# name            <active_objs> <num_objs> <objsize> <objperslab> "
			     "<pagesperslab> : tunables ", 0), 0u) << line;
	while (std::getline(lines, line)) {
		char name[64];
		unsigned int tunables[3], shared;
		struct row row;
		int end = 0;

		sscanf(line.c_str(), "%63s %zu %zu %u %u %u : tunables %u %u %u : "
		       "slabdata %zu %zu %u%n",
		       name, &row.active, &row.objects, &row.size, &row.per_slab, &row.pages,
		       &tunables[0], &tunables[1], &tunables[2], &row.active_slabs, &row.slabs,
		       &shared, &end);
		EXPECT_EQ((size_t)end, line.size()) << line;
		EXPECT_TRUE(rows.emplace(name, row).second) << name << " is there twice";
	}
	return rows;
}

std::string path_of(const char *name)
{
	return testing::TempDir() + "/" + name + std::to_string(getpid());
}

TEST(slabinfo, says_what_the_census_says)
{
	static void *mine[3000];
	std::string path = path_of("slabinfo");

	for (size_t i = 0; i < std::size(mine); i++)
		mine[i] = malloc(16 + i * 10);
	ASSERT_EQ(slabinfo_write(path.c_str()), 0);
	auto rows = parse(read_all(path));
	unlink(path.c_str());
	EXPECT_GT(rows.size(), 60u);
	unsigned int last = 0;
	for (auto &[name, row] : rows) {
		/* The largest request of the class. */
		struct slub_cache *cache = sizeclass_cache(row.size - CLASS_TAIL);

		EXPECT_EQ(name, cache->name);
		EXPECT_EQ(row.size, cache->size);
		EXPECT_EQ(row.per_slab, cache->objects);
		EXPECT_EQ(row.pages, 1u << cache->order);
		EXPECT_LE((size_t)row.per_slab * row.size, row.pages * PAGE_BYTES);
		EXPECT_EQ(row.objects, row.slabs * row.per_slab);
		EXPECT_LE(row.active, row.objects);
		EXPECT_EQ(row.active_slabs, row.slabs);
		last = std::max(last, row.size);
	}
	EXPECT_EQ(last, sizeclass_cache(16 + (std::size(mine) - 1) * 10)->size);
	for (void *ptr : mine)
		free(ptr);
}

TEST(slabinfo, counts_a_known_population)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	static void *mine[4000];
	std::string path = path_of("slabinfo");
	struct cache_census census;
	struct slub_cache *cache = sizeclass_cache(14000);

	for (void *&ptr : mine)
		ptr = malloc(14000);
	slab_shrink_all();
	census_cache(cache, &census);
	ASSERT_EQ(slabinfo_write(path.c_str()), 0);
	auto rows = parse(read_all(path));
	unlink(path.c_str());
	EXPECT_EQ(rows["malloc-14336"].active, census.active);
	EXPECT_GE(census.active, std::size(mine));
	EXPECT_LE(census.active, std::size(mine) + 10);
	EXPECT_EQ(rows["malloc-14336"].slabs, census.slabs);
	for (void *ptr : mine)
		free(ptr);
}

TEST(slabinfo, path_holds_the_process_number)
{
	std::string want = path_of("number-") + "-" + std::to_string(getpid()) + ".txt";
	std::string path = path_of("number-") + "-%p.txt";

	ASSERT_EQ(slabinfo_write(path.c_str()), 0);
	EXPECT_EQ(access(want.c_str(), R_OK), 0) << want;
	EXPECT_NE(access(path.c_str(), F_OK), 0);
	unlink(want.c_str());
}

TEST(slabinfo, replaces_what_was_there)
{
	std::string path = path_of("old");

	std::ofstream(path) << std::string(200000, 'x');
	ASSERT_EQ(slabinfo_write(path.c_str()), 0);
	parse(read_all(path));
	unlink(path.c_str());
}

TEST(slabinfo, unwritable_is_an_error)
{
	EXPECT_NE(slabinfo_write("/nonexistent/folder/file"), 0);
	EXPECT_NE(slabinfo_write("/dev/full"), 0);
	EXPECT_NE(slabinfo_write(""), 0);
}

TEST(slabinfo, stderr_by_name)
{
	std::string errors;

	EXPECT_EQ(harness::in_child([] {
		if (slabinfo_write("stderr"))
			_exit(1);
	}, &errors), 0);
	EXPECT_FALSE(parse(errors).empty());
}

/* A path too long for the buffer must not be cut to another file's name. */
TEST(slabinfo, very_long_path)
{
	std::string path = "/tmp/" + std::string(3000, 'z');

	EXPECT_NE(slabinfo_write(path.c_str()), 0);
}

TEST(slabinfo, with_a_cache_of_another_owner)
{
	static struct slub_cache other;
	std::string path = path_of("other");
	void *object, *small = malloc(16);

	ASSERT_EQ(cache_create(&other, "other", 1600), 0);
	object = cache_alloc(&other);
	ASSERT_EQ(slabinfo_write(path.c_str()), 0);
	auto rows = parse(read_all(path));
	unlink(path.c_str());
	EXPECT_EQ(rows.count("malloc-16"), 1u);
	EXPECT_EQ(rows.count("other"), 1u);
	cache_free(&other, object);
	free(small);
}

} /* namespace */
