/* SPDX-License-Identifier: MIT */
/* features/guard/guard.c: pools, which place is next, and where an object lies in it. */
#include "guards.h"

#include <slub/rcu.h>

namespace {

const size_t KiB = 1 << 10, MiB = 1 << 20;

/* Other processes read these. */
TEST_F(guards, what_pools_say_of_themselves)
{
	for (struct guard_pool &pool : guard_pools) {
		EXPECT_EQ(pool.version, 1u);
		EXPECT_EQ(pool.size, POOL_BYTES);
		EXPECT_EQ(pool.place_size, PLACE_BYTES);
		EXPECT_EQ(pool.stack_unit, 8u);
		EXPECT_EQ(pool.bytes, 0u);
	}
	EXPECT_EQ(objects.next_pool, (uintptr_t)&large);
	EXPECT_EQ(large.next_pool, (uintptr_t)&empty);
	EXPECT_EQ(empty.next_pool, 0u);
	EXPECT_FALSE(guard_owns(nullptr));
	EXPECT_FALSE(guard_owns(this));
}

void expect_pool(const struct guard_pool &pool, size_t nr, size_t most)
{
	const size_t page = os_page_size();

	EXPECT_EQ(pool.nr_places, nr);
	EXPECT_EQ(pool.page_bytes, page);
	EXPECT_EQ(pool.place_bytes, most + page);
	EXPECT_EQ(pool.bytes, nr * (most + page) + page);
	EXPECT_EQ(pool.places, pool.base + pool.bytes);
	EXPECT_NE(pool.clock_offset_ns, 0u);
	EXPECT_FALSE(guard_owns((char *)pool.base - 1));
	EXPECT_TRUE(guard_owns((char *)pool.base));
	EXPECT_TRUE(guard_owns((char *)pool.base + pool.bytes - 1));
	EXPECT_FALSE(guard_owns((char *)pool.base + pool.bytes));
}

TEST_F(guards, have_as_many_places_as_were_asked_for)
{
	for (auto [nr, nr_large] : { std::pair(16u, 16u), { 1024u, 16u }, { 1088u, 17u },
				     { 4096u, 64u } }) {
		kernel.is_watched = true;
		open(nr, 7);
		expect_pool(objects, nr, 32 * KiB);
		expect_pool(large, nr_large, MiB);
		EXPECT_EQ(empty.bytes, 0u);
		EXPECT_EQ(objects.every, 7u);
		EXPECT_EQ(large.every, 7u);
		/* What is known of the places, and nothing of these. */
		ASSERT_EQ(kernel.committed.size(), 2u);
		EXPECT_EQ(kernel.committed[0].start, (char *)objects.places);
		EXPECT_EQ(kernel.committed[0].bytes, whole(nr, objects) - objects.bytes);
		EXPECT_EQ(kernel.unreserved.size(), 0u);

		struct guard_pool before = objects;
		EXPECT_EQ(guard_open(9), 0);
		EXPECT_EQ(objects.base, before.base) << "opened once";
		EXPECT_EQ(objects.every, 9u);
		guard_say_every(0);
		EXPECT_EQ(objects.every, 0u);
		EXPECT_EQ(large.every, 0u);
		close();
		kernel = {};
	}
}

TEST_F(guards, take_half_of_what_is_refused)
{
	set("GUARD_PLACES=1024");
	objects.place_bytes = (uint32_t)(32 * KiB + page);
	for (auto [room, nr] : { std::pair(0, 256u), { -1, 128u } }) {
		kernel.reserve_max = whole(256, objects) + room;
		EXPECT_EQ(guard_open(1), 0);
		expect_pool(objects, nr, 32 * KiB);
		EXPECT_EQ(large.bytes, 0u) << "these are larger";
		close();
		objects.place_bytes = (uint32_t)(32 * KiB + page);
	}
	/* Fewer than sixteen are none. */
	kernel.reserve_max = whole(16, objects) - 1;
	EXPECT_EQ(guard_open(3), -ENOMEM);
	EXPECT_EQ(objects.bytes, 0u);
	EXPECT_EQ(objects.every, 0u);
	EXPECT_EQ(objects.clock_offset_ns, 0u);
}

TEST_F(guards, give_back_what_could_not_be_used)
{
	set("GUARD_PLACES=64");
	kernel.is_watched = true;
	kernel.commits_refused = 1;
	EXPECT_EQ(guard_open(1), 0);
	expect_pool(objects, 32, 32 * KiB);
	ASSERT_EQ(kernel.unreserved.size(), 1u);
	ASSERT_EQ(kernel.committed.size(), 3u);
	EXPECT_EQ(kernel.unreserved[0].bytes, whole(64, objects));
	EXPECT_EQ(kernel.unreserved[0].start + 64 * objects.place_bytes + page,
		  kernel.committed[0].start);
	EXPECT_EQ(kernel.committed[1].start, (char *)objects.places);
}

TEST_F(guards, take_a_sixteenth_of_a_limited_address_space)
{
	const size_t place = 32 * KiB + page;

	set("GUARD_PLACES=64");
	for (auto [limit, nr] : { std::pair(64 * place * 16, 64u), { 64 * place * 16 - 1, 32u },
				  { 16 * place * 16, 16u } }) {
		kernel.limit = limit;
		EXPECT_EQ(guard_open(1), 0);
		expect_pool(objects, nr, 32 * KiB);
		EXPECT_EQ(large.bytes, 0u);
		close();
	}
	kernel.limit = 16 * place * 16 - 1;
	EXPECT_EQ(guard_open(1), -ENOMEM);
}

TEST_F(guards, of_empty_blocks_lie_by_themselves)
{
	open(16);
	char *other = get(0);
	EXPECT_EQ(pool_of(other), &objects);
	guard_open_for_empty();
	expect_pool(empty, 1024, page);
	char *p = get(0), *q = get(0, nullptr, 2 * page);
	EXPECT_EQ(p, start(0, empty)) << "at no end, for there is none";
	EXPECT_EQ(q, nullptr) << "there is one page in front";
	EXPECT_EQ(pool_of(p), &empty);
	EXPECT_EQ(pool_of(get(1)), &objects);
	EXPECT_EQ(guard_bytes(p), 0u);
	EXPECT_EQ(guard_nr_objects(nullptr, nullptr), 3u);
	kernel.is_watched = true;
	guard_free(p, nullptr);
	EXPECT_EQ(place(0, empty)->state, (uint32_t)GUARD_FREED);
	EXPECT_EQ(kernel.withdrawn.size(), 0u) << "nothing was there";
	EXPECT_EQ(place(0, empty)->turn, 1u);
	guard_free(other, nullptr);
	EXPECT_EQ(place(0)->turn, 2u);
	EXPECT_EQ(empty.errors + objects.errors, 0u);
}

TEST_F(guards, of_empty_blocks_are_for_threads_that_may)
{
	struct slub_cache *cache = slub_cache_create("empty", 64, 0, 0, nullptr);

	EXPECT_EQ(guard_alloc_empty(cache, 16), nullptr) << "no pool";
	guard_open_for_empty();
	slub_thread.locks_held++;
	EXPECT_EQ(guard_alloc_empty(cache, 16), nullptr);
	slub_thread.locks_held--;
	void *p = guard_alloc_empty(cache, 16);
	ASSERT_EQ(p, start(0, empty));
	EXPECT_EQ(guard_cache_of(p), cache);
	EXPECT_EQ(empty.next, 1u) << "places that were looked at";
	guard_free(p, nullptr);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* ---- letters ---- */

TEST_F(guards, are_made_for_letters_that_watch)
{
	for (auto [letters, is_watching] : {
		std::pair(0ul, false), { SLUB_CACHE_TRACE | SLUB_CACHE_FAILSLAB, false },
		{ SLUB_CACHE_CONSISTENCY_CHECKS, true }, { SLUB_CACHE_RED_ZONE, true },
		{ SLUB_CACHE_POISON, true }, { SLUB_CACHE_STORE_USER, true } }) {
		SCOPED_TRACE(letters);
		guard_watch((uint32_t)letters);
		EXPECT_EQ(guard_watches_large, is_watching);
		EXPECT_EQ(objects.bytes != 0, is_watching);
		if (is_watching) {
			expect_pool(objects, 4096, 32 * KiB);
			expect_pool(large, 256, 16 * MiB + 2 * page);
			EXPECT_EQ(large.every, 0u);
			char *p = get(50000);
			EXPECT_EQ(p[0], letters == SLUB_CACHE_POISON ? 0x6b : 0);
			EXPECT_EQ(p[49999], letters == SLUB_CACHE_POISON ? 0x6b : 0);
			EXPECT_EQ((uint8_t)p[50000], 0xcc);
		}
		guard_watches_large = false;
		close();
	}
}

TEST_F(guards, watch_no_large_blocks_where_these_have_no_place)
{
	kernel.reserve_max = 1024 * MiB;
	guard_watch(SLUB_CACHE_RED_ZONE);
	EXPECT_TRUE(guard_watches_large);
	EXPECT_EQ(large.nr_places, 32u) << "as many as there is room for";
	close();
	kernel.reserve_max = 200 * MiB;
	guard_watch(SLUB_CACHE_RED_ZONE);
	EXPECT_FALSE(guard_watches_large);
	EXPECT_NE(objects.bytes, 0u);
}

TEST_F(guards, have_zones_where_none_is_guarded)
{
	std::vector<size_t> sizes;
	guard_visitor *note = [](struct guard_place *, size_t bytes, void *to) {
		((std::vector<size_t> *)to)->push_back(bytes);
		return 0;
	};

	for (const char *every : { "GUARD=0", "GUARD=5" }) {
		size_t zone = strcmp(every, "GUARD=0") ? 0 : page;

		set(every);
		guard_watch(SLUB_CACHE_RED_ZONE);
		EXPECT_EQ(large.every, zone ? 0u : 5u);
		set("GUARD_SIDE=front");
		char *front = get(100000);
		EXPECT_EQ(front, start(0, large) + zone);
		set("GUARD_SIDE=behind");
		char *behind = get(8 * page + 1, nullptr, 16);
		EXPECT_EQ(behind, end(1, large) - zone - 8 * page - 16);
		EXPECT_EQ(get(100), end(0) - 100) << "of objects there is none";
		sizes.clear();
		EXPECT_EQ(guard_visit(note, &sizes), 0);
		ASSERT_EQ(sizes.size(), 3u);
		EXPECT_EQ(sizes[0], page);
		EXPECT_EQ(sizes[1], (100000 + page - 1) / page * page + 2 * zone);
		EXPECT_EQ(sizes[2], 9 * page + 2 * zone);
		for (size_t i = 1; i <= zone; i++) {
			ASSERT_EQ((uint8_t)front[-(long)i], 0xcc) << i;
			ASSERT_EQ((uint8_t)behind[8 * page + i], 0xcc) << i;
		}
		EXPECT_NE(get(16 * MiB), nullptr);
		EXPECT_EQ(get(16 * MiB + 1), nullptr);
		guard_watches_large = false;
		close();
	}
}

/* ---- which place ---- */

TEST_F(guards, take_one_place_after_the_other)
{
	open(16);
	for (uint32_t i = 0; i < 40; i++) {
		char *p = get(64);

		ASSERT_EQ(place_of(p), place(i % 16)) << i;
		guard_free(p, nullptr);
		EXPECT_EQ(place(i % 16)->turn, i + 1);
	}
	EXPECT_EQ(objects.turns, 40u);
	EXPECT_EQ(objects.next, 40u);
	EXPECT_EQ(objects.lost, 0u);
}

TEST_F(guards, do_not_come_back_within_half_a_round)
{
	open(16);
	for (auto [age, is_old] : { std::pair(8u, true), { 7u, false }, { 9u, true } }) {
		for (uint32_t n = 0; n < 16; n++) {
			place(n)->state = n == 3 || n == 5 || n == 9 ? GUARD_FREED : GUARD_TAKEN;
			place(n)->turn = 100 - (n == 5 ? age : 1);
		}
		objects.turns = 100;
		objects.next = 0;
		EXPECT_EQ(place_of(get(64)), place(is_old ? 5 : 3)) << age;
		EXPECT_EQ(objects.next, is_old ? 6u : 16u);
	}
	/* One that waits for readers is nobody's, nor is one that is allocated. */
	for (uint32_t n = 0; n < 16; n++)
		place(n)->state = n % 2 ? GUARD_WAITING : GUARD_LIVE;
	EXPECT_EQ(get(64), nullptr);
	EXPECT_EQ(objects.lost, 1u);
	place(4)->state = GUARD_NEVER;
	place(4)->turn = objects.turns;
	EXPECT_EQ(place_of(get(64)), place(4)) << "at once";
	EXPECT_EQ(objects.lost, 1u);
}

TEST_F(guards, look_at_so_many_places)
{
	open(1024);
	for (auto [first, is_found] : { std::pair(127u, true), { 128u, false } }) {
		for (uint32_t n = 0; n < 1024; n++)
			place(n)->state = n < first ? GUARD_TAKEN : GUARD_NEVER;
		objects.next = 0;
		char *p = get(64);
		EXPECT_EQ(p != nullptr, is_found);
		EXPECT_EQ(objects.next, 128u);
		EXPECT_EQ(objects.lost, is_found ? 0u : 1u);
	}
	EXPECT_EQ(objects.turns, 2u);
}

/* ---- where in it ---- */

TEST_F(guards, take_what_a_place_has_room_for)
{
	open(16);
	const struct {
		size_t bytes, align;
		struct guard_pool *pool;	/* NULL: none has room */
	} all[] = {
		{ 32 * KiB, 1, &objects }, { 32 * KiB, page, &objects },
		{ 32 * KiB - 2 * page, 2 * page, &objects },
		{ 32 * KiB - 2 * page + 1, 2 * page, nullptr },
		{ 0, 16 * KiB, &objects }, { 16 * KiB, 16 * KiB, &objects },
		{ 16 * KiB + 1, 16 * KiB, nullptr }, { 0, 32 * KiB, nullptr },
		{ 1, 32 * KiB, nullptr }, { 1, (size_t)1 << 52, nullptr },
		{ 32 * KiB + 1, 1, &large }, { MiB, 16, &large }, { MiB + 1, 1, nullptr },
		{ MiB - 2 * page, 2 * page, &large }, { MiB - 2 * page + 1, 2 * page, nullptr },
		{ SIZE_MAX, 1, nullptr },
	};

	for (auto &each : all) {
		uint64_t turns = objects.turns + large.turns;
		char *p = get(each.bytes, nullptr, each.align);

		SCOPED_TRACE(std::to_string(each.bytes) + ", " + std::to_string(each.align));
		EXPECT_EQ(p != nullptr, each.pool != nullptr);
		EXPECT_EQ(objects.turns + large.turns, turns + (p ? 1 : 0));
		EXPECT_EQ(objects.lost + large.lost, 0u) << "what never fits is not lost";
		if (!p)
			continue;
		EXPECT_EQ(pool_of(p), each.pool);
		EXPECT_EQ((uintptr_t)p % each.align, 0u);
		EXPECT_EQ(guard_bytes(p), each.bytes);
		memset(p, 1, each.bytes);
		guard_free(p, nullptr);
	}
	EXPECT_EQ(objects.errors + large.errors, 0u);
	close();
	EXPECT_EQ(get(0), nullptr) << "no pool";
}

TEST_F(guards, lie_at_the_end_that_was_asked_for)
{
	const uint64_t half = (uint64_t)1 << 63;

	open(16);
	for (auto [side, chance, is_behind] : {
		std::tuple("GUARD_SIDE=front", ~half, false), { "GUARD_SIDE=behind", half, true },
		{ "GUARD_SIDE=front", half, false }, { "GUARD_SIDE=behind", ~half, true },
		{ "GUARD_SIDE=any", half, true }, { "GUARD_SIDE=any", half - 1, false } }) {
		set(side);
		kernel.chance = chance;
		for (size_t bytes : { 1, 100, 5000, 32768 }) {
			char *p = get(bytes, nullptr, 16);
			uint32_t n = (uint32_t)(place_of(p) - place(0));

			EXPECT_EQ(p, is_behind ? end(n) - (bytes + 15) / 16 * 16 : start(n));
			guard_free(p, nullptr);
		}
		char *none = get(0);
		EXPECT_EQ(none, start((uint32_t)(place_of(none) - place(0))));
		guard_free(none, nullptr);
	}
	EXPECT_EQ(objects.errors, 0u);
}

/* Its pages, and no other: the rest of these has a pattern. */
TEST_F(guards, open_the_pages_of_their_object)
{
	open(16);
	kernel.is_watched = true;
	set("GUARD_SIDE=behind");
	char *p = get(page + 10, nullptr, 16);
	ASSERT_EQ(p, end(0) - page - 16);
	ASSERT_EQ(kernel.committed.size(), 1u);
	EXPECT_EQ(kernel.committed[0].start, end(0) - 2 * page);
	EXPECT_EQ(kernel.committed[0].bytes, 2 * page);
	for (char *at = end(0) - 2 * page; at < end(0); at++)
		ASSERT_EQ((uint8_t)*at, at < p || at >= p + page + 10 ? 0xcc : 0) << at - p;
	guard_free(p, nullptr);
	ASSERT_EQ(kernel.withdrawn.size(), 1u);
	EXPECT_EQ(kernel.withdrawn[0].start, end(0) - 2 * page);
	EXPECT_EQ(kernel.withdrawn[0].bytes, 2 * page);
	EXPECT_EQ(objects.errors, 0u);
}

TEST_F(guards, go_back_where_the_kernel_refuses)
{
	open(16);
	objects.turns = 41;
	kernel.commits_refused = 1;
	EXPECT_EQ(get(64), nullptr);
	EXPECT_EQ(objects.lost, 1u);
	EXPECT_EQ(place(0)->state, (uint32_t)GUARD_FREED);
	EXPECT_EQ(place(0)->turn, 41u);
	EXPECT_EQ(place_of(get(64)), place(1));
	EXPECT_EQ(objects.lost, 1u);
}

void construct(void *object) { memset(object, 'c', 64); }

TEST_F(guards, know_what_they_are)
{
	/* as long as one may be */
	const std::string name(SLUB_CACHE_NAME_MAX, 'n');
	struct slub_cache *cache = slub_cache_create(name.c_str(), 64, 0, SLUB_CACHE_NO_MERGE,
						     construct);

	ASSERT_NE(cache, nullptr);
	open(16);
	uint64_t before = os_clock_ns();
	place(0)->errors = 7;
	place(0)->freed.caller = 1;
	memset(place(0)->name, 'x', sizeof(place(0)->name));
	char *p = get(64, cache), *q = get(64);
	EXPECT_EQ(std::string(place(0)->name), name);
	EXPECT_EQ(p[0], 'c');
	EXPECT_EQ(p[63], 'c');
	EXPECT_EQ(q[0], 0);
	EXPECT_EQ(place(0)->cache, (uintptr_t)cache);
	EXPECT_EQ(place(0)->errors, 0u);
	EXPECT_EQ(place(0)->freed.caller, 0u);
	EXPECT_NE(place(0)->allocated.caller, 0u);
	EXPECT_GE(place(0)->allocated.when_ns, before);
	EXPECT_EQ(place(0)->allocated.thread, os_thread_id());
	EXPECT_EQ(place(0)->state, (uint32_t)GUARD_LIVE);
	EXPECT_STREQ(place(1)->name, "large block");
	EXPECT_EQ(place(1)->cache, 0u);
	EXPECT_EQ(objects.stacks, stack_store_base());
	guard_free(p, cache);
	EXPECT_NE(place(0)->freed.caller, 0u);
	EXPECT_GE(place(0)->freed.when_ns, before);
	EXPECT_EQ(place(0)->object, (uintptr_t)p);
	guard_free(q, nullptr);
	EXPECT_EQ(objects.errors, 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* ---- questions ---- */

TEST_F(guards, answer_for_what_is_allocated)
{
	struct slub_cache *cache = slub_cache_create("asked", 64, 0, 0, nullptr);
	size_t offset = 77;

	open(16);
	set("GUARD_SIDE=front");
	char *p = get(64, cache), *block = get(64);
	const size_t behind = 64;
	EXPECT_EQ(guard_bytes(p), 64u);
	EXPECT_EQ(guard_bytes(p + 1), 0u);
	EXPECT_EQ(guard_cache_of(p), cache);
	EXPECT_EQ(guard_cache_of(p + 1), nullptr);
	EXPECT_EQ(guard_cache_of(block), nullptr);
	for (size_t at : { 0, 1, 63 }) {
		EXPECT_EQ(guard_cache_inside(p + at, &offset), cache);
		EXPECT_EQ(offset, at);
	}
	EXPECT_EQ(guard_cache_inside(p + behind, &offset), nullptr);
	EXPECT_EQ(guard_cache_inside(p - 1, &offset), nullptr);
	EXPECT_EQ(guard_cache_inside(block, &offset), nullptr);
	EXPECT_EQ(guard_cache_inside(start(2), &offset), nullptr) << "never used";
	/* The last guard page is no place's. */
	char *last = (char *)objects.base + 16 * objects.place_bytes;
	EXPECT_EQ(guard_cache_inside(last, &offset), nullptr);
	EXPECT_EQ(guard_cache_of(last), nullptr);
	EXPECT_EQ(guard_bytes(last), 0u);
	EXPECT_TRUE(guard_free_call(last, CALL_NEW));
	EXPECT_FALSE(guard_was_looked_at(last));
	EXPECT_TRUE(guard_ask(last, "realloc")) << "nothing is known of it";
	EXPECT_TRUE(guard_ask(p, "realloc"));
	EXPECT_EQ(objects.errors, 0u);
	guard_free(p, cache);
	EXPECT_EQ(guard_bytes(p), 0u);
	EXPECT_EQ(guard_cache_of(p), nullptr);
	EXPECT_EQ(guard_cache_inside(p, &offset), nullptr);
	guard_free(block, nullptr);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(guards, remember_the_operator_that_looked)
{
	if (SLUB_CONFIG_HARDENED && option_value(OPTION_check_calls))
		GTEST_SKIP() << "there it stays";
	open(16);
	char *p = get(64);
	bool told = debug_calls_are_told;

	EXPECT_FALSE(guard_was_looked_at(p));
	debug_calls_are_told = true;
	place_of(p)->allocated.call = CALL_NEW;
	EXPECT_TRUE(guard_free_call(p, CALL_NEW));
	EXPECT_TRUE(guard_was_looked_at(p));
	EXPECT_FALSE(guard_was_looked_at(p + 1));
	EXPECT_EQ(objects.errors, 0u);
	guard_free(p, nullptr);
	EXPECT_EQ(objects.errors, 0u) << "it was looked at already";
	p = get(64);
	place_of(p)->allocated.call = CALL_NEW;
	guard_free(p, nullptr);
	EXPECT_EQ(objects.errors, 1u);
	EXPECT_EQ(place_of(p)->errors, 32u);
	debug_calls_are_told = told;
}

/* ---- readers ---- */

struct readers : guards {
	void SetUp() override
	{
		guards::SetUp();
		cache = slub_cache_create("typesafe", 64, 0, SLUB_CACHE_TYPESAFE_BY_RCU, nullptr);
		ASSERT_NE(cache, nullptr);
		open(16);
		kernel.is_watched = true;
	}
	void TearDown() override
	{
		guard_flush();
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		guards::TearDown();
	}
	struct slub_cache *cache;
};

TEST_F(readers, are_waited_for)
{
	size_t offset;
	int reader = slub_read_lock();
	char *p = get(64, cache);

	EXPECT_FALSE(guard_poll());
	guard_free(p, cache);
	EXPECT_EQ(place(0)->state, (uint32_t)GUARD_WAITING);
	for (int i = 0; i < 10; i++)
		EXPECT_FALSE(guard_poll());
	EXPECT_EQ(guard_cache_of(p), cache);
	EXPECT_EQ(guard_cache_inside(p + 5, &offset), cache);
	EXPECT_EQ(offset, 5u);
	EXPECT_EQ(guard_bytes(p), 0u);
	EXPECT_EQ(guard_nr_objects(cache, nullptr), 0u);
	EXPECT_EQ(kernel.withdrawn.size(), 0u);
	slub_read_unlock(reader);
	bool is_released = false;
	for (int i = 0; i < 10 && !is_released; i++)
		is_released = guard_poll();
	EXPECT_TRUE(is_released);
	EXPECT_EQ(place(0)->state, (uint32_t)GUARD_FREED);
	EXPECT_EQ(place(0)->turn, 1u);
	EXPECT_EQ(kernel.withdrawn.size(), 1u);
	EXPECT_FALSE(guard_poll());
	EXPECT_EQ(guard_cache_of(p), nullptr);
}

/* Who holds a lock puts it aside; later frees and allocations see to it. */
TEST_F(readers, are_not_asked_under_a_lock)
{
	for (int way = 0; way < 3; way++) {
		char *p = get(64, cache), *q = get(64, cache);

		slub_thread.locks_held++;
		guard_free(p, cache);
		guard_free(q, cache);
		EXPECT_FALSE(guard_poll());
		slub_thread.locks_held--;
		EXPECT_EQ(place_of(p)->state, (uint32_t)GUARD_WAITING);
		if (way == 0)
			guard_flush();
		for (int i = 0; i < 10 && way; i++) {
			if (way == 1)
				guard_poll();
			else
				guard_free(get(64), nullptr);
		}
		EXPECT_EQ(place_of(p)->state, (uint32_t)GUARD_FREED) << way;
		EXPECT_EQ(place_of(q)->state, (uint32_t)GUARD_FREED) << way;
	}
}

} /* namespace */
