/* SPDX-License-Identifier: MIT */
/*
 * core/percpu/collect.c: the order of the stop-a-CPU protocol.  The test's own barriers look at
 * what holds at that very moment, for a thread that is two instructions late is hard to come by.
 */
#include <gtest/gtest.h>

#include "start.h"

#include "objects.h"

static int barriers_rseq, barriers_all, barrier_result;
static uint32_t stopped_cid;
static uint32_t slot;
static void *base_seen, *map_seen, *head_seen;

static int barrier(int *count)
{
	++*count;
	base_seen = slub_cpu_base[stopped_cid];
	map_seen = slub_map_bases[stopped_cid];
	head_seen = area_half(percpu_area(stopped_cid), slot)->head;
	return barrier_result;
}

extern "C" bool os_membarrier_register(void)
{
	return true;
}

extern "C" int os_barrier_rseq(void)
{
	return barrier(&barriers_rseq);
}

extern "C" int os_barrier(void)
{
	return barrier(&barriers_all);
}

namespace {

class stop : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		if (slot)
			return;
		start::percpu();
		slot = percpu_alloc_slots(1);
	}
	/* An area that no thread is on, with something in both of its lists. */
	void SetUp() override
	{
		if (SLUB_CONFIG_PLAIN_C || !start::has_wanted_backend() ||
		    percpu_backend > BACKEND_THREAD)
			GTEST_SKIP() << "no CPU is stopped under this backend";
		stopped_cid = 60;
		percpu_area_make(stopped_cid);
		area = percpu_area(stopped_cid);
		area_half(area, slot)->head = pool.chain({ 1, 2, 3 });
		area_half(area, slot)->room = 5;
		area_half(area, slot + SLOT_SPARE)->head = pool.chain({ 7, 8 });
		/* Somebody is its owner, and in no operation. */
		if (percpu_backend == BACKEND_THREAD)
			*area_owner_busy(area) = &busy;
		barriers_rseq = barriers_all = barrier_result = 0;
		ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	}
	/* Also after a test that skipped itself. */
	void TearDown() override { percpu_collect_end(); }
	objects pool{10, false};
	struct collection all;
	char *area;
	uint32_t busy = 0;
};

/* One barrier for all of them, and each is empty then. */
TEST_F(stop, several_are_stopped_together)
{
	objects others{2 * COLLECT_CPUS, false};
	uint32_t first = stopped_cid - 40, nr = 2 * COLLECT_CPUS;
	std::vector<long> seen;

	for (uint32_t i = 0; i < nr; i++) {
		percpu_area_make(first + i);
		char *other = percpu_area(first + i);
		area_half(other, slot)->head = others.chain({ (size_t)i });
		area_half(other, slot + SLOT_SPARE)->head = nullptr;
		if (percpu_backend == BACKEND_THREAD)
			*area_owner_busy(other) = &busy;
	}
	percpu_collect_end();
	ASSERT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	/* As if so few caches existed: a CPU's share of the collection area is small. */
	all.start = slot;
	all.nr_slots = 1;
	all.next = first;
	all.end = first + nr;
	base_seen = nullptr;
	while (percpu_collect(&all)) {
		EXPECT_EQ(all.nr_lists, (uint32_t)COLLECT_CPUS);
		for (uint32_t i = 0; i < all.nr_lists; i++)
			for (long object : others.walk(all.lists[i].main.head))
				seen.push_back(object);
	}
	EXPECT_TRUE(all.is_whole);
	EXPECT_EQ(barriers_rseq + barriers_all, 2);
	EXPECT_EQ(base_seen, slub_dummy_base[0]);
	EXPECT_EQ(head_seen, others.at(40)) << "moved before the barrier";
	ASSERT_EQ(seen.size(), nr);
	for (uint32_t i = 0; i < nr; i++) {
		EXPECT_EQ(seen[i], (long)i);
		/* In the build for one CPU all entries name the same area. */
		if (SLUB_CONFIG_SMP || percpu_backend != BACKEND_RSEQ) {
			EXPECT_EQ(slub_cpu_base[first + i], percpu_area(first + i));
		}
		EXPECT_EQ(area_half(percpu_area(first + i), slot)->head, nullptr);
	}
	/* Now nothing is in them, and nobody is stopped for that. */
	all.next = first;
	EXPECT_FALSE(percpu_collect(&all));
	EXPECT_EQ(barriers_rseq + barriers_all, 2);
}

TEST_F(stop, base_then_barrier_then_lists)
{
	struct slot *got = collect_cpu(&all, stopped_cid);

	ASSERT_NE(got, nullptr);
	EXPECT_EQ(percpu_backend == BACKEND_RSEQ ? barriers_rseq : barriers_all, 1);
	EXPECT_EQ(base_seen, slub_dummy_base[0]) << "new sequences went on";
	if (percpu_backend == BACKEND_RSEQ) {
		EXPECT_EQ(map_seen, slub_dummy_base[0]) << "free() went on";
		EXPECT_EQ(slub_map_bases[stopped_cid], area);
	}
	EXPECT_EQ(head_seen, pool.at(1)) << "moved before old sequences were stopped";
	EXPECT_EQ(slub_cpu_base[stopped_cid], area);
	got += slot / SLOT_BYTES;
	EXPECT_EQ(pool.walk(got->main.head), (std::vector<long>{ 1, 2, 3 }));
	EXPECT_EQ(pool.walk(got->spare.head), (std::vector<long>{ 7, 8 }));
	EXPECT_EQ(area_half(area, slot)->head, nullptr);
	EXPECT_EQ(area_half(area, slot)->room, 0);
	EXPECT_EQ(area_half(area, slot + SLOT_SPARE)->head, nullptr);
	EXPECT_TRUE(area_is_live(area));
}

TEST_F(stop, without_the_barrier_nothing_is_moved)
{
	barrier_result = -1;
	EXPECT_EQ(collect_cpu(&all, stopped_cid), nullptr);
	EXPECT_FALSE(all.is_whole);
	EXPECT_EQ(slub_cpu_base[stopped_cid], area) << "the CPU goes on";
	EXPECT_EQ(pool.walk(area_half(area, slot)->head), (std::vector<long>{ 1, 2, 3 }));
	EXPECT_EQ(area_half(area, slot)->room, 5);
	EXPECT_EQ(pool.walk(area_half(area, slot + SLOT_SPARE)->head),
		  (std::vector<long>{ 7, 8 }));
}

TEST_F(stop, owner_that_stays_busy_keeps_its_lists)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	busy = 1;
	EXPECT_EQ(collect_cpu(&all, stopped_cid), nullptr);
	EXPECT_FALSE(all.is_whole);
	EXPECT_EQ(slub_cpu_base[stopped_cid], area);
	EXPECT_EQ(pool.walk(area_half(area, slot)->head), (std::vector<long>{ 1, 2, 3 }));
	busy = 0;
	EXPECT_NE(collect_cpu(&all, stopped_cid), nullptr);
}

/* The barrier costs every CPU of the process: none where no other thread is at it. */
TEST_F(stop, only_owners_that_are_others_need_the_barrier)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	for (uint32_t *owner : { (uint32_t *)nullptr, (uint32_t *)&slub_thread.busy, &busy }) {
		area_half(area, slot)->head = pool.chain({ 1, 2, 3 });
		*area_owner_busy(area) = owner;
		EXPECT_NE(collect_cpu(&all, stopped_cid), nullptr);
		EXPECT_EQ(barriers_all, owner == &busy ? 1 : 0);
		EXPECT_TRUE(all.is_whole);
	}
}

/* Where membarrier(2) fails: nobody has to be waited for but another live thread. */
TEST_F(stop, without_membarrier_lists_of_no_other_thread_are_moved)
{
	percpu_can_stop = false;
	EXPECT_EQ(collect_cpu(&all, stopped_cid), nullptr) << "its owner may be in an operation";
	EXPECT_EQ(pool.walk(area_half(area, slot)->head), (std::vector<long>{ 1, 2, 3 }));
	if (percpu_backend == BACKEND_THREAD) {
		*area_owner_busy(area) = &slub_thread.busy;
		struct slot *own = collect_cpu(&all, stopped_cid);
		ASSERT_NE(own, nullptr);
		EXPECT_EQ(pool.walk(own[slot / SLOT_BYTES].main.head),
			  (std::vector<long>{ 1, 2, 3 }));

		area_half(area, slot)->head = pool.chain({ 4, 5 });
		*area_owner_busy(area) = nullptr;
		struct slot *left = collect_cpu(&all, stopped_cid);
		ASSERT_NE(left, nullptr);
		EXPECT_EQ(pool.walk(left[slot / SLOT_BYTES].main.head),
			  (std::vector<long>{ 4, 5 }));
	}
	percpu_can_stop = true;
	EXPECT_EQ(barriers_rseq + barriers_all, 0);
}

} /* namespace */
