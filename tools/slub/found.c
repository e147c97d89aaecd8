/* SPDX-License-Identifier: MIT */
/*
 * What the checks of a process found while it ran.  Nothing is asked: its library counts the bugs
 * of each watched cache, and its options say where reports go (features/debug/report.c).
 */
#include "found.h"
#include "cache_name.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

#define WATCH_MAX 1024u

/* ---- counts ---- */

static bool counts_bugs(const struct slub_abi *abi)
{
	return abi->watch_bytes && abi->watch_bytes <= WATCH_MAX &&
	       abi->watch_fields[SLUB_ABI_WATCH_BUGS].bytes &&
	       fields_are_sane(abi->watch_fields, SLUB_ABI_WATCH_FIELDS, abi->watch_bytes);
}

static uint64_t bugs_of(const struct snapshot *now, const struct cache_view *cache)
{
	char watch[WATCH_MAX];

	if (process_read(now->process, cache_field(cache, SLUB_ABI_CACHE_WATCH), watch,
			 now->abi.watch_bytes))
		return 0;
	return field_get(watch, now->abi.watch_fields[SLUB_ABI_WATCH_BUGS]);
}

/* A cache has a twin for each set of letters that ever watched it. */
static struct found_cache *cache_called(struct found *found, const char *name)
{
	struct found_cache *cache;

	for (size_t i = 0; i < found->nr; i++) {
		if (!strcmp(found->caches[i].name, name))
			return &found->caches[i];
	}
	cache = &found->caches[found->nr++];
	memcpy(cache->name, name, sizeof(cache->name));
	return cache;
}

void found_read(struct found *found, const struct snapshot *now, const char *pattern)
{
	char name[CACHE_NAME_SIZE] = "";
	uint64_t bugs;

	*found = (struct found){ .is_known = now->process && counts_bugs(&now->abi) };
	if (!found->is_known)
		return;
	found->caches = must_have(calloc(now->nr_caches + 1, sizeof(*found->caches)));
	for (size_t i = 0; i < now->nr_caches; i++) {
		const struct cache_view *cache = &now->caches[i];

		if (!cache_is_twin(cache) || !cache_is_called(now, cache, pattern))
			continue;
		bugs = bugs_of(now, cache);
		if (!bugs)
			continue;
		cache_plain_name(now, cache, name);
		cache_called(found, name)->bugs += bugs;
		found->bugs += bugs;
	}
}

void found_free(struct found *found)
{
	free(found->caches);
	*found = (struct found){ .bugs = 0 };
}

/* ---- reports ---- */

static const struct slub_abi_option *option_of(const struct snapshot *now, const char *name)
{
	for (size_t i = 0; i < now->nr_options; i++) {
		if (!strcmp(now->options[i].name, name))
			return &now->options[i];
	}
	return NULL;
}

/* The rule is the library's own. */
enum reports reports_of(const struct snapshot *now, const char **path)
{
	const struct slub_abi_option *file = option_of(now, "debug_report");
	const struct slub_abi_option *debug = option_of(now, "debug");
	const struct slub_abi_option *verbose = option_of(now, "verbose");
	const struct slub_abi_option *on_error = option_of(now, "on_error");

	if (!file || !debug || !verbose || !on_error)
		return REPORTS_UNKNOWN;
	*path = file->text;
	if (file->given && *file->text)
		return strcmp(file->text, "stderr") ? REPORTS_FILE : REPORTS_STDERR;
	return debug->given || verbose->value ||
			       (on_error->given && !strcmp(on_error->text, "abort")) ?
		       REPORTS_STDERR : REPORTS_NOWHERE;
}

void reports_print(const struct snapshot *now)
{
	const char *path = "";

	switch (reports_of(now, &path)) {
	case REPORTS_UNKNOWN:
		break;
	case REPORTS_NOWHERE:
		printf("what it finds is counted (`slub validate %u`) and written nowhere; `slub "
		       "set %u verbose 1` writes reports to its standard error\n", now->pid,
		       now->pid);
		break;
	case REPORTS_STDERR:
		puts("reports go to its standard error");
		break;
	case REPORTS_FILE:
		printf("reports go to %s\n", path);
		break;
	}
}

void reports_put(struct json *json, const struct snapshot *now)
{
	const char *path = "";
	enum reports reports = reports_of(now, &path);

	if (reports == REPORTS_UNKNOWN)
		return;
	json_string(json, "reports", reports == REPORTS_NOWHERE ? "nowhere" :
				     reports == REPORTS_STDERR ? "stderr" : path);
}
