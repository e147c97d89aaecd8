/* SPDX-License-Identifier: MIT */
/* What a user is told who names a cache that there is not. */
#include "cache_absent.h"
#include "cache_name.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

bool cache_is_there(const struct snapshot *snapshot, const char *pattern, bool twins_count)
{
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		if ((twins_count || !cache_is_twin(&snapshot->caches[i])) &&
		    cache_is_called(snapshot, &snapshot->caches[i], pattern))
			return true;
	}
	return false;
}

#define CLASS_PREFIX "malloc-"
#define CLASS_STEP_MIN 16
#define CLASS_BYTES_MAX 32768

/* "malloc-32": 16 bytes apart, or an eighth of the power of two beneath. */
static bool is_size_class(const char *name)
{
	unsigned long bytes, step = CLASS_STEP_MIN;
	char *end;

	if (strncmp(name, CLASS_PREFIX, strlen(CLASS_PREFIX)))
		return false;
	name += strlen(CLASS_PREFIX);
	if (*name < '1' || *name > '9')
		return false;
	bytes = strtoul(name, &end, 10);
	if (*end || bytes > CLASS_BYTES_MAX)
		return false;
	while (bytes > 16 * step)
		step *= 2;
	return bytes % step == 0;
}

int cache_refuse(const struct source *source, const char *command,
		 const struct snapshot *snapshot, const char *pattern)
{
	const char **names = must_have(calloc(snapshot->nr_caches + 1, sizeof(*names)));
	const char *near;
	size_t nr = 0;

	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		if (!cache_is_twin(&snapshot->caches[i]))
			names[nr++] = snapshot->caches[i].name;
	}
	near = nearest_word(pattern, names, nr);
	if (is_size_class(pattern))
		complain("%s: %s has no cache '%s' yet: a size class comes with its first object",
			 command, source->label, pattern);
	else if (near)
		complain("%s: %s has no cache '%s'; did you mean '%s'?", command,
			 source->label, pattern, near);
	else
		complain("%s: %s has no cache '%s'; `slub info -z %s` lists them", command,
			 source->label, pattern, source->target);
	free(names);
	return STATUS_NO_TARGET;
}
