/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as OpenMetrics text, or as Prometheus's older one: base units, every label's
 * value quoted.
 */
#include "openmetrics.h"
#include "state.h"
#include "counter.h"
#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where the numbers go, and as what. */
static FILE *out;
static enum metrics_form form;

/*
 * The older text has no units and no type "info", and its families are named as their
 * samples are.
 */
static void family(const char *name, const char *type, const char *unit,
		   const char *help)
{
	const char *suffix = "";

	if (form == METRICS_PROMETHEUS) {
		suffix = !strcmp(type, "info") ? "_info" :
			 !strcmp(type, "counter") ? "_total" : "";
		type = !strcmp(type, "info") ? "gauge" : type;
		unit = NULL;
	}
	fprintf(out, "# TYPE %s%s %s\n", name, suffix, type);
	if (unit)
		fprintf(out, "# UNIT %s %s\n", name, unit);
	fprintf(out, "# HELP %s%s %s\n", name, suffix, help);
}

static void put_label(const char *value)
{
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putc('\\', out);
		putc(*value, out);
	}
}

static void sample(const char *name, const char *cache, const char *label,
		   const char *value, uint64_t number)
{
	if (!cache && !label) {
		fprintf(out, "%s %" PRIu64 "\n", name, number);
		return;
	}
	fprintf(out, "%s{", name);
	if (cache) {
		fputs("cache=\"", out);
		put_label(cache);
		fputs(label ? "\"," : "\"", out);
	}
	if (label) {
		fprintf(out, "%s=\"", label);
		put_label(value);
		putc('"', out);
	}
	fprintf(out, "} %" PRIu64 "\n", number);
}

static void print_info(const struct snapshot *snapshot)
{
	family("slub", "info", NULL, "The library and how it runs.");
	fputs("slub_info{version=\"", out);
	put_label(snapshot->abi.library_version);
	fprintf(out, "\",backend=\"%s\",cpu_number=\"%s\",pid=\"%u\",name=\"",
	       state_backend(&snapshot->abi),
	       state_cpu_number(&snapshot->abi), snapshot->pid);
	put_label(snapshot->name);
	fputs("\"} 1\n", out);
	family("slub_start_time_seconds", "gauge", "seconds",
	       "When the process started to use it.");
	fprintf(out, "slub_start_time_seconds %.3f\n",
	       (double)snapshot->abi.start_ns / 1e9);
}

static void print_heap(const struct snapshot *snapshot)
{
	family("slub_heap_bytes", "gauge", "bytes", "Memory by what it is.");
	sample("slub_heap_bytes", NULL, "state", "committed",
	       snapshot->committed_bytes);
	sample("slub_heap_bytes", NULL, "state", "slab",
	       snapshot->slab_bytes);
	sample("slub_heap_bytes", NULL, "state", "large",
	       snapshot->large_bytes);
	sample("slub_heap_bytes", NULL, "state", "idle",
	       snapshot->idle_bytes);
	sample("slub_heap_bytes", NULL, "state", "refused",
	       snapshot->refused_bytes);
	family("slub_heap_moved_runs", "gauge", NULL,
	       "Large blocks whose pages were moved to them: a mapping or two more each.");
	sample("slub_heap_moved_runs", NULL, NULL, NULL, snapshot->moved_runs);
	if (snapshot->mappings) {
		family("slub_heap_mappings", "gauge", NULL,
		       "Mappings of the heap; vm.max_map_count bounds those of the process.");
		sample("slub_heap_mappings", NULL, NULL, NULL, snapshot->mappings);
	}
	family("slub_deferred_bytes", "gauge", "bytes",
	       "Freed, but readers may still look.");
	sample("slub_deferred_bytes", NULL, NULL, NULL, snapshot->deferred_bytes);
	family("slub_deferred_objects", "gauge", NULL,
	       "Objects that were freed, but readers may still look.");
	sample("slub_deferred_objects", NULL, NULL, NULL,
	       snapshot->deferred_objects);
}

static void print_caches(const struct snapshot *snapshot)
{
	const struct cache_view *cache = snapshot->caches;
	const struct cache_view *end = cache + snapshot->nr_caches;

	family("slub_cache_objects", "gauge", NULL,
	       "Objects in use, in lists of CPUs and barns, and free in slabs.");
	for (; cache < end; cache++) {
		sample("slub_cache_objects", cache->name, "state", "used",
		       cache_used(cache));
		sample("slub_cache_objects", cache->name, "state", "cached",
		       cache->cached);
		sample("slub_cache_objects", cache->name, "state", "free",
		       cache_capacity(cache) - cache->active);
	}
	family("slub_cache_slabs", "gauge", NULL, "Slabs by their fill.");
	for (cache = snapshot->caches; cache < end; cache++) {
		sample("slub_cache_slabs", cache->name, "state", "full",
		       cache->full);
		sample("slub_cache_slabs", cache->name, "state", "partial",
		       cache_partial(cache));
		sample("slub_cache_slabs", cache->name, "state", "empty",
		       cache->empty);
	}
	family("slub_cache_bytes", "gauge", "bytes", "Memory of its slabs.");
	for (cache = snapshot->caches; cache < end; cache++)
		sample("slub_cache_bytes", cache->name, NULL, NULL,
		       cache_bytes(snapshot, cache));
	family("slub_cache_object_size_bytes", "gauge", "bytes",
	       "Size of an object.");
	for (cache = snapshot->caches; cache < end; cache++)
		sample("slub_cache_object_size_bytes", cache->name, NULL, NULL,
		       cache_field(cache, SLUB_ABI_CACHE_OBJECT_SIZE));
}

static void print_slack(const struct snapshot *snapshot)
{
	uint64_t bytes;

	family("slub_cache_slack_bytes", "gauge", "bytes",
	       "Of the objects in use, what was not asked for; an estimate.");
	for (size_t i = 0; i < snapshot->nr_caches; i++) {
		if (cache_slack(&snapshot->caches[i], &bytes))
			sample("slub_cache_slack_bytes",
			       snapshot->caches[i].name, NULL, NULL, bytes);
	}
}

/* Modulo 2^32, sums of two as well: for a reader, a counter that falls begins anew, at 0. */
static void print_counters(const struct snapshot *snapshot)
{
	const struct cache_view *caches = snapshot->caches;
	uint64_t value;

	family("slub_cache_events", "counter", NULL,
	       "What happened on the slow paths.");
	for (size_t c = 0; c < nr_counters; c++) {
		if (!counter_is_there(snapshot, &counters[c]))
			continue;
		for (size_t i = 0; i < snapshot->nr_caches; i++) {
			if (counter_value(&counters[c], &caches[i], &value))
				sample("slub_cache_events_total",
				       caches[i].name, "event",
				       counters[c].name, (uint32_t)value);
		}
	}
}

void metrics_print(FILE *to, enum metrics_form as, const struct snapshot *snapshot)
{
	out = to;
	form = as;
	print_info(snapshot);
	print_heap(snapshot);
	print_caches(snapshot);
	print_slack(snapshot);
	print_counters(snapshot);
	if (form == METRICS_OPENMETRICS)
		fputs("# EOF\n", out);
}
