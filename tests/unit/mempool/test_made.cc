/* SPDX-License-Identifier: MIT */
/* pool_create.c, qmempool.c: pools made, resized and destroyed, and what is refused. */
#include "source.h"

extern "C" {
#include "features/guard/guard.h"
}

#include <slub/debug.h>
#include <slub/qmempool.h>

namespace {

struct {
	int zallocs_refused, allocs_refused, larges_refused;	/* the next so many */
	int with;						/* this errno */
	size_t prefilled = SIZE_MAX;				/* the last number asked for */
	int prefill_answer;
	std::vector<size_t> larges;				/* bytes */
	int nr_large_frees, larges_passed;			/* before those refused */
	std::vector<struct slub_cache *> freed_to;
} now;

} /* namespace */

extern "C" {
void *__real_slub_cache_zalloc(struct slub_cache *);
void *__real_slub_cache_alloc_flags(struct slub_cache *, unsigned int);
int __real_slub_cache_prefill(struct slub_cache *, struct slub_prefill *, size_t);
void __real_slub_cache_free(struct slub_cache *, void *);
void *__real_large_alloc(size_t, size_t, bool *);
void __real_large_free(void *);

void *__wrap_slub_cache_zalloc(struct slub_cache *cache)
{
	if (!now.zallocs_refused)
		return __real_slub_cache_zalloc(cache);
	now.zallocs_refused--;
	errno = now.with;
	return nullptr;
}

void *__wrap_slub_cache_alloc_flags(struct slub_cache *cache, unsigned int flags)
{
	if (!now.allocs_refused)
		return __real_slub_cache_alloc_flags(cache, flags);
	now.allocs_refused--;
	errno = now.with;
	return nullptr;
}

int __wrap_slub_cache_prefill(struct slub_cache *cache, struct slub_prefill *prefill, size_t nr)
{
	now.prefilled = nr;
	return now.prefill_answer ? now.prefill_answer :
				    __real_slub_cache_prefill(cache, prefill, nr);
}

void __wrap_slub_cache_free(struct slub_cache *cache, void *object)
{
	now.freed_to.push_back(cache);
	__real_slub_cache_free(cache, object);
}

void *__wrap_large_alloc(size_t bytes, size_t align, bool *is_zero)
{
	now.larges.push_back(bytes);
	if (now.larges_refused && now.larges_passed-- <= 0) {
		now.larges_refused--;
		return nullptr;
	}
	return __real_large_alloc(bytes, align, is_zero);
}

void __wrap_large_free(void *block)
{
	now.nr_large_frees++;
	__real_large_free(block);
}
}

namespace {

class pools : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] {
			start::slab(512ul << 20, 16ul << 20);
			ASSERT_EQ(deferred_init(), 0);
		});
	}
	void SetUp() override { now = {}; }
	void end(slub_mempool *pool) { EXPECT_EQ(slub_mempool_destroy(pool), 0); }
	/* No pool, with that errno and these words. */
	static void expect_none(const std::function<void *()> &act, int error,
				const std::string &text)
	{
		EXPECT_EQ(said([&] {
			errno = 0;
			EXPECT_EQ(act(), nullptr);
			EXPECT_EQ(errno, error);
		}), text);
	}

	struct source source;
};

using queued = pools;

/* ---- made ---- */

TEST_F(pools, are_made_of_what_they_need)
{
	const std::string of = "slub_mempool_create: ";
	auto make = [&](size_t nr) {
		return slub_mempool_create(nr, source::alloc, source::release, &source);
	};

	expect_none([&] { return slub_mempool_create_args(nullptr); }, EINVAL,
		    of + "no arguments\n");
	for (size_t nr : { (size_t)0, ((size_t)1 << 24) + 1, SIZE_MAX })
		expect_none([&] { return make(nr); }, EINVAL,
			    of + "a pool has 1 to 16777216 elements\n");
	expect_none([&] { return slub_mempool_create(1, nullptr, source::release, nullptr); },
		    EINVAL, of + "alloc_fn and free_fn are needed\n");
	expect_none([&] { return slub_mempool_create(1, source::alloc, nullptr, nullptr); },
		    EINVAL, of + "alloc_fn and free_fn are needed\n");
	expect_none([&] { return slub_mempool_create_slab(1, nullptr); }, EINVAL,
		    "slub_mempool_create_slab: no cache\n");
	EXPECT_EQ(source.asked.size(), 0u);
	/* The most there may be: the function has none. */
	source.left = 0;
	expect_none([&] { return make((size_t)1 << 24); }, ENOMEM, "");
	EXPECT_EQ(now.larges, std::vector<size_t>{ sizeof(void *) << 24 });
	EXPECT_EQ(now.nr_large_frees, 1);
}

TEST_F(pools, are_filled)
{
	for (size_t nr : { 1, 31, 32, 33 }) {
		now.larges.clear();
		now.nr_large_frees = 0;
		source = {};
		slub_mempool *pool = slub_mempool_create(nr, source::alloc, source::release,
							 &source);

		ASSERT_NE(pool, nullptr);
		EXPECT_EQ(source.asked, std::vector<unsigned int>(nr, 0));
		EXPECT_EQ(pool->nr, nr);
		EXPECT_EQ(pool->min_nr, nr);
		EXPECT_EQ(pool->capacity, nr > 32 ? nr : 32u);
		EXPECT_EQ(now.larges, nr > 32 ? std::vector<size_t>{ nr * sizeof(void *) } :
						std::vector<size_t>{});
		for (size_t i = 0; i < nr; i++)
			EXPECT_EQ(pool->elements[i], source::nth(i + 1));
		end(pool);
		EXPECT_EQ(now.nr_large_frees, nr > 32 ? 1 : 0);
		ASSERT_EQ(source.freed.size(), nr);
		for (size_t i = 0; i < nr; i++)
			EXPECT_EQ(source.freed[i], source::nth(nr - i)) << "the last one first";
	}
}

TEST_F(pools, keep_nothing_of_what_fails)
{
	auto make = [&](size_t nr) {
		return slub_mempool_create(nr, source::alloc, source::release, &source);
	};

	source.left = 3;
	expect_none([&] { return make(5); }, ENOMEM, "");
	EXPECT_EQ(source.freed, source::numbers({ 3, 2, 1 }));
	EXPECT_EQ(now.freed_to.size(), 1u) << "the structure";
	now.larges_refused = 1;
	expect_none([&] { return make(100); }, ENOMEM, "");
	EXPECT_EQ(now.freed_to.size(), 2u);
	EXPECT_EQ(now.nr_large_frees, 0);
	EXPECT_EQ(source.asked.size(), 4u);
	for (auto [with, error] : { std::pair(ENOSPC, ENOSPC), { ENOMEM, ENOMEM },
				    { EINVAL, ENOMEM } }) {
		now.zallocs_refused = 1;
		now.with = with;
		expect_none([&] { return make(1); }, error, "");
	}
	EXPECT_EQ(now.freed_to.size(), 2u);
}

/* ---- destroyed ---- */

TEST_F(pools, are_not_destroyed_in_use)
{
	slub_mempool *pool = source.pool(2);
	uint64_t none[64] = {};
	void *nobody = none;

	EXPECT_EQ(slub_mempool_destroy(nullptr), 0);
	EXPECT_EQ(said([&] { EXPECT_EQ(slub_mempool_destroy((slub_mempool *)nobody), -EINVAL); }),
		  "slub_mempool_destroy: " + text_of(nobody) + " is not a pool\n");
	slub_mempool_alloc_reserved(pool);
	EXPECT_EQ(said([&] { EXPECT_EQ(slub_mempool_destroy(pool), -EBUSY); }),
		  "slub_mempool_destroy: " + text_of(pool) + " has 1 of 2 elements, 0 waiters: "
		  "elements of its reserve are not back\n");
	EXPECT_FALSE(lock_is_mine(&pool->lock));
	slub_mempool_free(pool, source::nth(2));
	pool->nr_waiters = 3;
	EXPECT_EQ(said([&] { EXPECT_EQ(slub_mempool_destroy(pool), -EBUSY); }),
		  "slub_mempool_destroy: " + text_of(pool) + " has 2 of 2 elements, 3 waiters: "
		  "threads wait for an element\n");
	pool->nr_waiters = 0;
	EXPECT_EQ(source.freed.size(), 0u);
	/* Its structure is another pool's, or nobody's: it is no pool any more. */
	now.freed_to.clear();
	EXPECT_EQ(said([&] { end(pool); }), "");
	EXPECT_EQ(now.freed_to.size(), 1u);
	EXPECT_FALSE(pool_is_live(pool));
	EXPECT_EQ(source.freed, source::numbers({ 2, 1 }));
}

TEST_F(pools, with_more_than_they_need_are_destroyed)
{
	slub_mempool *pool = source.pool(3);

	pool->min_nr = 2;
	end(pool);
	EXPECT_EQ(source.freed, source::numbers({ 3, 2, 1 }));
}

/* ---- resized ---- */

TEST_F(pools, become_smaller)
{
	slub_mempool *pool = source.pool(6);

	EXPECT_EQ(slub_mempool_resize(pool, 6), 0);
	EXPECT_EQ(source.freed.size(), 0u);
	EXPECT_EQ(slub_mempool_resize(pool, 4), 0);
	EXPECT_EQ(source.freed, source::numbers({ 6, 5 }));
	EXPECT_EQ(pool->nr, 4u);
	EXPECT_EQ(pool->min_nr, 4u);
	/* What is out already needs not come back. */
	slub_mempool_alloc_reserved(pool);
	EXPECT_EQ(slub_mempool_resize(pool, 3), 0);
	EXPECT_EQ(source.freed.size(), 2u);
	slub_mempool_free(pool, source::nth(4));
	EXPECT_EQ(source.freed, source::numbers({ 6, 5, 4 }));
	EXPECT_EQ(slub_mempool_resize(pool, 1), 0);
	EXPECT_EQ(pool->nr, 1u);
	EXPECT_FALSE(lock_is_mine(&pool->lock));
	end(pool);
}

TEST_F(pools, become_larger)
{
	const struct {
		size_t from, to;
		std::vector<size_t> larges;	/* elements: the new ones, the stack */
		int freed;			/* of these, before the end */
	} all[] = {
		{ 1, 2, {}, 0 }, { 1, 32, {}, 0 }, { 1, 33, { 33 }, 0 }, { 1, 34, { 33, 34 }, 1 },
		{ 33, 34, { 34 }, 1 }, { 40, 72, { 72 }, 1 }, { 40, 73, { 33, 73 }, 2 },
	};

	for (auto &each : all) {
		source = {};
		slub_mempool *pool = source.pool(each.from);
		std::vector<size_t> larges;

		SCOPED_TRACE(std::to_string(each.from) + " to " + std::to_string(each.to));
		now.larges.clear();
		now.nr_large_frees = 0;
		EXPECT_EQ(slub_mempool_resize(pool, each.to), 0);
		for (size_t nr : each.larges)
			larges.push_back(nr * sizeof(void *));
		EXPECT_EQ(now.larges, larges);
		EXPECT_EQ(now.nr_large_frees, each.freed);
		EXPECT_EQ(pool->nr, each.to);
		EXPECT_EQ(pool->min_nr, each.to);
		EXPECT_EQ(pool->capacity, each.to > 32 ? each.to : 32u);
		EXPECT_EQ(source.asked.size(), each.to - each.from);
		for (size_t i = 0; i < each.from; i++)
			EXPECT_EQ(pool->elements[i], source::nth(i + 1)) << "as before";
		EXPECT_EQ(source.freed.size(), 0u);
		end(pool);
		EXPECT_EQ(source.freed.size(), each.to);
	}
	/* What was once there stays. */
	source = {};
	slub_mempool *pool = source.pool(50);
	EXPECT_EQ(slub_mempool_resize(pool, 10), 0);
	now.larges.clear();
	EXPECT_EQ(slub_mempool_resize(pool, 40), 0);
	EXPECT_EQ(now.larges.size(), 0u);
	EXPECT_EQ(pool->capacity, 50u);
	end(pool);
}

TEST_F(pools, stay_as_they_are_where_memory_is_refused)
{
	slub_mempool *pool = source.pool(2);

	for (int passed : { 0, 1 }) {
		now = {};
		now.larges_refused = 1;
		now.larges_passed = passed;
		source.asked.clear();
		EXPECT_EQ(slub_mempool_resize(pool, 100), -ENOMEM);
		EXPECT_EQ(now.larges.size(), 1u + passed);
		EXPECT_EQ(now.nr_large_frees, passed);
		EXPECT_EQ(source.asked.size(), 0u);
	}
	now = {};
	source.left = 2;
	EXPECT_EQ(slub_mempool_resize(pool, 100), -ENOMEM);
	EXPECT_EQ(source.freed, source::numbers({ 4, 3 }));
	EXPECT_EQ(now.larges.size(), 2u);
	EXPECT_EQ(now.nr_large_frees, 2);
	EXPECT_EQ(pool->elements, pool->space);
	EXPECT_EQ(pool->min_nr, 2u);
	EXPECT_EQ(pool->capacity, 32u);
	EXPECT_TRUE(turn_try(&pool->resizing)) << "it is over";
	turn_end(&pool->resizing);
	end(pool);
}

/* Elements come back while new ones are allocated: there is no room for all. */
TEST_F(pools, free_what_they_have_no_more_room_for)
{
	slub_mempool *pool = source.pool(2);

	slub_mempool_alloc_reserved(pool);
	source.on_ask = [&](unsigned int) {
		source.on_ask = nullptr;
		slub_mempool_free(pool, source::nth(2));
		/* One more than there were. */
		pool->elements[pool->nr++] = source::nth(99);
	};
	EXPECT_EQ(slub_mempool_resize(pool, 4), 0);
	EXPECT_EQ(pool->nr, 4u);
	EXPECT_EQ(source.freed, source::numbers({ 3 })) << "one of the new ones";
	EXPECT_EQ(pool->elements[3], source::nth(4));
	end(pool);
}

TEST_F(pools, say_why_they_cannot_be_resized)
{
	slub_mempool *pool = source.pool(2);
	uint64_t none[64] = {};
	auto *nobody = (slub_mempool *)(void *)none;
	const std::string of = "slub_mempool_resize(" + text_of(pool) + ", ";
	struct slub_mempool_stats stats;

	for (size_t nr : { (size_t)0, ((size_t)1 << 24) + 1 })
		EXPECT_EQ(said([&] { EXPECT_EQ(slub_mempool_resize(pool, nr), -EINVAL); }),
			  of + std::to_string(nr) + "): a pool has 1 to 16777216 elements\n");
	EXPECT_EQ(said([&] { EXPECT_EQ(slub_mempool_resize(nobody, 5), -EINVAL); }),
		  "slub_mempool_resize(" + text_of(nobody) + ", 5): not a pool\n");
	source.left = 0;
	EXPECT_EQ(said([&] { EXPECT_EQ(slub_mempool_resize(pool, 1ul << 24), -ENOMEM); }), "");
	EXPECT_EQ(slub_mempool_stats(nobody, &stats), -EINVAL);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_mempool_resize(pool, 1), -EDEADLK);
	EXPECT_EQ(slub_mempool_stats(pool, &stats), -EDEADLK);
	slub_thread.locks_held--;
	EXPECT_EQ(pool->min_nr, 2u);
	end(pool);
}

/* Each number has its own place. */
TEST_F(pools, say_their_numbers)
{
	slub_mempool *pool = source.pool(4);

	slub_mempool_alloc_reserved(pool);
	pool->nr_waiters = 5;
	pool->nr_taken = 6;
	pool->nr_waits = 7;
	pool->nr_timeouts = 8;
	pool->nr_refused = 9;
	struct slub_mempool_stats stats = stats_of(pool);
	EXPECT_EQ(stats.min_nr, 4u);
	EXPECT_EQ(stats.available, 3u);
	EXPECT_EQ(stats.waiters, 5u);
	EXPECT_EQ(stats.taken, 6u);
	EXPECT_EQ(stats.waits, 7u);
	EXPECT_EQ(stats.timeouts, 8u);
	EXPECT_EQ(stats.refused, 9u);
	for (uint64_t each : stats.reserved)
		EXPECT_EQ(each, 0u);
	pool->nr_waiters = 0;
	slub_mempool_free(pool, source::nth(4));
	end(pool);
}

/* ---- fork ---- */

TEST_F(pools, come_through_a_fork)
{
	for (bool in_child : { false, true }) {
		slub_mempool *all[] = { source.pool(1), source.pool(2), source.pool(3) };

		for (auto *pool : all)
			pool->nr_waiters = pool->nr_bulk_waiters = 2;
		lock_fork_begin();
		mempool_fork_prepare();
		for (auto *pool : all)
			EXPECT_TRUE(lock_is_mine(&pool->lock));
		turn_forks += in_child;
		mempool_fork_finish(in_child);
		for (auto *pool : all) {
			EXPECT_FALSE(lock_is_mine(&pool->lock));
			EXPECT_EQ(pool->nr_waiters, in_child ? 0u : 2u);
			EXPECT_EQ(pool->nr_bulk_waiters, in_child ? 0u : 2u);
			pool->nr_waiters = pool->nr_bulk_waiters = 0;
		}
		EXPECT_EQ(slub_thread.locks_held, 0u);
		/* Of three the middle one goes first, so the list is whole. */
		end(all[1]);
		lock_fork_begin();
		mempool_fork_prepare();
		EXPECT_TRUE(lock_is_mine(&all[2]->lock));
		mempool_fork_finish(false);
		end(all[2]);
		end(all[0]);
	}
}

/* ---- of a cache ---- */

TEST_F(pools, of_a_cache_know_its_objects)
{
	struct slub_cache *cache = slub_cache_create("owner", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	struct slub_cache *other = slub_cache_create("other", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	slub_mempool *pool = slub_mempool_create_slab(1, cache);
	auto owns = [&](const void *p) { return pool->args.owns_fn(p, cache); };
	void *p = slub_cache_alloc(cache), *q = slub_cache_alloc(other);

	ASSERT_NE(pool, nullptr);
	EXPECT_TRUE(owns(p));
	EXPECT_FALSE(owns(q));
	EXPECT_FALSE(owns(&pool));
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	ASSERT_EQ(slub_cache_debug(other, SLUB_CACHE_RED_ZONE), 0);
	void *watched = slub_cache_alloc(cache), *watched_other = slub_cache_alloc(other);
	ASSERT_NE(cache_of(watched), cache);
	EXPECT_TRUE(owns(watched)) << "in a cache beside it";
	EXPECT_FALSE(owns(watched_other));
	ASSERT_EQ(guard_open(1), 0);
	void *guarded = guard_alloc(cache, 64, 16), *of_other = guard_alloc(other, 64, 16);
	ASSERT_TRUE(guard_owns(guarded) && guard_owns(of_other));
	EXPECT_TRUE(owns(guarded));
	EXPECT_FALSE(owns(of_other));
	guard_free(guarded, cache);
	EXPECT_FALSE(owns(guarded));
	guard_free(of_other, other);
	for (void *each : { p, watched })
		slub_mempool_free(pool, each);
	for (void *each : { q, watched_other })
		slub_cache_free(other, each);
	EXPECT_EQ(stats_of(pool).refused, 0u);
	end(pool);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

/* ---- queued pools ---- */

TEST_F(queued, have_sizes_within_bounds)
{
	struct slub_cache *cache = slub_cache_create("queued", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	const char *local = "localq must be a power of two from 16 to 4096",
		   *shared = "sharedq must be a power of two from 32 to 1048576",
		   *most = "prealloc must not be above sharedq";
	const struct {
		unsigned int localq, sharedq, prealloc;
		const char *what;	/* NULL: that can be */
	} all[] = {
		{ 8, 64, 0, local }, { 8192, 64, 0, local }, { 24, 64, 0, local },
		{ 0, 64, 0, local }, { 16, 16, 0, shared }, { 16, 1u << 21, 0, shared },
		{ 16, 48, 0, shared }, { 16, 0, 0, shared }, { 16, 32, 33, most },
		{ 16, 32, 32, nullptr }, { 4096, 1u << 20, 0, nullptr },
	};

	for (auto &each : all) {
		slub_qmempool *pool = nullptr;
		std::string text = said([&] {
			errno = 0;
			pool = slub_qmempool_create(each.localq, each.sharedq, each.prealloc, cache,
						    0);
		});

		SCOPED_TRACE(text);
		ASSERT_EQ(pool == nullptr, each.what != nullptr);
		if (each.what) {
			EXPECT_EQ(errno, EINVAL);
			EXPECT_EQ(text, "slub_qmempool_create(" + std::to_string(each.localq) +
					", " + std::to_string(each.sharedq) + ", " +
					std::to_string(each.prealloc) + "): " + each.what + "\n");
			continue;
		}
		EXPECT_EQ(pool->cache, cache);
		EXPECT_EQ(pool->localq, each.localq);
		EXPECT_EQ(pool->sharedq, each.sharedq);
		EXPECT_EQ(pool->prealloc, each.prealloc);
		EXPECT_EQ(pool->magic, 0x716d706fu);
		EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	}
	EXPECT_EQ(said([] { EXPECT_EQ(slub_qmempool_create(16, 32, 0, nullptr, 0), nullptr); }),
		  "slub_qmempool_create(16, 32, 0): no cache\n");
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(queued, are_filled_ahead)
{
	struct slub_cache *cache = slub_cache_create("ahead", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);

	for (auto [nr, prefilled] : { std::pair(0u, SIZE_MAX), { 1u, SIZE_MAX }, { 2u, (size_t)1 },
				      { 30u, (size_t)29 } }) {
		now.prefilled = SIZE_MAX;
		now.freed_to.clear();
		slub_qmempool *pool = slub_qmempool_create(16, 32, nr, cache, 0);

		ASSERT_NE(pool, nullptr);
		EXPECT_EQ(now.prefilled, prefilled);
		EXPECT_EQ(now.freed_to, std::vector<struct slub_cache *>{ cache });
		EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	}
	EXPECT_EQ(slub_cache_destroy(cache), 0) << "each object went back";
}

TEST_F(queued, keep_nothing_of_what_fails)
{
	struct slub_cache *cache = slub_cache_create("failing", 64, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);

	auto make = [&] { return (void *)slub_qmempool_create(16, 32, 8, cache, 0); };
	now.allocs_refused = 1;
	now.with = ENOMEM;
	expect_none(make, ENOMEM, "");
	EXPECT_EQ(now.freed_to.size(), 1u) << "the pool";
	EXPECT_NE(now.freed_to[0], cache);
	EXPECT_EQ(now.prefilled, SIZE_MAX);
	now = {};
	now.prefill_answer = -ENOSPC;
	expect_none(make, ENOSPC, "");
	EXPECT_EQ(now.freed_to.size(), 2u) << "the first object, and the pool";
	EXPECT_EQ(now.freed_to[0], cache);
	now = {};
	now.zallocs_refused = 1;
	now.with = ENOMEM;
	expect_none(make, ENOMEM, "");
	EXPECT_EQ(now.freed_to.size(), 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(queued, say_how_long_lists_are)
{
	struct slub_cache_args args = {};

	args.name = "long-lists";
	args.size = 64;
	args.sheaf_length = 64;
	struct slub_cache *cache = slub_cache_create_args(&args);
	ASSERT_NE(cache, nullptr);
	uint32_t capacity = (uint32_t)cache->capacity;
	for (unsigned int localq : { 16u, 32u, 64u, 128u, 256u, 4096u }) {
		slub_qmempool *pool = nullptr;
		std::string text = said([&] {
			pool = slub_qmempool_create(localq, 32, 0, cache, 0);
		});

		EXPECT_EQ(text, capacity >= localq ? "" :
			  "slub_qmempool_create: cache long-lists holds " +
			  std::to_string(capacity) + " objects per CPU, not " +
			  std::to_string(localq) + "; its sheaf_length says how many\n");
		EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	}
	EXPECT_TRUE(capacity == 64 || capacity == 128) << "one of the above: " << capacity;
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

TEST_F(queued, are_destroyed_once)
{
	struct slub_cache *cache = slub_cache_create("once", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	slub_qmempool *pool = slub_qmempool_create(16, 32, 0, cache, 0);
	struct slub_qmempool nobody = {};

	EXPECT_EQ(slub_qmempool_destroy(nullptr), 0);
	EXPECT_EQ(said([&] { EXPECT_EQ(slub_qmempool_destroy(&nobody), -EINVAL); }),
		  "slub_qmempool_destroy: " + text_of(&nobody) + " is not a pool\n");
	now.freed_to.clear();
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	EXPECT_EQ(now.freed_to.size(), 1u);
	EXPECT_EQ(pool->magic, 0u);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} /* namespace */
