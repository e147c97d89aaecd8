/* SPDX-License-Identifier: MIT */
/* Promise: slub/mempool.h, without waiting. */
#include <gtest/gtest.h>
#include <cerrno>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include <slub/debug.h>
#include <slub/reserve.h>
#include "source.h"

namespace {

TEST(Mempool, FillsItsReserveAndGivesItBack)
{
	Source source;
	slub_mempool *pool = source.pool(5);

	ASSERT_NE(pool, nullptr);
	EXPECT_EQ(source.given, 5);
	EXPECT_EQ(stats_of(pool).available, 5u);
	EXPECT_EQ(stats_of(pool).min_nr, 5u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(source.out(), 0);
}

TEST(Mempool, AsksTheFunctionBeforeTheReserve)
{
	Source source;
	slub_mempool *pool = source.pool(2);
	void *element = slub_mempool_alloc(pool, 0);

	EXPECT_EQ(source.given, 3);
	EXPECT_EQ(source.last_flags, (unsigned)SLUB_ALLOC_NO_RESERVE);
	EXPECT_EQ(stats_of(pool).available, 2u);
	slub_mempool_free(pool, element);
	EXPECT_EQ(source.taken_back, 1);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(Mempool, TheReserveIsThereWhenNothingElseIs)
{
	for (size_t min_nr : { 1, 2, 31, 32, 33, 500, 2000 }) {
		SCOPED_TRACE(min_nr);
		Source source;
		slub_mempool *pool = source.pool(min_nr);
		std::set<void *> seen;

		source.left = 0;
		for (size_t i = 0; i < min_nr; i++) {
			void *element = slub_mempool_alloc(pool, 0);

			ASSERT_NE(element, nullptr) << i;
			EXPECT_TRUE(seen.insert(element).second);
		}
		errno = 0;
		EXPECT_EQ(slub_mempool_alloc(pool, 0), nullptr);
		EXPECT_EQ(errno, ENOMEM);
		EXPECT_EQ(stats_of(pool).taken, min_nr);
		for (void *element : seen)
			slub_mempool_free(pool, element);
		EXPECT_EQ(source.taken_back, 0) << "they belong into the reserve";
		EXPECT_EQ(stats_of(pool).available, min_nr);
		EXPECT_EQ(slub_mempool_destroy(pool), 0);
		EXPECT_EQ(source.out(), 0);
	}
}

TEST(Mempool, TheReserveFillsBeforeTheFunctionGetsAny)
{
	Source source;
	slub_mempool *pool = source.pool(2);
	void *extra = slub_mempool_alloc(pool, 0);
	void *kept = slub_mempool_alloc_reserved(pool);

	ASSERT_NE(kept, nullptr);
	slub_mempool_free(pool, extra);
	EXPECT_EQ(source.taken_back, 0);
	EXPECT_EQ(stats_of(pool).available, 2u);
	slub_mempool_free(pool, kept);
	EXPECT_EQ(source.taken_back, 1);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(Mempool, ReservedOnlyDoesNotAsk)
{
	Source source;
	slub_mempool *pool = source.pool(1);
	void *element = slub_mempool_alloc_reserved(pool);

	EXPECT_EQ(source.given, 1);
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc_reserved(pool), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	slub_mempool_free(pool, element);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(Mempool, PassesTheRightToTheReserveOnTheSecondTry)
{
	Source source;
	slub_mempool *pool = source.pool(1);

	source.left = 0;
	void *element = slub_mempool_alloc(pool, 0);
	EXPECT_EQ(slub_mempool_alloc(pool, SLUB_POOL_RESERVE), nullptr);
	EXPECT_EQ(source.last_flags, (unsigned)SLUB_ALLOC_RESERVE);
	EXPECT_EQ(slub_mempool_alloc(pool, SLUB_POOL_NO_RESERVE), nullptr);
	EXPECT_EQ(source.last_flags, (unsigned)SLUB_ALLOC_NO_RESERVE);
	slub_mempool_free(pool, element);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(Mempool, CallbacksSeeEachElement)
{
	Source source;
	slub_mempool_args args = source.args(1);

	args.init_fn = Source::init;
	args.reset_fn = Source::reset;
	slub_mempool *pool = slub_mempool_create_args(&args);

	EXPECT_EQ(source.inits, 0) << "in the reserve an element is not in use";
	source.left = 0;
	for (int i = 1; i <= 3; i++) {
		auto *element = static_cast<Element *>(slub_mempool_alloc(pool, 0));

		EXPECT_EQ(element->uses, 1u) << "was reset when it came back";
		EXPECT_EQ(source.inits, i);
		slub_mempool_free(pool, element);
		EXPECT_EQ(source.resets, i);
	}
	source.left = 10;
	slub_mempool_free(pool, slub_mempool_alloc(pool, 0));
	EXPECT_EQ(source.inits, 4);
	EXPECT_EQ(source.resets, 3) << "free_fn() has it: nothing to reset";
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

/* A function that uses the pool's own and other pools: no lock may be held. */
struct Nested {
	slub_mempool *other;
	int calls;
};

void *nested_alloc(unsigned int, void *data)
{
	auto *nested = static_cast<Nested *>(data);

	nested->calls++;
	slub_mempool_free(nested->other, slub_mempool_alloc(nested->other, 0));
	return malloc(32);
}

void nested_free(void *element, void *data)
{
	nested_alloc(0, data) ? (void)0 : (void)0;
	free(element);
}

TEST(Mempool, FunctionsMayUseOtherPools)
{
	Source source;
	Nested nested = { source.pool(1), 0 };
	slub_mempool *pool = slub_mempool_create(4, nested_alloc, nested_free, &nested);

	ASSERT_NE(pool, nullptr);
	EXPECT_EQ(nested.calls, 4);
	EXPECT_EQ(slub_mempool_resize(pool, 40), 0);
	EXPECT_EQ(slub_mempool_resize(pool, 2), 0);
	EXPECT_EQ(nested.calls, 40 + 38);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(slub_mempool_destroy(nested.other), 0);
}

TEST(Mempool, ResizeGrowsAndShrinks)
{
	Source source;
	slub_mempool *pool = source.pool(3);

	for (size_t to : { 4, 32, 33, 700, 701, 20, 5000, 1, 2 }) {
		ASSERT_EQ(slub_mempool_resize(pool, to), 0) << to;
		EXPECT_EQ(stats_of(pool).min_nr, to);
		EXPECT_EQ(stats_of(pool).available, to);
		EXPECT_EQ(source.out(), (long)to);
	}
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(source.out(), 0);
}

TEST(Mempool, ResizeBelowWhatIsOut)
{
	Source source;
	slub_mempool *pool = source.pool(8);
	std::vector<void *> out;

	source.left = 0;
	for (int i = 0; i < 6; i++)
		out.push_back(slub_mempool_alloc(pool, 0));
	EXPECT_EQ(slub_mempool_resize(pool, 3), 0);
	EXPECT_EQ(stats_of(pool).available, 2u);
	for (void *element : out)
		slub_mempool_free(pool, element);
	EXPECT_EQ(stats_of(pool).available, 3u);
	EXPECT_EQ(source.taken_back, 5);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(source.out(), 0);
}

TEST(Mempool, ResizeWithElementsOutKeepsTheirPlaces)
{
	Source source;
	slub_mempool *pool = source.pool(4);
	void *out = slub_mempool_alloc_reserved(pool);

	EXPECT_EQ(slub_mempool_resize(pool, 64), 0);
	EXPECT_EQ(stats_of(pool).available, 63u);
	slub_mempool_free(pool, out);
	EXPECT_EQ(stats_of(pool).available, 64u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(source.out(), 0);
}

TEST(Mempool, ResizeThatFailsChangesNothing)
{
	Source source;
	slub_mempool *pool = source.pool(4);

	source.left = 3;
	EXPECT_EQ(slub_mempool_resize(pool, 64), -ENOMEM);
	EXPECT_EQ(slub_mempool_resize(pool, 0), -EINVAL);
	EXPECT_EQ(slub_mempool_resize(pool, SIZE_MAX), -EINVAL);
	EXPECT_EQ(slub_mempool_resize(nullptr, 4), -EINVAL);
	EXPECT_EQ(stats_of(pool).min_nr, 4u);
	EXPECT_EQ(source.out(), 4);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(Mempool, BulkIsAllOrNothing)
{
	Source source;
	slub_mempool *pool = source.pool(6);
	void *elements[64];

	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 64, elements), 64u);
	EXPECT_EQ(std::set<void *>(elements, elements + 64).size(), 64u);
	slub_mempool_free_bulk(pool, 64, elements);
	EXPECT_EQ(source.out(), 6);

	source.left = 4;
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 10, elements), 10u);
	EXPECT_EQ(stats_of(pool).available, 0u);
	slub_mempool_free_bulk(pool, 10, elements);
	EXPECT_EQ(stats_of(pool).available, 6u);

	errno = 0;
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 11, elements), 0u);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(stats_of(pool).available, 6u);
	EXPECT_EQ(source.left, 4) << "what was had is given back";
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 0, elements), 0u);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 7, elements), 0u);
	EXPECT_EQ(errno, EINVAL) << "could wait for ever";
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(Mempool, BulkFreeSkipsNull)
{
	Source source;
	slub_mempool *pool = source.pool(1);
	void *elements[3] = { nullptr, slub_mempool_alloc(pool, 0), nullptr };

	slub_mempool_free_bulk(pool, 3, elements);
	slub_mempool_free_bulk(pool, 0, nullptr);
	slub_mempool_free(pool, nullptr);
	EXPECT_EQ(source.out(), 1);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(Mempool, OfACache)
{
	slub_cache *cache = slub_cache_create("pooled", 200, 64, SLUB_CACHE_NO_MERGE, nullptr);
	slub_cache *other = slub_cache_create("not-pooled", 200, 64, SLUB_CACHE_NO_MERGE, nullptr);
	slub_mempool *pool = slub_mempool_create_slab(10, cache);
	void *elements[100];

	ASSERT_NE(pool, nullptr);
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 100, elements), 100u);
	for (void *element : elements) {
		EXPECT_EQ(slub_cache_of(element), cache);
		EXPECT_EQ((uintptr_t)element % 64, 0u);
	}
	slub_mempool_free_bulk(pool, 100, elements);

	void *foreign = slub_cache_alloc(other);
	slub_mempool_free(pool, foreign);
	EXPECT_EQ(stats_of(pool).refused, 1u);
	slub_cache_free(other, foreign);	/* it was left alone */
	EXPECT_EQ(slub_cache_destroy(cache), -EBUSY) << "the reserve is of it";
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

TEST(Mempool, OfBlocks)
{
	for (size_t size : { 1, 100, 5000, 100000, 3000000 }) {
		SCOPED_TRACE(size);
		slub_mempool *pool = slub_mempool_create_malloc(3, size);
		int here = 0;

		ASSERT_NE(pool, nullptr);
		void *block = slub_mempool_alloc(pool, 0);
		harness::fill(block, size, 7);
		EXPECT_TRUE(harness::intact(block, size, 7));
		slub_mempool_free(pool, block);
		slub_mempool_free(pool, &here);
		EXPECT_EQ(stats_of(pool).refused, 1u);
		EXPECT_EQ(slub_mempool_destroy(pool), 0);
	}
	errno = 0;
	EXPECT_EQ(slub_mempool_create_malloc(3, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(slub_mempool_create_malloc(3, SIZE_MAX), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

/* The library's reserve: for who asks for it, and after the pool's own. */
TEST(Mempool, OfBlocksWithTheRightToTheReserve)
{
	EXPECT_EQ(harness::in_child([] {
		/* Samples of a profile have a class of their own, so one refusal says little. */
		auto can_be_had = [] {
			for (int i = 0; i < 100; i++) {
				if (harness::opaque(malloc(1000)))
					return true;
			}
			return false;
		};
		slub_mempool *pool = slub_mempool_create_malloc(1, 1000);
		struct rlimit none = { 0, 0 };

		if (!pool || slub_reserve_set(256 << 10))
			_exit(1);
		setrlimit(RLIMIT_DATA, &none);
		while (can_be_had())
			continue;
		size_t bytes = slub_reserve_bytes();
		slub_reserve_enter();
		/* With the right to both the pool's comes first. */
		if (!slub_mempool_alloc(pool, 0) || slub_reserve_bytes() != bytes)
			_exit(2);
		slub_reserve_leave();
		if (slub_mempool_alloc(pool, 0) || slub_mempool_alloc(pool, SLUB_POOL_NO_RESERVE))
			_exit(3);
		if (!slub_mempool_alloc(pool, SLUB_POOL_RESERVE) || can_be_had())
			_exit(4);
		_exit(0);
	}), 0);
}

TEST(MempoolMisuse, Create)
{
	Source source;
	slub_mempool_args none = {};
	struct {
		size_t min_nr;
		bool has_alloc, has_free;
	} bad[] = { { 0, true, true }, { SLUB_MEMPOOL_NR_MAX + 1, true, true },
		    { SIZE_MAX, true, true }, { 1, false, true }, { 1, true, false } };

	for (auto &b : bad) {
		errno = 0;
		EXPECT_EQ(slub_mempool_create(b.min_nr, b.has_alloc ? Source::alloc : nullptr,
					      b.has_free ? Source::free_one : nullptr, &source),
			  nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	EXPECT_EQ(slub_mempool_create_args(nullptr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(slub_mempool_create_args(&none), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(slub_mempool_create_slab(1, nullptr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(source.given, 0);

	source.left = 6;
	errno = 0;
	EXPECT_EQ(source.pool(7), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(source.out(), 0);
}

TEST(MempoolMisuse, Flags)
{
	Source source;
	slub_mempool *pool = source.pool(1);

	for (unsigned flags : { (unsigned)SLUB_ALLOC_ZERO, 1u << 9, ~0u,
				SLUB_POOL_WAIT | (unsigned)SLUB_ALLOC_ZERO }) {
		errno = 0;
		EXPECT_EQ(slub_mempool_alloc(pool, flags), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc(nullptr, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

TEST(MempoolMisuse, FreeOfForeignAndTwice)
{
	Source source;
	slub_mempool_args args = source.args(2);

	args.owns_fn = Source::owns;
	slub_mempool *pool = slub_mempool_create_args(&args);
	Element foreign = { 1, 2 };

	slub_mempool_free(pool, &foreign);
	EXPECT_EQ(stats_of(pool).refused, 1u);
	EXPECT_EQ(foreign.uses, 2u);

	void *first = slub_mempool_alloc_reserved(pool);
	void *second = slub_mempool_alloc_reserved(pool);
	slub_mempool_free(pool, first);
	slub_mempool_free(pool, first);
	EXPECT_EQ(stats_of(pool).refused, 2u);
	EXPECT_EQ(stats_of(pool).available, 1u);
	slub_mempool_free(pool, second);
	EXPECT_EQ(stats_of(pool).available, 2u);

	/* Twice in one call, between others. */
	void *elements[3] = { slub_mempool_alloc_reserved(pool), nullptr,
			      slub_mempool_alloc_reserved(pool) };
	elements[1] = elements[2];
	slub_mempool_free_bulk(pool, 3, elements);
	EXPECT_EQ(stats_of(pool).refused, 3u);
	EXPECT_EQ(stats_of(pool).available, 2u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(source.out(), 0);
}

/* A watched cache finds what the pool does not look for. */
void free_twice_while_full(unsigned long letter)
{
	slub_cache *cache = slub_cache_create("pooled-watched", 200, 0,
					      SLUB_CACHE_NO_MERGE | letter, nullptr);
	slub_mempool *pool = slub_mempool_create_slab(2, cache);

	ASSERT_NE(pool, nullptr);
	void *element = slub_mempool_alloc(pool, 0);
	slub_mempool_free(pool, element);
	EXPECT_EQ(slub_cache_errors(cache), 0u);
	slub_mempool_free(pool, element);
	EXPECT_GT(slub_cache_errors(cache), 0u) << "at once: both went to the cache";

	unsigned long before = slub_cache_errors(cache);
	void *kept = slub_mempool_alloc_reserved(pool);
	slub_mempool_free(pool, kept);
	EXPECT_EQ(stats_of(pool).available, 2u);
	slub_mempool_free(pool, kept);
	EXPECT_EQ(slub_cache_errors(cache), before) << "to the cache it is the first";
	EXPECT_EQ(stats_of(pool).refused, 0u);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_GT(slub_cache_errors(cache), before) << "when it leaves the reserve too";
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST(MempoolMisuse, FreedTwiceWhileTheReserveIsFull)
{
	if (getenv("SLUB_PROFILE"))
		GTEST_SKIP() << "objects that are sampled are not watched";
	for (unsigned long letter : { SLUB_CACHE_CONSISTENCY_CHECKS, SLUB_CACHE_RED_ZONE }) {
		SCOPED_TRACE(letter);
		free_twice_while_full(letter);
	}
}

TEST(MempoolMisuse, Destroy)
{
	Source source;
	slub_mempool *pool = source.pool(2);
	void *element = slub_mempool_alloc_reserved(pool);

	EXPECT_EQ(slub_mempool_destroy(nullptr), 0);
	EXPECT_EQ(slub_mempool_destroy(pool), -EBUSY);
	slub_mempool_free(pool, element);
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(slub_mempool_destroy(pool), -EINVAL);
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc(pool, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
	slub_mempool_free(pool, &source);
	struct slub_mempool_stats stats;
	EXPECT_EQ(slub_mempool_stats(pool, &stats), -EINVAL);
	EXPECT_EQ(slub_mempool_resize(pool, 5), -EINVAL);
}

TEST(Mempool, ManyPoolsUseLittleAndComeBack)
{
	std::vector<slub_mempool *> pools;
	Source source;

	for (int i = 0; i < 1000; i++)
		pools.push_back(source.pool(1 + i % 50));
	for (slub_mempool *pool : pools)
		ASSERT_EQ(slub_mempool_destroy(pool), 0);
	EXPECT_EQ(source.out(), 0);
}

TEST(Mempool, WorksInAForkedChild)
{
	Source source;
	slub_mempool *pool = source.pool(2);
	int status = harness::in_child([&] {
		void *element = slub_mempool_alloc_reserved(pool);

		slub_mempool_free(pool, element);
		_exit(element && slub_mempool_destroy(pool) == 0 ? 0 : 1);
	});

	EXPECT_EQ(harness::describe_status(status), "exit 0");
	EXPECT_EQ(slub_mempool_destroy(pool), 0);
}

} /* namespace */
