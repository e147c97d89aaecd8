/* SPDX-License-Identifier: MIT */
/* features/inspect/options.c and mallinfo.c: each option, and each number, as it is told. */
#include <cerrno>
#include <climits>
#include <cstdio>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sstream>
#include <vector>

#include "harness.h"
#include "lists.h"
#include "slub.h"
#include "start.h"

extern "C" {
#include "features/watch/watch.h"
}

#include <slub/slub.h>

namespace {

std::vector<std::string> words_of(const char *choices)
{
	std::istringstream all(choices);
	std::vector<std::string> words;
	std::string word;

	while (std::getline(all, word, '|'))
		words.push_back(word);
	return words;
}

/* What slub_option_get() is to say. */
std::string told_of(enum option_id id)
{
	const struct option_row *row = &option_rows[id];
	size_t value = option_value(id);

	if (row->kind == KIND_TEXT || row->kind == KIND_WORDS)
		return option_text(id) ? option_text(id) : "";
	if (row->kind == KIND_ENUM)
		return words_of(row->choices).at(value);
	return value == SIZE_MAX ? "auto" : std::to_string(value);
}

TEST(options, each_is_published)
{
	start::option("DEBUG_REPORT=/tmp/a-report");
	options_publish();
	for (int i = 0; i < OPTION_NR; i++) {
		enum option_id id = (enum option_id)i;
		const struct option_row *row = &option_rows[i];
		const struct slub_abi_option *out = &slub_abi_options[i];
		bool is_text = row->kind == KIND_TEXT || row->kind == KIND_WORDS;

		EXPECT_STREQ(out->name, row->name);
		EXPECT_EQ(out->kind, row->kind == KIND_ENUM ? 0u : is_text ? 2u :
			  row->kind == KIND_NUMBER ? 3u : 1u) << row->name;
		EXPECT_EQ(out->given, (uint32_t)option_was_given(id)) << row->name;
		EXPECT_EQ(out->value, option_value(id)) << row->name;
		EXPECT_EQ(out->min, row->min) << row->name;
		EXPECT_EQ(out->max, row->max) << row->name;
		if (is_text || row->kind == KIND_ENUM) {
			EXPECT_EQ(std::string(out->text), told_of(id)) << row->name;
		}
	}
	EXPECT_STREQ(slub_abi_options[OPTION_debug_report].text, "/tmp/a-report");
	EXPECT_EQ(slub_abi_options[OPTION_debug_report].given, 1u);
}

TEST(options, each_is_told)
{
	for (int i = 0; i < OPTION_NR; i++) {
		const char *name = option_rows[i].name;
		std::string told = told_of((enum option_id)i);
		std::vector<char> room(told.size() + 2, '#');

		EXPECT_EQ(slub_option_get(name, room.data(), told.size() + 1), 0) << name;
		EXPECT_EQ(std::string(room.data()), told) << name;
		EXPECT_EQ(room.back(), '#');
		room.assign(room.size(), '#');
		EXPECT_EQ(slub_option_get(name, room.data(), told.size()), -ERANGE) << name;
		EXPECT_EQ(room[0], '#');
	}
}

TEST(options, what_is_set_later_is_published)
{
	const struct slub_abi_option *on_error = &slub_abi_options[OPTION_on_error];

	ASSERT_EQ(slub_option_set("on_error", "report"), 0);
	EXPECT_STREQ(on_error->text, "report");
	EXPECT_EQ(on_error->value, 1u);
	EXPECT_EQ(on_error->given, 2u);
	ASSERT_EQ(slub_option_set("on_error", "abort"), 0);
	EXPECT_STREQ(on_error->text, "abort") << "nothing of the longer word stays";
	EXPECT_EQ(on_error->value, 0u);
	ASSERT_EQ(slub_option_set("retain", "3M"), 0);
	EXPECT_EQ(slub_abi_options[OPTION_retain].value, 3u << 20);
	EXPECT_EQ(slub_abi_options[OPTION_retain].given, 2u);
	EXPECT_EQ(slub_abi_state.retain_bytes, 3u << 20);
	EXPECT_EQ(slub_option_set("retain", "lots"), -EINVAL);
	EXPECT_EQ(slub_abi_options[OPTION_retain].value, 3u << 20);
}

TEST(options, messages_begin_and_end)
{
	std::string errors;
	int status = harness::in_child([] {
		slub_option_set("verbose", "1");
		log_message("heard %d", 1);
		slub_option_set("verbose", "0");
		log_message("not heard");
	}, &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status);
	EXPECT_EQ(errors.find("slub["), 0u) << errors;
	EXPECT_EQ(errors.substr(errors.find(']') + 1), ": heard 1\n");
}

TEST(options, by_mail)
{
	char good[] = "retain=5M", none[] = "retain", other[] = "no_such=1", bad[] = "retain=x",
	     two[] = "on_error=a=b";

	ASSERT_NE(debug_mailbox_set, nullptr);
	EXPECT_EQ(debug_mailbox_set(good), 0);
	EXPECT_STREQ(good, "retain=5M");
	EXPECT_EQ(option_value(OPTION_retain), 5u << 20);
	EXPECT_EQ(debug_mailbox_set(none), -EINVAL);
	EXPECT_EQ(debug_mailbox_set(other), -ENOENT);
	EXPECT_STREQ(other, "no_such=1");
	EXPECT_EQ(debug_mailbox_set(bad), -EINVAL);
	EXPECT_EQ(debug_mailbox_set(two), -EINVAL);
	EXPECT_STREQ(two, "on_error=a=b");
}

/* ---- mallinfo(3) and its like ---- */

#if defined(__GLIBC__)
TEST(mallinfo, each_number_has_its_place)
{
	struct heap_census census = {};
	struct mallinfo2 info;

	census.slab_bytes = 100000;
	census.dirty_bytes = 7000;
	census.free = 11;
	census.large_blocks = 12;
	census.large_bytes = 130000;
	census.cached = 14;
	census.cached_bytes = 1500;
	census.object_bytes = 61500;
	memset(&info, 0xff, sizeof(info));
	mallinfo_fill(&info, &census);
	EXPECT_EQ(info.arena, 107000u);
	EXPECT_EQ(info.ordblks, 12u);
	EXPECT_EQ(info.hblks, 12u);
	EXPECT_EQ(info.hblkhd, 130000u);
	EXPECT_EQ(info.smblks, 14u);
	EXPECT_EQ(info.fsmblks, 1500u);
	EXPECT_EQ(info.uordblks, 60000u);
	EXPECT_EQ(info.fordblks, 47000u);
	EXPECT_EQ(info.keepcost, 7000u);
	EXPECT_EQ(info.usmblks, 0u);
}

TEST(mallinfo, narrow_numbers_end_where_they_can)
{
	void *small[100], *large = malloc((size_t)3 << 30);

	if (!large)
		GTEST_SKIP() << "there is no room";
	for (void *&block : small)
		block = malloc(300);
	for (int i = 0; i < 10; i++)
		free(small[i]);
	free(malloc(100000));
	struct mallinfo2 wide = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
	EXPECT_EQ(narrow.hblkhd, INT_MAX);
	EXPECT_EQ((size_t)narrow.arena, wide.arena);
	EXPECT_EQ((size_t)narrow.ordblks, wide.ordblks);
	EXPECT_EQ((size_t)narrow.hblks, wide.hblks);
	EXPECT_EQ((size_t)narrow.smblks, wide.smblks);
	EXPECT_EQ((size_t)narrow.fsmblks, wide.fsmblks);
	EXPECT_EQ((size_t)narrow.uordblks, wide.uordblks);
	EXPECT_EQ((size_t)narrow.fordblks, wide.fordblks);
	EXPECT_EQ((size_t)narrow.keepcost, wide.keepcost);
	EXPECT_GT(narrow.keepcost, 0);
	EXPECT_GT(narrow.smblks, 0);
	for (int i = 10; i < 100; i++)
		free(small[i]);
	free(large);
}
#endif

void hold_something()
{
	for (int i = 0; i < 50; i++)
		if (!harness::opaque(malloc(400)))
			abort();
	for (int i = 0; i < 5; i++)
		free(malloc(70));
	free(malloc(200000));
	if (!harness::opaque(malloc(2 << 20)))
		abort();
}

TEST(malloc_stats, line_by_line)
{
	std::string errors;
	static char expected[1200];
	int status = harness::in_child([] {
		struct heap_census census, *heap = &census;
		int n = 0;

		hold_something();
		census_heap(heap);
		malloc_stats();
#define VALUE_HEAP(name, kind, expression)						\
		n += snprintf(expected + n, sizeof(expected) - (size_t)n, "%14zu %s\n",	\
			      (size_t)(expression), #name);
#include "features/inspect/value.def"
		if (write(2, expected, (size_t)n) != n)
			_exit(1);
	}, &errors);

	EXPECT_EQ(status, 0) << harness::describe_status(status);
	std::istringstream lines(errors);
	std::string line;
	std::vector<std::string> all;
	while (std::getline(lines, line))
		all.push_back(line);
	ASSERT_EQ(all.size() % 2, 1u) << errors;
	ASSERT_GT(all.size(), 20u) << errors;
	EXPECT_EQ(all[0], std::string("slub ") + SLUB_VERSION_STRING);
	for (size_t i = 1; i <= all.size() / 2; i++)
		EXPECT_EQ(all[i], all[i + all.size() / 2]);
}

TEST(malloc_info, totals_and_caches)
{
	static char text[1 << 20], room[1 << 16];
	struct slub_cache *cache = slub_cache_create("told-80", 80, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);
	FILE *out = fmemopen(text, sizeof(text), "w");
	struct heap_census c, *heap = &c;
	struct cache_census census;
	static char expected[2000];
	int n = 0;

	ASSERT_TRUE(cache && out);
	setvbuf(out, room, _IOFBF, sizeof(room));
	hold_something();
	for (int i = 0; i < 33; i++)
		ASSERT_NE(slub_cache_alloc(cache), nullptr);
	EXPECT_EQ(malloc_info(0, out), 0);
	census_heap(&c);
	census_cache(cache, &census);
	fflush(out);
#define XML_NUMBER "count"
#define XML_BYTES "size"
#define VALUE_HEAP(name, kind, expression)						\
	n += snprintf(expected + n, sizeof(expected) - (size_t)n,			\
		      "<total type=\"%s\" " XML_##kind "=\"%zu\"/>\n", #name,		\
		      (size_t)(expression));
#include "features/inspect/value.def"
	snprintf(expected + n, sizeof(expected) - (size_t)n,
		 "<system type=\"current\" size=\"%zu\"/>\n</malloc>\n", c.committed_bytes);
	std::string all(text);
	EXPECT_EQ(all.substr(all.find("<total")), expected);
	snprintf(expected, sizeof(expected), "<cache name=\"told-80\" size=\"%u\" active=\"%zu\" "
		 "cached=\"%zu\" objects=\"%zu\" slabs=\"%zu\"/>\n", cache->size, census.active,
		 cache_nr_cached(cache), census.objects, census.slabs);
	EXPECT_NE(all.find(expected), all.npos) << expected << all;
	fclose(out);
	FILE *full = fopen("/dev/full", "w");
	setvbuf(full, nullptr, _IONBF, 0);
	EXPECT_EQ(malloc_info(0, full), -1);
	fclose(full);
}

} /* namespace */
