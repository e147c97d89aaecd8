/* SPDX-License-Identifier: MIT */
/*
 * core/malloc/interpose.c and features/api: each answer of the C functions at its limits, and
 * which way of the layers below they take.
 */
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>

#include "harness.h"
#include "slub.h"
#include "start.h"

#define _Static_assert static_assert
extern "C" {
#include "core/slab/key.h"
#include <slub/malloc.h>
#include <slub/mempool.h>
}
#undef _Static_assert

extern "C" void free_sized(void *ptr, size_t bytes);
extern "C" void free_aligned_sized(void *ptr, size_t align, size_t bytes);

/* No container: these run before a constructor does. */
static struct {
	unsigned zero, room, resize, shrink, objects, purge, purge_all, sized, fresh;
	size_t room_bytes, pad, told, align;
	unsigned tries, refused;
	uint32_t flags[4];
	int node;
} calls;
static bool is_purging;
static size_t purges;

/* The linker sends the library's calls to these (--wrap). */
extern "C" void __real_large_zero(void *ptr, size_t bytes);
extern "C" void __real_large_has_room(void *ptr, size_t bytes);
extern "C" void *__real_slow_resize(void *ptr, size_t bytes);
extern "C" void __real_slab_shrink_all(void);
extern "C" void __real_slab_purge_objects(uint64_t deadline_ns, int node);
extern "C" size_t __real_page_purge(size_t bytes);
extern "C" size_t __real_page_purge_all(void);
extern "C" bool __real_sized_check(void *ptr, size_t told, size_t align);
extern "C" void *__real_fast_alloc(size_t bytes);
extern "C" void *__real_slow_alloc_fresh(size_t bytes);

extern "C" void __wrap_large_zero(void *ptr, size_t bytes)
{
	calls.zero++;
	__real_large_zero(ptr, bytes);
}

extern "C" void __wrap_large_has_room(void *ptr, size_t bytes)
{
	calls.room++;
	calls.room_bytes = bytes;
	__real_large_has_room(ptr, bytes);
}

extern "C" void *__wrap_slow_resize(void *ptr, size_t bytes)
{
	calls.resize++;
	return __real_slow_resize(ptr, bytes);
}

extern "C" void __wrap_slab_shrink_all(void)
{
	calls.shrink++;
	__real_slab_shrink_all();
}

extern "C" void __wrap_slab_purge_objects(uint64_t deadline_ns, int node)
{
	calls.objects++;
	calls.node = deadline_ns ? 1000 : node;
	__real_slab_purge_objects(deadline_ns, node);
}

extern "C" size_t __wrap_page_purge(size_t bytes)
{
	calls.purge++;
	calls.pad = bytes;
	return is_purging ? purges : __real_page_purge(bytes);
}

extern "C" size_t __wrap_page_purge_all(void)
{
	calls.purge_all++;
	return is_purging ? purges : __real_page_purge_all();
}

extern "C" bool __wrap_sized_check(void *ptr, size_t told, size_t align)
{
	calls.sized++;
	calls.told = told;
	calls.align = align;
	return __real_sized_check(ptr, told, align);
}

extern "C" void *__wrap_fast_alloc(size_t bytes)
{
	calls.flags[calls.tries++ % 4] = slub_thread.flags;
	if (calls.refused) {
		calls.refused--;
		return nullptr;
	}
	return __real_fast_alloc(bytes);
}

extern "C" void *__wrap_slow_alloc_fresh(size_t bytes)
{
	calls.fresh++;
	return __real_slow_alloc_fresh(bytes);
}

namespace {

class Interpose : public testing::Test {
protected:
	void SetUp() override
	{
		if (SLUB_CONFIG_HARDENED)
			GTEST_SKIP() << "a block has the bytes that were asked for";
		static char ignore[] = "SLUB_ON_ERROR=ignore";
		char *environment[] = { ignore, nullptr };

		option_read(environment);
		calls = {};
		errno = 0;
	}
	void refused(void *ptr, int err)
	{
		EXPECT_EQ(ptr, nullptr);
		EXPECT_EQ(errno, err);
		errno = 0;
	}
};

/* Bytes that the block has; 0: it is a large one. */
size_t class_bytes_of(void *ptr)
{
	struct slub_cache *cache = cache_of(ptr);

	return cache ? cache->object_size : 0;
}

TEST_F(Interpose, CallocAtEachLimit)
{
	for (size_t bytes : { (size_t)0, (size_t)1, CLASS_WORD_MAX, CLASS_WORD_MAX + 1,
			      CLASS_BYTES_MAX, CLASS_BYTES_MAX + 1, (size_t)100000 }) {
		void *ptr = memset(malloc(bytes), 0xee, bytes);

		free(ptr);
		calls = {};
		ptr = calloc(bytes, 1);
		ASSERT_NE(ptr, nullptr);
		EXPECT_EQ(harness::first_nonzero(ptr, bytes), bytes);
		EXPECT_EQ(class_bytes_of(ptr) != 0, bytes <= CLASS_BYTES_MAX) << bytes;
		EXPECT_EQ(calls.zero, bytes > CLASS_BYTES_MAX) << "a block that was written to";
		free(ptr);
	}
	refused(calloc(SIZE_MAX, 2), ENOMEM);
	refused(calloc((size_t)1 << 32, (size_t)1 << 32), ENOMEM);
	refused(calloc(SIZE_MAX, 1), ENOMEM);
	void *fresh = calloc(1, 40 << 20);
	calls = {};
	free(fresh);
	free(calloc(1, 80 << 20));
	EXPECT_EQ(calls.zero, 0u) << "memory that nobody has written to";
}

/* A key that stays would make the program's block look free. */
TEST_F(Interpose, NoBlockKeepsTheKeyOfAFreeOne)
{
	harness::one_cpu stays;

	for (size_t bytes : { 16, 100, 1000, 3000, 4096, 20000 }) {
		for (auto alloc : { +[](size_t n) { return malloc(n); },
				    +[](size_t n) { return slub_malloc(n); },
				    +[](size_t n) { return aligned_alloc(16, n); },
				    +[](size_t n) { return aligned_alloc(32, n); } }) {
			void *kept[3];

			for (int round = 0; round < 4; round++) {
				for (void *&block : kept) {
					block = alloc(bytes);
					ASSERT_FALSE(key_is_set(cache_of(block), block)) << bytes;
				}
				for (void *block : kept)
					free(block);
			}
		}
	}
}

/* What is freed goes before what is fresh. */
TEST_F(Interpose, CallocOfPagesLooksAtTheListFirst)
{
	if (percpu_backend != BACKEND_RSEQ)
		GTEST_SKIP() << "no area is this thread's";
	void *blocks[4];

	for (void *&block : blocks)
		block = malloc(20000);
	for (void *block : blocks)
		free(block);
	calls = {};
	free(calloc(1, 20000));
	EXPECT_EQ(calls.fresh, 0u);
}

TEST_F(Interpose, ReallocLeavesRoomInLargeBlocksAlone)
{
	struct {
		size_t from, to, room;		/* 0: none is told of */
	} const rows[] = {
		{ 32768, 32769, 32769 }, { 32000, 32700, 0 }, { 20000, 21000, 0 },
		{ 400, 512, 0 }, { 32768, 41000, 0 }, { 32768, 40960, 40960 },
	};

	for (auto &row : rows) {
		void *ptr = malloc(row.from);
		const size_t have = malloc_usable_size(ptr);

		harness::fill(ptr, row.from, 5);
		calls = {};
		ptr = realloc(ptr, row.to);
		ASSERT_NE(ptr, nullptr);
		if (row.to > have) {
			EXPECT_EQ(calls.room_bytes, row.room) << row.from << " to " << row.to;
		}
		EXPECT_TRUE(harness::intact(ptr, std::min(row.from, row.to), 5));
		free(ptr);
	}
}

TEST_F(Interpose, ReallocThatDoesNothingLooksNoFurther)
{
	struct {
		size_t from, to;
		bool stays;
		unsigned resizes;
	} const rows[] = {
		{ 1000, 1024, true, 0 }, { 1000, 512, true, 0 }, { 1000, 511, false, 0 },
		{ 1000, 1025, false, 0 }, { 1000, 32768, false, 0 }, { 1000, 32769, false, 1 },
		{ 100000, 106496, true, 0 }, { 100000, 100001, true, 0 },
		{ 100000, 32768, false, 1 },
	};

	for (auto &row : rows) {
		void *ptr = malloc(row.from), *to;

		harness::fill(ptr, row.from, 6);
		calls = {};
		to = realloc(ptr, row.to);
		EXPECT_EQ(to == ptr, row.stays) << row.from << " to " << row.to;
		EXPECT_EQ(calls.resize, row.resizes) << row.from << " to " << row.to;
		EXPECT_TRUE(harness::intact(to, std::min(row.from, row.to), 6));
		free(to);
	}
}

TEST_F(Interpose, ReallocThatCannotBe)
{
	harness::one_cpu stays;
	int foreign[16];

	for (size_t bytes : { 100, 100000 }) {
		void *ptr = malloc(bytes);

		harness::fill(ptr, bytes, 7);
		refused(realloc(ptr, (size_t)PTRDIFF_MAX + 1), ENOMEM);
		refused(realloc(ptr, PTRDIFF_MAX), ENOMEM);
		refused(reallocarray(ptr, SIZE_MAX / 2, 3), ENOMEM);
		EXPECT_TRUE(harness::intact(ptr, bytes, 7));
		ptr = reallocarray(ptr, 3, bytes);
		EXPECT_TRUE(harness::intact(ptr, bytes, 7));
		EXPECT_GE(malloc_usable_size(ptr), 3 * bytes);
		EXPECT_EQ(realloc(ptr, 0), nullptr);
		EXPECT_EQ(errno, 0);
		void *again = malloc(3 * bytes);
		EXPECT_EQ(again, ptr) << "it was free";
		free(again);
	}
	refused(realloc(foreign, 10), ENOMEM);
	refused(realloc(foreign, 0), ENOMEM);
	EXPECT_EQ(malloc_usable_size(foreign), 0u);
	EXPECT_EQ(malloc_usable_size(nullptr), 0u);
	void *ptr = realloc(nullptr, 100);
	EXPECT_EQ(malloc_usable_size(ptr), 112u);
	free(ptr);
}

TEST_F(Interpose, Alignments)
{
	const size_t top = (size_t)1 << 63;
	void *ptr;

	for (size_t align : { (size_t)0, (size_t)3, (size_t)48, SIZE_MAX })
		refused(aligned_alloc(align, 10), EINVAL);
	for (size_t align : { 1, 2, 16, 32, 64, 4096, 8192, 1 << 20 }) {
		ptr = aligned_alloc(align, 100);
		EXPECT_EQ((uintptr_t)ptr % align, 0u);
		EXPECT_EQ(class_bytes_of(ptr), align > PAGE_BYTES ? 0 : align <= 16 ? 112 :
			  std::max<size_t>(128, align)) << align;
		free(ptr);
	}
	refused(aligned_alloc(top, 1), ENOMEM);
	refused(aligned_alloc(64, SIZE_MAX - 10), ENOMEM);
	refused(memalign(top + 1, 1), EINVAL);
	refused(memalign(top, 1), ENOMEM);
	for (auto [align, is] : { std::pair<size_t, size_t>{ 0, 1 }, { 3, 4 }, { 48, 64 },
				  { 65, 128 }, { 4097, 8192 } }) {
		ptr = memalign(align, 1);
		EXPECT_EQ((uintptr_t)ptr % is, 0u) << align;
		free(ptr);
	}
}

TEST_F(Interpose, PosixMemalign)
{
	void *const untouched = this;
	void *ptr = untouched;

	for (size_t align : { 0, 4, 24, 12, 100 })
		EXPECT_EQ(posix_memalign(&ptr, align, 10), EINVAL) << align;
	EXPECT_EQ(errno, 0);
	EXPECT_EQ(posix_memalign(&ptr, 64, PTRDIFF_MAX), ENOMEM);
	EXPECT_EQ(posix_memalign(&ptr, 8, PTRDIFF_MAX), ENOMEM);
	EXPECT_EQ(ptr, untouched);
	EXPECT_EQ(posix_memalign(&ptr, 8, 10), 0);
	EXPECT_EQ(class_bytes_of(ptr), 16u);
	free(ptr);
	EXPECT_EQ(posix_memalign(&ptr, 256, 10), 0);
	EXPECT_EQ((uintptr_t)ptr % 256, 0u);
	EXPECT_EQ(class_bytes_of(ptr), 256u);
	free(ptr);
}

TEST_F(Interpose, WholePages)
{
	const size_t page = os_page_size();

	for (auto [bytes, is] : { std::pair<size_t, size_t>{ 0, page }, { 1, page }, { page, page },
				  { page + 1, 2 * page } }) {
		void *ptr = pvalloc(bytes);

		EXPECT_EQ((uintptr_t)ptr % page, 0u);
		EXPECT_EQ(class_bytes_of(ptr), is) << bytes;
		free(ptr);
		ptr = valloc(bytes);
		EXPECT_EQ((uintptr_t)ptr % page, 0u);
		EXPECT_EQ(class_bytes_of(ptr), is) << bytes;
		free(ptr);
	}
	refused(pvalloc((size_t)PTRDIFF_MAX + 1), ENOMEM);
	refused(pvalloc(PTRDIFF_MAX), ENOMEM);
	refused(pvalloc(SIZE_MAX), ENOMEM);
	refused(valloc(PTRDIFF_MAX), ENOMEM);
}

TEST_F(Interpose, SizedFreesTellWhatTheyWereTold)
{
	struct {
		size_t align, is;
	} const rows[] = { { 0, 1 }, { 1, 1 }, { 64, 64 } };

	for (auto &row : rows) {
		void *ptr = aligned_alloc(row.align ? row.align : 1, 200);

		calls = {};
		free_aligned_sized(ptr, row.align, 200);
		EXPECT_EQ(calls.sized, 1u);
		EXPECT_EQ(calls.told, 200u);
		EXPECT_EQ(calls.align, row.is);
	}
	calls = {};
	free_aligned_sized(nullptr, 64, 200);
	EXPECT_EQ(calls.sized, 0u) << "there is nothing to look at";
	/* A large block leaves the fast path. */
	free_sized(malloc(50000), 50000);
	EXPECT_EQ(calls.sized, 1u);
	EXPECT_EQ(calls.told, 50000u);
	EXPECT_EQ(calls.align, 0u);
	free_sized(nullptr, 5);
	EXPECT_EQ(calls.sized, 1u);
}

#if defined(__GLIBC__)
TEST_F(Interpose, TrimAsksEachLayerOnce)
{
	malloc_trim(0);
	EXPECT_EQ(calls.shrink, 1u);
	EXPECT_EQ(calls.objects, 1u);
	EXPECT_EQ(calls.node, SLUB_NODE_ANY);
	EXPECT_EQ(calls.purge_all, 1u);
	EXPECT_EQ(calls.purge, 0u);
	malloc_trim(12345);
	EXPECT_EQ(calls.purge_all, 1u);
	EXPECT_EQ(calls.purge, 1u);
	EXPECT_EQ(calls.pad, 12345u);
	is_purging = true;
	for (size_t bytes : { 0, 1, 2, 4096 }) {
		purges = bytes;
		EXPECT_EQ(malloc_trim(0), bytes > 0) << bytes;
		EXPECT_EQ(malloc_trim(1), bytes > 0) << bytes;
	}
	is_purging = false;
	calls = {};
	slub_thread.locks_held++;
	EXPECT_EQ(malloc_trim(0), 0);
	slub_thread.locks_held--;
	EXPECT_EQ(calls.shrink + calls.objects + calls.purge + calls.purge_all, 0u);
}

TEST_F(Interpose, KnobsOfGlibc)
{
	for (int param = -20; param <= 20; param++) {
		bool is_known = param == M_MXFAST ||
				(param >= M_ARENA_MAX && param <= M_TRIM_THRESHOLD);

		EXPECT_EQ(mallopt(param, 1), is_known) << param;
	}
	EXPECT_EQ(mallopt(M_ARENA_MAX, 1), 1);
	EXPECT_EQ(mallopt(M_ARENA_MAX - 1, 1), 0);
	EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 1), 1);
	EXPECT_EQ(mallopt(0, 1), 0);
}
#endif

TEST_F(Interpose, GoodSizesAreWhatABlockHas)
{
	for (size_t bytes : { (size_t)0, (size_t)1, (size_t)100, CLASS_WORD_MAX, CLASS_BYTES_MAX,
			      CLASS_BYTES_MAX + 1, (size_t)100000, (size_t)5 << 20 }) {
		void *ptr = slub_malloc(bytes);

		EXPECT_EQ(slub_good_size(bytes), slub_usable_size(ptr)) << bytes;
		free(ptr);
	}
	EXPECT_EQ(slub_good_size((size_t)PTRDIFF_MAX + 1), 0u);
	EXPECT_GE(slub_good_size(PTRDIFF_MAX), (size_t)PTRDIFF_MAX);
	refused(slub_aligned_alloc(48, 1), EINVAL);
	refused(slub_calloc(SIZE_MAX, 2), ENOMEM);
	void *ptr = slub_realloc(slub_realloc(nullptr, 50), 500);
	EXPECT_EQ(slub_usable_size(ptr), 512u);
	EXPECT_EQ(slub_realloc(ptr, 0), nullptr);
}

/* features/api/block_pool.c */
TEST_F(Interpose, APoolOfBlocksHasTheRightThatItWasAskedWith)
{
	struct slub_mempool *pool = slub_mempool_create_malloc(1, 1000);
	const uint32_t before = slub_thread.flags, R = THREAD_RESERVE;
	struct {
		unsigned flags;
		uint32_t had, has;	/* at the second try, behind the pool's own reserve */
	} const rows[] = {
		{ 0, 0, 0 }, { 0, R, R }, { SLUB_POOL_RESERVE, 0, R }, { SLUB_POOL_RESERVE, R, R },
	};

	ASSERT_NE(pool, nullptr);
	void *own = slub_mempool_alloc_reserved(pool);
	for (auto &row : rows) {
		slub_thread.flags = (uint16_t)((before & ~R) | row.had);
		calls = {};
		calls.refused = 1;
		void *block = slub_mempool_alloc(pool, row.flags);
		EXPECT_EQ(calls.tries, 2u);
		EXPECT_EQ(calls.flags[0] & R, 0u) << "the first try leaves it to others";
		EXPECT_EQ(calls.flags[1] & R, row.has) << row.flags;
		EXPECT_EQ(slub_thread.flags, (uint16_t)((before & ~R) | row.had)) << "as it was";
		EXPECT_EQ(malloc_usable_size(block), 1024u);
		slub_thread.flags = (uint16_t)before;
		free(block);
	}
	calls = {};
	calls.refused = 1;
	EXPECT_EQ(slub_mempool_alloc(pool, SLUB_POOL_NO_RESERVE), nullptr);
	EXPECT_EQ(calls.tries, 1u);
	slub_mempool_free(pool, own);
	slub_mempool_destroy(pool);
	for (size_t size : { (size_t)0, (size_t)PTRDIFF_MAX + 1, SIZE_MAX })
		refused(slub_mempool_create_malloc(1, size), EINVAL);
	refused(slub_mempool_create_malloc(1, PTRDIFF_MAX), ENOMEM);
}

TEST_F(Interpose, APoolOfBlocksTakesNoSmallerOnes)
{
	struct slub_mempool *pool = slub_mempool_create_malloc(2, 1024);
	void *large_enough = malloc(1024), *too_small = malloc(1000 - 104);
	struct slub_mempool_stats stats = {};

	ASSERT_NE(pool, nullptr);
	slub_mempool_free(pool, large_enough);
	slub_mempool_stats(pool, &stats);
	EXPECT_EQ(stats.refused, 0u);
	slub_mempool_free(pool, too_small);
	slub_mempool_stats(pool, &stats);
	EXPECT_EQ(stats.refused, 1u);
	EXPECT_EQ(malloc_usable_size(too_small), 896u) << "left alone";
	free(too_small);
	slub_mempool_destroy(pool);
}

TEST(InterposeMessages, OfAPoolOfBlocks)
{
	std::string said;
	int status = harness::in_child([] {
		log_enable(true);
		slub_mempool_create_malloc(1, 0);
		_exit(0);
	}, &said);

	EXPECT_EQ(harness::describe_status(status), "exit 0");
	EXPECT_EQ(said.substr(said.find(' ') + 1), "slub_mempool_create_malloc: a block has 1 to " +
		  std::to_string(PTRDIFF_MAX) + " bytes\n");
}

} /* namespace */
