/* SPDX-License-Identifier: MIT */
/*
 * malloc, where a sanitizer's runtime is there, owns malloc() or is told: the runtime is pretended,
 * and what goes on to it is counted.
 */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>

#include "harness.h"
#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include "core/base/sanitizer.h"
#include <slub/bucket.h>
#include <slub/malloc.h>
}
#undef _Static_assert

extern "C" void free_aligned_sized(void *ptr, size_t align, size_t bytes);

static struct {
	unsigned mallocs, callocs, reallocs, memaligns, frees, sizes, written;
	size_t first, second, written_bytes;
	const void *ptr, *written_at;
} told;
static char theirs[64];		/* a block of the runtime's */

/* The linker sends the library's calls to these (--wrap). */
extern "C" void *__wrap_sanitizer_malloc(size_t bytes)
{
	told.mallocs++;
	told.first = bytes;
	return theirs;
}

extern "C" void *__wrap_sanitizer_calloc(size_t nr, size_t bytes)
{
	told.callocs++;
	told.first = nr;
	told.second = bytes;
	return theirs;
}

extern "C" void *__wrap_sanitizer_realloc(void *ptr, size_t bytes)
{
	told.reallocs++;
	told.ptr = ptr;
	told.first = bytes;
	return theirs;
}

extern "C" void *__wrap_sanitizer_memalign(size_t align, size_t bytes)
{
	told.memaligns++;
	told.first = align;
	told.second = bytes;
	return theirs;
}

extern "C" void __wrap_sanitizer_free(void *ptr)
{
	told.frees++;
	told.ptr = ptr;
}

extern "C" size_t __wrap_sanitizer_usable_size(void *ptr)
{
	told.sizes++;
	told.ptr = ptr;
	return 60;
}

extern "C" void __wrap_sanitizer_tell_written(const void *start, size_t bytes)
{
	told.written++;
	told.written_at = start;
	told.written_bytes = bytes;
}

extern "C" void __wrap_sanitizer_tell_order(const void *, bool) {}
extern "C" void __wrap_sanitizer_tell_block(void *, size_t, bool) {}
extern "C" void __wrap_sanitizer_tell_out(void *, size_t, bool) {}
extern "C" void __wrap_sanitizer_tell_back(void *, size_t, bool, bool) {}
extern "C" void __wrap_sanitizer_tell_slab(void *, size_t, enum sanitizer_slab) {}

namespace {

/* For as long as it lives; gtest's own blocks are not to be the runtime's. */
struct Runtime {
	explicit Runtime(bool owns = true)
	{
		told = {};
		sanitizer.is_there = sanitizer.is_told = true;
		sanitizer.owns_malloc = owns;
	}
	~Runtime() { sanitizer = { false, false, false }; }
};

bool is_ours(const void *block) { return block && block != theirs && !ptr_is_foreign(block); }

TEST(owned, what_reaches_malloc_goes_on_to_the_runtime)
{
	void *blocks[5];
	size_t args[4];
	{
		Runtime owns;

		/* 32,769 and more have no list that malloc() could look at first. */
		blocks[0] = slow_alloc(40000);
		args[0] = told.first;
		blocks[1] = calloc(3, 7);
		args[1] = told.first * 100 + told.second;
		blocks[2] = realloc(theirs, 9);
		args[2] = told.first;
		blocks[3] = memalign(64, 11);
		args[3] = told.first * 100 + told.second;
		blocks[4] = aligned_alloc(32, 11);
	}
	for (void *block : blocks)
		EXPECT_EQ(block, theirs);
	EXPECT_EQ(told.mallocs, 1u);
	EXPECT_EQ(told.callocs, 1u);
	EXPECT_EQ(told.reallocs, 1u);
	EXPECT_EQ(told.memaligns, 2u);
	EXPECT_EQ(args[0], 40000u);
	EXPECT_EQ(args[1], 307u);
	EXPECT_EQ(args[2], 9u);
	EXPECT_EQ(args[3], 6411u);
	size_t size, none;
	{
		Runtime owns;

		size = malloc_usable_size(theirs);
		none = malloc_usable_size(nullptr);
		slow_free(theirs);
		slow_free(nullptr);
	}
	EXPECT_EQ(size, 60u);
	EXPECT_EQ(none, 0u);
	EXPECT_EQ(told.sizes, 1u);
	EXPECT_EQ(told.frees, 1u);
	EXPECT_EQ(told.ptr, theirs);
}

TEST(owned, the_librarys_own_names_stay_here)
{
	void *blocks[6], *moved, *grown, *refused[3];
	int errors[3];
	size_t size;
	{
		Runtime owns;

		blocks[0] = slub_malloc(100);
		blocks[1] = slub_calloc(3, 50);
		blocks[2] = slub_aligned_alloc(256, 10);
		blocks[3] = slub_aligned_alloc(1, 10);
		blocks[4] = slub_realloc(nullptr, 100);
		blocks[5] = slub_malloc(100000);
		size = slub_usable_size(blocks[0]);
		moved = slub_realloc(slub_malloc(100), 3000);
		grown = realloc(slub_malloc(100), 5000);
		errno = 0;
		refused[0] = slub_calloc(SIZE_MAX, 2);
		errors[0] = errno;
		errno = 0;
		refused[1] = slub_aligned_alloc(48, 2);
		errors[1] = errno;
		errno = 0;
		refused[2] = slub_aligned_alloc(64, SIZE_MAX);
		errors[2] = errno;
	}
	EXPECT_EQ(told.mallocs + told.callocs + told.reallocs + told.memaligns + told.sizes, 0u);
	for (void *block : blocks)
		EXPECT_TRUE(is_ours(block));
	EXPECT_TRUE(is_ours(moved));
	EXPECT_TRUE(is_ours(grown));
	EXPECT_EQ(harness::first_nonzero(blocks[1], 150), 150u);
	EXPECT_EQ((uintptr_t)blocks[2] % 256, 0u);
	EXPECT_EQ((uintptr_t)blocks[3] % 16, 0u);
	if (!SLUB_CONFIG_HARDENED) {
		EXPECT_EQ(size, 112u);
	}
	for (void *each : refused)
		EXPECT_EQ(each, nullptr);
	EXPECT_EQ(errors[0], ENOMEM);
	EXPECT_EQ(errors[1], EINVAL);
	EXPECT_EQ(errors[2], ENOMEM);
	for (void *block : blocks)
		free(block);
	free(moved);
	free(grown);
}

/* What the library writes for the program is told of, to the byte. */
TEST(owned, what_is_written_for_the_program_is_told_of)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	struct slub_bucket *bucket = slub_bucket_create("told", 0);
	struct slub_bucket *empty = slub_bucket_create("empty", 0);
	struct slub_bucket_stats stats;
	void *block;

	slub_bucket_free(bucket, slub_bucket_alloc(bucket, 100));
	slub_bucket_free(bucket, slub_bucket_alloc(bucket, 1000));
	for (size_t bytes : { 100, 1000 }) {
		Runtime is_told(false);

		told = {};
		block = slub_bucket_calloc(bucket, 1, bytes);
		EXPECT_EQ(told.written_at, block);
		EXPECT_EQ(told.written_bytes, bytes);
		slub_bucket_free(bucket, block);
	}
	{
		Runtime is_told(false);

		block = slub_bucket_alloc(bucket, 100);
		told = {};
		block = slub_bucket_realloc(bucket, block, 1000);
		EXPECT_EQ(told.written_at, block);
		EXPECT_EQ(told.written_bytes, SLUB_CONFIG_HARDENED ? 100u : 112u);
		told = {};
		block = slub_bucket_realloc(bucket, block, 100);
		EXPECT_EQ(told.written_at, block);
		EXPECT_EQ(told.written_bytes, 100u);
		slub_bucket_free(bucket, block);
		/* Of one without classes: these have statistics of their own. */
		told = {};
		EXPECT_EQ(slub_bucket_stats(empty, &stats), 0);
		EXPECT_EQ(told.written_at, &stats);
		EXPECT_EQ(told.written_bytes, sizeof(stats));
		told = {};
		EXPECT_EQ(slub_bucket_calloc(bucket, SIZE_MAX / 4, 1), nullptr);
		EXPECT_EQ(told.written_bytes, 0u);
	}
	EXPECT_EQ(slub_bucket_destroy_all(bucket), 0);
	EXPECT_EQ(slub_bucket_destroy(empty), 0);
}

TEST(owned, what_is_copied_or_cleared_is_told_of)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "blocks have other sizes";
	void *block;
	void *moved;
	{
		Runtime is_there(false);

		block = slub_malloc(100);
		told = {};
		moved = realloc(block, 3000);
		EXPECT_EQ(told.written_at, moved);
		EXPECT_EQ(told.written_bytes, SLUB_CONFIG_HARDENED ? 100u : 112u);
		told = {};
		moved = realloc(moved, 50);
		EXPECT_EQ(told.written_at, moved);
		EXPECT_EQ(told.written_bytes, 50u);
	}
	free(moved);
	{
		Runtime owns;

		block = slub_calloc(5, 30);
		EXPECT_EQ(told.written_at, block);
		EXPECT_EQ(told.written_bytes, 150u);
	}
	free(block);
}

/* While a runtime is there no list is looked at, and no block is kept or stays where it is. */
TEST(owned, each_block_takes_the_long_way)
{
	void *fresh, *kept = malloc(100000);
	bool stays;
	{
		Runtime is_there(false);

		fresh = slow_alloc_fresh(20000);
		stays = block_stays(kept, 100001);
	}
	EXPECT_EQ(fresh, nullptr);
	EXPECT_FALSE(stays);
	if (!SLUB_CONFIG_HARDENED) {
		EXPECT_TRUE(block_stays(kept, 100001));
		EXPECT_FALSE(block_stays(kept, CLASS_BYTES_MAX));
		EXPECT_FALSE(block_stays((char *)kept + PAGE_BYTES, 100001));
		EXPECT_FALSE(block_stays(kept, heap_reserved_bytes + 1));
		EXPECT_FALSE(block_stays(kept, 2000000));
	}
	free(kept);
}

} /* namespace */
