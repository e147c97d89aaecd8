/* SPDX-License-Identifier: MIT */
/* features/watch/debug_switch.c, debug_validate.c: twins come and go, and what a switch answers. */
#include <cerrno>
#include <gtest/gtest.h>
#include <string>

#include "harness.h"
#include "slub.h"

#define _Static_assert static_assert
extern "C" {
#include "features/watch/watch.h"
}
#undef _Static_assert

#include <slub/debug.h>

static int flushed_now;
static bool is_refusing, is_flushed;
static unsigned nr_totals, nr_leaks, nr_finishes, nr_flushes;

/* The linker sends the library's calls to these (--wrap). */
extern "C" int __real_cache_flush_now(struct slub_cache *cache);
extern "C" bool __real_cache_flush(struct slub_cache *cache);

extern "C" int __wrap_cache_flush_now(struct slub_cache *cache)
{
	nr_flushes++;
	return is_refusing ? flushed_now : __real_cache_flush_now(cache);
}

extern "C" bool __wrap_cache_flush(struct slub_cache *cache)
{
	nr_flushes++;
	return is_refusing ? is_flushed : __real_cache_flush(cache);
}

extern "C" void __wrap_report_total(void)
{
	nr_totals++;
}

extern "C" void __wrap_guard_finish(void)
{
	nr_finishes++;
}

extern "C" long __wrap_slub_leaks_write(const char *)
{
	return ++nr_leaks;
}

namespace {

constexpr unsigned long Z = SLUB_CACHE_RED_ZONE, U = SLUB_CACHE_STORE_USER;

unsigned nr_watches()
{
	unsigned nr = 0;

	for (struct watch *w = watch_first(); w; w = w->next)
		nr++;
	return nr;
}

class Twins : public testing::Test {
protected:
	void SetUp() override
	{
		cache = slub_cache_create("twins", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
		nr_flushes = 0;
	}
	void TearDown() override { EXPECT_EQ(slub_cache_destroy(cache), 0); }
	int to(uint32_t letters, enum switch_patience patience = SWITCH_WAITS)
	{
		return cache_debug_switch(cache, letters, patience);
	}

	struct slub_cache *cache;
};

/* First, before any cache has been watched. */
TEST(NoTwins, NothingIsLookedAt)
{
	nr_totals = nr_finishes = 0;
	EXPECT_EQ(watch_first(), nullptr);
	EXPECT_EQ(slub_validate_all(), 0);
	debug_finish();
	EXPECT_EQ(nr_finishes, 1u);
	EXPECT_EQ(nr_totals, 0u) << "nothing was watched";
	EXPECT_FALSE(debug_free_foreign("free", &nr_totals));
}

TEST_F(Twins, TheSameLettersHaveTheSameTwin)
{
	ASSERT_EQ(to(Z), 0);
	struct slub_cache *first = cache_twin(cache), *second;
	ASSERT_NE(first, nullptr);
	EXPECT_EQ(first->flags & DEBUG_LETTERS, Z);
	EXPECT_EQ(watch_original(watch_of(first)), cache);
	EXPECT_EQ(first->object_size, 64u);
	EXPECT_EQ(first->size, first->debug->stride);
	EXPECT_EQ(first->letters, Z / SLUB_CACHE_CONSISTENCY_CHECKS);
	ASSERT_EQ(to(0), 0);
	EXPECT_EQ(cache_twin(cache), nullptr);
	ASSERT_EQ(to(U), 0);
	second = cache_twin(cache);
	EXPECT_NE(second, first);
	EXPECT_EQ(second->flags & DEBUG_LETTERS, U);
	unsigned nr = nr_watches();
	ASSERT_EQ(to(Z), 0);
	EXPECT_EQ(cache_twin(cache), first);
	ASSERT_EQ(to(U), 0);
	EXPECT_EQ(cache_twin(cache), second);
	EXPECT_EQ(nr_watches(), nr);
	EXPECT_EQ(watch_next(cache, nullptr)->original, cache);
	EXPECT_EQ(watch_next(cache, watch_next(cache, watch_next(cache, nullptr))), nullptr);
}

TEST_F(Twins, AWatchIsUsedAnew)
{
	ASSERT_EQ(to(Z), 0);
	ASSERT_EQ(to(U), 0);
	unsigned nr = nr_watches();
	for (int i = 0; i < 10; i++) {
		struct slub_cache *other = slub_cache_create("again", 64 + 8 * i, 0, Z |
							     SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(other, nullptr);
		struct slub_cache *twin = cache_twin(other);
		ASSERT_NE(twin, nullptr);
		EXPECT_TRUE(cache_is_live(twin));
		EXPECT_EQ(slub_cache_errors(other), 0u);
		watch_of(twin)->errors = 5;
		EXPECT_EQ(slub_cache_errors(other), 5u);
		EXPECT_EQ(slub_cache_destroy(other), 0);
		EXPECT_FALSE(cache_is_live(twin));
		EXPECT_EQ(watch_of(twin)->original, nullptr);
	}
	EXPECT_LE(nr_watches(), nr + 1);
}

TEST_F(Twins, WhatASwitchAnswers)
{
	EXPECT_EQ(to(1), -EINVAL);
	EXPECT_EQ(to(Z | DEBUG_NO_GROWTH << 1), -EINVAL);
	EXPECT_EQ(cache_debug_switch(nullptr, Z, SWITCH_WAITS), -EINVAL);
	slub_thread.locks_held++;
	EXPECT_EQ(to(Z), -EDEADLK);
	slub_thread.locks_held--;
	EXPECT_EQ(nr_flushes, 0u);
	EXPECT_EQ(cache_twin(cache), nullptr);
	EXPECT_EQ(slub_cache_debug(nullptr, Z), -EINVAL);
	EXPECT_EQ(slub_cache_debug(cache, 1), -EINVAL);
	EXPECT_EQ(slub_cache_debug(cache, Z | SLUB_CACHE_NO_MERGE), -EINVAL);
	EXPECT_EQ(slub_cache_debug(cache, Z), 0);
	EXPECT_EQ(nr_flushes, 1u);
	EXPECT_NE(cache_twin(cache), nullptr);
	EXPECT_EQ(cache_debug_switch(cache_twin(cache), 0, SWITCH_WAITS), 0) << "its cache's";
	EXPECT_EQ(cache_twin(cache), nullptr);
	struct slub_cache *giant = slub_cache_create("giant", 600 << 10, 0, SLUB_CACHE_NO_MERGE,
						     nullptr);
	if (giant) {
		EXPECT_EQ(slub_cache_debug(giant, Z), -E2BIG);
		EXPECT_EQ(cache_twin(giant), nullptr);
		EXPECT_EQ(slub_cache_destroy(giant), 0);
	}
	struct slub_cache *gone = slub_cache_create("gone", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);
	EXPECT_EQ(slub_cache_destroy(gone), 0);
	EXPECT_EQ(slub_cache_debug(gone, Z), -EINVAL);
}

TEST_F(Twins, TheLibrarysOwnAreNotWatched)
{
	cache->is_internal = true;
	EXPECT_EQ(to(Z), 0);
	EXPECT_EQ(cache_twin(cache), nullptr);
	cache->is_internal = false;
	struct slub_cache *mallocs = sizeclass_get(96, 16);
	EXPECT_EQ(cache_debug_switch(mallocs, Z, SWITCH_WAITS), 0);
	EXPECT_NE(cache_twin(mallocs), nullptr);
	EXPECT_TRUE(cache_twin(mallocs)->debug->flags & DEBUG_SIZED);
	EXPECT_EQ(cache_debug_switch(mallocs, 0, SWITCH_WAITS), 0);
}

/* What may be left unwatched in a list is said. */
TEST_F(Twins, ListsThatCannotBeEmptied)
{
	is_refusing = true;
	flushed_now = -EAGAIN;
	EXPECT_EQ(to(Z, SWITCH_AT_ONCE), -EAGAIN);
	for (bool at_once : { false, true }) {
		for (bool is_fine : { false, true }) {
			std::string said;
			int status = harness::in_child([&] {
				log_enable(true);
				flushed_now = is_fine ? 0 : -EIO;
				is_flushed = is_fine;
				_exit(-to(Z, at_once ? SWITCH_AT_ONCE : SWITCH_WAITS));
			}, &said);

			EXPECT_EQ(status, 0) << harness::describe_status(status);
			EXPECT_EQ(said.substr(said.find(' ') + 1), is_fine ? "" :
				  "debugging twins: the lists of a CPU could not be emptied; "
				  "objects in them are not watched\n");
		}
	}
	is_refusing = false;
}

/* Objects of a kind of their own. */
TEST_F(Twins, AreOfTheirCachesKind)
{
	struct {
		unsigned long flags;
		bool has_ctor;
		uint32_t kind;
	} const rows[] = {
		{ 0, false, 0 }, { 0, true, DEBUG_KEPT },
		{ SLUB_CACHE_TYPESAFE_BY_RCU, false, DEBUG_KEPT },
		{ SLUB_CACHE_ACCOUNT, false, DEBUG_OWNED },
		{ SLUB_CACHE_ACCOUNT, true, DEBUG_OWNED | DEBUG_KEPT },
	};

	for (auto &row : rows) {
		struct slub_cache *other = slub_cache_create("kind", 64, 0, Z | row.flags |
				SLUB_CACHE_NO_MERGE, row.has_ctor ? +[](void *) {} : nullptr);

		ASSERT_NE(other, nullptr);
		EXPECT_EQ(cache_twin(other)->debug->flags &
				  (DEBUG_SIZED | DEBUG_KEPT | DEBUG_OWNED), row.kind) << row.flags;
		EXPECT_EQ(slub_cache_destroy(other), 0);
	}
}

TEST_F(Twins, SlabsOfTwinsAreTheirCaches)
{
	ASSERT_EQ(to(Z), 0);
	EXPECT_FALSE(debug_has_slabs(cache));
	EXPECT_FALSE(debug_shrink_twins(cache));
	void *object = slub_cache_alloc(cache), *second = slub_cache_alloc(cache);
	struct slub_cache *twin = cache_of(object);
	ASSERT_EQ(twin, cache_twin(cache));
	EXPECT_TRUE(debug_has_slabs(cache));
	EXPECT_TRUE(debug_shrink_twins(cache)) << "one with free objects stays";
	slub_cache_free(cache, second);
	slub_cache_free(cache, object);
	EXPECT_TRUE(debug_has_slabs(cache));
	EXPECT_FALSE(debug_shrink_twins(cache));
	EXPECT_FALSE(debug_has_slabs(cache));
}

TEST_F(Twins, AForkedChildAdoptsWhatWasPublished)
{
	ASSERT_EQ(to(Z), 0);
	struct watch *watch = watch_of(cache_twin(cache));

	watch->original = nullptr;
	debug_after_fork();
	EXPECT_EQ(watch->original, cache) << "it was published, and not adopted yet";
	debug_after_fork();
	EXPECT_EQ(watch->original, cache);
	watch->cache.state = CACHE_DEAD;
	debug_after_fork();
	EXPECT_EQ(watch->original, nullptr) << "it was being destroyed";
	watch->cache.state = CACHE_LIVE;
	debug_after_fork();
	EXPECT_EQ(watch->original, cache);
}

TEST_F(Twins, SettingsAreOfNames)
{
	EXPECT_EQ(slub_debug(nullptr), -EINVAL);
	EXPECT_EQ(slub_debug("?"), -EINVAL);
	EXPECT_EQ(slub_debug("Z,nobody"), 0);
	EXPECT_EQ(slub_debug("Z,twins"), 1);
	EXPECT_NE(cache_twin(cache), nullptr);
	EXPECT_EQ(slub_debug("Z,twins,malloc-96"), 2);
	EXPECT_EQ(slub_debug("-,twins,malloc-96"), 2);
	EXPECT_EQ(cache_twin(cache), nullptr);
	slub_thread.locks_held++;
	EXPECT_EQ(slub_debug("Z,twins"), -EDEADLK);
	EXPECT_EQ(slub_cache_validate(cache), -EDEADLK);
	EXPECT_EQ(slub_validate_all(), -EDEADLK);
	slub_thread.locks_held--;
	/* Of two names that share a cache each will do. */
	struct slub_cache *first = slub_cache_create("shared-a", 88, 0, 0, nullptr);
	struct slub_cache *second = slub_cache_create("shared-b", 88, 0, 0, nullptr);
	if (cache_real(first) == cache_real(second)) {
		for (const char *names : { "Z,shared-b", "Z,shared-a" })
			EXPECT_EQ(cache_debug_by(cache_real(first), names, SWITCH_WAITS), 1);
		EXPECT_EQ(cache_debug_by(cache_real(first), "Z,shared-c", SWITCH_WAITS), 0);
		EXPECT_EQ(cache_debug_by(cache_real(first), "-,shared-b", SWITCH_WAITS), 1);
	}
	EXPECT_EQ(slub_cache_destroy(second), 0);
	EXPECT_EQ(slub_cache_destroy(first), 0);
	EXPECT_EQ(cache_debug_by(cache, "Z,twins", SWITCH_WAITS), 1);
	EXPECT_EQ(cache_debug_by(cache_twin(cache), "Z,twins", SWITCH_WAITS), 0) << "a twin";
	EXPECT_EQ(cache_debug_by(cache, "Z,nobody", SWITCH_WAITS), 0);
}

TEST_F(Twins, ValidationCountsTheBugsOfOneOrAll)
{
	struct slub_cache *other = slub_cache_create("other", 64, 0, SLUB_CACHE_NO_MERGE | Z,
						     nullptr);
	struct slub_cache *plain = slub_cache_create("plain", 64, 0, SLUB_CACHE_NO_MERGE, nullptr);

	ASSERT_EQ(to(Z), 0);
	char *one = (char *)slub_cache_alloc(cache), *two = (char *)slub_cache_alloc(other);
	EXPECT_EQ(slub_cache_validate(nullptr), -EINVAL);
	EXPECT_EQ(slub_cache_validate(plain), -EINVAL);
	EXPECT_EQ(slub_cache_errors(nullptr), 0u);
	EXPECT_EQ(slub_cache_errors(plain), 0u);
	EXPECT_EQ(slub_validate_all(), 0);
	one[64]++;
	two[64]++;
	EXPECT_EQ(slub_cache_validate(cache), 1);
	EXPECT_EQ(slub_cache_errors(other), 0u);
	one[64]++;
	EXPECT_EQ(slub_validate_all(), 2);
	EXPECT_EQ(slub_cache_errors(cache), 4u);
	EXPECT_EQ(slub_cache_errors(other), 2u);
	nr_totals = nr_leaks = nr_finishes = 0;
	two[64]++;
	debug_finish();
	EXPECT_EQ(slub_cache_errors(other), 4u) << "at the end all are looked at";
	EXPECT_EQ(nr_totals, 1u);
	EXPECT_EQ(nr_finishes, 1u);
	EXPECT_EQ(nr_leaks, 0u) << "nobody asked for them";
	slub_cache_free(cache, one);
	slub_cache_free(other, two);
	EXPECT_EQ(slub_cache_destroy(other), 0);
	EXPECT_EQ(slub_cache_destroy(plain), 0);
}

} /* namespace */
