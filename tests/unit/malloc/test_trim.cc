/* SPDX-License-Identifier: MIT */
/* malloc_trim() empties the lists of all CPUs, and stops them together. */
#include <gtest/gtest.h>
#include <malloc.h>
#include <vector>

#include "lists.h"
#include "slub.h"
#include "start.h"

static unsigned nr_barriers;

/* The linker sends the library's calls here (--wrap). */
extern "C" int __real_os_barrier_rseq(void);
extern "C" int __real_os_barrier(void);

extern "C" int __wrap_os_barrier_rseq(void)
{
	nr_barriers++;
	return __real_os_barrier_rseq();
}

extern "C" int __wrap_os_barrier(void)
{
	nr_barriers++;
	return __real_os_barrier();
}

namespace {

/*
 * CPUs, or threads, that nobody is on, with freed objects in their lists: one barrier for those of
 * all of them, and one more for the lists of blocks, which their slabs may go to.
 */
TEST(trim, barriers_are_not_one_for_each_cpu)
{
	const uint32_t FIRST = 40, NR = 8;
	const size_t BYTES = 5000;
	uint32_t busy = 0;
	std::vector<struct half *> lists;

	free(malloc(BYTES));
	if (!start::has_wanted_backend())
		GTEST_SKIP() << "this process cannot have that backend";
	if (percpu_backend > BACKEND_THREAD || !percpu_can_stop || !SLUB_CONFIG_SMP)
		GTEST_SKIP() << "no other CPU is stopped";
	if (SLUB_CONFIG_HARDENED)
		GTEST_SKIP() << "with the quarantine's slots so many CPUs do not fit";
	ASSERT_LE((NR + 4) * percpu_slots_end(), (uint32_t)(COLLECT_LISTS_MAX * SLOT_BYTES))
		<< "the lists of so many CPUs do not fit in the collection area";
	malloc_trim(0);
	for (uint32_t cid = FIRST; cid < FIRST + NR; cid++) {
		void *object = malloc(BYTES);
		struct slub_cache *cache = cache_of(object);

		ASSERT_NE(cache, nullptr);
		chain_set_next(cache, object, nullptr);
		percpu_area_make(cid);
		char *area = percpu_area(cid);
		ASSERT_NE(area, nullptr);
		lists.push_back(area_half(area, cache->list_slot));
		lists.back()->head = object;
		if (percpu_backend == BACKEND_THREAD)
			*area_owner_busy(area) = &busy;
	}
	nr_barriers = 0;
	malloc_trim(0);
	EXPECT_GE(nr_barriers, 1u);
	EXPECT_LE(nr_barriers, 2u);
	for (struct half *list : lists)
		EXPECT_EQ(list->head, nullptr);
	for (uint32_t cid = FIRST; percpu_backend == BACKEND_THREAD && cid < FIRST + NR; cid++)
		*area_owner_busy(percpu_area(cid)) = nullptr;
}

} /* namespace */
