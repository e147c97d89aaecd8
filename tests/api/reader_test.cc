/* SPDX-License-Identifier: MIT */
/*
 * Promise: no call waits for a reader that is its own caller.  Inside slub_read_lock() a call
 * that would have to wait answers -EDEADLK at once, and what looks or gives back does what it can.
 */
#include <atomic>
#include <malloc.h>
#include <thread>

#include "api.h"

#include <slub/bucket.h>
#include <slub/control.h>
#include <slub/debug.h>
#include <slub/defrag.h>
#include <slub/group.h>
#include <slub/mempool.h>
#include <slub/shrinker.h>

namespace {

/* What a call inside a section may look at; something of each has been freed deferred. */
struct world {
	struct slub_cache *cache = slub_cache_create("reader", 100, 0, 0, nullptr);
	struct slub_cache *typesafe =
		slub_cache_create("typesafe", 100, 0, SLUB_CACHE_TYPESAFE_BY_RCU, nullptr);
	struct slub_bucket *bucket = slub_bucket_create("reader", 0);
	int section = -1;

	world()
	{
		MUST(cache && typesafe && bucket);
		defer();
		section = slub_read_lock();
		defer();
	}
	void defer()
	{
		slub_free_deferred(slub_cache_alloc(cache));
		slub_free_deferred(slub_cache_alloc(typesafe));
		slub_free_deferred(slub_bucket_alloc(bucket, 50));
		slub_free_deferred(slub_bucket_alloc(bucket, 100000));
		for (int i = 0; i < 1000; i++)
			slub_cache_free(typesafe, slub_cache_alloc(typesafe));
	}
	/* Outside all goes as ever. */
	void leave_and_end()
	{
		slub_read_unlock(section);
		MUST(slub_deferred_barrier() == 0);
		MUST(slub_bucket_destroy_all(bucket) == 0);
		MUST(slub_cache_destroy(typesafe) == 0);
		MUST(slub_cache_destroy(cache) == 0);
		MUST(slub_deferred_pending() == 0);
	}
};

int count(void *, void *arg)
{
	++*static_cast<size_t *>(arg);
	return 0;
}

struct call {
	const char *name;
	void (*make)(world &w);
};

const struct call calls[] = {
	{ "barrier", [](world &) { MUST(slub_deferred_barrier() == -EDEADLK); } },
	{ "destroy", [](world &w) { MUST(slub_cache_destroy(w.cache) == -EDEADLK); } },
	{ "destroy_another",
	  [](world &w) {
		  struct slub_cache *other = slub_cache_create(
			  api::cache::name().c_str(), 300, 0, 0, nullptr);

		  MUST(slub_cache_destroy(other) == -EDEADLK);
		  slub_read_unlock(w.section);
		  MUST(slub_cache_destroy(other) == 0);
		  w.section = slub_read_lock();
	  } },
	{ "shrink",
	  [](world &w) {
		  MUST(slub_cache_shrink(w.cache) >= 0);
		  MUST(slub_cache_shrink(w.typesafe) >= 0);
	  } },
	{ "for_each_object",
	  [](world &w) {
		  size_t nr = 0;
		  int result = slub_cache_for_each_object(w.cache, count, &nr);

		  /* The second one is this section's to keep. */
		  MUST(result == -EAGAIN || (result == 0 && nr >= 1 && nr <= 2));
	  } },
	{ "bucket_stats",
	  [](world &w) {
		  struct slub_bucket_stats stats = {};
		  int result = slub_bucket_stats(w.bucket, &stats);

		  MUST(result == 0 || result == -EAGAIN);
		  MUST(stats.large_blocks >= 1);
	  } },
	{ "bucket_clear", [](world &w) { MUST(slub_bucket_clear(w.bucket) == -EDEADLK); } },
	{ "bucket_destroy", [](world &w) { MUST(slub_bucket_destroy(w.bucket) == -EDEADLK); } },
	{ "bucket_destroy_all",
	  [](world &w) { MUST(slub_bucket_destroy_all(w.bucket) == -EDEADLK); } },
	{ "cache_stats",
	  [](world &w) {
		  struct slub_cache_stats stats;

		  MUST(slub_cache_stats(w.cache, &stats) == 0);
	  } },
	{ "validate", [](world &w) { slub_cache_validate(w.cache); } },
	{ "shrink_all", [](world &) { slub_shrink_all(); } },
	{ "node_shrink", [](world &) { slub_node_shrink(SLUB_NODE_ANY); } },
	{ "trim", [](world &) { malloc_trim(0); } },
	{ "mallinfo", [](world &) { mallinfo2(); } },
	{ "defrag",
	  [](world &w) {
		  slub_defrag_all(100);
		  slub_cache_defrag(w.cache, 100);
	  } },
	{ "json", [](world &) { MUST(slub_stats_json(nullptr, 0) > 0); } },
	{ "value",
	  [](world &) {
		  struct slub_value bytes = {};

		  MUST(slub_value_read("heap.deferred_bytes", &bytes) == 0);
		  MUST(bytes.number > 100000);
	  } },
	{ "create",
	  [](world &w) {
		  struct slub_cache *other = slub_cache_create(
			  api::cache::name().c_str(), 400, 0, 0, nullptr);

		  MUST(other && slub_cache_alloc(other));
		  MUST(slub_cache_alloc(w.typesafe));
	  } },
	{ "group",
	  [](world &) {
		  struct slub_group *group = slub_group_create("reader", nullptr);

		  MUST(group && slub_group_limit_set(group, SLUB_GROUP_MAX, 1 << 20) == 0);
		  MUST(slub_group_enter(group) == 0);
		  slub_free_deferred(malloc(900000));
		  MUST(malloc(900000) == nullptr && errno == ENOMEM);
		  slub_group_leave(group);
		  MUST(slub_group_destroy(group) == 0);
	  } },
	{ "mempool",
	  [](world &w) {
		  struct slub_mempool *pool = slub_mempool_create_slab(2, w.cache);

		  MUST(pool);
		  MUST(slub_mempool_destroy(pool) == 0);
	  } },
};

TEST(reader, no_call_waits_for_its_own_caller)
{
	for (const struct call &call : calls) {
		std::string errors;
		int status = harness::in_child(
			[&] {
				world w;

				call.make(w);
				call.make(w);
				if (!strcmp(call.name, "create"))
					_exit(0);	/* its objects stay */
				w.leave_and_end();
				_exit(0);
			},
			&errors, 60);

		EXPECT_EQ(status, 0) << call.name << ": " << harness::describe_status(status)
				     << errors;
	}
}

/* While this thread is none, it waits for other readers as ever. */
TEST(reader, others_are_waited_for)
{
	struct slub_cache *cache = slub_cache_create("waits", 64, 0, 0, nullptr);
	std::atomic<int> step{ 0 };
	std::thread other([&] {
		int section = slub_read_lock();

		for (step = 1; step != 2;)
			usleep(1000);
		usleep(50000);
		slub_read_unlock(section);
	});

	while (step != 1)
		usleep(1000);
	slub_free_deferred(slub_cache_alloc(cache));
	step = 2;
	EXPECT_EQ(slub_cache_destroy(cache), 0) << "its object is free when that reader has left";
	other.join();
}

/* The one that entered it counts as the reader, until there is none. */
TEST(reader, a_section_that_was_handed_over)
{
	api::cache cache(64);
	struct slub_cache *other = slub_cache_create("handed", 64, 0, 0, nullptr);
	int section = slub_read_lock();

	std::thread([=] { slub_read_unlock(section); }).join();
	EXPECT_EQ(slub_deferred_barrier(), 0);
	EXPECT_EQ(slub_cache_destroy(other), 0);
}

TEST(reader, in_a_child_of_fork)
{
	int section = slub_read_lock();
	int status = harness::in_child([&] {
		struct slub_cache *cache = slub_cache_create("child", 64, 0, 0, nullptr);

		slub_free_deferred(slub_cache_alloc(cache));
		MUST(slub_cache_destroy(cache) == 0);	/* no section came along */
		slub_read_unlock(section);
		MUST(slub_deferred_barrier() == 0);
		_exit(0);
	});

	EXPECT_EQ(status, 0) << harness::describe_status(status);
	slub_read_unlock(section);
}

} /* namespace */
