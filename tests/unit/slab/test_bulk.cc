/* SPDX-License-Identifier: MIT */
/*
 * features/typed/bulk.c: whatever is allocated and freed in bulk, each object is in one place
 * (SLAB-3).
 */
#include <algorithm>

#include "typed.h"

namespace {

struct kind {
	const char *name;
	size_t size;
	bool constructed;
};

class bulk : public typed, public testing::WithParamInterface<kind> {
protected:
	struct slub_cache *cache = nullptr;

	void SetUp() override
	{
		typed::SetUp();
		if (!IsSkipped())
			cache = make("bulk", GetParam().size, 0,
				     GetParam().constructed ? +[](void *) {} : nullptr);
	}
	void TearDown() override
	{
		if (cache)
			end(cache);
	}
	std::vector<void *> get(size_t nr)
	{
		std::vector<void *> objects(nr);

		EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), nr);
		return objects;
	}
};

TEST_P(bulk, every_size)
{
	for (size_t nr : { 1, 2, 3, 8, 16, 64, 65, 250, 1000 }) {
		auto objects = get(nr);

		check_cache(cache, objects);
		slub_cache_free_bulk(cache, nr, objects.data());
		check_cache(cache, {});
	}
}

TEST_P(bulk, random_with_checks)
{
	harness::Random random(11);
	std::vector<void *> mine;

	for (int i = 0; i < 600; i++) {
		size_t nr = 1 + random.below(200);

		if (random.below(2)) {
			auto some = get(nr);
			mine.insert(mine.end(), some.begin(), some.end());
		} else if (!mine.empty()) {
			nr = std::min(nr, mine.size());
			for (size_t k = 0; k < nr; k++)
				std::swap(mine[mine.size() - 1 - k],
					  mine[random.below(mine.size())]);
			slub_cache_free_bulk(random.below(2) ? cache : nullptr, nr,
					     &mine[mine.size() - nr]);
			mine.resize(mine.size() - nr);
		}
		if (i % 20 == 0)
			check_cache(cache, mine);
	}
	slub_cache_free_bulk(cache, mine.size(), mine.data());
	check_cache(cache, {});
}

TEST_P(bulk, the_same_object_twice_in_a_row_is_freed_once)
{
	option_preset(OPTION_on_error, ON_ERROR_IGNORE);
	auto objects = get(3);
	void *twice[] = { objects[0], objects[0], objects[1], nullptr, objects[2], objects[2],
			  objects[2] };

	slub_cache_free_bulk(cache, 7, twice);
	check_cache(cache, {});
	struct slub_cache_stats stats;
	EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
	EXPECT_EQ(stats.double_free, 3u);
}

TEST_P(bulk, a_prefill_is_with_its_user)
{
	struct slub_prefill prefill = {};
	std::vector<void *> mine;

	EXPECT_EQ(slub_cache_prefill(cache, &prefill, 100), 0);
	for (int i = 0; i < 40; i++)
		mine.push_back(slub_prefill_alloc(&prefill));
	EXPECT_EQ(prefill.nr, 60u);
	auto user = mine;
	for (void *o = prefill.head; o; o = link_next(cache, o))
		user.push_back(o);
	check_cache(cache, user);
	slub_prefill_return(&prefill);
	check_cache(cache, mine);
	slub_cache_free_bulk(cache, mine.size(), mine.data());
}

/* A refused bulk leaves nothing with anybody. */
TEST_P(bulk, all_or_nothing)
{
	size_t nr = (160ul << 20) / cache->size;
	std::vector<void *> objects(nr);

	errno = 0;
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects.data()), 0u);
	EXPECT_EQ(errno, ENOMEM);
	check_cache(cache, {});
	auto some = get(10);
	slub_cache_free_bulk(cache, 10, some.data());
}

INSTANTIATE_TEST_SUITE_P(kinds, bulk,
			 testing::Values(kind{ "small", 32, false }, kind{ "middle", 216, true },
					 kind{ "paged", 4096, false },
					 kind{ "large", 40000, true }),
			 [](auto &info) { return std::string(info.param.name); });

using prefills = typed;

/* By where their objects came from: the CPU's list, slabs, or more than a list holds. */
TEST_F(prefills, are_counted)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "no list is looked at";
	if (percpu_backend == BACKEND_TID)
		GTEST_SKIP() << "its lists take one object at a time";
	harness::one_cpu stays;
	struct slub_cache *cache = make("counted", 112);
	struct slub_prefill prefill = {};
	const std::pair<size_t, enum cache_stat> rounds[] = {
		{ 5, STAT_SHEAF_PREFILL_SLOW },
		{ 5, STAT_SHEAF_PREFILL_FAST },
		{ (size_t)cache->capacity + 1, STAT_SHEAF_PREFILL_OVERSIZE },
	};

	for (const auto &[nr, which] : rounds) {
		int32_t before = slub_percpu_sum32(cache->stats + 4 * which);

		for (int twice = 0; twice < 2; twice++) {
			EXPECT_EQ(slub_cache_prefill(cache, &prefill, nr), 0);
			EXPECT_EQ(prefill.nr, nr);
		}
		EXPECT_EQ(slub_percpu_sum32(cache->stats + 4 * which), before + 1) << nr;
		slub_prefill_return(&prefill);
	}
	end(cache);
}

} /* namespace */
