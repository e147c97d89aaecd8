/* SPDX-License-Identifier: MIT */
/*
 * core/percpu/allocator.c: slots and offsets are given out once, packed, and zero again when given
 * back.
 */
#include <functional>
#include <gtest/gtest.h>
#include <set>

#include "harness.h"
#include "start.h"

namespace {

class alloc : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::option("PERCPU=static");
		start::option("PERCPU_BYTES=64K");
		start::percpu();
		percpu_enter();
		percpu_area_make(3);
	}
};

TEST_F(alloc, slots_are_aligned_and_below_what_the_map_can_name)
{
	std::set<uint32_t> slots;
	uint32_t slot;

	while ((slot = percpu_alloc_slots(1))) {
		ASSERT_EQ(slot % SLOT_BYTES, 0u);
		ASSERT_LT(slot, (uint32_t)AREA_NEAR_BYTES);
		ASSERT_TRUE(slots.insert(slot).second);
	}
	EXPECT_EQ(slots.size(), (size_t)AREA_NEAR_BYTES / SLOT_BYTES - 1) << "all but slot 0";
	EXPECT_EQ(percpu_slots_end(), (uint32_t)AREA_NEAR_BYTES);
	/* Two in a row fit only where two in a row were given back. */
	percpu_free_slots(SLOT_BYTES * 10, 1);
	percpu_free_slots(SLOT_BYTES * 12, 1);
	EXPECT_EQ(percpu_alloc_slots(2), 0u);
	percpu_free_slots(SLOT_BYTES * 11, 1);
	EXPECT_EQ(percpu_alloc_slots(2), SLOT_BYTES * 10u);
	EXPECT_EQ(percpu_alloc_slots(1), SLOT_BYTES * 12u);
	EXPECT_EQ(percpu_alloc_slots(1), 0u);
	slots.erase(SLOT_BYTES * 11);	/* now with the one before it */
	for (uint32_t s : slots)
		percpu_free_slots(s, s == SLOT_BYTES * 10 ? 2 : 1);
}

/* What free() reads for one by its entry is 0 in every area, and so in the dummy one. */
TEST_F(alloc, far_slots_are_as_many_as_entries_can_name)
{
	std::set<uint32_t> slots, entries;
	uint32_t slot = 0, some;
	int err;

	EXPECT_EQ(percpu_next_number(percpu_slots_end() / SLOT_BYTES - 1), 0u) << "none yet";
	while (!(err = percpu_alloc_far_slot(&slot))) {
		uint32_t entry = slot_entry(slot);

		ASSERT_TRUE(slot_is_far(slot) && offset_is_slots(slot));
		ASSERT_TRUE(percpu_is_committed(slot + SLOT_BYTES - 1));
		ASSERT_GE(entry, (uint32_t)AREA_NEAR_BYTES);
		ASSERT_LE(entry + SLOT_ROOM + 4, (uint32_t)AREA_BYTES);
		ASSERT_EQ(entry_slot(entry), slot);
		ASSERT_EQ(slot_number(slot), entry_number(entry));
		ASSERT_EQ(numbered_entry(entry_number(entry)), entry);
		ASSERT_EQ(percpu_next_number(entry_number(entry) - 1), entry_number(entry));
		ASSERT_EQ(percpu_next_number(entry_number(entry)), 0u);
		ASSERT_TRUE(slots.insert(slot).second);
		ASSERT_TRUE(entries.insert(entry).second);
		((struct slot *)(percpu_area(3) + slot))->main.room = 1;
		((struct slot *)(percpu_shared_area() + slot))->main.room = 1;
	}
	EXPECT_EQ(err, -ENOSPC);
	EXPECT_EQ(slots.size(), (size_t)FAR_SLOTS);
	EXPECT_GE(slots.size(), 16000u);
	percpu_area_make(4);
	for (char *area : { percpu_area(3), percpu_area(4), (char *)slub_dummy_base[0] }) {
		const char *from = area + AREA_NEAR_BYTES;

		EXPECT_EQ(harness::first_nonzero(from, AREA_BYTES - AREA_NEAR_BYTES),
			  (size_t)(AREA_BYTES - AREA_NEAR_BYTES));
	}
	EXPECT_EQ(((struct slot *)(percpu_area(4) + *slots.rbegin()))->main.room, 0)
		<< "an area that is made later has them too";
	/* They are no memory of programs. */
	EXPECT_EQ(slub_percpu_free(*slots.begin()), -EINVAL);
	EXPECT_EQ(slub_percpu_ptr(*slots.begin(), 3), nullptr);
	/* The lowest one that is free comes next, empty. */
	for (uint32_t s : { AREA_FAR + 700u * SLOT_BYTES, AREA_FAR + 30u * SLOT_BYTES })
		percpu_free_slots(s, 1);
	ASSERT_EQ(percpu_alloc_far_slot(&some), 0);
	EXPECT_EQ(some, AREA_FAR + 30u * SLOT_BYTES);
	EXPECT_EQ(((struct slot *)(percpu_area(3) + some))->main.room, 0);
	for (uint32_t s : slots)
		if (s != AREA_FAR + 700u * SLOT_BYTES)
			percpu_free_slots(s, 1);
}

/* By pieces, for the collection area has not room for all of them. */
TEST_F(alloc, far_slots_are_collected_behind_the_others)
{
	std::vector<uint32_t> slots(COLLECT_LISTS_MAX + 3);
	struct collection all;
	uint32_t nr_pieces = 0;

	for (uint32_t &slot : slots)
		ASSERT_EQ(percpu_alloc_far_slot(&slot), 0);
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	std::vector<uint32_t> seen;
	while (percpu_collect_more(&all, COLLECT_USED)) {
		EXPECT_EQ(all.from, COLLECT_USED);
		EXPECT_LE(all.nr_slots, (uint32_t)COLLECT_LISTS_MAX);
		for (uint32_t i = 0; i < all.nr_slots; i++)
			seen.push_back(collection_slot(&all, i));
		nr_pieces++;
	}
	/* Also those that were used once. */
	size_t nr = (percpu_far_slots_end() - AREA_FAR) / SLOT_BYTES;
	ASSERT_EQ(seen.size(), nr);
	for (size_t i = 0; i < nr; i++)
		ASSERT_EQ(seen[i], AREA_FAR + i * SLOT_BYTES);
	EXPECT_EQ(slots.back(), seen[slots.size() - 1]);
	EXPECT_EQ(nr_pieces, (nr + COLLECT_LISTS_MAX - 1) / COLLECT_LISTS_MAX);
	percpu_collect_end();
	for (uint32_t slot : slots)
		percpu_free_slots(slot, 1);
}

TEST_F(alloc, a_slot_that_was_given_back_is_empty_in_every_area)
{
	uint32_t slot = percpu_alloc_slots(1);

	for (char *area : { percpu_area(3), percpu_shared_area() })
		memset(area + slot, 0xff, SLOT_BYTES);
	percpu_free_slots(slot, 1);
	ASSERT_EQ(percpu_alloc_slots(1), slot);
	for (char *area : { percpu_area(3), percpu_shared_area() })
		EXPECT_EQ(harness::first_nonzero(area + slot, SLOT_BYTES), (size_t)SLOT_BYTES);
	percpu_free_slots(slot, 1);
}

/* What is given back, or given out once more, is cleared to its last word and no further. */
TEST_F(alloc, neighbours_of_what_is_cleared_stay)
{
	auto check = [](uint32_t at, uint32_t bytes, const std::function<void()> &clear) {
		std::vector<char *> areas = { percpu_area(3), percpu_shared_area() };

		for (char *area : areas)
			memset(area + at - 8, 0x55, bytes + 16);
		clear();
		for (char *area : areas) {
			EXPECT_EQ(harness::first_nonzero(area + at, bytes), bytes);
			for (int i = 0; i < 8; i++) {
				EXPECT_EQ(area[at - 8 + (uint32_t)i], 0x55);
				EXPECT_EQ(area[at + bytes + (uint32_t)i], 0x55);
			}
			memset(area + at - 8, 0, bytes + 16);
		}
	};
	uint32_t slot = percpu_alloc_slots(3);
	uintptr_t at = slub_percpu_alloc(3 * 64, 64);

	ASSERT_NE(slot, 0u);
	ASSERT_NE(at, 0u);
	check(slot + SLOT_BYTES, SLOT_BYTES, [&] { percpu_free_slots(slot + SLOT_BYTES, 1); });
	percpu_free_slots(slot, 1);
	percpu_free_slots(slot + 2 * SLOT_BYTES, 1);
	EXPECT_EQ(slub_percpu_free(at), 0);
	uintptr_t parts[] = { slub_percpu_alloc(64, 64), slub_percpu_alloc(64, 64),
			      slub_percpu_alloc(64, 64) };
	ASSERT_EQ(parts[1], parts[0] + 64);
	ASSERT_EQ(parts[2], parts[1] + 64);
	EXPECT_EQ(slub_percpu_free(parts[1]), 0);
	check((uint32_t)parts[1], 64, [&] { EXPECT_EQ(slub_percpu_alloc(64, 64), parts[1]); });
	for (uintptr_t part : parts)
		EXPECT_EQ(slub_percpu_free(part), 0);
}

TEST_F(alloc, slots_cannot_be_freed_as_offsets)
{
	uint32_t slot = percpu_alloc_slots(1);

	EXPECT_EQ(slub_percpu_free(slot), -EINVAL);
	percpu_free_slots(slot, 1);
}

TEST_F(alloc, what_was_not_given_out_is_not_taken_back)
{
	uintptr_t at = slub_percpu_alloc(12, 4);

	ASSERT_NE(at, 0u);
	for (uintptr_t wrong : { at + 1, at + 2, at + 4, at + 12, (uintptr_t)AREA_BYTES + 65536,
				 (uintptr_t)1 << 40, ~(uintptr_t)3 })
		EXPECT_EQ(slub_percpu_free(wrong), -EINVAL) << wrong - at;
	EXPECT_EQ(slub_percpu_free(at), 0);
	EXPECT_EQ(slub_percpu_free(at), -EINVAL) << "twice";
	EXPECT_EQ(slub_percpu_free(0), 0);
}

TEST_F(alloc, wrong_arguments)
{
	const size_t wrong[][2] = { { 0, 4 }, { 4, 0 }, { 4, 3 }, { 4, 8192 },
				    { (size_t)PTRDIFF_MAX + 1, 4 } };

	for (auto &one : wrong) {
		errno = 0;
		EXPECT_EQ(slub_percpu_alloc(one[0], one[1]), 0u) << one[0] << " " << one[1];
		EXPECT_EQ(errno, EINVAL);
	}
	uintptr_t at = slub_percpu_alloc(4, 4096);
	EXPECT_NE(at, 0u);
	EXPECT_EQ(at % 4096, 0u);
	EXPECT_EQ(slub_percpu_free(at), 0);
}

TEST_F(alloc, the_area_is_filled_to_its_last_byte)
{
	if (getenv("SLUB_PERCPU_BYTES"))
		GTEST_SKIP() << "the environment says how much there is";
	size_t before = slub_percpu_bytes();
	std::set<uintptr_t> all;
	uintptr_t at;

	while ((at = slub_percpu_alloc(4, 4))) {
		ASSERT_GE(at, (uintptr_t)AREA_BYTES);
		ASSERT_LE(at + 4, (uintptr_t)AREA_BYTES + 65536);
		ASSERT_TRUE(all.insert(at).second);
	}
	EXPECT_EQ(errno, ENOSPC);
	EXPECT_EQ(before + all.size() * 4, 65536u);
	EXPECT_GE(percpu_committed(), (size_t)AREA_BYTES + 65536);
	/* The last word of the last area can be written. */
	*(uint32_t *)(percpu_shared_area() + *all.rbegin()) = 1;
	for (uintptr_t one : all)
		EXPECT_EQ(slub_percpu_free(one), 0);
	EXPECT_EQ(slub_percpu_bytes(), before);
}

/* What a search for something larger passed by is found when it has become large enough. */
TEST_F(alloc, room_that_was_passed_by_is_found)
{
	std::vector<uintptr_t> all;
	uintptr_t at;

	while ((at = slub_percpu_alloc(16, 16)))
		all.push_back(at);
	for (size_t i = 100; i < 104; i++) {
		EXPECT_EQ(slub_percpu_free(all[i]), 0);
		EXPECT_EQ(slub_percpu_alloc(64, 4), i < 103 ? 0u : all[100]);
	}
	EXPECT_EQ(slub_percpu_free(all[100]), 0);
	all.erase(all.begin() + 100, all.begin() + 104);
	for (uintptr_t one : all)
		EXPECT_EQ(slub_percpu_free(one), 0);
}

/* A handler that interrupted the holder of a lock. */
TEST_F(alloc, nothing_is_given_out_under_a_lock)
{
	uintptr_t at = slub_percpu_alloc(4, 4);

	slub_thread.locks_held++;
	errno = 0;
	EXPECT_EQ(slub_percpu_alloc(4, 4), 0u);
	EXPECT_EQ(errno, EDEADLK);
	EXPECT_EQ(slub_percpu_ptr(at, 5), nullptr) << "it has no copy yet";
	slub_thread.locks_held--;
	EXPECT_NE(slub_percpu_ptr(at, 5), nullptr);
	EXPECT_EQ(slub_percpu_free(at), 0);
}

/* A slot that goes takes nothing else along, wherever that lies. */
TEST_F(alloc, offsets_outlive_slots)
{
	std::vector<uintptr_t> all;
	std::vector<uint32_t> slots;
	uintptr_t at;
	uint32_t slot;

	while ((at = slub_percpu_alloc(4, 4)))
		all.push_back(at);
	while ((slot = percpu_alloc_slots(1)))
		slots.push_back(slot);
	for (uint32_t one : slots)
		percpu_free_slots(one, 1);
	for (uintptr_t one : all)
		ASSERT_EQ(slub_percpu_free(one), 0) << one;
}

TEST_F(alloc, absurd_sizes_look_at_nothing)
{
	if (getenv("SLUB_PERCPU_BYTES"))
		GTEST_SKIP() << "the environment says how much there is";
	for (size_t size : { (size_t)PTRDIFF_MAX, (size_t)1 << 62, (size_t)1 << 35, (size_t)1 << 33,
			     (size_t)65537 }) {
		errno = 0;
		EXPECT_EQ(slub_percpu_alloc(size, 4), 0u);
		EXPECT_EQ(errno, ENOSPC);
	}
}

/* An area that is made after an allocation has it, and zero. */
TEST_F(alloc, areas_that_come_later)
{
	uintptr_t at = slub_percpu_alloc(4096, 8);

	EXPECT_EQ(percpu_copies(7), nullptr);
	auto *copy = (char *)slub_percpu_ptr(at, 7);
	ASSERT_NE(copy, nullptr);
	EXPECT_EQ(copy, percpu_copies(7) + at);
	EXPECT_EQ(percpu_area(7), nullptr) << "no lists before it runs";
	EXPECT_LE(percpu_areas_end(), 7u);
	EXPECT_GE(percpu_copies_end(), 8u);
	EXPECT_EQ(harness::first_nonzero(copy, 4096), 4096u);
	memset(copy, 1, 4096);
	percpu_area_make(7);
	EXPECT_EQ(percpu_area(7) + at, copy);
	EXPECT_EQ(harness::first_nonzero(copy, 4096), 0u) << "what was written stays";
	EXPECT_EQ(slub_percpu_free(at), 0);
	EXPECT_EQ(slub_percpu_alloc(4096, 8), at);
	EXPECT_EQ(harness::first_nonzero(copy, 4096), 4096u);
	EXPECT_EQ(slub_percpu_free(at), 0);
}

} /* namespace */
