/* SPDX-License-Identifier: MIT */
/*
 * features/watch: what is wrong with the descriptor of a watched slab is reported and put right,
 * and what the mailbox answers.
 */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/watch/watch.h"
}

#include <slub/debug.h>

#include "mailbox.h"

extern "C" struct debug_mailbox slub_debug_mailbox;
extern "C" void debug_mailbox_answer(void);

namespace {

class Watched : public testing::Test {
protected:
	void SetUp() override
	{
		static char ignore[] = "SLUB_ON_ERROR=ignore";
		static char attach[] = "SLUB_ATTACH=1";
		char *environment[] = { ignore, attach, nullptr };

		option_read(environment);
		cache = slub_cache_create("watched", 64, 0, SLUB_CACHE_NO_MERGE |
					  SLUB_CACHE_RED_ZONE | SLUB_CACHE_CONSISTENCY_CHECKS,
					  nullptr);
		ASSERT_NE(cache, nullptr);
		object = (char *)slub_cache_alloc(cache);
		twin = cache_of(object);
		ASSERT_NE(twin, cache);
		slab = slab_of(twin, object);
		ASSERT_EQ(slub_cache_validate(cache), 0);
	}
	void TearDown() override
	{
		slub_cache_free(cache, object);
		EXPECT_EQ(slub_cache_errors(cache), nr_errors);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
	/* As the kernel counts: a line for each bug, and one for what was done about it. */
	void expect_put_right()
	{
		struct double_word is = slab_read(slab);

		EXPECT_EQ(slub_cache_validate(cache), 1);
		nr_errors += 2;
		EXPECT_EQ(slub_cache_errors(cache), nr_errors);
		EXPECT_EQ(page_type(slab), TYPE_SLAB);
		EXPECT_EQ(page_order(slab), twin->order);
		EXPECT_EQ(slab->count, twin->objects);
		is = slab_read(slab);
		EXPECT_EQ(state_objects(is), twin->objects);
		EXPECT_EQ(state_inuse(is), 1u);
		EXPECT_EQ(slub_cache_validate(cache), 0) << "it was put right";
	}
	uintptr_t bits() { return slab_read(slab).second & (STATE_FROZEN | STATE_LISTED); }
	void put(uint32_t nr_objects, uintptr_t counters)
	{
		watched_set_state(slab, (void *)slab_read(slab).first,
				  state_make(nr_objects, bits() | counters));
	}
	/* The mailbox's result for @request, which takes some pieces. */
	long asked(const struct debug_request &request)
	{
		harness::post(&slub_debug_mailbox, request);
		for (int i = 0; i < 10000 && !harness::is_answered(&slub_debug_mailbox, request.id);
		     i++)
			debug_mailbox_answer();
		EXPECT_TRUE(harness::is_answered(&slub_debug_mailbox, request.id));
		return slub_debug_mailbox.result;
	}

	struct slub_cache *cache, *twin;
	char *object;
	struct page *slab;
	unsigned long nr_errors = 0;
};

/* The link of a free object lies in the middle of it: who searches memory would follow it. */
TEST_F(Watched, WhatIsAllocatedLeadsToNoOtherObject)
{
	char *other = (char *)slub_cache_alloc(cache);
	auto start = (uintptr_t)page_address(slab);

	for (const char *one : { object, other }) {
		uintptr_t words[64 / sizeof(uintptr_t)];

		memcpy(words, one, sizeof(words));
		for (uintptr_t word : words)
			EXPECT_GE(word - start, PAGE_BYTES << twin->order);
	}
	slub_cache_free(cache, other);
}

TEST_F(Watched, TheFlagsOfASlab)
{
	page_flags_write(slab, page_flags_make(TYPE_SLAB, twin->order + 1, page_node(slab)));
	expect_put_right();
}

TEST_F(Watched, HowManyObjectsASlabHas)
{
	put(twin->objects - 1, slab_read(slab).second & STATE_COUNT_MASK);
	expect_put_right();
}

TEST_F(Watched, HowManyObjectsWereMade)
{
	slab_count_set(slab, twin->objects - 1);
	expect_put_right();
}

TEST_F(Watched, HowManyObjectsAreInUse)
{
	for (uint32_t nr : { 0u, 2u, twin->objects + 1 }) {
		put(twin->objects, nr);
		expect_put_right();
	}
}

/* In pieces of some slabs, as the mailbox does it. */
TEST_F(Watched, SomeSlabsAtATimeHaveTheSameBugs)
{
	std::vector<char *> more;
	char *at = nullptr;
	long bugs = 0;

	for (int i = 0; i < 50; i++) {
		more.push_back((char *)slub_cache_alloc(cache));
		more.back()[64]++;
	}
	while (debug_validate_some(&at, &bugs, "watched"))
		continue;
	EXPECT_EQ(bugs, 50);
	nr_errors += 2 * 50;
	EXPECT_EQ(slub_cache_errors(cache), nr_errors);
	at = nullptr;
	while (debug_validate_some(&at, &bugs, "watched"))
		continue;
	EXPECT_EQ(bugs, 50) << "no more than before";
	for (char *each : more)
		slub_cache_free(cache, each);
}

/* Whatever was answered before: an id is a random number, the same one comes anew. */
TEST_F(Watched, EachRequestBeginsAnew)
{
	for (uint64_t id : { 5, 1, 1, 5 }) {
		object[64]++;
		EXPECT_EQ(asked(harness::request(id, MAILBOX_VALIDATE, "watched")), 1) << id;
		nr_errors += 2;
		EXPECT_EQ(asked(harness::request(id, MAILBOX_VALIDATE, "nobody")), -EINVAL) << id;
	}
}

TEST_F(Watched, OptionsAreSetByTheMailbox)
{
	size_t before = option_value(OPTION_retain);

	EXPECT_EQ(asked(harness::request(3, MAILBOX_SET, "retain=3M")), 0);
	EXPECT_EQ(option_value(OPTION_retain), (size_t)3 << 20);
	EXPECT_EQ(asked(harness::request(4, MAILBOX_SET, "retain=much")), -EINVAL);
	EXPECT_EQ(asked(harness::request(5, MAILBOX_SET, "nothing=1")), -ENOENT);
	EXPECT_EQ(option_value(OPTION_retain), (size_t)3 << 20);
	std::string again = "retain=" + std::to_string(before);
	EXPECT_EQ(asked(harness::request(6, MAILBOX_SET, again.c_str())), 0);
}

TEST_F(Watched, NobodyIsAnsweredWhereThatIsOff)
{
	static char off[] = "SLUB_ATTACH=0", on[] = "SLUB_ATTACH=1";

	for (char *setting : { off, on }) {
		char *environment[] = { setting, nullptr };

		option_read(environment);
		debug_mailbox_configure();
		EXPECT_EQ(slub_debug_mailbox.is_off, setting == off);
		slub_debug_mailbox.answered = 0;
		harness::post(&slub_debug_mailbox, harness::request(7, MAILBOX_VALIDATE, ""));
		for (int i = 0; i < 100; i++)
			debug_mailbox_answer();
		EXPECT_EQ(harness::is_answered(&slub_debug_mailbox, 7), setting == on);
	}
}

} /* namespace */
