/* SPDX-License-Identifier: MIT */
#include "base/assert.h"

#include <stdlib.h>

#include "base/log.h"

void assert_failed(const char *condition, const char *file, int line)
{
	log_always("assertion failed: %s (%s:%d)", condition, file, line);
	abort();
}
