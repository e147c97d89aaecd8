/* SPDX-License-Identifier: MIT */
/* features/growth/group_limit.c: the cgroup's limit changes while the process runs. */
#include <gtest/gtest.h>
#include <thread>

#include "clock.h"
#include "run.h"

static size_t group_bytes;
static int nr_reads;
static void (*while_reading)();

extern "C" size_t os_cgroup_memory_max(const char *, const char *)
{
	nr_reads++;
	if (while_reading)
		while_reading();
	return group_bytes;
}

namespace {

const size_t MiB = 1ul << 20;

class resize : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] {
			group_bytes = 160 * MiB;
			start::option("LIMIT=auto");
			start::page(1024 * MiB, 16 * MiB);
			give(take(8 * MiB));
		});
	}
	void SetUp() override
	{
		set(160 * MiB);
		ASSERT_NEAR(limit(), 142 * MiB, MiB);
	}
	/* It is seen by the next look, a tenth of a second later. */
	static void set(size_t bytes)
	{
		group_bytes = bytes;
		now_ns += 200000000;
		page_group_look(8);
	}
	static size_t limit() { return page_limit_bytes(); }
	static size_t allowed()
	{
		return page_group_room() == SIZE_MAX ? SIZE_MAX :
		       (page_group_room() + page_nr_resident()) * PAGE_BYTES;
	}
};

TEST_F(resize, a_larger_limit_is_seen_when_the_heap_grows)
{
	set(320 * MiB);
	EXPECT_NEAR(limit(), 292 * MiB, MiB);
	EXPECT_NEAR(allowed(), 292 * MiB, MiB);
}

TEST_F(resize, a_smaller_limit_is_seen_too)
{
	set(64 * MiB);
	EXPECT_NEAR(limit(), 52 * MiB, MiB);
	EXPECT_NEAR(allowed(), 52 * MiB, MiB);
}

TEST_F(resize, no_limit_any_more)
{
	set(0);
	EXPECT_EQ(limit(), 0u);
	EXPECT_EQ(allowed(), SIZE_MAX);
	set(160 * MiB);
	EXPECT_NEAR(allowed(), 142 * MiB, MiB);
}

TEST_F(resize, what_cannot_be_read_stays)
{
	set(SIZE_MAX);
	EXPECT_NEAR(limit(), 142 * MiB, MiB);
	EXPECT_NEAR(allowed(), 142 * MiB, MiB);
}

/* Nothing but the request itself may find it. */
TEST_F(resize, a_request_that_would_be_refused_looks_first)
{
	void *first = nullptr, *second = nullptr;
	bool is_zero;

	first = large_alloc(140 * MiB, PAGE_BYTES, &is_zero);
	ASSERT_NE(first, nullptr);
	EXPECT_EQ(large_alloc(40 * MiB, PAGE_BYTES, &is_zero), nullptr);
	group_bytes = 320 * MiB;
	now_ns += 200000000;
	second = large_alloc(40 * MiB, PAGE_BYTES, &is_zero);
	EXPECT_NE(second, nullptr) << "the limit was raised";
	large_free(first);
	if (second)
		large_free(second);
}

TEST_F(resize, ten_looks_a_second_at_the_most)
{
	bool is_zero;

	set(160 * MiB);
	nr_reads = 0;
	for (int i = 0; i < 1000; i++) {
		now_ns += 1000000;
		page_group_look(8);
		EXPECT_EQ(large_alloc(200 * MiB, PAGE_BYTES, &is_zero), nullptr);
	}
	EXPECT_LE(nr_reads, 10);
	EXPECT_GE(nr_reads, 9);
}

/* The buffers are one thread's; and a child has no other that would end it. */
TEST_F(resize, one_thread_reads_at_a_time)
{
	static int in_fork = -1;

	nr_reads = 0;
	while_reading = [] {
		while_reading = nullptr;
		now_ns += 200000000;
		std::thread([] { page_group_look(8); }).join();
		EXPECT_EQ(nr_reads, 1);
		std::thread([] {
			in_fork = harness::in_child([] {
				turn_forks++;
				page_fork_prepare();
				page_fork_finish(true);
				now_ns += 200000000;
				page_group_look(8);
				_exit(nr_reads == 2 ? 0 : 1);
			});
		}).join();
	};
	set(160 * MiB);
	EXPECT_EQ(nr_reads, 1);
	EXPECT_EQ(in_fork, 0);
}

} /* namespace */
