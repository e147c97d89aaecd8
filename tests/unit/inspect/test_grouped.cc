/* SPDX-License-Identifier: MIT */
/* features/inspect/groups.c: the groups in a statistics file, number by number. */
#include <atomic>
#include <thread>

#include "written.h"

#define _Static_assert static_assert
extern "C" {
#include "features/groups/group.h"
}
#undef _Static_assert

namespace {

constexpr size_t NR = 50, BYTES = 96, LARGE = 1 << 20;

/* root > a > b, and root > c; NR objects and a large block are b's, and NR / 2 objects c's. */
class grouped : public written {
protected:
	void SetUp() override
	{
		written::SetUp();
		/* In a group there is nothing else. */
		objects.reserve(200);
		a = slub_group_create("a", nullptr);
		b = slub_group_create("b", a);
		c = slub_group_create("c", nullptr);
		cache = slub_cache_create("grouped", BYTES, 0,
					  SLUB_CACHE_NO_MERGE | SLUB_CACHE_ACCOUNT, nullptr);
		ASSERT_TRUE(a && b && c && cache);
		slub_group_limit_set(a, SLUB_GROUP_LOW, 1 << 12);
		slub_group_limit_set(a, SLUB_GROUP_HIGH, 5 << 20);
		slub_group_limit_set(b, SLUB_GROUP_MAX, 3 << 20);
		slub_group_enter(b);
		allocate(NR);
		large = malloc(LARGE);
		EXPECT_EQ(harness::opaque(malloc(8 << 20)), nullptr) << "more than b may have";
		slub_group_leave(b);
		slub_group_enter(c);
		allocate(NR / 2);
		slub_group_leave(c);
		open_file();
	}
	void TearDown() override
	{
		for (void *object : objects)
			slub_cache_free(cache, object);
		free(large);
		for (struct slub_group *group : { b, a, c }) {
			if (group) {
				EXPECT_EQ(slub_group_destroy(group), 0);
			}
		}
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		written::TearDown();
	}
	void allocate(size_t nr)
	{
		for (size_t i = 0; i < nr; i++)
			objects.push_back(slub_cache_alloc(cache));
	}
	void open_file()
	{
		written::open_file();
		groups = (const struct slub_stats_groups *)((const char *)file +
							    file->groups_offset);
	}
	const struct slub_stats_group *place(const struct slub_group *group)
	{
		return (const struct slub_stats_group *)(groups + 1) + group_number(group);
	}
	/* Of those that a charge changes. */
	void expect_counters(const struct slub_group *group)
	{
		const struct slub_stats_group *told = place(group);

		EXPECT_STREQ(told->name, group->name);
		EXPECT_EQ(told->number, group_number(group)) << group->name;
		EXPECT_EQ(told->parent, group->parent ? group_number(group->parent) : 0);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_ALIVE], 1u);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_USAGE], (uint64_t)group->usage);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_PEAK], (uint64_t)group->peak);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_LOW], group->limits[SLUB_GROUP_LOW]);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_HIGH], group->limits[SLUB_GROUP_HIGH]);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_MAX], group->limits[SLUB_GROUP_MAX]);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_FAILURES], group->failures);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_MAX_HITS], group->max_hits);
		EXPECT_EQ(told->fields[SLUB_ABI_GROUP_HIGH_HITS], group->high_hits);
		EXPECT_EQ(told->sequence % 2, 0u);
	}
	std::vector<const struct slub_group *> all()
	{
		return { a, b, c, slub_group_root() };
	}
	size_t slab_bytes()
	{
		return PAGE_BYTES << cache->order;
	}

	struct slub_group *a = nullptr, *b = nullptr, *c = nullptr;
	struct slub_cache *cache = nullptr;
	std::vector<void *> objects;
	void *large = nullptr;
	const struct slub_stats_groups *groups = nullptr;
};

TEST_F(grouped, each_number)
{
	const struct slub_group *root = slub_group_root();

	for (const struct slub_group *group : all())
		expect_counters(group);
	EXPECT_EQ(place(b)->fields[SLUB_ABI_GROUP_FAILURES], 1u);
	EXPECT_EQ(place(b)->fields[SLUB_ABI_GROUP_MAX], 3u << 20);
	EXPECT_EQ(place(a)->fields[SLUB_ABI_GROUP_LOW], 1u << 12);
	EXPECT_EQ(groups->nr_groups, pool_end(&group_pool));
	EXPECT_EQ(groups->nr_beyond, 0u);
	for (const struct slub_group *group : { a, b }) {
		EXPECT_EQ(place(group)->objects, NR) << group->name;
		EXPECT_EQ(place(group)->object_bytes, NR * cache->object_size);
		EXPECT_EQ(place(group)->large_bytes, block_bytes(large));
		EXPECT_GE(place(group)->slab_bytes, slab_bytes());
	}
	EXPECT_EQ(place(c)->objects, NR / 2);
	EXPECT_EQ(place(c)->object_bytes, NR / 2 * cache->object_size);
	EXPECT_EQ(place(c)->large_bytes, 0u);
	EXPECT_EQ(place(root)->objects, NR + NR / 2);
	EXPECT_EQ(place(root)->large_bytes, block_bytes(large));
	/* A slab is counted once for each group. */
	EXPECT_EQ(place(root)->slab_bytes % slab_bytes(), 0u);
	EXPECT_LE(place(root)->slab_bytes, place(b)->slab_bytes + place(c)->slab_bytes);
	EXPECT_LE(place(b)->slab_bytes, cache->nodes[0]->nr_slabs * slab_bytes());
	/* GROUP-4. */
	for (const struct slub_group *group : all())
		EXPECT_EQ(place(group)->stock_bytes, place(group)->fields[SLUB_ABI_GROUP_USAGE] -
			  place(group)->object_bytes - place(group)->large_bytes) << group->name;
}

TEST_F(grouped, threads_that_are_inside)
{
	std::atomic<int> step{ 0 };
	std::thread other([&] {
		slub_group_enter(c);
		free(malloc(100));
		step = 1;
		while (step != 2)
			usleep(1000);
		slub_group_leave(c);
	});

	while (step != 1)
		usleep(1000);
	slub_group_enter(b);
	count();
	EXPECT_EQ(place(b)->nr_threads, 1u);
	EXPECT_EQ(place(c)->nr_threads, 1u);
	EXPECT_EQ(place(a)->nr_threads, 0u) << "but below it";
	slub_group_leave(b);
	step = 2;
	other.join();
	count();
	EXPECT_EQ(place(b)->nr_threads, 0u);
	EXPECT_EQ(place(c)->nr_threads, 0u);
}

/* Between two counts: the group that the thread is in, and those above. */
TEST_F(grouped, an_update_is_of_those_above)
{
	const struct slub_group *root = slub_group_root();
	uint32_t before_b = place(b)->sequence, before_c = place(c)->sequence;
	uint32_t before_root = place(root)->sequence;
	uint64_t counted = file->census_ns;
	void *block;

	stats_file_update(nullptr);
	if (file->census_ns == counted) {
		EXPECT_EQ(place(b)->sequence, before_b) << "the thread is in none";
	}
	slub_group_enter(b);
	before_b = place(b)->sequence;
	block = malloc(300000);
	stats_file_update(nullptr);
	EXPECT_GT(place(b)->sequence, before_b);
	EXPECT_GT(place(root)->sequence, before_root);
	expect_counters(b);
	expect_counters(a);
	expect_counters(root);
	if (file->census_ns == counted) {
		EXPECT_EQ(place(c)->sequence, before_c);
		EXPECT_EQ(place(b)->objects, NR) << "of the last count";
	}
	free(block);
	slub_group_leave(b);
}

/* The place of one that is gone is another's. */
TEST_F(grouped, groups_that_come_and_go)
{
	struct slub_group *late = slub_group_create("late", a);
	const struct slub_stats_group *told = place(late);

	ASSERT_NE(late, nullptr);
	EXPECT_EQ(told->number, 0u);
	slub_group_enter(late);
	stats_file_update(nullptr);
	expect_counters(late);
	EXPECT_GE(groups->nr_groups, group_number(late) + 1);
	slub_group_leave(late);
	slub_group_enter(late);
	allocate(7);
	slub_group_leave(late);
	count();
	EXPECT_EQ(told->objects, 7u);
	EXPECT_EQ(place(a)->objects, NR + 7);
	EXPECT_EQ(slub_group_destroy(late), 0);
	count();
	EXPECT_EQ(told->number, 0u);
	EXPECT_EQ(place(a)->objects, NR + 7) << "its objects are its parent's";
	count();
	EXPECT_EQ(told->number, 0u);
	late = slub_group_create("later", nullptr);
	ASSERT_EQ(place(late), told);
	slub_group_enter(late);
	stats_file_update(nullptr);
	slub_group_leave(late);
	EXPECT_STREQ(told->name, "later");
	EXPECT_EQ(told->parent, group_number(slub_group_root()));
	if (told->number) {
		EXPECT_EQ(told->objects, 0u) << "nothing of the one before";
	}
	EXPECT_EQ(slub_group_destroy(late), 0);
}

TEST_F(grouped, more_than_there_are_places)
{
	std::vector<struct slub_group *> many;
	size_t beyond = 0;

	for (int i = 0; i < 1100; i++) {
		many.push_back(slub_group_create(("many-" + std::to_string(i)).c_str(), nullptr));
		ASSERT_NE(many.back(), nullptr);
		beyond += group_number(many.back()) >= 1024;
	}
	EXPECT_GT(beyond, 50u);
	/* What it has is nobody's. */
	slub_group_enter(many.back());
	allocate(9);
	stats_file_update(nullptr);
	slub_group_leave(many.back());
	count();
	EXPECT_EQ(groups->nr_beyond, beyond);
	EXPECT_EQ(groups->nr_groups, 1024u);
	EXPECT_EQ(place(b)->objects, NR);
	EXPECT_EQ(place(slub_group_root())->objects, NR + NR / 2 + 9);
	for (struct slub_group *group : many)
		EXPECT_EQ(slub_group_destroy(group), 0);
	count();
	EXPECT_EQ(groups->nr_beyond, 0u);
}

} /* namespace */
