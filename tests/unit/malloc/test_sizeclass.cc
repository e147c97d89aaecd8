/* SPDX-License-Identifier: MIT */
/* malloc/sizeclass.c: every size gets the smallest class that fits. */
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

#include "harness.h"
#include "slub.h"
#if defined(__x86_64__)
#include "steps.h"
#endif

extern "C" {
#include "slab/guard/guard.h"
}

namespace {

std::set<uint32_t> class_sizes()
{
	std::set<uint32_t> sizes;

	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes++)
		sizes.insert(sizeclass_cache(bytes)->size);
	return sizes;
}

TEST(sizeclass, there_are_as_many_as_said)
{
	auto sizes = class_sizes();

	EXPECT_EQ(sizes.size(), (size_t)CLASS_NR);
	EXPECT_EQ(*sizes.begin(), 16u);
	EXPECT_EQ(*sizes.rbegin(), CLASS_BYTES_MAX);
	for (uint32_t size : sizes)
		EXPECT_EQ(size % MALLOC_ALIGN, 0u);
}

TEST(sizeclass, steps_lose_an_eighth_at_most)
{
	uint32_t last = 0;

	for (uint32_t size : class_sizes()) {
		EXPECT_LE(size - last, std::max<uint32_t>(16, last / 8)) << last << " to " << size;
		last = size;
	}
}

TEST(sizeclass, every_size_gets_the_smallest_that_fits)
{
	auto sizes = class_sizes();

	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes++) {
		struct slub_cache *cache = sizeclass_cache(bytes);

		ASSERT_EQ(cache->size, *sizes.lower_bound((uint32_t)bytes)) << bytes;
		ASSERT_GE(cache->object_size, bytes);
		/* One part in nine of the block at most, beyond the smallest sizes. */
		if (bytes > 128) {
			ASSERT_LT((cache->size - bytes) * 8, bytes) << bytes;
		}
	}
}

TEST(sizeclass, fast_path_table_says_the_same)
{
	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes++)
		ASSERT_EQ(malloc_slot[(bytes + CLASS_STEP - 1) / CLASS_STEP],
			  sizeclass_cache(bytes)->list_slot) << bytes;
}

TEST(sizeclass, limits_part_the_paths)
{
	EXPECT_EQ(malloc_paged_limit, CLASS_BYTES_MAX + 1);
	EXPECT_EQ(CLASS_WORD_MAX, sizeclass_cache(PAGE_BYTES)[-1].size);
	for (size_t i = 0; i * CLASS_STEP <= CLASS_WORD_MAX; i++)
		ASSERT_EQ(percpu_table.slots[i], malloc_slot[i]) << i * CLASS_STEP;
	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes++) {
		struct slub_cache *cache = sizeclass_cache(bytes);
		bool is_paged = cache->slot - malloc_paged_slots < malloc_paged_slots_bytes;

		ASSERT_EQ(bytes <= CLASS_WORD_MAX, cache->link == 0) << bytes;
		ASSERT_EQ(is_paged, cache->link != 0) << bytes;
		/* free() adds a slot to the one that the map names. */
		if (is_paged) {
			ASSERT_EQ(cache->list_slot, cache->slot + SLOT_BYTES);
		}
	}
}

TEST(sizeclass, aligned_is_the_smallest_aligned_that_fits)
{
	auto sizes = class_sizes();

	for (size_t align = 1; align <= PAGE_BYTES; align *= 2)
		for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes += bytes < 2048 ? 1 : 37) {
			uint32_t want = 0;

			for (uint32_t size : sizes)
				if (!want && size >= bytes && size % align == 0)
					want = size;
			ASSERT_EQ(sizeclass_aligned(bytes, align)->size, want)
				<< bytes << " aligned to " << align;
			/* What alloc_aligned() takes from the list for a size is of it. */
			ASSERT_EQ(sizeclass_cache(round_up(bytes ? bytes : 1, align))->size, want)
				<< bytes << " aligned to " << align;
		}
}

TEST(sizeclass, names_tell_the_size)
{
	for (uint32_t size : class_sizes())
		EXPECT_EQ(sizeclass_cache(size)->name, "malloc-" + std::to_string(size));
}

TEST(sizeclass, malloc_uses_them)
{
	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes += 13) {
		void *ptr = malloc(bytes);

		ASSERT_EQ(cache_of(ptr), sizeclass_cache(bytes)) << bytes;
		free(ptr);
	}
	void *large = malloc(CLASS_BYTES_MAX + 1);
	EXPECT_EQ(cache_of(large), nullptr);
	EXPECT_EQ(pagemap_get(large), (uint32_t)MAP_LARGE);
	free(large);
}

#if defined(__x86_64__)
/* 0: one pool of guarded objects was made by two; 1: two; 2: there are no @n instructions. */
int guard_by_two(unsigned n)
{
	uintptr_t base = 0;
	bool done = false, was_busy = false;
	sem_t called;
	steps::Other other;

	sem_init(&called, 0, 0);
	steps::run([] { sizeclass_guard(100); }, [&] {
		struct timespec soon;

		if (guard_pool.bytes || slub_thread.locks_held || n--)
			return !guard_pool.bytes;
		done = true;
		other.begin([&] {
			was_busy = sizeclass_guard(100) == -EBUSY;
			base = guard_pool.base;
			sem_post(&called);
		});
		/* It is refused, or the pool is there when it is done. */
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_sec += soon.tv_nsec / 980000000;
		soon.tv_nsec = (soon.tv_nsec + 20000000) % 1000000000;
		while (sem_timedwait(&called, &soon) && errno == EINTR)
			continue;
		return false;
	});
	if (!done)
		return 2;
	other.finish();
	return !was_busy && base != guard_pool.base;
}

TEST(sizeclass, two_that_switch_the_guard_make_one_pool)
{
	unsigned nr = steps::for_each([](unsigned step) {
		int status = harness::in_child([&] { _exit(guard_by_two(step * 7)); });
		bool is_last = status == 2 << 8;

		EXPECT_TRUE(!status || is_last) << step << harness::describe_status(status);
		return !is_last && !testing::Test::HasFailure();
	});
	EXPECT_GT(nr, 10u);
}
#endif

} /* namespace */
