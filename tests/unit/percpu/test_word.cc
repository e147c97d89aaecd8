/* SPDX-License-Identifier: MIT */
/*
 * core/percpu/word.c under the backend of SLUB_FASTPATH: a thread with an area works on it, one
 * without, or whose CPU is stopped, on the shared area, and sums and drains see both.
 */
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "harness.h"
#include "start.h"

namespace {

class word : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		harness::stay_on_this_cpu();
		start::percpu();
		percpu_enter();
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		at = slub_percpu_alloc(8, 8);
		list = slub_percpu_alloc(sizeof(struct slub_percpu_list), SLUB_PERCPU_LIST_ALIGN);
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		EXPECT_EQ(slub_percpu_list_drain(list), nullptr);
		EXPECT_EQ(slub_percpu_free(at), 0);
		EXPECT_EQ(slub_percpu_free(list), 0);
	}
	int64_t shared() const { return *(int64_t *)(percpu_shared_area() + at); }
	/* As a thread that the kernel has not registered: it stays off the areas. */
	template <typename F> static void without_cpu(F body)
	{
		struct slub_percpu_self had = slub_thread.self;
		uint32_t flags = slub_thread.flags, number = slub_thread.number;

		slub_thread.flags |= THREAD_CHECKED;
		slub_thread.self.base = slub_dummy_base;
		slub_thread.self.rseq = 0;
		slub_thread.self.cid = 0;
		if (percpu_backend == BACKEND_THREAD)
			slub_thread.number = 0;
		body();
		slub_thread.self = had;
		slub_thread.flags = flags;
		slub_thread.number = number;
	}
	uintptr_t at = 0, list = 0;
};

TEST_F(word, a_thread_with_an_area_leaves_the_shared_one_alone)
{
	slub_percpu_add(at, 1);
	(slub_percpu_add)(at, 2);
	EXPECT_EQ((slub_percpu_fetch_add)(at, 4), 3);
	EXPECT_EQ((slub_percpu_cmpxchg)(at, 7, 100), 7);
	EXPECT_EQ((slub_percpu_cmpxchg)(at, 7, 200), 100);
	EXPECT_EQ(slub_percpu_read(at), 100);
	EXPECT_EQ(slub_percpu_sum(at), 100);
	EXPECT_EQ(shared(), 0);
}

TEST_F(word, a_thread_without_one_uses_the_shared_one)
{
	slub_percpu_add(at, 1000);
	without_cpu([&] {
		slub_percpu_add(at, 1);
		int64_t now = slub_percpu_add_return(at, 2);
		EXPECT_EQ(slub_percpu_read(at), now);
		EXPECT_EQ(slub_percpu_cmpxchg(at, now, now + 4), now);
		EXPECT_EQ(slub_percpu_cmpxchg(at, -1, 0), now + 4);
		slub_percpu_add32(at, 8);
	});
	EXPECT_EQ(slub_percpu_sum(at), 1015);
	if (percpu_backend == BACKEND_RSEQ || percpu_backend == BACKEND_THREAD) {
		EXPECT_EQ(shared(), 15);
	}
}

TEST_F(word, a_stopped_cpu_sends_its_threads_to_the_shared_area)
{
	if (percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "other backends stop nothing";
	uint32_t cid = percpu_cid();

	percpu_base_set(cid, NULL);
	slub_percpu_add(at, 5);
	(slub_percpu_add)(at, 6);
	slub_percpu_add(at, 7);
	percpu_base_set(cid, percpu_area(cid));
	EXPECT_EQ(shared(), 18);
	slub_percpu_add(at, 1);
	EXPECT_EQ(shared(), 18);
	EXPECT_EQ(slub_percpu_sum(at), 19);
}

/* The area that is remembered is asked whose it is, each time. */
TEST_F(word, an_area_of_another_cpu_is_not_written)
{
	if (SLUB_CPU_AARCH64 || percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "sequences find their area by the table, or there are none";
	uint32_t other = percpu_cid() + 7;

	percpu_area_make(other);
	char *area = percpu_area(other);
	for (char *wrong : { area, (char *)&percpu_no_area }) {
		slub_thread.self.area = wrong;
		slub_percpu_add(at, 1);
		EXPECT_NE(slub_thread.self.area, wrong) << "found again";
		slub_thread.self.area = wrong;
		slub_percpu_add32(at, 1);
		EXPECT_NE(slub_thread.self.area, wrong);
	}
	EXPECT_EQ(*(int64_t *)(area + at), 0);
	EXPECT_EQ(slub_percpu_sum(at), 4);
}

TEST_F(word, a_thread_remembers_its_area)
{
	if (SLUB_CPU_AARCH64 || percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "sequences find their area by the table, or there are none";
	slub_percpu_add(at, 1);
	EXPECT_EQ(slub_thread.self.area,
		  percpu_area(*(uint32_t *)(slub_thread.self.area + AREA_NUMBER)));
	std::thread([&] {
		EXPECT_EQ(slub_thread.self.area, (char *)&percpu_no_area);
		slub_percpu_add(at, 1);
		EXPECT_NE(slub_thread.self.area, (char *)&percpu_no_area);
	}).join();
	EXPECT_EQ(slub_percpu_sum(at), 2);
}

/* Whatever it calls first. */
TEST_F(word, a_new_thread_gets_its_cpu)
{
	if (percpu_backend > BACKEND_THREAD)
		GTEST_SKIP() << "other backends take any thread";
	void *object[2] = {};
	const std::function<void()> calls[] = {
		[&] { (slub_percpu_pop)(list); },
		[&] { (slub_percpu_push)(list, object, 1); },
		[&] { (slub_percpu_fetch_add)(at, 0); },
		[&] { (slub_percpu_cmpxchg)(at, 0, 0); },
		[&] { (slub_percpu_cmpxchg32)(at, 0, 0); },
		[&] { (slub_percpu_add)(at, 0); },
		[&] { (slub_percpu_add32)(at, 0); },
		[&] { slub_percpu_read(at); },
	};

	for (auto &call : calls)
		std::thread([&] {
			EXPECT_FALSE(slub_thread.flags & THREAD_CHECKED);
			call();
			EXPECT_TRUE(slub_thread.flags & THREAD_CHECKED) << &call - calls;
		}).join();
	EXPECT_EQ(slub_percpu_list_drain(list), object);
}

TEST_F(word, lists_of_threads_without_a_cpu)
{
	void *words[3][2] = {};

	without_cpu([&] {
		bool has_list = slub_percpu_push(list, words[0], 2);

		if (!has_list)		/* backend thread: this thread has none right now */
			return;
		EXPECT_TRUE(slub_percpu_push(list, words[1], 2));
		EXPECT_FALSE(slub_percpu_push(list, words[2], 2));
		EXPECT_EQ(slub_percpu_pop(list), words[1]);
		EXPECT_TRUE(slub_percpu_push(list, words[1], 2));
	});
	/* And a thread with a CPU finds them when its own list is empty. */
	void *all = slub_percpu_list_drain(list);
	if (all) {
		EXPECT_EQ(all, words[1]);
		EXPECT_EQ(*(void **)all, words[0]);
	}
}

/* Each abort may leave the room one more or one less than it is. */
TEST_F(word, aborts_make_no_list_full_or_endless)
{
	if (percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "other backends abort nothing";
	void *words[4][2] = {};
	auto *here = (struct slub_percpu_list *)(percpu_area(percpu_cid()) + list);

	here->room = -3;
	words[0][0] = words;
	EXPECT_TRUE(slub_percpu_push(list, words[0], 1)) << "it is empty";
	EXPECT_EQ(words[0][0], nullptr);
	words[1][0] = words;
	EXPECT_FALSE(slub_percpu_push(list, words[1], 1)) << "it is full";
	EXPECT_EQ(words[1][0], words) << "left alone";
	EXPECT_EQ(slub_percpu_pop(list), words[0]);
	here->room = 5;
	EXPECT_EQ(slub_percpu_pop(list), nullptr);
	EXPECT_TRUE(slub_percpu_push(list, words[0], 2));
	EXPECT_TRUE(slub_percpu_push(list, words[1], 2));
	EXPECT_FALSE(slub_percpu_push(list, words[2], 2)) << "it is full";
	EXPECT_EQ(slub_percpu_list_drain(list), words[1]);
	here->room = -1;
	EXPECT_FALSE(slub_percpu_push(list, words[2], 0)) << "no limit is below 1";
	here->room = 0;
}

TEST_F(word, next_and_ptr)
{
	percpu_area_make(20);
	std::vector<int> seen;

	slub_percpu_for_each(cpu)
		seen.push_back(cpu);
	EXPECT_EQ(seen.back(), SLUB_PERCPU_SHARED);
	EXPECT_EQ(seen[seen.size() - 2], 20);
	EXPECT_EQ(slub_percpu_ptr(at, 20), percpu_area(20) + at);
	EXPECT_EQ(slub_percpu_ptr(at, AREAS_MAX), nullptr);
	EXPECT_EQ(slub_percpu_ptr(percpu_committed(), 20), nullptr);
	*(int64_t *)slub_percpu_ptr(at, 20) = 5;
	*(int64_t *)slub_percpu_ptr(at, SLUB_PERCPU_SHARED) = 6;
	EXPECT_EQ(slub_percpu_sum(at), 11);
	EXPECT_EQ(slub_percpu_sum32(at), 11);
	EXPECT_EQ(slub_percpu_cpus(),
		  percpu_backend == BACKEND_THREAD ? (unsigned)AREAS_MAX : os_cpus_possible());
}

} /* namespace */
