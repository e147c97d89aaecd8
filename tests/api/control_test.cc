/* SPDX-License-Identifier: MIT */
/* Promise: slub/control.h. */
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <gtest/gtest.h>
#include <malloc.h>
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
	EXPECT_EQ(get("debug_leaks"), "") << "a text that was not given";
	EXPECT_EQ(get("test_min_order"), "2") << "given in the environment of this test";
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
	for (const char *name : { "fastpath", "address_space", "debug_leaks", "guard", "mode",
			"debug" })
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
		{ "debug_fail", "9", "9" }, { "attach", "1", "1" }, { "attach", "auto", "auto" },
	};

	for (auto &[name, value, then] : all) {
		EXPECT_EQ(slub_option_set(name, value), 0) << name;
		EXPECT_EQ(get(name), then) << name;
	}
}

TEST(Node, GivesBackWhatLiesFree)
{
	ASSERT_EQ(slub_option_set("retain", "64M"), 0);
	for (int node : { 0, SLUB_NODE_ANY }) {
		std::vector<void *> blocks(64);
		struct slub_value idle;

		for (void *&block : blocks)
			memset(block = malloc(100000), 1, 100000);
		for (void *block : blocks)
			free(block);
		ASSERT_EQ(slub_value_read("heap.idle_bytes", &idle), 0);
		EXPECT_GE(idle.number, 64 * 100000u);
		EXPECT_GE(slub_node_shrink(node), 64 * 100000);
		ASSERT_EQ(slub_value_read("heap.idle_bytes", &idle), 0);
		EXPECT_EQ(idle.number, 0u);
	}
	ASSERT_EQ(slub_option_set("retain", "3M"), 0);
}

TEST(Node, RefusesOneThatThereIsNot)
{
	for (int node : { 64, -2, INT_MAX, INT_MIN })
		EXPECT_EQ(slub_node_shrink(node), -EINVAL) << node;
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

using Values = std::map<std::string, slub_value>;

static int note(const char *name, const struct slub_value *value, void *arg)
{
	auto &values = *(Values *)arg;

	EXPECT_EQ(values.count(name), 0u) << "twice: " << name;
	values[name] = *value;
	return 0;
}

static Values all_values()
{
	Values values;

	EXPECT_EQ(slub_value_for_each(note, &values), 0);
	return values;
}

static uint64_t number(const std::string &name)
{
	struct slub_value value = { ~0ull, 9, 9 };

	EXPECT_EQ(slub_value_read(name.c_str(), &value), 0) << name;
	return value.number;
}

TEST(Value, EachThatIsListedCanBeRead)
{
	Values values = all_values();

	EXPECT_GT(values.size(), 1000u);
	for (auto &[name, listed] : values) {
		struct slub_value value = { ~0ull, 9, 9 };

		ASSERT_EQ(slub_value_read(name.c_str(), &value), 0) << name;
		EXPECT_EQ(value.kind, listed.kind) << name;
		EXPECT_LE(value.kind, SLUB_VALUE_COUNTER) << name;
		EXPECT_EQ(value.reserved, 0u) << name;
	}
}

TEST(Value, CountsTheObjectsOfACache)
{
	struct slub_cache *cache = slub_cache_create("with.a.dot", 200, 0, 0, nullptr);
	const std::string of = "caches.with.a.dot.";
	const size_t nr = 1000;
	std::vector<void *> objects(nr);
	Values values;
	uint64_t slabs;

	ASSERT_NE(cache, nullptr);
	EXPECT_EQ(number(of + "object_size"), 200u);
	EXPECT_EQ(number(of + "objects"), 0u);
	for (void *&object : objects)
		object = slub_cache_alloc(cache);
	slabs = number(of + "slabs");
	EXPECT_EQ(number(of + "objects") - number(of + "objects_cached"), nr);
	EXPECT_EQ(slabs, number(of + "node_slabs"));
	EXPECT_EQ(slabs * number(of + "objs_per_slab"), number(of + "total_objects"));
	EXPECT_EQ(slabs, number(of + "alloc_slab")) << "none came back yet";
	EXPECT_EQ(number(of + "bytes"), slabs * (4096 << number(of + "order")));
	values = all_values();
	EXPECT_EQ(values[of + "slabs"].number, slabs);
	EXPECT_EQ(values[of + "slabs"].kind, (uint32_t)SLUB_VALUE_NUMBER);
	EXPECT_EQ(values[of + "bytes"].kind, (uint32_t)SLUB_VALUE_BYTES);
	EXPECT_EQ(values[of + "alloc_slab"].kind, (uint32_t)SLUB_VALUE_COUNTER);
	for (void *object : objects)
		slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	struct slub_value value = { 5, 0, 0 };
	EXPECT_EQ(slub_value_read((of + "slabs").c_str(), &value), -ENOENT);
	EXPECT_EQ(value.number, 5u);
}

TEST(Value, KnowsTheHeap)
{
	uint64_t before = number("heap.large_bytes");
	void *block = malloc(3 << 20);

	ASSERT_NE(block, nullptr);
	EXPECT_EQ(number("heap.large_bytes") - before, 3u << 20);
	EXPECT_GE(number("heap.committed_bytes"), number("heap.slab_bytes") + (3 << 20));
	EXPECT_EQ(number("heap.large_blocks"), mallinfo2().hblks);
	EXPECT_GT(number("objects.used"), 0u);
	EXPECT_GE(number("objects.used_bytes"), number("objects.used") * 8);
	free(block);
}

static int stop(const char *, const struct slub_value *, void *arg)
{
	return ++*(int *)arg == 3 ? 77 : 0;
}

TEST(Value, RefusesWhatCannotBe)
{
	struct slub_value value;
	int nr = 0;

	for (const char *name : { "", "heap", "heap.", "caches", "caches.", "caches..objects",
				  "caches.malloc-64", "caches.malloc-64.",
				  "caches.malloc-64.nothing",
				  "caches.none.objects", "caches.malloc-64.alloc_fastpath",
				  "heap.committed_bytes.", "HEAP.committed_bytes" })
		EXPECT_EQ(slub_value_read(name, &value), -ENOENT) << name;
	EXPECT_EQ(slub_value_read(nullptr, &value), -EINVAL);
	EXPECT_EQ(slub_value_read("heap.slab_bytes", nullptr), -EINVAL);
	EXPECT_EQ(slub_value_for_each(nullptr, nullptr), -EINVAL);
	EXPECT_EQ(slub_value_for_each(stop, &nr), 77);
	EXPECT_EQ(nr, 3);
}
