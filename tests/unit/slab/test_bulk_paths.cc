/* SPDX-License-Identifier: MIT */
/*
 * features/typed/bulk.c: which way many objects take, in and out; what is counted, refused, and
 * left to a look at each.
 */
#include "bulks.h"

namespace {

/* ---- alloc ---- */

TEST_F(bulk_paths, zeros_are_zeros)
{
	void *all[100];

	for (struct slub_cache *from : { cache, paged }) {
		ASSERT_EQ(slub_cache_alloc_bulk(from, 0, 100, all), 100u);
		for (void *p : all)
			memset(p, 'x', from->object_size);
		slub_cache_free_bulk(from, 100, all);
		seen.written.clear();
		sanitizer.is_told = true;
		ASSERT_EQ(slub_cache_alloc_bulk(from, SLUB_ALLOC_ZERO, 100, all), 100u);
		sanitizer.is_told = false;
		ASSERT_EQ(seen.written.size(), 101u);
		EXPECT_EQ(seen.written[100], std::make_pair((const void *)all, sizeof(all)));
		for (size_t i = 0; i < 100; i++) {
			EXPECT_EQ(harness::first_nonzero(all[i], from->object_size),
				  from->object_size) << i;
			EXPECT_EQ(seen.written[i], std::make_pair((const void *)all[i],
								  (size_t)from->object_size));
		}
		slub_cache_free_bulk(from, 100, all);
	}
}

TEST_F(bulk_paths, flags_that_cannot_be)
{
	struct slub_cache *made = make("made", 64, SLUB_CACHE_NO_MERGE, [](void *) {});
	void *all[3];

	for (auto [from, flags, is_right] : {
		std::tuple(made, (unsigned int)SLUB_ALLOC_ZERO, false), { made, 0u, true },
		{ cache, (unsigned int)SLUB_ALLOC_ZERO, true },
		{ cache, (unsigned int)SLUB_ALLOC_RESERVE, true },
		{ cache, (unsigned int)SLUB_ALLOC_NO_RESERVE, true },
		{ cache, 1u << 30, false }, { cache, 1u, false } }) {
		errno = 0;
		ASSERT_EQ(slub_cache_alloc_bulk(from, flags, 3, all), is_right ? 3u : 0u) << flags;
		EXPECT_EQ(errno, is_right ? 0 : EINVAL) << flags;
		if (is_right)
			slub_cache_free_bulk(from, 3, all);
	}
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 0, all), 0u);
	end(made);
	errno = 0;
	EXPECT_EQ(slub_cache_alloc_bulk(made, 0, 3, all), 0u);
	EXPECT_EQ(errno, EINVAL) << "destroyed";
}

/* What is in the list comes first, and no more is asked for than is missing. */
TEST_F(bulk_paths, from_the_list_and_from_behind_it)
{
	start::one_cpu here;
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "one by one";
	auto all = get(10);
	std::vector<void *> got(200);

	for (void *p : all)
		slub_cache_free(cache, p);
	if (length(cache) != 10)
		GTEST_SKIP() << "its lists are elsewhere";
	seen = {};
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 10, got.data()), 10u);
	EXPECT_EQ(seen.nr_fetches, 0u);
	std::sort(all.begin(), all.end());
	std::sort(got.begin(), got.begin() + 10);
	EXPECT_TRUE(std::equal(all.begin(), all.end(), got.begin()));
	slub_cache_free_bulk(cache, 10, got.data());
	seen = {};
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 200, got.data()), 200u);
	EXPECT_GE(seen.nr_fetches, 1u);
	EXPECT_EQ(std::set<void *>(got.begin(), got.end()).size(), 200u);
	check_cache(cache, got);
	slub_cache_free_bulk(cache, 200, got.data());
	/* What is not to be had gives back what there was. */
	ASSERT_TRUE(cache_flush(cache));
	seen = {};
	seen.fetches_refused = 100;
	errno = 0;
	slub_thread.locks_held++;
	EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 200, got.data()), 0u);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(seen.nr_fetches, 0u) << "no lock there";
	slub_thread.locks_held--;
	check_cache(cache, {});
}

/* What is too much is put away, and its length is known. */
TEST_F(bulk_paths, the_rest_of_a_chain_is_put_away)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "one by one";
	size_t nr_stored = 0;

	for (size_t nr : { 3, 100, 1000, 3000 }) {
		std::vector<void *> got(nr);

		ASSERT_TRUE(cache_flush(cache));
		EXPECT_EQ(slub_cache_shrink(cache), 0);
		seen = {};
		EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, nr, got.data()), nr);
		for (auto [told, is] : seen.stored)
			EXPECT_EQ(told, is) << nr;
		nr_stored += seen.stored.size();
		slub_cache_free_bulk(cache, nr, got.data());
	}
	EXPECT_GE(nr_stored, 2u);
}

/* Nothing behind the caller's array is read. */
TEST_F(bulk_paths, no_more_is_freed_than_there_are)
{
	const size_t page = os_page_size();
	char *pages = (char *)os_map(2 * page);

	ASSERT_NE(pages, nullptr);
	ASSERT_EQ(os_protect(pages + page, page, false), 0);
	for (struct slub_cache *from : { cache, paged }) {
		for (size_t nr : { 1, 2, 64, 65, 100 }) {
			void **all = (void **)(void *)(pages + page) - nr;

			ASSERT_EQ(slub_cache_alloc_bulk(from, 0, nr, all), nr);
			slub_cache_free_bulk(from, nr, all);
			ASSERT_EQ(slub_cache_alloc_bulk(from, SLUB_ALLOC_ZERO, nr, all), nr);
			slub_cache_free_bulk(nullptr, nr, all);
			check_cache(from, {});
		}
	}
	os_unreserve(pages, 2 * page);
}

TEST_F(bulk_paths, a_group_pays_for_what_there_is)
{
	struct slub_cache *owned = make("owned", 64, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE);
	struct slub_group *group = slub_group_create("bulk", nullptr);
	struct slub_group_stats usage;
	void *all[100];

	ASSERT_EQ(slub_group_enter(group), 0);
	ASSERT_EQ(slub_cache_alloc_bulk(owned, 0, 50, all), 50u);
	EXPECT_EQ(slub_group_stats(group, &usage), 0);
	EXPECT_EQ(usage.usage, 50 * 64u);
	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 99 * 64), 0);
	errno = 0;
	EXPECT_EQ(slub_cache_alloc_bulk(owned, 0, 50, all + 50), 0u);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(slub_group_stats(group, &usage), 0);
	EXPECT_EQ(usage.usage, 50 * 64u);
	EXPECT_EQ(slub_cache_alloc_bulk(owned, 0, 49, all + 50), 49u);
	EXPECT_EQ(slub_group_stats(group, &usage), 0);
	EXPECT_EQ(usage.usage, 99 * 64u);
	/* One that is freed twice is freed once, and the others all the same. */
	uint64_t found = misuse_nr_found();
	void *twice[] = { all[0], all[1], all[2], all[1], all[3] };
	slub_cache_free_bulk(owned, 5, twice);
	EXPECT_EQ(misuse_nr_found(), found + 1);
	EXPECT_EQ(stats(owned).double_free, 1u);
	slub_cache_free_bulk(owned, 95, all + 4);
	EXPECT_EQ(slub_group_stats(group, &usage), 0);
	EXPECT_EQ(usage.usage, 0u);
	ASSERT_EQ(slub_group_leave(group), 0);
	end(owned);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* Only what goes to the caller is drawn for. */
TEST_F(bulk_paths, the_guarded_ones_are_drawn)
{
	struct slub_prefill prefill = {};
	void *all[64];

	sample_keeper = &keeper;
	ASSERT_EQ(guard_open(1), 0);
	sample_set_guard(1, 7);
	sample_switch_on(SAMPLE_GUARD, true);
	ASSERT_EQ(sample_caches_prepare(cache, 1), 0);
	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 64, all), 64u);
	EXPECT_EQ(seen.nr_sampled, 1u);
	for (void *p : all)
		EXPECT_TRUE(guard_owns(p));
	slub_cache_free_bulk(cache, 64, all);
	EXPECT_EQ(slub_cache_prefill(cache, &prefill, 20), 0);
	EXPECT_EQ(seen.nr_sampled, 1u);
	while (void *p = slub_prefill_alloc(&prefill)) {
		EXPECT_FALSE(guard_owns(p));
		slub_cache_free(cache, p);
	}
	/* With the profile each is looked at where the cache has no slot. */
	ASSERT_EQ(slub_cache_alloc_bulk(paged, 0, 3, all), 3u);
	for (int i = 0; i < 3; i++)
		EXPECT_FALSE(guard_owns(all[i]));
	slub_cache_free_bulk(paged, 3, all);
	sample_set(1, 3);
	sample_switch_on(SAMPLE_PROFILE, true);
	ASSERT_EQ(slub_cache_alloc_bulk(paged, 0, 3, all), 3u);
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(cache_of(all[i])->is_sampled);
	slub_cache_free_bulk(paged, 3, all);
	sample_switch_on(SAMPLE_GUARD, false);
	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 3, all), 3u);
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(cache_of(all[i])->is_sampled) << "no guard to be drawn for";
	slub_cache_free_bulk(cache, 3, all);
	sample_switch_on(SAMPLE_PROFILE, false);
	sample_keeper = nullptr;
}

TEST_F(bulk_paths, watched_ones_are_looked_at_one_by_one)
{
	void *all[20];
	uint64_t found = 0;

	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE | SLUB_CACHE_CONSISTENCY_CHECKS), 0);
	ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, 20, all), 20u);
	EXPECT_EQ(seen.nr_pops, 0u);
	for (void *p : all)
		EXPECT_NE(cache_of(p), cache);
	seen = {};
	slub_cache_free_bulk(cache, 20, all);
	EXPECT_EQ(seen.nr_pushes, 0u);
	found = slub_cache_errors(cache);
	EXPECT_EQ(found, 0u);
	check_cache(cache, {});
}

/* ---- free ---- */

/* In pieces as long as lists are; what has no room goes behind. */
TEST_F(bulk_paths, long_runs_go_in_pieces)
{
	start::one_cpu here;
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "one by one";
	for (size_t size : { 64ul, 2 * PAGE_BYTES }) {
		struct slub_cache_args args = {};
		size_t sum = 0;

		args.name = "pieces";
		args.size = size;
		args.sheaf_length = 50;
		struct slub_cache *from = slub_cache_create_args(&args);
		ASSERT_NE(from, nullptr);
		auto all = get(130, from);
		slub_cache_free_bulk(from, 130, all.data());
		EXPECT_EQ(std::set<uint32_t>(seen.pushed.begin(), seen.pushed.end()),
			  (std::set<uint32_t>{ 50, 30 }));
		check_cache(from, {});
		/* Where the list takes none each piece is retired, and is whole. */
		all = get(40, from);
		seen.pushes_refused = 1000;
		slub_cache_free_bulk(from, 40, all.data());
		EXPECT_GE(seen.nr_retired, 1u);
		for (size_t i = 0; i < seen.pushed.size(); i += 2)
			sum += seen.pushed[i];
		EXPECT_EQ(sum, 40u) << "each was tried twice";
		EXPECT_EQ(seen.nr_pushes % 2, 0u);
		seen = {};
		check_cache(from, {});
		end(from);
	}
}

TEST_F(bulk_paths, a_run_is_of_one_cache)
{
	struct slub_cache *other = make("other", 64, SLUB_CACHE_NO_MERGE);
	auto mine = get(6), others = get(3, other);
	std::vector<void *> all = { mine[0], mine[1], others[0], mine[2], nullptr,
				    others[1], others[2], mine[3], mine[4], mine[5] };

	errno = 55;
	slub_cache_free_bulk(cache, all.size(), all.data());
	EXPECT_EQ(errno, 55);
	EXPECT_EQ(stats(other).wrong_cache, 3u);
	EXPECT_EQ(stats().wrong_cache, 0u);
	check_cache(cache, {});
	check_cache(other, {});
	/* Of any cache. */
	mine = get(3);
	others = get(3, other);
	all = { mine[0], mine[1], others[0], others[1], mine[2], others[2] };
	slub_cache_free_bulk(nullptr, all.size(), all.data());
	EXPECT_EQ(stats(other).wrong_cache, 3u);
	check_cache(cache, {});
	check_cache(other, {});
	end(other);
}

/* Also inline, where the list has room for all of several slabs. */
TEST_F(bulk_paths, a_list_takes_its_own_only)
{
	start::one_cpu here;
	struct slub_cache_args args = {};

	args.name = "long-lists";
	args.size = 64;
	args.sheaf_length = 200;
	struct slub_cache *from = slub_cache_create_args(&args);
	ASSERT_NE(from, nullptr);
	for (size_t at : { 40, 1, 2, 39 }) {	/* 40: it is not mixed */
		auto mine = get(4 * from->objects, from), others = get(1);
		std::vector<void *> mixed;

		for (size_t i = 0; i < 150; i++)
			slub_cache_free(from, mine[i]);
		for (size_t i = 0; i < 150; i++)
			mine[i] = slub_cache_alloc(from);
		for (size_t i = 0; i < 40; i++) {
			mixed.push_back(at == i ? others[0] : mine[i * (mine.size() / 40)]);
			if (at != i)
				mine[i * (mine.size() / 40)] = nullptr;
		}
		uint64_t before = stats().wrong_cache;
		seen = {};
		slub_cache_free_bulk(from, 40, mixed.data());
		if (at == 40) {
			slub_cache_free(cache, others[0]);
			if (percpu_backend == BACKEND_RSEQ && !SLUB_CONFIG_HARDENED) {
				EXPECT_EQ(seen.nr_pushes, 0u) << "there is room";
			}
		}
		EXPECT_EQ(stats().wrong_cache, before + (at < 40)) << at;
		check_cache(cache, {});
		slub_cache_free_bulk(from, mine.size(), mine.data());
		check_cache(from, {});
	}
	end(from);
}

TEST_F(bulk_paths, twice_in_a_row_is_said)
{
	static char report[] = "SLUB_ON_ERROR=report";
	char *environment[] = { report, nullptr };
	auto all = get(3);
	void *twice[] = { all[0], all[1], all[1], all[2] };
	char text[96];

	option_read(environment);
	snprintf(text, sizeof(text), "double free: slub_cache_free_bulk(%p), bulky, thread ",
		 all[1]);
	EXPECT_EQ(said([&] { slub_cache_free_bulk(cache, 4, twice); }).rfind(text, 0), 0u);
	EXPECT_EQ(stats().double_free, 1u);
	check_cache(cache, {});
}

TEST_F(bulk_paths, deferred_ones_are_counted)
{
	auto all = get(5);

	cache_free_deferred(5, all.data());
	EXPECT_EQ(stats().free_rcu_sheaf, 5u);
	all = get(5);
	slub_cache_free_bulk(nullptr, 5, all.data());
	EXPECT_EQ(stats().free_rcu_sheaf, 5u);
	check_cache(cache, {});
}

/* One alone is no chain; nor is anything under a lock. */
TEST_F(bulk_paths, chains_are_for_several)
{
	struct slub_cache *made = make("made", 64, SLUB_CACHE_NO_MERGE, [](void *) {});
	auto all = get(40, made);

	slub_cache_free_bulk(made, 1, all.data());
	EXPECT_EQ(seen.nr_pushes, 0u);
	slub_thread.locks_held++;
	slub_cache_free_bulk(made, 9, all.data() + 1);
	EXPECT_EQ(seen.nr_pushes, 0u);
	slub_thread.locks_held--;
	slub_cache_free_bulk(made, 30, all.data() + 10);
	cache_free_all_postponed();
	check_cache(made, {});
	end(made);
}

} /* namespace */
