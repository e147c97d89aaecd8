/* SPDX-License-Identifier: MIT */
/* A clock that stands still until the test moves it: for the layers without core/os/clock.c. */
#ifndef TESTS_UNIT_CLOCK_H
#define TESTS_UNIT_CLOCK_H

static uint64_t now_ns = 1000000000000ull;

extern "C" uint64_t os_clock_ns(void)
{
	return now_ns;
}

/*
 * What passes between two looks: so much that core/page/budget.c may have found memory everywhere.
 */
static uint64_t clock_step_ns = 150000;
/* ... and what else has passed since the last look; nullptr: nothing. */
static uint64_t (*clock_more_ns)() __attribute__((unused)) = nullptr;

extern "C" uint64_t os_clock_read_ns(int)
{
	static uint64_t work_ns;

	if (clock_more_ns)
		work_ns += clock_more_ns();
	return now_ns + (work_ns += clock_step_ns);
}

#endif
