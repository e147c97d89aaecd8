/* SPDX-License-Identifier: MIT */
/*
 * Promise: a pointer into the library's memory where no object lies is left alone by whatever takes
 * pointers, which reads nothing there: there may be nothing to read.  It is reported where bugs are
 * (TEST_REPORTS: reports go to stderr, and match this).
 */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <regex>
#include <string>
#include <vector>

#include "harness.h"
#include "features/inspect/abi.h"
#include <slub/slub.h>

extern "C" void free_sized(void *, size_t);

namespace {

struct Place {
	std::string name;
	uint64_t address;
	bool is_ours;	/* in the heap or its map: a bug for certain */
};

std::vector<Place> places;

const struct slub_abi *abi()
{
	return static_cast<struct slub_abi *>(dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL));
}

void add(const char *name, uint64_t address, bool is_ours = true)
{
	places.push_back({ name + std::string(" +") + std::to_string(address & 4095), address,
			   is_ours });
}

/* What is within it and the last word in front of it, at several offsets. */
void add_around(const char *name, uint64_t address, uint64_t bytes)
{
	for (int i = 1; i <= 8; i++)
		add(name, (address + bytes * i / 9) & ~UINT64_C(15));
	add(name, (address + bytes / 2) & ~UINT64_C(4095));
}

uint16_t entry_of(uint64_t address)
{
	return ((const uint16_t *)abi()->map)[(address - abi()->range_start) / abi()->page_bytes];
}

/* Pages that have been in use, and are not; the last ones, which are taken last. */
void add_unused(uint64_t from, uint64_t to)
{
	int nr = 0;

	for (uint64_t at = to - 4096; at > from && nr < 16; at -= 37 * 4096) {
		if (entry_of(at) != SLUB_ABI_MAP_NONE)
			continue;
		add("an unused page", at);
		add("an unused page", at + 16);
		nr += 2;
	}
}

void find_places()
{
	static char *large, *small, *kept;
	const struct slub_abi *s = abi();

	if (!places.empty())
		return;
	kept = (char *)malloc(64 << 20);
	memset(kept, 1, 64 << 20);
	free(kept);
	malloc_trim(0);
	large = (char *)malloc(3 << 20);
	small = (char *)malloc(100000);
	add_around("the map", s->range_start, s->heap_start - s->range_start);
	add("before the heap", s->heap_start - 16);
	add("before the heap", s->heap_start - 4096);
	add("the heap's last page", s->heap_start + s->heap_bytes - 4096);
	add("the heap's last word", s->heap_start + s->heap_bytes - 16);
	add("the heap's end", s->heap_start + s->heap_bytes, false);
	add("beyond the heap", s->heap_start + s->heap_bytes + (1 << 20), false);
	add("before the range", s->range_start - 4096, false);
	add("a descriptor", s->descriptors + s->heap_start / 4096 * s->descriptor_stride, false);
	add_around("a large block", (uint64_t)large, 3 << 20);
	add_around("a large block", (uint64_t)small, 100000);
	add("a large block's first page", (uint64_t)large + 16);
	add("a large block's first page", (uint64_t)small + 4080);
	add_unused(s->heap_start, s->heap_start + s->heap_bytes);
}

TEST(Nowhere, ThereAreManyPlaces)
{
	find_places();
	EXPECT_GE(places.size(), 40u);
}

/* For each place what @call says of it, in a child of its own. */
template <typename Call> void expect_left_alone(const char *name, Call call, bool is_reported)
{
	const char *reports = is_reported ? getenv("TEST_REPORTS") : nullptr;

	find_places();
	for (const Place &place : places) {
		std::string errors;
		int status = harness::in_child([&] { call((void *)place.address); }, &errors);

		EXPECT_EQ(status, 0) << name << " of " << place.name << ": "
				     << harness::describe_status(status);
		if (reports && place.is_ours) {
			EXPECT_TRUE(std::regex_search(errors, std::regex(reports)))
				<< name << " of " << place.name << ": " << errors;
		}
	}
}

TEST(Nowhere, Free)
{
	expect_left_alone("free", [](void *p) { free(p); }, true);
}

TEST(Nowhere, FreeSized)
{
	expect_left_alone("free_sized", [](void *p) { free_sized(p, 100); }, true);
}

TEST(Nowhere, Realloc)
{
	expect_left_alone("realloc", [](void *p) {
		if (realloc(p, 200))
			abort();
	}, true);
}

TEST(Nowhere, UsableSize)
{
	expect_left_alone("malloc_usable_size", [](void *p) {
		if (malloc_usable_size(p))
			abort();
	}, true);
}

TEST(Nowhere, TypedFree)
{
	static struct slub_cache *cache = slub_cache_create("nowhere", 72, 8, 0, nullptr);

	expect_left_alone("slub_cache_free", [](void *p) { slub_cache_free(cache, p); }, false);
	expect_left_alone("slub_cache_free_bulk", [](void *p) {
		void *objects[2] = { slub_cache_alloc(cache), p };

		slub_cache_free_bulk(cache, 2, objects);
	}, false);
}

/* What was left alone is there as before. */
TEST(Nowhere, TheBlockStays)
{
	char *large = (char *)malloc(200000);

	harness::fill(large, 200000, 7);
	free(harness::opaque(large + 16));
	free(harness::opaque(large + 4096));
	EXPECT_NE(malloc(200000), large);
	EXPECT_TRUE(harness::intact(large, 200000, 7));
	EXPECT_GE(malloc_usable_size(large), 200000u);
	free(large);
}

} /* namespace */
