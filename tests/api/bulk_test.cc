/* SPDX-License-Identifier: MIT */
/*
 * Promise: bulk calls are all or nothing and mix with single ones, at the sizes of the kernel's
 * slab_bulk_test (1 to 250) and in its worst case, where neighbours in the array lie on different
 * slabs; what was put aside by a prefill cannot fail.
 */
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <sys/resource.h>
#include <thread>

#include "api.h"

namespace {

const size_t sizes[] = { 1, 2, 3, 4, 8, 16, 30, 32, 34, 48, 64, 128, 158, 250 };

struct kind {
	const char *name;
	size_t size;
	unsigned long flags;
	bool constructed;
};

const kind kinds[] = {
	{ "small", 16, 0, false },
	{ "kernels", 216, 0, false },
	{ "constructed", 216, 0, true },
	{ "typesafe", 216, SLUB_CACHE_TYPESAFE_BY_RCU, false },
	{ "paged", 4096, 0, false },
	{ "large", 65536, 0, false },
};

class bulk : public testing::TestWithParam<kind> {
protected:
	api::cache cache{ GetParam().size, 0, GetParam().flags,
			  GetParam().constructed ? +[](void *) {} : nullptr };
	size_t size = GetParam().size;

	void own(void *const *objects, size_t nr)
	{
		for (size_t i = 0; i < nr; i++)
			harness::fill(objects[i], std::min<size_t>(size, 256),
				      (uintptr_t)objects[i]);
	}
	void expect_own(void *const *objects, size_t nr)
	{
		for (size_t i = 0; i < nr; i++)
			ASSERT_TRUE(harness::intact(objects[i], std::min<size_t>(size, 256),
						    (uintptr_t)objects[i]));
	}
};

TEST_P(bulk, every_size_gives_different_objects_of_this_cache)
{
	for (size_t nr : sizes) {
		for (int round = 0; round < 20; round++) {
			std::vector<void *> objects(nr + 1, &cache);

			ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
			EXPECT_EQ(objects[nr], &cache) << "wrote too far";
			std::set<void *> different(objects.begin(), objects.end() - 1);
			ASSERT_EQ(different.size(), nr);
			for (size_t i = 0; i < nr; i++)
				ASSERT_EQ(slub_cache_of(objects[i]), cache.it);
			own(objects.data(), nr);
			expect_own(objects.data(), nr);
			std::vector<void *> copy = objects;
			slub_cache_free_bulk(round % 2 ? cache.it : nullptr, nr, objects.data());
			EXPECT_EQ(objects, copy) << "the array is the caller's";
		}
	}
	EXPECT_EQ(api::count_objects(cache), 0u);
}

TEST_P(bulk, of_nothing)
{
	void *none = nullptr;

	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 0, nullptr), 0u);
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 0, &none), 0u);
	EXPECT_EQ(none, nullptr);
	slub_cache_free_bulk(cache, 0, nullptr);
	slub_cache_free_bulk(nullptr, 0, nullptr);
}

TEST_P(bulk, more_than_any_list_holds)
{
	size_t nr = std::min<size_t>((64 << 20) / size, 30000);
	std::vector<void *> objects(nr);

	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
		ASSERT_EQ(std::set<void *>(objects.begin(), objects.end()).size(), nr);
		own(objects.data(), nr);
		expect_own(objects.data(), nr);
		slub_cache_free_bulk(cache, nr, objects.data());
	}
}

TEST_P(bulk, null_pointers_are_skipped)
{
	void *objects[6] = { nullptr, slub_cache_alloc(cache), nullptr, nullptr,
			     slub_cache_alloc(cache), nullptr };

	slub_cache_free_bulk(cache, 6, objects);
	objects[1] = slub_cache_alloc(cache);
	objects[4] = slub_cache_alloc(cache);
	slub_cache_free_bulk(nullptr, 6, objects);
	EXPECT_EQ(api::count_objects(cache), 0u);
}

/* slab_bulk_test03: 1 to 6, 10 and bulk + 1 neighbours on one page, then the next page. */
TEST_P(bulk, worst_case_neighbours_on_different_slabs)
{
	size_t nr = std::min<size_t>((8 << 20) / size, 4096);
	std::vector<void *> objects(nr);

	for (size_t match : { 1, 2, 3, 4, 5, 6, 10, 65 }) {
		std::map<uintptr_t, std::vector<void *>> pages;
		std::vector<void *> mixed;

		ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
		own(objects.data(), nr);
		for (void *object : objects)
			pages[(uintptr_t)object >> 15].push_back(object);
		while (mixed.size() < nr) {
			for (auto &page : pages) {
				for (size_t i = 0; i < match && !page.second.empty(); i++) {
					mixed.push_back(page.second.back());
					page.second.pop_back();
				}
			}
		}
		expect_own(mixed.data(), nr);
		for (size_t at = 0; at < nr; at += 64)
			slub_cache_free_bulk(match % 2 ? cache.it : nullptr,
					     std::min<size_t>(64, nr - at), &mixed[at]);
		ASSERT_EQ(api::count_objects(cache), 0u);
	}
}

TEST_P(bulk, mixes_with_single_calls_and_threads)
{
	std::atomic<size_t> wrong{ 0 };
	std::vector<std::thread> threads;
	size_t most = std::min<size_t>((2 << 20) / size, 1000);

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&, t] {
			harness::Random random(t + 1);
			std::vector<void *> mine;
			size_t words = std::min<size_t>(size, 64) / 8;

			for (int i = 0; i < 6000; i++) {
				size_t nr = sizes[random.below(14)];
				void *some[250];

				if (mine.size() + nr <= most && random.below(2)) {
					if (slub_cache_alloc_bulk(cache, 0, nr, some) != nr)
						wrong++;
					for (size_t k = 0; k < nr; k++) {
						for (size_t w = 0; w < words; w++)
							((void **)some[k])[w] = some[k];
						mine.push_back(some[k]);
					}
					continue;
				}
				nr = std::min(nr, mine.size());
				for (size_t k = 0; k < nr; k++) {
					some[k] = mine.back();
					for (size_t w = 0; w < words; w++)
						wrong += ((void **)some[k])[w] != some[k];
					mine.pop_back();
				}
				if (random.below(4))
					slub_cache_free_bulk(random.below(2) ? cache.it : nullptr,
							     nr, some);
				else
					for (size_t k = 0; k < nr; k++)
						slub_cache_free(cache, some[k]);
			}
			slub_cache_free_bulk(cache, mine.size(), mine.data());
		});
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(api::count_objects(cache), 0u);
}

/* ---- prefill ---- */

TEST_P(bulk, prefill_gives_what_it_promised)
{
	for (size_t nr : { 0ul, 1ul, 5ul, 64ul, 65ul, 250ul }) {
		struct slub_prefill prefill = {};
		std::set<void *> mine;

		ASSERT_EQ(slub_cache_prefill(cache, &prefill, nr), 0);
		EXPECT_EQ(prefill.nr, nr);
		EXPECT_EQ(api::count_objects(cache), nr) << "put aside is allocated";
		for (size_t i = 0; i < nr; i++) {
			void *object = slub_prefill_alloc(&prefill);

			ASSERT_NE(object, nullptr);
			ASSERT_TRUE(mine.insert(object).second);
			ASSERT_EQ(slub_cache_of(object), cache.it);
		}
		EXPECT_EQ(slub_prefill_alloc(&prefill), nullptr);
		EXPECT_EQ(slub_prefill_alloc(&prefill), nullptr);
		/* Filled up again from empty, and from a part. */
		ASSERT_EQ(slub_cache_prefill(cache, &prefill, 10), 0);
		mine.insert(slub_prefill_alloc(&prefill));
		ASSERT_EQ(slub_cache_prefill(cache, &prefill, 20), 0);
		EXPECT_EQ(prefill.nr, 20u);
		ASSERT_EQ(slub_cache_prefill(cache, &prefill, 5), 0);
		EXPECT_EQ(prefill.nr, 20u) << "never made smaller";
		api::cache other(GetParam().size);
		EXPECT_EQ(slub_cache_prefill(other, &prefill, 30), -EINVAL);
		EXPECT_EQ(prefill.nr, 20u);
		slub_prefill_return(&prefill);
		slub_prefill_return(&prefill);
		EXPECT_EQ(slub_prefill_alloc(&prefill), nullptr);
		EXPECT_EQ(api::count_objects(cache), mine.size());
		for (void *object : mine)
			slub_cache_free(cache, object);
	}
}

INSTANTIATE_TEST_SUITE_P(kinds, bulk, testing::ValuesIn(kinds),
			 [](auto &info) { return std::string(info.param.name); });

/* ---- mixed caches ---- */

TEST(bulk_mixed, objects_of_any_caches)
{
	api::cache a(64), b(64, 0, 0, [](void *) {}), c(8192), d(100, 0,
			SLUB_CACHE_TYPESAFE_BY_RCU);
	struct slub_cache *caches[] = { a, b, c, d };
	harness::Random random(3);

	for (int round = 0; round < 30; round++) {
		std::vector<void *> objects;

		for (int i = 0; i < 1000; i++) {
			size_t which = random.below(6);

			if (which < 4)
				objects.push_back(slub_cache_alloc(caches[which]));
			else
				objects.push_back(which == 4 ? malloc(random.below(100000)) :
							       nullptr);
		}
		slub_cache_free_bulk(nullptr, objects.size(), objects.data());
		for (auto *cache : caches)
			ASSERT_EQ(api::count_objects(cache), 0u);
	}
}

/* ---- all or nothing ---- */

TEST(bulk_memory, all_or_nothing_when_there_is_not_enough)
{
	std::string errors;
	int status = api::run_again({ "SLUB_LIMIT=48M" }, "exhaust", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
}

/* slab_bulk_test04: 1024-byte objects, 16 at a time, until there are no more. */
void act_exhaust()
{
	struct slub_cache *cache = slub_cache_create("exhaust", 1024, 0, 0, nullptr);
	static void *objects[100000];
	struct slub_prefill prefill = {};
	/* What lies between guard pages is not of the heap: 4096 objects at the most. */
	size_t most = (48 << 10) + (getenv("SLUB_GUARD") ? 4096 : 0), nr = 0;

	for (int round = 0; round < 3; round++) {
		for (nr = 0; nr + 16 < 100000; nr += 16) {
			errno = 0;
			if (!slub_cache_alloc_bulk(cache, 0, 16, objects + nr))
				break;
		}
		MUST(errno == ENOMEM);
		MUST(nr > 24 << 10 && nr <= most);
		MUST(api::count_objects(cache) == nr);
		MUST(slub_cache_prefill(cache, &prefill, 1000) == -ENOMEM);
		MUST(prefill.nr == 0 && !slub_prefill_alloc(&prefill));
		MUST(slub_cache_alloc_bulk(cache, 0, 90000 - nr, objects + nr) == 0);
		MUST(api::count_objects(cache) == nr);
		slub_cache_free_bulk(cache, nr, objects);
		MUST(api::count_objects(cache) == 0);
	}
	MUST(slub_cache_destroy(cache) == 0);
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	if (!api::act_name(argc, argv))
		return -1;
	act_exhaust();
	return 0;
}
