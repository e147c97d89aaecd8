/* SPDX-License-Identifier: MIT */
/* Numbers that are as expected, or a line and a count of those that are not. */
#ifndef TOOL_EXPECT_H
#define TOOL_EXPECT_H

#include <stdio.h>

static int failures;

static void expect_at(int line, const char *what, long long is, long long expected)
{
	if (is == expected)
		return;
	printf("line %d: %s is %lld, not %lld\n", line, what, is, expected);
	failures++;
}

#define EXPECT(is, expected) expect_at(__LINE__, #is, (long long)(is), (long long)(expected))

#endif
