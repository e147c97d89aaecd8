/* SPDX-License-Identifier: MIT */
/* What a child finds of caches that threads of its parent were at, or its own in a handler. */
#include <thread>

#include "steps.h"
#include "typed.h"

extern "C" {
#include "features/watch/watch.h"
}
#include <slub/debug.h>

namespace {

/* fork() of these layers. */
pid_t fork_here()
{
	pid_t pid;

	lock_fork_begin();
	percpu_fork_prepare();
	reclaim_fork_prepare();
	slab_fork_prepare();
	page_fork_prepare();
	pid = fork();
	turn_forks += !pid;
	page_fork_finish(!pid);
	slab_fork_finish(!pid);
	percpu_fork_finish(!pid);
	reclaim_fork_finish(!pid);
	if (!pid)
		alarm(20);
	return pid;
}

/* The status of a child that ends with @work. */
int child(const std::function<int()> &work)
{
	pid_t pid = fork_here();

	if (!pid)
		_exit(work());
	return harness::wait_for(pid);
}

#define EXPECT_CHILD(...)                                                            \
	EXPECT_EQ(harness::describe_status(child(__VA_ARGS__)), "exit 0")

using fork_test = typed;

/* Uses what is watched of @cache. */
int use_watched(struct slub_cache *cache)
{
	void *object;
	int err = slub_cache_debug(cache, SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_POISON);

	if (err)
		return 10;
	object = slub_cache_alloc(cache);
	if (!object || cache_of(object) != cache_twin(cache))
		return 11;
	slub_cache_free(cache, object);
	if (slub_cache_validate(cache) || slub_cache_destroy(cache))
		return 12;
	/* Each is in the list once. */
	unsigned nr = 0;
	for (struct slub_cache *c = cache_first(); c; c = c->next) {
		if (++nr > 1000)
			return 13;
	}
	return 0;
}

/* The watch of a cache that is no more is used again. */
TEST_F(fork_test, a_watch_is_complete_when_it_names_its_cache)
{
	for (bool reused : { false, true }) {
		unsigned nr = steps::for_each([&](unsigned step) {
			struct slub_cache *cache = make("watched", 64);
			steps::Other other;
			bool has_step;

			has_step = steps::between_locks(step, [&] {
				EXPECT_EQ(slub_cache_debug(cache, SLUB_CACHE_CONSISTENCY_CHECKS |
							   SLUB_CACHE_POISON), 0);
			}, [&] {
				for (struct watch *w = watch_first(); w; w = w->next) {
					if (w->original == cache) {
						EXPECT_TRUE(cache_is_live(&w->cache)) << step;
					}
				}
				other.call([&] {
					EXPECT_CHILD([&] { return use_watched(cache); }) << step;
				});
			});
			end(cache);
			return has_step && !HasFailure();
		});
		EXPECT_GT(nr, 2u) << reused;
	}
}

/* Another thread has pinned a cache; this one is interrupted while it moves objects of its own. */
TEST_F(fork_test, others_pins_are_gone_also_if_a_mover_forks)
{
	static struct slub_cache *pinned;
	static int status;
	struct slub_cache *moved = make("moved", 512);
	std::vector<void *> objects(200);
	steps::Other other;

	pinned = make("pinned", 64);
	status = -1;
	ASSERT_EQ(slub_cache_setup_mobility(moved,
		[](slub_cache *, void **, size_t, void *) noexcept {},
		[](slub_cache *, void *, void *, void *) noexcept -> int {
			if (status < 0) {
				status = child([] { return slub_cache_destroy(pinned); });
			}
			return -1;
		}, nullptr), 0);
	ASSERT_EQ(slub_cache_alloc_bulk(moved, 0, 200, objects.data()), 200u);
	for (size_t i = 0; i < 200; i++) {
		if (i % 8)
			slub_cache_free(moved, objects[i]);
	}
	struct cache_hold pin;
	other.call([&] { EXPECT_TRUE(cache_pin(pinned, &pin)); });
	EXPECT_GE(slub_cache_defrag(moved, 100), 0);
	other.call([&] { cache_unpin(&pin); });
	EXPECT_EQ(harness::describe_status(status), "exit 0");
	for (size_t i = 0; i < 200; i += 8)
		slub_cache_free(moved, objects[i]);
	end(pinned);
	end(moved);
}

/* A handler forks, and what it interrupted goes on in both. */
TEST_F(fork_test, own_pins_are_given_back_in_the_child)
{
	struct slub_cache *cache = make("pinned", 64);
	struct cache_hold pin, hold;

	ASSERT_TRUE(cache_pin(cache, &pin));
	EXPECT_CHILD([&] {
		cache_unpin(&pin);
		return cache->movers || slub_cache_destroy(cache);
	});
	cache_unpin(&pin);
	ASSERT_EQ(cache_shut(cache, &hold), 0);
	EXPECT_CHILD([&] {
		cache_open(&hold);
		return cache->closers || !cache_pin(cache, &pin);
	});
	cache_open(&hold);
	end(cache);
}

const struct slub_cache_args static_args = [] {
	struct slub_cache_args args = {};

	args.name = "static";
	args.size = 64;
	args.flags = SLUB_CACHE_NO_MERGE | SLUB_CACHE_CONSISTENCY_CHECKS;
	return args;
}();

/* Uses a cache that is a variable, and is in the list of caches once at the end. */
int use_static(struct slub_cache *cache)
{
	struct slub_cache *made = nullptr;
	unsigned nr = 0, found = 0;

	for (int i = 0; i < 2; i++) {
		void *object = slub_cache_alloc(cache);

		if (!object)
			return 10 + i;
		made = cache_real(cache);
		if (!cache_twin(made) || cache_of(object) != cache_twin(made))
			return 20 + i;
		slub_cache_free(cache, object);
		if (i == 0 && slub_cache_destroy(cache))
			return 30;
	}
	for (struct slub_cache *c = cache_first(); c && nr < 1000; c = c->next, nr++)
		found += c == made;
	return found != 1 || nr == 1000 ? 40 : 0;
}

/* A thread of the parent was destroying it. */
TEST_F(fork_test, a_cache_that_is_a_variable_can_be_used_again)
{
	static struct cache_front fronts[200];
	unsigned nr = steps::for_each([&](unsigned step) {
		struct slub_cache *cache = (struct slub_cache *)&fronts[step];
		steps::Other other;
		bool has_step;

		fronts[step].args = &static_args;
		void *object = slub_cache_alloc(cache);
		EXPECT_NE(object, nullptr);
		slub_cache_free(cache, object);
		has_step = steps::between_locks(step, [&] {
			EXPECT_EQ(slub_cache_destroy(cache), 0);
		}, [&] {
			other.call([&] {
				EXPECT_CHILD([&] { return use_static(cache); }) << step;
			});
		});
		EXPECT_EQ(fronts[step].cache, nullptr) << step;
		return has_step && !HasFailure();
	});
	EXPECT_GT(nr, 10u);
}

/* A thread of the parent had the lock of a barn for long: the child has it, and what is there. */
TEST_F(fork_test, a_barn_is_whole_in_the_child)
{
	/* The other thread begins before this one keeps to a CPU. */
	steps::Other other;
	struct slub_cache *cache = make("barn", 64);
	struct barn *barn;
	void *chain, *got;
	uint32_t nr;

	harness::stay_on_this_cpu();
	percpu_area_make(percpu_here());
	barn = barn_of(cache, percpu_here());
	ASSERT_NE(barn, nullptr);
	chain = chain_refill(cache, cache->nodes[0], &nr);
	page_purge(0);
	ASSERT_TRUE(barn_put(cache, chain, nr));
	other.call([&] { lock_acquire(&barn->lock); });
	EXPECT_CHILD([&] {
		uint32_t n;

		return barn_get(cache, &n) == chain && n == nr && !cache->in_barns ? 0 : 1;
	});
	other.call([&] { lock_release(&barn->lock); });
	got = barn_get(cache, &nr);
	EXPECT_EQ(got, chain);
	chain_flush(cache, got);
	end(cache);
}

/* Objects in the hands of a thread that frees what is ripe, or puts it into the queue. */
TEST_F(fork_test, lost_objects_are_not_pending)
{
	struct slub_cache *cache = make("deferred", 64);
	unsigned nr = steps::for_each([&](unsigned step) {
		std::vector<void *> objects(200);
		steps::Other other;
		bool has_step;

		EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 200, objects.data()), 200u);
		for (void *object : objects)
			slub_free_deferred(object);
		has_step = steps::between_locks(step, slub_deferred_barrier, [&] {
			other.call([&] {
				EXPECT_CHILD([&] {
					slub_deferred_barrier();
					return (int)slub_deferred_pending();
				}) << step;
			});
		});
		EXPECT_EQ(slub_deferred_pending(), 0u);
		return has_step && !HasFailure();
	});
	EXPECT_GT(nr, 4u);
	end(cache);
}

/* The thread that is at it forks itself, in a handler. */
TEST_F(fork_test, own_objects_are_not_less_than_none)
{
	struct slub_cache *cache = make("deferred", 64);
	unsigned nr = steps::for_each([&](unsigned step) {
		static pid_t pid;
		std::vector<void *> objects(200);
		bool has_step;

		pid = -1;
		EXPECT_EQ(slub_cache_alloc_bulk(cache, 0, 200, objects.data()), 200u);
		for (void *object : objects)
			slub_free_deferred(object);
		has_step = steps::between_locks(step, slub_deferred_barrier, [&] {
			pid = fork_here();
		});
		if (pid == 0) {
			slub_deferred_barrier();
			_exit((int)slub_deferred_pending());
		}
		if (pid > 0) {
			int status = harness::wait_for(pid);
			EXPECT_EQ(status, 0) << step << harness::describe_status(status);
		}
		return has_step && !HasFailure();
	});
	EXPECT_GT(nr, 4u);
	end(cache);
}

} /* namespace */
