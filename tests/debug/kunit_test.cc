// SPDX-License-Identifier: MIT
// The eight corruption tests of the kernel's slub_kunit, and the numbers of errors that it expects:
// each line BUG and each line FIX of a report is one.
#include <gtest/gtest.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <slub/debug.h>
#include <slub/rcu.h>

extern "C" void free_sized(void *ptr, size_t bytes);	// C23's

namespace {

struct Kunit : testing::Test {
	struct slub_cache *cache = nullptr;
	unsigned long before = 0;

	void make(const char *name, size_t size, unsigned long flags)
	{
		cache = slub_cache_create(name, size, 0, flags | SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
	}

	uint8_t *alloc() { return (uint8_t *)slub_cache_alloc(cache); }

	// Errors since the last call.
	unsigned long errors()
	{
		unsigned long now = slub_cache_errors(cache), n = now - before;

		before = now;
		return n;
	}
};

TEST_F(Kunit, clobber_zone)
{
	make("TestSlub_RZ_alloc", 64, SLUB_CACHE_RED_ZONE);
	uint8_t *p = alloc();
	p[64] = 0x12;
	EXPECT_EQ(slub_cache_validate(cache), 1);
	EXPECT_EQ(errors(), 2u);
	slub_cache_free(cache, p);
	EXPECT_EQ(errors(), 0u) << "it was repaired";
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(Kunit, next_pointer)
{
	make("TestSlub_next_ptr_free", 64, SLUB_CACHE_POISON);
	uint8_t *p = alloc();
	uintptr_t was;

	slub_cache_free(cache, p);
	memcpy(&was, p + 64, sizeof(was));	// the link lies behind the object
	p[64] = (uint8_t)~p[64];
	slub_cache_validate(cache);
	// The freechain, the count of objects in use, and that this was put right.
	EXPECT_EQ(errors(), 3u);
	memcpy(p + 64, &was, sizeof(was));
	slub_cache_validate(cache);
	EXPECT_EQ(errors(), 2u);
	slub_cache_validate(cache);
	EXPECT_EQ(errors(), 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(Kunit, first_word)
{
	make("TestSlub_1th_word_free", 64, SLUB_CACHE_POISON);
	uint8_t *p = alloc();
	slub_cache_free(cache, p);
	*p = 0x78;
	slub_cache_validate(cache);
	EXPECT_EQ(errors(), 2u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(Kunit, clobber_50th_byte)
{
	make("TestSlub_50th_word_free", 64, SLUB_CACHE_POISON);
	uint8_t *p = alloc();
	slub_cache_free(cache, p);
	p[50] = 0x9a;
	slub_cache_validate(cache);
	EXPECT_EQ(errors(), 2u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(Kunit, clobber_redzone_free)
{
	make("TestSlub_RZ_free", 64, SLUB_CACHE_RED_ZONE);
	uint8_t *p = alloc();
	slub_cache_free(cache, p);
	p[64] = 0xab;
	slub_cache_validate(cache);
	EXPECT_EQ(errors(), 2u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(Kunit, kmalloc_redzone_access)
{
	ASSERT_EQ(slub_debug("ZU,malloc-32"), 1);
	uint8_t *p = (uint8_t *)malloc(18);
	cache = slub_cache_of(p);
	ASSERT_STREQ(slub_cache_name(cache), "malloc-32");
	errors();
	*(volatile uint8_t *)(p + 18) = 0xab;
	*(volatile uint8_t *)(p + 19) = 0xab;
	slub_cache_validate(cache);
	EXPECT_EQ(errors(), 2u);
	free(p);
	EXPECT_EQ(slub_debug("-,malloc-32"), 1);
}

// Beyond the kernel's: a block of malloc's that an operator delete frees, and its own kind after.
TEST_F(Kunit, freed_as_another_kind)
{
	ASSERT_EQ(slub_debug("ZU,malloc-112"), 1);
	for (bool is_wrong : { false, true, false }) {
		void *p = is_wrong ? malloc(100) : operator new(100);

		cache = slub_cache_of(p);
		ASSERT_STREQ(slub_cache_name(cache), "malloc-112");
		before = slub_cache_errors(cache);
		operator delete(p);
		EXPECT_EQ(errors(), is_wrong ? 2u : 0u);
	}
	EXPECT_EQ(slub_debug("-,malloc-112"), 1);
}

TEST_F(Kunit, freed_as_of_another_size)
{
	ASSERT_EQ(slub_debug("ZU,malloc-112"), 1);
	for (size_t bytes : { 100, 20, 112, 5000, 100 }) {
		void *p = malloc(100);

		cache = slub_cache_of(p);
		ASSERT_STREQ(slub_cache_name(cache), "malloc-112");
		before = slub_cache_errors(cache);
		free_sized(p, bytes);
		EXPECT_EQ(errors(), bytes == 100 ? 0u : 2u) << bytes;
	}
	EXPECT_EQ(slub_debug("-,malloc-112"), 1);
}

TEST_F(Kunit, kfree_rcu)
{
	make("TestSlub_kfree_rcu", 64, SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON |
			SLUB_CACHE_CONSISTENCY_CHECKS);
	slub_free_deferred(alloc());
	slub_deferred_barrier();
	EXPECT_EQ(slub_cache_validate(cache), 0);
	EXPECT_EQ(errors(), 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(Kunit, leak_destroy)
{
	make("TestSlub_leak_destroy", 64, SLUB_CACHE_RED_ZONE);
	uint8_t *p = alloc();
	EXPECT_EQ(slub_cache_destroy(cache), -EBUSY);
	EXPECT_EQ(errors(), 2u);
	slub_cache_free(cache, p);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} // namespace
