/* SPDX-License-Identifier: MIT */
/*
 * core/slab/local.c, local_empty.c: what is freed in no order goes to lists of its slabs, without
 * a lock, and each count of them is exact.
 */
#include "local_lists.h"

namespace {

TEST_F(local_lists, what_is_freed_in_no_order_goes_home)
{
	fill(MANY);
	free_scattered(MANY / 2);
	locals now(cache);
	EXPECT_GE(now.objects.size(), 100u);
	EXPECT_LE(slot()->main.room, ROOM_SHORT) << "the list is a short one";
	EXPECT_EQ(length(slot()->main.head), (size_t)(ROOM_SHORT - slot()->main.room));
	EXPECT_LE(length(slot()->main.head), 16u);
	EXPECT_LE(length(slot()->spare.head), LOCAL_FOREIGN);
	EXPECT_GE(now.slabs, 100u);
	/* Each object is alive, in a list of the CPU, in a local list, or counts as free. */
	EXPECT_EQ(in_use(), mine.size() + length(slot()->main.head) +
				    length(slot()->spare.head) + now.objects.size());
	EXPECT_EQ(local_nr(cache), now.objects.size());
	for (void *object : mine)
		EXPECT_FALSE(now.objects.count(object));
	EXPECT_EQ(nr_barriers, 0);
}

TEST_F(local_lists, what_is_freed_in_order_stays_in_long_lists)
{
	fill(MANY);
	std::sort(mine.begin(), mine.end());
	while (mine.size() > MANY / 2) {
		free(mine.back());
		mine.pop_back();
	}
	EXPECT_EQ(locals(cache).objects.size(), 0u);
	EXPECT_GE(slot()->main.room, 0);
}

TEST_F(local_lists, a_list_in_order_is_looked_at_again)
{
	fill(MANY);
	std::sort(mine.begin(), mine.end());
	for (int i = 0; i < 40; i++, mine.pop_back())
		free(mine.back());
	EXPECT_GE(slot()->main.room, 0);
	EXPECT_GT(cache->capacity_now, 200);
	free_scattered(mine.size() - 150);
	EXPECT_LE(slot()->main.room, ROOM_SHORT);
}

TEST_F(local_lists, come_before_new_slabs)
{
	fill(MANY);
	free_scattered(MANY / 2);
	size_t before = slabs();
	fill(MANY / 2 - 500);
	EXPECT_EQ(slabs(), before);
	std::set<void *> distinct(mine.begin(), mine.end());
	EXPECT_EQ(distinct.size(), mine.size());
	EXPECT_EQ(misuse_nr_found(), found);
}

/* Without a trim: what a short list holds pins none of them in the end. */
TEST_F(local_lists, slabs_that_are_whole_go)
{
	fill(MANY);
	size_t full = slabs();
	free_scattered(0);
	EXPECT_GE(full, MANY / 100);
	EXPECT_LE(slabs(), lost + LOCAL_FOREIGN + cache->min_partial + 8);
	EXPECT_LE(length(slot()->main.head), 1u) << "and none of the short list";
	EXPECT_EQ(nr_barriers, 0);
	EXPECT_EQ(misuse_nr_found(), found);
}

TEST_F(local_lists, a_trim_empties_them)
{
	fill(MANY);
	free_scattered(MANY / 8);
	EXPECT_GE(locals(cache).objects.size(), 100u);
	slab_shrink_all();
	EXPECT_GE(nr_barriers, 1);
	EXPECT_EQ(locals(cache).objects.size(), 0u);
	EXPECT_EQ(local_nr(cache), 0u);
	EXPECT_EQ(in_use(), mine.size());
	/* The CPU owns its slabs still. */
	uint32_t owned = 0;
	for (void *object : mine)
		owned += local_owner(local_read(local_of(slab_of(cache, object)))) ==
			 percpu_here();
	EXPECT_GE(owned, mine.size() / 2);
	free_scattered(MANY / 16);
	EXPECT_GE(in_use(), mine.size());
}

TEST_F(local_lists, a_flush_of_the_cache_empties_them)
{
	fill(MANY);
	free_scattered(MANY / 2);
	EXPECT_TRUE(cache_flush(cache));
	EXPECT_EQ(locals(cache).objects.size(), 0u);
	EXPECT_EQ(in_use(), mine.size());
}

/* The kernel stops no CPU: a thread empties those of its own. */
TEST_F(local_lists, a_trim_without_a_barrier_empties_those_of_this_cpu)
{
	fill(MANY);
	free_scattered(MANY / 2);
	barrier_is_refused = true;
	slab_shrink_all();
	EXPECT_EQ(locals(cache).objects.size(), 0u);
	EXPECT_LE(in_use(), mine.size() + 16 + LOCAL_FOREIGN);
}

/* Slabs of another CPU: their objects go to their freelists, some at a time. */
TEST_F(local_lists, of_other_cpus_are_left_alone)
{
	fill(MANY);
	for (void *object : mine) {
		struct page *local = local_of(slab_of(cache, object));

		local_write(local, local_none(17));
	}
	free_scattered(MANY / 2);
	EXPECT_EQ(locals(cache).objects.size(), 0u);
	EXPECT_LE(slot()->main.room, ROOM_SHORT);
	EXPECT_LE(length(slot()->spare.head), LOCAL_FOREIGN);
	EXPECT_LE(in_use(), mine.size() + 16 + LOCAL_FOREIGN);
}

/* ... until this CPU takes their objects. */
TEST_F(local_lists, slabs_change_hands_with_a_refill)
{
	fill(MANY);
	for (void *object : mine)
		local_write(local_of(slab_of(cache, object)), local_none(17));
	free_scattered(MANY / 2);
	fill(MANY / 2);
	size_t owned = 0;
	for (void *object : mine)
		owned += local_owner(local_read(local_of(slab_of(cache, object)))) ==
			 percpu_here();
	EXPECT_GE(owned, mine.size() / 4);
	free_scattered(MANY / 2);
	EXPECT_GE(locals(cache).objects.size(), 100u);
}

/* The last objects of a slab come back past its owner, which may never run again. */
TEST_F(local_lists, who_gives_the_last_object_takes_the_list)
{
	fill(MANY);
	std::vector<void *> inside = take_slab_of_a_short_list();
	struct page *slab = slab_of(cache, inside[0]);
	for (size_t i = 1; i < inside.size(); i++)
		free(inside[i]);
	ASSERT_EQ(local_count(local_of(slab), local_read(local_of(slab))), inside.size() - 1);
	size_t before = in_use();
	give(cache, inside[0]);
	EXPECT_EQ(in_use(), before - inside.size());
	EXPECT_EQ(own()->nr_marked, 0u);
	EXPECT_FALSE(has_list(local_of(slab)));
	EXPECT_EQ(nr_barriers, 0);
}

/* ... or its first ones: then there is room for too many, until the owner sets it right. */
TEST_F(local_lists, an_owner_sets_right_what_others_have_marked)
{
	fill(MANY);
	std::vector<void *> inside = take_slab_of_a_short_list();
	struct page *local = local_of(slab_of(cache, inside[0]));
	size_t first = inside.size() / 2;
	for (size_t i = 0; i < 3; i++)
		free(inside[i]);
	ASSERT_EQ(local_count(local, local_read(local)), 3u);
	for (size_t i = 3; i < first; i++)
		give(cache, inside[i]);
	EXPECT_EQ(own()->nr_marked, 1u);
	EXPECT_EQ(local_first(own()), local);
	EXPECT_GE(local_room(local_read(local)), inside.size() - 5);
	/* With the next free of this CPU that is a slow one. */
	while (own()->nr_marked && !mine.empty()) {
		free(mine.back());
		mine.pop_back();
	}
	EXPECT_EQ(own()->nr_marked, 0u);
	EXPECT_EQ(local_count(local, local_read(local)), 3u);
	/* Others give objects there: so it has room for half of them. */
	EXPECT_EQ(local_room(local_read(local)), (inside.size() - first) / 2);
	for (size_t i = first; i < inside.size(); i++)
		free(inside[i]);
	EXPECT_FALSE(has_list(local)) << "it was whole with the last";
	EXPECT_EQ(misuse_nr_found(), found);
}

/* What others give is mostly no matter of the owner's: they mark a list twice, not each time. */
TEST_F(local_lists, others_mark_a_list_at_its_watermark_alone)
{
	fill(MANY);
	std::vector<void *> inside = take_slab_of_a_short_list();
	struct page *local = local_of(slab_of(cache, inside[0]));
	share(inside);
	size_t next = 2, left = inside.size() - 2;
	uint32_t room = local_room(local_read(local));
	ASSERT_GE(room, left / 2 - 1);
	ASSERT_LT(room, left);
	/* While more are in use than the owner has room for nobody takes a lock. */
	for (; left - 1 > room; left--) {
		give(cache, inside[next++]);
		ASSERT_EQ(own()->nr_marked, 0u) << left;
		ASSERT_EQ(*local_watermark(local), room + 1);
	}
	give(cache, inside[next++]);
	EXPECT_EQ(own()->nr_marked, 1u);
	/* Each goes at once all the same. */
	for (size_t i = next; i < inside.size(); i++)
		give(cache, inside[i]);
	EXPECT_EQ(own()->nr_marked, 0u) << "with the last one";
	EXPECT_FALSE(has_list(local));
	EXPECT_EQ(misuse_nr_found(), found);
}

/* A list that is full while others are out goes on, with room for more. */
TEST_F(local_lists, a_shared_list_goes_on_until_its_slab_is_whole)
{
	fill(MANY);
	std::vector<void *> inside = take_slab_of_a_short_list();
	struct page *local = local_of(slab_of(cache, inside[0]));
	share(inside);
	for (size_t i = 2; i + 1 < inside.size(); i++) {
		free(inside[i]);
		ASSERT_EQ(local_count(local, local_read(local)), i);
		ASSERT_LT(i + local_room(local_read(local)), inside.size() - 1);
	}
	locals now(cache);
	size_t before = in_use();
	free(inside.back());
	EXPECT_FALSE(has_list(local));
	EXPECT_EQ(in_use(), before - (inside.size() - 1));
	EXPECT_EQ(misuse_nr_found(), found);
}

/* A list is on its way to the slab, and another one has begun behind it: as for other objects. */
TEST_F(local_lists, what_comes_behind_a_new_list_is_looked_at)
{
	fill(MANY);
	std::vector<void *> inside = take_slab_of_a_short_list();
	struct page *local = local_of(slab_of(cache, inside[0]));
	/* All others are on their way. */
	for (size_t i = 2; i + 1 < inside.size(); i++)
		chain_set_next(cache, inside[i], inside[i + 1]);
	chain_set_next(cache, inside.back(), nullptr);
	struct detached_list early = { inside[2], inside.back(), (uint32_t)inside.size() - 2, 0 };
	free(inside[0]);
	ASSERT_GT(local_room(local_read(local)), 0u);
	local_give_back(cache, local, &early);
	EXPECT_EQ(own()->nr_marked, 1u) << "its room is too much";
	/* And where the list is all that is in use it goes along. */
	size_t before = in_use();
	struct detached_list last = { inside[1], inside[1], 1, 0 };
	local_give_back(cache, local, &last);
	EXPECT_EQ(own()->nr_marked, 0u);
	EXPECT_FALSE(has_list(local));
	EXPECT_EQ(in_use(), before - 2);
	EXPECT_EQ(nr_barriers, 0);
	EXPECT_EQ(misuse_nr_found(), found);
}

TEST_F(local_lists, a_watched_cache_begins_none)
{
	fill(MANY);
	cache->twin = cache;
	cache_flush(cache);
	free_scattered(MANY / 2);
	size_t nr = locals(cache).objects.size();
	cache->twin = NULL;
	EXPECT_EQ(nr, 0u);
	EXPECT_EQ(in_use(), mine.size());
}

/* ---- what was freed twice ---- */

TEST_F(local_lists, a_second_free_is_found_before_its_block_is_two)
{
	fill(MANY);
	free_scattered(MANY / 2);
	/* The slab of the last one has a list by now, mostly. */
	for (int i = 0; i < 50; i++) {
		void *object = mine.back();

		mine.pop_back();
		free(object);
		free(mine.back());
		mine.pop_back();
		free(object);
	}
	fill(MANY);
	slab_shrink_all();
	std::set<void *> distinct(mine.begin(), mine.end());
	EXPECT_EQ(distinct.size(), mine.size());
	EXPECT_GE(misuse_nr_found(), found + 1);
	slab_shrink_all();
	EXPECT_EQ(distinct.size(), mine.size());
}

/* The sum of a list that was set right, or goes on when it is full, is of all its objects. */
TEST_F(local_lists, a_list_that_goes_on_has_its_sum)
{
	fill(MANY);
	std::vector<void *> inside = take_slab_of_a_short_list();
	share(inside);
	for (size_t i = 2; i + 1 < inside.size(); i++)
		free(inside[i]);
	EXPECT_GE(locals(cache).slabs, 1u) << "their sums are looked at";
	struct page *local = local_of(slab_of(cache, inside[0]));
	uint64_t sum = local_addend(inside[0]);
	for (size_t i = 2; i + 1 < inside.size(); i++)
		sum += local_addend(inside[i]);
	EXPECT_EQ(local_sum(local_read(local)), sum);
	free(inside.back());
	EXPECT_EQ(misuse_nr_found(), found);
}

/* One of a slab is freed twice, and one not at all: all seem to be back. */
TEST_F(local_lists, a_slab_is_not_whole_while_one_of_it_lives)
{
	fill(MANY);
	std::vector<void *> inside = take_slab();
	ASSERT_EQ(inside.size(), cache->objects);
	free_scattered(MANY / 2);
	void *alive = inside[0];
	memset(alive, 0x5a, BYTES);
	for (size_t i = 1; i < inside.size(); i++)
		free(inside[i]);
	/* It was the second that went there: its slab counts it once more. */
	free(harness::opaque(inside[2]));
	fill(MANY);
	slab_shrink_all();
	fill(MANY);
	for (void *object : mine)
		ASSERT_NE(object, alive);
	for (size_t i = 0; i < BYTES; i++)
		ASSERT_EQ(((unsigned char *)alive)[i], 0x5a);
	EXPECT_GE(misuse_nr_found(), found + 1);
}

/* ... by the sequence, which reads no key: the list has as many as are in use, and another sum. */
TEST_F(local_lists, a_slab_is_not_whole_by_its_count_alone)
{
	fill(MANY);
	std::vector<void *> inside = take_slab_of_a_short_list();
	struct page *slab = slab_of(cache, inside[0]), *local = local_of(slab);
	void *alive = memset(inside[0], 0x5a, BYTES);
	for (size_t i = 1; i + 1 < inside.size(); i++)
		free(inside[i]);
	free(harness::opaque(inside[2]));
	ASSERT_EQ(local_count(local, local_read(local)), inside.size() - 1);
	ASSERT_EQ(misuse_nr_found(), found);
	free(inside.back());
	EXPECT_EQ(misuse_nr_found(), found + 1);
	EXPECT_EQ(state_inuse(slab_read(slab)), inside.size()) << "nothing of it comes back";
	fill(MANY);
	for (void *object : mine)
		ASSERT_NE(object, alive);
	for (size_t i = 0; i < BYTES; i++)
		ASSERT_EQ(((unsigned char *)alive)[i], 0x5a);
}

/* ---- a forked child ---- */

TEST_F(local_lists, a_child_has_those_of_its_parent)
{
	fill(MANY);
	free_scattered(MANY / 2);
	size_t nr = locals(cache).objects.size();
	pid_t pid = fork();

	if (!pid) {
		bool is_same = locals(cache).objects.size() == nr;

		free_scattered(MANY / 4);
		fill(MANY);
		std::set<void *> distinct(mine.begin(), mine.end());
		bool is_once = distinct.size() == mine.size();
		slab_shrink_all();
		bool is_empty = locals(cache).objects.empty() && in_use() == mine.size();
		_exit((is_same ? 0 : 1) | (is_once ? 0 : 2) | (is_empty ? 0 : 4));
	}
	EXPECT_EQ(harness::describe_status(harness::wait_for(pid)), "exit 0");
	EXPECT_GE(locals(cache).objects.size(), nr);
}

} /* namespace */
