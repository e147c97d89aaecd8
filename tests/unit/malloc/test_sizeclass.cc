/* SPDX-License-Identifier: MIT */
/* core/malloc/sizeclass.c: every size gets the smallest class that fits. */
#include <atomic>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>

#include "harness.h"
#include "slub.h"
#if defined(__x86_64__)
#include "steps.h"
#endif

extern "C" {
#include "features/guard/guard.h"
}

namespace {

/* The classes are made when they are first needed: here, all of them. */
struct slub_cache *made(size_t bytes, size_t align = MALLOC_ALIGN)
{
	return sizeclass_get(bytes, align);
}

std::set<uint32_t> class_sizes()
{
	std::set<uint32_t> sizes;

	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes++)
		sizes.insert(made(bytes)->size);
	return sizes;
}

constexpr size_t UNUSED = 23000;

unsigned caches_named(const std::string &name)
{
	unsigned nr = 0;

	for (struct slub_cache *c = cache_first(); c; c = cache_next(c))
		nr += cache_is_live(c) && name == c->name;
	return nr;
}

std::string class_name(size_t bytes)
{
	size_t number = (size_t)(sizeclass_cache(bytes) - sizeclass_cache(0));

	return "malloc-" + std::to_string(sizeclass_bytes((uint32_t)number) + CLASS_TAIL);
}

/* 0: @bytes have one cache, from which both @blocks come. */
int one_cache_has(size_t bytes, void *const (&blocks)[2])
{
	struct slub_cache *cache = sizeclass_cache(bytes);

	if (!blocks[0] || !blocks[1] || blocks[0] == blocks[1])
		return 3;
	if (cache_of(blocks[0]) != cache || cache_of(blocks[1]) != cache)
		return 4;
	return caches_named(class_name(bytes)) == 1 ? 0 : 5;
}

/* Each in a child of its own, where nobody has used the class before. */
void in_child_without_class(const std::function<int()> &work)
{
	int status = harness::in_child([&] {
		_exit(cache_is_live(sizeclass_cache(UNUSED)) ? 6 : work());
	});

	EXPECT_EQ(status, 0) << harness::describe_status(status);
}

/* First of all tests, before any other has used a class. */
TEST(a_class, that_nobody_used_has_no_cache)
{
	if (SLUB_CONFIG_HARDENED || option_text(OPTION_debug) || option_text(OPTION_profile))
		GTEST_SKIP() << "all are made at start";
	EXPECT_EQ(caches_named(class_name(UNUSED)), 0u);
	EXPECT_EQ(caches_named(class_name(CLASS_BYTES_MAX)), 1u);
	in_child_without_class([] {
		void *blocks[] = { malloc(UNUSED), malloc(UNUSED) };

		return one_cache_has(UNUSED, blocks);
	});
	in_child_without_class([] {
		void *blocks[] = { aligned_alloc(4096, UNUSED), aligned_alloc(4096, UNUSED) };

		return one_cache_has(24 << 10, blocks);
	});
}

TEST(a_class, is_made_once_by_two_threads)
{
	if (SLUB_CONFIG_HARDENED || option_text(OPTION_debug) || option_text(OPTION_profile))
		GTEST_SKIP() << "all are made at start";
	for (int i = 0; i < 20; i++) {
		in_child_without_class([] {
			std::atomic<int> ready{ 0 };
			void *blocks[2];
			auto first = [&](int n) {
				ready++;
				while (ready < 2)
					continue;
				blocks[n] = malloc(UNUSED);
			};
			std::thread other(first, 1);

			first(0);
			other.join();
			return one_cache_has(UNUSED, blocks);
		});
	}
}

#if defined(__x86_64__)
/*
 * Calls @meanwhile at the @n-th instruction of the class's first allocation with no lock held,
 * up to where the class is made.  0; 2: it has not so many; else what was wrong.
 */
int while_it_is_made(unsigned n, const std::function<int()> &meanwhile)
{
	void *blocks[2] = { nullptr, nullptr };
	int ret = 2;

	steps::run([&] { blocks[0] = malloc(UNUSED); }, [&] {
		if (slub_thread.locks_held)
			return true;
		if (n--)
			return !cache_is_live(sizeclass_cache(UNUSED));
		ret = meanwhile();
		return false;
	});
	if (ret)
		return ret;
	blocks[1] = malloc(UNUSED);
	return one_cache_has(UNUSED, blocks);
}

int allocate_one()
{
	void *block = malloc(UNUSED);

	if (!block)
		return 7;
	memset(block, 1, UNUSED);
	free(block);
	return 0;
}

void at_each_step(unsigned stride, const std::function<int()> &meanwhile)
{
	if (SLUB_CONFIG_HARDENED || option_text(OPTION_debug) || option_text(OPTION_profile))
		GTEST_SKIP() << "all are made at start";
	unsigned nr = steps::for_each([&](unsigned step) {
		int status = harness::in_child([&] {
			_exit(while_it_is_made(step * stride, meanwhile));
		});
		bool is_last = status == 2 << 8;

		EXPECT_TRUE(!status || is_last) << step << harness::describe_status(status);
		return !is_last && !testing::Test::HasFailure();
	});
	EXPECT_GT(nr, 4u);
}

/* It gets a block of a larger class, if need be. */
TEST(a_class, is_there_for_a_handler_that_interrupts_its_making)
{
	at_each_step(97, allocate_one);
}

TEST(a_class, is_made_in_the_child_of_a_fork_in_between)
{
	at_each_step(151, [] {
		int status = harness::in_child([] { _exit(allocate_one()); });

		return status ? 8 : 0;
	});
}

/* Who was making it is not there. */
TEST(a_class, is_made_in_the_child_of_another_thread)
{
	at_each_step(151, [] {
		int status = -1;
		std::thread other([&] {
			status = harness::in_child([] {
				void *blocks[] = { malloc(UNUSED), malloc(UNUSED) };

				_exit(one_cache_has(UNUSED, blocks));
			});
		});

		other.join();
		return status ? 9 : 0;
	});
}
#endif

TEST(sizeclass, there_are_as_many_as_said)
{
	auto sizes = class_sizes();

	EXPECT_EQ(sizes.size(), (size_t)CLASS_NR);
	EXPECT_EQ(*sizes.begin(), 16u);
	EXPECT_EQ(*sizes.rbegin(), CLASS_BYTES_MAX + CLASS_TAIL);
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
		struct slub_cache *cache = made(bytes);

		size_t whole = bytes + CLASS_TAIL;

		ASSERT_EQ(cache->size, *sizes.lower_bound((uint32_t)whole)) << bytes;
		ASSERT_GE(cache->object_size, bytes);
		/* One part in nine of the block at most, beyond the smallest sizes. */
		if (bytes > 128) {
			ASSERT_LT((cache->size - whole) * 8, whole) << bytes;
		}
	}
}

TEST(sizeclass, fast_path_table_says_the_same)
{
	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes++) {
		struct slub_cache *cache = made(bytes);
		uint32_t slot = malloc_slot[(bytes + CLASS_TAIL + CLASS_STEP - 1) / CLASS_STEP];

		/* The quarantine's lists are others. */
		ASSERT_EQ(slot, SLUB_CONFIG_HARDENED ? hardened_alloc_slot(cache) :
						       cache->list_slot) << bytes;
	}
}

TEST(sizeclass, limits_part_the_paths)
{
	EXPECT_EQ(malloc_paged_limit, CLASS_BYTES_MAX + 1);
	EXPECT_EQ(CLASS_WORD_MAX + CLASS_TAIL, made(CLASS_WORD_MAX)->size);
	for (size_t i = 0; i * CLASS_STEP <= CLASS_WORD_MAX + CLASS_TAIL; i++)
		ASSERT_EQ(percpu_table.slots[i], malloc_slot[i]) << i * CLASS_STEP;
	for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes++) {
		struct slub_cache *cache = made(bytes);
		bool is_paged = cache->slot - malloc_paged_slots < malloc_paged_slots_bytes;

		ASSERT_EQ(bytes <= CLASS_WORD_MAX, cache->link == 0) << bytes;
		ASSERT_EQ(is_paged, cache->link != 0) << bytes;
		/* free() adds a slot to the one that the map names. */
		if (is_paged) {
			ASSERT_EQ(cache->list_slot, cache->slot + SLOT_BYTES);
		}
	}
}

/* They look like a class of pages, and their lists are not where those of classes are. */
TEST(sizeclass, whole_pages_of_others_come_back_to_their_own_cache)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "what is freed waits";
	harness::one_cpu stays;
	struct slub_cache *caches[6];
	void *object, *next;

	for (auto &cache : caches) {
		std::string name = "pages-" + std::to_string(&cache - caches);

		cache = slub_cache_create(name.c_str(), PAGE_BYTES, PAGE_BYTES,
					  SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
	}
	for (auto &cache : caches) {
		object = slub_cache_alloc(cache);
		ASSERT_EQ((uintptr_t)object % PAGE_BYTES, 0u);
		free(object);
		for (auto &other : caches) {
			next = slub_cache_alloc(other);
			EXPECT_EQ(cache_of(next), other);
			slub_cache_free(other, next);
		}
	}
	for (auto &cache : caches)
		EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(sizeclass, aligned_is_the_smallest_aligned_that_fits)
{
	auto sizes = class_sizes();

	for (size_t align = 1; align <= PAGE_BYTES; align *= 2)
		for (size_t bytes = 0; bytes <= CLASS_BYTES_MAX; bytes += bytes < 2048 ? 1 : 37) {
			uint32_t want = 0;

			for (uint32_t size : sizes)
				if (!want && size >= bytes + CLASS_TAIL && size % align == 0)
					want = size;
			ASSERT_EQ(made(bytes, align)->size, want)
				<< bytes << " aligned to " << align;
			/* What alloc_aligned() takes from the list for a size is of it. */
			ASSERT_EQ(made(bytes_aligned(bytes, align))->size, want)
				<< bytes << " aligned to " << align;
		}
}

TEST(sizeclass, names_tell_the_size)
{
	for (uint32_t size : class_sizes())
		EXPECT_EQ(made(size - CLASS_TAIL)->name, "malloc-" + std::to_string(size));
}

TEST(sizeclass, malloc_uses_them)
{
	/* Blocks of no bytes are the guard's in the hardened build. */
	for (size_t bytes = SLUB_CONFIG_HARDENED; bytes <= CLASS_BYTES_MAX; bytes += 13) {
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

		if (guard_pools[GUARD_OBJECTS].bytes || slub_thread.locks_held || n--)
			return !guard_pools[GUARD_OBJECTS].bytes;
		done = true;
		other.begin([&] {
			was_busy = sizeclass_guard(100) == -EBUSY;
			base = guard_pools[GUARD_OBJECTS].base;
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
	return !was_busy && base != guard_pools[GUARD_OBJECTS].base;
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
