/* SPDX-License-Identifier: MIT */
/*
 * features/watch: what a sanitizer's runtime, a pretended one, is told of watched objects and
 * slabs.
 */
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "harness.h"
#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include "core/base/sanitizer.h"
#include "features/watch/watch.h"
}
#undef _Static_assert

#include <slub/bucket.h>
#include <slub/debug.h>
#include <slub/malloc.h>
#include <slub/rcu.h>

static struct {
	unsigned outs, backs, slabs[3], uses, blocks;
	void *object, *slab, *block;
	size_t bytes, slab_bytes, used, have, block_bytes;
	bool is_kept, is_readable;
} told;

/* The linker sends the library's calls to these (--wrap). */
extern "C" void __wrap_sanitizer_tell_out(void *object, size_t bytes, bool is_kept)
{
	told.outs++;
	told.object = object;
	told.bytes = bytes;
	told.is_kept = is_kept;
}

extern "C" void __wrap_sanitizer_tell_back(void *object, size_t bytes, bool is_kept,
					   bool is_readable)
{
	told.backs++;
	told.object = object;
	told.bytes = bytes;
	told.is_kept = is_kept;
	told.is_readable = is_readable;
}

extern "C" void __wrap_sanitizer_tell_slab(void *slab, size_t bytes, enum sanitizer_slab now)
{
	told.slabs[now]++;
	told.slab = slab;
	told.slab_bytes = bytes;
}

extern "C" void __wrap_sanitizer_tell_order(const void *, bool) {}
extern "C" void __wrap_sanitizer_tell_block(void *block, size_t bytes, bool)
{
	told.blocks++;
	told.block = block;
	told.block_bytes = bytes;
}

extern "C" void __wrap_sanitizer_tell_use(void *block, size_t bytes, size_t have)
{
	told.uses++;
	told.block = block;
	told.used = bytes;
	told.have = have;
}

extern "C" void __wrap_sanitizer_tell_written(const void *, size_t) {}

namespace {

struct Runtime {
	Runtime()
	{
		told = {};
		sanitizer.is_there = sanitizer.is_told = true;
	}
	~Runtime() { sanitizer = { false, false, false }; }
};

struct kind {
	unsigned long flags;
	bool has_ctor, is_kept, is_readable;
};

void look(const struct kind &row)
{
	struct slub_cache *cache = slub_cache_create("told", 3000, 0, row.flags |
			SLUB_CACHE_RED_ZONE | SLUB_CACHE_NO_MERGE,
			row.has_ctor ? +[](void *) {} : nullptr);
	struct slub_cache *twin = cache_twin(cache);
	std::vector<void *> objects;
	ASSERT_NE(twin, nullptr);
	objects.reserve(1000);
	{
		Runtime is_told;

		objects.push_back(slub_cache_alloc(cache));
	}
	EXPECT_EQ(told.outs, 1u);
	EXPECT_EQ(told.object, objects[0]);
	EXPECT_EQ(told.bytes, 3000u);
	EXPECT_EQ(told.is_kept, row.is_kept);
	EXPECT_EQ(told.slabs[SANITIZER_SLAB_BEGINS], 1u);
	EXPECT_EQ(told.slabs[SANITIZER_SLAB_READY], 1u);
	EXPECT_EQ(told.slabs[SANITIZER_SLAB_ENDS], 0u);
	EXPECT_EQ(told.slab, page_address(slab_of(twin, objects[0])));
	EXPECT_EQ(told.slab_bytes, PAGE_BYTES << twin->order);
	while (objects.size() < (twin->min_partial + 2) * twin->objects)
		objects.push_back(slub_cache_alloc(cache));
	{
		Runtime is_told;

		slub_cache_free(cache, objects.back());
	}
	EXPECT_EQ(told.backs, 1u);
	EXPECT_EQ(told.object, objects.back());
	EXPECT_EQ(told.bytes, 3000u);
	EXPECT_EQ(told.is_kept, row.is_kept);
	EXPECT_EQ(told.is_readable, row.is_readable);
	objects.pop_back();
	{
		Runtime is_told;

		debug_free(twin, (char *)objects.back() + 8, nullptr);
	}
	EXPECT_EQ(told.backs, 0u) << "that is no object";
	{
		Runtime is_told;

		for (void *each : objects)
			slub_cache_free(cache, each);
		slub_deferred_barrier();
	}
	EXPECT_EQ(told.backs, objects.size());
	EXPECT_EQ(told.slabs[SANITIZER_SLAB_ENDS], 2u) << "all but those that are kept";
	EXPECT_EQ(told.slab_bytes, PAGE_BYTES << twin->order);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(Told, OfEachObjectAndSlab)
{
	for (auto &row : std::initializer_list<struct kind>{
		{ 0, false, false, false }, { 0, true, true, false },
		{ SLUB_CACHE_TYPESAFE_BY_RCU, false, true, true },
	})
		look(row);
}

/* Each cache is watched then, by letter F at the least. */
TEST(Told, CachesAreWatchedWhereARuntimeIsThere)
{
	struct slub_cache *cache;
	{
		Runtime is_there;

		cache = slub_cache_create("watched", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	}
	ASSERT_NE(cache, nullptr);
	ASSERT_NE(cache_twin(cache), nullptr);
	EXPECT_EQ(cache_twin(cache)->flags & DEBUG_LETTERS,
		  (uint32_t)SLUB_CACHE_CONSISTENCY_CHECKS);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	cache = slub_cache_create("plain", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	EXPECT_EQ(cache_twin(cache), nullptr);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* Letters may go off, and the runtime is told all the same. */
TEST(Told, ThatACacheIsWatchedDoesNotEnd)
{
	Runtime is_there;
	struct slub_cache *cache = slub_cache_create("told-on", 64, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);

	for (unsigned long flags : { (unsigned long)SLUB_CACHE_RED_ZONE, 0ul }) {
		EXPECT_EQ(slub_cache_debug(cache, flags), 0);
		ASSERT_NE(cache_twin(cache), nullptr) << flags;
		EXPECT_EQ(cache_twin(cache)->flags & DEBUG_LETTERS,
			  (uint32_t)(flags | SLUB_CACHE_CONSISTENCY_CHECKS));
		told.outs = told.backs = 0;
		slub_cache_free(cache, slub_cache_alloc(cache));
		EXPECT_EQ(told.outs, 1u);
		EXPECT_EQ(told.backs, 1u);
	}
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

/* As one is that another thread makes: it is live, and will be watched. */
TEST(Told, OfTheFirstObjectOfACacheThatIsBeingMade)
{
	for (int way = 0; way < 4; way++) {
		struct slub_cache *cache = slub_cache_create("told-first", 64, 0,
							     SLUB_CACHE_NO_MERGE, nullptr);
		Runtime is_there;
		struct slub_prefill prefill = {};
		void *objects[4] = {};
		size_t nr = way < 2 ? 1 : 4;

		if (way < 2) {
			objects[0] = way ? slub_cache_alloc_flags(cache, SLUB_ALLOC_ZERO) :
					   slub_cache_alloc(cache);
		} else if (way == 2) {
			EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, nr, objects), nr);
		} else {
			EXPECT_EQ(slub_cache_prefill(cache, &prefill, nr), 0);
			EXPECT_EQ(told.outs, nr) << "so the cache is watched";
			EXPECT_EQ(told.backs, nr) << "but they are put aside";
			told.outs = told.backs = 0;
			for (void *&object : objects)
				object = slub_prefill_alloc(&prefill);
			EXPECT_EQ(slub_prefill_alloc(&prefill), nullptr);
		}
		ASSERT_NE(cache_twin(cache), nullptr) << way;
		EXPECT_EQ(told.outs, nr) << way;
		slub_cache_free_bulk(cache, nr, objects);
		EXPECT_EQ(told.backs, nr) << way;
		EXPECT_EQ(slub_cache_destroy(cache), 0);
	}
}

/* What is behind it belongs to nobody until the program asks how large the block is. */
TEST(Told, OfTheSizeThatWasAskedFor)
{
	const unsigned long letter = SLUB_CACHE_CONSISTENCY_CHECKS;
	struct slub_cache *sized = slub_cache_find("malloc-64");
	struct slub_bucket *bucket = slub_bucket_create("told", 0);

	ASSERT_NE(sized, nullptr);
	ASSERT_EQ(slub_cache_debug(sized, letter), 0);
	{
		Runtime is_told;
		char *block = (char *)slub_malloc(50);

		EXPECT_EQ(told.outs, 1u);
		EXPECT_EQ(told.bytes, 50u);
		EXPECT_EQ(told.used, 50u);
		EXPECT_EQ(told.have, sized->object_size);
		EXPECT_EQ(told.uses, 1u);
		size_t all = slub_usable_size(block);
		EXPECT_GE(all, 50u);
		EXPECT_EQ(told.uses, 2u);
		EXPECT_EQ(told.block, block);
		EXPECT_EQ(told.used, all);
		EXPECT_EQ(told.have, all);
		slub_free(block);
		EXPECT_EQ(told.bytes, sized->object_size) << "of all";
	}
	EXPECT_EQ(slub_cache_debug(sized, 0), 0);
	{
		Runtime is_told;
		void *block = slub_malloc(100001);

		EXPECT_EQ(told.block, block);
		EXPECT_EQ(told.block_bytes, large_bytes(block));
		EXPECT_EQ(told.used, 100001u);
		EXPECT_EQ(told.have, large_bytes(block));
		slub_usable_size(block);
		EXPECT_EQ(told.used, SLUB_CONFIG_HARDENED ? 100001u : large_bytes(block));
		EXPECT_EQ(told.uses, 2u);
		slub_free(block);
		EXPECT_EQ(told.blocks, 2u);
	}
	{
		Runtime is_told;
		void *block = slub_bucket_alloc(bucket, 250), *same;
		size_t all = cache_of(block)->object_size;

		EXPECT_EQ(told.block, block);
		EXPECT_EQ(told.used, 250u);
		EXPECT_EQ(told.have, all);
		same = slub_bucket_realloc(bucket, block, 200);
		EXPECT_EQ(same, block);
		EXPECT_EQ(told.used, 200u);
		EXPECT_EQ(told.have, all);
		slub_bucket_free(bucket, same);
	}
	EXPECT_EQ(slub_bucket_destroy_all(bucket), 0);
}

/* It goes back to zones as any other, and what is left of it there is poisoned. */
TEST(Told, OfABlockOutOfTheReserve)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "fences take more of the reserve";
	ASSERT_EQ(page_reserve_set(1ul << 20), 0);
	{
		Runtime is_told;
		void *block = large_alloc_reserve(60001, 1);

		ASSERT_NE(block, nullptr);
		EXPECT_EQ(told.block, block);
		EXPECT_EQ(told.block_bytes, large_bytes(block));
		EXPECT_EQ(told.used, 60001u);
		slub_free(block);
	}
	EXPECT_EQ(page_reserve_set(0), 0);
}

} /* namespace */
