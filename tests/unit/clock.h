/* SPDX-License-Identifier: MIT */
/* A clock that stands still until the test moves it: for the layers without os/clock.c. */
#ifndef TESTS_UNIT_CLOCK_H
#define TESTS_UNIT_CLOCK_H

static uint64_t now_ns = 1000000000000ull;

extern "C" uint64_t os_clock_ns(void)
{
	return now_ns;
}

extern "C" uint64_t os_clock_read_ns(int)
{
	return now_ns;
}

#endif
