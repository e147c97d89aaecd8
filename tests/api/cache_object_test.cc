/* SPDX-License-Identifier: MIT */
/*
 * Promises: a constructor runs once per object, whatever frees it; the free-pointer offset, the
 * user window, the sheaf length, zeroing, shrinking and the walk over objects do what
 * slub/cache.h says.
 */
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "api.h"

namespace {

const uint64_t constructed_mark = 0xc0457c7ed0b1ec75;
size_t ctor_size;
std::atomic<size_t> ctor_calls, ctor_repeats;
/* Objects, in order, of slabs that are held: they have been constructed. */
std::vector<void *> done;

/* Writes all of the object. */
void ctor(void *object)
{
	auto *words = static_cast<uint64_t *>(object);

	ctor_calls++;
	ctor_repeats += std::binary_search(done.begin(), done.end(), object);
	for (size_t i = 0; i < ctor_size / 8; i++)
		words[i] = constructed_mark + (uintptr_t)object * (i > 0);
	words[1] = (uintptr_t)object;
}

bool is_constructed(void *object)
{
	auto *words = static_cast<uint64_t *>(object);
	bool is = words[0] == constructed_mark && words[1] == (uintptr_t)object;

	for (size_t i = 2; i < ctor_size / 8; i++)
		is = is && words[i] == constructed_mark + (uintptr_t)object;
	return is;
}

enum how { CACHE_FREE, FREE, SLUB_FREE, BULK, BULK_ANY, DEFERRED };

void free_by(struct slub_cache *cache, std::vector<void *> &objects, how by)
{
	if (by == BULK || by == BULK_ANY) {
		slub_cache_free_bulk(by == BULK ? cache : nullptr, objects.size(), objects.data());
		return;
	}
	for (void *object : objects) {
		if (by == CACHE_FREE)
			slub_cache_free(cache, object);
		else if (by == FREE)
			free(object);
		else if (by == SLUB_FREE)
			slub_free(object);
		else
			slub_free_deferred(object);
	}
	if (by == DEFERRED)
		slub_deferred_barrier();
}

class constructed : public testing::TestWithParam<std::tuple<size_t, unsigned long>> {
protected:
	void SetUp() override
	{
		ctor_size = std::get<0>(GetParam());
		ctor_calls = ctor_repeats = 0;
	}
};

TEST_P(constructed, once_for_each_object_however_it_is_freed)
{
	api::cache cache(ctor_size, 0, std::get<1>(GetParam()), ctor);
	size_t nr = std::min<size_t>((2 << 20) / ctor_size, 3000);
	std::vector<void *> held, first(nr);

	/* An eighth is held, and with it all slabs there are by then. */
	for (size_t i = 0; i < nr; i++)
		first[i] = slub_cache_alloc(cache);
	done = first;
	std::sort(done.begin(), done.end());
	for (size_t i = 0; i < nr; i += 8) {
		held.push_back(done[i]);
		first.erase(std::find(first.begin(), first.end(), done[i]));
	}
	slub_cache_free_bulk(cache, first.size(), first.data());
	for (how by : { CACHE_FREE, FREE, SLUB_FREE, BULK, BULK_ANY, DEFERRED }) {
		for (int round = 0; round < 3; round++) {
			std::vector<void *> objects;

			for (size_t i = 0; i < nr; i++) {
				void *object = slub_cache_alloc(cache);

				ASSERT_NE(object, nullptr);
				ASSERT_TRUE(is_constructed(object)) << "freed by " << by;
				objects.push_back(object);
			}
			free_by(cache, objects, by);
		}
	}
	EXPECT_EQ(ctor_repeats, 0u);
	auto stats = api::stats_of(cache);
	EXPECT_GE(ctor_calls, nr);
	EXPECT_LE(ctor_calls, stats.slab_alloc * (stats.objects / stats.slabs));
	done.clear();
	free_by(cache, held, BULK);
}

TEST_P(constructed, in_every_way_of_allocating)
{
	api::cache cache(ctor_size, 0, std::get<1>(GetParam()), ctor);
	std::vector<void *> objects(50);
	struct slub_prefill prefill = {};

	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 50, objects.data()), 50u);
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 50), 0);
	for (int i = 0; i < 50; i++)
		objects.push_back(slub_prefill_alloc(&prefill));
	EXPECT_EQ(slub_prefill_alloc(&prefill), nullptr);
	objects.push_back(slub_cache_alloc_flags(cache, SLUB_ALLOC_RESERVE));
	objects.push_back(slub_cache_alloc_node(cache, 0, 0));
	for (void *object : objects) {
		ASSERT_NE(object, nullptr);
		EXPECT_TRUE(is_constructed(object));
	}
	free_by(cache, objects, BULK);
}

TEST_P(constructed, by_many_threads)
{
	api::cache cache(ctor_size, 0, std::get<1>(GetParam()), ctor);
	std::atomic<size_t> wrong{ 0 };
	std::vector<std::thread> threads;
	size_t most = std::min<size_t>((1 << 20) / ctor_size, 500);

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&, t] {
			harness::Random random(t + 1);
			std::vector<void *> mine;

			for (int i = 0; i < 20000; i++) {
				if (mine.empty() || (mine.size() < most && random.below(2))) {
					mine.push_back(slub_cache_alloc(cache));
					wrong += !is_constructed(mine.back());
					continue;
				}
				if (random.below(2))
					free(mine.back());
				else
					slub_cache_free(cache, mine.back());
				mine.pop_back();
			}
			free_by(cache, mine, BULK_ANY);
		});
	}
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(api::count_objects(cache), 0u);
}

INSTANTIATE_TEST_SUITE_P(sizes, constructed,
			 testing::Combine(testing::Values(16, 64, 216, 4088, 4096, 20000),
					  testing::Values(0, SLUB_CACHE_TYPESAFE_BY_RCU)),
			 [](auto &info) {
				 return std::to_string(std::get<0>(info.param)) +
					(std::get<1>(info.param) ? "_typesafe" : "");
			 });

/* A constructor may allocate, from its own cache's neighbours and from malloc. */
struct slub_cache *inner;

void allocating_ctor(void *object)
{
	auto **words = static_cast<void **>(object);

	words[0] = slub_cache_alloc(inner);
	words[1] = malloc(100);
}

TEST(constructor, may_allocate)
{
	api::cache other(48);
	std::vector<void *> objects;

	inner = other;
	{
		api::cache cache(64, 0, 0, allocating_ctor);
		for (int i = 0; i < 1000; i++) {
			objects.push_back(slub_cache_alloc(cache));
			EXPECT_EQ(slub_cache_of(static_cast<void **>(objects.back())[0]), inner);
		}
		size_t nr = api::count_objects(other);
		EXPECT_GE(nr, 1000u);
		slub_cache_free_bulk(cache, objects.size(), objects.data());
	}
	/* There is no destructor: what it made is the program's to find. */
	std::vector<void *> left;
	slub_cache_for_each_object(other, [](void *object, void *arg) {
		static_cast<std::vector<void *> *>(arg)->push_back(object);
		return 0;
	}, &left);
	slub_cache_free_bulk(other, left.size(), left.data());
}

/* ---- where the link is ---- */

class link_offset : public testing::TestWithParam<size_t> {};

TEST_P(link_offset, is_all_that_a_free_object_loses)
{
	struct slub_cache_args args = {};
	size_t at = GetParam();
	std::vector<void *> objects;

	args.size = 256;
	args.has_free_pointer_offset = true;
	args.free_pointer_offset = at;
	args.flags = SLUB_CACHE_TYPESAFE_BY_RCU;
	api::cache cache(args);
	EXPECT_EQ(slub_cache_stride(cache), 256u) << "it need not grow for the link";
	for (int i = 0; i < 64; i++) {
		objects.push_back(slub_cache_alloc(cache));
		memset(objects.back(), 0x5a, 256);
	}
	for (size_t i = 0; i < objects.size(); i++) {
		if (i % 2)
			free(objects[i]);
		else
			slub_cache_free(cache, objects[i]);
	}
	for (void *object : objects) {
		auto *bytes = static_cast<unsigned char *>(object);

		for (size_t i = 0; i < 256; i++)
			ASSERT_TRUE(bytes[i] == 0x5a || (i >= at && i < at + 8)) << i;
	}
	for (void *&object : objects)
		object = slub_cache_alloc(cache);
	slub_cache_free_bulk(cache, objects.size(), objects.data());
}

INSTANTIATE_TEST_SUITE_P(offsets, link_offset, testing::Values(0, 8, 120, 248));

TEST(link_place, is_behind_what_a_constructor_or_reader_cares_about)
{
	api::cache plain(64), with_ctor(64, 0, 0, [](void *) {}),
		typesafe(64, 0, SLUB_CACHE_TYPESAFE_BY_RCU), paged(4096, 0, 0, [](void *) {}),
		word(8), lined(56, 64, 0, [](void *) {});
	/* Where free objects have one. */
	const size_t check_word = slub_cache_stride(word) - 8;

	EXPECT_EQ(slub_cache_stride(plain), 64u);
	EXPECT_EQ(slub_cache_stride(with_ctor), 72u + check_word);
	EXPECT_EQ(slub_cache_stride(typesafe), 72u + check_word);
	EXPECT_EQ(slub_cache_stride(lined), 64u) << "it would be 128 with a check word";
	EXPECT_EQ(slub_cache_stride(paged), 4096u) << "the link lies in the descriptor";
}

/* ---- the window for copies ---- */

TEST(user_window, bounds_copies)
{
	struct slub_cache_args args = {};

	args.size = 200;
	args.useroffset = 40;
	args.usersize = 100;
	api::cache cache(args), all(200);
	for (int i = 0; i < 60; i++) {
		auto *object = static_cast<char *>(slub_cache_alloc(cache));
		struct { size_t at, bytes; bool is; } tries[] = {
			{ 40, 100, true },  { 40, 0, true },   { 140, 0, true },  { 139, 1, true },
			{ 90, 50, true },   { 39, 1, false },  { 0, 200, false },
			{ 40, 101, false },
			{ 140, 1, false },  { 199, 1, false }, { 39, 0, false },
			{ 40, SIZE_MAX, false }, { 90, SIZE_MAX - 20, false },
		};
		for (auto &one : tries)
			EXPECT_EQ(slub_copy_allowed(object + one.at, one.bytes), one.is)
				<< one.at << " " << one.bytes;
		auto *whole = static_cast<char *>(slub_cache_alloc(all));
		EXPECT_TRUE(slub_copy_allowed(whole, 200));
		EXPECT_FALSE(slub_copy_allowed(whole, 201));
		EXPECT_FALSE(slub_copy_allowed(whole + 100, 101));
		EXPECT_TRUE(slub_copy_allowed(whole + 199, 1));
		slub_cache_free(all, whole);
		slub_cache_free(cache, object);
	}
	char local[8];
	EXPECT_TRUE(slub_copy_allowed(local, 8)) << "memory that is in no cache";
	EXPECT_TRUE(slub_copy_allowed(nullptr, 8));
}

/* What is left over at its ends is nobody's to copy. */
TEST(user_window, has_nothing_of_a_slab_but_its_objects)
{
	for (size_t size : { 200ul, 3000ul, 5000ul, 9000ul, 100000ul }) {
		api::cache cache(size);
		auto *object = static_cast<char *>(slub_cache_alloc(cache));
		/* The cache has one slab: from here to there. */
		auto *start = (char *)((uintptr_t)object & -4096ul), *end = start;
		size_t allowed = 0;

		while (slub_cache_of(start - 1) == cache.it)
			start -= 4096;
		while (slub_cache_of(end) == cache.it)
			end += 4096;
		for (char *at = start; at < end; at++)
			allowed += slub_copy_allowed(at, 1);
		EXPECT_EQ(allowed, api::stats_of(cache).objects * size);
		slub_cache_free(cache, object);
	}
}

/* ---- and the rest ---- */

TEST(sheaf_length, bounds_what_a_cpu_keeps)
{
	for (unsigned int length : { 1u, 2u, 7u, 64u, 4096u }) {
		struct slub_cache_args args = {};
		std::vector<void *> objects(6000);

		args.size = 64;
		args.sheaf_length = length;
		api::cache cache(args);
		for (int round = 0; round < 3; round++) {
			for (void *&object : objects) {
				object = slub_cache_alloc(cache);
				ASSERT_NE(object, nullptr);
			}
			for (void *object : objects)
				slub_cache_free(cache, object);
		}
		std::set<void *> different;
		for (void *&object : objects)
			different.insert(object = slub_cache_alloc(cache));
		EXPECT_EQ(different.size(), objects.size());
		slub_cache_free_bulk(cache, objects.size(), objects.data());
	}
}

TEST(zeroing, clears_what_was_there)
{
	for (size_t size : { 1ul, 8ul, 100ul, 5000ul, SLUB_CACHE_SIZE_MAX }) {
		api::cache cache(size);
		void *objects[4];

		for (int round = 0; round < 3; round++) {
			objects[0] = slub_cache_zalloc(cache);
			objects[1] = slub_cache_alloc_flags(cache, SLUB_ALLOC_ZERO);
			ASSERT_EQ(slub_cache_alloc_bulk(cache, SLUB_ALLOC_ZERO, 2, objects + 2),
					2u);
			for (void *object : objects) {
				EXPECT_EQ(harness::first_nonzero(object, size), size);
				memset(object, 0xff, size);
			}
			slub_cache_free_bulk(cache, 4, objects);
		}
	}
}

TEST(shrink, gives_back_what_nobody_uses)
{
	api::cache cache(512);
	std::vector<void *> objects;

	for (int i = 0; i < 20000; i++) {
		objects.push_back(slub_cache_alloc(cache));
		memset(objects.back(), 1, 512);
	}
	size_t slabs = api::stats_of(cache).slabs;
	EXPECT_GT(slabs, 100u);
	for (size_t i = 1; i < objects.size(); i++)
		slub_cache_free(cache, objects[i]);
	EXPECT_EQ(slub_cache_shrink(cache), 1) << "a slab with free objects remains";
	EXPECT_EQ(api::stats_of(cache).slabs, 1u);
	slub_cache_free(cache, objects[0]);
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(api::stats_of(cache).slabs, 0u);
	EXPECT_EQ(slub_cache_shrink(cache), 0);
}

TEST(for_each_object, sees_each_allocated_object_once)
{
	for (size_t size : { 16ul, 64ul, 1000ul, 8192ul, 100000ul }) {
		api::cache cache(size);
		std::map<void *, int> want, got;
		std::vector<void *> objects;
		size_t nr = std::max<size_t>(std::min<size_t>((4 << 20) / size, 2000), 20);
		harness::Random random(size);

		EXPECT_EQ(api::count_objects(cache), 0u);
		for (size_t i = 0; i < nr; i++)
			objects.push_back(slub_cache_alloc(cache));
		for (void *object : objects) {
			if (random.below(3))
				want[object] = 1;
			else
				slub_cache_free(cache, object);
		}
		slub_cache_for_each_object(cache, [](void *object, void *arg) {
			(*static_cast<std::map<void *, int> *>(arg))[object]++;
			return 0;
		}, &got);
		EXPECT_EQ(got, want) << size;
		for (auto &one : want)
			slub_cache_free(cache, one.first);
		EXPECT_EQ(api::count_objects(cache), 0u);
	}
}

TEST(for_each_object, stops_when_told_and_may_free)
{
	api::cache cache(64);
	std::vector<void *> objects(100);
	int left = 10;

	for (void *&object : objects)
		object = slub_cache_alloc(cache);
	EXPECT_EQ(slub_cache_for_each_object(cache, [](void *, void *arg) {
		return --*static_cast<int *>(arg) ? 0 : 77;
	}, &left), 77);
	EXPECT_EQ(left, 0);
	EXPECT_EQ(api::count_objects(cache), 100u);
	/* It is called without locks: freeing what it is shown is possible. */
	slub_cache_for_each_object(cache, [](void *object, void *) {
		slub_free(object);
		return 0;
	}, nullptr);
	EXPECT_EQ(api::count_objects(cache), 0u);
}

TEST(questions, are_answered)
{
	api::cache cache(100);
	auto *object = static_cast<char *>(slub_cache_alloc(cache));

	EXPECT_EQ(slub_cache_of(object), cache.it);
	EXPECT_EQ(slub_cache_of(object + 99), cache.it);
	EXPECT_EQ(slub_cache_of(nullptr), nullptr);
	EXPECT_EQ(slub_cache_of(&cache), nullptr);
	EXPECT_EQ(slub_cache_size(cache), 100u);
	EXPECT_EQ(slub_cache_stride(cache), 104u);
	EXPECT_GE(api::stats_of(cache).objects, 1u);
	EXPECT_EQ(api::stats_of(cache).slabs, 1u);
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_stats(nullptr, nullptr), -EINVAL);
}

} /* namespace */
