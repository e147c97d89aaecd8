/* SPDX-License-Identifier: MIT */
/*
 * features/profile/sample.c: which allocations are sampled, draw by draw.  The numbers are those
 * of a seed, so a model of a few lines knows each of them beforehand.
 */
#include <cmath>

#include "typed.h"

extern "C" {
#include "core/base/hash.h"
#include "features/guard/guard.h"
#include "features/profile/sample.h"
}

#include <slub/debug.h>

namespace {

struct sampled {
	void *object;
	size_t bytes;
	double weight;
};
std::vector<struct sampled> told;
std::vector<void *> gone;
size_t nr_looks;

bool is_refused;	/* no shadow can be made */

const struct sample_keeper keeper = {
	[](void *object, size_t bytes, double weight) {
		told.push_back({ object, bytes, weight });
	},
	[](void *object) { gone.push_back(object); },
	[] { nr_looks++; },
};

} /* namespace */

extern "C" struct slub_cache *__real_cache_struct_alloc(void);

extern "C" struct slub_cache *__wrap_cache_struct_alloc(void)
{
	return is_refused ? nullptr : __real_cache_struct_alloc();
}

namespace {

struct sample : typed {
	static constexpr size_t MEAN = 1024;
	static constexpr double PROFILE = 64. / MEAN;

	void SetUp() override
	{
		typed::SetUp();
		if (IsSkipped())
			return;
		set("SLUB_GUARD_SIDE=front");
		percpu_enter();
		sample_keeper = &keeper;
		told.clear();
		gone.clear();
		nr_looks = 0;
		begin(7);
		cache = make("sampled", 64, SLUB_CACHE_NO_MERGE);
	}
	void TearDown() override
	{
		off();
		if (cache)
			end(cache);
		sample_keeper = nullptr;
		set("SLUB_GUARD_SIDE=any");
	}
	static void set(const char *assignment)
	{
		static std::vector<std::string *> kept;
		char *environment[2] = {};

		kept.push_back(new std::string(assignment));
		environment[0] = kept.back()->data();
		option_read(environment);
	}
	static void off()
	{
		sample_switch_on(SAMPLE_PROFILE, false);
		sample_switch_on(SAMPLE_GUARD, false);
	}
	/* The numbers of @seed, for the library and the model. */
	void begin(uint64_t seed, double mean = MEAN)
	{
		sample_set(mean, seed);
		state = seed;
	}
	/* One in @every is guarded. */
	void guard(uint64_t every)
	{
		set("SLUB_GUARD_PLACES=16384");
		ASSERT_EQ(guard_open(every), 0);
		sample_set_guard(every, 1000);
		state += 1000;
		guard_rate = every > 1 ? -log(1 - 1. / (double)every) : 40;
		sample_switch_on(SAMPLE_GUARD, true);
		ASSERT_EQ(sample_caches_prepare(cache, 1), 0);
	}
	double chance() { return (double)(random_next(&state) >> 11) * 0x1p-53; }
	double draw() { return -log((double)((random_next(&state) >> 11) + 1) * 0x1p-53); }
	/* Is the last allocation one of which the keeper was told? */
	static bool is_told(const void *object)
	{
		return !told.empty() && told.back().object == object;
	}
	static void expect_told(void *object, size_t bytes, double rate)
	{
		ASSERT_TRUE(is_told(object));
		EXPECT_EQ(told.back().bytes, bytes);
		EXPECT_NEAR(told.back().weight * (1 - exp(-rate)), 1, 1e-9);
	}
	size_t length(uint32_t half)
	{
		size_t nr = 0;

		for (void *o = percpu_head(half); o; o = link_next(cache, o))
			nr++;
		return nr;
	}

	struct slub_cache *cache = nullptr;
	uint64_t state;
	double guard_rate = 0;
};

TEST_F(sample, numbers_are_those_of_the_seed)
{
	begin(99);
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(sample_random(), random_next(&state));
	sample_set_guard(5, 77);
	state += 77;
	EXPECT_EQ(sample_random(), random_next(&state));
}

TEST_F(sample, switches_are_bits)
{
	bool before = sample_was_on;

	sample_was_on = false;
	sample_switch_on(SAMPLE_GUARD, true);
	EXPECT_EQ(sample_switch.on, 2u);
	EXPECT_FALSE(sample_was_on) << "guarded objects need no look at their end";
	sample_switch_on(SAMPLE_PROFILE, true);
	EXPECT_EQ(sample_switch.on, 3u);
	EXPECT_TRUE(sample_was_on);
	sample_switch_on(SAMPLE_GUARD, false);
	EXPECT_EQ(sample_switch.on, 1u);
	sample_switch_on(SAMPLE_PROFILE, false);
	EXPECT_EQ(sample_switch.on, 0u);
	EXPECT_TRUE(sample_was_on) << "what was sampled may be there still";
	sample_was_on = before || sample_was_on;
}

/* Where nobody may be told nothing is sampled. */
TEST_F(sample, who_may_not_look_closer)
{
	begin(1, 1);
	/* Under a lock there is what lies in the list. */
	void *ready[] = { slub_cache_alloc(cache), slub_cache_alloc(cache) };
	for (void *each : ready)
		slub_cache_free(cache, each);
	sample_switch_on(SAMPLE_PROFILE, true);
	for (int way = 0; way < 3; way++) {
		slub_thread.locks_held = way == 0;
		sample_keeper = way == 1 ? nullptr : &keeper;
		sample_switch.on = way == 2 ? 0 : SAMPLE_PROFILE;
		/* A backend with locks has none where one is held. */
		void *p = sample_alloc_slowly(cache, 60, 16);
		EXPECT_EQ(cache_of(p), p ? cache : nullptr);
		EXPECT_TRUE(p || way == 0);
		EXPECT_EQ(sample_alloc_typed(cache), nullptr);
		EXPECT_EQ(sample_alloc_unguarded(cache), nullptr);
		EXPECT_EQ(sample_bulk_guarded(cache, 1, &p), 0u);
		EXPECT_EQ(sample_large_guarded(100, 16), nullptr);
		sample_large(&p, 1 << 20);
		void *q = sample_alloc(cache, 60);
		EXPECT_EQ(cache_of(q), q ? cache : nullptr);
		EXPECT_EQ(nr_looks, way == 2 ? 7u : 0u) << "only there it may have changed";
		slub_thread.locks_held = 0;
		slub_cache_free(cache, p);
		slub_cache_free(cache, q);
	}
	EXPECT_EQ(told.size(), 0u);
}

/* ---- a coin for each ---- */

TEST_F(sample, the_profile_tosses_a_coin)
{
	int nr = 0;

	sample_switch_on(SAMPLE_PROFILE, true);
	for (int i = 0; i < 2000; i++) {
		bool is_sampled = draw() < PROFILE;
		size_t bytes = 1 + i % 64;
		char *p;

		if (i % 3 == 0) {
			p = (char *)sample_alloc_slowly(cache, bytes, 16);
		} else if ((p = (char *)(i % 3 == 1 ? sample_alloc_typed(cache) :
					 sample_alloc_unguarded(cache)))) {
			bytes = 64;
		} else {
			EXPECT_FALSE(is_sampled);
			continue;
		}
		ASSERT_EQ(is_told(p), is_sampled) << i;
		ASSERT_EQ(cache_of(p)->is_sampled, is_sampled);
		EXPECT_EQ(is_sampled ? cache_of(p)->root : cache_of(p), cache);
		if (is_sampled) {
			expect_told(p, bytes, PROFILE);
			nr++;
		}
		slub_cache_free(cache, p);
		EXPECT_EQ(gone.size(), (size_t)nr) << "its end, once";
	}
	EXPECT_GT(nr, 60);
	EXPECT_EQ(told.size(), (size_t)nr);
}

/* Of the guard only where the cache has a slot for it, and as if each was drawn alone. */
TEST_F(sample, the_guard_and_the_profile_are_drawn_together)
{
	int nr[4] = {};
	void *p;

	sample_switch_on(SAMPLE_GUARD, true);
	EXPECT_EQ(sample_alloc_typed(cache), nullptr) << "without a slot";
	guard(4);
	sample_switch_on(SAMPLE_PROFILE, true);
	double profile = 1 - exp(-PROFILE), guarded = 1 - exp(-guard_rate);
	for (int i = 0; i < 3000; i++) {
		unsigned int use = 0;

		if (draw() < PROFILE + guard_rate) {
			double both = profile + guarded - profile * guarded;

			if (chance() * both >= profile)
				use = SAMPLE_GUARD;
			else
				use = SAMPLE_PROFILE | (chance() < guarded ? SAMPLE_GUARD : 0);
		}
		nr[use]++;
		p = sample_alloc_typed(cache);
		ASSERT_EQ(p != nullptr, use != 0) << i;
		if (!p)
			continue;
		ASSERT_EQ(is_told(p), (use & SAMPLE_PROFILE) != 0) << i;
		ASSERT_EQ(guard_owns(p), (use & SAMPLE_GUARD) != 0) << i;
		slub_cache_free(cache, p);
		told.clear();
	}
	for (int each : nr)
		EXPECT_GT(each, 10);
	/* Without the profile it is drawn alone; and one that has no place is none. */
	sample_switch_on(SAMPLE_PROFILE, false);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	for (int i = 0; i < 200; i++) {
		bool is_guarded = draw() < guard_rate;

		p = sample_alloc_typed(cache);
		ASSERT_EQ(p != nullptr, is_guarded) << i;
		if (p) {
			EXPECT_TRUE(guard_owns(p));
			slub_cache_free(cache, p);
		}
	}
	EXPECT_EQ(told.size(), 0u);
}

TEST_F(sample, what_has_no_place_is_not_guarded)
{
	guard(1);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	void *p = sample_alloc_slowly(cache, 64, 2 << 20);
	EXPECT_FALSE(guard_owns(p)) << "so large an alignment has no place";
	EXPECT_NE(p, nullptr);
	slub_cache_free(cache, p);
	sample_switch_on(SAMPLE_PROFILE, true);
	ASSERT_EQ(slub_cache_debug(cache, 0), 0);
	begin(1, 1);
	p = sample_alloc_slowly(cache, 10, 2 << 20);
	EXPECT_TRUE(cache_of(p)->is_sampled);
	EXPECT_TRUE(is_told(p));
	slub_cache_free(cache, p);
	p = sample_alloc_slowly(cache, 10, 16);
	EXPECT_TRUE(guard_owns(p));
	EXPECT_TRUE(is_told(p)) << "both";
	slub_cache_free(cache, p);
}

TEST_F(sample, what_has_no_memory_is_not_sampled)
{
	begin(1, 1);
	sample_switch_on(SAMPLE_PROFILE, true);
	ASSERT_EQ(sample_caches_prepare(cache, 1), 0);
	is_refused = true;
	EXPECT_EQ(sample_alloc_typed(cache), nullptr);
	EXPECT_EQ(sample_alloc_unguarded(cache), nullptr);
	for (int i = 0; i < 10; i++) {
		void *p = sample_alloc(cache, 64), *q = sample_alloc_slowly(cache, 64, 16);

		EXPECT_EQ(cache_of(p), cache);
		EXPECT_EQ(cache_of(q), cache);
		slub_cache_free(cache, p);
		slub_cache_free(cache, q);
	}
	is_refused = false;
	EXPECT_EQ(told.size() + gone.size(), 0u);
}

TEST_F(sample, one_in_n_is_guarded_whatever_n_is)
{
	void *p;

	guard(1);
	for (int i = 0; i < 100; i++) {
		p = sample_large_guarded(100000, 16);
		ASSERT_TRUE(guard_owns(p));
		guard_free(p, nullptr);
		ASSERT_EQ(sample_bulk_guarded(cache, 1, &p), 1u);
		guard_free(p, cache);
	}
	for (auto [every, rate] : { std::pair(2ull, log(2)), { 1ull << 50, 0x1p-50 },
				    { (1ull << 50) - 1, 0x1p-50 } }) {
		begin(5);
		sample_set_guard(every, 0);
		/* The model's numbers would have to be that small; twice is never. */
		size_t nr = 0, should = 0;
		for (int i = 0; i < 200; i++) {
			should += draw() < rate;
			p = sample_large_guarded(40000, 16);
			nr += p != nullptr;
			if (p)
				guard_free(p, nullptr);
		}
		EXPECT_EQ(nr, should) << every;
	}
}

TEST_F(sample, the_guarded_ones_of_a_bulk)
{
	size_t total = 0;

	guard(8);
	for (size_t nr = 1; nr < 60; nr++) {
		void *objects[60];
		size_t should = 0, at = 0;

		for (;; should++) {
			auto skipped = (uint64_t)(draw() / guard_rate);

			if (skipped >= nr - at)
				break;
			at += skipped + 1;
		}
		ASSERT_EQ(sample_bulk_guarded(cache, nr, objects), should) << nr;
		for (size_t i = 0; i < should; i++) {
			EXPECT_TRUE(guard_owns(objects[i]));
			guard_free(objects[i], cache);
		}
		total += should;
	}
	EXPECT_GT(total, 100u);
	void *p;
	sample_set_guard(1, 0);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	EXPECT_EQ(sample_bulk_guarded(cache, 1, &p), 0u) << "these are allocated one by one";
	ASSERT_EQ(slub_cache_debug(cache, 0), 0);
	sample_switch_on(SAMPLE_GUARD, false);
	sample_switch_on(SAMPLE_PROFILE, true);
	EXPECT_EQ(sample_bulk_guarded(cache, 1, &p), 0u);
	struct slub_cache *other = make("no-slot", 64, SLUB_CACHE_NO_MERGE);
	sample_switch_on(SAMPLE_GUARD, true);
	other->sample_slot = 0;
	EXPECT_EQ(sample_bulk_guarded(other, 1, &p), 0u);
	end(other);
}

TEST_F(sample, large_blocks)
{
	sample_switch_on(SAMPLE_PROFILE, true);
	for (size_t bytes : { 100, 1024, 5000 }) {
		for (int i = 0; i < 100; i++) {
			bool is_sampled = draw() * MEAN < (double)bytes;

			told.clear();
			sample_large(&i, bytes);
			ASSERT_EQ(told.size(), is_sampled ? 1u : 0u);
			if (is_sampled)
				expect_told(&i, bytes, (double)bytes / MEAN);
		}
	}
	EXPECT_EQ(sample_large_guarded(100, 16), nullptr) << "the guard is off";
	off();
	told.clear();
	guard(3);
	sample_large(&cache, 1 << 30);
	EXPECT_EQ(told.size(), 0u);
	for (size_t align : { 1, 64 }) {
		for (int i = 0; i < 100; i++) {
			bool is_guarded = draw() < guard_rate;
			void *p = sample_large_guarded(100, align);

			ASSERT_EQ(p != nullptr, is_guarded) << i;
			if (!p)
				continue;
			EXPECT_EQ(guard_cache_of(p), nullptr);
			guard_free(p, nullptr);
		}
	}
	set("SLUB_GUARD_SIDE=behind");
	void *p;
	while (!(p = sample_large_guarded(100, 1)))
		continue;
	EXPECT_EQ((uintptr_t)p % 32, 16u) << "as malloc() aligns";
	guard_free(p, nullptr);
}

/* ---- lists that are drawn for ---- */

/* SAMPLE-1, and the model says how long each list is. */
TEST_F(sample, of_a_dealt_chain_each_length_was_drawn)
{
	start::one_cpu here;
	std::vector<void *> all;
	uint64_t left = 0;
	size_t nr_sampled = 0, nr_spare = 0;

	sample_switch_on(SAMPLE_PROFILE, true);
	ASSERT_EQ(sample_caches_prepare(cache, 1), 0);
	const uint32_t slot = cache->sample_slot;
	for (int i = 0; i < 3000; i++) {
		bool is_dealt = !percpu_head(slot), is_sampled = false;

		if (is_dealt) {
			bool has_spare = percpu_head(slot + SLOT_SPARE);

			nr_spare += has_spare;
			left = has_spare ? 0 : (uint64_t)(draw() / PROFILE);
			is_sampled = !left;
			left = is_sampled ? (uint64_t)(draw() / PROFILE) : left - 1;
		}
		void *p = sample_alloc(cache, 50);
		ASSERT_EQ(is_told(p), is_sampled) << i;
		ASSERT_EQ(cache_of(p)->is_sampled, is_sampled);
		if (is_sampled)
			expect_told(p, 50, PROFILE);
		size_t main = length(slot), spare = length(slot + SLOT_SPARE);
		if (is_dealt) {
			ASSERT_EQ(main, left < main + spare ? left : main + spare) << i;
		}
		nr_sampled += is_sampled;
		all.push_back(p);
		/* What was freed here is dealt next. */
		if (i % 5 == 0) {
			slub_cache_free(cache, all[all.size() / 2]);
			all.erase(all.begin() + (long)all.size() / 2);
		}
	}
	EXPECT_GT(nr_sampled, 100u);
	EXPECT_GT(nr_spare, 90u);
	EXPECT_EQ(told.size(), nr_sampled);
	for (void *p : all)
		slub_cache_free(cache, p);
}

/* Half of what a list holds is enough, rounded up where that is odd. */
TEST_F(sample, what_was_freed_here_is_dealt_next)
{
	start::one_cpu here;
	struct slub_cache_args args = {};
	std::vector<void *> all;

	end(cache);
	args.name = "sampled";
	args.size = 64;
	args.flags = SLUB_CACHE_NO_MERGE;
	args.sheaf_length = 33;
	cache = slub_cache_create_args(&args);
	ASSERT_EQ(cache->capacity, 33);
	begin(1, 1e18);
	sample_switch_on(SAMPLE_PROFILE, true);
	ASSERT_EQ(sample_caches_prepare(cache, 1), 0);
	const size_t enough = (cache->capacity + 1u) / 2;
	for (size_t nr : { (size_t)1, (size_t)3, enough - 1, enough, enough + 3 }) {
		std::set<void *> freed;

		while (all.size() < nr)
			all.push_back(slub_cache_alloc(cache));
		ASSERT_TRUE(cache_flush(cache));
		for (size_t i = 0; i < nr; i++) {
			slub_cache_free(cache, all.back());
			all.pop_back();
		}
		for (void *o = percpu_head(cache->list_slot); o; o = link_next(cache, o))
			freed.insert(o);
		for (size_t i = 0; i < freed.size(); i++) {
			all.push_back(sample_alloc(cache, 64));
			EXPECT_EQ(freed.count(all.back()), 1u) << i << " of " << nr;
		}
		EXPECT_EQ(length(cache->sample_slot + SLOT_SPARE), 0u);
		/* Few are not all. */
		EXPECT_EQ(length(cache->sample_slot) > 0, freed.size() < enough) << nr;
	}
	EXPECT_EQ(told.size(), 0u);
	for (void *p : all)
		slub_cache_free(cache, p);
}

TEST_F(sample, watched_ones_are_in_no_list)
{
	begin(1, 1);
	sample_switch_on(SAMPLE_PROFILE, true);
	ASSERT_EQ(sample_caches_prepare(cache, 1), 0);
	ASSERT_EQ(slub_cache_debug(cache, SLUB_CACHE_RED_ZONE), 0);
	for (int i = 0; i < 20; i++) {
		void *p = sample_alloc(cache, 60);

		EXPECT_TRUE(is_told(p)) << i;
		EXPECT_EQ(percpu_head(cache->sample_slot), nullptr);
		slub_cache_free(cache, p);
	}
}

TEST_F(sample, what_is_guarded_only_comes_from_lists)
{
	start::one_cpu here;
	uint64_t left = 0;
	size_t nr = 0;

	guard(5);
	for (int i = 0; i < 500; i++) {
		bool is_dealt = !percpu_head(cache->sample_slot), is_guarded = false;

		if (is_dealt) {
			left = percpu_head(cache->sample_slot + SLOT_SPARE) ? 0 :
			       (uint64_t)(draw() / guard_rate);
			is_guarded = !left;
			if (is_guarded)
				draw();
		}
		void *p = sample_alloc_typed(cache);
		ASSERT_NE(p, nullptr) << i;
		ASSERT_EQ(guard_owns(p), is_guarded) << i;
		nr += is_guarded;
		slub_cache_free(cache, p);
	}
	EXPECT_GT(nr, 50u);
	EXPECT_EQ(told.size(), 0u);
}

/* ---- programs' caches ---- */

TEST_F(sample, caches_get_a_slot_where_there_is_a_guard)
{
	struct slub_cache *paged = make("paged", 2 * PAGE_BYTES, SLUB_CACHE_NO_MERGE);

	EXPECT_EQ(cache->sample_slot, 0u);
	sample_cache_made(cache);
	sample_caches_switch();
	EXPECT_EQ(cache->sample_slot, 0u) << "there is none";
	sample_switch_on(SAMPLE_PROFILE, true);
	sample_cache_made(cache);
	EXPECT_EQ(cache->sample_slot, 0u);
	off();
	sample_switch_on(SAMPLE_GUARD, true);
	bool was_internal = cache->is_internal;
	cache->is_internal = true;
	sample_cache_made(cache);
	sample_caches_switch();
	EXPECT_EQ(cache->sample_slot, 0u);
	cache->is_internal = was_internal;
	sample_caches_switch();
	EXPECT_NE(cache->sample_slot, 0u);
	EXPECT_EQ(paged->sample_slot, 0u) << "its links are elsewhere";
	uint32_t slot = cache->sample_slot;
	sample_cache_made(cache);
	EXPECT_EQ(cache->sample_slot, slot);
	struct slub_cache *later = make("later", 64, SLUB_CACHE_NO_MERGE);
	EXPECT_NE(later->sample_slot, 0u);
	EXPECT_TRUE(!later->inline_slot || SLUB_CONFIG_HARDENED ||
		    later->inline_slot == later->sample_slot);
	off();
	sample_caches_switch();
	EXPECT_NE(later->inline_slot, later->sample_slot);
	end(later);
	end(paged);
}

} /* namespace */
