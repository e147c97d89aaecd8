/* SPDX-License-Identifier: MIT */
/* core/percpu/thread.c and vfork.c: who may use which area, and children of all kinds. */
#include <atomic>
#include <gtest/gtest.h>
#include <algorithm>
#include <limits.h>
#include <sys/resource.h>
#include <thread>

#include "harness.h"
#include "lists.h"
#include "start.h"

#include "objects.h"
#if defined(__x86_64__)
#include "steps.h"
#endif

extern "C" long slub_vfork_leave(long ret, uintptr_t table, uintptr_t flags);

namespace {

uint32_t slot;

class thread : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		if (slot)
			return;
		start::percpu();
		slot = percpu_alloc_slots(1);
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		/* What lies in a CPU's list is looked for there, by a child too. */
		harness::stay_on_this_cpu();
		percpu_enter();
		percpu_take(slot, 0);
	}
	objects pool{16, false};
};

TEST_F(thread, new_one_has_no_lists_until_it_enters)
{
	if (percpu_backend > BACKEND_THREAD)
		GTEST_SKIP() << "the area of the CPU serves any thread";
	std::thread([&] {
		EXPECT_EQ(percpu_pop(slot, 0), nullptr);
		EXPECT_FALSE(percpu_put(slot, pool.at(1), 4));
		percpu_enter();
		percpu_take(slot, 0);
		EXPECT_TRUE(percpu_put(slot, pool.at(1), 4));
		EXPECT_NE(percpu_take(slot, 0), nullptr);
	}).join();
}

TEST_F(thread, entering_again_changes_nothing)
{
	uint32_t number = slub_thread.number, end = percpu_areas_end();

	for (int i = 0; i < 1000; i++)
		percpu_enter();
	EXPECT_EQ(slub_thread.number, number);
	if (percpu_backend <= BACKEND_THREAD) {
		EXPECT_TRUE(slub_thread.flags & THREAD_CHECKED);
	}
	if (percpu_backend == BACKEND_RSEQ) {
		EXPECT_EQ(slub_thread.self.base, (void **)slub_cpu_base);
		EXPECT_EQ(slub_thread.self.cid, (uintptr_t)slub_cid_offset());
		EXPECT_EQ(slub_thread.self.rseq, (uintptr_t)slub_rseq_offset());
	}
	EXPECT_LE(percpu_areas_end(), std::max<long>(end, sysconf(_SC_NPROCESSORS_CONF)));
}

TEST_F(thread, lists_stay_for_the_next_owner)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	uint32_t number = 0;

	std::thread([&] {
		percpu_enter();
		number = slub_thread.number;
		percpu_take(slot, 0);
		EXPECT_TRUE(percpu_put(slot, pool.chain({ 3, 5 }), 4));
	}).join();
	std::thread([&] {
		percpu_enter();
		EXPECT_EQ(slub_thread.number, number);
		EXPECT_EQ(pool.walk(percpu_take(slot, 0)), (std::vector<long>{ 3, 5 }));
	}).join();
}

TEST_F(thread, sharing_keeps_both_off_the_fast_path)
{
	uintptr_t saved[2];
	void **table = slub_thread.self.base;
	uint32_t flags = slub_thread.flags;

	ASSERT_TRUE(percpu_put(slot, pool.at(0), 4));
	slub_thread.malloc_limit = slub_thread.free_limit = 8;
	percpu_share(saved);
	if (percpu_backend == BACKEND_RSEQ) {
		EXPECT_EQ(slub_thread.malloc_limit, 0u);
		EXPECT_EQ(slub_thread.free_limit, 0u);
		EXPECT_EQ(slub_thread.self.base, (void **)slub_dummy_base);
		percpu_remember();
		EXPECT_EQ(slub_thread.self.area, (char *)&percpu_no_area);
		EXPECT_EQ(percpu_pop(slot, 0), nullptr);
		EXPECT_FALSE(percpu_push(slot, pool.at(1), 0));
		percpu_enter();
		EXPECT_EQ(percpu_pop(slot, 0), nullptr) << "entering must not bring it back";
	} else {
		EXPECT_EQ(slub_thread.malloc_limit, 8u) << "nothing to be kept off";
		EXPECT_EQ(slub_thread.free_limit, 8u);
	}
	percpu_unshare(saved);
	EXPECT_EQ(slub_thread.self.base, table);
	EXPECT_EQ(slub_thread.flags, flags);
	slub_thread.malloc_limit = slub_thread.free_limit = 0;
}

TEST_F(thread, child_of_vfork_runs_no_sequence)
{
	static volatile bool popped, pushed, entered_popped;
	void **table = slub_thread.self.base;
	uint32_t flags = slub_thread.flags;

	ASSERT_TRUE(percpu_put(slot, pool.at(0), 4));
	pid_t child = vfork();
	if (child == 0) {
		popped = percpu_pop(slot, 0) != nullptr;
		pushed = percpu_push(slot, pool.at(1), 0);
		percpu_enter();
		entered_popped = percpu_pop(slot, 0) != nullptr;
		_exit(0);
	}
	ASSERT_GT(child, 0);
	EXPECT_EQ(harness::wait_for(child), 0);
	EXPECT_EQ(slub_thread.self.base, table);
	EXPECT_EQ(slub_thread.flags, flags);
	if (percpu_backend == BACKEND_RSEQ) {
		EXPECT_FALSE(popped);
		EXPECT_FALSE(pushed);
		EXPECT_FALSE(entered_popped);
	}
}

TEST_F(thread, failing_vfork_sets_errno)
{
	EXPECT_EQ(harness::in_child([] {
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_NPROC, &none);
		if (setuid(65534))
			_exit(0);	/* not root: the limit may not hold */
		errno = 0;
		pid_t child = vfork();
		if (child == 0)
			_exit(0);
		if (child > 0 || errno != EAGAIN)
			_exit(1);
	}), 0);
}

TEST_F(thread, what_vfork_returns)
{
	auto table = (uintptr_t)slub_thread.self.base, flags = (uintptr_t)slub_thread.flags;

	EXPECT_EQ(slub_vfork_leave(7, table, flags), 7);
	EXPECT_EQ(slub_vfork_leave(0, table, flags), 0);
	errno = 0;
	EXPECT_EQ(slub_vfork_leave(-EAGAIN, table, flags), -1);
	EXPECT_EQ(errno, EAGAIN);
}

TEST_F(thread, the_cpu_that_is_asked_for_is_this_one)
{
	std::thread([] {
		for (uint32_t cpu = 0; cpu < 64; cpu++) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET(cpu, &set);
			if (sched_setaffinity(0, sizeof(set), &set) == 0) {
				EXPECT_EQ(os_cpu_current(), cpu);
			}
		}
	}).join();
}

#if defined(SYS_rseq)
/* By its program: the kernel stops telling it its CPU, and no sequence may run. */
TEST_F(thread, one_whose_registration_has_ended_leaves)
{
	if (percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "the others need none";
	std::thread([] {
		char *area = (char *)__builtin_thread_pointer() + slub_rseq_offset();
		bool ended = false;

		percpu_enter();
		EXPECT_EQ(slub_thread.self.base, (void **)slub_cpu_base);
		percpu_remember();
		EXPECT_NE(slub_thread.self.area, (char *)&percpu_no_area);
		for (long bytes : { 32, 28, 33, 64 })
			ended |= !syscall(SYS_rseq, area, bytes, 1, RSEQ_SIGNATURE);
		if (!ended)
			return;
		percpu_enter();
		EXPECT_EQ(slub_thread.self.base, (void **)slub_dummy_base);
		EXPECT_EQ(slub_thread.self.area, (char *)&percpu_no_area);
	}).join();
}
#endif

TEST_F(thread, forked_child_has_the_lists)
{
	if (!start::can_empty_lists())
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	objects more(8, false);
	struct collection all;

	percpu_take(slot, 0);
	ASSERT_TRUE(percpu_put(slot, more.chain({ 2, 4, 6 }), 4));
	percpu_fork_prepare();
	EXPECT_FALSE(percpu_collect_begin(&all, COLLECT_USED));
	pid_t child = fork();
	percpu_fork_finish(child == 0);
	if (child == 0) {
		/* It may be on another CPU than the parent was: look at all lists. */
		size_t n = 0;

		if (!percpu_collect_begin(&all, COLLECT_USED))
			_exit(2);
		while (percpu_collect(&all))
			for (uint32_t i = 0; i < all.nr_lists; i++)
				if (collection_slot(&all, i) == slot)
					n += more.walk(all.lists[i].main.head).size();
		percpu_collect_end();
		percpu_enter();
		bool works = percpu_put(slot, more.at(1), 2) &&
			     percpu_push(slot, more.at(0), 0);
		_exit(n == 3 && works && slub_thread.locks_held == 0 ? 0 : 1);
	}
	EXPECT_EQ(slub_thread.locks_held, 0u);
	int status = harness::wait_for(child);
	EXPECT_EQ(status, 0) << harness::describe_status(status);
	EXPECT_TRUE(percpu_collect_begin(&all, COLLECT_USED));
	percpu_collect_end();
	percpu_take(slot, 0);
}

TEST_F(thread, numbers_of_other_threads_are_free_in_the_child)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	if (SLUB_CONFIG_PLAIN_C)
		GTEST_SKIP() << "ThreadSanitizer's runtime allows no thread in such a child";
	if (harness::is_emulated())
		GTEST_SKIP() << "an emulator's child has no threads but one";
	std::atomic<uint32_t> others{0};
	std::atomic<bool> stop{false};
	std::thread other([&] {
		percpu_enter();
		others = slub_thread.number;
		while (!stop)
			std::this_thread::yield();
	});

	while (!others)
		std::this_thread::yield();
	uint32_t mine = slub_thread.number, third = 0;
	auto owner = [](uint32_t number) { return *area_owner_busy(percpu_area(number - 1)); };
	percpu_fork_prepare();
	pid_t child = fork();
	percpu_fork_finish(child == 0);
	if (child == 0) {
		uint32_t got = 0;
		bool has_owners = owner(mine) == &slub_thread.busy && !owner(others);

		std::thread([&] { percpu_enter(); got = slub_thread.number; }).join();
		_exit(slub_thread.number == mine && got == others && has_owners ? 0 : 1);
	}
	int status = harness::wait_for(child);
	EXPECT_EQ(status, 0) << harness::describe_status(status);
	/* In the parent it goes on. */
	EXPECT_NE(owner(others), nullptr);
	std::thread([&] { percpu_enter(); third = slub_thread.number; }).join();
	EXPECT_NE(third, mine);
	EXPECT_NE(third, others);
	stop = true;
	other.join();
}

/* Where other CPUs could not be stopped, a child does not begin to. */
/* Two threads of the child at once get numbers, and neither gets that of the one that forked. */
TEST_F(thread, the_number_that_forks_is_taken_in_the_child)
{
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	if (SLUB_CONFIG_PLAIN_C)
		GTEST_SKIP() << "ThreadSanitizer's runtime allows no thread in such a child";
	int status = -1;

	std::thread([&] {
		percpu_enter();
		uint32_t mine = slub_thread.number, got[2] = {};

		EXPECT_GT(mine, 1u);
		percpu_fork_prepare();
		pid_t child = fork();
		percpu_fork_finish(child == 0);
		if (child == 0) {
			std::thread([&] {
				percpu_enter();
				got[0] = slub_thread.number;
				std::thread([&] {
					percpu_enter();
					got[1] = slub_thread.number;
				}).join();
			}).join();
			_exit(got[0] && got[1] && got[0] != mine && got[1] != mine ? 0 : 1);
		}
		status = harness::wait_for(child);
	}).join();
	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

TEST_F(thread, a_child_stops_cpus_if_its_parent_could)
{
	bool can = percpu_can_stop;

	for (bool could : { false, can }) {
		percpu_can_stop = could;
		percpu_fork_prepare();
		pid_t child = fork();
		percpu_fork_finish(child == 0);
		if (child == 0)
			_exit(percpu_can_stop == could ? 0 : 1);
		EXPECT_EQ(harness::wait_for(child), 0) << could;
	}
	percpu_can_stop = can;
}

#if defined(__x86_64__)

/* In new threads: @what at instruction 0, 1, ... of percpu_enter(), then @check. */
void at_each_instruction(const std::function<void()> &what, const std::function<void()> &check)
{
	unsigned steps = steps::for_each([&](unsigned step) {
		bool done = false;

		std::thread([&] {
			unsigned left = step;

			steps::run(percpu_enter, [&] {
				if (left--)
					return true;
				done = true;
				what();
				return false;
			});
			check();
		}).join();
		return done && !testing::Test::HasFailure();
	});
	EXPECT_GT(steps, 20u);
}

/* How many areas are this thread's. */
size_t nr_mine()
{
	size_t nr = 0;

	for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
		nr += percpu_area(cid) && *area_owner_busy(percpu_area(cid)) == &slub_thread.busy;
	return nr;
}

TEST_F(thread, a_handler_that_enters_as_well_takes_no_second_number)
{
	STEPS_OR_SKIP();
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	at_each_instruction([] {
		if (!slub_thread.locks_held)
			percpu_enter();
	}, [] {
		ASSERT_EQ(nr_mine(), 1u);
		EXPECT_EQ(*area_owner_busy(percpu_area(slub_thread.number - 1)),
			  &slub_thread.busy);
	});
	EXPECT_EQ(nr_mine(), 1u);
}

TEST_F(thread, a_number_that_is_being_taken_is_not_anothers_in_the_child)
{
	STEPS_OR_SKIP();
	if (percpu_backend != BACKEND_THREAD)
		GTEST_SKIP() << "backend thread only";
	pid_t child = -1;

	at_each_instruction([&] {
		percpu_fork_prepare();
		child = fork();
		percpu_fork_finish(child == 0);
	}, [&] {
		uint32_t others = 0;

		if (child > 0) {
			int status = harness::wait_for(child);

			EXPECT_EQ(status, 0) << harness::describe_status(status);
			child = -1;
		}
		if (child)
			return;
		alarm(20);
		std::thread([&] { percpu_enter(); others = slub_thread.number; }).join();
		_exit(slub_thread.number != others && slub_thread.number && others &&
		      nr_mine() == 1 && slub_thread.locks_held == 0 ? 0 : 1);
	});
}

#endif

} /* namespace */
