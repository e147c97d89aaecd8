/* SPDX-License-Identifier: MIT */
/*
 * Promise: processors may come and go while the library is used, also such as were not there when
 * the process began.  What lies in the lists of one that is gone is found, and counts in sums.
 *
 * Switches processors off, so it only does something on the machine of tests/machine/run.
 */
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <malloc.h>
#include <thread>

#include <slub/cache.h>
#include <slub/percpu.h>

#include "harness.h"
#include "nodes.h"

namespace {

using nodes::on_cpu;

std::string cpu_file(int cpu)
{
	return "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/online";
}

bool switch_cpu(int cpu, bool on)
{
	int fd = open(cpu_file(cpu).c_str(), O_WRONLY);
	bool done = fd >= 0 && write(fd, on ? "1" : "0", 1) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

/* Those that can be switched. */
std::vector<int> cpus(const char *which)
{
	std::vector<int> found;

	for (int cpu : nodes::numbers_in(std::string("/sys/devices/system/cpu/") + which)) {
		if (access(cpu_file(cpu).c_str(), W_OK) == 0)
			found.push_back(cpu);
	}
	return found;
}

class hotplug : public testing::Test {
protected:
	void SetUp() override
	{
		if (!getenv("MACHINE_IS_EMULATED"))
			GTEST_SKIP() << "it would switch processors off: tests/machine/run";
		if (cpus("online").empty())
			GTEST_SKIP() << "no processor can be switched off";
		cpu = cpus("online").back();
		cache = slub_cache_create("hotplug", 256, 0, SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
	}
	void TearDown() override
	{
		if (cache) {
			EXPECT_EQ(slub_cache_destroy(cache), 0);
		}
	}
	size_t slabs()
	{
		struct slub_cache_stats stats;

		EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
		return stats.slabs;
	}
	/* Leaves objects of the cache in the lists of this CPU. */
	void fill_lists()
	{
		void *objects[500];

		for (void *&object : objects)
			object = slub_cache_alloc(cache);
		for (void *object : objects)
			slub_cache_free(cache, object);
	}

	struct slub_cache *cache = nullptr;
	int cpu;
};

TEST_F(hotplug, lists_of_a_cpu_that_is_gone_are_emptied)
{
	on_cpu(cpu, [&] { fill_lists(); });
	EXPECT_GT(slabs(), 0u);
	ASSERT_TRUE(switch_cpu(cpu, false));
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(slabs(), 0u);
	ASSERT_TRUE(switch_cpu(cpu, true));
	on_cpu(cpu, [&] { fill_lists(); });
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(slabs(), 0u);
}

/* Large enough lists to see them in what is resident. */
TEST_F(hotplug, malloc_trim_finds_what_a_cpu_that_is_gone_had)
{
	size_t before, after;

	on_cpu(cpu, [] {
		std::vector<void *> all;

		for (size_t bytes = 1024; bytes <= 32768; bytes += 1024) {
			for (int i = 0; i < 64; i++) {
				all.push_back(malloc(bytes));
				memset(all.back(), 1, bytes);
			}
		}
		for (void *block : all)
			free(block);
	});
	ASSERT_TRUE(switch_cpu(cpu, false));
	before = harness::resident_bytes();
	malloc_trim(0);
	after = harness::resident_bytes();
	EXPECT_LT(after + (1 << 20), before);
	ASSERT_TRUE(switch_cpu(cpu, true));
}

TEST_F(hotplug, words_of_a_cpu_that_is_gone_count)
{
	uintptr_t at = slub_percpu_alloc(8, 8);

	for (int round = 1; round <= 3; round++) {
		on_cpu(cpu, [&] { slub_percpu_add(at, 5); });
		ASSERT_TRUE(switch_cpu(cpu, false));
		slub_percpu_add(at, 2);
		EXPECT_EQ(slub_percpu_sum(at), 7 * round);
		ASSERT_TRUE(switch_cpu(cpu, true));
	}
	EXPECT_EQ(slub_percpu_free(at), 0);
}

/* A thread that is bound to the CPU is moved by the kernel, in the middle of what it does. */
TEST_F(hotplug, threads_are_moved_in_the_middle)
{
	std::vector<int> all = cpus("online");

	all.resize(std::min(all.size(), (size_t)3));
	std::atomic<bool> stop { false };
	std::atomic<size_t> damaged { 0 }, turns { 0 }, bound { 0 };
	std::vector<std::thread> threads;
	uintptr_t at = slub_percpu_alloc(8, 8);
	std::atomic<void *> exchange[64] = {};

	for (int i = 0; i < 4; i++) {
		threads.emplace_back([&, i] {
			harness::Random random((uint64_t)i + 1);

			nodes::go_to_cpu(all[(size_t)i % all.size()]);
			bound++;
			while (!stop) {
				void *object = slub_cache_alloc(cache);
				size_t bytes = 1 + random.below(6000);
				char *block = (char *)malloc(bytes);

				harness::fill(object, 256, 7);
				memset(block, i, bytes);
				/* What one thread allocates another frees. */
				object = exchange[random.below(64)].exchange(object);
				if (object) {
					damaged += !harness::intact(object, 256, 7);
					slub_cache_free(cache, object);
				}
				damaged += block[bytes - 1] != i;
				free(block);
				slub_percpu_add(at, 1);
				turns++;
			}
		});
	}
	while (bound < threads.size())
		usleep(1000);
	for (int round = 0; round < 4; round++) {
		for (int off : all) {
			EXPECT_TRUE(switch_cpu(off, false)) << off;
			usleep(20000);
			slub_cache_shrink(cache);
			malloc_trim(0);
			if (round % 2) {
				EXPECT_TRUE(switch_cpu(off, true)) << off;
			}
		}
		for (int on : all)
			switch_cpu(on, true);
	}
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(damaged, 0u);
	EXPECT_EQ(slub_percpu_sum(at), (int64_t)turns);
	for (std::atomic<void *> &object : exchange)
		slub_cache_free(cache, object.load());
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(slabs(), 0u);
	EXPECT_EQ(slub_percpu_free(at), 0);
}

/* With run --online: CPUs whose numbers are beyond those there were at the start. */
TEST_F(hotplug, cpus_that_come_later)
{
	std::vector<int> later = cpus("offline");
	uintptr_t at = slub_percpu_alloc(8, 8);
	size_t n = 0;

	if (later.empty())
		GTEST_SKIP() << "all are online: tests/machine/run --online 2";
	/* It takes an emulated one a second to come. */
	for (size_t i = 0; later.size() > 8; i = (i + 1) % (later.size() - 1))
		later.erase(later.begin() + (long)i);
	for (int cpu : later) {
		ASSERT_LT((unsigned int)cpu, slub_percpu_cpus());
		if (!switch_cpu(cpu, true))
			continue;
		n++;
		on_cpu(cpu, [&] {
			uint64_t spared, refills;
			struct slub_cache_stats stats;

			fill_lists();
			slub_percpu_add(at, cpu);
			slub_percpu_add(at, 1 - cpu);
			slub_cache_stats(cache, &stats);
			refills = stats.alloc_refill + stats.alloc_spare + stats.alloc_barn;
			/* Its own list has some now: no slow path is needed. */
			slub_cache_free(cache, slub_cache_alloc(cache));
			slub_cache_stats(cache, &stats);
			spared = stats.alloc_refill + stats.alloc_spare + stats.alloc_barn;
			EXPECT_EQ(spared, refills) << "on CPU " << cpu;
			free(malloc(100));
			free(malloc(100000));
		});
	}
	EXPECT_GT(n, 0u);
	EXPECT_EQ(slub_percpu_sum(at), (int64_t)n);
	for (int cpu : later)
		switch_cpu(cpu, false);
	EXPECT_EQ(slub_percpu_sum(at), (int64_t)n);
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(slabs(), 0u);
	EXPECT_EQ(slub_percpu_free(at), 0);
}

} /* namespace */
