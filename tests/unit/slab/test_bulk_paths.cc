/* SPDX-License-Identifier: MIT */
/*
 * slab/typed/bulk.c: which way many objects take, in and out; what is counted, refused, and left
 * to a look at each.
 */
#include <algorithm>

#include "says.h"
#include "typed.h"

extern "C" {
#include "debug/misuse.h"
#include "slab/guard/guard.h"
#include "slab/shadow/sample.h"
}

#include <slub/debug.h>
#include <slub/group.h>

namespace {

struct {
	size_t nr_pops, nr_pushes, nr_frees, nr_fetches, nr_retired, nr_sampled;
	std::vector<uint32_t> pushed;
	int pushes_refused, fetches_refused;
	std::vector<std::pair<const void *, size_t>> written;
	std::vector<std::pair<uint32_t, uint32_t>> stored;	/* as it is told, as it is */
} seen;

} /* namespace */

extern "C" {
uint32_t __real_percpu_pop_bulk(uint32_t, uintptr_t, void **, uint32_t);
bool __real_percpu_push_bulk(uint32_t, void *, void **, uint32_t);
void __real_cache_free(struct slub_cache *, void *);
void *__real_chain_fetch(struct slub_cache *, struct cache_node *, uint32_t *);
void __real_chain_retire(struct slub_cache *, void *);
void __real_chain_store(struct slub_cache *, void *, uint32_t);
size_t __real_sample_bulk_guarded(struct slub_cache *, size_t, void **);

uint32_t __wrap_percpu_pop_bulk(uint32_t slot, uintptr_t link, void **objects, uint32_t nr)
{
	seen.nr_pops++;
	return __real_percpu_pop_bulk(slot, link, objects, nr);
}

bool __wrap_percpu_push_bulk(uint32_t slot, void *head, void **tail, uint32_t nr)
{
	seen.nr_pushes++;
	seen.pushed.push_back(nr);
	if (!seen.pushes_refused)
		return __real_percpu_push_bulk(slot, head, tail, nr);
	seen.pushes_refused--;
	return false;
}

void __wrap_cache_free(struct slub_cache *cache, void *object)
{
	seen.nr_frees++;
	__real_cache_free(cache, object);
}

void *__wrap_chain_fetch(struct slub_cache *cache, struct cache_node *node, uint32_t *nr)
{
	seen.nr_fetches++;
	if (!seen.fetches_refused)
		return __real_chain_fetch(cache, node, nr);
	seen.fetches_refused--;
	return nullptr;
}

void __wrap_chain_store(struct slub_cache *cache, void *chain, uint32_t nr)
{
	uint32_t length = 0;

	for (void *o = chain; o; o = link_next(cache, o))
		length++;
	seen.stored.emplace_back(nr, length);
	__real_chain_store(cache, chain, nr);
}

void __wrap_chain_retire(struct slub_cache *cache, void *chain)
{
	seen.nr_retired++;
	__real_chain_retire(cache, chain);
}

size_t __wrap_sample_bulk_guarded(struct slub_cache *cache, size_t nr, void **objects)
{
	seen.nr_sampled++;
	return __real_sample_bulk_guarded(cache, nr, objects);
}

void __wrap_sanitizer_tell_written(const void *start, size_t bytes)
{
	seen.written.emplace_back(start, bytes);
}
}

namespace {

const struct sample_keeper keeper = {
	[](void *, size_t, double) {}, [](void *) {}, [] {},
};

struct bulk_paths : typed {
	void SetUp() override
	{
		static char ignore[] = "SLUB_ON_ERROR=ignore";
		char *environment[] = { ignore, nullptr };

		option_read(environment);
		typed::SetUp();
		if (IsSkipped())
			return;
		percpu_enter();
		cache = make("bulky", 64, SLUB_CACHE_NO_MERGE);
		paged = make("paged", 2 * PAGE_BYTES, SLUB_CACHE_NO_MERGE);
		seen = {};
	}
	void TearDown() override
	{
		if (!cache)
			return;
		end(cache);
		end(paged);
	}
	/* Past all lists, so that these are as they were. */
	std::vector<void *> get(size_t nr, struct slub_cache *from = nullptr)
	{
		std::vector<void *> all;

		from = from ? from : cache;
		for (size_t i = 0; i < nr; i++)
			all.push_back(slub_cache_alloc(from));
		EXPECT_TRUE(cache_flush(from));
		seen = {};
		return all;
	}
	struct slub_cache_stats stats(struct slub_cache *of = nullptr)
	{
		struct slub_cache_stats now;

		EXPECT_EQ(slub_cache_stats(of ? of : cache, &now), 0);
		return now;
	}
	size_t length(struct slub_cache *of)
	{
		size_t nr = 0;

		for (void *o = percpu_head(of->list_slot); o; o = link_next(of, o))
			nr++;
		return nr;
	}
	struct slub_cache *cache = nullptr, *paged;
};

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

/* ---- prefill ---- */

TEST_F(bulk_paths, a_prefill_has_as_many_as_were_asked_for)
{
	struct slub_prefill prefill = {};
	struct slub_cache *other = make("other", 64, SLUB_CACHE_NO_MERGE);
	std::set<void *> all;

	EXPECT_EQ(slub_prefill_alloc(&prefill), nullptr);
	for (size_t nr : { 0, 1, 64, 65, 130, 20 }) {
		EXPECT_EQ(slub_cache_prefill(cache, &prefill, nr), 0);
		EXPECT_GE(prefill.nr, nr);
	}
	EXPECT_EQ(prefill.nr, 130u);
	EXPECT_EQ(prefill.cache, cache);
	EXPECT_EQ(slub_cache_prefill(other, &prefill, 200), -EINVAL) << "it is of another";
	EXPECT_EQ(slub_cache_prefill(nullptr, &prefill, 200), -EINVAL);
	EXPECT_EQ(prefill.nr, 130u);
	while (void *p = slub_prefill_alloc(&prefill)) {
		EXPECT_TRUE(all.insert(p).second);
		EXPECT_EQ(prefill.nr, 130 - all.size());
	}
	EXPECT_EQ(all.size(), 130u);
	EXPECT_EQ(slub_cache_prefill(other, &prefill, 3), 0) << "it is empty";
	EXPECT_EQ(prefill.cache, other);
	slub_prefill_return(&prefill);
	EXPECT_EQ(prefill.nr, 0u);
	EXPECT_EQ(prefill.head, nullptr);
	check_cache(other, {});
	for (void *p : all)
		slub_cache_free(cache, p);
	end(other);
	EXPECT_EQ(slub_cache_prefill(other, &prefill, 3), -EINVAL) << "destroyed";
}

TEST_F(bulk_paths, a_prefill_that_fails_gives_all_back)
{
	struct slub_prefill prefill = {};

	ASSERT_EQ(slub_cache_prefill(paged, &prefill, 10), 0);
	EXPECT_EQ(slub_cache_prefill(paged, &prefill, (200ul << 20) / paged->size), -ENOMEM);
	EXPECT_EQ(prefill.nr, 0u);
	EXPECT_EQ(prefill.head, nullptr);
	check_cache(paged, {});
}

TEST_F(bulk_paths, a_return_is_counted_by_its_way)
{
	start::one_cpu here;
	struct slub_prefill prefill = {};

	if (SLUB_CONFIG_HARDENED || percpu_backend == BACKEND_TID)
		GTEST_SKIP() << "one by one";
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats().sheaf_return_fast + stats().sheaf_return_slow, 0u) << "nothing";
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 5), 0);
	seen = {};
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats().sheaf_return_fast, 1u);
	EXPECT_EQ(seen.pushed, std::vector<uint32_t>{ 5 });
	EXPECT_EQ(seen.nr_frees, 0u);
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 5), 0);
	seen.pushes_refused = 1;
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats().sheaf_return_fast, 1u);
	EXPECT_EQ(stats().sheaf_return_slow, 1u);
	/* A look at each is due where one is watched, or has an owner. */
	ASSERT_EQ(slub_cache_prefill(cache, &prefill, 5), 0);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	seen = {};
	slub_prefill_return(&prefill);
	EXPECT_EQ(seen.nr_pushes, 0u);
	EXPECT_EQ(stats().sheaf_return_slow, 2u);
	ASSERT_EQ(slub_cache_debug(cache, 0), 0);
	struct slub_cache *owned = make("owned", 64, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE);
	ASSERT_EQ(slub_cache_prefill(owned, &prefill, 5), 0);
	slub_prefill_return(&prefill);
	EXPECT_EQ(stats(owned).sheaf_return_slow, 1u);
	EXPECT_EQ(stats(owned).sheaf_return_fast, 0u);
	end(owned);
	check_cache(cache, {});
}

} /* namespace */
