/* SPDX-License-Identifier: MIT */
/* Caches as programs make them, in a test that has started the layers up to slab. */
#ifndef SLUB_TESTS_UNIT_TYPED_H
#define SLUB_TESTS_UNIT_TYPED_H

#include <cerrno>
#include <string>

#include "check.h"
#include "lists.h"
#include "start.h"

struct typed : testing::Test {
	static void SetUpTestSuite()
	{
		static bool started;

		if (!started) {
			start::slab(128ul << 20, 16ul << 20);
			ASSERT_EQ(deferred_init(), 0);
		}
		started = true;
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (!start::can_empty_lists())
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	}
	static struct slub_cache *make(const char *name, size_t size, unsigned long flags = 0,
				       void (*ctor)(void *) = nullptr)
	{
		struct slub_cache *cache = slub_cache_create(name, size, 0, flags, ctor);

		EXPECT_NE(cache, nullptr);
		return cache;
	}
	static void end(struct slub_cache *cache) { EXPECT_EQ(slub_cache_destroy(cache), 0); }
};

#endif
