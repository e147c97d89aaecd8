/* SPDX-License-Identifier: MIT */
/*
 * Promise: words of per-CPU memory are changed exactly, whatever interrupts or moves the threads
 * that change them, however many they are, with or without a registration for sequences, and in
 * the children of fork.
 */
#include <atomic>
#include <csignal>
#include <pthread.h>
#include <sched.h>
#include <sys/time.h>
#include <thread>

#include "api.h"

namespace {

struct words {
	uintptr_t sum = slub_percpu_alloc(8, 8), sum32 = slub_percpu_alloc(4, 4),
		  fetched = slub_percpu_alloc(8, 8), exchanged = slub_percpu_alloc(8, 8);

	~words()
	{
		for (uintptr_t at : { sum, sum32, fetched, exchanged })
			EXPECT_EQ(slub_percpu_free(at), 0);
	}
};

/* One to @at of whichever CPU this is, by compare and exchange. */
void add_by_cmpxchg(uintptr_t at, int64_t n)
{
	int64_t old = slub_percpu_read(at), found;

	while ((found = slub_percpu_cmpxchg(at, old, old + n)) != old)
		old = found;
}

void step(const words &w, int64_t n)
{
	slub_percpu_add(w.sum, n);
	slub_percpu_add32(w.sum32, (int32_t)n);
	slub_percpu_add_return(w.fetched, n);
	add_by_cmpxchg(w.exchanged, n);
}

void expect_sums(const words &w, int64_t n)
{
	EXPECT_EQ(slub_percpu_sum(w.sum), n);
	EXPECT_EQ(slub_percpu_sum32(w.sum32), (int32_t)n);
	EXPECT_EQ(slub_percpu_sum(w.fetched), n);
	EXPECT_EQ(slub_percpu_sum(w.exchanged), n);
}

TEST(percpu_word, does_what_it_says)
{
	uintptr_t at = slub_percpu_alloc(8, 8);
	harness::one_cpu stays;

	slub_percpu_add(at, 5);
	EXPECT_EQ(slub_percpu_read(at), 5);
	EXPECT_EQ(slub_percpu_add_return(at, -7), -2);
	EXPECT_EQ(slub_percpu_cmpxchg(at, 1, 100), -2) << "not replaced";
	EXPECT_EQ(slub_percpu_read(at), -2);
	EXPECT_EQ(slub_percpu_cmpxchg(at, -2, INT64_MAX), -2);
	EXPECT_EQ(slub_percpu_read(at), INT64_MAX);
	EXPECT_EQ(slub_percpu_add_return(at, INT64_MIN), -1);
	slub_percpu_add(at, (int64_t)1 << 40);
	slub_percpu_add(at, 1);
	EXPECT_EQ(slub_percpu_read(at), (int64_t)1 << 40);
	EXPECT_EQ(slub_percpu_sum(at), (int64_t)1 << 40);
	(slub_percpu_add)(at, 1);
	EXPECT_EQ((slub_percpu_fetch_add)(at, 1), ((int64_t)1 << 40) + 1);
	EXPECT_EQ(slub_percpu_read(at), ((int64_t)1 << 40) + 2);
	EXPECT_EQ(slub_percpu_free(at), 0);
}

TEST(percpu_word, neighbours_of_four_bytes_stay_apart)
{
	uintptr_t low = slub_percpu_alloc(4, 4), high = slub_percpu_alloc(4, 4);

	for (int i = 0; i < 1000; i++) {
		slub_percpu_add32(low, INT32_MAX);
		slub_percpu_add32(low, INT32_MIN);
		slub_percpu_add32(high, 3);
	}
	EXPECT_EQ(slub_percpu_sum32(low), -1000);
	EXPECT_EQ(slub_percpu_sum32(high), 3000);
	EXPECT_EQ(slub_percpu_free(low), 0);
	EXPECT_EQ(slub_percpu_free(high), 0);
}

/* A count by exchanges in 4-byte words of every CPU: none is lost, and the neighbour stays. */
TEST(percpu_word, cmpxchg32_replaces_what_was_found_and_no_neighbour)
{
	uintptr_t low = slub_percpu_alloc(4, 4), high = slub_percpu_alloc(4, 4);
	std::atomic<int64_t> replaced{ 0 };
	std::vector<std::thread> threads;
	const int n = 20000;

	slub_percpu_add32(high, -3);
	EXPECT_EQ((slub_percpu_cmpxchg32)(low, 12345, 1), 0) << "not replaced";
	EXPECT_EQ(slub_percpu_cmpxchg32(low, 12345, 1), 0) << "not replaced";
	EXPECT_EQ(slub_percpu_sum32(low), 0);
	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&, t] {
			int32_t seen = 0, found;

			for (int done = 0; done < n; seen = found) {
				found = t % 2 ? slub_percpu_cmpxchg32(low, seen, seen + 1) :
						(slub_percpu_cmpxchg32)(low, seen, seen + 1);
				done += found == seen;
			}
			replaced += n;
		});
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(slub_percpu_sum32(low), replaced);
	EXPECT_EQ(slub_percpu_sum32(high), -3);
	EXPECT_EQ(slub_percpu_free(low), 0);
	EXPECT_EQ(slub_percpu_free(high), 0);
}

/* Together every value is returned once for each CPU's count. */
TEST(percpu_word, what_fetch_add_returns_belongs_to_one_caller)
{
	uintptr_t at = slub_percpu_alloc(8, 8);
	std::atomic<int64_t> sum_of_returned{ 0 };
	std::vector<std::thread> threads;
	const int64_t n = 50000;

	for (int t = 0; t < 6; t++) {
		threads.emplace_back([&] {
			int64_t sum = 0;
			for (int64_t i = 0; i < n; i++)
				sum += slub_percpu_add_return(at, 1);
			sum_of_returned += sum;
		});
	}
	for (auto &thread : threads)
		thread.join();
	int64_t want = 0, total = 0;
	slub_percpu_for_each(cpu) {
		int64_t count = *static_cast<int64_t *>(slub_percpu_ptr(at, (unsigned)cpu));
		want += count * (count + 1) / 2;
		total += count;
	}
	EXPECT_EQ(total, 6 * n);
	EXPECT_EQ(sum_of_returned, want);
	EXPECT_EQ(slub_percpu_free(at), 0);
}

/* ---- signals, moves, more threads than CPUs ---- */

const words *in_handler;
std::atomic<int64_t> from_handlers;

void on_signal(int)
{
	int saved = errno;

	step(*in_handler, 1);
	from_handlers++;
	errno = saved;
}

void wander(unsigned i)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(i % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

void storm(const words &w, unsigned nr_threads, int64_t rounds)
{
	struct sigaction action = {}, old;
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = {};
	std::vector<std::thread> threads;
	std::atomic<int64_t> added = 0;

	in_handler = &w;
	from_handlers = 0;
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &action, &old);
	setitimer(ITIMER_PROF, &often, nullptr);
	for (unsigned t = 0; t < nr_threads; t++) {
		threads.emplace_back([&w, &added, t, rounds] {
			int64_t i = 0;

			/* A short storm may be over before the timer's first tick. */
			for (; i < rounds || !from_handlers; i++) {
				step(w, (int64_t)t + 1);
				if (i % 2000 == 0)
					wander(t + (unsigned)(i / 2000));
			}
			added += i * ((int64_t)t + 1);
		});
	}
	for (auto &thread : threads)
		thread.join();
	setitimer(ITIMER_PROF, &never, nullptr);
	sigaction(SIGPROF, &old, nullptr);
	expect_sums(w, added + from_handlers);
}

TEST(percpu_word, sums_are_exact_under_signals_moves_and_many_threads)
{
	words w;

	storm(w, 12, (int64_t)api::scaled(400000));
	EXPECT_GT(from_handlers, 0);
}

/* Stopping CPUs sends threads to the shared area in the middle of it. */
TEST(percpu_word, sums_are_exact_while_cpus_are_stopped)
{
	words w;
	uintptr_t list = slub_percpu_alloc(sizeof(struct slub_percpu_list),
					   SLUB_PERCPU_LIST_ALIGN);
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;
	const int64_t n = (int64_t)api::scaled(200000);

	std::thread stopper([&] {
		while (!stop)
			EXPECT_EQ(slub_percpu_list_drain(list), nullptr);
	});
	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&] {
			for (int64_t i = 0; i < n; i++)
				step(w, 1);
		});
	}
	for (auto &thread : threads)
		thread.join();
	stop = true;
	stopper.join();
	expect_sums(w, 4 * n);
	EXPECT_EQ(slub_percpu_free(list), 0);
}

TEST(percpu_word, threads_that_come_and_go)
{
	words w;
	const int nr = 400;

	for (int i = 0; i < nr; i += 8) {
		std::vector<std::thread> threads;

		for (int t = 0; t < 8; t++)
			threads.emplace_back([&w] {
				for (int k = 0; k < 50; k++)
					step(w, 2);
			});
		for (auto &thread : threads)
			thread.join();
	}
	expect_sums(w, nr * 100);
}

/* ---- fork ---- */

TEST(percpu_word, children_go_on_from_what_their_parent_had)
{
	words w;
	std::atomic<bool> stop{ false };
	std::vector<std::thread> others;
	uintptr_t quiet = slub_percpu_alloc(8, 8);

	for (int t = 0; t < 3; t++)
		others.emplace_back([&] {
			while (!stop)
				step(w, 1);
		});
	for (int i = 0; i < 40; i++) {
		slub_percpu_add(quiet, 1);
		int status = harness::in_child([&] {
			int64_t before = slub_percpu_sum(w.sum);

			MUST(slub_percpu_sum(quiet) == i + 1);
			for (int k = 0; k < 1000; k++) {
				step(w, 1);
				slub_percpu_add(quiet, 1);
			}
			std::thread second([&] { slub_percpu_add(quiet, 5); });
			second.join();
			MUST(slub_percpu_sum(w.sum) == before + 1000);
			MUST(slub_percpu_sum(quiet) == i + 1 + 1000 + 5);
			uintptr_t own = slub_percpu_alloc(64, 8);
			MUST(own && slub_percpu_sum(own) == 0 && slub_percpu_free(own) == 0);
			_exit(0);
		});
		ASSERT_EQ(status, 0) << harness::describe_status(status);
	}
	stop = true;
	for (auto &thread : others)
		thread.join();
	EXPECT_EQ(slub_percpu_sum(quiet), 40);
	EXPECT_EQ(slub_percpu_free(quiet), 0);
}

/* ---- threads that the kernel has not registered ---- */

TEST(percpu_word, without_registration)
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
	words w;
	MUST(api::backend() != api::RSEQ);
	storm(w, 6, 20000);
	return testing::Test::HasFailure();
}
