/* SPDX-License-Identifier: MIT */
/*
 * core/slab/alloc.c and free.c under the backend of SLUB_FASTPATH: whatever happens, each
 * object is in one place, and the slabs know how many are in use.
 */
#include <atomic>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

#include "check.h"
#include "start.h"

#define _Static_assert static_assert
#define _Atomic
extern "C" {
#include "features/groups/owned.h"
}
#undef _Static_assert
#undef _Atomic

static std::vector<void *> gone;
static void *not_to_be_freed;

/* In place of the library's: what the slow path tells the profile, and asks of owners. */
extern "C" void __wrap_sample_gone(void *object)
{
	gone.push_back(object);
}

extern "C" bool __wrap_account_free(struct slub_cache *, void *object)
{
	return object != not_to_be_freed;
}

static struct slub_cache *watched;

/* The linker sends the library's calls here (--wrap): @watched gets a twin right then. */
extern "C" void *__real_percpu_take(uint32_t half, int32_t room);

extern "C" void *__wrap_percpu_take(uint32_t half, int32_t room)
{
	if (watched)
		__atomic_store_n(&watched->twin, watched, __ATOMIC_RELEASE);
	return __real_percpu_take(half, room);
}

static std::vector<void *> freed_watched;
static const void *frame_of_free;

/* In place of the one that looks at a watched object. */
extern "C" void __wrap_debug_free(struct slub_cache *, void *object, const void *frame)
{
	freed_watched.push_back(object);
	frame_of_free = frame;
}

static unsigned nr_answers;

/* In place of the one that does what another process asked for. */
extern "C" void __wrap_debug_mailbox_answer(void)
{
	nr_answers++;
	slub_debug_mailbox.state = MAILBOX_IDLE;
}

namespace {

class alloc : public testing::TestWithParam<uint32_t> {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::slab(128ul << 20, 16ul << 20); });
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		cache = test_cache(GetParam());
		slab_shrink_all();
	}
	void TearDown() override
	{
		if (IsSkipped())
			return;
		check_cache(cache, {});
		shrink_fully();
		if (percpu_can_stop || percpu_backend > BACKEND_THREAD) {
			EXPECT_EQ(check_cache(cache, {}), 0u);
			EXPECT_EQ(cache->nodes[0]->nr_slabs, 0u);
			EXPECT_EQ(superblock_nr_used(), 0u);
		}
		page_purge(0);
	}
	struct slub_cache *cache;
	/* Enough to see who else wrote there; large objects would take the time. */
	const size_t filled = std::min<size_t>(GetParam(), 1280);
};

TEST_P(alloc, what_was_freed_last_comes_back_first)
{
	void *one = cache_alloc(cache), *two = cache_alloc(cache);

	ASSERT_NE(one, nullptr);
	ASSERT_NE(one, two);
	if (percpu_backend > BACKEND_THREAD)
		harness::stay_on_this_cpu();
	cache_free(cache, one);
	cache_free(cache, two);
	if (percpu_backend == BACKEND_THREAD) {
		EXPECT_EQ(cache_alloc(cache), two);
		EXPECT_EQ(cache_alloc(cache), one);
		cache_free(cache, one);
		cache_free(cache, two);
	}
}

TEST_P(alloc, random_operations)
{
	harness::Random random(GetParam());
	std::vector<void *> mine;
	size_t bytes_max = 12ul << 20, most = std::min(bytes_max / cache->size, 6000ul);

	for (int i = 0; i < 60000; i++) {
		/* Waves: up to all of it, down to nearly nothing. */
		bool grow = random.below(most) > mine.size() ? random.below(4) : !random.below(4);

		if (i / 10000 % 2 == 0 ? grow || mine.empty() : random.below(4) == 0) {
			void *object = cache_alloc(cache);

			ASSERT_NE(object, nullptr);
			harness::fill(object, filled, (uintptr_t)object);
			mine.push_back(object);
		} else if (!mine.empty()) {
			size_t at = random.below(mine.size());

			ASSERT_TRUE(harness::intact(mine[at], filled, (uintptr_t)mine[at]));
			cache_free(cache, mine[at]);
			mine[at] = mine.back();
			mine.pop_back();
		}
		if (i % 5000 == 0) {
			check_cache(cache, mine);
			if (i % 15000 == 0) {
				slab_shrink_all();
				check_cache(cache, mine);
			}
			ASSERT_FALSE(HasFailure()) << "operation " << i;
		}
	}
	for (void *object : mine)
		cache_free(cache, object);
}

/* Objects travel between threads, one of which empties everything now and then. */
TEST_P(alloc, threads)
{
	std::mutex mutex;
	std::vector<void *> exchange;
	std::atomic<int> errors{0};
	std::vector<std::thread> threads;

	for (uint64_t t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			harness::Random random(t + GetParam());
			std::vector<void *> mine;

			for (int i = 0; i < 30000; i++) {
				uint64_t what = random.below(16);

				if (what == 0) {
					std::lock_guard<std::mutex> guard(mutex);
					exchange.swap(mine);
				} else if (what < 9 && mine.size() < 300) {
					void *object = cache_alloc(cache);

					if (!object) {
						errors++;
						continue;
					}
					harness::fill(object, filled, (uintptr_t)object);
					mine.push_back(object);
				} else if (!mine.empty()) {
					void *object = mine.back();

					mine.pop_back();
					errors += !harness::intact(object, filled,
								   (uintptr_t)object);
					cache_free(cache, object);
				}
				if (t == 0 && i % 2000 == 0)
					slab_shrink_all();
			}
			std::lock_guard<std::mutex> guard(mutex);
			exchange.insert(exchange.end(), mine.begin(), mine.end());
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(errors, 0);
	check_cache(cache, exchange);
	for (void *object : exchange) {
		EXPECT_TRUE(harness::intact(object, filled, (uintptr_t)object));
		cache_free(cache, object);
	}
}

/* A signal handler that interrupted the holder of a lock. */
TEST_P(alloc, under_a_lock_only_the_lists_are_used)
{
	std::vector<void *> mine;
	void *object;

	if (percpu_backend != BACKEND_LOCK)
		harness::stay_on_this_cpu();
	for (int i = 0; i < 2 * cache->capacity; i++)
		mine.push_back(cache_alloc(cache));
	size_t slabs = cache->nodes[0]->nr_slabs;
	uint32_t before = slub_thread.locks_held++;
	/* Where no CPU can be stopped, lists are as long as the tests before left them. */
	for (int i = 0; i < 100 * cache->capacity && (object = cache_alloc(cache)); i++)
		mine.push_back(object);
	EXPECT_EQ(cache->nodes[0]->nr_slabs, slabs);
	EXPECT_EQ(cache_alloc(cache), nullptr);
	/* More than the list holds: the rest is put off, and not lost. */
	for (void *one : mine)
		cache_free(cache, one);
	slub_thread.locks_held = before;
	cache_free_postponed();
	check_cache(cache, {});
}

TEST_P(alloc, what_was_put_off_is_freed_on_the_next_slow_path)
{
	std::vector<void *> mine;

	if (percpu_backend != BACKEND_LOCK)
		harness::stay_on_this_cpu();
	for (int i = 0; i < 400 * cache->capacity && i < 100000; i++) {
		void *object = cache_alloc(cache);
		if (!object)
			break;
		mine.push_back(object);
	}
	uint32_t before = slub_thread.locks_held++;
	while (!cache_postponed && !mine.empty()) {
		cache_free(cache, mine.back());
		mine.pop_back();
	}
	slub_thread.locks_held = before;
	if (!cache_postponed)
		GTEST_SKIP() << "the list takes them all";
	/* Until the list is full, and a little more. */
	for (size_t i = 0; cache_postponed && i < 2u * cache->capacity && !mine.empty(); i++) {
		cache_free(cache, mine.back());
		mine.pop_back();
	}
	EXPECT_EQ(cache_postponed, nullptr);
	for (void *one : mine)
		cache_free(cache, one);
}

/* The last charge of its owner, or the end of a sample, may take a lock. */
TEST_P(alloc, what_may_want_a_lock_is_put_off_under_one)
{
	for (bool *kind : { &cache->is_accounted, &cache->is_sampled }) {
		void *one = cache_alloc(cache), *two = cache_alloc(cache);

		cache_free_postponed();
		*kind = true;
		slub_thread.locks_held++;
		cache_free(cache, one);
		EXPECT_EQ(cache_postponed, one);
		cache_free(cache, two);
		slub_thread.locks_held--;
		*kind = false;
		EXPECT_EQ(cache_postponed, two);
		EXPECT_EQ(*link_of(cache, two), one);
		EXPECT_EQ(*link_of(cache, one), nullptr);
		check_cache(cache, { one, two });
		cache_free_postponed();
		EXPECT_EQ(cache_postponed, nullptr);
		check_cache(cache, {});
	}
}

TEST_P(alloc, the_end_of_a_sample_is_told_once)
{
	void *one = cache_alloc(cache), *two = cache_alloc(cache), *three = cache_alloc(cache);

	cache_free_postponed();
	gone.clear();
	cache_free(cache, one);
	EXPECT_EQ(gone, std::vector<void *>{}) << "none of a cache of samples";
	cache->is_sampled = true;
	cache_free(cache, two);
	EXPECT_EQ(gone, std::vector<void *>{ two });
	slub_thread.locks_held++;
	cache_free(cache, three);
	slub_thread.locks_held--;
	EXPECT_EQ(gone, std::vector<void *>{ two }) << "it may take a lock";
	cache_free_postponed();
	EXPECT_EQ(gone, (std::vector<void *>{ two, three }));
	cache->is_sampled = false;
	check_cache(cache, {});
}

/* Its owner's word says that it is free: it is on no list a second time. */
TEST_P(alloc, what_owners_refuse_is_not_freed)
{
	void *one = cache_alloc(cache), *two = cache_alloc(cache);

	cache_free_postponed();
	cache->is_accounted = true;
	not_to_be_freed = one;
	cache_free(cache, one);
	cache_free(cache, two);
	cache->is_accounted = false;
	not_to_be_freed = nullptr;
	check_cache(cache, { one });
	cache_free(cache, one);
}

/* From then on its lists are to stay empty, also one that a slow path has filled since. */
TEST_P(alloc, a_list_that_is_filled_as_its_cache_is_watched_is_emptied)
{
	if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	auto are_empty = [&] {
		for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
			if (!cache_list_is_empty(cache, cid))
				return false;
		return true;
	};
	slab_shrink_all();
	watched = cache;
	void *object = cache_alloc(cache);
	watched = nullptr;
	EXPECT_EQ(cache->twin, cache);
	cache->twin = nullptr;
	EXPECT_TRUE(are_empty()) << "cache_alloc";
	/* Lists without room: it takes the slow path. */
	slab_shrink_all();
	watched = cache;
	cache_free(cache, object);
	watched = nullptr;
	EXPECT_EQ(cache->twin, cache);
	cache->twin = nullptr;
	EXPECT_TRUE(are_empty()) << "cache_free";
}

/* An object of a twin, or one from before its cache had one: the lists stay empty. */
TEST_P(alloc, a_watched_object_is_looked_at_and_an_older_one_goes_to_its_slab)
{
	if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	const struct debug_layout *none = cache->debug;
	void *one = cache_alloc(cache), *two = cache_alloc(cache);

	slab_shrink_all();
	uint32_t in_use = state_inuse(*page_state(slab_of(cache, two)));
	freed_watched.clear();
	cache->debug = (const struct debug_layout *)&freed_watched;
	cache_free(cache, one);
	cache->debug = none;
	EXPECT_EQ(freed_watched, std::vector<void *>{ one });
	/* The call's own frame: traces begin there. */
	EXPECT_LT(frame_of_free, __builtin_frame_address(0));
	EXPECT_GT(frame_of_free, (char *)__builtin_frame_address(0) - 4096);
	cache->twin = cache;
	cache_free(cache, two);
	cache->twin = nullptr;
	EXPECT_EQ(freed_watched.size(), 1u);
	/* Where that was the last one, the slab is gone. */
	if (in_use > 1) {
		EXPECT_EQ(state_inuse(*page_state(slab_of(cache, two))), in_use - 1);
	}
	check_cache(cache, { one });
	cache_free(cache, one);
}

/* How much less than an object is asked for: at first what it is, then an average. */
TEST_P(alloc, what_objects_are_asked_for_is_noted_on_the_slow_path)
{
	std::vector<void *> mine;
	uint32_t bytes = cache->object_size;
	auto alloc_slowly = [&](uint32_t asked) {
		slab_shrink_all();
		mine.push_back(cache_alloc_sized(cache, asked));
		return cache->slack;
	};

	if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	cache->slack = 0;
	EXPECT_EQ(alloc_slowly(bytes - 8), 8 * 256 + 1u);
	EXPECT_EQ(alloc_slowly(bytes), 8 * 256 + 1u - 64);
	EXPECT_EQ(alloc_slowly(bytes - 15), 7 * 256 + 1u + 192 + (15 * 256 - (7 * 256 + 192)) / 32);
	cache->slack = 0;
	for (void *object : mine)
		cache_free(cache, object);
}

/* Another process asks: each slow path looks, with no lock held. */
TEST_P(alloc, slow_paths_look_at_the_mailbox)
{
	std::vector<void *> mine;
	auto ask = [&] {
		/* Lists without room: what is freed next takes the slow path. */
		slab_shrink_all();
		nr_answers = 0;
		slub_debug_mailbox.state = MAILBOX_REQUEST;
	};

	if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	while (mine.size() < 4)
		mine.push_back(cache_alloc(cache));
	nr_answers = 0;
	cache_free(cache, cache_alloc(cache));
	EXPECT_EQ(nr_answers, 0u) << "nobody asked";
	ask();
	void *last = cache_alloc(cache);
	EXPECT_EQ(nr_answers, 1u) << "cache_alloc";
	ask();
	cache_free(cache, last);
	EXPECT_EQ(nr_answers, 1u) << "cache_free";
	ask();
	if (cache_free_kept(cache, mine[0])) {
		EXPECT_EQ(nr_answers, 1u) << "cache_free_kept";
	} else {
		EXPECT_TRUE(SLUB_CONFIG_HARDENED);
		cache_free(cache, mine[0]);
	}
	ask();
	slub_thread.locks_held++;
	cache_free(cache, mine[1]);
	slub_thread.locks_held--;
	EXPECT_EQ(nr_answers, 0u) << "under a lock";
	slub_debug_mailbox.state = MAILBOX_IDLE;
	cache_free(cache, mine[2]);
	cache_free(cache, mine[3]);
	cache_free_postponed();
}

TEST_P(alloc, a_thread_that_only_frees_gets_lists)
{
	if (percpu_backend > BACKEND_THREAD)
		GTEST_SKIP() << "other backends take any thread";
	void *one = cache_alloc(cache);

	std::thread([&] {
		cache_free(cache, one);
		EXPECT_TRUE(slub_thread.flags & THREAD_CHECKED);
	}).join();
}

/* However a free has made the list: what is in it and its room are as long as a list gets. */
class room : public alloc {
protected:
	void SetUp() override
	{
		alloc::SetUp();
		if (!IsSkipped() && percpu_backend == BACKEND_RSEQ)
			GTEST_SKIP() << "an aborted sequence may leave the room one off";
		if (percpu_backend > BACKEND_THREAD)
			harness::stay_on_this_cpu();
	}
	void TearDown() override
	{
		page_purge_owed = false;
		alloc::TearDown();
	}
	static struct slot *slot(const struct slub_cache *cache)
	{
		return (struct slot *)(percpu_area(percpu_here()) + cache->list_slot);
	}
	long holds() const
	{
		long n = *percpu_room(slot(cache));

		for (void *o = slot(cache)->main.head; o; o = chain_next(cache, o))
			n++;
		return n;
	}
	/* While memory is to go back, lists are short: OWED_CAPACITY of free.c. */
	long wanted() const
	{
		long capacity = capacity_now(cache);

		return page_purge_is_owed() ? std::min(capacity, 16l) : capacity;
	}
	/* Frees @mine, and compares after each that makes a list; how many did is in @made. */
	void free_all(const std::vector<void *> &mine, bool is_owed)
	{
		long before = 0;

		made = 0;
		for (void *object : mine) {
			/* A purge that took long leaves something, by itself. */
			if (is_owed)
				page_purge_owed = true;
			long length = wanted();

			cache_free(cache, object);
			long now = holds();
			/* 0: all lists were emptied for the budget. */
			if (now && now != before) {
				ASSERT_EQ(now, length);
				made++;
			}
			before = now;
		}
	}
	std::vector<void *> take_all() const
	{
		size_t most = std::min((size_t)(3 * cache->capacity + 2),
				       (48ul << 20) / cache->size);
		std::vector<void *> mine;

		while (mine.size() < most)
			mine.push_back(cache_alloc(cache));
		return mine;
	}
	unsigned made;
};

TEST_P(room, a_list_has_room_for_what_it_lacks)
{
	std::vector<void *> mine = take_all();

	slab_shrink_all();
	ASSERT_EQ(slot(cache)->main.head, nullptr);
	mine.push_back(cache_alloc(cache));
	if (slot(cache)->main.head) {
		EXPECT_EQ(holds(), capacity_now(cache)) << "a refill";
	}
	slab_shrink_all();
	free_all(mine, false);
	EXPECT_GE(made, 1u);
}

TEST_P(room, lists_are_short_while_memory_is_to_go_back)
{
	std::vector<void *> mine = take_all();

	slab_shrink_all();
	free_all(mine, true);
	EXPECT_GE(made, 1u);
}

TEST_P(alloc, no_memory_is_an_answer)
{
	std::vector<void *> mine;
	void *object;

	if (cache->size < 8192)
		GTEST_SKIP() << "takes long with small objects";
	while ((object = cache_alloc(cache)))
		mine.push_back(object);
	EXPECT_GT(mine.size() * cache->size, 100ul << 20);
	EXPECT_EQ(cache_alloc(cache), nullptr);
	check_cache(cache, mine);
	cache_free(cache, mine.back());
	mine.pop_back();
	EXPECT_NE(object = cache_alloc(cache), nullptr);
	cache_free(cache, object);
	for (void *one : mine)
		cache_free(cache, one);
}

INSTANTIATE_TEST_SUITE_P(size, alloc, testing::Values(16, 112, 1280, 4096, 24576),
			 testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(size, room, testing::Values(16, 112, 1280, 4096, 24576),
			 testing::PrintToStringParamName());

} /* namespace */
