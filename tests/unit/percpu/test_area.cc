/* SPDX-License-Identifier: MIT */
/* percpu/area.c: areas are made once and start empty; slots run out in order. */
#include <gtest/gtest.h>
#include <thread>

#include <climits>
#include <map>
#include <sys/mman.h>

#include "harness.h"
#include "start.h"

namespace {

/* What the library maps until nothing more is to be had, and what it gives back. */
long maps_left = LONG_MAX;
bool os_map_fails;
char *mapped_last;
std::map<char *, size_t> unmapped;	/* to how many bytes */

} /* namespace */

/* The linker sends the library's calls here (--wrap). */
extern "C" {

int __real_os_map_at(void *start, size_t bytes);
void *__real_os_map(size_t bytes);
void __real_os_unreserve(void *start, size_t bytes);

int __wrap_os_map_at(void *start, size_t bytes)
{
	if (maps_left-- <= 0)
		return -ENOMEM;
	mapped_last = (char *)start;
	return __real_os_map_at(start, bytes);
}

void *__wrap_os_map(size_t bytes)
{
	return os_map_fails ? nullptr : __real_os_map(bytes);
}

void __wrap_os_unreserve(void *start, size_t bytes)
{
	unmapped[(char *)start] = bytes;
	__real_os_unreserve(start, bytes);
}

} /* extern "C" */

namespace {

bool is_mapped(char *place)
{
	unsigned char resident;

	return mincore(place, 4096, &resident) == 0;
}

class area : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::option("CPUS=128"), start::percpu(); });
	}
};

TEST_F(area, backend_is_one_that_was_asked_for)
{
	EXPECT_NE(percpu_backend, BACKEND_NONE);
	EXPECT_TRUE(start::has_wanted_backend());
	EXPECT_EQ(percpu_cpu_number == CPU_NUMBER_THREAD, percpu_backend == BACKEND_THREAD);
}

TEST_F(area, tables_name_the_dummy_until_an_area_is_made)
{
	void *dummy = slub_dummy_base[0];

	EXPECT_EQ(percpu_area(70), nullptr);
	EXPECT_EQ(slub_cpu_base[70], dummy);
	percpu_area_make(70);
	char *made = percpu_area(70);
	ASSERT_NE(made, nullptr);
	EXPECT_EQ(slub_cpu_base[70], made);
	EXPECT_EQ(slub_dummy_base[70], dummy);
	if (percpu_backend == BACKEND_RSEQ) {
		EXPECT_EQ(slub_map_bases[70], made);
	}
	EXPECT_EQ(percpu_areas_end(), 71u);
	EXPECT_EQ(percpu_area(69), nullptr);
	EXPECT_EQ(harness::first_nonzero(dummy, AREA_BYTES), (size_t)AREA_BYTES);
}

/* cpu_id of a thread that is not registered is -1 or -2. */
TEST_F(area, tables_name_the_dummy_before_their_first_entry)
{
	void *dummy = slub_dummy_base[0];

	for (void **table : { slub_dummy_base, slub_cpu_base, slub_map_bases }) {
		EXPECT_EQ(*(table - 1), dummy);
		EXPECT_EQ(*(table - 2), dummy);
	}
}

TEST_F(area, fresh_area_is_empty_and_live)
{
	percpu_area_make(7);
	char *made = percpu_area(7);
	ASSERT_NE(made, nullptr);
	uint32_t number = *(uint32_t *)(made + AREA_NUMBER);
	EXPECT_NE(*(uint32_t *)(made + AREA_LIVE), 0u);
	EXPECT_EQ(number, percpu_backend == BACKEND_RSEQ ? 7u : AREA_NUMBER_NONE);
	*(uint32_t *)(made + AREA_LIVE) = 0;
	*(uint32_t *)(made + AREA_NUMBER) = 0;
	EXPECT_EQ(harness::first_nonzero(made, AREA_BYTES), (size_t)AREA_BYTES);
	*(uint32_t *)(made + AREA_LIVE) = 1;
	*(uint32_t *)(made + AREA_NUMBER) = number;
}

TEST_F(area, making_one_again_keeps_it)
{
	percpu_area_make(8);
	char *made = percpu_area(8);
	area_half(made, 320)->room = 42;
	percpu_area_make(8);
	EXPECT_EQ(percpu_area(8), made);
	EXPECT_EQ(area_half(made, 320)->room, 42);
	area_half(made, 320)->room = 0;
}

TEST_F(area, numbers_beyond_the_table_have_none)
{
	for (uint32_t cid : { (uint32_t)AREAS_MAX, AREAS_MAX + 1u, UINT32_MAX }) {
		percpu_area_make(cid);
		EXPECT_EQ(percpu_area(cid), nullptr) << cid;
	}
	EXPECT_LE(percpu_areas_end(), (uint32_t)AREAS_MAX);
}

TEST_F(area, areas_do_not_overlap)
{
	percpu_area_make(20);
	percpu_area_make(21);
	EXPECT_GE(percpu_area(21) - percpu_area(20), AREA_BYTES);
}

/* They are no CPU's, whatever its number, and as large as any when they have grown. */
TEST_F(area, shared_and_collection_area_lie_before_the_first)
{
	percpu_area_make(20);
	percpu_area_make(21);
	ptrdiff_t stride = percpu_area(21) - percpu_area(20);
	char *first = percpu_area(20) - 20 * stride;
	EXPECT_LE((char *)percpu_collect_area() + AREA_BYTES, percpu_shared_area());
	EXPECT_LE(percpu_shared_area() + stride, first);
}

/* Backend lock: whichever is not held at a fork may be held in the child for ever. */
TEST_F(area, fork_holds_the_lock_of_each)
{
	percpu_area_make(0);
	percpu_area_make(20);
	if (percpu_backend != BACKEND_LOCK)
		GTEST_SKIP() << "areas have no lock under this backend";
	lock_fork_begin();
	percpu_fork_prepare();
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
		if (percpu_area(cid)) {
			EXPECT_TRUE(lock_is_mine(area_own_lock(percpu_area(cid)))) << cid;
		}
	percpu_fork_finish(false);
	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
		if (percpu_area(cid)) {
			EXPECT_FALSE(lock_is_mine(area_own_lock(percpu_area(cid)))) << cid;
		}
}

TEST_F(area, many_threads_make_one)
{
	std::vector<std::thread> threads;
	char *seen[8] = {};

	for (auto &place : seen)
		threads.emplace_back([&place] {
			percpu_area_make(50);
			place = percpu_area(50);
		});
	for (auto &thread : threads)
		thread.join();
	for (char *place : seen)
		EXPECT_EQ(place, percpu_area(50));
	EXPECT_NE(seen[0], nullptr);
}

int commit(size_t bytes)
{
	lock_acquire(&area_lock);
	int err = percpu_commit(bytes);
	lock_release(&area_lock);
	return err;
}

/* All areas are as long, or none is. */
TEST_F(area, growth_that_fails_halfway_is_undone)
{
	size_t from = percpu_committed(), to = from + 65536;
	std::vector<char *> all = { percpu_shared_area() };

	for (uint32_t cid : { 30u, 31u, 32u })
		percpu_area_make(cid);
	for (uint32_t cid = 0; cid < percpu_copies_end(); cid++)
		if (percpu_copies(cid))
			all.push_back(percpu_copies(cid));
	ASSERT_GT(all.size(), 3u);
	for (size_t nr = 0; nr < all.size(); nr++) {
		std::map<char *, size_t> grown;

		for (size_t i = 0; i < nr; i++)
			grown[all[i] + from] = to - from;
		unmapped.clear();
		maps_left = (long)nr;
		EXPECT_EQ(commit(to), -ENOMEM) << nr;
		EXPECT_EQ(unmapped, grown) << nr;
		EXPECT_EQ(percpu_committed(), from);
		for (char *area : all)
			EXPECT_FALSE(is_mapped(area + from)) << nr;
	}
	maps_left = LONG_MAX;
	EXPECT_EQ(commit(to), 0);
	EXPECT_EQ(percpu_committed(), to);
	for (char *area : all) {
		EXPECT_EQ(harness::first_nonzero(area + from, 65536), 65536u);
		area[to - 1] = 1;
	}
	EXPECT_EQ(commit(from), 0) << "never less";
	EXPECT_EQ(percpu_committed(), to);
}

/* A start without memory says so, leaves nothing, and may be tried again. */
TEST_F(area, a_start_that_fails_can_be_tried_again)
{
	EXPECT_EQ(harness::in_child([] {
		int failed = 0;

		percpu_exit();
		maps_left = 0;
		failed |= percpu_init() != -ENOMEM || percpu_shared_area() ? 1 : 0;
		maps_left = LONG_MAX;
		os_map_fails = true;
		failed |= percpu_init() != -ENOMEM || percpu_shared_area() ? 2 : 0;
		failed |= is_mapped(mapped_last) ? 4 : 0;
		os_map_fails = false;
		failed |= percpu_init() || !percpu_shared_area() ? 8 : 0;
		failed |= is_mapped(mapped_last) ? 0 : 16;
		failed |= percpu_init() ? 32 : 0;
		_exit(failed);
	}), 0);
}

TEST_F(area, slots_are_given_once_until_there_are_none)
{
	uint32_t before = percpu_slots_end();
	uint32_t left = (AREA_BYTES - before) / SLOT_BYTES;

	EXPECT_GE(before, (uint32_t)SLOT_BYTES);
	EXPECT_EQ(percpu_alloc_slots(left + 1), 0u);
	EXPECT_EQ(percpu_slots_end(), before);
	EXPECT_EQ(percpu_alloc_slots(2), before);
	EXPECT_EQ(percpu_alloc_slots(1), before + 2 * SLOT_BYTES);
	for (uint32_t i = 3; i < left; i++)
		ASSERT_EQ(percpu_alloc_slots(1), before + i * SLOT_BYTES);
	EXPECT_EQ(percpu_alloc_slots(1), 0u);
	EXPECT_EQ(percpu_slots_end(), (uint32_t)AREA_BYTES);
}

} /* namespace */
