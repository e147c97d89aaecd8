/* SPDX-License-Identifier: MIT */
/*
 * features/watch/debug.c: each bug of a program, what is said of it, word for word, what is
 * counted, and what is left in its place.
 */
#include "reported.h"

namespace {

TEST_F(Reported, ASecondFree)
{
	make(ALL);
	slub_cache_free(cache, object);
	expect({});
	EXPECT_EQ(stats().double_free, 0u);
	slub_cache_free(cache, object);
	EXPECT_EQ(about, object);
	expect({ "Object already free", text("Object at %p not freed", object) });
	EXPECT_EQ(stats().double_free, 1u);
	EXPECT_EQ(stats().objects_back, 1u) << "it did not come back twice";
	EXPECT_EQ(stats().free_direct, 1u);
}

TEST_F(Reported, WhatIsNoObject)
{
	make(ALL);
	for (ptrdiff_t offset : { (ptrdiff_t)8, (ptrdiff_t)-8, (ptrdiff_t)1 }) {
		debug_free(twin, object + offset, nullptr);
		EXPECT_EQ(about, nullptr);
		EXPECT_EQ(slab_start, page_address(slab));
		slab_start = nullptr;
		expect({ text("Invalid object pointer %p", object + offset),
			 text("Object at %p not freed", object + offset) });
	}
	/* Behind the last one, where a slab has room for a part of one more. */
	char *last = watched_object(twin, slab, twin->objects - 1);
	EXPECT_TRUE(watched_is_object(twin, slab, last));
	EXPECT_FALSE(watched_is_object(twin, slab, last + twin->size));
	EXPECT_TRUE(watched_is_object(twin, slab, watched_object(twin, slab, 0)));
	EXPECT_FALSE(watched_is_object(twin, slab, watched_object(twin, slab, 0) - twin->size));
	EXPECT_EQ(stats().objects_back, 0u);
	slub_cache_free(cache, object);
	expect({});
}

TEST_F(Reported, QuestionsOfASize)
{
	make(ALL);
	EXPECT_EQ(debug_ask_size(twin, object), 64u);
	expect({});
	EXPECT_EQ(debug_ask_size(twin, object + 1), 0u);
	EXPECT_EQ(about, nullptr);
	expect({ text("Invalid object pointer %p", object + 1),
		 text("%p left alone", object + 1) });
	slub_cache_free(cache, object);
	EXPECT_EQ(debug_ask_size(twin, object), 64u);
	EXPECT_EQ(about, object);
	expect({ "Object is free", text("%p left alone", object) });
	slub_thread.locks_held++;
	EXPECT_EQ(debug_ask_size(twin, object), 64u) << "a handler does not look";
	slub_thread.locks_held--;
	expect({});
}

TEST_F(Reported, FreesThatAreOthers)
{
	struct slub_cache *other = slub_cache_create("other", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	static struct slub_cache dead;
	int outside;

	make(ALL);
	debug_free_wrong(other, twin, object);
	expect({ text("Wrong slab cache. other but object %p is from reported", object),
		 text("Object at %p freed to reported", object) });
	debug_free_wrong(&dead, twin, object);
	expect({ text("Wrong slab cache. ? but object %p is from reported", object),
		 text("Object at %p freed to reported", object) });
	debug_free_wrong(cache, other, object);
	expect({ text("Wrong slab cache. reported but object %p is from other", object),
		 text("Object at %p freed to other", object) });
	EXPECT_TRUE(debug_free_outside(cache, &outside));
	expect({ text("Attempt to free object(%p) outside of slab", (void *)&outside),
		 text("Object at %p not freed", (void *)&outside) });
	EXPECT_FALSE(debug_free_outside(other, &outside)) << "it is not watched";
	EXPECT_FALSE(debug_free_outside(&dead, &outside));
	debug_free_wrong(other, other, object);
	debug_free_wrong(&dead, other, object);
	slub_thread.locks_held++;
	EXPECT_FALSE(debug_free_outside(cache, &outside));
	debug_free_wrong(other, twin, object);
	debug_free_size(twin, object, 1, 2);
	EXPECT_TRUE(debug_free_foreign("free", &outside)) << "silently";
	slub_thread.locks_held--;
	expect({});
	debug_free_size(cache, object, 7, 64);
	expect({ text("Wrong size. Object %p of 64 bytes is freed as one of 7", object),
		 text("Object at %p freed as what it is", object) });
	EXPECT_TRUE(debug_free_foreign("free", &outside));
	EXPECT_EQ(std::string(lines[0]), text("Invalid pointer %p: free of what is not from this "
					      "library", (void *)&outside));
	EXPECT_EQ(std::string(lines[1]), text("%p left alone", (void *)&outside));
	EXPECT_EQ(nr_finished, 1u);
	EXPECT_EQ(nr_stacks, 1u);
	forget();
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

TEST_F(Reported, DeletesOfAnotherKind)
{
	make(ALL);
	debug_calls_are_told = true;
	track_of(twin->debug, object, TRACK_ALLOC)->call = CALL_NEW;
	debug_free_call(object, CALL_NEW);
	expect({});
	track_of(twin->debug, object, TRACK_ALLOC)->call = CALL_NEW;
	debug_free_call(object, CALL_NEW_MANY);
	EXPECT_EQ(about, object);
	expect({ text("Wrong kind. %p of new, not of new[]", object),
		 text("Object at %p freed as what it is", object) });
	EXPECT_TRUE(track_of(twin->debug, object, TRACK_ALLOC)->call & CALL_TOLD);
	/* What is no object, a handler, and what nobody watches. */
	debug_free_call(object + 8, CALL_NEW_MANY);
	slub_thread.locks_held++;
	debug_free_call(object, CALL_NEW);
	slub_thread.locks_held--;
	expect({});
	debug_note_free(twin, object + 8);
	EXPECT_FALSE(track_of(twin->debug, object, TRACK_ALLOC)->is_freed);
	debug_note_free(twin, object);
	EXPECT_TRUE(track_of(twin->debug, object, TRACK_ALLOC)->is_freed);
	slub_cache_free(cache, object);
	expect({});
	/* Freed by free(), which no delete has looked at. */
	object = (char *)slub_cache_alloc(cache);
	track_of(twin->debug, object, TRACK_ALLOC)->call = CALL_NEW_MANY;
	slub_cache_free(cache, object);
	expect({ text("Wrong kind. %p of new[], not of malloc", object),
		 text("Object at %p freed as what it is", object) });
	debug_calls_are_told = false;
}

TEST_F(Reported, StacksAreReadWhereSomebodyWantsThem)
{
	make(SLUB_CACHE_RED_ZONE);
	slub_cache_free(cache, slub_cache_alloc(cache));
	EXPECT_EQ(nr_stacks, 0u);
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	make(SLUB_CACHE_STORE_USER);
	slub_cache_free(cache, slub_cache_alloc(cache));
	EXPECT_EQ(nr_stacks, 2u);
	slub_cache_free(cache, object);
}

TEST_F(Reported, ATraceIsALineForEachCall)
{
	for (unsigned long more : { 0ul, (unsigned long)SLUB_CACHE_CONSISTENCY_CHECKS }) {
		make(SLUB_CACHE_TRACE | more);
		void *second = slub_cache_alloc(cache);
		EXPECT_EQ(nr_traces, 1u);
		EXPECT_EQ(traced, text("reported alloc %p 1", second));
		slub_cache_free(cache, second);
		EXPECT_EQ(nr_traces, 2u);
		EXPECT_EQ(traced, text("reported free %p 2", second));
		slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		cache = nullptr;
	}
}

/* What a handler freed while it might take no lock is freed by the next allocation. */
TEST_F(Reported, WhatWasPutOffIsFreed)
{
	struct slub_cache *other = slub_cache_create("put-off", 64, 0, SLUB_CACHE_NO_MERGE |
						     SLUB_CACHE_RED_ZONE, nullptr);
	void *waits = slub_cache_alloc(other);

	make(ALL);
	slub_thread.locks_held++;
	slub_cache_free(other, waits);
	slub_thread.locks_held--;
	ASSERT_FALSE(stack_is_empty(&cache_postponed));
	void *next = debug_alloc(twin, 64);
	EXPECT_TRUE(stack_is_empty(&cache_postponed));
	slub_cache_free(cache, next);
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

/* With letter U alone the tracks are written, and only those of objects. */
TEST_F(Reported, TracksAreOfObjectsAlone)
{
	make(SLUB_CACHE_RED_ZONE);
	debug_free_call(object, CALL_NEW);
	debug_note_free(twin, object);
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	make(SLUB_CACHE_STORE_USER);
	slub_cache_free(cache, slub_cache_alloc(cache));
	struct track *track = track_of(twin->debug, object, TRACK_ALLOC);
	EXPECT_EQ(track->thread, os_thread_id());
	EXPECT_EQ(track->is_freed, 0u);
	track->call = CALL_NEW;
	debug_calls_are_told = true;
	std::string before((char *)page_address(slab), PAGE_BYTES << twin->order);
	debug_note_free(twin, object + 8);
	debug_free_call(object + 8, CALL_NEW_MANY);
	slub_thread.locks_held++;
	debug_free_call(object, CALL_NEW_MANY);
	slub_thread.locks_held--;
	debug_calls_are_told = false;
	EXPECT_EQ(before, std::string((char *)page_address(slab), before.size()));
	expect({});
	memset(track_of(twin->debug, object, TRACK_FREE), 0x77, sizeof(*track));
	slub_cache_free(cache, object);
	EXPECT_EQ(track_of(twin->debug, object, TRACK_FREE)->thread, os_thread_id());
}

TEST_F(Reported, AnOwnerIsTakenOnce)
{
	struct slub_group *group = slub_group_create("reported", nullptr);
	struct slub_group_stats charged = {};

	ASSERT_EQ(slub_group_enter(group), 0);
	make(ALL | SLUB_CACHE_ACCOUNT);
	ASSERT_EQ(slub_group_leave(group), 0);
	EXPECT_NE(*object_owner(twin, object), OWNER_FREE);
	slub_cache_free(cache, object);
	EXPECT_EQ(*object_owner(twin, object), OWNER_FREE);
	EXPECT_EQ(slub_group_stats(group, &charged), 0);
	EXPECT_EQ(charged.usage, 0u);
	for (uint32_t i = 0; i < twin->objects; i++)
		EXPECT_EQ(*object_owner(twin, watched_object(twin, slab, i)), OWNER_FREE);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* The last chance to see what was written to it; then no page of it is anybody's. */
TEST_F(Reported, ASlabThatGoesIsLookedThrough)
{
	std::vector<char *> objects;

	cache = slub_cache_create("wide", 3000, 0, SLUB_CACHE_NO_MERGE | ALL, nullptr);
	do
		objects.push_back((char *)slub_cache_alloc(cache));
	while (objects.size() < (cache_of(objects[0])->min_partial + 2) *
				cache_of(objects[0])->objects);
	twin = cache_of(objects[0]);
	char *last = objects.back(), *beside = objects[objects.size() - 2];
	char *start = (char *)page_address(slab_of(twin, last));
	ASSERT_GT(twin->order, 0u);
	ASSERT_EQ(start, page_address(slab_of(twin, beside)));
	for (char *each : objects)
		if (each != last)
			slub_cache_free(cache, each);
	EXPECT_EQ(slub_cache_errors(cache), 0u);
	beside[1500] ^= 1;
	slub_cache_free(cache, last);
	EXPECT_EQ(slub_cache_errors(cache), 2u);
	for (size_t page = 0; page < (size_t)1 << twin->order; page++)
		EXPECT_EQ(pagemap_get(start + page * PAGE_BYTES), (uint32_t)MAP_NONE) << page;
	forget();
}

TEST_F(Reported, EveryThirdAllocationFails)
{
	static char third[] = "SLUB_DEBUG_FAIL=3", never[] = "SLUB_DEBUG_FAIL=0";
	char *environment[] = { third, nullptr };
	std::string pattern;

	make(SLUB_CACHE_FAILSLAB);
	slub_cache_free(cache, object);
	option_read(environment);
	for (int i = 0; i < 12; i++) {
		void *one = slub_cache_alloc(cache);

		pattern += one ? '+' : '-';
		slub_cache_free(cache, one);
	}
	EXPECT_NE(std::string("++-++-++-++-++-").find(pattern), std::string::npos) << pattern;
	environment[0] = never;
	option_read(environment);
	for (int i = 0; i < 12; i++) {
		void *one = slub_cache_alloc(cache);

		EXPECT_NE(one, nullptr);
		slub_cache_free(cache, one);
	}
	slub_thread.locks_held++;
	EXPECT_EQ(debug_alloc(cache_twin(cache), 64), nullptr) << "in a handler";
	slub_thread.locks_held--;
}

/* Slabs come one at a time, and go when the partial list has enough of them. */
TEST_F(Reported, EachSlabAndObjectIsCounted)
{
	std::vector<char *> objects;

	make(ALL);
	objects.push_back(object);
	const uint32_t room = twin->objects, nr = 20;
	while (objects.size() < nr * room) {
		objects.push_back((char *)slub_cache_alloc(cache));
		uint64_t slabs = (objects.size() + room - 1) / room;

		ASSERT_EQ(node->nr_slabs, slabs);
		ASSERT_EQ(node->nr_carved, slabs * room);
		ASSERT_EQ(node->nr_partial, objects.size() % room ? 1u : 0u);
		ASSERT_EQ(!(slab_read(slab_of(twin, objects.back())).second & STATE_LISTED),
			  objects.size() % room == 0);
		ASSERT_EQ(state_inuse(slab_read(slab_of(twin, objects.back()))),
			  (objects.size() - 1) % room + 1);
	}
	EXPECT_EQ(stats().slab_alloc, nr);
	EXPECT_EQ(stats().objects_out, nr * room);
	EXPECT_EQ(stats().alloc_direct, nr * room);
	for (size_t i = 0; i < objects.size(); i++) {
		slub_cache_free(cache, objects[i]);
		uint64_t empty = (i + 1) / room, begun = (i + room) / room;
		uint64_t kept = twin->min_partial + ((i + 1) % room ? 1u : 0u);

		ASSERT_EQ(stats().free_add_partial, begun) << i;
		ASSERT_EQ(node->nr_partial, std::min(begun, kept)) << i;
		ASSERT_EQ(stats().slab_free, empty > twin->min_partial ?
				  empty - twin->min_partial : 0) << i;
	}
	EXPECT_EQ(stats().free_remove_partial, nr - twin->min_partial);
	EXPECT_EQ(node->nr_slabs, twin->min_partial);
	EXPECT_EQ(node->nr_carved, twin->min_partial * room);
	EXPECT_EQ(stats().objects_back, nr * room);
	EXPECT_EQ(stats().free_direct, nr * room);
	EXPECT_EQ(nr_lines, 0u);
}

/* The last that was freed comes next, but of malloc's the first. */
TEST_F(Reported, WhatIsFreedLastComesFirst)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	void *objects[4];

	make(ALL);
	for (void *&each : objects)
		each = slub_cache_alloc(cache);
	for (void *each : objects)
		slub_cache_free(cache, each);
	for (int i = 3; i >= 0; i--)
		EXPECT_EQ(slub_cache_alloc(cache), objects[i]);
	for (void *each : objects)
		slub_cache_free(cache, each);
	slub_cache_free(cache, object);

	struct slub_cache *mallocs = sizeclass_get(208, 16);
	ASSERT_EQ(cache_debug_switch(mallocs, ALL, SWITCH_WAITS), 0);
	std::vector<void *> blocks;
	struct slub_cache *its = nullptr;
	for (uint32_t i = 0; !i || i < 2 * its->objects - 1; i++) {
		blocks.push_back(malloc(200));
		its = cache_of(blocks.back());
	}
	void *rests[] = { blocks[1], blocks[3], blocks[5] };
	for (void *each : rests)
		free(each);
	/* The one that was never used is behind the others of another slab: they take turns. */
	std::vector<void *> next;
	for (int i = 0; i < 4; i++)
		next.push_back(malloc(200));
	EXPECT_NE(next[0], rests[2]);
	auto place = [&](void *block) { return std::find(next.begin(), next.end(), block); };
	EXPECT_LT(place(rests[0]), place(rests[1]));
	EXPECT_LT(place(rests[1]), place(rests[2]));
	EXPECT_NE(place(rests[2]), next.end());
	for (void *each : next)
		free(each);
	for (void *each : blocks)
		if (each != rests[0] && each != rests[1] && each != rests[2])
			free(each);
	EXPECT_EQ(cache_debug_switch(mallocs, 0, SWITCH_WAITS), 0);
	EXPECT_EQ(nr_lines, 0u);
}

} /* namespace */
