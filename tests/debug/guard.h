// SPDX-License-Identifier: MIT
// What the tests of guarded objects share.
#ifndef SLUB_TEST_GUARD_H
#define SLUB_TEST_GUARD_H

#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "features/inspect/abi.h"
#include <slub/bucket.h>
#include <slub/debug.h>
#include <slub/group.h>
#include <slub/rcu.h>

extern "C" struct slub_abi slub_abi_state;

namespace {

const struct guard_pool *pool()
{
	return (const struct guard_pool *)slub_abi_state.guard;
}

uint64_t every()
{
	return strtoull(getenv("SLUB_GUARD"), nullptr, 10);
}

const struct guard_pool *larger()
{
	return (const struct guard_pool *)pool()->next_pool;
}

bool is_guarded(const void *p)
{
	return (uintptr_t)p - pool()->base < pool()->bytes ||
	       (uintptr_t)p - larger()->base < larger()->bytes;
}

// Guarded allocations in `nr` of them, each freed before the next.
template <class Alloc, class Free> uint64_t count(uint64_t nr, Alloc alloc, Free release)
{
	uint64_t guarded = 0;

	for (uint64_t i = 0; i < nr; i++) {
		void *p = alloc();

		guarded += is_guarded(p);
		release(p);
	}
	return guarded;
}

inline void expect_share(uint64_t guarded, uint64_t nr)
{
	double p = 1.0 / every(), mean = nr * p, deviation = sqrt(nr * p * (1 - p));

	EXPECT_NEAR(guarded, mean, 6 * deviation) << "of " << nr;
}

// An object of `alloc` that is guarded, and lies at the left or at the right end.
template <class Alloc> char *guarded(Alloc alloc, bool right, size_t bytes)
{
	for (int i = 0; i < 2000000; i++) {
		char *p = (char *)alloc();

		if (is_guarded(p) && (right ? (uintptr_t)(p + bytes) : (uintptr_t)p) % 4096 == 0)
			return p;
		free(p);
	}
	return nullptr;
}

} // namespace

#endif
