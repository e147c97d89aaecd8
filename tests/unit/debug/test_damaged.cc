/* SPDX-License-Identifier: MIT */
/* features/watch/debug_slab.c: what is said of a slab that is damaged, and how it is put right. */
#include "reported.h"

#include <functional>

#include <slub/rcu.h>

namespace {

/* A link of a free object that leads nowhere: the rest is found by the zones. */
TEST_F(Reported, AFreelistThatIsDamaged)
{
	make(ALL);
	char *second = (char *)slub_cache_alloc(cache), *third = (char *)slub_cache_alloc(cache);
	const uint32_t nr_free = twin->objects - 1;

	slub_cache_free(cache, third);
	slub_cache_free(cache, second);
	void **link = link_of(twin, second);
	struct {
		void *to;
		std::string bug;
		const void *about;
	} const rows[] = {
		{ object + 4, "Freechain corrupt", second },
		{ second, text("Freelist cycle at %p", second), second },
	};

	for (auto &row : rows) {
		*link = row.to;
		EXPECT_EQ(slub_cache_validate(cache), 1);
		EXPECT_EQ(about, row.about);
		expect({ row.bug, text("%u free objects found by their zones", nr_free - 1) });
		EXPECT_EQ(slub_cache_validate(cache), 0);
		expect({});
	}
	watched_set_state(slab, object + 4, slab_read(slab).second);
	EXPECT_EQ(slub_cache_validate(cache), 1);
	EXPECT_EQ(about, nullptr);
	expect({ "Freepointer corrupt", text("%u free objects found by their zones", nr_free) });
	EXPECT_EQ(slub_cache_validate(cache), 0);
	forget();
	/* All of them can be had again. */
	std::vector<void *> all;
	for (uint32_t i = 0; i < nr_free; i++) {
		all.push_back(slub_cache_alloc(cache));
		EXPECT_EQ(slab_of(twin, all.back()), slab);
	}
	EXPECT_EQ(node->nr_slabs, 1u);
	for (void *each : all)
		slub_cache_free(cache, each);
	slub_cache_free(cache, object);
	expect({});
}

/* Met by an allocation: the list is cut before it is followed. */
TEST_F(Reported, ADamagedFreelistThatAnAllocationMeets)
{
	for (unsigned long letters : { ALL, ALL & ~(unsigned long)SLUB_CACHE_CONSISTENCY_CHECKS }) {
		make(letters);
		char *second = (char *)slub_cache_alloc(cache);

		slub_cache_free(cache, second);
		*link_of(twin, second) = object + 4;
		EXPECT_EQ(slub_cache_alloc(cache), second);
		EXPECT_EQ(nr_lines, 2u);
		EXPECT_STREQ(lines[0], "Freechain corrupt");
		forget();
		watched_set_state(slab, object + 4, slab_read(slab).second);
		char *third = (char *)slub_cache_alloc(cache);
		EXPECT_NE(third, nullptr);
		EXPECT_TRUE(watched_is_object(twin, slab_of(twin, third), third));
		EXPECT_EQ(nr_lines, 2u);
		EXPECT_STREQ(lines[0], "Freepointer corrupt");
		slub_cache_free(cache, third);
		slub_cache_free(cache, second);
		slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_errors(cache), 4u);
		EXPECT_EQ(slub_cache_validate(cache), 0);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		cache = nullptr;
		forget();
	}
}

TEST_F(Reported, ADescriptorThatIsDamaged)
{
	make(ALL);
	const uint32_t room = twin->objects;
	const uint32_t flags = page_flags_make(TYPE_SLAB, twin->order + 1, page_node(slab));
	auto bits = [&] { return slab_read(slab).second & (STATE_FROZEN | STATE_LISTED); };
	auto put = [&](uint32_t objects, uint32_t inuse) {
		watched_set_state(slab, (void *)slab_read(slab).first,
				  state_make(objects, bits() | inuse));
	};

	page_flags_write(slab, flags);
	EXPECT_EQ(slub_cache_validate(cache), 1);
	expect({ text("Not a valid slab page, flags=0x%x", flags), "Flags of the slab restored" });
	put(room - 1, 1);
	EXPECT_EQ(slub_cache_validate(cache), 1);
	expect({ text("Wrong number of objects. Found %u but should be %u", room - 1, room),
		 "Number of objects adjusted" });
	slab_count_set(slab, room - 1);
	EXPECT_EQ(slub_cache_validate(cache), 1);
	expect({ text("Wrong number of objects made. Found %u but should be %u", room - 1, room),
		 "Number of objects adjusted" });
	put(room, room + 1);
	EXPECT_EQ(slub_cache_validate(cache), 1);
	expect({ text("inuse %u > max %u", room + 1, room), "Object count adjusted" });
	put(room, room);
	EXPECT_EQ(slub_cache_validate(cache), 1);
	expect({ text("Wrong object count. Counter is %u but counted were 1", room),
		 "Object count adjusted" });
	EXPECT_EQ(slub_cache_validate(cache), 0);
	expect({});
	/* An allocation looks, too. */
	put(room - 1, 1);
	void *second = slub_cache_alloc(cache);
	expect({ text("Wrong number of objects. Found %u but should be %u", room - 1, room),
		 "Number of objects adjusted" });
	slub_cache_free(cache, second);
	slub_cache_free(cache, object);
}

/* Whatever stands there for the node: one of those that there are. */
TEST_F(Reported, ANodeThatIsNone)
{
	make(ALL);
	const uint32_t flags = page_flags_read(slab);

	EXPECT_EQ(watched_node(twin, slab), twin->nodes[page_node(slab)]);
	for (uint32_t n = slab_nr_nodes(); n < OS_NODES_MAX; n++) {
		page_flags_write(slab, page_flags_make(TYPE_SLAB, twin->order, n));
		EXPECT_EQ(watched_node(twin, slab), twin->nodes[0]);
	}
	page_flags_write(slab, flags);
	slub_cache_free(cache, object);
}

TEST_F(Reported, TheRestOfASlabIsFilled)
{
	make(ALL);
	char *padding = (char *)page_address(slab) + (size_t)twin->objects * twin->size;
	char *end = (char *)page_address(slab) + (PAGE_BYTES << twin->order);

	ASSERT_LT(padding, end);
	for (char *at = padding; at < end; at++)
		ASSERT_EQ(*at, DEBUG_PADDING);
	EXPECT_EQ(slub_cache_validate(cache), 0);
	slub_cache_free(cache, object);
}

TEST_F(Reported, WhatKeepsACacheIsNamed)
{
	make(ALL);
	char *more[] = { (char *)slub_cache_alloc(cache), (char *)slub_cache_alloc(cache) };

	slub_cache_free(cache, more[0]);
	forget();
	EXPECT_EQ(slub_cache_destroy(cache), -EBUSY);
	expect({ "Objects remaining on slub_cache_destroy()", "Cache kept, with its objects" });
	slub_cache_destroy(cache);
	EXPECT_EQ(about, std::min(object, more[1]));
	EXPECT_EQ(nr_also, 1u);
	EXPECT_EQ(also[0], std::max(object, more[1]));
	errors += 2;
	forget();
	slub_cache_free(cache, more[1]);
	slub_cache_free(cache, object);
	expect({});
}

/* The stack that is read begins in the library, and not with who called the caller. */
TEST_F(Reported, FramesAreTheCallers)
{
	int outside;

	make(ALL);
	const std::function<void()> calls[] = {
		[&] { debug_ask_size(twin, object); },
		[&] { debug_free_wrong(cache, twin, object); },
		[&] { debug_free_outside(cache, &outside); },
		[&] { debug_free_size(twin, object, 1, 2); },
		[&] { debug_free_foreign("free", &outside); },
		[&] { debug_free_call(object, CALL_MALLOC); },
		[&] { slub_cache_free(cache, debug_alloc(twin, 64)); },
		[&] { slub_cache_validate(cache); },
		[&] { slub_validate_all(); },
	};
	for (auto &call : calls) {
		last_frame = nullptr;
		call();
		EXPECT_NE(last_frame, nullptr) << &call - calls;
		EXPECT_LT(last_frame, __builtin_frame_address(0)) << &call - calls;
	}
	slub_cache_free(cache, object);
	forget();
}

/* The memory of slabs that go is free, whoever may still look at it. */
TEST_F(Reported, ASlabThatGoesIsGivenBack)
{
	for (unsigned long more : { 0ul, (unsigned long)SLUB_CACHE_TYPESAFE_BY_RCU }) {
		std::vector<char *> objects;

		make(ALL | more);
		objects.push_back(object);
		while (objects.size() < 40 * twin->objects)
			objects.push_back((char *)slub_cache_alloc(cache));
		slab_shrink_all();
		page_purge_all();
		const size_t used = page_used_bytes();
		struct page *last = slab_of(twin, objects.back());
		nr_reclaims = 0;
		for (char *each : objects)
			slub_cache_free(cache, each);
		slub_deferred_barrier();
		slub_cache_shrink(cache);
		EXPECT_NE(page_type(last), TYPE_SLAB) << more;
		EXPECT_GE(nr_reclaims, 40 - twin->min_partial) << "one look for each that went";
		EXPECT_LT(nr_reclaims, 3 * 40u);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
		slab_shrink_all();
		page_purge_all();
		EXPECT_LE(page_used_bytes(), used - 39 * (PAGE_BYTES << twin->order)) << more;
		cache = nullptr;
		forget();
	}
}

/* Without zones nothing tells what was free: the rest stays in use. */
TEST_F(Reported, AFreelistWithoutZonesIsCut)
{
	make(SLUB_CACHE_CONSISTENCY_CHECKS);
	char *second = (char *)slub_cache_alloc(cache);

	slub_cache_free(cache, second);
	*link_of(twin, second) = object + 4;
	EXPECT_EQ(slub_cache_validate(cache), 2);
	EXPECT_EQ(slab_bytes, PAGE_BYTES << twin->order);
	EXPECT_EQ(slab_start, page_address(slab));
	expect({ "Freechain corrupt", text("Wrong object count. Counter is 1 but counted were %u",
					   twin->objects - 1), "Object count adjusted" });
	/* What was lost is found as its owners free it. */
	EXPECT_EQ(slub_cache_validate(cache), 0);
	for (uint32_t i = 0; i < twin->objects; i++) {
		char *each = watched_object(twin, slab, i);

		if (each != second)
			slub_cache_free(cache, each);
	}
	expect({});
}

} /* namespace */
