/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as OpenMetrics text, or as Prometheus's older one: base units, every label's
 * value quoted.
 */
#include "openmetrics.h"
#include "core/base/glob.h"
#include "state.h"
#include "counter.h"
#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where the numbers go, as what, and whose they are. */
static FILE *out;
static enum metrics_form form;
static const char *labels;

/* What a sample's name has behind that of its family. */
static const char *suffix_of(const char *type)
{
	return !strcmp(type, "info") ? "_info" : !strcmp(type, "counter") ? "_total" : "";
}

/*
 * The older text has no units and no type "info", and its families are named as their
 * samples are.
 */
static void print_family(const char *name, const char *type, const char *unit,
			 const char *help)
{
	const char *suffix = "";

	if (form == METRICS_PROMETHEUS) {
		suffix = suffix_of(type);
		type = !strcmp(type, "info") ? "gauge" : type;
		unit = NULL;
	}
	fprintf(out, "# TYPE %s%s %s\n", name, suffix, type);
	if (unit)
		fprintf(out, "# UNIT %s %s\n", name, unit);
	fprintf(out, "# HELP %s%s %s\n", name, suffix, help);
}

void metrics_put_label(FILE *to, const char *value)
{
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putc('\\', to);
		putc(*value, to);
	}
}

static void put_pair(const char **before, const char *label, const char *value)
{
	fprintf(out, "%s%s=\"", *before, label);
	metrics_put_label(out, value);
	putc('"', out);
	*before = ",";
}

/* The name, and all labels; the number stands behind. */
static void begin_sample(const char *name, const char *cache, const char *label,
			 const char *value)
{
	const char *before = "{";

	fputs(name, out);
	if (labels) {
		fprintf(out, "{%s", labels);
		before = ",";
	}
	if (cache)
		put_pair(&before, "cache", cache);
	if (label)
		put_pair(&before, label, value);
	fputs(*before == ',' ? "} " : " ", out);
}

static void sample(const char *name, const char *cache, const char *label,
		   const char *value, uint64_t number)
{
	begin_sample(name, cache, label, value);
	fprintf(out, "%" PRIu64 "\n", number);
}

/* ---- families ---- */

/* What one process has of a family that is called @name. */
typedef void print_samples(const char *name, const struct metrics_one *one);

static void print_info(const char *name, const struct metrics_one *one)
{
	const struct snapshot *snapshot = one->snapshot;
	const char *before = labels ? "," : "{";
	char pid[16];

	fprintf(out, labels ? "%s_info{%s" : "%s_info", name, labels);
	put_pair(&before, "version", snapshot->abi.library_version);
	put_pair(&before, "backend", state_backend(&snapshot->abi));
	put_pair(&before, "cpu_number", state_cpu_number(&snapshot->abi));
	if (!labels) {
		snprintf(pid, sizeof(pid), "%u", snapshot->pid);
		put_pair(&before, "pid", pid);
		put_pair(&before, "name", snapshot->name);
	}
	fputs("} 1\n", out);
}

static void print_start(const char *name, const struct metrics_one *one)
{
	begin_sample(name, NULL, NULL, NULL);
	fprintf(out, "%.3f\n", (double)one->snapshot->abi.start_ns / 1e9);
}

static void print_memory(const char *name, const struct metrics_one *one)
{
	for (enum account_part part = 0; part < ACCOUNT_PARTS; part++) {
		if (one->account.has_rss || part < ACCOUNT_TABLES)
			sample(name, NULL, "part", account_part_name(part),
			       one->account.parts[part]);
	}
}

static void print_shrinkable(const char *name, const struct metrics_one *one)
{
	sample(name, NULL, NULL, NULL, one->account.back);
}

/* "heap.slab_bytes" is of the state slab; what is deferred has a family of its own. */
static void print_state(const char *name, const char *row, uint64_t bytes)
{
	char state[16];

	if (sscanf(row, "heap.%15[a-z]_bytes", state) == 1 && strcmp(state, "deferred") != 0)
		sample(name, NULL, "state", state, bytes);
}

static void print_heap(const char *name, const struct metrics_one *one)
{
	const struct heap_census census = heap_census_of(one->snapshot), *heap = &census;

#define BYTES(row, number) print_state(name, #row, number);
#define NUMBER(...)
#define VALUE_OWN(...)
#define VALUE_HEAP(row, kind, expression) kind(row, expression)
#include "features/inspect/value.def"
#undef BYTES
#undef NUMBER
}

static void print_moved(const char *name, const struct metrics_one *one)
{
	sample(name, NULL, NULL, NULL, one->snapshot->moved_runs);
}

static void print_mappings(const char *name, const struct metrics_one *one)
{
	if (one->snapshot->mappings)
		sample(name, NULL, NULL, NULL, one->snapshot->mappings);
}

static void print_deferred_bytes(const char *name, const struct metrics_one *one)
{
	sample(name, NULL, NULL, NULL, one->snapshot->deferred_bytes);
}

static void print_deferred_objects(const char *name, const struct metrics_one *one)
{
	sample(name, NULL, NULL, NULL, one->snapshot->deferred_objects);
}

static void print_objects(const char *name, const struct metrics_one *one)
{
	for (size_t i = 0; i < one->nr_caches; i++) {
		const struct cache_view *cache = &one->snapshot->caches[i];

		sample(name, cache->name, "state", "used", cache_used(cache));
		sample(name, cache->name, "state", "cached", cache->cached);
		sample(name, cache->name, "state", "free",
		       cache_capacity(cache) - cache->active);
	}
}

static void print_slabs(const char *name, const struct metrics_one *one)
{
	for (size_t i = 0; i < one->nr_caches; i++) {
		const struct cache_view *cache = &one->snapshot->caches[i];

		sample(name, cache->name, "state", "full", cache->full);
		sample(name, cache->name, "state", "partial", cache_partial(cache));
		sample(name, cache->name, "state", "empty", cache->empty);
	}
}

static void print_bytes(const char *name, const struct metrics_one *one)
{
	for (size_t i = 0; i < one->nr_caches; i++)
		sample(name, one->snapshot->caches[i].name, NULL, NULL,
		       cache_bytes(one->snapshot, &one->snapshot->caches[i]));
}

static void print_sizes(const char *name, const struct metrics_one *one)
{
	for (size_t i = 0; i < one->nr_caches; i++) {
		const struct cache_view *cache = &one->snapshot->caches[i];

		sample(name, cache->name, NULL, NULL,
		       cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE));
	}
}

static void print_slack(const char *name, const struct metrics_one *one)
{
	uint64_t bytes;

	for (size_t i = 0; i < one->nr_caches; i++) {
		if (cache_slack(&one->snapshot->caches[i], &bytes))
			sample(name, one->snapshot->caches[i].name, NULL, NULL, bytes);
	}
}

/* Modulo 2^32, sums of two as well: for a reader, a counter that falls begins anew, at 0. */
static void print_events(const char *name, const struct metrics_one *one)
{
	const struct cache_view *caches = one->snapshot->caches;
	char total[64];

	snprintf(total, sizeof(total), "%s_total", name);
	for (size_t c = 0; one->events && c < nr_counters; c++) {
		if (!counter_is_there(one->snapshot, &counters[c]))
			continue;
		for (size_t i = 0; i < one->nr_caches; i++)
			sample(total, caches[i].name, "event", counters[c].name,
			       (uint32_t)counter_value(&counters[c], &caches[i]));
	}
}

size_t metrics_events(const struct snapshot *snapshot)
{
	size_t nr = 0;

	for (size_t c = 0; c < nr_counters; c++)
		nr += counter_is_there(snapshot, &counters[c]);
	return nr;
}

static const struct {
	const char *name, *type, *unit, *help;
	print_samples *print;
} families[] = {
	{ "slub", "info", NULL, "The library and how it runs.", print_info },
	{ "slub_start_time_seconds", "gauge", "seconds", "When the process started to use it.",
	  print_start },
	{ "slub_memory_bytes", "gauge", "bytes",
	  "The RSS by what it is: part elsewhere is no part of the heap.",
	  print_memory },
	{ "slub_memory_shrinkable_bytes", "gauge", "bytes",
	  "What `slub shrink` would give back, about.", print_shrinkable },
	{ "slub_heap_bytes", "gauge", "bytes", "Memory by what it is.", print_heap },
	{ "slub_heap_moved_runs", "gauge", NULL,
	  "Large blocks whose pages were moved to them: a mapping or two more each.",
	  print_moved },
	{ "slub_heap_mappings", "gauge", NULL,
	  "Mappings of the heap; vm.max_map_count bounds those of the process.",
	  print_mappings },
	{ "slub_deferred_bytes", "gauge", "bytes", "Freed, but readers may still look.",
	  print_deferred_bytes },
	{ "slub_deferred_objects", "gauge", NULL,
	  "Objects that were freed, but readers may still look.", print_deferred_objects },
	{ "slub_cache_objects", "gauge", NULL,
	  "Objects in use, in lists of CPUs and barns, and free in slabs.", print_objects },
	{ "slub_cache_slabs", "gauge", NULL, "Slabs by their fill.", print_slabs },
	{ "slub_cache_bytes", "gauge", "bytes", "Memory of its slabs.", print_bytes },
	{ "slub_cache_object_size_bytes", "gauge", "bytes", "Size of an object.", print_sizes },
	{ "slub_cache_slack_bytes", "gauge", "bytes",
	  "Of the objects in use, what was not asked for; an estimate.", print_slack },
	{ "slub_cache_events", "counter", NULL, "What happened on the slow paths.",
	  print_events },
};

#define NR_FAMILIES (sizeof(families) / sizeof(families[0]))

/* One without a sample is left out, but for those of caches, which another moment may have. */
static bool has_samples(print_samples *print, const struct metrics_one *ones, size_t nr)
{
	bool events = false, mappings = false;

	for (size_t i = 0; i < nr; i++) {
		events |= ones[i].events;
		mappings |= ones[i].snapshot->mappings != 0;
	}
	return print == print_events ? events : print == print_mappings ? mappings : true;
}

/* Does @pattern mean the family, by its own name or by that of its samples? */
static bool is_meant(const char *pattern, const char *name, const char *type)
{
	char of_sample[64];

	snprintf(of_sample, sizeof(of_sample), "%s%s", name, suffix_of(type));
	return glob_matches(pattern, strlen(pattern), name, strlen(name)) ||
	       glob_matches(pattern, strlen(pattern), of_sample, strlen(of_sample));
}

void metrics_print_all(FILE *to, enum metrics_form as, const struct metrics_one *ones,
		       size_t nr, const char *pattern)
{
	out = to;
	form = as;
	for (size_t f = 0; f < NR_FAMILIES; f++) {
		const char *name = families[f].name;

		if (!has_samples(families[f].print, ones, nr) ||
		    (pattern && !is_meant(pattern, name, families[f].type)))
			continue;
		print_family(name, families[f].type, families[f].unit, families[f].help);
		for (size_t i = 0; i < nr; i++) {
			labels = ones[i].labels;
			families[f].print(name, &ones[i]);
		}
	}
	labels = NULL;
	if (form == METRICS_OPENMETRICS)
		fputs("# EOF\n", out);
}

void metrics_print(FILE *to, enum metrics_form as, const struct snapshot *snapshot)
{
	struct metrics_one one = {
		.snapshot = snapshot, .nr_caches = snapshot->nr_caches, .events = true,
	};

	account_make(&one.account, snapshot);
	metrics_print_all(to, as, &one, 1, NULL);
}

void metrics_print_gauge(FILE *to, const char *name, const char *help, uint64_t number)
{
	out = to;
	form = METRICS_PROMETHEUS;
	print_family(name, "gauge", NULL, help);
	sample(name, NULL, NULL, NULL, number);
}
