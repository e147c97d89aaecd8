/* SPDX-License-Identifier: MIT */
/*
 * Walks that look at caches without a lock, and a cache that ends under them: the walk goes by
 * single instructions, and at a chosen one of those that have the cache in a register, and have not
 * pinned it, another thread frees its objects and destroys it.  Then its structure is cleared, or
 * another's already.  (test_ended.cc has the moments that last.)
 */
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "lists.h"
#include "mailbox.h"
#include "start.h"
#include "steps.h"
#include "structure.h"

#define _Static_assert static_assert
extern "C" {
}
#undef _Static_assert

#include <slub/debug.h>
#include <slub/group.h>

extern "C" struct debug_mailbox slub_debug_mailbox;
extern "C" void debug_mailbox_answer(void);

namespace {

/* Large ones, for a slab has few of them, and each takes steps. */
constexpr size_t SIZE = 2000, SIZE_NEXT = 3000;

class ending : public testing::Test {
protected:
	using Work = std::function<void()>;
	/*
	 * Where steps begin, and whether they go on behind the pin: a bitmap that is cleared under
	 * it is thousands of them.
	 */
	struct way {
		bool is_over_slabs, goes_on;
	};

	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (!start::can_empty_lists())
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
		group = slub_group_create("ending", nullptr);
		ASSERT_NE(group, nullptr);
		/* In the group there is nothing else. */
		objects.reserve(20);
	}
	void TearDown() override
	{
		if (group) {
			EXPECT_EQ(slub_group_destroy(group), 0);
		}
	}
	/* In the group: objects of @cache. */
	void fill(size_t nr)
	{
		EXPECT_EQ(slub_group_enter(group), 0);
		for (size_t i = 0; i < nr; i++)
			objects.push_back(slub_cache_alloc(cache));
		EXPECT_EQ(slub_group_leave(group), 0);
	}
	int end()
	{
		slub_cache_free_bulk(cache, objects.size(), objects.data());
		objects.clear();
		return slub_cache_destroy(cache);
	}
	void make(unsigned long flags)
	{
		cache = slub_cache_create("ending", SIZE, 0, flags | SLUB_CACHE_NO_MERGE, nullptr);
		ASSERT_NE(cache, nullptr);
		fill(20);
		/* Some are free, and in their slab. */
		while (objects.size() > 10) {
			slub_cache_free(cache, objects.back());
			objects.pop_back();
		}
		slub_cache_shrink(cache);
	}
	/*
	 * Calls @walk with such a cache, which ends at the @n-th step, or a little behind the last
	 * one; and then @then, before its structure is free again.  False: behind the last one.
	 */
	bool walk_with(way way, unsigned n, const Work &walk, const Work &then)
	{
		const void *from = way.is_over_slabs ? page_of(objects[0]) : (void *)cache;
		const unsigned behind_max = 300;
		unsigned behind = 0;
		bool has_step = false, has_come = false, was_pinned = false;
		greg_t at = 0;

		/* What lies in lists is settled. */
		walk();
		steps::run_from(from, walk, [&] {
			bool is_pinned = __atomic_load_n(&cache->movers, __ATOMIC_RELAXED);
			bool is_step = !is_pinned && steps::is_in_hand(cache) &&
				       steps::registers[REG_RIP] != at;

			at = steps::registers[REG_RIP];
			has_come |= is_step;
			was_pinned |= is_pinned;
			/* A register may keep it for long. */
			if (is_pinned || (is_step && !was_pinned))
				behind = 0;
			else
				behind += has_come;
			has_step = behind < behind_max;
			if (is_pinned && !way.goes_on)
				return has_step = false;
			if (slub_thread.locks_held || (has_step && (!is_step || n--)))
				return true;
			other.call([&] {
				has_ended = !end();
				if (!has_ended)
					return;
				take_structure(cache);
				then();
			});
			return false;
		});
		return has_step;
	}
	/* The same at each step, and @check behind it.  Returns how many steps there are. */
	unsigned at_each_step(way way, unsigned long flags, const Work &walk,
			      const Work &then, const Work &check)
	{
		return steps::for_each([&](unsigned step) {
			bool has_step;

			has_ended = false;
			make(flags);
			has_step = walk_with(way, step, walk, then);
			check();
			if (has_ended && cache->state != CACHE_LIVE)
				cache_struct_free(cache);
			else
				EXPECT_EQ(end(), 0) << step;
			nr_ended += has_ended;
			return has_step && !HasFailure();
		});
	}
	/* Its structure is another cache's. */
	void become_next()
	{
		struct slub_cache_args args = {};

		args.name = "next";
		args.size = SIZE_NEXT;
		args.flags = SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE;
		EXPECT_EQ(cache_make(cache, &args), 0);
		fill(3);
	}

	struct slub_group *group = nullptr;
	struct slub_cache *cache = nullptr;
	std::vector<void *> objects;
	steps::Other other;
	bool has_ended = false;
	unsigned nr_ended = 0;
};

std::string path_here(const char *name)
{
	return testing::TempDir() + "/" + name + std::to_string(getpid());
}

TEST_F(ending, leaks_have_a_name_or_a_question_mark)
{
	std::string path = path_here("ending");
	unsigned nr_told = 0;
	long nr = 0;
	unsigned steps = at_each_step({ true, true }, SLUB_CACHE_STORE_USER, [&] {
		unlink(path.c_str());
		nr = slub_leaks_write(path.c_str());
	}, [] {}, [&] {
		std::ifstream file(path);
		std::string count, name;

		EXPECT_GE(nr, 0);
		if (nr && file >> count >> name) {
			EXPECT_EQ(name, has_ended ? "?" : "ending");
			nr_told += has_ended;
		}
	});

	unlink(path.c_str());
	EXPECT_GT(steps, 10u);
	EXPECT_GT(nr_ended, 10u);
	/* It was counted, and ended before it was told. */
	EXPECT_GT(nr_told, 0u);
}

long ask(uint32_t operation, const char *text)
{
	static uint64_t id;

	harness::post(&slub_debug_mailbox, harness::request(++id, operation, text));
	while (!harness::is_answered(&slub_debug_mailbox, id))
		debug_mailbox_answer();
	return slub_debug_mailbox.result;
}

TEST_F(ending, the_mailbox_answers_for_what_there_is)
{
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "the mailbox is closed unless SLUB_ATTACH opens it";
	struct {
		uint32_t operation;
		long without, with;
	} asked[] = { { MAILBOX_VALIDATE, -EINVAL, 0 }, { MAILBOX_SHRINK, 0, 1 } };

	for (auto &a : asked) {
		long result = 0;
		unsigned steps = at_each_step({ false, true }, 0, [&] {
			result = ask(a.operation, "endin*");
		}, [] {}, [&] {
			EXPECT_TRUE(result == a.without || result == a.with) << result;
		});

		EXPECT_GT(steps, 10u);
	}
	EXPECT_GT(nr_ended, 20u);
}

/* What a group has is so many objects of the one size, or so many of the other. */
void expect_sums(size_t objects, size_t bytes)
{
	EXPECT_TRUE((objects == 0 && bytes == 0) || (objects == 10 && bytes == 10 * SIZE) ||
		    (objects == 3 && bytes == 3 * SIZE_NEXT)) << objects << " " << bytes;
}

TEST_F(ending, a_groups_memory_is_of_one_cache_or_the_next)
{
	struct slub_group_memory memory;
	unsigned steps = 0;

	for (bool is_next : { false, true }) {
		steps += at_each_step({ true, false }, SLUB_CACHE_ACCOUNT, [&] {
			EXPECT_EQ(slub_group_memory(group, &memory), 0);
		}, [&] {
			if (is_next)
				become_next();
		}, [&] {
			expect_sums(memory.objects, memory.object_bytes);
		});
	}
	EXPECT_GT(steps, 20u);
	EXPECT_GT(nr_ended, 20u);
}

TEST_F(ending, the_statistics_file_has_sums_of_one_cache_or_the_next)
{
	std::vector<uint64_t> space(STATS_GROUPS_BYTES / sizeof(uint64_t) + 1);
	auto *out = (struct slub_stats_groups *)space.data();
	auto *places = (struct slub_stats_group *)(out + 1);
	unsigned steps = 0;

	groups_file_begin(out);
	for (bool is_next : { false, true }) {
		steps += at_each_step({ true, false }, SLUB_CACHE_ACCOUNT, [&] {
			groups_record(out);
		}, [&] {
			if (is_next)
				become_next();
		}, [&] {
			unsigned found = 0;

			for (uint32_t n = 1; n < out->nr_groups; n++) {
				if (!places[n].number || strcmp(places[n].name, "ending"))
					continue;
				found++;
				expect_sums(places[n].objects, places[n].object_bytes);
			}
			EXPECT_EQ(found, 1u);
		});
	}
	EXPECT_GT(steps, 20u);
	EXPECT_GT(nr_ended, 20u);
}

} /* namespace */
