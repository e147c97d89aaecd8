/* SPDX-License-Identifier: MIT */
/* Two threads that do the same to a cache, or one what the other does not expect. */
#include "steps.h"
#include "structure.h"
#include "typed.h"

#define _Static_assert static_assert
#define _Atomic
extern "C" {
#include "features/profile/sample.h"
}
#undef _Static_assert
#undef _Atomic

#include <cstring>

#include <slub/debug.h>
#include <slub/group.h>

namespace {

using race_test = typed;

/* Two threads prepare the same cache: one slot is its sample slot, and no other names it. */
TEST_F(race_test, a_cache_has_one_sample_slot)
{
	uint32_t end_of_slots = 0;
	unsigned nr = steps::for_each([&](unsigned step) {
		struct slub_cache *cache = make("sampled", 64);
		steps::Other other;
		unsigned found = 0;
		bool has_step;

		has_step = steps::between_locks(step, [&] {
			EXPECT_EQ(sample_caches_prepare(cache, 1), 0);
		}, [&] {
			other.call([&] { EXPECT_EQ(sample_caches_prepare(cache, 1), 0); });
		});
		for (struct slub_cache *owner : cache_slot_owner)
			found += owner == cache;
		EXPECT_EQ(found, 2u) << step;
		EXPECT_EQ(cache_of_slot(cache->sample_slot), cache);
		end(cache);
		/* What one of them had taken too much is free. */
		if (!step)
			end_of_slots = percpu_slots_end();
		EXPECT_EQ(percpu_slots_end(), end_of_slots);
		return has_step;
	});
	EXPECT_GT(nr, 0u);
}

/* Who finds that others have taken the slab that he has just fetched fetches another. */
TEST_F(race_test, a_refill_is_not_refused_where_others_are_quicker)
{
	struct slub_cache *cache = make("quick", 64 << 10);
	struct cache_node *node = cache->nodes[0];
	std::vector<void *> chains;
	unsigned taken = 0;
	steps::Other other;
	void *mine = nullptr;
	bool had = false;
	uint32_t nr = 0;
	auto has_objects = [&] { return node->carve || !list_is_empty(&node->partial); };

	steps::run([&] { mine = node_refill(cache, node, &nr); }, [&] {
		bool let_go = had && !slub_thread.locks_held;

		had = slub_thread.locks_held;
		if (!let_go || !has_objects())
			return true;
		other.call([&] {
			uint32_t n;

			while (has_objects())
				chains.push_back(node_refill(cache, node, &n));
		});
		return ++taken < 12;
	});
	EXPECT_EQ(taken, 12u);
	EXPECT_NE(mine, nullptr) << "there is memory";
	for (void *chain : chains)
		chain_flush(cache, chain);
	chain_flush(cache, mine);
	end(cache);
}

/* Whoever shares a cache finds it as others have left it, or they find it shared. */
template <class Set> void expect_own_or_shared(Set set, unsigned long flags)
{
	unsigned nr;

	start::option("MERGE=1");
	nr = steps::for_each([&](unsigned step) {
		struct slub_cache *cache = typed::make("shared-a", 72, flags), *shared = nullptr;
		steps::Other other;
		int err = 1;
		bool has_step;

		has_step = steps::between_locks(step, [&] {
			shared = slub_cache_create("shared-b", 72, 0, flags, nullptr);
		}, [&] {
			sem_t called;

			sem_init(&called, 0, 0);
			other.begin([&] {
				err = set(cache);
				sem_post(&called);
			});
			/* Or it waits until the other cache is made. */
			for (int i = 0; i < 20 && sem_trywait(&called); i++)
				usleep(1000);
		});
		if (has_step)
			other.finish();
		EXPECT_TRUE(err == 1 || (err == -EBUSY) == (shared == cache)) << step << " " << err;
		if (!err) {
			EXPECT_NE(shared, cache) << step;
		}
		typed::end(shared);
		typed::end(cache);
		return has_step && !testing::Test::HasFailure();
	});
	/* Behind the look for one to share, and twice while that gets a name. */
	EXPECT_GT(nr, 2u);
	start::option("MERGE=0");
}

TEST_F(race_test, a_cache_is_not_shared_while_its_objects_become_movable)
{
	expect_own_or_shared([](struct slub_cache *cache) {
		return slub_cache_setup_mobility(cache,
			[](slub_cache *, void **, size_t, void *) noexcept {},
			[](slub_cache *, void *, void *, void *) noexcept -> int { return -1; },
			nullptr);
	}, 0);
}

TEST_F(race_test, a_cache_is_not_shared_while_it_enters_a_group)
{
	struct slub_group *group = slub_group_create("group", nullptr);

	ASSERT_NE(group, nullptr);
	expect_own_or_shared([&](struct slub_cache *cache) {
		return slub_cache_group_set(cache, group);
	}, SLUB_CACHE_ACCOUNT);
	EXPECT_EQ(slub_group_destroy(group), 0);
}

/* What is found is told of the cache that it was found in, though its owner is destroying it. */
TEST_F(race_test, a_watched_cache_stays_while_it_is_looked_at)
{
	const unsigned long flags = SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_POISON;

	/* Right behind the lock, and a little later; the walk is long for single steps. */
	for (unsigned step : { 0, 20 }) {
		struct slub_cache *cache = make("found", 64, flags), *next = nullptr;
		struct cache_node *node = cache_twin(cache)->nodes[0];
		auto *object = (char *)slub_cache_alloc(cache);
		bool seen = false, called = false;
		unsigned n = step;
		long bugs = 0;
		steps::Other other;

		slub_cache_free(cache, object);
		object[20]++;
		steps::run([&] { bugs = slub_validate_all(); }, [&] {
			seen |= lock_is_mine(&node->lock);
			if (!seen || slub_thread.locks_held || n--)
				return true;
			other.begin([&] {
				EXPECT_EQ(slub_cache_destroy(cache), 0);
				next = make("next", 64, flags);
				__atomic_store_n(&called, true, __ATOMIC_RELEASE);
			});
			/* Or it waits for this thread. */
			while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE) &&
			       !__atomic_load_n(&cache->movers, __ATOMIC_RELAXED))
				usleep(100);
			return false;
		});
		ASSERT_TRUE(seen);
		other.finish();
		EXPECT_EQ(bugs, 1) << step;
		EXPECT_EQ(slub_cache_errors(next), 0u) << step;
		end(next);
	}
}

/* As reserve.c makes one. */
void become_shadow(struct slub_cache *shadow, struct slub_cache *root)
{
	strcpy(shadow->name_space, "a:reserve");
	shadow->name = shadow->name_space;
	cache_sizes_set(shadow, root->size, root->object_size);
	shadow->align = root->align;
	shadow->is_reserve = true;
	cache_root_set(shadow, root);
	EXPECT_EQ(cache_publish(shadow, 0), 0);
}

/* ... and ends with the cache that it stands for: it is none of malloc's own. */
TEST_F(race_test, a_cache_that_becomes_a_shadow_is_not_pinned_by_nobody)
{
	struct slub_cache *root = make("root", 80);
	unsigned nr = steps::for_each([&](unsigned step) {
		struct slub_cache *cache = make("pinned", 96);
		bool has_step, is_pinned = false, is_other = false;
		struct cache_hold pin;
		steps::Other other;
		uint64_t at = 0;

		has_step = steps::interrupt(step, [&] { return ++at; }, [&] {
			is_pinned = cache_pin_any(cache, &pin);
		}, [&] {
			if (__atomic_load_n(&cache->movers, __ATOMIC_RELAXED))
				return;
			is_other = true;
			other.call([&] {
				end(cache);
				take_structure(cache);
				become_shadow(cache, root);
			});
		});
		if (is_other && is_pinned) {
			EXPECT_EQ(pin.cache, root) << step;
		}
		if (is_pinned)
			cache_unpin(&pin);
		if (is_other)
			cache_drop_shadow(cache);
		else
			end(cache);
		return has_step && !testing::Test::HasFailure();
	});
	EXPECT_GT(nr, 10u);
	end(root);
}

/*
 * Who shrinks all caches has the last object of one in hand when another thread begins to
 * destroy it, which waits a second in vain for the shrink to be over; by then the slab is out
 * of the node, and not given back.
 */
TEST_F(race_test, a_cache_is_destroyed_while_its_last_slab_is_given_back)
{
	struct slub_cache *cache = make("ends", 1024);
	std::vector<void *> objects;
	bool is_begun = false;
	steps::Other other;
	int err = 1;

	/* The first slab is carved up: then it goes with its last object, which is in a list. */
	cache->min_partial = 0;
	for (uint32_t i = 0; i < 2 * cache->objects; i++)
		objects.push_back(cache_alloc(cache));
	struct page *slab = slab_of(cache, objects[0]);
	for (size_t i = 1; i < objects.size(); i++)
		cache_free(cache, objects[i]);
	ASSERT_TRUE(cache_flush(cache));
	cache_free(cache, objects[0]);
	size_t nr_slabs = cache->nodes[0]->nr_slabs;
	steps::run([] { slab_shrink_all(); }, [&] {
		if (slub_thread.locks_held)
			return true;
		if (!is_begun) {
			for (uint32_t cid = 0; cid < percpu_areas_end(); cid++)
				if (!cache_list_is_empty(cache, cid))
					return true;
			is_begun = true;
			other.begin([&] { err = slub_cache_destroy(cache); });
			while (!__atomic_load_n(&cache->closers, __ATOMIC_RELAXED))
				sched_yield();
		}
		if (cache->nodes[0]->nr_slabs == nr_slabs || slab_count_read(slab) == 0 ||
		    cache_of(page_address(slab)) != cache)
			return true;
		other.finish();
		return false;
	});
	ASSERT_TRUE(is_begun);
	EXPECT_EQ(err, -EAGAIN) << "0: it is another's while its slab is given back";
	if (err)
		end(cache);
}

/* What was a shadow may be about to be another's, and have no name yet. */
TEST_F(race_test, a_cache_is_made_while_shadows_come_and_go)
{
	/* Those in which names are compared; there are thousands behind them. */
	const unsigned steps_max = 700;
	struct slub_cache *root = make("root", 80);
	unsigned nr = steps::for_each([&](unsigned step) {
		struct slub_cache *shadow = cache_struct_alloc(), *cache = nullptr;
		bool has_gone = false;
		steps::Other other;
		uint64_t at = 0;

		become_shadow(shadow, root);
		steps::interrupt(step, [&] { return ++at; }, [&] {
			cache = slub_cache_create("beside", 96, 0, 0, nullptr);
		}, [&] {
			has_gone = true;
			other.call([&] {
				cache_drop_shadow(shadow);
				take_structure(shadow);
			});
		});
		EXPECT_NE(cache, nullptr) << step;
		end(cache);
		if (has_gone)
			cache_struct_free(shadow);
		else
			cache_drop_shadow(shadow);
		return has_gone && step < steps_max;
	});
	EXPECT_GE(nr, steps_max);
	end(root);
}

} /* namespace */
