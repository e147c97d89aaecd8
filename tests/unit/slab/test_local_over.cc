/* SPDX-License-Identifier: MIT */
/*
 * core/slab/local_over.c: where numbers are those of CPUs local lists go along with the one thread
 * of a process, and where there are more none begins.
 */
#include <atomic>
#include <sched.h>
#include <thread>

#include "local_lists.h"

/* A kernel before 6.3 (--wrap). */
extern "C" void __real_os_rseq_read(struct os_rseq *rseq);
extern "C" void __wrap_os_rseq_read(struct os_rseq *rseq)
{
	__real_os_rseq_read(rseq);
	rseq->has_mm_cid = false;
}

namespace {

std::vector<int> allowed_cpus()
{
	std::vector<int> all;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set))
			all.push_back(cpu);
	}
	return all;
}

/* Before a fixture binds the thread to one. */
const std::vector<int> cpus = allowed_cpus();

void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

class local_over : public local_lists {
protected:
	void SetUp() override
	{
		local_lists::SetUp();
		if (!IsSkipped() && (!SLUB_CONFIG_SMP || cpus.size() < 2))
			GTEST_SKIP() << "this process uses one CPU alone";
		if (!IsSkipped() && percpu_nr_threads != 1)
			GTEST_SKIP() << "other threads came before";
	}
	/* Half of MANY objects are freed in no order, and the thread goes to another CPU. */
	void leave_lists()
	{
		fill(MANY);
		free_scattered(MANY / 2);
		before = percpu_here();
		wander();
	}
	void wander()
	{
		move_to(sched_getcpu() == cpus[0] ? cpus[1] : cpus[0]);
		free(harness::opaque(malloc(BYTES)));
	}
	size_t lists_of(uint32_t cid) const
	{
		struct local_slabs *slabs = local_slabs_of(cache->nodes[0], cid);
		size_t n = 0;

		for (struct list *i = slabs->slabs.next; i != &slabs->slabs; i = i->next)
			n++;
		return n;
	}
	void all_is_right()
	{
		std::set<void *> distinct(mine.begin(), mine.end());

		EXPECT_EQ(distinct.size(), mine.size());
		locals now(cache);
		slab_shrink_all();
		EXPECT_EQ(in_use(), mine.size());
		EXPECT_EQ(misuse_nr_found(), found);
	}
	uint32_t before = 0;
};

TEST_F(local_over, numbers_are_those_of_cpus)
{
	EXPECT_EQ(percpu_cpu_number, CPU_NUMBER_CPU_ID);
	leave_lists();
	EXPECT_NE(percpu_here(), before);
	EXPECT_GE(lists_of(before), 100u);
}

/* ... and no system call is made for it. */
TEST_F(local_over, a_cache_takes_them_before_it_grows)
{
	leave_lists();
	size_t objects = locals(cache).objects.size(), had = slabs(), lists = lists_of(before);
	fill(objects / 2);
	EXPECT_LE(slabs(), had + 1);
	EXPECT_EQ(nr_barriers, 0);
	EXPECT_LT(lists_of(before), lists);
	fill(objects / 2);
	EXPECT_LE(slabs(), had + lists / 8) << "the lists of this CPU's objects are short of some";
	all_is_right();
}

TEST_F(local_over, those_of_other_cpus_are_looked_for_once)
{
	fill(MANY);
	uint32_t looked = own()->looked;
	EXPECT_EQ(looked, local_wanders + 1);
	leave_lists();
	EXPECT_NE(own()->looked, local_wanders + 1);
	fill(4 * MANY);
	EXPECT_EQ(own()->looked, local_wanders + 1);
	EXPECT_EQ(lists_of(before), 0u);
	all_is_right();
}

/* A free on another CPU takes the slab along, with its list or without one. */
TEST_F(local_over, frees_take_their_slabs_along)
{
	leave_lists();
	size_t lists = lists_of(before);
	free_scattered(MANY / 4);
	EXPECT_LT(lists_of(before), lists / 2);
	EXPECT_GE(lists_of(percpu_here()), 100u);
	EXPECT_EQ(nr_barriers, 0);
	wander();
	free_scattered(MANY / 8);
	EXPECT_GE(lists_of(before), 50u);
	all_is_right();
	free_scattered(0);
	all_is_right();
}

/* A trim finds what was taken along: the CPU is known to have lists. */
TEST_F(local_over, a_trim_finds_them)
{
	leave_lists();
	fill(MANY / 8);
	wander();
	slab_shrink_all();
	EXPECT_EQ(locals(cache).objects.size(), 0u);
	EXPECT_EQ(in_use(), mine.size());
}

/* A program that is silent: what it left behind goes to the slabs, too. */
TEST_F(local_over, those_left_behind_are_emptied)
{
	leave_lists();
	ptrdiff_t most = PTRDIFF_MAX;
	local_empty_some(&most);
	EXPECT_EQ(locals(cache).objects.size(), 0u);
	EXPECT_EQ(nr_barriers, 0);
	all_is_right();
}

/* Marked lists go along, too, and are set right there. */
TEST_F(local_over, a_slab_that_is_whole_by_then_goes)
{
	leave_lists();
	std::vector<void *> out;
	out.swap(mine);
	for (size_t i = 0; i < out.size(); i++) {
		if (i % 2)
			give(cache, out[i]);
		else
			free(out[i]);
		if (i % 1000 == 0)
			wander();
	}
	slab_shrink_all();
	EXPECT_EQ(in_use(), 0u);
	EXPECT_EQ(misuse_nr_found(), found);
}

TEST_F(local_over, they_wander_for_long)
{
	for (int i = 0; i < 200; i++) {
		fill(random.below(MANY / 2));
		free_scattered(random.below(mine.size() + 1));
		wander();
		if (i % 50 == 0)
			locals now(cache);
	}
	EXPECT_EQ(nr_barriers, 0);
	all_is_right();
}

/* Its other threads, if there were some, are no more. */
TEST_F(local_over, a_child_takes_those_of_its_parent)
{
	leave_lists();
	pid_t pid = fork();

	if (!pid) {
		size_t had = slabs();

		fill(MANY / 8);
		bool has_not_grown = slabs() <= had + 1;
		std::set<void *> distinct(mine.begin(), mine.end());
		slab_shrink_all();
		bool is_right = in_use() == mine.size() && distinct.size() == mine.size();
		_exit((has_not_grown ? 0 : 1) | (is_right ? 0 : 2));
	}
	EXPECT_EQ(harness::describe_status(harness::wait_for(pid)), "exit 0");
}

/* The last test: a second thread begins while lists go along; none is lost, and no more begin. */
TEST_F(local_over, a_second_thread_ends_it)
{
	std::atomic<bool> is_over{ false };
	std::thread thread;

	for (int i = 0; i < 60; i++) {
		fill(random.below(MANY / 2));
		if (i == 30) {
			thread = std::thread([&] {
				harness::Random chance{ 5 };
				std::vector<void *> have;

				move_to(cpus[1]);
				while (!is_over || !have.empty()) {
					if (!is_over && have.size() < 4000) {
						have.push_back(harness::opaque(malloc(BYTES)));
						continue;
					}
					std::swap(have[chance.below(have.size())], have.back());
					free(have.back());
					have.pop_back();
				}
			});
		}
		free_scattered(random.below(mine.size() + 1));
		wander();
	}
	is_over = true;
	thread.join();
	EXPECT_EQ(percpu_nr_threads, 2u);
	all_is_right();
	size_t lists = locals(cache).slabs;
	EXPECT_EQ(lists, 0u) << "the trim has emptied them";
	fill(MANY);
	free_scattered(MANY / 4);
	EXPECT_EQ(locals(cache).slabs, 0u);
	all_is_right();
}

} /* namespace */
