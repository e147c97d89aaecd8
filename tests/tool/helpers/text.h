/* SPDX-License-Identifier: MIT */
/* Texts that are as expected, or both of them and a count of those that are not. */
#ifndef TOOL_TEXT_H
#define TOOL_TEXT_H

#include <stdio.h>
#include <string.h>

#include "expect.h"

static void expect_text(int line, const char *is, const char *expected)
{
	if (!strcmp(is, expected))
		return;
	printf("line %d:\n%s\nnot\n%s\n", line, is, expected);
	failures++;
}

#define EXPECT_TEXT(is, expected) expect_text(__LINE__, is, expected)

#endif
