/* SPDX-License-Identifier: MIT */
/*
 * features/shadow/shadow.c, reserved.c, group_objects.c: shadows made, found and dropped; who gets
 * objects of the reserve; what a group's objects keep.
 */
#include "owners.h"

#define _Static_assert static_assert
#define _Atomic
extern "C" {
#include "features/shadow/shadow.h"
}
#undef _Static_assert
#undef _Atomic

#include <slub/reserve.h>

namespace {

struct {
	bool is_struct_refused;
	int publish_answer;
	int nr_structs, nr_structs_freed, nr_dropped;
	int allocs_refused;		/* cache_alloc(): the next so many */
	std::function<bool(int *)> more;	/* NULL: the library's */
} now;

} /* namespace */

extern "C" {
struct slub_cache *__real_cache_struct_alloc(void);
void __real_cache_struct_free(struct slub_cache *);
int __real_cache_publish(struct slub_cache *, uint32_t);
void __real_cache_drop_shadow(struct slub_cache *);
void *__real_cache_alloc(struct slub_cache *);
bool __real_reclaim_more(int *, size_t);

struct slub_cache *__wrap_cache_struct_alloc(void)
{
	now.nr_structs++;
	return now.is_struct_refused ? nullptr : __real_cache_struct_alloc();
}

void __wrap_cache_struct_free(struct slub_cache *cache)
{
	now.nr_structs_freed++;
	__real_cache_struct_free(cache);
}

int __wrap_cache_publish(struct slub_cache *cache, uint32_t length)
{
	return now.publish_answer ? now.publish_answer : __real_cache_publish(cache, length);
}

void __wrap_cache_drop_shadow(struct slub_cache *shadow)
{
	now.nr_dropped++;
	__real_cache_drop_shadow(shadow);
}

void *__wrap_cache_alloc(struct slub_cache *cache)
{
	if (!now.allocs_refused)
		return __real_cache_alloc(cache);
	now.allocs_refused--;
	return nullptr;
}

bool __wrap_reclaim_more(int *priority, size_t bytes)
{
	return now.more ? now.more(priority) : __real_reclaim_more(priority, bytes);
}
}

namespace {

struct shadows : owners {
	void SetUp() override
	{
		now = {};
		owners::SetUp();
		now = {};
	}
	void TearDown() override
	{
		now = {};
		owners::TearDown();
	}
};
using reserved = shadows;
using kept = shadows;

std::function<bool(struct slub_cache *, const struct slub_cache *)> on_shape;
int nr_made;

bool shape(struct slub_cache *shadow, const struct slub_cache *cache)
{
	return !on_shape || on_shape(shadow, cache);
}

const struct shadow_kind kind = {
	SHADOW_SAMPLED, "kind", SLUB_CACHE_TYPESAFE_BY_RCU, shape, [](struct slub_cache *) {
		nr_made++;
	},
};

/* ---- shadows ---- */

TEST_F(shadows, are_like_their_cache)
{
	struct slub_cache_args args = {};

	args.name = "window";
	args.size = 120;
	args.align = 8;
	args.flags = SLUB_CACHE_NO_MERGE | SLUB_CACHE_TYPESAFE_BY_RCU;
	args.useroffset = 16;
	args.usersize = 24;
	args.ctor = [](void *) {};
	struct slub_cache *of = slub_cache_create_args(&args);
	ASSERT_NE(of, nullptr);
	for (bool is_accounted : { false, true }) {
		struct slub_cache *base = is_accounted ? cache : of;

		nr_made = 0;
		struct slub_cache *shadow = shadow_get(base, &kind);
		ASSERT_NE(shadow, nullptr);
		EXPECT_EQ(nr_made, 1);
		EXPECT_EQ(shadow_get(base, &kind), shadow) << "made once";
		EXPECT_EQ(nr_made, 1);
		EXPECT_EQ(cache_shadow(base, SHADOW_SAMPLED), shadow);
		EXPECT_EQ(std::string(shadow->name), std::string(base->name) + ":kind");
		EXPECT_EQ(shadow->size, base->size);
		EXPECT_EQ(shadow->object_size, base->object_size);
		EXPECT_EQ(shadow->align, base->align);
		EXPECT_EQ(shadow->flags, base->flags & SLUB_CACHE_TYPESAFE_BY_RCU);
		EXPECT_EQ(shadow->ctor, base->ctor);
		EXPECT_EQ(shadow->useroffset, base->useroffset);
		EXPECT_EQ(shadow->usersize, base->usersize);
		EXPECT_EQ(shadow->link, base->link);
		EXPECT_EQ(shadow->is_accounted, is_accounted);
		EXPECT_EQ(shadow->root, base);
		EXPECT_TRUE(cache_is_live(shadow));
	}
	end(of);
	EXPECT_EQ(now.nr_dropped, 1) << "with its cache";
}

/* What does not fit is cut from the cache's name. */
TEST_F(shadows, have_a_name_that_fits)
{
	for (size_t length : { 41, 42, 43, 47 }) {
		std::string name(length, 'n');
		struct slub_cache *of = make(name.c_str(), 64, SLUB_CACHE_NO_MERGE);
		struct slub_cache *shadow = shadow_get(of, &kind);

		ASSERT_NE(shadow, nullptr);
		EXPECT_EQ(std::string(shadow->name), name.substr(0, 42) + ":kind");
		end(of);
	}
	struct slub_cache copy = {};
	strcpy(copy.name_space, "own");
	shadow_copy(&copy, cache, nullptr);
	EXPECT_STREQ(copy.name, "own") << "a name of its own";
	memset(copy.name_space, 'x', sizeof(copy.name_space));
	shadow_copy(&copy, cache, "s");
	EXPECT_EQ(std::string(copy.name), "owned:s");
	for (size_t i = 7; i < sizeof(copy.name_space); i++)
		EXPECT_EQ(copy.name_space[i], '\0') << "as other processes read it";
}

TEST_F(shadows, are_none_where_none_can_be_made)
{
	nr_made = 0;
	now.is_struct_refused = true;
	EXPECT_EQ(shadow_get(cache, &kind), nullptr);
	EXPECT_EQ(now.nr_structs, 1);
	EXPECT_EQ(now.nr_structs_freed, 0);
	now = {};
	on_shape = [](struct slub_cache *, const struct slub_cache *) { return false; };
	EXPECT_EQ(shadow_get(cache, &kind), nullptr);
	EXPECT_EQ(now.nr_structs_freed, 1);
	on_shape = nullptr;
	now.publish_answer = -ENOSPC;
	EXPECT_EQ(shadow_get(cache, &kind), nullptr);
	EXPECT_EQ(now.nr_structs_freed, 2);
	EXPECT_EQ(nr_made, 0);
	EXPECT_EQ(cache_shadow(cache, SHADOW_SAMPLED), nullptr);
	now = {};
}

/* Another thread was quicker. */
TEST_F(shadows, there_is_one_of_a_kind)
{
	struct slub_cache *other = nullptr;

	nr_made = 0;
	on_shape = [&](struct slub_cache *, const struct slub_cache *) {
		on_shape = nullptr;
		other = shadow_get(cache, &kind);
		return true;
	};
	EXPECT_EQ(shadow_get(cache, &kind), other);
	ASSERT_NE(other, nullptr);
	EXPECT_EQ(now.nr_dropped, 0) << "a walk may stand on it";
	EXPECT_NE(cache->next_dead, nullptr) << "it goes with its root";
	EXPECT_EQ(nr_made, 1);
	EXPECT_TRUE(cache_is_live(other));
}

/* Each kind whose objects are the cache's; malloc's shadows with owners are not looked at. */
TEST_F(shadows, are_looked_at_with_their_cache)
{
	EXPECT_FALSE(shadows_have_slabs(cache));
	EXPECT_FALSE(shadows_shrink(cache));
	for (auto place : { SHADOW_RESERVE, SHADOW_SAMPLED, SHADOW_ACCOUNTED }) {
		struct shadow_kind of = kind;
		bool is_seen = place != SHADOW_ACCOUNTED;
		std::vector<void *> all;

		SCOPED_TRACE(place);
		of.place = place;
		struct slub_cache *shadow = shadow_get(cache, &of);
		EXPECT_FALSE(shadows_have_slabs(cache));
		for (uint32_t i = 0; i < 3 * shadow->objects; i++)
			all.push_back(cache_alloc(shadow));
		EXPECT_EQ(shadows_have_slabs(cache), is_seen);
		for (size_t i = 0; i < all.size(); i++) {
			word(all[i]) = 0;
			cache_free(shadow, all[i]);
			all.erase(all.begin() + (long)i);
		}
		ASSERT_TRUE(cache_flush(shadow));
		EXPECT_EQ(shadows_shrink(cache), is_seen) << "a slab is partly used";
		EXPECT_EQ(shadows_have_slabs(cache), is_seen);
		for (void *p : all) {
			word(p) = 0;
			cache_free(shadow, p);
		}
		ASSERT_TRUE(cache_flush(shadow));
		EXPECT_FALSE(shadows_shrink(cache));
		EXPECT_FALSE(shadows_have_slabs(cache));
		now.nr_dropped = 0;
		shadows_drop(cache);
		EXPECT_EQ(now.nr_dropped, is_seen ? 1 : 0);
		EXPECT_EQ(cache_shadow(cache, place), is_seen ? nullptr : shadow);
		shadows_drop(cache);
		EXPECT_EQ(now.nr_dropped, is_seen ? 1 : 0);
		if (!is_seen) {
			cache_shrink_nodes(shadow);
			cache->shadows[place] = nullptr;
			cache_drop_shadow(shadow);
		}
	}
}

/* ---- the reserve ---- */

TEST_F(reserved, objects_are_for_those_with_the_right)
{
	void *p;

	ASSERT_EQ(slub_reserve_set(4 * RESERVE_BYTES), 0);
	EXPECT_EQ(cache_alloc_from_reserve(cache, 0), nullptr);
	EXPECT_EQ(cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE | SLUB_ALLOC_NO_RESERVE),
		  nullptr);
	slub_thread.locks_held++;
	EXPECT_EQ(cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE), nullptr);
	slub_thread.locks_held--;
	EXPECT_NE(cache_shadow(cache, SHADOW_RESERVE), nullptr)
		<< "made with the reserve, for later there may be no memory for it";
	for (bool is_inside : { false, true }) {
		if (is_inside) {
			ASSERT_EQ(slub_reserve_enter(), 0);
		}
		p = cache_alloc_from_reserve(cache, is_inside ? 0 : SLUB_ALLOC_RESERVE);
		ASSERT_NE(p, nullptr);
		struct slub_cache *shadow = cache_of(p);
		EXPECT_EQ(shadow, cache_shadow(cache, SHADOW_RESERVE));
		EXPECT_TRUE(shadow->is_reserve);
		EXPECT_EQ(shadow->root, cache);
		EXPECT_EQ(std::string(shadow->name), "owned:reserve");
		EXPECT_EQ(shadow->flags, cache->flags);
		EXPECT_EQ(percpu_head(shadow->list_slot), nullptr) << "its lists stay empty";
		struct page *slab = slab_of(shadow, p);
		EXPECT_EQ(state_inuse(slab_read(slab)), 1u) << "the rest is the slab's";
		if (is_inside) {
			EXPECT_EQ(cache_alloc_from_reserve(cache, SLUB_ALLOC_NO_RESERVE), nullptr);
			EXPECT_EQ(slub_reserve_leave(), 0);
		}
		word(p) = 0;
		slub_cache_free(cache, p);
	}
	uint64_t direct = 0;
	for (size_t i = 0; i < 5; i++) {
		p = cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE);
		word(p) = 0;
		slub_cache_free(cache, p);
	}
	struct slub_cache_stats stats;
	ASSERT_EQ(slub_cache_stats(cache_shadow(cache, SHADOW_RESERVE), &stats), 0);
	direct = stats.alloc_direct;
	EXPECT_EQ(direct, 7u);
	EXPECT_EQ(slub_reserve_set(0), 0);
}

TEST_F(reserved, objects_are_no_larger_than_its_blocks)
{
	ASSERT_EQ(slub_reserve_set(4 * RESERVE_BYTES), 0);
	for (auto [bytes, is_there] : { std::pair(RESERVE_BYTES, true),
					{ RESERVE_BYTES + 1, false } }) {
		struct slub_cache *of = make("blocks", bytes, SLUB_CACHE_NO_MERGE);
		void *p = cache_alloc_from_reserve(of, SLUB_ALLOC_RESERVE);

		EXPECT_EQ(p != nullptr, is_there) << bytes;
		slub_cache_free(of, p);
		end(of);
	}
	EXPECT_EQ(slub_reserve_set(0), 0);
}

TEST_F(reserved, everything_is_tried_before)
{
	ASSERT_EQ(slub_reserve_set(4 * RESERVE_BYTES), 0);
	int nr_more = 0, growth = -1;
	void *p;

	/* There is one at once. */
	now.more = [&](int *) { nr_more++; return false; };
	p = cache_alloc_reserve(cache, SLUB_ALLOC_RESERVE);
	EXPECT_EQ(cache_of(p), cache);
	EXPECT_EQ(nr_more, 0);
	word(p) = 0;
	slub_cache_free(cache, p);
	/* After two rounds of reclaim. */
	now.allocs_refused = 2;
	now.more = [&](int *priority) {
		EXPECT_EQ(*priority, 6 - nr_more);
		growth = slub_thread.growth;
		--*priority;
		nr_more++;
		return true;
	};
	slub_thread.growth = THREAD_GROWTH_ONCE;
	p = cache_alloc_reserve(cache, SLUB_ALLOC_RESERVE);
	EXPECT_EQ(cache_of(p), cache);
	EXPECT_EQ(nr_more, 2);
	EXPECT_EQ(growth, (int)THREAD_GROWTH_NONE);
	EXPECT_EQ((int)slub_thread.growth, (int)THREAD_GROWTH_ONCE) << "as it was";
	slub_thread.growth = THREAD_GROWTH_FREE;
	word(p) = 0;
	slub_cache_free(cache, p);
	/* All in vain: the reserve, with the right. */
	now.more = [&](int *) { nr_more++; return false; };
	for (unsigned int flags : { 0u, (unsigned int)SLUB_ALLOC_RESERVE }) {
		nr_more = 0;
		now.allocs_refused = 1;
		p = cache_alloc_reserve(cache, flags);
		EXPECT_EQ(nr_more, 1);
		ASSERT_EQ(p != nullptr, flags != 0);
		if (!p)
			continue;
		EXPECT_TRUE(cache_of(p)->is_reserve);
		word(p) = 0;
		slub_cache_free(cache, p);
	}
	/* A handler, and one that is refused on purpose, get nothing. */
	nr_more = 0;
	now.allocs_refused = 1;
	slub_thread.locks_held++;
	EXPECT_EQ(cache_alloc_reserve(cache, SLUB_ALLOC_RESERVE), nullptr);
	slub_thread.locks_held--;
	now.allocs_refused = 1;
	slub_thread.flags |= THREAD_REFUSED;
	EXPECT_EQ(cache_alloc_reserve(cache, SLUB_ALLOC_RESERVE), nullptr);
	EXPECT_FALSE(cache_is_refused()) << "asked once";
	EXPECT_EQ(nr_more, 0);
	EXPECT_EQ(slub_reserve_set(0), 0);
}

TEST_F(reserved, who_enters_leaves_as_often)
{
	int nr = 0;
	uint32_t flags = slub_thread.flags;

	EXPECT_EQ(slub_reserve_leave(), -EINVAL);
	while (slub_reserve_enter() == 0) {
		nr++;
		ASSERT_TRUE(slub_thread.flags & THREAD_RESERVE);
		ASSERT_LT(nr, 1000);
	}
	EXPECT_EQ(nr, 63);
	EXPECT_EQ(slub_reserve_enter(), -ENOSPC);
	for (int i = 0; i < nr; i++) {
		EXPECT_TRUE(slub_thread.flags & THREAD_RESERVE) << i;
		EXPECT_EQ(slub_reserve_leave(), 0);
	}
	EXPECT_EQ(slub_thread.flags, flags);
	EXPECT_EQ(slub_reserve_leave(), -EINVAL);
	EXPECT_EQ(slub_reserve_set(3 * RESERVE_BYTES), 0);
	EXPECT_EQ(slub_reserve_bytes(), 3 * RESERVE_BYTES);
	EXPECT_EQ(slub_reserve_set(0), 0);
	EXPECT_EQ(slub_reserve_bytes(), 0u);
}

/* ---- what a group keeps ---- */

TEST_F(kept, memory_is_counted_by_objects_and_slabs)
{
	struct slub_group_memory memory;
	struct slub_cache *wide = make("wide", 1000, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE);
	std::vector<char *> all, others;
	const size_t slab = PAGE_BYTES << cache->order, slab_wide = PAGE_BYTES << wide->order;

	EXPECT_EQ(slub_group_memory(one, &memory), 0);
	EXPECT_EQ(memory.objects + memory.slabs + memory.slab_bytes + memory.share_bytes, 0u);
	/* Three of one, one of the other, one of nobody on a slab; and two of one elsewhere. */
	for (int i = 0; i < 5; i++) {
		all.push_back(get());
		if (i < 4)
			give(all.back(), i < 3 ? one : two);
	}
	for (int i = 0; i < 2; i++) {
		others.push_back(get(wide));
		give(others.back(), one);
	}
	ASSERT_TRUE(cache_flush(cache));
	ASSERT_EQ(slab_of(cache, all[0]), slab_of(cache, all[4]));
	memset(&memory, 0xff, sizeof(memory));
	EXPECT_EQ(slub_group_memory(one, &memory), 0);
	EXPECT_EQ(memory.objects, 5u);
	EXPECT_EQ(memory.object_bytes, 3 * 64 + 2 * wide->object_size);
	EXPECT_EQ(memory.slabs, 2u);
	EXPECT_EQ(memory.slab_bytes, slab + slab_wide);
	EXPECT_EQ(memory.share_bytes, slab * 3 / 5 + slab_wide);
	EXPECT_EQ(memory.large_blocks, 0u);
	EXPECT_EQ(memory.large_bytes, 0u);
	for (uint64_t each : memory.reserved)
		EXPECT_EQ(each, 0u);
	EXPECT_EQ(slub_group_memory(two, &memory), 0);
	EXPECT_EQ(memory.objects, 1u);
	EXPECT_EQ(memory.object_bytes, 64u);
	EXPECT_EQ(memory.slab_bytes, slab);
	EXPECT_EQ(memory.share_bytes, slab / 5);
	/* Large blocks have their owner in the descriptor. */
	bool is_zero;
	void *block = large_alloc(100 << 10, PAGE_BYTES, &is_zero);
	*page_owner(page_of(block)) = second;
	EXPECT_EQ(slub_group_memory(one, &memory), 0);
	EXPECT_EQ(memory.large_blocks, 0u);
	EXPECT_EQ(slub_group_memory(two, &memory), 0);
	EXPECT_EQ(memory.large_blocks, 1u);
	EXPECT_EQ(memory.large_bytes, large_bytes(block));
	*page_owner(page_of(block)) = 0;
	large_free(block);
	/* What was freed is nobody's, also while it lies in a list. */
	for (char *p : all)
		slub_cache_free(cache, p);
	EXPECT_EQ(slub_group_memory(one, &memory), 0);
	EXPECT_EQ(memory.objects, 2u);
	EXPECT_TRUE(account_lists_are_empty());
	for (char *p : others)
		slub_cache_free(wide, p);
	end(wide);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_group_memory(one, &memory), -EDEADLK);
	slub_thread.locks_held--;
	EXPECT_EQ(slub_group_memory(nullptr, &memory), -EINVAL);
}

TEST_F(kept, all_that_has_an_owner_is_visited)
{
	struct seen {
		std::vector<uint32_t> owners;
		size_t slabs, large;
	} seen = {};
	struct owned_visitor visitor = {
		[](const struct slub_cache *, const struct page *, uint32_t owner, void *arg) {
			((struct seen *)arg)->owners.push_back(owner);
		},
		nullptr,
		[](uint32_t, size_t bytes, void *arg) { ((struct seen *)arg)->large += bytes; },
		&seen,
	};
	char *p = get(), *q = get();

	give(p, two);
	ASSERT_TRUE(cache_flush(cache));
	owned_visit(&visitor);
	std::sort(seen.owners.begin(), seen.owners.end());
	EXPECT_EQ(seen.owners, (std::vector<uint32_t>{ 0, second }));
	visitor.slab = [](const struct slub_cache *, const struct page *, void *arg) {
		((struct seen *)arg)->slabs++;
	};
	seen = {};
	owned_visit(&visitor);
	EXPECT_EQ(seen.slabs, 1u);
	slub_thread.locks_held++;
	seen = {};
	owned_visit(&visitor);
	EXPECT_EQ(seen.owners.size() + seen.slabs, 0u) << "no slab can be kept there";
	slub_thread.locks_held--;
	slub_cache_free(cache, p);
	slub_cache_free(cache, q);
	ASSERT_TRUE(cache_flush(cache));
}

/* ---- caches in groups ---- */

TEST_F(kept, a_cache_moves_to_a_group)
{
	struct slub_cache *plain = make("plain", 64, SLUB_CACHE_NO_MERGE), *gone = make("gone", 64);
	struct slub_group *deleted = slub_group_create("deleted", nullptr);
	size_t owners_before = owner_pool.nr_used;

	slub_thread.locks_held++;
	EXPECT_EQ(slub_cache_group_set(cache, one), -EDEADLK);
	slub_thread.locks_held--;
	EXPECT_EQ(slub_cache_group_set(nullptr, one), -EINVAL);
	EXPECT_EQ(slub_cache_group_set(plain, one), -EINVAL) << "it has no owners";
	ASSERT_EQ(slub_group_destroy(deleted), 0);
	EXPECT_EQ(slub_cache_group_set(cache, deleted), -EINVAL);
	cache->is_internal = true;
	EXPECT_EQ(slub_cache_group_set(cache, one), -EINVAL);
	cache->is_internal = false;
	for (uint32_t users : { 2u, 1u, 0u }) {
		uint32_t before = cache->users;

		cache->users = users;
		EXPECT_EQ(slub_cache_group_set(cache, one), users > 1 ? -EBUSY : 0) << users;
		cache->users = before;
		char *p = get();
		EXPECT_EQ(word(p), users > 1 ? 0u : first);
		back(p);
	}
	EXPECT_EQ(slub_cache_group_set(cache, two), 0);
	char *p = get();
	EXPECT_EQ(word(p), second);
	struct slub_cache copy = {};
	cache_place_copy(&copy, &cache->place);
	EXPECT_NE(copy.place, 0u);
	group_place_drop(group_place_exchange(&copy.place, 0));
	back(p);
	expect_usage(0, 0);
	EXPECT_EQ(slub_cache_group_set(cache, nullptr), 0);
	p = get();
	EXPECT_EQ(word(p), 0u);
	back(p);
	EXPECT_LE(owner_pool.nr_used, owners_before);
	end(plain);
	end(gone);
}

} /* namespace */
