/* SPDX-License-Identifier: MIT */
/* Suites that take what lies in the lists of all CPUs; skipped where no CPU can be stopped. */
#ifndef SLUB_TESTS_UNIT_SLAB_ALL_LISTS_H
#define SLUB_TESTS_UNIT_SLAB_ALL_LISTS_H

#include <gtest/gtest.h>

#include "check.h"
#include "start.h"

class all_lists : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::slab(512ul << 20, 16ul << 20); });
	}
	void SetUp() override
	{
		if (!start::has_wanted_backend())
			GTEST_SKIP() << "this process cannot have that backend";
		if (!percpu_can_stop && percpu_backend <= BACKEND_THREAD)
			GTEST_SKIP() << "without membarrier(2) no CPU can be stopped";
	}
};

#endif
