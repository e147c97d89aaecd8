/* SPDX-License-Identifier: MIT */
/*
 * features/mempool/pool.c: whom each call asks, what it keeps, whom it wakes, and what it refuses.
 */
#include "source.h"

namespace {

std::function<void()> at_barrier;
int nr_bulk;
std::vector<std::pair<const void *, bool>> told;	/* is it a release? */

} /* namespace */

extern "C" {
int __real_os_barrier(void);
size_t __real_slub_cache_alloc_bulk(struct slub_cache *, unsigned int, size_t, void **);

int __wrap_os_barrier(void)
{
	if (at_barrier)
		at_barrier();
	return __real_os_barrier();
}

/* What a sanitizer would be told. */
void __wrap_sanitizer_tell_order(const void *key, bool is_release)
{
	told.emplace_back(key, is_release);
}
void __wrap_sanitizer_tell_out(void *element, size_t bytes, bool is_kept)
{
	told.emplace_back(element, !is_kept || bytes);
}

size_t __wrap_slub_cache_alloc_bulk(struct slub_cache *cache, unsigned int flags, size_t nr,
				    void **objects)
{
	nr_bulk++;
	return __real_slub_cache_alloc_bulk(cache, flags, nr, objects);
}
}

namespace {

using flags = std::vector<unsigned int>;
const unsigned int FIRST = SLUB_ALLOC_NO_RESERVE, LAST = SLUB_ALLOC_RESERVE;

class calls : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::slab(128ul << 20, 16ul << 20);
		ASSERT_EQ(deferred_init(), 0);
	}
	void TearDown() override
	{
		at_barrier = nullptr;
		EXPECT_EQ(slub_thread.locks_held, 0u);
	}
	void end(slub_mempool *pool) { EXPECT_EQ(slub_mempool_destroy(pool), 0); }

	struct source source;
};

/* ---- alloc ---- */

TEST_F(calls, ask_the_function_first)
{
	slub_mempool *pool = source.pool(2);

	EXPECT_EQ(slub_mempool_alloc(pool, 0), source::nth(3));
	EXPECT_EQ(source.asked, flags{ FIRST });
	EXPECT_EQ(source.begun, source::numbers({ 3 }));
	EXPECT_EQ(stats_of(pool).taken, 0u);
	slub_mempool_free(pool, source::nth(3));
	EXPECT_EQ(source.freed, source::numbers({ 3 })) << "the reserve is full";
	EXPECT_EQ(source.reset.size(), 0u);
	end(pool);
	EXPECT_EQ(source.freed, source::numbers({ 3, 2, 1 }));
}

TEST_F(calls, take_from_the_reserve_next)
{
	slub_mempool *pool = source.pool(3);
	void *two[2];

	source.left = 0;
	EXPECT_EQ(slub_mempool_alloc(pool, SLUB_POOL_RESERVE), source::nth(3)) << "the last one";
	EXPECT_EQ(source.asked, flags{ FIRST });
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 2, two), 2u);
	EXPECT_EQ(two[0], source::nth(2));
	EXPECT_EQ(two[1], source::nth(1));
	EXPECT_EQ(source.begun, source::numbers({ 3, 2, 1 }));
	struct slub_mempool_stats now = stats_of(pool);
	EXPECT_EQ(now.taken, 3u);
	EXPECT_EQ(now.available, 0u);
	EXPECT_EQ(now.min_nr, 3u);
	EXPECT_EQ(now.waits + now.timeouts + now.waiters + now.refused, 0u);
	slub_mempool_free(pool, source::nth(3));
	slub_mempool_free_bulk(pool, 2, two);
	EXPECT_EQ(source.reset, source::numbers({ 3, 2, 1 }));
	EXPECT_EQ(source.freed.size(), 0u);
	EXPECT_EQ(stats_of(pool).available, 3u);
	EXPECT_EQ(pool->elements[0], source::nth(3));
	EXPECT_EQ(pool->elements[1], source::nth(1)) << "from the last one down";
	EXPECT_EQ(pool->elements[2], source::nth(2));
	end(pool);
}

TEST_F(calls, ask_once_more_as_the_caller_allows)
{
	const struct {
		unsigned int how;
		flags asked;
	} all[] = { { 0, { FIRST, 0 } }, { SLUB_POOL_RESERVE, { FIRST, LAST } },
		    { SLUB_POOL_NO_RESERVE, { FIRST } } };
	slub_mempool *pool = source.pool(1);

	source.left = 0;
	ASSERT_EQ(slub_mempool_alloc_reserved(pool), source::nth(1));
	EXPECT_EQ(source.asked, flags{});
	EXPECT_EQ(source.begun, source::numbers({ 1 }));
	for (auto &each : all) {
		source.asked.clear();
		errno = 0;
		EXPECT_EQ(slub_mempool_alloc(pool, each.how), nullptr);
		EXPECT_EQ(errno, ENOMEM);
		EXPECT_EQ(source.asked, each.asked) << each.how;
	}
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc_reserved(pool), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	source.on_ask = [&](unsigned int how) { source.left = how == FIRST ? 0 : 1; };
	EXPECT_EQ(slub_mempool_alloc(pool, 0), source::nth(2));
	EXPECT_EQ(source.begun, source::numbers({ 1, 2 }));
	slub_mempool_free(pool, source::nth(1));
	end(pool);
}

TEST_F(calls, give_back_what_is_not_enough)
{
	slub_mempool *pool = source.pool(2);
	void *four[4] = {};

	source.left = 1;
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 4, four), 0u);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(source.asked, (flags{ FIRST, FIRST, 0 })) << "it has one, and no more";
	EXPECT_EQ(source.freed, source::numbers({ 3 }));
	EXPECT_EQ(source.begun.size(), 0u);
	EXPECT_EQ(stats_of(pool).available, 2u) << "all or none";
	EXPECT_EQ(stats_of(pool).taken, 0u);
	/* One of the function's, two of the reserve, and the fourth of the function's again. */
	source.left = 1;
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 3, four), 3u);
	EXPECT_EQ(std::vector<void *>(four, four + 3), source::numbers({ 4, 2, 1 }));
	EXPECT_EQ(source.begun, source::numbers({ 4, 2, 1 }));
	slub_mempool_free_bulk(pool, 3, four);
	EXPECT_EQ(source.freed, source::numbers({ 3, 4 }));
	end(pool);
}

TEST_F(calls, of_a_cache_take_several_at_once)
{
	struct slub_cache *cache = slub_cache_create("pooled", 64, 0, 0, nullptr);
	slub_mempool *pool = slub_mempool_create_slab(2, cache);
	void *objects[3];

	ASSERT_NE(pool, nullptr);
	nr_bulk = 0;
	ASSERT_NE(objects[0] = slub_mempool_alloc(pool, 0), nullptr);
	EXPECT_EQ(nr_bulk, 0);
	slub_mempool_free(pool, objects[0]);
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 3, objects), 3u);
	EXPECT_EQ(nr_bulk, 1);
	slub_mempool_free_bulk(pool, 3, objects);
	end(pool);
	EXPECT_EQ(slub_cache_destroy(cache), 0) << "all are back";
	pool = source.pool(2);
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 2, objects), 2u);
	EXPECT_EQ(nr_bulk, 1) << "of functions only one by one";
	slub_mempool_free_bulk(pool, 2, objects);
	end(pool);
}

/* ---- waiting ---- */

TEST_F(calls, wait_for_what_comes_as_they_look)
{
	slub_mempool *pool = source.pool(1);

	source.left = 0;
	ASSERT_EQ(slub_mempool_alloc_reserved(pool), source::nth(1));
	at_barrier = [&] {
		EXPECT_EQ(stats_of(pool).waiters, 1u);
		EXPECT_EQ(pool->nr_bulk_waiters, 0u);
		slub_mempool_free(pool, source::nth(1));
	};
	EXPECT_EQ(slub_mempool_alloc(pool, SLUB_POOL_WAIT), source::nth(1));
	EXPECT_EQ(source.asked, (flags{ FIRST, 0, FIRST }));
	struct slub_mempool_stats now = stats_of(pool);
	EXPECT_EQ(now.waiters, 0u);
	EXPECT_EQ(now.waits, 0u) << "it did not sleep";
	EXPECT_EQ(now.timeouts, 0u);
	EXPECT_EQ(now.taken, 2u);
	slub_mempool_free(pool, source::nth(1));
	end(pool);
}

/* A free between the look and the sleep: there is none. */
TEST_F(calls, do_not_sleep_through_a_free)
{
	slub_mempool *pool = source.pool(2);
	void *two[2] = { source::nth(2), source::nth(1) }, *got[2];
	int nr_asked = 0;

	source.left = 0;
	ASSERT_EQ(slub_mempool_alloc_reserved(pool), source::nth(2));
	ASSERT_EQ(slub_mempool_alloc_reserved(pool), source::nth(1));
	at_barrier = [&] {
		EXPECT_EQ(pool->nr_waiters, 1u);
		EXPECT_EQ(pool->nr_bulk_waiters, 1u);
	};
	source.on_ask = [&](unsigned int how) {
		if (how != FIRST && ++nr_asked == 2)
			slub_mempool_free_bulk(pool, 2, two);
	};
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 2, got), 2u);
	EXPECT_EQ(got[0], source::nth(2));
	EXPECT_EQ(got[1], source::nth(1));
	EXPECT_EQ(nr_asked, 2);
	struct slub_mempool_stats now = stats_of(pool);
	EXPECT_EQ(now.waits, 1u);
	EXPECT_EQ(now.timeouts, 0u);
	EXPECT_EQ(pool->nr_waiters, 0u);
	EXPECT_EQ(pool->nr_bulk_waiters, 0u);
	slub_mempool_free_bulk(pool, 2, two);
	end(pool);
}

/* One that is missing is one, however many are wanted. */
TEST_F(calls, wait_for_several_only_if_several_are_missing)
{
	slub_mempool *pool = source.pool(2);
	void *got[2], *reserved[] = { slub_mempool_alloc_reserved(pool),
				      slub_mempool_alloc_reserved(pool) };
	int nr_waits = 0;

	source.left = 1;
	at_barrier = [&] {
		nr_waits++;
		EXPECT_EQ(pool->nr_bulk_waiters, 0u);
		slub_mempool_free(pool, reserved[0]);
	};
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 2, got), 2u);
	EXPECT_EQ(got[0], source::nth(3));
	EXPECT_EQ(got[1], reserved[0]);
	EXPECT_EQ(nr_waits, 1);
	slub_mempool_free_bulk(pool, 2, got);
	slub_mempool_free(pool, reserved[1]);
	end(pool);
}

/* What they have already stays, and the function may have more meanwhile. */
TEST_F(calls, keep_what_they_have_while_they_wait)
{
	slub_mempool *pool = source.pool(3);
	void *got[5] = { this, nullptr, nullptr, nullptr, this }, *reserved[3];

	for (void *&each : reserved)
		each = slub_mempool_alloc_reserved(pool);
	source.left = 1;
	at_barrier = [&] {
		EXPECT_EQ(pool->nr_bulk_waiters, 1u) << "two are missing";
		source.left = 1;
		slub_mempool_free(pool, reserved[0]);
	};
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 3, got + 1), 3u);
	EXPECT_EQ(std::vector<void *>(got + 1, got + 4), source::numbers({ 4, 5, 3 }));
	EXPECT_EQ(got[0], this);
	EXPECT_EQ(got[4], this);
	slub_mempool_free_bulk(pool, 3, got + 1);
	slub_mempool_free_bulk(pool, 2, reserved + 1);
	end(pool);
}

/* And no more is asked for than is missing. */
TEST_F(calls, ask_for_what_is_missing)
{
	slub_mempool *pool = source.pool(3);
	void *got[5] = { nullptr, nullptr, nullptr, this, this }, *reserved[3];

	for (void *&each : reserved)
		each = slub_mempool_alloc_reserved(pool);
	source.left = 1;
	at_barrier = [&] { source.left = 100; };
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 3, got), 3u);
	EXPECT_EQ(std::vector<void *>(got, got + 3), source::numbers({ 4, 5, 6 }));
	EXPECT_EQ(got[3], this);
	EXPECT_EQ(source.left, 98u);
	slub_mempool_free_bulk(pool, 3, got);
	slub_mempool_free_bulk(pool, 3, reserved);
	end(pool);
}

/* An element's last use by one thread comes before its next by another. */
TEST_F(calls, tell_a_sanitizer_of_the_order)
{
	slub_mempool *pool = source.pool(2);
	void *got[3];
	std::vector<std::pair<const void *, bool>> should;

	told.clear();
	sanitizer.is_told = true;
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 2, got), 2u);
	got[2] = slub_mempool_alloc_reserved(pool);
	slub_mempool_free_bulk(pool, 3, got);
	sanitizer.is_told = false;
	for (bool is_release : { false, true }) {
		for (uintptr_t n : { 3, 4, 2 })
			should.emplace_back(source::nth(n), is_release);
	}
	EXPECT_EQ(told, should);
	end(pool);
}

TEST_F(calls, do_not_wait_in_a_handler)
{
	slub_mempool *pool = source.pool(1);

	source.left = 0;
	at_barrier = [] { ADD_FAILURE() << "it waits"; };
	slub_thread.locks_held++;
	errno = 0;
	EXPECT_EQ(slub_mempool_alloc(pool, SLUB_POOL_WAIT), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(slub_mempool_alloc_reserved(pool), nullptr);
	pool->nr_waiters = 1;
	slub_mempool_free(pool, source::nth(7));
	EXPECT_EQ(pool->frees, 0u) << "nobody is told";
	pool->nr_waiters = 0;
	slub_thread.locks_held--;
	EXPECT_EQ(source.freed, source::numbers({ 7 }));
	EXPECT_EQ(stats_of(pool).taken, 0u);
	end(pool);
}

/* What a forked child has not got does not become less than nothing. */
TEST_F(calls, count_waiters_down_to_none)
{
	for (bool is_child : { false, true }) {
		slub_mempool *pool = source.pool(2);
		void *got[2], *reserved[] = { slub_mempool_alloc_reserved(pool),
					      slub_mempool_alloc_reserved(pool) };

		source.left = 0;
		pool->nr_waiters = pool->nr_bulk_waiters = 3;
		at_barrier = [&] {
			EXPECT_EQ(pool->nr_waiters, 4u);
			EXPECT_EQ(pool->nr_bulk_waiters, 4u);
			if (is_child)
				pool->nr_waiters = pool->nr_bulk_waiters = 0;
			slub_mempool_free_bulk(pool, 2, reserved);
		};
		EXPECT_EQ(slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 2, got), 2u);
		EXPECT_EQ(pool->nr_waiters, is_child ? 0u : 3u);
		EXPECT_EQ(pool->nr_bulk_waiters, is_child ? 0u : 3u);
		pool->nr_waiters = pool->nr_bulk_waiters = 0;
		slub_mempool_free_bulk(pool, 2, got);
		at_barrier = nullptr;
		end(pool);
		source.left = SIZE_MAX;
	}
}

/* ---- who is woken ---- */

TEST_F(calls, wake_as_many_as_elements_came)
{
	const struct {
		uint32_t waiters, bulk;
		size_t nr, woken;
	} all[] = { { 0, 0, 2, 0 }, { 4, 0, 1, 1 }, { 4, 0, 3, 3 }, { 4, 1, 1, 4 } };

	for (auto &each : all) {
		slub_mempool *pool = source.pool(4);
		std::vector<void *> out;

		for (size_t i = 0; i < each.nr; i++)
			out.push_back(slub_mempool_alloc_reserved(pool));
		sleepers asleep((uint32_t *)&pool->frees, 4);
		pool->nr_waiters = each.waiters;
		pool->nr_bulk_waiters = each.bulk;
		slub_mempool_free_bulk(pool, out.size(), out.data());
		EXPECT_EQ(pool->frees, 1u) << "once, for all of them";
		EXPECT_EQ(asleep.end(), 4 - (long)each.woken);
		pool->nr_waiters = pool->nr_bulk_waiters = 0;
		end(pool);
	}
}

/* Past a full reserve: the function may have one again. */
TEST_F(calls, wake_one_to_ask)
{
	slub_mempool *pool = source.pool(1);
	void *three[] = { source::nth(7), source::nth(8), source::nth(9) };

	slub_mempool_free(pool, three[0]);
	EXPECT_EQ(pool->frees, 0u) << "nobody waits";
	sleepers asleep((uint32_t *)&pool->frees, 4);
	pool->nr_waiters = 1;
	slub_mempool_free_bulk(pool, 3, three);
	EXPECT_EQ(pool->frees, 1u);
	EXPECT_EQ(asleep.end(), 3);
	slub_mempool_free(pool, nullptr);
	EXPECT_EQ(pool->frees, 1u);
	pool->nr_waiters = 0;
	end(pool);
}

/* One that is woken hands on what is there for others. */
TEST_F(calls, wake_others_for_what_they_leave)
{
	for (size_t rest : { 0, 2 }) {
		slub_mempool *pool = source.pool(3);
		std::vector<void *> out;

		for (int i = 0; i < 3; i++)
			out.push_back(slub_mempool_alloc_reserved(pool));
		sleepers asleep((uint32_t *)&pool->frees, 4);
		source.left = 0;
		source.on_ask = [&](unsigned int how) {
			if (how == FIRST || !pool->nr_waiters)
				return;
			/* As if nobody was woken: by hand. */
			for (size_t i = 0; i <= rest; i++)
				pool->elements[i] = out[i];
			pool->nr = rest + 1;
			pool->frees++;
			pool->nr_waiters = 5;
		};
		EXPECT_EQ(slub_mempool_alloc(pool, SLUB_POOL_WAIT), out[rest]);
		source.on_ask = nullptr;
		EXPECT_EQ(pool->nr_waiters, 4u);
		EXPECT_EQ(pool->nr, rest);
		EXPECT_EQ(asleep.end(), 4 - (long)rest);
		pool->nr_waiters = 0;
		source.left = SIZE_MAX;
		for (size_t i = rest; i < 3; i++)
			slub_mempool_free(pool, out[i]);
		EXPECT_EQ(pool->nr, 3u);
		end(pool);
	}
}

/* ---- free ---- */

TEST_F(calls, refuse_what_came_back_lately)
{
	slub_mempool *pool = source.pool(40);
	void *out[3];

	for (void *&each : out)
		each = slub_mempool_alloc_reserved(pool);
	ASSERT_EQ(pool->nr, 37u);
	for (size_t back : { 1, 2, 16 }) {
		void *twice = pool->elements[37 - back];
		std::string text = said([&] { slub_mempool_free(pool, twice); });

		EXPECT_EQ(text, "slub_mempool_free: element " + text_of(twice) +
				" is free already; left alone\n");
		EXPECT_EQ(pool->nr, 37u);
	}
	EXPECT_EQ(stats_of(pool).refused, 3u);
	EXPECT_EQ(pool->frees, 0u);
	/* Nobody looks further. */
	EXPECT_EQ(said([&] { slub_mempool_free(pool, pool->elements[37 - 17]); }), "");
	EXPECT_EQ(pool->nr, 38u);
	EXPECT_EQ(pool->frees, 1u);
	EXPECT_EQ(stats_of(pool).refused, 3u);
	pool->nr--;
	slub_mempool_free_bulk(pool, 3, out);
	EXPECT_EQ(source.freed.size(), 0u);
	end(pool);
}

TEST_F(calls, refuse_what_is_not_theirs)
{
	slub_mempool *pool = source.pool(2);
	void *foreign = source::nth(2000);
	void *mixed[] = { nullptr, source::nth(5), foreign, nullptr, source::nth(6) };

	std::string text = said([&] { slub_mempool_free_bulk(pool, 5, mixed); });
	EXPECT_EQ(text, "slub_mempool_free: element " + text_of(foreign) +
			" is not of this pool; left alone\n");
	EXPECT_EQ(source.looked_at, source::numbers({ 5, 2000, 6 }));
	EXPECT_EQ(source.freed, source::numbers({ 5, 6 }));
	EXPECT_EQ(stats_of(pool).refused, 1u);
	EXPECT_EQ(mixed[2], foreign) << "the caller's";
	EXPECT_EQ(mixed[1], source::nth(5));
	end(pool);
}

/* In pieces of 64, and nothing behind the caller's array is read. */
TEST_F(calls, free_however_many_once)
{
	const size_t page = os_page_size();
	char *pages = (char *)os_map(2 * page);

	ASSERT_NE(pages, nullptr);
	ASSERT_EQ(os_protect(pages + page, page, false), 0);
	for (size_t nr : { 0, 1, 63, 64, 65, 128, 130 }) {
		void **all = (void **)(void *)(pages + page) - nr;
		slub_mempool *pool = source.pool(1);

		for (size_t i = 0; i < nr; i++)
			all[i] = source::nth(101 + i);
		source.freed.clear();
		slub_mempool_free_bulk(pool, nr, all);
		EXPECT_EQ(source.freed, std::vector<void *>(all, all + nr)) << nr;
		end(pool);
	}
	os_unreserve(pages, 2 * page);
}

TEST_F(calls, keep_what_there_is_room_for)
{
	slub_mempool *pool = source.pool(3);
	void *four[4] = { source::nth(11), source::nth(12), source::nth(13), source::nth(14) };

	for (int i = 0; i < 2; i++)
		slub_mempool_alloc_reserved(pool);
	slub_mempool_free_bulk(pool, 4, four);
	EXPECT_EQ(source.reset, source::numbers({ 11, 12, 13, 14 }));
	EXPECT_EQ(source.freed, source::numbers({ 11, 12 }));
	EXPECT_EQ(pool->elements[1], source::nth(14));
	EXPECT_EQ(pool->elements[2], source::nth(13));
	end(pool);
}

/* ---- what is refused ---- */

TEST_F(calls, say_what_is_wrong)
{
	slub_mempool *pool = source.pool(2);
	uint64_t none[64] = {};
	auto *nobody = (slub_mempool *)none;
	void *got[3] = {};
	const std::string is_none = "not a pool\n", of = "slub_mempool_alloc(" + text_of(pool);
	const struct {
		std::function<bool()> act;	/* refused? */
		std::string text;
	} all[] = {
		{ [&] { return !slub_mempool_alloc(nullptr, 0); },
		  "slub_mempool_alloc(0x0, 0x0): " + is_none },
		{ [&] { return !slub_mempool_alloc(nobody, 0); },
		  "slub_mempool_alloc(" + text_of(nobody) + ", 0x0): " + is_none },
		{ [&] { return !slub_mempool_alloc(pool, (unsigned int)SLUB_ALLOC_ZERO); },
		  of + ", 0x10000): SLUB_ALLOC_ZERO is not possible: what comes from the reserve "
		  "is not zero; use init_fn\n" },
		{ [&] { return !slub_mempool_alloc(pool, 1u << 30); },
		  of + ", 0x40000000): unknown flag; there are SLUB_POOL_WAIT, "
		  "SLUB_POOL_RESERVE, SLUB_POOL_NO_RESERVE\n" },
		{ [&] { return !slub_mempool_alloc_bulk(pool, 0, 0, got); },
		  "slub_mempool_alloc_bulk: 0 elements; 1 to 2 can be waited for\n" },
		{ [&] { return !slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 3, got); },
		  "slub_mempool_alloc_bulk: 3 elements; 1 to 2 can be waited for\n" },
		{ [&] { return !slub_mempool_alloc_bulk(nobody, 0, 0, got); },
		  "slub_mempool_alloc(" + text_of(nobody) + ", 0x0): " + is_none },
		{ [&] { return !slub_mempool_alloc_reserved(nobody); },
		  "slub_mempool_alloc(" + text_of(nobody) + ", 0x0): " + is_none },
	};

	for (auto &each : all) {
		std::string text = said([&] {
			errno = 0;
			EXPECT_TRUE(each.act());
			EXPECT_EQ(errno, EINVAL);
		});
		EXPECT_EQ(text, each.text);
	}
	EXPECT_EQ(source.asked, flags{});
	got[0] = source::nth(1);
	EXPECT_EQ(said([&] { slub_mempool_free(nobody, got[0]); }), "slub_mempool_free: " +
		  text_of(nobody) + " is not a pool; its elements are left alone\n");
	EXPECT_EQ(said([&] { slub_mempool_free(nobody, nullptr); }), "") << "nothing is freed";
	/* What the limits allow. */
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, SLUB_POOL_WAIT, 2, got), 2u);
	EXPECT_EQ(slub_mempool_alloc_bulk(pool, 0, 3, got), 3u);
	for (unsigned int how : { (unsigned int)SLUB_POOL_WAIT, (unsigned int)SLUB_POOL_RESERVE,
				  (unsigned int)SLUB_POOL_NO_RESERVE })
		EXPECT_NE(slub_mempool_alloc(pool, how), nullptr);
	end(pool);
}

} /* namespace */
