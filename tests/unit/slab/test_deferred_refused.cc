/* SPDX-License-Identifier: MIT */
/*
 * features/rcu/deferred.c where membarrier(2) is refused: from the start (SLUB_TEST_REFUSED), or
 * later, by a sandbox.  A barrier frees what other CPUs have collected all the same.  (The caches
 * stay: their own lists cannot be emptied then.)
 */
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "typed.h"

namespace {

std::atomic<bool> is_refused{getenv("SLUB_TEST_REFUSED") != nullptr};

int membarrier(int command)
{
	if (is_refused)
		return -EPERM;
	return syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
}

} /* namespace */

extern "C" bool os_membarrier_register(void)
{
	return !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
	       !membarrier(1 << 8);	/* of restartable sequences */
}

extern "C" int os_barrier_rseq(void)
{
	return membarrier(1 << 7);
}

extern "C" int os_barrier(void)
{
	return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

namespace {

struct refused : typed {
	bool was_refused = is_refused;

	void TearDown() override { is_refused = was_refused; }
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
	}
};

/* The objects of the cache that were deferred, and came back to it. */
uint64_t freed(struct slub_cache *cache)
{
	struct slub_cache_stats stats;

	EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
	return stats.free_rcu_sheaf;
}

/* Each thread stays, so that its CPU number is no other's. */
void defer_by_threads(struct slub_cache *cache, const std::function<void()> &meanwhile)
{
	constexpr int NR = 4;
	std::atomic<int> ready{0};
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;

	for (int t = 0; t < NR; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < 10; i++)
				slub_free_deferred(slub_cache_alloc_flags(cache, 0));
			for (ready++; !stop;)
				sched_yield();
		});
	}
	while (ready < NR)
		sched_yield();
	meanwhile();
	stop = true;
	for (auto &thread : threads)
		thread.join();
}

TEST_F(refused, a_barrier_frees_what_other_cpus_have)
{
	struct slub_cache *cache = make("others", 64);

	for (int round = 0; round < 50; round++) {
		defer_by_threads(cache, [&] {
			if (round > 10)
				is_refused = true;
			slub_deferred_barrier();
			EXPECT_EQ(slub_deferred_pending(), 0u) << round;
			EXPECT_EQ(freed(cache), 40u * (unsigned)(round + 1));
		});
	}
}

TEST_F(refused, by_threads_and_barriers_at_once)
{
	struct slub_cache *cache = make("at_once", 48);
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&, t] {
			for (int i = 0; i < 20000; i++) {
				slub_free_deferred(slub_cache_alloc_flags(cache, 0));
				if (t < 2 && i % 100 == 0)
					slub_deferred_barrier();
				if (!t && i == 10000)
					is_refused = true;
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	slub_deferred_barrier();
	EXPECT_EQ(slub_deferred_pending(), 0u);
	EXPECT_EQ(freed(cache), 80000u);
}

} /* namespace */
