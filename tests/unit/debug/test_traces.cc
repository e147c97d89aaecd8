/* SPDX-License-Identifier: MIT */
/* features/watch/debug_traces.c: what is counted of each call stack, to the object, and written. */
#include <algorithm>
#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/watch/watch.h"
}

#include <slub/debug.h>

static unsigned nr_maps, nr_unmaps;
static size_t written_bytes;
static char written[8192];
static bool no_maps;

/* The linker sends the library's calls to these (--wrap). */
extern "C" void *__real_os_map(size_t bytes);
extern "C" void __real_os_unreserve(void *start, size_t bytes);

extern "C" void *__wrap_os_map(size_t bytes)
{
	nr_maps++;
	return no_maps ? nullptr : __real_os_map(bytes);
}

extern "C" void __wrap_os_unreserve(void *start, size_t bytes)
{
	nr_unmaps++;
	__real_os_unreserve(start, bytes);
}

extern "C" void __wrap_sink_write(const char *, const char *text, size_t bytes)
{
	if (written_bytes + bytes < sizeof(written)) {
		memcpy(written + written_bytes, text, bytes);
		written_bytes += bytes;
	}
}

/* Names of code depend on where it lies. */
extern "C" void __wrap_sink_describe(struct text *text, uintptr_t address)
{
	text_printf(text, "<%zu>", (size_t)address);
}

extern "C" void __wrap_sink_describe_all(struct text *text, const uintptr_t *, uint32_t nr)
{
	text_printf(text, "%u frames\n", nr);
}

namespace {

constexpr uint64_t SECOND = 1000000000;

class Traces : public testing::Test {
protected:
	void SetUp() override
	{
		cache = slub_cache_create("traced", 40, 0, SLUB_CACHE_NO_MERGE |
					  SLUB_CACHE_STORE_USER, nullptr);
		ASSERT_NE(cache, nullptr);
		seen.reserve(10000);
	}
	void TearDown() override
	{
		for (void *each : objects)
			slub_cache_free(cache, each);
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
	struct track *track(void *object, enum track_kind kind = TRACK_ALLOC)
	{
		return track_of(cache_of(object)->debug, object, kind);
	}
	/* An object that @caller has allocated @ago, on @cpu. */
	struct track *add(uintptr_t caller, uint64_t ago = SECOND, uint32_t cpu = 0,
			  uint32_t thread = 1)
	{
		objects.push_back(slub_cache_alloc(cache));
		struct track *its = track(objects.back());
		its->caller = caller;
		its->stack = 0;
		its->when_ns = os_clock_ns() - ago;
		its->cpu = cpu;
		its->thread = thread;
		return its;
	}
	int look(int (*call)(struct slub_cache *, int (*)(const struct slub_trace *, void *),
			     void *) = slub_cache_alloc_traces)
	{
		seen.clear();
		return call(cache, [](const struct slub_trace *t, void *arg) {
			auto *self = (Traces *)arg;

			self->seen.push_back(*t);
			self->callers.push_back(t->frames[0]);
			EXPECT_EQ(t->nr_frames, 1u);
			return self->stop_at && self->seen.size() == self->stop_at ? 33 : 0;
		}, this);
	}

	struct slub_cache *cache;
	std::vector<void *> objects;
	std::vector<struct slub_trace> seen;
	std::vector<uintptr_t> callers;
	size_t stop_at = 0;
};

TEST_F(Traces, EachNumberIsOfItsObjects)
{
	add(7, 5 * SECOND, 3, 20);
	add(7, 90 * SECOND, 255, 10);
	add(7, 30 * SECOND, 256, 30);
	add(9, -(uint64_t)(50 * SECOND), 64, 5);
	ASSERT_EQ(look(), 0);
	ASSERT_EQ(seen.size(), 2u);
	struct slub_trace &t = seen[0];
	EXPECT_EQ(t.cache, cache);
	EXPECT_EQ(t.count, 3u);
	EXPECT_EQ(t.bytes, 120u);
	EXPECT_EQ(t.waste, 0u);
	EXPECT_EQ(t.age_min_ns / SECOND, 5u);
	EXPECT_EQ(t.age_max_ns / SECOND, 90u);
	EXPECT_EQ(t.age_sum_ns / SECOND, 125u);
	EXPECT_EQ(t.thread_min, 10u);
	EXPECT_EQ(t.thread_max, 30u);
	EXPECT_EQ(t.cpus[0], 1u << 3);
	EXPECT_EQ(t.cpus[1] | t.cpus[2], 0u);
	EXPECT_EQ(t.cpus[3], 1ull << 63);
	EXPECT_EQ(callers[0], 7u);
	EXPECT_EQ(seen[1].count, 1u);
	EXPECT_EQ(seen[1].age_min_ns, 0u) << "a clock that is ahead";
	EXPECT_EQ(seen[1].age_max_ns, 0u);
	EXPECT_EQ(seen[1].cpus[1], 1u);
	EXPECT_EQ(callers[1], 9u);
}

TEST_F(Traces, WhatIsFreeOrOnItsWayIsNotCounted)
{
	for (uintptr_t caller = 1; caller <= 4; caller++)
		add(caller);
	track(objects[1])->is_freed = 1;
	track(objects[2])->caller = 0;
	slub_cache_free(cache, objects[3]);
	objects.pop_back();
	ASSERT_EQ(look(), 0);
	ASSERT_EQ(seen.size(), 1u);
	EXPECT_EQ(callers[0], 1u);
	track(objects[1])->is_freed = 0;
	track(objects[2])->caller = 3;
	/* By whom what is in use was freed before: nobody, or the test. */
	ASSERT_EQ(look(slub_cache_free_traces), 0);
	EXPECT_EQ(seen.size(), 0u);
	track(objects[0], TRACK_FREE)->caller = 77;
	callers.clear();
	ASSERT_EQ(look(slub_cache_free_traces), 0);
	ASSERT_EQ(seen.size(), 1u);
	EXPECT_EQ(callers[0], 77u);
}

TEST_F(Traces, MostObjectsComeFirst)
{
	for (uintptr_t caller = 1; caller <= 60; caller++)
		for (uintptr_t i = 0; i < 1 + caller * 7 % 60; i++)
			add(caller);
	ASSERT_EQ(look(), 0);
	ASSERT_EQ(seen.size(), 60u);
	for (size_t i = 0; i < seen.size(); i++) {
		EXPECT_EQ(seen[i].count, 60u - i);
		EXPECT_EQ(seen[i].count, 1 + callers[i] * 7 % 60);
	}
	stop_at = 4;
	EXPECT_EQ(look(), 33) << "what the visitor says";
	EXPECT_EQ(seen.size(), 4u);
}

/* Three quarters of the first table, and one more. */
TEST_F(Traces, ATableThatIsFullIsMadeLarger)
{
	for (uintptr_t caller = 1; caller <= 6144; caller++)
		add(caller << 4);
	for (auto [nr, maps] : { std::pair<size_t, unsigned>{ 6144, 1 }, { 6145, 2 } }) {
		if (objects.size() < nr)
			add(8);
		nr_maps = nr_unmaps = 0;
		callers.clear();
		ASSERT_EQ(look(), 0);
		EXPECT_EQ(seen.size(), nr);
		EXPECT_EQ(nr_maps, maps);
		EXPECT_EQ(nr_unmaps, maps);
		std::sort(callers.begin(), callers.end());
		EXPECT_EQ(std::unique(callers.begin(), callers.end()), callers.end());
	}
	no_maps = true;
	nr_maps = 0;
	EXPECT_EQ(look(), -ENOMEM);
	EXPECT_EQ(nr_maps, 1u);
	no_maps = false;
}

TEST_F(Traces, AreRefused)
{
	struct slub_cache *plain = slub_cache_create("plain", 40, 0, SLUB_CACHE_NO_MERGE |
						     SLUB_CACHE_RED_ZONE, nullptr);
	auto ignore = [](const struct slub_trace *, void *) { return 1; };

	add(5);
	EXPECT_EQ(slub_cache_alloc_traces(plain, ignore, nullptr), -EINVAL) << "no letter U";
	EXPECT_EQ(slub_cache_alloc_traces(cache, ignore, nullptr), 1);
	EXPECT_EQ(slub_cache_alloc_traces(nullptr, ignore, nullptr), 1) << "all of them";
	slub_thread.locks_held++;
	EXPECT_EQ(slub_cache_alloc_traces(cache, ignore, nullptr), -EDEADLK);
	slub_thread.locks_held--;
	EXPECT_EQ(slub_cache_destroy(plain), 0);
	std::string name(600, 'x');
	EXPECT_EQ(slub_leaks_write((name + "%p").c_str()), -ENAMETOOLONG);
}

/* Whole lines. */
TEST_F(Traces, AreWritten)
{
	add(7, 5 * SECOND, 3, 20);
	add(7, 95 * SECOND, 65, 10);
	add(9, -(uint64_t)(50 * SECOND), 0, 5);
	written_bytes = 0;
	EXPECT_EQ(slub_leaks_write("stderr"), 2);
	std::string text(written, written_bytes);
	/* Thousandths of a second go by meanwhile. */
	auto ages = text.find("age=");
	ASSERT_NE(ages, text.npos) << text;
	unsigned long least = 0, mean = 0, most = 0;
	ASSERT_EQ(sscanf(text.c_str() + ages, "age=%lu/%lu/%lums", &least, &mean, &most), 3);
	EXPECT_EQ(least / 1000, 5u);
	EXPECT_EQ(mean / 1000, 50u);
	EXPECT_EQ(most / 1000, 95u);
	text.replace(ages, text.find(' ', ages) - ages, "AGES");
	EXPECT_EQ(text, "2 traced <7> bytes=80 waste=0/0 AGES pid=10-20 cpus=3,65\n1 frames\n\n"
			"1 traced <9> bytes=40 waste=0/0 age=0/0/0ms pid=5-5 cpus=0\n1 frames\n\n");
}

/* What rounding up has added to blocks of malloc(). */
TEST(TracesOfMalloc, TellWhatIsWasted)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "a tail is added";
	struct slub_cache *mallocs = sizeclass_get(224, 16);
	struct slub_trace sum = {};

	ASSERT_EQ(cache_debug_switch(mallocs, SLUB_CACHE_STORE_USER, SWITCH_WAITS), 0);
	void *blocks[3];
	for (size_t i = 0; i < 3; i++)
		blocks[i] = malloc(210 + i);
	for (void *block : blocks) {
		struct track *its = track_of(cache_of(block)->debug, block, TRACK_ALLOC);

		its->caller = 5;
		its->stack = 0;
	}
	EXPECT_EQ(slub_cache_alloc_traces(mallocs, [](const struct slub_trace *t, void *arg) {
		*(struct slub_trace *)arg = *t;
		return 1;
	}, &sum), 1);
	EXPECT_EQ(sum.count, 3u);
	EXPECT_EQ(sum.bytes, 633u);
	EXPECT_EQ(sum.waste, 3 * 224u - 633u);
	written_bytes = 0;
	EXPECT_EQ(slub_leaks_write("stderr"), 1);
	EXPECT_NE(std::string(written, written_bytes).find(" bytes=633 waste=39/13 age="),
		  std::string::npos) << written;
	for (void *block : blocks)
		free(block);
	EXPECT_EQ(cache_debug_switch(mallocs, 0, SWITCH_WAITS), 0);
}

} /* namespace */
