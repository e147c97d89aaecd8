/* SPDX-License-Identifier: MIT */
/*
 * Promise: what is freed wrongly, or used after its end, is answered as slub/cache.h says, and the
 * process lives on with its heap whole.
 */
#include <atomic>
#include <sys/mman.h>
#include <thread>

#include "api.h"

namespace {

/* Caches with the link in the object, behind it, and in descriptors; each is freed by all means. */
struct shape {
	const char *name;
	size_t size;
	unsigned long flags;
	void (*ctor)(void *);
};

void ctor(void *) {}

const shape shapes[] = {
	{ "plain", 64, 0, nullptr },
	{ "constructed", 64, 0, ctor },
	{ "typesafe", 64, SLUB_CACHE_TYPESAFE_BY_RCU, nullptr },
	{ "paged", 8192, 0, nullptr },
	{ "paged_constructed", 8192, 0, ctor },
};

class misuse : public testing::TestWithParam<shape> {
protected:
	struct slub_cache *make()
	{
		struct slub_cache *cache = slub_cache_create(api::cache::name().c_str(),
							     GetParam().size, 0, GetParam().flags,
							     GetParam().ctor);
		EXPECT_NE(cache, nullptr);
		return cache;
	}
	/* All objects are different and nobody else writes to them. */
	static void expect_whole(struct slub_cache *cache) { expect_whole_beside(cache, 0); }
	static void expect_whole_beside(struct slub_cache *cache, size_t nr_left)
	{
		std::vector<void *> objects;
		size_t size = slub_cache_size(cache);

		for (int i = 0; i < 300; i++) {
			objects.push_back(slub_cache_alloc(cache));
			ASSERT_NE(objects.back(), nullptr);
			harness::fill(objects.back(), size, (uintptr_t)objects.back());
		}
		for (void *object : objects) {
			ASSERT_TRUE(harness::intact(object, size, (uintptr_t)object));
			slub_cache_free(cache, object);
		}
		EXPECT_EQ(api::count_objects(cache), nr_left);
	}
};

TEST_P(misuse, free_of_null)
{
	struct slub_cache *cache = make();

	slub_cache_free(cache, nullptr);
	slub_free(nullptr);
	expect_whole(cache);
	slub_cache_free(cache, nullptr);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(misuse_of_null, as_a_cache_is_answered)
{
	struct slub_prefill prefill = {};
	auto never = [](void *, void *) { return 1; };

	EXPECT_EQ(slub_cache_prefill(nullptr, &prefill, 1), -EINVAL);
	EXPECT_EQ(slub_cache_shrink(nullptr), 0);
	EXPECT_EQ(slub_cache_for_each_object(nullptr, never, nullptr), 0);
	EXPECT_EQ(slub_cache_destroy(nullptr), 0);
	EXPECT_EQ(slub_cache_stats(nullptr, nullptr), -EINVAL);
}

TEST_P(misuse, free_of_foreign_pointers)
{
	struct slub_cache *cache = make();
	static char a_static[64];
	char local[64];
	auto *mapped = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	void *large = malloc(10 << 20);

	memset(large, 7, 10 << 20);
	for (int round = 0; round < 2; round++) {
		for (void *foreign : { (void *)a_static, (void *)local, (void *)mapped,
				       (void *)(mapped + 4096), (void *)8, (void *)-8l,
				       (void *)0x800000000000, large }) {
			slub_cache_free(cache, harness::opaque(foreign));
			EXPECT_EQ(slub_cache_of(foreign), nullptr);
		}
		/* Once before the cache has objects, once after. */
		expect_whole(cache);
	}
	for (size_t i = 0; i < 10 << 20; i += 4096)
		ASSERT_EQ(static_cast<char *>(large)[i], 7);
	for (char byte : a_static)
		ASSERT_EQ(byte, 0);
	free(large);
	munmap(mapped, 8192);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_P(misuse, free_to_another_cache_goes_home_and_is_counted)
{
	struct slub_cache *cache = make(), *other = make();
	void *object = slub_cache_alloc(cache), *foreign = malloc(64);

	slub_cache_free(other, slub_cache_alloc(other));
	uint64_t before = api::stats_of(cache).wrong_cache;
	slub_cache_free(other, object);
	EXPECT_EQ(api::stats_of(cache).wrong_cache, before + 1);
	EXPECT_EQ(api::count_objects(cache), 0u);
	/* malloc's own caches are caches too. */
	slub_cache_free(other, foreign);
	void *objects[3] = { slub_cache_alloc(cache), slub_cache_alloc(other),
			     slub_cache_alloc(cache) };
	slub_cache_free_bulk(other, 3, objects);
	EXPECT_EQ(api::stats_of(cache).wrong_cache, before + 3);
	EXPECT_EQ(api::count_objects(cache), 0u);
	EXPECT_EQ(api::count_objects(other), 0u);
	expect_whole(cache);
	expect_whole(other);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

/* A move to another CPU between the two calls would hide the second one. */
TEST_P(misuse, the_second_of_two_frees_in_a_row_is_ignored)
{
	struct slub_cache *cache = make();
	harness::one_cpu stays;

	void *first = slub_cache_alloc(cache), *second = slub_cache_alloc(cache);
	slub_cache_free(cache, first);
	slub_cache_free(cache, first);
	EXPECT_EQ(api::stats_of(cache).double_free, 1u);
	slub_cache_free(cache, second);
	slub_cache_free(cache, second);
	slub_cache_free(cache, second);
	EXPECT_EQ(api::stats_of(cache).double_free, 3u);
	expect_whole(cache);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* By the functions that the header puts into this program, and by the library's. */
TEST_P(misuse, a_pointer_into_an_object_is_left_alone)
{
	struct slub_cache *cache = make();
	harness::one_cpu stays;
	auto *object = (char *)slub_cache_alloc(cache), *other = (char *)slub_cache_alloc(cache);

	harness::fill(object, slub_cache_size(cache), 1);
	slub_cache_free(cache, other);	/* there is room in the list */
	for (size_t offset : { 1, 8, 16, 24, 32, 63 }) {
		slub_cache_free(cache, object + offset);
		(slub_cache_free)(cache, object + offset);
		EXPECT_EQ(api::count_objects(cache), 1u) << offset;
	}
	EXPECT_TRUE(harness::intact(object, slub_cache_size(cache), 1));
	expect_whole_beside(cache, 1);
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_P(misuse, the_same_object_twice_in_a_bulk)
{
	struct slub_cache *cache = make();
	void *a = slub_cache_alloc(cache), *b = slub_cache_alloc(cache);
	void *objects[4] = { a, a, b, b };

	slub_cache_free_bulk(cache, 4, objects);
	EXPECT_EQ(api::stats_of(cache).double_free, 2u);
	expect_whole(cache);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_P(misuse, everything_after_destroy)
{
	struct slub_cache *cache = make();
	void *objects[4];

	objects[0] = slub_cache_alloc(cache);
	slub_cache_free(cache, objects[0]);
	ASSERT_EQ(slub_cache_destroy(cache), 0);
	EXPECT_EQ(slub_cache_destroy(cache), -EINVAL);
	errno = 0;
	EXPECT_EQ(slub_cache_alloc(cache), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(slub_cache_zalloc(cache), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 4, objects), 0u);
	EXPECT_EQ(errno, EINVAL);
	struct slub_prefill prefill = {};
	EXPECT_EQ(slub_cache_prefill(cache, &prefill, 4), -EINVAL);
	struct slub_cache_stats stats;
	EXPECT_EQ(slub_cache_stats(cache, &stats), -EINVAL);
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	auto count = [](void *, void *) { return 1; };
	EXPECT_EQ(slub_cache_for_each_object(cache, count, nullptr), 0);
	/* What was an object of it lies in no slab any more. */
	slub_cache_free(cache, objects[0]);
	slub_cache_free_bulk(cache, 1, objects);
	slub_cache_free(cache, nullptr);
	/* Objects of others do not depend on it. */
	api::cache other(GetParam().size);
	void *object = slub_cache_alloc(other);
	slub_cache_free(cache, object);
	EXPECT_EQ(api::stats_of(other).wrong_cache, 1u);
	EXPECT_EQ(api::count_objects(other), 0u);
}

TEST_P(misuse, destroy_with_objects_left_keeps_the_cache)
{
	struct slub_cache *cache = make();
	void *kept[3], *object;

	for (void *&one : kept) {
		one = slub_cache_alloc(cache);
		harness::fill(one, slub_cache_size(cache), 1);
	}
	EXPECT_EQ(slub_cache_destroy(cache), -EBUSY);
	EXPECT_EQ(slub_cache_destroy(cache), -EBUSY);
	EXPECT_EQ(api::count_objects(cache), 3u);
	object = slub_cache_alloc(cache);
	ASSERT_NE(object, nullptr);
	slub_cache_free(cache, object);
	for (void *one : kept) {
		EXPECT_TRUE(harness::intact(one, slub_cache_size(cache), 1));
		slub_cache_free(cache, one);
	}
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_P(misuse, bad_flags_of_an_allocation)
{
	struct slub_cache *cache = make();
	void *objects[2] = {};

	for (unsigned int flags : { 1u << 3, 1u << 8, ~0u }) {
		errno = 0;
		EXPECT_EQ(slub_cache_alloc_flags(cache, flags), nullptr);
		EXPECT_EQ(errno, EINVAL);
		errno = 0;
		EXPECT_EQ(slub_cache_alloc_bulk(cache, flags, 2, objects), 0u);
		EXPECT_EQ(errno, EINVAL);
	}
	for (int node : { -2, 100, INT32_MAX, INT32_MIN }) {
		errno = 0;
		EXPECT_EQ(slub_cache_alloc_node(cache, 0, node), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	void *zeroed = slub_cache_zalloc(cache);
	EXPECT_EQ(zeroed == nullptr, GetParam().ctor != nullptr);
	EXPECT_EQ(errno, GetParam().ctor ? EINVAL : 0);
	slub_cache_free(cache, zeroed);
	if (GetParam().ctor) {
		EXPECT_EQ(slub_cache_alloc_bulk(cache, SLUB_ALLOC_ZERO, 2, objects), 0u);
		EXPECT_EQ(errno, EINVAL);
	}
	void *on_node = slub_cache_alloc_node(cache, 0, 0);
	EXPECT_NE(on_node, nullptr);
	slub_cache_free(cache, on_node);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

INSTANTIATE_TEST_SUITE_P(shapes, misuse, testing::ValuesIn(shapes),
			 [](auto &info) { return std::string(info.param.name); });

TEST(misuse_of_malloc, its_caches_cannot_be_destroyed)
{
	void *object = malloc(64);
	struct slub_cache *cache = slub_cache_of(object);

	ASSERT_NE(cache, nullptr);
	EXPECT_EQ(slub_cache_destroy(cache), -EINVAL);
	free(object);
	EXPECT_EQ(slub_cache_destroy(nullptr), 0);
}

TEST(misuse_messages, name_what_was_wrong)
{
	std::string errors;
	/* Of a watched cache there are reports in their place. */
	int status = api::run_again({ "SLUB_VERBOSE=1", "SLUB_DEBUG=-" }, "misuse", &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status) << errors;
	for (const char *part : { ": pointer to no block: slub_cache_free(",
				  ": double free: slub_cache_free(",
				  "is of cache spare-part; freed there" })
		EXPECT_NE(errors.find(part), errors.npos) << part << "\n" << errors;
	/* Each object that is left is named, and none that is not. */
	size_t nr = 0;
	for (size_t at = 0; (at = errors.find("is still allocated", at)) != errors.npos; at++)
		nr++;
	EXPECT_EQ(nr, 40u) << errors;
	EXPECT_EQ(errors.find("missing"), errors.npos) << errors;
}

TEST(misuse_messages, are_not_there_unless_asked_for)
{
	std::string errors;

	/* Debugging that is switched on is asking for them. */
	EXPECT_EQ(api::run_again({ "SLUB_VERBOSE=0", "SLUB_DEBUG=-", "SLUB_ON_ERROR=ignore" },
				 "misuse", &errors), 0);
	EXPECT_EQ(errors, "");
}

void act_misuse()
{
	struct slub_cache *cache = slub_cache_create("main-part", 64, 0, 0, nullptr);
	struct slub_cache *other = slub_cache_create("spare-part", 64, 0, 0, nullptr);
	std::vector<void *> kept;
	char text[64];
	void *object;

	slub_cache_free(cache, text);
	slub_cache_free(cache, slub_cache_alloc(other));
	object = slub_cache_alloc(cache);
	slub_cache_free(cache, object);
	slub_cache_free(cache, object);
	for (int i = 0; i < 80; i++)
		kept.push_back(slub_cache_alloc(cache));
	for (int i = 0; i < 80; i += 2)
		slub_cache_free(cache, kept[i]);
	MUST(slub_cache_destroy(cache) == -EBUSY);
	MUST(slub_cache_destroy(other) == 0);
}

} /* namespace */

extern "C" int act_instead(int argc, char **argv)
{
	if (!api::act_name(argc, argv))
		return -1;
	act_misuse();
	return 0;
}
