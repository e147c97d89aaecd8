/* SPDX-License-Identifier: MIT */
/* What a cache is called, and whether it is the one that is asked for. */
#include "cache_name.h"
#include "core/base/glob.h"

#include <string.h>

bool cache_is_twin(const struct cache_view *cache)
{
	return cache_field(cache, SLUB_ABI_CACHE_DEBUG) != 0;
}

/*
 * Whose twin it is, and itself if it is none; NULL: an older library does not say, or
 * it has just gone.
 */
static const struct cache_view *original_of(const struct snapshot *snapshot,
					    const struct cache_view *cache)
{
	uint64_t root = cache_field(cache, SLUB_ABI_CACHE_ROOT);

	if (!cache_is_twin(cache))
		return cache;
	for (size_t i = 0; root && i < snapshot->nr_caches; i++) {
		if (snapshot->caches[i].address == root)
			return &snapshot->caches[i];
	}
	return NULL;
}

void cache_plain_name(const struct snapshot *snapshot,
		      const struct cache_view *cache,
		      char name[CACHE_NAME_SIZE])
{
	const struct cache_view *original = original_of(snapshot, cache);
	char *colon;

	memcpy(name, (original ? original : cache)->name, CACHE_NAME_SIZE);
	if (original)
		return;
	/* A long one lost its end to the letters. */
	colon = strrchr(name, ':');
	if (colon)
		*colon = '\0';
}

static bool matches(const char *pattern, const char *name, size_t length)
{
	return glob_matches(pattern, strlen(pattern), name, length);
}

bool cache_is_called(const struct snapshot *snapshot,
		     const struct cache_view *cache, const char *pattern)
{
	const struct cache_view *original = original_of(snapshot, cache);
	const char *alias = original ? original->aliases : "";
	char name[CACHE_NAME_SIZE];
	bool found;

	cache_plain_name(snapshot, cache, name);
	found = !*pattern || matches(pattern, name, strlen(name)) ||
		matches(pattern, cache->name, strlen(cache->name));
	while (*alias && !found) {
		size_t length = strcspn(alias, " ");

		found = matches(pattern, alias, length);
		alias += length + (alias[length] == ' ');
	}
	return found;
}
