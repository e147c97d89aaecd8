/* SPDX-License-Identifier: MIT */
/* What a user is told who names a cache that there is not. */
#ifndef SLUB_TOOL_CACHE_ABSENT_H
#define SLUB_TOOL_CACHE_ABSENT_H

#include "source.h"

/* Is one of the caches called @pattern ("": all are), a twin too if these count? */
bool cache_is_there(const struct snapshot *snapshot, const char *pattern, bool twins_count);
/* One line, with the nearest name; STATUS_NO_TARGET. */
int cache_refuse(const struct source *source, const char *command,
		 const struct snapshot *snapshot, const char *pattern);

#endif
