/* SPDX-License-Identifier: MIT */
/* Promise: per-CPU lists lose nothing and give nothing twice, whoever pushes, pops and drains. */
#include <atomic>
#include <csignal>
#include <sched.h>
#include <set>
#include <sys/time.h>
#include <thread>

#include "api.h"

namespace {

struct node {
	void *link;
	uint64_t id;
	std::atomic<int> owners{ 0 };
};

class percpu_list : public testing::Test {
protected:
	uintptr_t list = slub_percpu_alloc(sizeof(struct slub_percpu_list),
					   SLUB_PERCPU_LIST_ALIGN);

	void SetUp() override { ASSERT_NE(list, 0u); }
	void TearDown() override
	{
		EXPECT_EQ(slub_percpu_list_drain(list), nullptr);
		EXPECT_EQ(slub_percpu_free(list), 0);
	}
	static std::set<void *> chain(void *head)
	{
		std::set<void *> out;

		for (; head; head = *static_cast<void **>(head))
			EXPECT_TRUE(out.insert(head).second) << "twice in a chain";
		return out;
	}
};

TEST_F(percpu_list, last_in_first_out)
{
	std::vector<node> nodes(20);

	harness::one_cpu stays;
	EXPECT_EQ(slub_percpu_pop(list), nullptr);
	for (auto &one : nodes)
		EXPECT_TRUE(slub_percpu_push(list, &one, 100));
	for (size_t i = nodes.size(); i-- > 0;)
		EXPECT_EQ(slub_percpu_pop(list), &nodes[i]);
	EXPECT_EQ(slub_percpu_pop(list), nullptr);
}

TEST_F(percpu_list, a_full_list_leaves_the_object_alone)
{
	std::vector<node> nodes(40);

	harness::one_cpu stays;
	for (uint32_t limit : { 1u, 2u, 7u, 30u }) {
		size_t pushed = 0;

		for (auto &one : nodes) {
			one.link = &one;
			if (!slub_percpu_push(list, &one, limit)) {
				EXPECT_EQ(one.link, &one);
				break;
			}
			pushed++;
		}
		EXPECT_EQ(pushed, limit);
		EXPECT_EQ(chain(slub_percpu_list_drain(list)).size(), limit);
	}
	EXPECT_FALSE(slub_percpu_push(list, &nodes[0], 0));
	EXPECT_TRUE(slub_percpu_push(list, &nodes[0], 1u << 30));
	EXPECT_EQ(slub_percpu_pop(list), &nodes[0]);
}

TEST_F(percpu_list, drain_takes_from_every_cpu)
{
	std::vector<node> nodes(64);
	std::set<void *> want;
	unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);

	for (size_t i = 0; i < nodes.size(); i++) {
		std::thread([&, i] {
			cpu_set_t one;

			CPU_ZERO(&one);
			CPU_SET(i % cpus, &one);
			sched_setaffinity(0, sizeof(one), &one);
			while (!slub_percpu_push(list, &nodes[i], 1000))
				;
		}).join();
		want.insert(&nodes[i]);
	}
	EXPECT_EQ(chain(slub_percpu_list_drain(list)), want);
	EXPECT_EQ(slub_percpu_list_drain(list), nullptr);
}

/* A list that was freed with the allocation is a new one when the offset comes back. */
TEST_F(percpu_list, is_empty_when_allocated_anew)
{
	node one;
	uintptr_t other = slub_percpu_alloc(sizeof(struct slub_percpu_list), 32);

	harness::one_cpu stays;
	EXPECT_TRUE(slub_percpu_push(other, &one, 10));
	EXPECT_EQ(slub_percpu_free(other), 0);
	EXPECT_EQ(slub_percpu_alloc(sizeof(struct slub_percpu_list), 32), other);
	EXPECT_EQ(slub_percpu_pop(other), nullptr);
	EXPECT_EQ(slub_percpu_free(other), 0);
}

/* ---- the storm ---- */

std::atomic<uint64_t> handled;
uintptr_t handler_list;
/* What could not be put back: who drains has stopped the CPU, perhaps this very thread. */
std::atomic<node *> left_over[4000];
std::atomic<unsigned> nr_left_over;

/* Takes one and puts it back. */
void on_signal(int)
{
	int saved = errno;
	auto *one = static_cast<node *>(slub_percpu_pop(handler_list));

	handled++;
	if (one && !slub_percpu_push(handler_list, one, 1u << 20))
		left_over[nr_left_over++] = one;
	errno = saved;
}

struct storm {
	uintptr_t list;
	std::vector<node> nodes;
	std::atomic<uint64_t> wrong{ 0 }, popped{ 0 }, drained{ 0 };

	explicit storm(uintptr_t l, size_t n) : list(l), nodes(n)
	{
		for (size_t i = 0; i < n; i++)
			nodes[i].id = i;
	}
	void own(node *one)
	{
		wrong += one->owners.fetch_add(1) != 0;
		wrong += one < nodes.data() || one >= nodes.data() + nodes.size();
	}
	void give(std::vector<node *> &mine)
	{
		node *one = mine.back();

		one->owners.fetch_sub(1);
		if (slub_percpu_push(list, one, 1u << 20)) {
			mine.pop_back();
			return;
		}
		one->owners.fetch_add(1);
	}
	void work(unsigned t, size_t rounds, std::vector<node *> &mine)
	{
		harness::Random random(t + 7);

		for (size_t i = 0; i < rounds; i++) {
			if (i % 5000 == 0) {
				cpu_set_t one;

				CPU_ZERO(&one);
				CPU_SET((t + i / 5000) % (unsigned)sysconf(_SC_NPROCESSORS_ONLN),
					&one);
				sched_setaffinity(0, sizeof(one), &one);
			}
			if (!mine.empty() && random.below(2)) {
				give(mine);
			} else if (auto *one = static_cast<node *>(slub_percpu_pop(list))) {
				own(one);
				mine.push_back(one);
				popped++;
			}
		}
	}
	void drain(std::vector<node *> &mine)
	{
		auto *one = static_cast<node *>(slub_percpu_list_drain(list));

		while (one) {
			auto *next = static_cast<node *>(one->link);

			own(one);
			mine.push_back(one);
			drained++;
			one = next;
		}
	}
};

TEST_F(percpu_list, storm_of_pushes_pops_and_drains)
{
	const unsigned nr = 8;
	storm s(list, 4000);
	std::vector<std::vector<node *>> mine(nr + 1);
	std::vector<std::thread> threads;
	std::atomic<bool> stop{ false };
	bool with_signals = api::backend() == api::RSEQ || api::backend() == api::TID;
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = {};
	struct sigaction action = {}, old;

	for (auto &one : s.nodes) {
		one.owners = 1;
		mine[one.id % nr].push_back(&one);
	}
	handler_list = list;
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &action, &old);
	if (with_signals)
		setitimer(ITIMER_PROF, &often, nullptr);
	for (unsigned t = 0; t < nr; t++)
		threads.emplace_back([&, t] { s.work(t, api::scaled(300000), mine[t]); });
	std::thread drainer([&] {
		while (!stop) {
			s.drain(mine[nr]);
			for (int i = 0; i < 200 && !mine[nr].empty(); i++)
				s.give(mine[nr]);
			usleep(200);
		}
	});
	for (auto &thread : threads)
		thread.join();
	stop = true;
	drainer.join();
	setitimer(ITIMER_PROF, &never, nullptr);
	sigaction(SIGPROF, &old, nullptr);
	s.drain(mine[nr]);
	for (unsigned i = 0; i < nr_left_over; i++) {
		s.own(left_over[i]);
		mine[nr].push_back(left_over[i]);
	}
	size_t have = 0;
	for (auto &some : mine)
		have += some.size();
	EXPECT_EQ(have, s.nodes.size()) << "lost, or there twice";
	EXPECT_EQ(s.wrong, 0u);
	for (auto &one : s.nodes)
		EXPECT_EQ(one.owners, 1);
	EXPECT_GT(s.popped, 1000u);
	EXPECT_GT(s.drained, 10u);
}

TEST_F(percpu_list, in_a_forked_child)
{
	std::vector<node> nodes(50);

	harness::one_cpu stays;
	for (auto &one : nodes)
		ASSERT_TRUE(slub_percpu_push(list, &one, 100));
	int status = harness::in_child([&] {
		size_t nr = 0;

		while (slub_percpu_pop(list))
			nr++;
		MUST(nr == 50 || nr == 0);
		if (!nr)
			for (void *o = slub_percpu_list_drain(list); o; o = *(void **)o)
				nr++;
		MUST(nr == 50);
		MUST(slub_percpu_push(list, &nodes[0], 10));
		MUST(slub_percpu_list_drain(list) == &nodes[0]);
		_exit(0);
	});
	EXPECT_EQ(status, 0) << harness::describe_status(status);
	EXPECT_EQ(chain(slub_percpu_list_drain(list)).size(), 50u);
}

TEST_F(percpu_list, without_registration)
{
	std::string errors;
	int status = api::run_again({ "GLIBC_TUNABLES=glibc.pthread.rseq=0" }, "storm", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	if (!api::act_name(argc, argv))
		return -1;
	testing::InitGoogleTest(&argc, argv);
	testing::GTEST_FLAG(filter) = "*storm*";
	return RUN_ALL_TESTS();
}
