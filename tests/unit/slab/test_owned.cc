/* SPDX-License-Identifier: MIT */
/* features/groups/owned.c: who is charged with what, and how an owner's word changes. */
#include "owners.h"

namespace {

using owned = owners;

/* Each object has a word of its own, at the end of its slab. */
TEST_F(owned, have_words_behind_the_objects)
{
	char *p = get();
	struct page *slab = slab_of(cache, p);
	char *base = (char *)page_address(slab);
	std::set<uint32_t *> places;

	EXPECT_EQ(OWNER_FREE, FREE);
	EXPECT_EQ(owner_charged(FREE | 5), 5u);
	EXPECT_EQ(word(p), 0u);
	for (uint32_t i = 0; i < cache->objects; i++) {
		uint32_t *at = object_owner(cache, base + i * cache->size);

		EXPECT_EQ(at, (uint32_t *)(base + cache->owners) + i);
		EXPECT_GE((char *)at, base + cache->objects * cache->size);
		EXPECT_LE((char *)(at + 1), base + (PAGE_BYTES << cache->order));
	}
	/* What was carved and is free belongs to nobody. */
	for (uint32_t i = 0; i < slab_count_read(slab); i++) {
		char *object = base + i * cache->size;

		if (object != p) {
			EXPECT_EQ(word(object), FREE) << i;
		}
	}
	slub_cache_free(cache, p);
	struct slub_cache *paged = make("paged", 2 * PAGE_BYTES, SLUB_CACHE_ACCOUNT);
	char *large = get(paged);
	EXPECT_EQ(object_owner(paged, large), page_owner(page_of(large)));
	slub_cache_free(paged, large);
	end(paged);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	char *watched = get();
	struct slub_cache *twin = cache_of(watched);
	EXPECT_EQ((char *)object_owner(twin, watched), watched + twin->debug->owner);
	slub_cache_free(cache, watched);
}

TEST_F(owned, mark_what_was_carved)
{
	char *p = get();
	struct page *slab = slab_of(cache, p);
	char *base = (char *)page_address(slab);
	auto *words = (uint32_t *)(base + cache->owners);
	std::vector<uint32_t> before(words, words + cache->objects);

	for (uint32_t i = 0; i < cache->objects; i++)
		words[i] = 7;
	account_carved(cache, base + 2 * cache->size, 3);
	for (uint32_t i = 0; i < 7; i++)
		EXPECT_EQ(words[i], i >= 2 && i < 5 ? FREE : 7u) << i;
	std::copy(before.begin(), before.end(), words);
	slub_cache_free(cache, p);
}

/* ---- off a list ---- */

TEST_F(owned, a_claim_charges_the_new_owner)
{
	char *p = get();

	/* Whose it was already. */
	give(p, one, FREE);
	EXPECT_EQ(account_claim(cache, p, first), p);
	EXPECT_EQ(word(p), first);
	expect_usage(64, 0);
	/* Another's; and nobody's. */
	word(p) |= FREE;
	EXPECT_EQ(account_claim(cache, p, second), p);
	EXPECT_EQ(word(p), second);
	expect_usage(0, 64);
	word(p) |= FREE;
	EXPECT_EQ(account_claim(cache, p, 0), p);
	EXPECT_EQ(word(p), 0u);
	expect_usage(0, 0);
	word(p) |= FREE;
	EXPECT_EQ(account_claim(cache, p, first), p);
	EXPECT_EQ(word(p), first);
	expect_usage(64, 0);
	back(p);
	expect_usage(0, 0);
}

TEST_F(owned, under_a_lock_a_claim_changes_nobody)
{
	char *p = get();

	give(p, one, FREE);
	slub_thread.locks_held++;
	EXPECT_EQ(account_claim(cache, p, second), p);
	EXPECT_EQ(word(p), first);
	expect_usage(64, 0);
	word(p) |= FREE;
	EXPECT_EQ(account_claim(cache, p, 0), p);
	EXPECT_EQ(word(p), first);
	slub_thread.locks_held--;
	expect_usage(64, 0);
	back(p);
	expect_usage(0, 0);
}

TEST_F(owned, a_claim_that_is_refused_frees_the_object)
{
	char *p = get();

	ASSERT_EQ(slub_group_limit_set(two, SLUB_GROUP_MAX, 63), 0);
	give(p, one, FREE);
	EXPECT_EQ(account_claim(cache, p, second), nullptr);
	expect_usage(0, 0);
	EXPECT_EQ(word(p), FREE);
	EXPECT_EQ(get(), p) << "it is free again";
	ASSERT_EQ(slub_group_limit_set(two, SLUB_GROUP_MAX, 64), 0);
	word(p) = FREE;
	EXPECT_EQ(account_claim(cache, p, second), p);
	expect_usage(0, 64);
	slub_cache_free(cache, p);
}

TEST_F(owned, what_the_fast_path_leaves_is_allocated)
{
	void *got = this;

	if (cache->account_path == ACCOUNT_SLOW)
		GTEST_SKIP() << "lists keep no charges";
	ASSERT_TRUE(cache_flush(cache));
	EXPECT_FALSE(account_alloc_rest(cache, first, &got));
	EXPECT_EQ(got, nullptr);
	ASSERT_TRUE(cache_flush(cache));
	char *p = get();
	give(p, one);
	EXPECT_TRUE(account_free_rest(cache, p));
	EXPECT_EQ(word(p), first | FREE) << "still charged";
	EXPECT_EQ(percpu_head(cache->list_slot), p);
	EXPECT_FALSE(account_free_rest(cache, p)) << "once";
	EXPECT_EQ(word(p), first | FREE);
	EXPECT_EQ(percpu_head(cache->list_slot), p);
	expect_usage(64, 0);
	EXPECT_TRUE(account_alloc_rest(cache, first, &got));
	EXPECT_EQ(got, p);
	EXPECT_EQ(word(p), first);
	expect_usage(64, 0);
	EXPECT_TRUE(account_free_rest(cache, p));
	EXPECT_TRUE(account_alloc_rest(cache, second, &got));
	EXPECT_EQ(got, p);
	EXPECT_EQ(word(p), second);
	expect_usage(0, 64);
	EXPECT_TRUE(account_free_rest(cache, p));
	ASSERT_EQ(slub_group_limit_set(one, SLUB_GROUP_MAX, 1), 0);
	EXPECT_TRUE(account_alloc_rest(cache, first, &got)) << "there was one";
	EXPECT_EQ(got, nullptr) << "that may not be charged";
	expect_usage(0, 0);
}

/* A list that is full is another matter, and loses none. */
TEST_F(owned, what_the_fast_path_leaves_is_freed)
{
	const unsigned NR = 20000;	/* more than a list and its spare may hold */
	std::vector<char *> all;

	if (cache->account_path == ACCOUNT_SLOW)
		GTEST_SKIP() << "lists keep no charges";
	for (unsigned i = 0; i < NR; i++) {
		all.push_back(get());
		give(all.back(), one);
	}
	expect_usage(NR * 64, 0);
	/* Under a lock there is nowhere else to go. */
	slub_thread.locks_held++;
	while (account_free_rest(cache, all.back()))
		all.pop_back();
	slub_thread.locks_held--;
	EXPECT_EQ(word(all.back()), first) << "as it was";
	EXPECT_GT(all.size(), 1000u);
	expect_usage(NR * 64, 0);
	for (char *p : all)
		ASSERT_TRUE(account_free_rest(cache, p));
	EXPECT_LT(group_usage(one), NR * 64) << "those beyond the list are nobody's";
	ASSERT_TRUE(cache_flush(cache));
	expect_usage(0, 0);
}

/* ---- one by one ---- */

TEST_F(owned, a_charge_is_the_threads_or_the_caches)
{
	uint32_t owner = 77;

	ASSERT_TRUE(account_begin(cache, 3, &owner));
	EXPECT_EQ(owner, 0u);
	account_cancel(cache, 3, owner);
	{
		inside here(one);

		ASSERT_TRUE(account_begin(cache, 3, &owner));
		EXPECT_EQ(owner, first);
		expect_usage(3 * 64, 0);
		account_cancel(cache, 0, owner);
		expect_usage(3 * 64, 0);
		account_cancel(cache, 2, owner);
		expect_usage(64, 0);
		account_end(cache, nullptr, owner);
		expect_usage(0, 0);
		ASSERT_EQ(slub_group_limit_set(one, SLUB_GROUP_MAX, 5 * 64), 0);
		EXPECT_FALSE(account_begin(cache, 6, &owner));
		ASSERT_TRUE(account_begin(cache, 5, &owner));
		account_cancel(cache, 5, owner);
	}
	/* A cache's own place is before the thread's, a twin's is its original's. */
	ASSERT_EQ(slub_cache_group_set(cache, two), 0);
	struct slub_cache shadow = *cache;
	shadow.root = cache;
	shadow.place = 0;
	for (auto *each : { cache, &shadow }) {
		inside here(one);

		ASSERT_TRUE(account_begin(each, 1, &owner));
		EXPECT_EQ(owner, second);
		account_cancel(each, 1, owner);
	}
	expect_usage(0, 0);
	ASSERT_EQ(slub_cache_group_set(cache, nullptr), 0);
}

TEST_F(owned, an_object_becomes_the_owners)
{
	char *p = get(), *q = get();
	auto charge = [&](slub_group *group) {
		ASSERT_EQ(group_charge(group_owner_number(group), 64), 0);
	};

	charge(one);
	account_end(cache, p, first);
	EXPECT_EQ(word(p), first);
	expect_usage(64, 0);
	/* It may be charged to somebody still, who may be the same. */
	word(p) |= FREE;
	charge(one);
	account_take(cache, p, first);
	EXPECT_EQ(word(p), first);
	expect_usage(64, 0);
	word(p) |= FREE;
	charge(two);
	account_take(cache, p, second);
	EXPECT_EQ(word(p), second);
	expect_usage(0, 64);
	/* Where no lock may be taken it stays whose it was. */
	word(p) |= FREE;
	charge(one);
	slub_thread.locks_held++;
	account_take(cache, p, first);
	slub_thread.locks_held--;
	EXPECT_EQ(word(p), second);
	expect_usage(0, 64);
	word(q) = FREE;
	charge(one);
	slub_thread.locks_held++;
	account_take(cache, q, first);
	slub_thread.locks_held--;
	EXPECT_EQ(word(q), first);
	expect_usage(64, 64);
	/* Of no slab. */
	charge(one);
	account_end(cache, &p, first);
	expect_usage(64, 64);
	back(p);
	back(q);
	expect_usage(0, 0);
	/* What is behind a watched object was never a word before. */
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	p = get();
	word(p) = second;
	charge(one);
	account_end(cache, p, first);
	EXPECT_EQ(word(p), first);
	expect_usage(64, 0);
	slub_cache_free(cache, p);
}

/* ---- free ---- */

TEST_F(owned, a_free_is_the_owners_gain)
{
	char *p = get(), *none = get();
	uint64_t found = misuse_nr_found(), twice = double_frees();

	give(p, two);
	EXPECT_TRUE(account_free(cache, p));
	EXPECT_EQ(word(p), FREE);
	expect_usage(0, 0);
	EXPECT_TRUE(account_free(cache, none));
	EXPECT_EQ(word(none), FREE);
	EXPECT_EQ(misuse_nr_found(), found);
	EXPECT_FALSE(account_free(cache, p));
	EXPECT_EQ(misuse_nr_found(), found + 1);
	EXPECT_EQ(double_frees(), twice + 1);
	EXPECT_TRUE(account_one_less(cache, none) == false);
	word(p) = word(none) = 0;
	slub_cache_free(cache, p);
	slub_cache_free(cache, none);
}

/* Neighbours of one owner are charged at once, and none is left out. */
TEST_F(owned, many_frees_are_each_owners_gain)
{
	slub_group *const whose[] = { one, one, two, two, two, nullptr, one, nullptr, two };
	const size_t nr = std::size(whose);
	void *all[nr];

	for (size_t twice = 0; twice <= nr; twice++) {
		uint64_t found = misuse_nr_found();
		size_t of_one = 0, of_two = 0;

		for (size_t i = 0; i < nr; i++) {
			all[i] = get();
			if (whose[i])
				give(all[i], whose[i]);
			if (i >= twice) {
				of_one += whose[i] == one;
				of_two += whose[i] == two;
			}
		}
		if (twice < nr) {
			word(all[twice]) |= FREE;
			/* The one itself stays charged. */
		}
		EXPECT_EQ(account_free_many(cache, nr, all), twice);
		EXPECT_EQ(misuse_nr_found(), found + (twice < nr));
		expect_usage(of_one * 64, of_two * 64);
		for (size_t i = 0; i < nr; i++) {
			if (i < twice) {
				EXPECT_EQ(word(all[i]), FREE) << i;
				word(all[i]) = 0;
			} else {
				word(all[i]) = owner_charged(word(all[i]));
			}
			back(all[i]);
		}
		expect_usage(0, 0);
	}
	EXPECT_EQ(account_free_many(cache, 0, all), 0u);
}

/* ---- lists ---- */

TEST_F(owned, a_chain_that_is_settled_is_nobodys)
{
	slub_group *const whose[] = { one, one, nullptr, two, nullptr, two, two };
	const size_t nr = std::size(whose);
	void *all[nr];

	for (size_t i = 0; i < nr; i++) {
		all[i] = get();
		if (whose[i])
			give(all[i], whose[i], FREE);
		else
			word(all[i]) = FREE;
	}
	for (size_t i = 0; i < nr; i++)
		chain_set_next(cache, all[i], i + 1 < nr ? all[i + 1] : nullptr);
	expect_usage(2 * 64, 3 * 64);
	account_settle(cache, all[0]);
	expect_usage(0, 0);
	for (void *p : all)
		EXPECT_EQ(word(p), FREE);
	account_settle(cache, nullptr);
	chain_flush(cache, all[0]);
}

TEST_F(owned, lists_of_this_cpu_are_settled)
{
	start::one_cpu here;
	std::vector<char *> all;

	if (cache->account_path == ACCOUNT_SLOW)
		GTEST_SKIP() << "lists keep no charges";
	ASSERT_TRUE(cache_flush(cache));
	EXPECT_TRUE(account_lists_are_empty());
	for (int i = 0; i < 5; i++) {
		all.push_back(get());
		give(all.back(), i % 2 ? one : two);
	}
	for (char *p : all)
		ASSERT_TRUE(account_free_rest(cache, p));
	expect_usage(2 * 64, 3 * 64);
	void *head = percpu_head(cache->list_slot);
	EXPECT_FALSE(account_lists_are_empty());
	slub_thread.locks_held++;
	account_settle_lists(false);
	account_settle_lists(true);
	slub_thread.locks_held--;
	expect_usage(2 * 64, 3 * 64);
	account_settle_lists(false);
	expect_usage(0, 0);
	EXPECT_EQ(percpu_head(cache->list_slot), head) << "they are in the list still";
	EXPECT_FALSE(account_lists_are_empty());
	EXPECT_EQ(chain_next(cache, head), all[3]);
	account_settle_lists(true);
	EXPECT_EQ(percpu_head(cache->list_slot), nullptr);
	EXPECT_TRUE(account_lists_are_empty());
	/* The spare list, too. */
	void *chain = get();
	give(chain, one, FREE);
	chain_set_next(cache, chain, nullptr);
	percpu_take(cache->list_slot + SLOT_SPARE, 0);
	ASSERT_TRUE(percpu_put(cache->list_slot + SLOT_SPARE, chain, 0));
	expect_usage(64, 0);
	account_settle_lists(false);
	expect_usage(0, 0);
	EXPECT_EQ(percpu_head(cache->list_slot + SLOT_SPARE), chain);
	account_settle_lists(true);
	EXPECT_EQ(percpu_head(cache->list_slot + SLOT_SPARE), nullptr);
	/* Nothing stays in a list of one that is watched by then. */
	char *p = get();
	ASSERT_TRUE(account_free_rest(cache, p));
	__atomic_store_n(&cache->twin, cache, __ATOMIC_RELEASE);
	account_settle_lists(false);
	EXPECT_EQ(percpu_head(cache->list_slot), nullptr);
	__atomic_store_n(&cache->twin, nullptr, __ATOMIC_RELEASE);
}

/* As much as before, by which its objects are counted. */
TEST_F(owned, a_list_that_was_settled_has_the_same_room)
{
	if (cache->account_path == ACCOUNT_SLOW)
		GTEST_SKIP() << "lists keep no charges";
	start::one_cpu here;
	char *p = get();
	const struct slot *lists = percpu_lists(cache->list_slot);

	ASSERT_TRUE(cache_flush(cache));
	chain_set_next(cache, p, nullptr);
	ASSERT_TRUE(percpu_put(cache->list_slot, p, list_room(100, 60)));
	account_settle_lists(false);
	EXPECT_EQ(*percpu_room(lists), capacity_now(cache) - 60);
	EXPECT_EQ(slot_main_nr(lists, 7), 60u);
	EXPECT_EQ(percpu_take(cache->list_slot, 0), p);
	word(p) = 0;
	slub_cache_free(cache, p);
}

/* ---- in two places ---- */

TEST_F(owned, an_object_that_moves_takes_its_charge_along)
{
	char *from = get(), *to = get();

	give(from, one);
	account_move(cache, from, to);
	EXPECT_EQ(word(to), first);
	EXPECT_EQ(word(from), FREE);
	expect_usage(64, 0);
	word(from) = 0;
	account_both(cache, to, from);
	EXPECT_EQ(word(from), first);
	EXPECT_EQ(word(to), first);
	expect_usage(128, 0);
	EXPECT_TRUE(account_one_less(cache, from));
	expect_usage(64, 0);
	EXPECT_FALSE(account_one_less(cache, from));
	word(from) = 7;
	word(to) = FREE;
	account_both(cache, to, from);
	EXPECT_EQ(word(from), 0u) << "nobody's";
	word(to) = first;
	slub_cache_free(cache, from);
	slub_cache_free(cache, to);
	struct slub_cache *plain = make("plain", 64);
	from = get(plain);
	EXPECT_TRUE(account_one_less(plain, from));
	account_both(plain, from, from);
	slub_cache_free(plain, from);
	end(plain);
}

} /* namespace */
