// SPDX-License-Identifier: MIT
// Promise: what was freed goes back to the system under letters as it does without; what stays
// are the few slabs that each cache keeps.
#include <gtest/gtest.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include <slub/cache.h>
#include <slub/debug.h>

namespace {

const size_t BURST_BYTES = (size_t)64 << 20;
// Of what may stay: the margin is wide, for letters make objects up to three times as large.
const size_t KEPT_BYTES = BURST_BYTES / 4;

void *take(struct slub_cache *cache, size_t size)
{
	return cache ? slub_cache_alloc(cache) : malloc(size);
}

// Allocates a burst, of @cache or of malloc, all of it written to.
std::vector<void *> burst(struct slub_cache *cache, size_t size)
{
	std::vector<void *> all(BURST_BYTES / size);

	for (void *&object : all) {
		object = take(cache, size);
		memset(object, 1, size);
	}
	return all;
}

// Frees it; the bytes that stay of it.
size_t left_of(struct slub_cache *cache, const std::vector<void *> &all, size_t before)
{
	size_t after;

	if (harness::resident_bytes() < before + BURST_BYTES / 2)
		return SIZE_MAX;	// nothing was measured
	for (void *object : all) {
		if (cache)
			slub_cache_free(cache, object);
		else
			free(object);
	}
	after = harness::resident_bytes();
	return after < before ? 0 : after - before;
}

// In a process of its own: one that has had a burst keeps more for the next.
template <typename Body> void expect_little_stays(Body body)
{
	pid_t child = fork();
	int status;

	if (!child) {
		size_t left = body();

		if (left >= KEPT_BYTES)
			fprintf(stderr, "%zu bytes stay\n", left);
		_exit(left >= KEPT_BYTES);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

TEST(MemoryUnderLetters, of_malloc_goes_back)
{
	for (size_t size : { 100, 1000, 3000 }) {
		SCOPED_TRACE(size);
		expect_little_stays([size] {
			size_t before = harness::resident_bytes();

			return left_of(nullptr, burst(nullptr, size), before);
		});
	}
}

TEST(MemoryUnderLetters, of_a_cache_goes_back)
{
	for (unsigned long flags : { 0, (int)SLUB_CACHE_TYPESAFE_BY_RCU }) {
		SCOPED_TRACE(flags);
		expect_little_stays([flags] {
			struct slub_cache *cache = slub_cache_create("burst", 200, 0, flags,
								     nullptr);
			size_t before = harness::resident_bytes();

			return left_of(cache, burst(cache, 200), before);
		});
	}
}

TEST(MemoryUnderLetters, of_objects_from_before_the_letters_goes_back)
{
	expect_little_stays([] {
		struct slub_cache *cache = slub_cache_create("before", 200, 0, 0, nullptr);
		size_t before = harness::resident_bytes();
		std::vector<void *> all;

		slub_cache_debug(cache, 0);
		all = burst(cache, 200);
		slub_cache_debug(cache, SLUB_CACHE_RED_ZONE);
		return left_of(cache, all, before);
	});
}

} // namespace
