/* SPDX-License-Identifier: MIT */
/* core/malloc/slow.c: who is asked, how often and in which order, before a request is refused. */
#include <cerrno>
#include <gtest/gtest.h>
#include <malloc.h>

#include "harness.h"
#include "slub.h"

/* No container: these run before a constructor does. */
static struct {
	unsigned large, sized, reclaims, walled, handlers, reserve, object_reserve;
	size_t reclaim_bytes;
	int first_priority;
	size_t align, bytes;
	uint8_t growth;
} calls;
static struct {
	bool is_on, is_refused, is_walled;
	unsigned passes;	/* that bring nothing, before there are no more */
	size_t room_pages;
} no_memory;
static char block[64];

/* The linker sends the library's calls to these (--wrap). */
extern "C" void *__real_large_alloc(size_t bytes, size_t align, bool *is_zero);
extern "C" void *__real_large_alloc_kept(size_t bytes);
extern "C" void *__real_cache_alloc_sized(struct slub_cache *cache, size_t bytes);
extern "C" bool __real_reclaim_more(int *priority, size_t bytes);
extern "C" bool __real_superblock_is_walled_in(void);
extern "C" size_t __real_page_limit_room(void);
extern "C" void *__real_handler_alloc(size_t bytes, size_t align);
extern "C" void *__real_large_alloc_reserve(size_t bytes, size_t align);
extern "C" void *__real_cache_alloc_from_reserve(struct slub_cache *cache, unsigned int flags);

extern "C" void *__wrap_large_alloc(size_t bytes, size_t align, bool *is_zero)
{
	calls.large++;
	calls.growth = slub_thread.growth;
	return no_memory.is_on ? nullptr : __real_large_alloc(bytes, align, is_zero);
}

extern "C" void *__wrap_large_alloc_kept(size_t bytes)
{
	return no_memory.is_on ? nullptr : __real_large_alloc_kept(bytes);
}

extern "C" void *__wrap_cache_alloc_sized(struct slub_cache *cache, size_t bytes)
{
	calls.sized++;
	calls.growth = slub_thread.growth;
	return no_memory.is_on ? nullptr : __real_cache_alloc_sized(cache, bytes);
}

extern "C" bool __wrap_reclaim_more(int *priority, size_t bytes)
{
	if (!no_memory.is_on)
		return __real_reclaim_more(priority, bytes);
	if (!calls.reclaims++) {
		calls.first_priority = *priority;
		calls.reclaim_bytes = bytes;
	}
	return calls.reclaims <= no_memory.passes;
}

extern "C" bool __wrap_superblock_is_walled_in(void)
{
	calls.walled++;
	return no_memory.is_on ? no_memory.is_walled : __real_superblock_is_walled_in();
}

extern "C" size_t __wrap_page_limit_room(void)
{
	return no_memory.is_on ? no_memory.room_pages : __real_page_limit_room();
}

extern "C" void *__wrap_handler_alloc(size_t bytes, size_t align)
{
	calls.handlers++;
	calls.bytes = bytes;
	calls.align = align;
	return no_memory.is_on ? block : __real_handler_alloc(bytes, align);
}

extern "C" void *__wrap_large_alloc_reserve(size_t bytes, size_t align)
{
	calls.reserve++;
	calls.bytes = bytes;
	calls.align = align;
	return no_memory.is_on ? block : __real_large_alloc_reserve(bytes, align);
}

extern "C" void *__wrap_cache_alloc_from_reserve(struct slub_cache *cache, unsigned int flags)
{
	calls.object_reserve++;
	calls.bytes = flags;
	return no_memory.is_on ? nullptr : __real_cache_alloc_from_reserve(cache, flags);
}

namespace {

class Tries : public testing::Test {
protected:
	void SetUp() override
	{
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "each block is sealed";
		slub_deferred_barrier();
		calls = {};
		no_memory = {};
	}
	/* With no memory anywhere; what gtest needs is had. */
	void *asked(size_t bytes, size_t align = 16)
	{
		void *ptr;
		bool is_zero = true;

		calls = {};
		errno = 0;
		no_memory.is_on = true;
		if (no_memory.is_refused)
			slub_thread.flags |= THREAD_REFUSED;
		ptr = align > 16 ? slow_alloc_aligned(bytes, align, &is_zero) :
				   slow_alloc_own(bytes);
		no_memory.is_on = false;
		err = errno;
		EXPECT_TRUE(align <= 16 || !is_zero);
		EXPECT_EQ(slub_thread.growth, 0u) << "as it was";
		EXPECT_FALSE(slub_thread.flags & THREAD_REFUSED) << "it was asked once";
		return ptr;
	}

	int err;
};

TEST_F(Tries, ALargeBlockIsTriedOnceForEachPass)
{
	for (unsigned passes : { 0u, 1u, 5u }) {
		no_memory.passes = passes;
		EXPECT_EQ(asked(100000), nullptr);
		EXPECT_EQ(err, ENOMEM);
		EXPECT_EQ(calls.large, 1 + passes);
		EXPECT_EQ(calls.reclaims, 1 + passes);
		EXPECT_EQ(calls.first_priority, RECLAIM_FIRST);
		EXPECT_EQ(calls.reclaim_bytes, 100000u);
		EXPECT_EQ(calls.growth, THREAD_GROWTH_ONCE);
		EXPECT_EQ(calls.walled, 1u);
		EXPECT_EQ(calls.handlers + calls.reserve + calls.object_reserve, 0u);
		EXPECT_EQ(calls.sized, 0u);
		EXPECT_EQ(asked(100000, 64), nullptr);
		EXPECT_EQ(calls.large, 1 + passes);
		EXPECT_EQ(calls.reclaims, 1 + passes);
	}
}

TEST_F(Tries, AnObjectIsTriedOnceMoreAndForEachPass)
{
	for (unsigned passes : { 0u, 1u, 5u }) {
		no_memory.passes = passes;
		EXPECT_EQ(asked(1000), nullptr);
		EXPECT_EQ(err, ENOMEM);
		EXPECT_EQ(calls.sized, 2 + passes);
		EXPECT_EQ(calls.reclaims, 1 + passes);
		EXPECT_EQ(calls.reclaim_bytes, 1000u);
		EXPECT_EQ(calls.growth, THREAD_GROWTH_ONCE);
		EXPECT_EQ(calls.object_reserve, 1u);
		EXPECT_EQ(calls.bytes, 0u);
		EXPECT_EQ(calls.large + calls.reserve + calls.handlers, 0u);
	}
	/* The largest class, and the first size and alignment beyond. */
	no_memory.passes = 0;
	EXPECT_EQ(asked(CLASS_BYTES_MAX), nullptr);
	EXPECT_EQ(calls.object_reserve, 1u);
	EXPECT_EQ(asked(CLASS_BYTES_MAX + 1), nullptr);
	EXPECT_EQ(calls.large, 1u);
	EXPECT_EQ(calls.object_reserve, 0u);
	EXPECT_EQ(asked(100, PAGE_BYTES), nullptr);
	EXPECT_EQ(calls.object_reserve, 1u);
	EXPECT_EQ(asked(100, 2 * PAGE_BYTES), nullptr);
	EXPECT_EQ(calls.large, 1u);
	EXPECT_EQ(calls.object_reserve, 0u);
}

TEST_F(Tries, TheReserveIsForWhoHasTheRight)
{
	slub_thread.flags |= THREAD_RESERVE;
	void *ptr = asked(100000, 64);
	slub_thread.flags &= (uint16_t)~THREAD_RESERVE;
	EXPECT_EQ(ptr, block);
	EXPECT_EQ(calls.reserve, 1u);
	EXPECT_EQ(calls.bytes, 100000u);
	EXPECT_EQ(calls.align, 64u);
	EXPECT_EQ(asked(100000, 64), nullptr);
	EXPECT_EQ(calls.reserve, 0u);
}

/* Addresses elsewhere, as far as the limit allows. */
TEST_F(Tries, WhereTheHeapIsWalledInAMappingDoes)
{
	no_memory.is_walled = true;
	no_memory.room_pages = 25;
	EXPECT_EQ(asked(25 * PAGE_BYTES), nullptr);
	EXPECT_EQ(calls.handlers, 0u);
	no_memory.room_pages = 26;
	EXPECT_EQ(asked(25 * PAGE_BYTES), block);
	EXPECT_EQ(err, 0);
	EXPECT_EQ(calls.handlers, 1u);
	EXPECT_EQ(calls.bytes, 25 * PAGE_BYTES);
	EXPECT_EQ(calls.align, 16u);
	no_memory.is_walled = false;
	EXPECT_EQ(asked(25 * PAGE_BYTES), nullptr);
	EXPECT_EQ(calls.handlers, 0u);
}

/* Letter A: what must fail fails at once. */
TEST_F(Tries, WhatIsRefusedOnPurposeIsNotReclaimedFor)
{
	no_memory.is_refused = true;
	no_memory.passes = 3;
	EXPECT_EQ(asked(1000), nullptr);
	EXPECT_EQ(calls.reclaims, 0u);
	EXPECT_EQ(calls.object_reserve, 0u);
	EXPECT_EQ(asked(100000), nullptr);
	EXPECT_EQ(calls.reclaims, 0u);
	EXPECT_EQ(calls.walled, 0u);
}

TEST_F(Tries, AHandlerHasAMappingAtOnce)
{
	slub_thread.locks_held++;
	void *ptr = asked(100000);
	const auto of_large = calls;
	void *second = asked(1000, 64);
	const auto of_object = calls;
	slub_thread.locks_held--;
	EXPECT_EQ(ptr, block);
	EXPECT_EQ(of_large.handlers, 1u);
	EXPECT_EQ(of_large.large + of_large.reclaims, 0u);
	EXPECT_EQ(second, block);
	EXPECT_EQ(of_object.handlers, 1u);
	EXPECT_EQ(of_object.bytes, 1000u);
	EXPECT_EQ(of_object.align, 64u);
	EXPECT_EQ(of_object.reclaims, 0u);
}

/* Nobody is asked for what no machine has. */
TEST_F(Tries, WhatCanNeverBeIsRefusedAtOnce)
{
	no_memory.passes = 3;
	for (size_t bytes : { (size_t)PTRDIFF_MAX + 1, SIZE_MAX }) {
		EXPECT_EQ(asked(bytes, 64), nullptr);
		EXPECT_EQ(calls.large + calls.reclaims, 0u) << bytes;
	}
	EXPECT_EQ(asked(16, (size_t)PTRDIFF_MAX + 1), nullptr);
	EXPECT_EQ(calls.large + calls.reclaims, 0u);
	EXPECT_EQ(asked(heap_reserved_bytes + 1, 64), nullptr);
	EXPECT_EQ(calls.reclaims, 0u);
}

} /* namespace */
