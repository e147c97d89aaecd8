/* SPDX-License-Identifier: MIT */
/* Caches in order, and numbers as people read them. */
#include "view.h"
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- numbers ---- */

const char *size_text(char buf[SIZE_TEXT], uint64_t bytes, bool exact)
{
	static const char *const units[] = { "", "K", "M", "G", "T", "P" };
	double size = (double)bytes;
	int unit = 0;

	while (!exact && size >= 1024 && unit < 5) {
		size /= 1024;
		unit++;
	}
	snprintf(buf, SIZE_TEXT, "%.*f%s", unit ? 1 : 0, size, units[unit]);
	return buf;
}

double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

uint64_t cache_waste(const struct snapshot *snapshot,
		     const struct cache_view *cache)
{
	uint64_t all = cache_bytes(snapshot, cache);
	uint64_t used = cache_used(cache) *
			cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);

	return all > used ? all - used : 0;
}

bool cache_slack(const struct cache_view *cache, uint64_t *bytes)
{
	uint64_t average = cache_field(cache, SLUB_ABI_CACHE_SLACK);
	uint64_t size = cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE);
	uint64_t used = cache_used(cache);

	*bytes = 0;
	/* It is a part of the size in any library that makes sense. */
	if (!average || (average - 1) / 256 > size || size > UINT32_MAX ||
	    used > UINT32_MAX)
		return false;
	*bytes = (average - 1) * used / 256;
	return true;
}

double cache_fast_percent(const struct cache_view *cache)
{
	const uint64_t *stats = cache->stats;
	uint64_t whole_lists = stats[SLUB_ABI_STAT_ALLOC_SPARE] +
			       stats[SLUB_ABI_STAT_ALLOC_BARN];
	uint64_t slow = whole_lists + stats[SLUB_ABI_STAT_ALLOC_REFILL];
	uint64_t all = stats[SLUB_ABI_STAT_OBJECTS_OUT] +
		       whole_lists * cache_field(cache,
						 SLUB_ABI_CACHE_CAPACITY_NOW);

	return slow && all > slow ? percent(all - slow, all) : 0;
}

const char *slack_text(char buf[SIZE_TEXT], const struct cache_view *cache,
		       bool exact)
{
	uint64_t bytes;

	if (cache_slack(cache, &bytes))
		return size_text(buf, bytes, exact);
	snprintf(buf, SIZE_TEXT, "-");
	return buf;
}

int64_t cache_growth(const struct snapshot *snapshot,
		     const struct snapshot *before,
		     const struct cache_view *cache)
{
	const struct cache_view *old = cache_by_slot(before, cache->slot);

	if (!old || strcmp(old->name, cache->name))
		return 0;
	return (int64_t)(cache_bytes(snapshot, cache) -
			 cache_bytes(before, old));
}

uint64_t cache_activity(const struct cache_view *cache)
{
	uint64_t sum = 0;

	for (int i = SLUB_ABI_STAT_ALLOC_SPARE; i <= SLUB_ABI_STAT_SLAB_FREE;
	     i++)
		sum += cache->stats[i];
	return sum;
}

const char *time_text(char buf[32], uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!ns || !localtime_r(&seconds, &tm) ||
	    !strftime(buf, 32, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(buf, 32, "unknown");
	return buf;
}

/* ---- order ---- */

static const struct snapshot *sorting, *sorting_before;
static enum sort_key sorting_key;

static const struct {
	enum sort_key key;
	const char *what;
} keys[] = {
	{ SORT_ACTIVE, "active objects" },
	{ SORT_PER_SLAB, "objects per slab" },
	{ SORT_BYTES, "size of the cache" },
	{ SORT_FAST, "fast path" },
	{ SORT_GROWTH, "growth" },
	{ SORT_SLACK, "slack" },
	{ SORT_SLABS, "slabs" },
	{ SORT_NAME, "name" },
	{ SORT_OBJECTS, "objects" },
	{ SORT_PAGES, "pages per slab" },
	{ SORT_SIZE, "size of an object" },
	{ SORT_USE, "use" },
	{ SORT_ACTIVE_SLABS, "slabs not empty" },
	{ SORT_WASTE, "memory not in use" },
};

#define NR_KEYS (sizeof(keys) / sizeof(keys[0]))

void sort_print_help(FILE *to)
{
	for (size_t i = 0; i < NR_KEYS; i++)
		fprintf(to, i % 3 == 2 || i + 1 == NR_KEYS ? "%c  %s\n" : "%c  %-21s",
			keys[i].key, keys[i].what);
}

const char *sort_keys(void)
{
	static char text[2 * NR_KEYS];

	for (size_t i = 0; i < NR_KEYS; i++) {
		text[2 * i] = (char)keys[i].key;
		text[2 * i + 1] = i + 1 < NR_KEYS ? ' ' : '\0';
	}
	return text;
}

bool sort_key_is_known(int letter)
{
	for (size_t i = 0; i < NR_KEYS; i++) {
		if ((int)keys[i].key == letter)
			return true;
	}
	return false;
}

static double sort_value(const struct cache_view *cache)
{
	uint64_t bytes;
	double share;

	switch (sorting_key) {
	case SORT_FAST:
		share = cache_fast_percent(cache);
		return share > 0 ? 100 - share : -1;
	case SORT_SLACK:
		return cache_slack(cache, &bytes) ? (double)bytes : -1;
	case SORT_ACTIVE:
		return (double)cache->active;
	case SORT_PER_SLAB:
		return (double)cache_field(cache, SLUB_ABI_CACHE_OBJECTS);
	case SORT_BYTES:
		return (double)cache_bytes(sorting, cache);
	case SORT_SLABS:
		return (double)cache->slabs;
	case SORT_ACTIVE_SLABS:
		return (double)(cache->slabs - cache->empty);
	case SORT_OBJECTS:
		return (double)cache_capacity(cache);
	case SORT_PAGES:
		return (double)cache_field(cache, SLUB_ABI_CACHE_ORDER);
	case SORT_SIZE:
		return (double)cache_field(cache, SLUB_ABI_CACHE_SIZE);
	case SORT_USE:
		return percent(cache->active, cache_capacity(cache));
	case SORT_WASTE:
		return (double)cache_waste(sorting, cache);
	case SORT_GROWTH:
		return (double)cache_growth(sorting, sorting_before, cache);
	case SORT_PARTIAL:
		return (double)cache_partial(cache);
	case SORT_ACTIVITY:
		return (double)cache_activity(cache);
	case SORT_NAME:
		break;
	}
	return 0;
}

/* "malloc-64" before "malloc-128"; strverscmp(3) knows numbers. */
static int compare(const void *a, const void *b)
{
	const struct cache_view *one = a, *other = b;
	double x = sort_value(one), y = sort_value(other);

	if (x != y)
		return (x < y) - (x > y);
	return strverscmp(one->name, other->name);
}

void cache_sort(struct snapshot *snapshot, const struct snapshot *before,
		enum sort_key key)
{
	sorting = snapshot;
	sorting_before = before;
	sorting_key = key;
	qsort(snapshot->caches, snapshot->nr_caches,
	      sizeof(*snapshot->caches), compare);
	snapshot_index(snapshot);
}

/* ---- JSON ---- */

#define SCHEMA 1	/* a change of meaning makes it 2 */

void json_open_snapshot(struct json *json, const struct snapshot *snapshot,
			const char *what)
{
	json_open(json, NULL);
	json_string(json, "kind", what);
	json_number(json, "schema", SCHEMA);
	json_number(json, "pid", snapshot->pid);
	json_string(json, "name", snapshot->name);
	if (snapshot->command[0])
		json_string(json, "command", snapshot->command);
	json_bool(json, "exited", snapshot->has_exited);
	json_string(json, "version", snapshot->abi.library_version);
	json_string(json, "backend", state_backend(&snapshot->abi));
	if (snapshot->time_ns)
		json_real(json, "time", (double)snapshot->time_ns / 1e9);
	else
		json_null(json, "time");
	json_real(json, "start_time", (double)snapshot->abi.start_ns / 1e9);
}

static void add_objects(struct heap_census *sum, const struct cache_view *cache)
{
	/* Zones and tracks of a watched object are no use to the program. */
	uint64_t size = cache_field(cache, cache_field(cache, SLUB_ABI_CACHE_DEBUG) ?
				    SLUB_ABI_CACHE_OBJECT_SIZE : SLUB_ABI_CACHE_SIZE);
	uint64_t nr_free = cache_capacity(cache) - cache->active;

	sum->objects += cache_used(cache) + cache->cached;
	sum->object_bytes += (cache_used(cache) + cache->cached) * size;
	sum->cached += cache->cached;
	sum->cached_bytes += cache->cached * size;
	sum->free += nr_free;
	sum->free_bytes += nr_free * size;
}

struct heap_census heap_census_of(const struct snapshot *snapshot)
{
	struct heap_census sum = {
		.committed_bytes = snapshot->committed_bytes,
		.slab_bytes = snapshot->slab_bytes,
		.active_bytes = snapshot->active_bytes, .large_bytes = snapshot->large_bytes,
		.dirty_bytes = snapshot->idle_bytes, .refused_bytes = snapshot->refused_bytes,
		.moved_runs = snapshot->moved_runs,
		.deferred_bytes = snapshot->deferred_bytes,
		.deferred_objects = snapshot->deferred_objects,
	};

	for (size_t i = 0; i < snapshot->nr_caches; i++)
		add_objects(&sum, &snapshot->caches[i]);
	return sum;
}

static void json_total(struct json *json, const char *what, const char *name, uint64_t number)
{
	size_t length = strlen(what);

	if (!strncmp(name, what, length) && name[length] == '.')
		json_number(json, name + length + 1, number);
}

void json_totals(struct json *json, const struct snapshot *snapshot, const char *what)
{
	const struct heap_census census = heap_census_of(snapshot), *heap = &census;

	json_open(json, what);
#define VALUE_OWN(...)
#define VALUE_HEAP(name, kind, expression) json_total(json, what, #name, (expression));
#include "features/inspect/value.def"
	json_close(json);
}
