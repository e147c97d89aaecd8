/* SPDX-License-Identifier: MIT */
/* features/misuse/sized.c: which sizes a free may be told, and what is said of the others. */
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/misuse/misuse.h"
#include "features/guard/guard.h"
#include "features/watch/watch.h"
#include <slub/debug.h>
}

namespace {

/* From here on: certain misuse is counted, and the program goes on. */
void misuse_is_ignored()
{
	static char ignore[] = "SLUB_ON_ERROR=ignore";
	char *environment[] = { ignore, nullptr };

	option_read(environment);
}

uint64_t wrong_sizes(struct slub_cache *cache)
{
	struct slub_cache_stats stats = {};

	slub_cache_stats(cache, &stats);
	return stats.wrong_size;
}

struct row {
	size_t asked;		/* of malloc() */
	size_t told, align;
	bool is_wrong, is_certain;
	bool is_inside;		/* told of a pointer 16 bytes into the block */
};

/* Bounds: exactly, one below, one above. */
const struct row rows[] = {
	/* A class of 112 bytes: nothing is too small for it. */
	{ 100, 112, 0, false, false, false },
	{ 100, 0, 0, false, false, false },
	{ 100, 113, 0, true, false, false },
	{ 100, 113, 1, true, true, false },
	{ 100, 113, 16, true, true, false },
	{ 100, SIZE_MAX, 0, true, false, false },
	/* 144: half of it. */
	{ 144, 72, 0, false, false, false },
	{ 144, 71, 0, true, false, false },
	{ 144, 71, 16, true, false, false },
	/* Aligned to more than any block is: the class may be a larger one. */
	{ 144, 71, 32, false, false, false },
	{ 144, 144, 32, false, false, false },
	{ 144, 145, 32, true, true, false },
	/* Three eighths of a block of some pages. */
	{ 20480, 12801, 0, false, false, false },
	{ 20480, 12800, 0, true, false, false },
	/* The largest class. */
	{ 32768, 32768, 0, false, false, false },
	{ 32768, 32769, 0, true, false, false },
	/* Large blocks: what realloc() could have left room for. */
	{ 100000, 106496, 0, false, false, false },
	{ 100000, 106497, 0, true, false, false },
	{ 100000, 106497, 64, true, true, false },
	{ 100000, 98304, 0, false, false, false },
	{ 100000, 98303, 0, true, false, false },
	{ 100000, 98303, 64, true, false, false },
	{ 100000, 106497, 64, false, false, true },
	{ 53248, 49151, 0, false, false, false },
	{ 53248, 32769, 0, false, false, false },
	{ 53248, 32768, 0, true, false, false },
	{ 57344, 49151, 0, true, false, false },
	{ 53248, 32768, 4096, true, false, false },
	{ 53248, 1, 8192, false, false, false },
	{ 53248, 53249, 8192, true, true, false },
};

std::string line_of(const void *ptr, size_t have, size_t told)
{
	char line[200];

	snprintf(line, sizeof(line),
		 "]: sized free: %p has room for %zu bytes, and %zu were said; freed "
		 "by its own size (further ones are not reported)\n", ptr, have, told);
	return line;
}

TEST(sized, each_size_that_may_be_told_and_the_next_that_may_not)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a block has the bytes that were asked for";
	for (const struct row &row : rows) {
		auto *block = (char *)malloc(row.asked);
		struct slub_cache *cache = cache_of(block);
		const size_t have = malloc_usable_size(block);
		std::string said;
		int status = harness::in_child([&] {
			uint64_t found = misuse_nr_found(), stat = cache ? wrong_sizes(cache) : 0;

			misuse_is_ignored();
			log_enable(true);
			if (sized_check(block + 16 * row.is_inside, row.told, row.align) ==
			    row.is_certain)
				_exit(1);
			if (misuse_nr_found() - found != row.is_certain)
				_exit(2);
			if (cache && wrong_sizes(cache) - stat != row.is_wrong)
				_exit(3);
			_exit(0);
		}, &said);

		SCOPED_TRACE(std::to_string(row.asked) + " as " + std::to_string(row.told) +
			     " by " + std::to_string(row.align));
		EXPECT_EQ(harness::describe_status(status), "exit 0");
		EXPECT_EQ(said.substr(said.find("]:") + 1 ? said.find("]:") : 0),
			  row.is_wrong ? line_of(block, have, row.told) : "");
		free(block);
	}
}

/* Letters report, and go on. */
TEST(sized, what_is_watched_goes_on)
{
	struct slub_cache *cache = slub_cache_create("sized", 64, 0, SLUB_CACHE_NO_MERGE |
						     SLUB_CACHE_STORE_USER, nullptr);
	void *object = slub_cache_alloc(cache);
	uint64_t found = misuse_nr_found();

	ASSERT_NE(object, nullptr);
	ASSERT_NE(cache_of(object), cache) << "a twin";
	EXPECT_TRUE(sized_check(object, 64, 0));
	EXPECT_EQ(wrong_sizes(cache), 0u);
	EXPECT_EQ(slub_cache_errors(cache), 0u);
	for (size_t align : { 0, 64 })
		EXPECT_TRUE(sized_check(object, 65, align));
	EXPECT_EQ(misuse_nr_found(), found);
	EXPECT_EQ(wrong_sizes(cache), 2u);
	EXPECT_EQ(slub_cache_errors(cache), 4u) << "a line for the bug, and one for what was done";
	slub_cache_free(cache, object);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* malloc's own, with the size that was asked for beside each. */
TEST(sized, watched_classes_know_what_was_asked_for)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	struct slub_cache *class_of_112 = sizeclass_get(112, 16);

	ASSERT_EQ(cache_debug_switch(class_of_112, SLUB_CACHE_STORE_USER | SLUB_CACHE_RED_ZONE,
				     SWITCH_WAITS), 0);
	void *block = malloc(100);
	struct slub_cache *twin = cache_of(block);
	ASSERT_NE(twin, class_of_112);
	ASSERT_TRUE(debug_knows_size(twin, block));
	for (auto [told, is_wrong] : { std::pair<size_t, bool>{ 100, false }, { 99, true },
				       { 101, true }, { 112, true } }) {
		uint64_t before = wrong_sizes(class_of_112);

		EXPECT_TRUE(sized_check(block, told, 64));
		EXPECT_EQ(wrong_sizes(class_of_112) - before, is_wrong) << told;
	}
	free(block);
	EXPECT_EQ(cache_debug_switch(class_of_112, 0, SWITCH_WAITS), 0);
}

/* What was asked for is known of them, but for the room that realloc() leaves. */
TEST(sized, guarded_blocks_know_what_was_asked_for)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "the size of each block is known";
	struct {
		size_t asked, told, align;
		bool is_certain;
	} const guarded[] = {
		{ 64, 64, 0, false }, { 64, 63, 16, false }, { 64, 65, 16, true },
		{ 64, 65, 0, false }, { 768, 768, 16, false }, { 768, 512, 16, false },
		{ 768, 767, 16, false }, { 768, 769, 16, true },
	};

	misuse_is_ignored();
	ASSERT_EQ(guard_open(1), 0);
	for (auto &row : guarded) {
		void *block = guard_alloc(sizeclass_get(row.asked, 16), row.asked, 16);
		uint64_t found = misuse_nr_found();

		ASSERT_TRUE(guard_owns(block));
		EXPECT_EQ(guard_bytes(block), row.asked);
		EXPECT_EQ(sized_check(block, row.told, row.align), !row.is_certain)
			<< row.asked << " as " << row.told;
		EXPECT_EQ(misuse_nr_found() - found, row.is_certain);
		guard_free(block, nullptr);
	}
}

TEST(sized, a_guarded_block_is_reported_where_its_size_is_wrong)
{
	struct {
		size_t asked, told;
		bool is_wrong, was_looked_at;
	} const guarded[] = {
		{ 64, 64, false, false }, { 64, 63, true, false }, { 64, 65, true, false },
		{ 768, 512, false, false }, { 768, 511, true, false }, { 768, 600, false, false },
		{ 768, 767, false, false }, { 640, 512, true, false },
		/* A new leaves no room. */
		{ 768, 768, false, true }, { 768, 600, true, true },
	};

	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "the size of each block is known";
	ASSERT_EQ(guard_open(1), 0);
	for (auto &row : guarded) {
		void *block = guard_alloc(sizeclass_get(row.asked, 16), row.asked, 16);
		const uint64_t errors = guard_pools[GUARD_OBJECTS].errors;

		ASSERT_TRUE(guard_owns(block));
		if (row.was_looked_at) {
			EXPECT_TRUE(guard_free_call(block, CALL_MALLOC));
		}
		EXPECT_TRUE(sized_check(block, row.told, 0));
		EXPECT_EQ(guard_pools[GUARD_OBJECTS].errors - errors, row.is_wrong)
			<< row.asked << " as " << row.told;
		guard_free(block, nullptr);
	}
}

/* No block of this library: for the free itself to see. */
TEST(sized, others_are_left_to_the_free)
{
	static char foreign[64];
	uint64_t found = misuse_nr_found();

	EXPECT_TRUE(sized_check(foreign, 1000000, 16));
	EXPECT_EQ(misuse_nr_found(), found);
}

} /* namespace */
