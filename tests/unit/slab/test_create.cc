/* SPDX-License-Identifier: MIT */
/* features/typed/create.c: a cache takes its slots, nodes and structure, and gives them back. */
#include <atomic>
#include <thread>

#include "typed.h"

#include <slub/debug.h>

namespace {

using create = typed;

void nothing_made(void *) {}

TEST_F(create, links_behind_the_object_take_a_second_slot)
{
	struct slub_cache *plain = make("plain", 64), *ctor = make("ctor", 64, 0, [](void *) {}),
			  *paged = make("paged", 8192);
	/* Programs cannot encode links. */
	const bool has_inline = !SLUB_CONFIG_HARDENED;

	EXPECT_EQ(plain->slot, plain->list_slot);
	EXPECT_EQ(plain->inline_slot, KEYS ? plain->list_slot : 0);
	EXPECT_EQ(plain->plain_slot, has_inline && !KEYS ? plain->list_slot : 0);
	EXPECT_EQ(plain->entry, KEYS ? plain->slot : UINT32_MAX);
	EXPECT_EQ(ctor->list_slot, ctor->slot + SLOT_BYTES);
	EXPECT_EQ(ctor->plain_slot, has_inline && !KEYS ? ctor->list_slot : 0);
	EXPECT_EQ(ctor->kept_slot, KEYS ? ctor->list_slot : 0);
	EXPECT_EQ(ctor->inline_slot, 0u) << "it does not begin with a check word";
	EXPECT_EQ(ctor->entry, UINT32_MAX);
	EXPECT_EQ(ctor->link, 64u);
	EXPECT_EQ(paged->list_slot, paged->slot + SLOT_BYTES);
	EXPECT_EQ(paged->inline_slot, 0u);
	EXPECT_EQ(paged->plain_slot, has_inline ? paged->slot : 0)
		<< "nothing inline: the link is in a descriptor";
	EXPECT_EQ(cache_of_slot(ctor->slot), ctor);
	EXPECT_EQ(cache_of_slot(ctor->list_slot), ctor);
	for (auto *cache : { plain, ctor, paged }) {
		uint32_t slot = cache->slot, list = cache->list_slot;

		end(cache);
		EXPECT_EQ(cache_of_slot(slot), nullptr);
		EXPECT_EQ(cache_of_slot(list), nullptr);
		EXPECT_EQ(cache->inline_slot, 0u) << "inline functions find an empty list";
		EXPECT_EQ(cache->plain_slot, 0u);
		EXPECT_EQ(cache->kept_slot, 0u);
		EXPECT_EQ(cache->link, 0u);
	}
}

/* Behind what stays in a free object there is a check word, if it takes no more than that. */
TEST_F(create, what_keeps_its_contents_has_check_words_behind)
{
	const struct {
		size_t size, align, stride;
		bool has_keys;
	} shapes[] = {
		{ 1, 0, 24, true },	 { 24, 0, 40, true },  { 64, 0, 80, true },
		{ 24, 16, 32, false },	 { 32, 16, 48, true }, { 120, 64, 128, false },
		{ 100, 64, 128, true },  { 113, 64, 128, false }, { 4072, 0, 4088, true },
		{ 4080, 0, 4088, false },
	};

	for (const auto &shape : shapes) {
		for (bool has_ctor : { true, false }) {
			struct slub_cache *cache = slub_cache_create(
				"kept", shape.size, shape.align,
				has_ctor ? 0 : SLUB_CACHE_TYPESAFE_BY_RCU,
				has_ctor ? nothing_made : nullptr);

			ASSERT_NE(cache, nullptr);
			size_t word = shape.has_keys && !KEYS && shape.align == 0 ? 8 : 0;
			EXPECT_EQ(cache->size, shape.stride - word) << shape.size;
			EXPECT_EQ(cache->link, (shape.size + 7) / 8 * 8) << shape.size;
			EXPECT_EQ(cache->has_keys, KEYS && shape.has_keys) << shape.size;
			end(cache);
		}
	}
	struct slub_cache_args args = {};

	args.name = "placed";
	args.size = 64;
	args.has_free_pointer_offset = true;
	args.free_pointer_offset = 8;
	struct slub_cache *placed = slub_cache_create_args(&args);
	EXPECT_FALSE(placed->has_keys);
	EXPECT_EQ(placed->size, 64u);
	end(placed);
}

/* What the inline functions ask, of each byte of a slab; the slow path asks with 64 bits. */
TEST_F(create, knows_where_objects_begin)
{
	for (size_t size : { 8, 24, 48, 64, 200, 1000, 2040, 4088, 5000, 98304 }) {
		struct slub_cache *cache = make("starts", size);
		size_t at_all = 0;

		for (uint64_t at = 0; at < cache->start_end; at++) {
			uint32_t low = (uint32_t)at & cache->start.mask;
			bool is_start = low * cache->start.magic < cache->start.magic;

			ASSERT_TRUE(is_start || at % cache->size) << size << ", " << at;
			at_all += is_start;
		}
		EXPECT_EQ(at_all, cache->start.mask ? cache->objects : cache->start_end) << size;
		EXPECT_TRUE(cache->start.mask || cache->size * (cache->slab_mask + 1) > UINT32_MAX);
		end(cache);
	}
}

TEST_F(create, a_link_in_the_first_word_has_room_for_a_check_word)
{
	EXPECT_EQ(make("small", 8)->size, KEYS ? 16u : 8u);
	EXPECT_EQ(make("small-ctor", 8, 0, [](void *) {})->size, KEYS ? 24u : 16u) << "behind it";
}

/* Makes caches until one lives where @where did; they end with the test. */
struct until {
	std::vector<struct slub_cache *> made;

	until(struct slub_cache *where, size_t size)
	{
		while (made.empty() || (made.back() != where && made.size() < 100))
			made.push_back(typed::make(("until-" + std::to_string(made.size())).c_str(),
						   size));
		EXPECT_EQ(made.back(), where);
	}
	~until()
	{
		for (auto *cache : made)
			typed::end(cache);
	}
};

/* A walk that stands on a cache while it ends and another one takes its place goes on. */
TEST_F(create, the_way_to_the_next_cache_is_never_missing)
{
	struct slub_cache *cache = make("walked", 64);
	std::atomic<bool> is_over = false;
	std::atomic<long> looks = 0, missing = 0;
	std::thread walk([&, cache] {
		for (; !is_over; looks++)
			missing += !__atomic_load_n(&cache->next, __ATOMIC_RELAXED);
	});

	ASSERT_TRUE(cache->next) << "malloc's own";
	for (int i = 0; i < 30000 || looks < 30000; i++) {
		end(cache);
		cache = make("walked", 64);
	}
	is_over = true;
	walk.join();
	EXPECT_EQ(missing, 0);
	end(cache);
}

TEST_F(create, the_longest_dead_structure_is_used_first)
{
	struct slub_cache *one = make("one", 64), *two = make("two", 64);
	struct cache_node *node = one->nodes[0];

	end(one);
	end(two);
	until made(one, 128);
	EXPECT_EQ(one->nodes[0], node) << "nodes are used again";
	EXPECT_EQ(slub_cache_destroy(two), -EINVAL) << "its turn comes later";
	struct slub_cache *next = make("next", 128);
	EXPECT_EQ(next, two);
	end(next);
}

TEST_F(create, a_new_life_has_nothing_of_the_old_one)
{
	struct slub_cache_args args = {};

	args.name = "old";
	args.size = 64;
	args.usersize = 8;
	args.useroffset = 8;
	args.flags = SLUB_CACHE_TYPESAFE_BY_RCU;
	args.ctor = [](void *) {};
	struct slub_cache *old = slub_cache_create_args(&args);
	void *object = slub_cache_alloc_flags(old, 0);
	slub_cache_free(old, object);
	end(old);
	until made(old, 64);
	struct slub_cache *cache = old;
	EXPECT_EQ(cache->usersize, 0u);
	EXPECT_EQ(cache->ctor, nullptr);
	EXPECT_EQ(cache->flags, 0u);
	EXPECT_EQ(cache->link, 0u);
	struct slub_cache_stats stats;
	EXPECT_EQ(slub_cache_stats(cache, &stats), 0);
	for (size_t i = 0; i < sizeof(stats) / 8; i++)
		EXPECT_EQ(((uint64_t *)&stats)[i], 0u);
	check_cache(cache, {});
}

TEST_F(create, nothing_per_cpu_is_kept)
{
	end(make("warm", 64));
	size_t bytes = slub_percpu_bytes();
	uint32_t slots = percpu_slots_end();

	for (int i = 0; i < 3000; i++)
		end(make("again", 8 + (size_t)i % 300, i % 3 ? 0 : SLUB_CACHE_TYPESAFE_BY_RCU));
	EXPECT_EQ(slub_percpu_bytes(), bytes);
	EXPECT_LE(percpu_slots_end(), slots + 2 * SLOT_BYTES);
}

TEST_F(create, walks_over_the_list_of_caches_find_it_while_it_lives)
{
	auto listed = [](struct slub_cache *cache) {
		for (struct slub_cache *c = cache_first(); c; c = c->next)
			if (c == cache && cache_is_live(c))
				return true;
		return false;
	};
	struct slub_cache *a = make("a", 64), *b = make("b", 64), *c = make("c", 64);

	EXPECT_TRUE(listed(a) && listed(b) && listed(c));
	end(b);
	EXPECT_TRUE(listed(a) && !listed(b) && listed(c));
	end(c);
	end(a);
	EXPECT_TRUE(!listed(a) && !listed(b) && !listed(c));
}

TEST_F(create, shared_ones_count_their_users)
{
	start::option("MERGE=1");
	struct slub_cache *a = make("share-a", 72), *b = make("share-b", 70);

	EXPECT_EQ(a, b);
	EXPECT_EQ(a->users, 2u);
	struct slub_cache *c = make("share-c", 72, SLUB_CACHE_HWCACHE_ALIGN);
	EXPECT_NE(c, a) << "objects of it lie 72 bytes apart";
	end(c);
	end(a);
	EXPECT_EQ(b->users, 1u);
	EXPECT_TRUE(cache_is_live(b));
	end(b);
	EXPECT_FALSE(cache_is_live(b));
	start::option("MERGE=0");
}

/* What a thread that shrinks has in hand for a moment is free all the same. */
TEST_F(create, nothing_is_left_while_others_shrink)
{
	std::atomic<bool> stop{ false };
	std::vector<std::thread> others;

	if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
		GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	for (int i = 0; i < 2; i++)
		others.emplace_back([&] {
			while (!stop)
				slab_shrink_all();
		});
	for (int i = 0; i < 1000; i++) {
		struct slub_cache *cache = make("shrunk", 64);
		std::vector<void *> objects(500);

		ASSERT_EQ(slub_cache_alloc_bulk(cache, 0, objects.size(), objects.data()),
			  objects.size());
		for (void *object : objects)
			slub_cache_free(cache, object);
		EXPECT_TRUE(cache_flush(cache));
		for (uint32_t n = 0; n < slab_nr_nodes(); n++)
			node_shrink(cache, cache->nodes[n]);
		EXPECT_FALSE(cache_has_slabs(cache));
		end(cache);
	}
	stop = true;
	for (auto &other : others)
		other.join();
}

/* Another thread switches debugging of another cache, and is held up by who shrinks. */
TEST_F(create, what_it_is_watched_for_waits_for_another_switch)
{
	struct slub_cache *other = make("other", 64);

	shrink_begin();
	std::thread switches([&] { slub_cache_debug(other, SLUB_CACHE_CONSISTENCY_CHECKS); });
	while (!cache_twin(other))
		sched_yield();
	std::thread shrinks([] {
		usleep(20000);
		shrink_end();
	});
	struct slub_cache *cache = make("watched", 64, SLUB_CACHE_CONSISTENCY_CHECKS);
	switches.join();
	shrinks.join();
	EXPECT_NE(cache_twin(cache), nullptr);
	end(cache);
	end(other);
}

/* What SLUB_DEBUG says is added to them, as in the kernel; "-" adds none. */
TEST_F(create, letters_that_it_is_made_with_stay)
{
	const uint32_t F = SLUB_CACHE_CONSISTENCY_CHECKS, Z = SLUB_CACHE_RED_ZONE, P =
			SLUB_CACHE_POISON;
	auto letters = [](const char *setting, const char *name, unsigned long own) {
		start::option(std::string("DEBUG=") + setting);
		struct slub_cache *cache = make(name, 64, own), *twin = cache_twin(cache);
		uint32_t flags = twin ? twin->debug->flags & DEBUG_LETTERS : 0;

		end(cache);
		return flags;
	};

	EXPECT_EQ(letters("Z,named;P", "any", F), F | P);
	EXPECT_EQ(letters("Z,named;P", "named", F), F | Z);
	EXPECT_EQ(letters("P;-,named", "named", F), F);
	EXPECT_EQ(letters("P;-,named", "named", 0), 0u);
	EXPECT_EQ(letters("-", "any", F | Z), F | Z);
}

/* A cache has the names of all who share it; its own goes first. */
TEST_F(create, shared_ones_are_watched_by_any_of_their_names)
{
	start::option("MERGE=1");
	struct slub_cache *cache = make("share-a", 72), *same = make("share-b", 72);
	auto letters = [&](const char *setting) {
		EXPECT_EQ(slub_debug(setting), 1) << setting;
		return cache_twin(cache) ? cache_twin(cache)->debug->flags & DEBUG_LETTERS : 0;
	};

	EXPECT_EQ(cache, same);
	EXPECT_EQ(letters("F,share-b"), (uint32_t)SLUB_CACHE_CONSISTENCY_CHECKS);
	EXPECT_EQ(letters("Z,share-b;P,share-a"), (uint32_t)SLUB_CACHE_POISON);
	EXPECT_EQ(letters("-,share-b*"), 0u);
	EXPECT_EQ(slub_debug("F,share-c"), 0);
	end(cache);
	end(same);
	start::option("MERGE=0");
}

} /* namespace */
