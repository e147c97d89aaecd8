/* SPDX-License-Identifier: MIT */
/*
 * Promise: a cache that is a variable is made once, by whichever thread is first, and is a cache
 * like any other; caches made and destroyed again and again leave nothing behind.
 */
#include <atomic>
#include <malloc.h>
#include <pthread.h>
#include <set>
#include <thread>

#include "api.h"

struct connection {
	uint64_t words[9];
};

struct alignas(256) wide {
	char bytes[300];
};

SLUB_CACHE_DEFINE(connections, struct connection, 0, nullptr);
SLUB_CACHE_DEFINE_STATIC(wides, struct wide, SLUB_CACHE_HWCACHE_ALIGN, nullptr);
SLUB_CACHE_DEFINE_STATIC(bad_flags, struct connection, 1 << 30, nullptr);

static std::atomic<int> static_ctor_calls;

static void static_ctor(void *object)
{
	static_ctor_calls++;
	memset(object, 0x77, sizeof(struct connection));
}

SLUB_CACHE_DEFINE_STATIC(constructed, struct connection, 0, static_ctor);

/* One for each round of the race, so that each round is a first time. */
#define RACED(n) SLUB_CACHE_DEFINE(raced##n, struct connection, 0, nullptr)
RACED(0); RACED(1); RACED(2); RACED(3); RACED(4); RACED(5); RACED(6); RACED(7);
RACED(8); RACED(9); RACED(10); RACED(11); RACED(12); RACED(13); RACED(14); RACED(15);
static struct slub_cache *const raced[] = {
	&raced0, &raced1, &raced2, &raced3, &raced4, &raced5, &raced6, &raced7,
	&raced8, &raced9, &raced10, &raced11, &raced12, &raced13, &raced14, &raced15,
};

/* Before main(), and before most constructors. */
static void *early;
__attribute__((constructor(200))) static void use_early()
{
	early = slub_cache_alloc(&connections);
}

namespace {

TEST(static_cache, works_before_main)
{
	ASSERT_NE(early, nullptr);
	EXPECT_EQ(slub_cache_of(early), &connections);
	EXPECT_STREQ(slub_cache_name(&connections), "connections");
	EXPECT_EQ(slub_cache_size(&connections), sizeof(struct connection));
	slub_cache_free(&connections, early);
}

TEST(static_cache, has_the_alignment_of_its_type)
{
	void *objects[30];

	for (void *&object : objects) {
		object = slub_cache_alloc(&wides);
		ASSERT_NE(object, nullptr);
		EXPECT_EQ((uintptr_t)object % 256, 0u);
	}
	slub_cache_free_bulk(&wides, 30, objects);
}

TEST(static_cache, constructs)
{
	auto *object = static_cast<unsigned char *>(slub_cache_alloc(&constructed));

	ASSERT_NE(object, nullptr);
	for (size_t i = 0; i < sizeof(struct connection); i++)
		EXPECT_EQ(object[i], 0x77);
	EXPECT_GT(static_ctor_calls, 0);
	slub_cache_free(&constructed, object);
}

TEST(static_cache, that_cannot_be_made_says_why)
{
	void *objects[2];
	struct slub_prefill prefill = {};

	for (int i = 0; i < 3; i++) {
		errno = 0;
		EXPECT_EQ(slub_cache_alloc(&bad_flags), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_EQ(slub_cache_zalloc(&bad_flags), nullptr);
	EXPECT_EQ(slub_cache_alloc_bulk(&bad_flags, 0, 2, objects), 0u);
	EXPECT_EQ(slub_cache_prefill(&bad_flags, &prefill, 2), -EINVAL);
	EXPECT_EQ(slub_cache_destroy(&bad_flags), -EINVAL);
	EXPECT_STREQ(slub_cache_name(&bad_flags), "bad_flags");
}

TEST(static_cache, is_not_made_by_a_free)
{
	SLUB_CACHE_DEFINE_STATIC(never_used, struct connection, 0, nullptr);
	void *block = malloc(72);
	char local[8];

	slub_cache_free(&never_used, nullptr);
	slub_cache_free(&never_used, local);
	slub_cache_free(&never_used, block);	/* malloc's: goes home */
	EXPECT_EQ(slub_cache_destroy(&never_used), -EINVAL);
}

TEST(static_cache, can_be_destroyed_and_used_again)
{
	for (int round = 0; round < 5; round++) {
		void *object = slub_cache_alloc(&wides);

		ASSERT_NE(object, nullptr);
		EXPECT_EQ(slub_cache_destroy(&wides), -EBUSY);
		slub_cache_free(&wides, object);
		EXPECT_EQ(slub_cache_destroy(&wides), 0);
		EXPECT_EQ(slub_cache_destroy(&wides), -EINVAL);
	}
}

TEST(static_cache, a_name_in_use_is_refused_to_it)
{
	SLUB_CACHE_DEFINE_STATIC(name_twice, struct connection, 0, nullptr);
	struct slub_cache *other = slub_cache_create("name_twice", 8, 0, 0, nullptr);

	ASSERT_NE(other, nullptr);
	errno = 0;
	EXPECT_EQ(slub_cache_alloc(&name_twice), nullptr);
	EXPECT_EQ(errno, EEXIST);
	EXPECT_EQ(slub_cache_destroy(other), 0);
	void *object = slub_cache_alloc(&name_twice);
	EXPECT_NE(object, nullptr);
	slub_cache_free(&name_twice, object);
	EXPECT_EQ(slub_cache_destroy(&name_twice), 0);
}

TEST(static_cache, many_threads_at_once_for_the_first_time)
{
	for (struct slub_cache *cache : raced) {
		const unsigned nr = 8;
		pthread_barrier_t barrier;
		std::vector<std::vector<void *>> objects(nr);
		std::vector<std::thread> threads;

		pthread_barrier_init(&barrier, nullptr, nr);
		for (unsigned t = 0; t < nr; t++) {
			threads.emplace_back([&, t] {
				pthread_barrier_wait(&barrier);
				for (int i = 0; i < 200; i++)
					objects[t].push_back(slub_cache_alloc(cache));
			});
		}
		for (auto &thread : threads)
			thread.join();
		std::set<void *> different;
		for (auto &some : objects) {
			for (void *object : some) {
				ASSERT_NE(object, nullptr);
				ASSERT_EQ(slub_cache_of(object), cache);
				different.insert(object);
			}
		}
		EXPECT_EQ(different.size(), nr * 200);
		for (void *object : different)
			slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		pthread_barrier_destroy(&barrier);
	}
}

/* A destroy waits for readers, and a reader must not wait for the destroy. */
TEST(static_cache, is_made_by_a_reader_whom_a_destroy_waits_for)
{
	SLUB_CACHE_DEFINE_STATIC(for_readers, struct connection, 0, nullptr);
	struct slub_cache *doomed = slub_cache_create("doomed", 64, 0, SLUB_CACHE_NO_MERGE,
			nullptr);
	std::atomic<bool> over{ false };
	int index = slub_read_lock();

	slub_free_deferred(slub_cache_alloc(doomed));
	std::thread destroyer([&] {
		EXPECT_EQ(slub_cache_destroy(doomed), 0);
		over = true;
	});
	usleep(50000);
	EXPECT_FALSE(over) << "the object is not free before the reader is gone";
	void *object = slub_cache_alloc(&for_readers);
	EXPECT_NE(object, nullptr);
	slub_read_unlock(index);
	destroyer.join();
	slub_cache_free(&for_readers, object);
	EXPECT_EQ(slub_cache_destroy(&for_readers), 0);
}

/* ---- made and destroyed again and again ---- */

TEST(cache_churn, leaves_no_slots_memory_or_metadata_behind)
{
	const size_t rounds = api::scaled(100000);
	size_t percpu = 0, resident = 0;

	for (size_t i = 0; i < rounds; i++) {
		unsigned long flags = i % 3 == 1 ? SLUB_CACHE_TYPESAFE_BY_RCU : 0;
		struct slub_cache *cache = slub_cache_create("churn", 8 + i % 500, 0, flags,
							     i % 5 ? nullptr : static_ctor);
		size_t size = 8 + i % 500;

		ASSERT_NE(cache, nullptr) << i << " " << strerror(errno);
		if (i % 5 && i % 2) {
			void *object = slub_cache_alloc(cache);

			memset(object, 1, size);
			slub_cache_free(cache, object);
		}
		ASSERT_EQ(slub_cache_destroy(cache), 0) << i;
		if (i == rounds / 4) {
			percpu = slub_percpu_bytes();
			resident = harness::resident_bytes();
		}
	}
	EXPECT_EQ(slub_percpu_bytes(), percpu);
	EXPECT_LT(harness::resident_bytes(), resident + (4 << 20));
}

TEST(cache_churn, while_others_use_other_caches)
{
	std::atomic<bool> stop{ false };
	std::atomic<size_t> wrong{ 0 };
	std::vector<std::thread> threads;
	api::cache steady(64);

	for (int t = 0; t < 3; t++) {
		threads.emplace_back([&, t] {
			harness::Random random(t + 1);
			std::vector<uint64_t *> mine;

			while (!stop) {
				if (mine.size() < 400 && random.below(2)) {
					mine.push_back((uint64_t *)slub_cache_alloc(steady));
					mine.back()[7] = (uintptr_t)mine.back();
					void *block = malloc(64);
					memset(block, 0xdd, 64);
					free(block);
				} else if (!mine.empty()) {
					wrong += mine.back()[7] != (uintptr_t)mine.back();
					slub_cache_free(steady, mine.back());
					mine.pop_back();
				}
			}
			for (auto *object : mine)
				slub_cache_free(steady, object);
		});
	}
	std::vector<std::thread> churners;
	for (int t = 0; t < 2; t++) {
		churners.emplace_back([&, t] {
			for (size_t i = 0; i < api::scaled(3000); i++) {
				unsigned long flags = i % 4 ? 0 : SLUB_CACHE_TYPESAFE_BY_RCU;
				std::string name = "churn-" + std::to_string(t);
				struct slub_cache *cache =
					slub_cache_create(name.c_str(), 64, 0, flags, nullptr);
				std::vector<void *> objects(1 + i % 100);

				if (!cache) {
					wrong++;
					continue;
				}
				for (void *&object : objects)
					memset(object = slub_cache_alloc(cache), 0xcc, 64);
				for (void *object : objects)
					slub_cache_free(cache, object);
				wrong += slub_cache_destroy(cache) != 0;
			}
		});
	}
	for (auto &thread : churners)
		thread.join();
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(api::count_objects(steady), 0u);
}

/* Each finds the other in the middle of it, time and again; one day both waited for ever. */
TEST(cache_churn, made_by_two_threads_at_once)
{
	std::atomic<size_t> wrong{ 0 };
	std::vector<std::thread> threads;

	for (int t = 0; t < 2; t++) {
		threads.emplace_back([&, t] {
			std::string name = "at-once-" + std::to_string(t);

			for (size_t i = 0; i < api::scaled(150000); i++) {
				struct slub_cache *cache = slub_cache_create(
					name.c_str(), 64, 0, SLUB_CACHE_NO_MERGE, nullptr);

				wrong += !cache || slub_cache_destroy(cache) != 0;
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(wrong, 0u);
}

} /* namespace */
