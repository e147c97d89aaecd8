// SPDX-License-Identifier: MIT
// Traces name who allocated what is allocated: counts, bytes, waste, most objects first.
#include <algorithm>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include <slub/debug.h>
#include <slub/rcu.h>

namespace {

__attribute__((noinline)) void *site_a(size_t n) { return harness::opaque(malloc(n)); }
__attribute__((noinline)) void *site_b(size_t n) { return harness::opaque(malloc(n)); }

// What an object of the hardened library ends with.
const size_t tail = harness::knows_sizes() ? 8 : 0;

struct Seen {
	size_t count, bytes, waste;
	uintptr_t caller;
};

int collect(const struct slub_trace *t, void *arg)
{
	((std::vector<Seen> *)arg)->push_back({ t->count, t->bytes, t->waste, t->frames[0] });
	return 0;
}

TEST(Traces, by_call_site)
{
	ASSERT_EQ(slub_debug("U,malloc-1024"), 1);
	std::vector<Seen> seen;
	void *p[30];

	seen.reserve(100);
	for (int i = 0; i < 30; i++)
		p[i] = i < 20 ? site_a(1000) : site_b(1010);
	free(p[29]);
	struct slub_cache *cache = slub_cache_of(p[0]);
	ASSERT_EQ(slub_cache_alloc_traces(cache, collect, &seen), 0);
	ASSERT_GE(seen.size(), 2u);
	EXPECT_EQ(seen[0].count, 20u);
	EXPECT_EQ(seen[0].bytes, 20000u);
	EXPECT_EQ(seen[0].waste, 20u * (24 - tail));
	EXPECT_EQ(seen[1].count, 9u);
	EXPECT_EQ(seen[1].bytes, 9u * 1010);
	// The return address lies in the function that called malloc.
	EXPECT_LT(seen[0].caller - (uintptr_t)site_a, 100u);
	EXPECT_LT(seen[1].caller - (uintptr_t)site_b, 100u);
	for (int i = 0; i < 29; i++)
		free(p[i]);
	seen.clear();
	ASSERT_EQ(slub_cache_alloc_traces(cache, collect, &seen), 0);
	EXPECT_EQ(seen.size(), 0u);
	EXPECT_EQ(slub_debug("-,malloc-1024"), 1);
}

// What was freed deferred is nobody's leak, also while a reader keeps it from being freed.
TEST(Traces, not_of_what_was_freed_deferred)
{
	ASSERT_EQ(slub_debug("U,malloc-1024"), 1);
	std::vector<Seen> seen;
	void *stays = site_b(1010), *in_another[2];
	struct slub_cache *cache = slub_cache_of(stays);

	for (int i = 0; i < 100; i++)
		slub_free_deferred(site_a(1000));
	int index = slub_read_lock();
	for (void *&object : in_another) {
		object = site_a(1000);
		slub_free_deferred(object);
	}
	ASSERT_EQ(slub_cache_alloc_traces(cache, collect, &seen), 0);
	slub_read_unlock(index);
	ASSERT_EQ(seen.size(), 1u);
	EXPECT_EQ(seen[0].count, 1u);
	EXPECT_LT(seen[0].caller - (uintptr_t)site_b, 100u);

	// A place that is used again is in use again.
	EXPECT_EQ(slub_deferred_barrier(), 0);
	for (void *&object : in_another)
		object = site_a(1000);
	seen.clear();
	ASSERT_EQ(slub_cache_alloc_traces(cache, collect, &seen), 0);
	size_t nr_again = 0;
	/* Of two calls where the compiler has unrolled the loop: they are told apart. */
	for (const Seen &one : seen)
		nr_again += one.caller - (uintptr_t)site_b < 100 ? 0 : one.count;
	EXPECT_EQ(nr_again, 2u);
	for (void *object : in_another)
		free(object);
	free(stays);
	EXPECT_EQ(slub_debug("-,malloc-1024"), 1);
}

// Of all that one row stands for: which threads, on which CPUs, how long ago.
TEST(Traces, of_two_threads)
{
	ASSERT_EQ(slub_debug("U,malloc-1536"), 1);
	struct Row {
		slub_trace trace;
		size_t count;
	} row = {};
	std::vector<void *> all(10);
	uint32_t threads[2];

	for (int t = 0; t < 2; t++) {
		std::thread([&] {
			harness::stay_on_this_cpu();
			threads[t] = (uint32_t)gettid();
			// Ages are of a clock that ticks some hundred times a second.
			std::this_thread::sleep_for(std::chrono::milliseconds(30));
			for (int i = 0; i < 5; i++)
				all[(size_t)(5 * t + i)] = site_a(1500);
		}).join();
	}
	ASSERT_EQ(slub_cache_alloc_traces(slub_cache_of(all[0]), [](const slub_trace *t, void *to) {
		((Row *)to)->trace = *t;
		((Row *)to)->count++;
		return 0;
	}, &row), 0);
	ASSERT_EQ(row.count, 1u);
	EXPECT_EQ(row.trace.count, 10u);
	EXPECT_EQ(row.trace.thread_min, std::min(threads[0], threads[1]));
	EXPECT_EQ(row.trace.thread_max, std::max(threads[0], threads[1]));
	EXPECT_LE(row.trace.age_min_ns * 10, row.trace.age_sum_ns);
	EXPECT_GE(row.trace.age_max_ns * 10, row.trace.age_sum_ns);
	EXPECT_LT(row.trace.age_min_ns, row.trace.age_max_ns);
	const uint64_t *cpus = row.trace.cpus;
	EXPECT_NE(cpus[0] | cpus[1] | cpus[2] | cpus[3], 0u);
	for (void *p : all)
		free(p);
	EXPECT_EQ(slub_debug("-,malloc-1536"), 1);
}

// Two to the power of 14 call stacks: which of two functions calls, at each depth.
#define ON_THE_STACK __attribute__((noinline, optimize("no-omit-frame-pointer", \
						       "no-optimize-sibling-calls")))
void *one(size_t n, unsigned int path, int depth);
void *other(size_t n, unsigned int path, int depth);

ON_THE_STACK void *one(size_t n, unsigned int path, int depth)
{
	void *p = !depth ? malloc(n) : path & 1 ? one(n, path >> 1, depth - 1) :
						  other(n, path >> 1, depth - 1);

	return harness::opaque(p);
}

ON_THE_STACK void *other(size_t n, unsigned int path, int depth)
{
	void *p = !depth ? malloc(n) : path & 1 ? one(n, path >> 1, depth - 1) :
						  other(n, path >> 1, depth - 1);

	return harness::opaque(p);
}

TEST(Traces, of_more_stacks_than_the_first_table_holds)
{
	const unsigned int nr = 10000;
	std::vector<Seen> seen;
	std::vector<void *> objects(nr);

	seen.reserve(2 * nr);
	ASSERT_EQ(slub_debug("U,malloc-640"), 1);
	for (unsigned int i = 0; i < nr; i++)
		objects[i] = one(630, i, 14);
	ASSERT_EQ(slub_cache_alloc_traces(slub_cache_of(objects[0]), collect, &seen), 0);
	EXPECT_EQ(seen.size(), nr);
	for (const Seen &s : seen)
		ASSERT_EQ(s.count, 1u);
	for (void *p : objects)
		free(p);
	EXPECT_EQ(slub_debug("-,malloc-640"), 1);
}

TEST(Traces, in_a_file_with_a_long_name)
{
	std::string folder = "/tmp/slub-leaks-" + std::to_string(getpid()) + "-";

	folder += std::string(200, 'f');
	ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
	std::string inner = folder + "/" + std::string(200, 'g');
	ASSERT_EQ(mkdir(inner.c_str(), 0700), 0);
	std::string path = inner + "/" + std::string(200, 'h');

	ASSERT_EQ(slub_debug("U,malloc-2048"), 1);
	void *p = site_a(2000);
	EXPECT_GE(slub_leaks_write(path.c_str()), 1);
	EXPECT_EQ(access(path.c_str(), F_OK), 0);
	EXPECT_EQ(slub_leaks_write((path + "%p").c_str()), -ENAMETOOLONG);
	EXPECT_EQ(unlink(path.c_str()), 0);
	// Nor is there a file of a shorter name.
	EXPECT_EQ(rmdir(inner.c_str()), 0);
	EXPECT_EQ(rmdir(folder.c_str()), 0);
	free(p);
	EXPECT_EQ(slub_debug("-,malloc-2048"), 1);
}

TEST(Traces, written_as_text)
{
	std::string path = "/tmp/slub-leaks-" + std::to_string(getpid());

	ASSERT_EQ(slub_debug("U,malloc-2048"), 1);
	void *p = site_a(2000);
	EXPECT_GE(slub_leaks_write("/tmp/slub-leaks-%p"), 1);
	FILE *file = fopen(path.c_str(), "r");
	ASSERT_NE(file, nullptr);
	char line[512] = "";
	EXPECT_NE(fgets(line, sizeof(line), file), nullptr);
	EXPECT_NE(strstr(line, "1 malloc-2048 "), nullptr) << line;
	EXPECT_NE(strstr(line, tail ? "bytes=2000 waste=40/40" : "bytes=2000 waste=48/48"),
		  nullptr) << line;
	fclose(file);
	unlink(path.c_str());
	free(p);
	EXPECT_EQ(slub_debug("-,malloc-2048"), 1);
}

TEST(Traces, need_letter_u)
{
	void *p = malloc(3000);

	EXPECT_EQ(slub_cache_alloc_traces(slub_cache_of(p), collect, nullptr), -EINVAL);
	free(p);
}

} // namespace
