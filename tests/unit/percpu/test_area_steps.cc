/* SPDX-License-Identifier: MIT */
/*
 * core/percpu/area.c, instruction by instruction: whoever finds an area remembers it, and its
 * number then says whose it is.  So none is ever found with the number of another CPU.
 */
#include <gtest/gtest.h>

#include "start.h"
#include "steps.h"

namespace {

class area_steps : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] {
			start::option("TEST_CPUS=128");
			start::option("PERCPU_BYTES=64K");
			start::percpu();
		});
	}

	/* Calls @work, and looks at the area of @cid after each of its instructions. */
	static void look(uint32_t cid, const std::function<void()> &work)
	{
		seen_none = seen_own = seen_other = 0;
		steps::run(work, [cid] {
			char *area = percpu_area(cid);
			uint32_t number;

			if (!area)
				return true;
			number = *(uint32_t *)(area + AREA_NUMBER);
			seen_none += number == AREA_NUMBER_NONE;
			seen_own += number == cid;
			seen_other += number != cid && number != AREA_NUMBER_NONE;
			return true;
		});
	}

	static inline unsigned seen_none, seen_own, seen_other;
};

TEST_F(area_steps, a_new_area_has_no_number_before_its_own)
{
	ASSERT_EQ(percpu_backend, BACKEND_RSEQ);
	ASSERT_EQ(percpu_area(70), nullptr);
	look(70, [] { percpu_area_make(70); });
	EXPECT_EQ(seen_other, 0u) << "instructions at which it was another CPU's";
	EXPECT_GT(seen_none, 0u);
	EXPECT_GT(seen_own, 0u);
}

TEST_F(area_steps, a_stopped_area_has_no_number)
{
	ASSERT_EQ(percpu_backend, BACKEND_RSEQ);
	percpu_area_make(71);
	look(71, [] { percpu_base_set(71, nullptr); });
	EXPECT_EQ(seen_other, 0u);
	EXPECT_GT(seen_none, 0u);
	EXPECT_EQ(*(uint32_t *)(percpu_area(71) + AREA_NUMBER), AREA_NUMBER_NONE);
	look(71, [] { percpu_base_set(71, percpu_area(71)); });
	EXPECT_EQ(seen_other, 0u);
	EXPECT_GT(seen_own, 0u);
}

/*
 * What was allocated later lies behind it, up to the end of the area; a free looks at its own
 * units only, under the lock that every other allocation waits for.
 */
TEST_F(area_steps, a_free_takes_as_long_in_a_full_area_as_in_an_empty_one)
{
	auto steps_of_free = [](uintptr_t at) {
		size_t steps = 0;

		steps::run([at] { slub_percpu_free(at); }, [&steps] { return ++steps, true; });
		return steps;
	};
	uintptr_t first = slub_percpu_alloc(4, 4), at;
	size_t alone = steps_of_free(first), nr = 0;

	ASSERT_EQ(slub_percpu_alloc(4, 4), first);
	while ((at = slub_percpu_alloc(4, 4)))
		nr++;
	ASSERT_GT(nr, 10000u);
	EXPECT_LE(steps_of_free(first), alone + 100);
	ASSERT_EQ(slub_percpu_alloc(4, 4), first);
	for (uintptr_t one = first; one < first + (nr + 1) * 4; one += 4)
		ASSERT_EQ(slub_percpu_free(one), 0);
}

} /* namespace */
