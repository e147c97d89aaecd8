/* SPDX-License-Identifier: MIT */
/* A pool whose functions keep what they were called with, and what it says and wakes. */
#ifndef SLUB_TESTS_UNIT_SOURCE_H
#define SLUB_TESTS_UNIT_SOURCE_H

#include <atomic>
#include <cerrno>
#include <climits>
#include <functional>
#include <linux/futex.h>
#include <string>
#include <thread>
#include <vector>

#include "says.h"
#include "start.h"

#define _Static_assert static_assert
#define _Atomic
#define new new_value
extern "C" {
#include "features/mempool/mempool.h"
}
#undef _Static_assert
#undef _Atomic
#undef new

/* Numbers in the place of pointers: 16, 32, ... */
struct source {
	size_t left = SIZE_MAX;			/* so many are to be had */
	uintptr_t made = 0;
	std::vector<unsigned int> asked;	/* the flags */
	std::vector<void *> freed, begun, reset, looked_at;
	std::function<void(unsigned int)> on_ask;

	static void *nth(uintptr_t n) { return (void *)(n * 16); }
	static void *alloc(unsigned int flags, void *data)
	{
		auto *my = (struct source *)data;

		my->asked.push_back(flags);
		if (my->on_ask)
			my->on_ask(flags);
		if (!my->left)
			return nullptr;
		my->left--;
		return nth(++my->made);
	}
	static void release(void *element, void *data)
	{
		((struct source *)data)->freed.push_back(element);
	}
	static void begin(void *element, void *data)
	{
		((struct source *)data)->begun.push_back(element);
	}
	static void clean(void *element, void *data)
	{
		((struct source *)data)->reset.push_back(element);
	}
	/* Those up to the thousandth. */
	static bool owns(const void *element, void *data)
	{
		((struct source *)data)->looked_at.push_back((void *)element);
		return (uintptr_t)element <= 16000;
	}
	/* With all functions. */
	slub_mempool *pool(size_t min_nr)
	{
		struct slub_mempool_args args = {};

		args.min_nr = min_nr;
		args.alloc_fn = alloc;
		args.free_fn = release;
		args.init_fn = begin;
		args.reset_fn = clean;
		args.owns_fn = owns;
		args.data = this;
		slub_mempool *made_one = slub_mempool_create_args(&args);
		EXPECT_NE(made_one, nullptr);
		asked.clear();
		return made_one;
	}
	static std::vector<void *> numbers(std::initializer_list<uintptr_t> all)
	{
		std::vector<void *> found;

		for (uintptr_t n : all)
			found.push_back(nth(n));
		return found;
	}
};

/* Threads that sleep on a word, all of them certainly, until each is woken once. */
class sleepers {
public:
	sleepers(uint32_t *where, long number) : word(where), nr(number)
	{
		for (long i = 0; i < nr; i++)
			threads.emplace_back([this] {
				/* Not woken, but the word was another: again. */
				while (futex(FUTEX_WAIT_PRIVATE, (int)__atomic_load_n(
						     word, __ATOMIC_RELAXED)) != 0)
					continue;
				nr_awake++;
			});
		/* From there to there: how many there are. */
		while (syscall(SYS_futex, word, FUTEX_REQUEUE_PRIVATE, 0, INT_MAX, word, 0) < nr)
			sched_yield();
	}
	/* Wakes the rest: how many that are. */
	long end()
	{
		long rest = 0;

		while (nr_awake < nr) {
			rest += futex(FUTEX_WAKE_PRIVATE, INT_MAX);
			sched_yield();
		}
		for (auto &thread : threads)
			thread.join();
		return rest;
	}

private:
	long futex(int what, int value)
	{
		return syscall(SYS_futex, word, what, value, nullptr, nullptr, 0);
	}
	uint32_t *word;
	long nr;
	std::atomic<long> nr_awake{ 0 };
	std::vector<std::thread> threads;
};

inline struct slub_mempool_stats stats_of(slub_mempool *pool)
{
	struct slub_mempool_stats now;

	memset(&now, 0xff, sizeof(now));
	EXPECT_EQ(slub_mempool_stats(pool, &now), 0);
	return now;
}

#endif
