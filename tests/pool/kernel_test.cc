/* SPDX-License-Identifier: MIT */
/* Promise: code with the kernel's names compiles against slub/kernel.h and does what it did. */
#include <gtest/gtest.h>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include <slub/kernel.h>	/* in C++ too */

#include "kernel_module.h"

namespace {

TEST(KernelModule, LivesAndLeavesNothing)
{
	constexpr uint32_t keys = 5000;
	session_stats sum;
	char name[32];

	ASSERT_EQ(session_init(1024), 0);
	for (uint32_t key = 0; key < keys; key++)
		ASSERT_EQ(session_insert(key, ("session " + std::to_string(key)).c_str()), 0);
	for (uint32_t key = 0; key < keys; key++) {
		ASSERT_EQ(session_lookup(key, name, sizeof(name)), 0);
		ASSERT_EQ(name, "session " + std::to_string(key));
	}
	EXPECT_EQ(session_lookup(keys, name, sizeof(name)), -ENOENT);
	for (uint32_t key = 0; key < keys; key += 2)
		ASSERT_EQ(session_remove(key), 0);
	EXPECT_EQ(session_remove(0), -ENOENT);
	EXPECT_EQ(session_lookup(2, name, sizeof(name)), -ENOENT);
	EXPECT_EQ(session_submit(7), 7);
	session_read_stats(&sum);
	EXPECT_EQ(sum.inserts, keys);
	EXPECT_EQ(sum.hits, keys);
	EXPECT_EQ(sum.misses, 2u);
	EXPECT_EQ(session_exit(), 0);
}

TEST(KernelModule, ReadersAgainstWriters)
{
	constexpr uint32_t keys = 64, least = 20000;
	uint32_t rounds = 0;
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> looked{0}, wrong{0};
	std::vector<std::thread> readers;
	session_stats sum;

	ASSERT_EQ(session_init(16), 0);
	for (int t = 0; t < 3; t++) {
		readers.emplace_back([&, t] {
			char name[32];

			for (uint32_t key = t; !stop; key++) {
				if (session_lookup(key % keys, name, sizeof(name)) == 0 &&
				    name != std::to_string(key % keys))
					wrong++;
				looked++;
			}
		});
	}
	for (; rounds < least || looked < least; rounds++) {
		uint32_t key = rounds % keys;

		if (rounds >= keys) {
			ASSERT_EQ(session_remove(key), 0);
		}
		ASSERT_EQ(session_insert(key, std::to_string(key).c_str()), 0);
		session_submit(key);
	}
	stop = true;
	for (auto &reader : readers)
		reader.join();
	session_read_stats(&sum);
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(sum.hits + sum.misses, looked);
	EXPECT_EQ(sum.inserts, rounds);
	EXPECT_EQ(session_exit(), 0);
}

TEST(KernelNames, Percpu) { EXPECT_EQ(check_percpu(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Kmalloc) { EXPECT_EQ(check_kmalloc(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Sizes) { EXPECT_EQ(check_sizes(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Strings) { EXPECT_EQ(check_strings(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Pages) { EXPECT_EQ(check_pages(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Caches) { EXPECT_EQ(check_caches(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Pools) { EXPECT_EQ(check_pools(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Rcu) { EXPECT_EQ(check_rcu(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Nofail) { EXPECT_EQ(check_nofail(), 0) << "line of kernel_names.c"; }

TEST(KernelNames, Cplusplus)
{
	struct kmem_cache *cache = kmem_cache_create("from_cplusplus", 64, 0, 0, nullptr);
	void *object = kmem_cache_alloc(cache, GFP_KERNEL);

	ASSERT_NE(object, nullptr);
	kmem_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} /* namespace */
