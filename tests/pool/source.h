/* SPDX-License-Identifier: MIT */
/* Where the pools of these tests get their elements: a source that can run dry. */
#ifndef SLUB_TESTS_POOL_SOURCE_H
#define SLUB_TESTS_POOL_SOURCE_H

#include <atomic>
#include <cstdlib>
#include <slub/mempool.h>

/* Elements are blocks that begin with this. */
struct Element {
	uint64_t mark;
	uint64_t uses;
};

constexpr uint64_t element_mark = 0x656c656d656e7421;

struct Source {
	std::atomic<long> left{1000000};	/* how many it may still give */
	std::atomic<long> given{0}, taken_back{0}, inits{0}, resets{0};
	std::atomic<unsigned> last_flags{0};

	static void *alloc(unsigned int flags, void *data)
	{
		auto *source = static_cast<Source *>(data);

		source->last_flags = flags;
		if (source->left.fetch_sub(1) <= 0) {
			source->left.fetch_add(1);
			return nullptr;
		}
		source->given++;
		auto *element = static_cast<Element *>(malloc(sizeof(Element)));
		element->mark = element_mark;
		element->uses = 0;
		return element;
	}
	static void free_one(void *element, void *data)
	{
		auto *source = static_cast<Source *>(data);

		static_cast<Element *>(element)->mark = 0;
		source->taken_back++;
		source->left++;
		free(element);
	}
	static void init(void *element, void *data)
	{
		static_cast<Element *>(element)->uses++;
		static_cast<Source *>(data)->inits++;
	}
	static void reset(void *element, void *data)
	{
		static_cast<Element *>(element)->uses = 0;
		static_cast<Source *>(data)->resets++;
	}
	static bool owns(const void *element, void *)
	{
		return static_cast<const Element *>(element)->mark == element_mark;
	}
	long out() const { return given - taken_back; }

	slub_mempool *pool(size_t min_nr)
	{
		return slub_mempool_create(min_nr, alloc, free_one, this);
	}
	slub_mempool_args args(size_t min_nr)
	{
		slub_mempool_args args = {};

		args.min_nr = min_nr;
		args.alloc_fn = alloc;
		args.free_fn = free_one;
		args.data = this;
		return args;
	}
};

inline struct slub_mempool_stats stats_of(slub_mempool *pool)
{
	struct slub_mempool_stats stats = {};

	slub_mempool_stats(pool, &stats);
	return stats;
}

#endif
