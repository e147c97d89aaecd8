/* SPDX-License-Identifier: MIT */
/*
 * The order of a grace period, step by step, with a membarrier of this test's own: what another
 * CPU's store buffer held back becomes visible when the barrier says so, and not before.
 */
#include <gtest/gtest.h>

#include <functional>

#include "slub.h"
#include "start.h"

extern "C" {
#include "features/reclaim/reclaim.h"
}

namespace {

int barriers;
bool is_refused;
std::function<void()> on_barrier;

/* A reader whose count reaches memory only now. */
void count_in(struct slub_srcu *domain, uint32_t word)
{
	(void)domain;
	slub_percpu_add(word & ~SLUB_SRCU_FAST, 1);
}

} /* namespace */

extern "C" bool os_membarrier_register(void)
{
	return true;
}

extern "C" int os_barrier_rseq(void)
{
	return 0;
}

extern "C" int os_barrier(void)
{
	barriers++;
	if (on_barrier)
		on_barrier();
	return is_refused ? -1 : 0;
}

namespace {

class Grace : public testing::Test {
protected:
	void SetUp() override
	{
		static bool started = (start::percpu(), true);

		(void)started;
		ASSERT_EQ(srcu_get_counters(&domain), 0);
		if (!(domain.reader & SLUB_SRCU_FAST))
			GTEST_SKIP() << "readers fence in this build";
		on_barrier = nullptr;
		barriers = 0;
		is_refused = false;
	}
	struct slub_srcu domain = SLUB_SRCU_INIT;
};

TEST_F(Grace, HasABarrierInEachPhase)
{
	uint64_t cookie = slub_srcu_start_poll(&domain);

	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
	EXPECT_EQ(barriers, 2);
}

TEST_F(Grace, AReaderThatTheBarrierBringsToLightIsWaitedFor)
{
	for (int at = 1; at <= 2; at++) {
		uint32_t entered = 0;
		uint64_t cookie = slub_srcu_start_poll(&domain);

		barriers = 0;
		on_barrier = [&] {
			if (barriers != at)
				return;
			/* First the phase that is drained first, then the other. */
			entered = domain.reader ^ SLUB_SRCU_PHASE;
			count_in(&domain, entered);
		};
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie)) << at;
		EXPECT_EQ(barriers, at);
		on_barrier = nullptr;
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie)) << at;
		slub_srcu_read_unlock(&domain, (int)entered);
		EXPECT_TRUE(slub_srcu_poll(&domain, cookie)) << at;
	}
}

/* A sandbox forbids the barrier: a reader from before shows by itself, after a while. */
TEST_F(Grace, AReaderIsWaitedForWhereTheBarrierIsRefused)
{
	uint32_t entered = 0;
	uint64_t cookie = slub_srcu_start_poll(&domain);

	is_refused = true;
	on_barrier = [&] {
		if (barriers == 1)
			entered = domain.reader ^ SLUB_SRCU_PHASE;
	};
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	EXPECT_FALSE(domain.reader & SLUB_SRCU_FAST);
	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	count_in(&domain, entered);
	for (int i = 0; i < 100; i++) {
		usleep(1000);
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	}
	EXPECT_EQ(barriers, 1);
	slub_srcu_read_unlock(&domain, (int)entered);
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
}

TEST_F(Grace, ALookThatFindsSomebodyCostsNoBarrier)
{
	int index = slub_srcu_read_lock(&domain);
	uint64_t cookie = slub_srcu_start_poll(&domain);

	EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	barriers = 0;
	for (int i = 0; i < 100; i++)
		EXPECT_FALSE(slub_srcu_poll(&domain, cookie));
	EXPECT_EQ(barriers, 0);
	slub_srcu_read_unlock(&domain, index);
	EXPECT_TRUE(slub_srcu_poll(&domain, cookie));
}

} /* namespace */
