/* SPDX-License-Identifier: MIT */
/* Two threads that do the same to a cache, or one what the other does not expect. */
#include "steps.h"
#include "typed.h"

#define _Static_assert static_assert
#define _Atomic
extern "C" {
#include "slab/sample.h"
}
#undef _Static_assert
#undef _Atomic

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

} /* namespace */
