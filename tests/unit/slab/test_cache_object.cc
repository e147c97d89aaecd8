/* SPDX-License-Identifier: MIT */
/*
 * features/typed/object.c, visit.c: one object in and out past the inline functions: what is said,
 * counted, and answered of it.
 */
#include "says.h"
#include "typed.h"

extern "C" {
#include "features/misuse/misuse.h"
#include "features/guard/guard.h"
#include "features/groups/owned.h"
#include "features/profile/sample.h"
}

#include <slub/debug.h>
#include <slub/group.h>
#include <slub/rcu.h>
#include <slub/reserve.h>

namespace {

int flushes_refused;
std::vector<std::pair<const void *, size_t>> written;

} /* namespace */

extern "C" {
bool __real_cache_flush(struct slub_cache *);

bool __wrap_cache_flush(struct slub_cache *cache)
{
	if (!flushes_refused)
		return __real_cache_flush(cache);
	flushes_refused--;
	return false;
}

void __wrap_sanitizer_tell_written(const void *start, size_t bytes)
{
	written.emplace_back(start, bytes);
}
}

namespace {

struct objects : typed {
	void SetUp() override
	{
		set("SLUB_ON_ERROR=ignore");
		typed::SetUp();
		if (IsSkipped())
			return;
		percpu_enter();
		cache = make("single", 64, SLUB_CACHE_NO_MERGE);
		other = make("other", 64, SLUB_CACHE_NO_MERGE);
	}
	void TearDown() override
	{
		if (!cache)
			return;
		end(cache);
		end(other);
	}
	static void set(const char *assignment)
	{
		static std::vector<std::string *> kept;
		char *environment[2] = {};

		kept.push_back(new std::string(assignment));
		environment[0] = kept.back()->data();
		option_read(environment);
	}
	struct slub_cache_stats stats(struct slub_cache *of)
	{
		struct slub_cache_stats now;

		memset(&now, 0xff, sizeof(now));
		EXPECT_EQ(slub_cache_stats(of, &now), 0);
		return now;
	}
	struct slub_cache *cache = nullptr, *other = nullptr;
};

/* ---- free ---- */

TEST_F(objects, of_another_cache_are_freed_there)
{
	std::string what;
	void *p = slub_cache_alloc(other);

	what = "slub_cache_free(single): object " + text_of(p) +
	       " is of cache other; freed there\n";
	errno = 55;
	EXPECT_EQ(said([&] { slub_cache_free(cache, p); }), what);
	EXPECT_EQ(errno, 55);
	EXPECT_EQ(stats(other).wrong_cache, 1u);
	EXPECT_EQ(stats(cache).wrong_cache, 0u);
	check_cache(other, {});
	/* Of a watched one by its own name; of a twin of its own none. */
	ASSERT_EQ(slub_cache_debug(other, SLUB_CACHE_RED_ZONE), 0);
	p = slub_cache_alloc(other);
	ASSERT_NE(cache_of(p), other);
	EXPECT_EQ(said([&] { slub_cache_free(other, p); }), "");
	p = slub_cache_alloc(other);
	std::string text = said([&] { slub_cache_free(cache, p); });
	EXPECT_NE(text.find("slub_cache_free(single): object " + text_of(p) +
			    " is of cache other; freed there\n"), text.npos) << text;
	slub_cache_free(cache, nullptr);
}

TEST_F(objects, of_no_cache_are_left_alone)
{
	static char variable[64];
	struct slub_cache *gone = make("gone", 64, SLUB_CACHE_NO_MERGE);
	void *mapped = os_map(os_page_size());

	end(gone);
	uint64_t found = misuse_nr_found();
	slub_cache_free(cache, variable);
	EXPECT_EQ(misuse_nr_found(), found + 1) << "in a program";
	EXPECT_EQ(said([&] { slub_cache_free(cache, mapped); }),
		  "slub_cache_free(single): " + text_of(mapped) + " lies in no slab; left alone\n");
	EXPECT_EQ(said([&] { slub_cache_free(gone, mapped); }),
		  "slub_cache_free(?): " + text_of(mapped) + " lies in no slab; left alone\n");
	EXPECT_EQ(misuse_nr_found(), found + 1) << "it may be somebody's";
	void *p = slub_cache_alloc(cache);
	EXPECT_EQ(said([&] { slub_cache_free(gone, p); }), "slub_cache_free(?): object " +
		  text_of(p) + " is of cache single; freed there\n");
	os_unreserve(mapped, os_page_size());
}

/* What is at the head of this CPU's list is free already. */
TEST_F(objects, are_freed_once)
{
	start::one_cpu here;
	void *p = slub_cache_alloc(cache);

	slub_cache_free(cache, p);
	if (percpu_head(cache->list_slot) != p)
		GTEST_SKIP() << "its lists are elsewhere";
	set("SLUB_ON_ERROR=report");
	std::string text = said([&] {
		slub_cache_free(other, p);	/* not inline */
	});
	EXPECT_NE(text.find("double free: slub_cache_free(" + text_of(p) + "), single, thread "),
		  text.npos) << text;
	EXPECT_EQ(stats(cache).double_free, 1u);
	EXPECT_EQ(stats(cache).wrong_cache, 1u);
	check_cache(cache, {});
}

TEST_F(objects, that_are_guarded_go_back)
{
	ASSERT_EQ(guard_open(1), 0);
	void *p = guard_alloc(cache, 64, 16);

	EXPECT_EQ(slub_cache_of(p), cache);
	slub_cache_free(cache, p);
	EXPECT_EQ(guard_bytes(p), 0u);
	EXPECT_EQ(guard_pools[GUARD_OBJECTS].errors, 0u);
	EXPECT_EQ(slub_cache_of(p), nullptr);
}

/* ---- alloc ---- */

TEST_F(objects, are_as_they_were_wished_for)
{
	struct slub_cache *made = make("made", 64, SLUB_CACHE_NO_MERGE, [](void *) {});
	const unsigned int zero = SLUB_ALLOC_ZERO;

	for (auto [from, flags, node, is_right] : {
		std::tuple(cache, zero, SLUB_NODE_ANY, true), { cache, 0u, SLUB_NODE_ANY, true },
		{ cache, (unsigned int)SLUB_ALLOC_RESERVE, SLUB_NODE_ANY, true },
		{ cache, (unsigned int)SLUB_ALLOC_NO_RESERVE, SLUB_NODE_ANY, true },
		{ cache, zero, 0, true }, { cache, 0u, 1, false }, { cache, 0u, -2, false },
		{ cache, 1u, SLUB_NODE_ANY, false }, { cache, 1u << 30, SLUB_NODE_ANY, false },
		{ made, zero, SLUB_NODE_ANY, false }, { made, 0u, SLUB_NODE_ANY, true } }) {
		errno = 0;
		void *p = slub_cache_alloc_node(from, flags, node);

		EXPECT_EQ(p != nullptr, is_right) << flags << ", " << node;
		EXPECT_EQ(errno, is_right ? 0 : EINVAL);
		if (p)
			slub_cache_free(from, p);
	}
	void *p = slub_cache_alloc(cache);
	memset(p, 'x', 64);
	slub_cache_free(cache, p);
	written.clear();
	sanitizer.is_told = true;
	p = slub_cache_zalloc(cache);
	EXPECT_EQ(written.size(), 1u);
	EXPECT_EQ(written[0], std::make_pair((const void *)p, (size_t)64));
	slub_cache_free(cache, p);
	p = slub_cache_alloc_flags(cache, 0);
	sanitizer.is_told = false;
	EXPECT_EQ(written.size(), 1u);
	slub_cache_free(cache, p);
	p = slub_cache_zalloc(cache);
	EXPECT_EQ(harness::first_nonzero(p, 64), 64u);
	slub_cache_free(cache, p);
	end(made);
	errno = 0;
	EXPECT_EQ(slub_cache_alloc(made), nullptr);
	EXPECT_EQ(errno, EINVAL) << "destroyed";
	errno = 0;
	EXPECT_EQ(slub_cache_alloc_flags(made, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(objects, are_charged_or_refused)
{
	struct slub_cache *owned = make("owned", 64, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE);
	struct slub_group *group = slub_group_create("single", nullptr);
	struct slub_group_stats usage = {};
	uint32_t owner = group_owner_number(group);

	ASSERT_EQ(slub_group_limit_set(group, SLUB_GROUP_MAX, 64), 0);
	ASSERT_EQ(slub_group_enter(group), 0);
	for (int way = 0; way < 3; way++) {
		auto get = [&] {
			return way == 0 ? slub_cache_alloc(owned) :
			       way == 1 ? slub_cache_alloc_flags(owned, 0) :
					  slub_cache_claim(owned, slub_cache_alloc(owned));
		};
		void *p = get();
		ASSERT_NE(p, nullptr);
		EXPECT_EQ(*object_owner(owned, p), owner);
		EXPECT_EQ(slub_group_stats(group, &usage), 0);
		EXPECT_EQ(usage.usage, 64u);
		if (way < 2) {
			errno = 0;
			EXPECT_EQ(get(), nullptr);
			EXPECT_EQ(errno, ENOMEM);
		}
		slub_cache_free(owned, p);
		account_settle_lists(true);
		EXPECT_EQ(slub_group_stats(group, &usage), 0);
		EXPECT_EQ(usage.usage, 0u);
	}
	ASSERT_EQ(slub_group_leave(group), 0);
	/* Off a list, whose charge is somebody else's. */
	void *p = slub_cache_alloc(owned), *q = slub_cache_alloc(owned);
	EXPECT_EQ(*object_owner(owned, p), 0u);
	ASSERT_EQ(slub_group_enter(group), 0);
	*object_owner(owned, p) = OWNER_FREE;
	*object_owner(owned, q) = OWNER_FREE;
	EXPECT_EQ(slub_cache_claim(owned, p), p);
	EXPECT_EQ(*object_owner(owned, p), owner);
	errno = 0;
	EXPECT_EQ(slub_cache_claim(owned, q), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	ASSERT_EQ(slub_group_leave(group), 0);
	*object_owner(owned, p) |= OWNER_FREE;
	EXPECT_EQ(slub_cache_claim(owned, p), p);
	EXPECT_EQ(*object_owner(owned, p), 0u);
	slub_cache_free(owned, p);
	end(owned);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* A cache in a group, or one that is sampled, is no list's. */
TEST_F(objects, of_a_cache_in_a_group)
{
	struct slub_cache *owned = make("owned", 64, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE);
	struct slub_group *group = slub_group_create("single", nullptr);

	void *p = slub_cache_alloc(owned);
	slub_cache_free(owned, p);
	ASSERT_EQ(slub_cache_group_set(owned, group), 0);
	p = slub_cache_alloc(owned);
	EXPECT_EQ(*object_owner(owned, p), group_owner_number(group));
	slub_cache_free(owned, p);
	ASSERT_EQ(slub_cache_group_set(owned, nullptr), 0);
	end(owned);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* The slow paths let a thread go inline: where its CPU's area is, and how far the map reaches. */
TEST_F(objects, lead_back_to_the_inline_path)
{
	if (!slub_thread.self.rseq)
		GTEST_SKIP() << "nothing is inline";
	for (bool is_free : { false, true }) {
		void *p = slub_cache_alloc(cache);

		ASSERT_TRUE(cache_flush(cache));
		slub_thread.self.map_base = slub_thread.self.map_pages = 0;
		if (is_free)
			slub_cache_free(other, p);
		else
			slub_cache_free(cache, slub_cache_alloc(cache));
		EXPECT_EQ(slub_thread.self.map_base, pagemap_base);
		EXPECT_EQ(slub_thread.self.map_pages, pagemap_limit);
		if (!is_free)
			slub_cache_free(cache, p);
	}
}

/* ---- questions ---- */

TEST_F(objects, may_be_copied_within_their_window)
{
	struct slub_cache_args args = {};
	bool right[65][66];

	args.name = "window";
	args.size = 64;
	args.flags = SLUB_CACHE_NO_MERGE;
	for (auto [from, bytes] : { std::pair(0u, 0u), { 16u, 8u }, { 0u, 64u }, { 63u, 1u } }) {
		args.useroffset = from;
		args.usersize = bytes;
		size_t end_at = bytes ? from + bytes : 64, first = bytes ? from : 0;
		struct slub_cache *window = slub_cache_create_args(&args);
		ASSERT_NE(window, nullptr);
		ASSERT_EQ(guard_open(1), 0);
		for (int way = 0; way < 3; way++) {
			char *p;

			if (way == 1) {
				ASSERT_EQ(slub_cache_debug(window, SLUB_CACHE_RED_ZONE), 0);
			}
			p = (char *)(way < 2 ? slub_cache_alloc(window) :
					       guard_alloc(window, 64, 16));
			for (size_t at = 0; at <= 64 - (way == 2); at++) {
				for (size_t n = 0; n <= 65; n++) {
					right[at][n] = at >= first && at + n <= end_at &&
						       (at < 64 || way == 0);
					if (at < 64) {
						ASSERT_EQ(slub_copy_allowed(p + at, n),
							  right[at][n])
							<< way << ": " << at << ", " << n;
					}
				}
			}
			if (way == 1) {
				EXPECT_FALSE(slub_copy_allowed(p - 1, 1)) << "a zone";
			}
			slub_cache_free(window, p);
		}
		end(window);
	}
	/* Behind the last object of a slab; and what is no cache's. */
	void *p = slub_cache_alloc(cache);
	char *base = (char *)page_address(slab_of(cache, p));
	size_t rest = (PAGE_BYTES << cache->order) % cache->size;
	struct slub_cache *odd = make("odd", 72, SLUB_CACHE_NO_MERGE);
	void *q = slub_cache_alloc(odd);
	char *end_of = (char *)page_address(slab_of(odd, q)) + (size_t)odd->objects * odd->size;
	if ((PAGE_BYTES << odd->order) > (size_t)odd->objects * odd->size) {
		EXPECT_FALSE(slub_copy_allowed(end_of, 1));
	}
	EXPECT_TRUE(slub_copy_allowed(end_of - odd->size, 72));
	EXPECT_EQ(rest, 0u);
	EXPECT_TRUE(slub_copy_allowed(base + (PAGE_BYTES << cache->order) - 64, 64));
	EXPECT_TRUE(slub_copy_allowed(&p, 1 << 20));
	slub_cache_free(odd, q);
	slub_cache_free(cache, p);
	end(odd);
}

TEST_F(objects, know_their_cache)
{
	void *p = slub_cache_alloc(cache);

	EXPECT_EQ(slub_cache_of(p), cache);
	EXPECT_EQ(slub_cache_of(&p), nullptr);
	EXPECT_STREQ(slub_cache_name(cache), "single");
	EXPECT_EQ(slub_cache_size(cache), 64u);
	EXPECT_EQ(slub_cache_stride(cache), 64u);
	slub_cache_free(cache, p);
	struct slub_cache *gone = make("gone", 100, SLUB_CACHE_NO_MERGE);
	EXPECT_EQ(slub_cache_stride(gone), 104u);
	EXPECT_EQ(slub_cache_size(gone), 100u);
	end(gone);
	EXPECT_STREQ(slub_cache_name(gone), "");
	struct slub_cache_stats none;
	EXPECT_EQ(slub_cache_stats(gone, &none), -EINVAL);
	EXPECT_EQ(slub_cache_stats(nullptr, &none), -EINVAL);
}

/* With those of its shadows and twins. */
TEST_F(objects, are_counted_wherever_they_are)
{
	struct slub_cache_stats before = stats(cache);
	std::vector<void *> all;

	EXPECT_EQ(before.objects + before.slabs, 0u);
	for (uint64_t each : before.reserved)
		EXPECT_EQ(each, 0u);
	all.push_back(slub_cache_alloc(cache));
	struct slub_cache_stats now = stats(cache);
	EXPECT_EQ(now.slabs, 1u);
	EXPECT_EQ(now.objects, cache->objects);
	EXPECT_EQ(now.slab_alloc, 1u);
	EXPECT_EQ(now.alloc_refill, 1u);
	ASSERT_EQ(slub_reserve_set(1 << 20), 0);
	all.push_back(cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE));
	EXPECT_EQ(stats(cache).slabs, 2u);
	EXPECT_EQ(stats(cache).objects, cache->objects + cache_of(all[1])->objects);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	all.push_back(slub_cache_alloc(cache));
	EXPECT_EQ(stats(cache).slabs, 3u);
	EXPECT_EQ(stats(cache).objects, cache->objects + cache_of(all[1])->objects +
		  cache_of(all[2])->objects);
	written.clear();
	sanitizer.is_told = true;
	EXPECT_EQ(slub_cache_stats(cache, &now), 0);
	sanitizer.is_told = false;
	EXPECT_EQ(written.size(), 1u);
	EXPECT_EQ(written[0], std::make_pair((const void *)&now, sizeof(now)));
	for (void *p : all)
		slub_cache_free(cache, p);
	EXPECT_EQ(slub_reserve_set(0), 0);
}

/* ---- visits ---- */

int add(void *object, void *arg)
{
	((std::set<void *> *)arg)->insert(object);
	return 0;
}

TEST_F(objects, are_visited_wherever_they_are)
{
	std::set<void *> all, seen;
	size_t nr = 0;

	EXPECT_EQ(slub_cache_for_each_object(nullptr, add, &seen), 0);
	all.insert(slub_cache_alloc(cache));
	ASSERT_EQ(slub_reserve_set(1 << 20), 0);
	all.insert(cache_alloc_from_reserve(cache, SLUB_ALLOC_RESERVE));
	ASSERT_EQ(guard_open(1), 0);
	all.insert(guard_alloc(cache, 64, 16));
	void *foreign = slub_cache_alloc(other);
	EXPECT_EQ(slub_cache_for_each_object(cache, add, &seen), 0);
	EXPECT_EQ(seen, all);
	EXPECT_EQ(slub_cache_for_each_object(cache, object_count, &nr), 0);
	EXPECT_EQ(nr, 3u);
	flushes_refused = 1;
	EXPECT_EQ(slub_cache_for_each_object(cache, object_count, &nr), -EAGAIN);
	EXPECT_EQ(nr, 3u);
	for (int stop = 1; stop <= 3; stop++) {
		std::pair<int, int> counts = { 0, stop };

		EXPECT_EQ(slub_cache_for_each_object(cache, [](void *, void *arg) {
			auto *c = (std::pair<int, int> *)arg;

			return ++c->first == c->second ? 9 : 0;
		}, &counts), 9);
		EXPECT_EQ(counts.first, stop);
	}
	EXPECT_EQ(slub_cache_shrink(nullptr), 0);
	for (void *p : all)
		slub_cache_free(cache, p);
	slub_cache_free(other, foreign);
	EXPECT_EQ(slub_reserve_set(0), 0);
}

/* More objects than have a bit at a time. */
TEST_F(objects, of_a_slab_are_seen_by_windows)
{
	set("SLUB_TEST_MIN_ORDER=7");
	struct slub_cache *tiny = make("tiny", 8, SLUB_CACHE_NO_MERGE);
	set("SLUB_TEST_MIN_ORDER=0");
	static struct slab_iterator iterator;
	const uint32_t window = 128 * 64;
	char *p = (char *)slub_cache_alloc(tiny);
	struct page *slab = slab_of(tiny, p);
	uint32_t nr = 0;

	ASSERT_TRUE(cache_flush(tiny));
	EXPECT_EQ(sizeof(iterator.free) * 8, window);
	EXPECT_GT(tiny->objects, 3 * window);
	ASSERT_TRUE(slab_iterate(&iterator, tiny, slab));
	EXPECT_EQ(iterator.window, 0u);
	EXPECT_EQ(iterator.end, slab_count_read(slab));
	EXPECT_EQ(slab_next(&iterator), p);
	EXPECT_EQ(slab_next(&iterator), nullptr);
	EXPECT_EQ(slab_next(&iterator), nullptr);
	slub_cache_free(tiny, p);
	/* Every third one stays. */
	std::set<void *> kept, seen;
	std::vector<void *> all;
	for (uint32_t i = 0; i < 4 * tiny->objects; i++)
		all.push_back(slub_cache_alloc(tiny));
	for (void *each : all) {
		if (nr++ % 3)
			slub_cache_free(tiny, each);
		else
			kept.insert(each);
	}
	EXPECT_EQ(slub_cache_for_each_object(tiny, add, &seen), 0);
	EXPECT_EQ(seen, kept);
	EXPECT_EQ(slub_cache_shrink(tiny), 1) << "partly used ones stay";
	for (void *each : kept)
		slub_cache_free(tiny, each);
	EXPECT_EQ(slub_cache_shrink(tiny), 0);
	EXPECT_FALSE(cache_has_slabs(tiny));
	end(tiny);
	EXPECT_EQ(slub_cache_shrink(tiny), 0) << "destroyed";
}

/* What shadows and twins keep is partly used as well. */
TEST_F(objects, that_stay_are_told_of_by_a_shrink)
{
	std::vector<void *> all;

	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	for (int i = 0; i < 500; i++)
		all.push_back(slub_cache_alloc(cache));
	EXPECT_EQ(slub_cache_shrink(cache), 1);
	for (size_t i = 0; i < all.size(); i++) {
		if (i % 10)
			slub_cache_free(cache, all[i]);
	}
	EXPECT_EQ(slub_cache_shrink(cache), 1);
	for (size_t i = 0; i < all.size(); i += 10)
		slub_cache_free(cache, all[i]);
	EXPECT_EQ(slub_cache_shrink(cache), 0);
	EXPECT_EQ(stats(cache).slabs, 0u);
}

} /* namespace */
