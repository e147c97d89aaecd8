/* SPDX-License-Identifier: MIT */
#include "trace_print.h"
#include "cache_name.h"

#include <inttypes.h>

#define MS 1000000u

struct ages {
	uint64_t min, average, max;	/* ms */
};

static uint64_t since(const struct traces *traces, uint64_t when)
{
	return traces->now_ns > when ? (traces->now_ns - when) / MS : 0;
}

static struct ages ages_of(const struct traces *traces,
			   const struct trace *trace)
{
	return (struct ages){
		since(traces, trace->when_max),
		since(traces, trace->when_sum / trace->count),
		since(traces, trace->when_min),
	};
}

static bool has_cpu(const struct trace *trace, unsigned int cpu)
{
	return cpu < TRACE_CPUS_MAX && trace->cpus[cpu / 64] >> cpu % 64 & 1;
}

/* "0-3,7", as the kernel writes sets. */
static void print_cpus(const struct trace *trace)
{
	const char *before = " cpus=";

	for (unsigned int i = 0, last; i < TRACE_CPUS_MAX; i = last + 1) {
		last = i;
		if (!has_cpu(trace, i))
			continue;
		while (has_cpu(trace, last + 1))
			last++;
		printf(last > i ? "%s%u-%u" : "%s%u", before, i, last);
		before = ",";
	}
}

static void print_nodes(const struct trace *trace)
{
	const char *before = " nodes=";

	for (unsigned int i = 0; i < 32; i++) {
		if (!(trace->nodes >> i & 1))
			continue;
		printf("%s%u", before, i);
		before = ",";
	}
}

static void print_age(const struct ages *ages, const char *unit)
{
	printf(" age=%" PRIu64 "/%" PRIu64 "/%" PRIu64 "%s", ages->min,
	       ages->average, ages->max, unit);
}

static void print_stack(const struct trace *trace, const struct profile *names)
{
	char name[512];

	for (uint32_t i = 0; i < trace->nr_frames; i++) {
		printf("\t%s\n", symbol_text(names, trace->frames[i], name, sizeof(name)));
		symbol_print_outers(symbol_at(names, trace->frames[i]), "\t   ");
	}
	putchar('\n');
}

static const char *caller_text(const struct trace *trace,
			       const struct profile *names, char *buf,
			       size_t size)
{
	return trace->nr_frames ?
	       symbol_text(names, trace->frames[0], buf, size) :
	       "<not-available>";
}

void trace_print(const struct traces *traces, const struct trace *trace,
		 const struct profile *names, uint32_t nr_nodes)
{
	struct ages ages = ages_of(traces, trace);
	char name[512];

	printf("%7" PRIu64 " %s", trace->count,
	       caller_text(trace, names, name, sizeof(name)));
	if (trace->waste)
		printf(" waste=%" PRIu64 "/%" PRIu64, trace->waste,
		       trace->waste / trace->count);
	if (trace->caller) {
		print_age(&ages, "");
		printf(trace->thread_min == trace->thread_max ?
		       " pid=%u" : " pid=%u-%u", trace->thread_min,
		       trace->thread_max);
		print_cpus(trace);
	}
	if (nr_nodes > 1)
		print_nodes(trace);
	putchar('\n');
	print_stack(trace, names);
}

void trace_print_leak(const struct snapshot *snapshot,
		      const struct traces *traces, const struct trace *trace,
		      const struct profile *names)
{
	struct ages ages = ages_of(traces, trace);
	char cache[CACHE_NAME_SIZE], name[512];

	cache_plain_name(snapshot, &snapshot->caches[trace->cache],
			 cache);
	printf("%" PRIu64 " %s %s bytes=%" PRIu64 " waste=%" PRIu64 "/%" PRIu64,
	       trace->count, cache,
	       caller_text(trace, names, name, sizeof(name)), trace->bytes,
	       trace->waste, trace->waste / trace->count);
	print_age(&ages, "ms");
	printf(" pid=%u-%u", trace->thread_min, trace->thread_max);
	print_cpus(trace);
	putchar('\n');
	print_stack(trace, names);
}

/* ---- JSON ---- */

void trace_put_frame(struct json *json, uint64_t frame, const struct profile *names)
{
	const struct profile_location *found = symbol_at(names, frame);

	json_open(json, NULL);
	json_address(json, "address", frame);
	if (found && found->mapping)
		json_string(json, "object",
			    names->mappings[found->mapping - 1].path);
	if (found && found->function)
		json_string(json, "function", found->function);
	if (found && found->file) {
		json_string(json, "file", found->file);
		json_number(json, "line", found->line);
	}
	symbol_put_outers(json, found);
	json_close(json);
}

static void put_origin(struct json *json, const struct traces *traces,
		       const struct trace *trace)
{
	struct ages ages = ages_of(traces, trace);

	json_open(json, "age_ms");
	json_number(json, "min", ages.min);
	json_number(json, "average", ages.average);
	json_number(json, "max", ages.max);
	json_close(json);
	json_open(json, "threads");
	json_number(json, "min", trace->thread_min);
	json_number(json, "max", trace->thread_max);
	json_close(json);
	json_open_array(json, "cpus");
	for (unsigned int i = 0; i < TRACE_CPUS_MAX; i++) {
		if (has_cpu(trace, i))
			json_number(json, NULL, i);
	}
	json_close(json);
}

void trace_put(struct json *json, const struct traces *traces,
	       const struct trace *trace, const struct profile *names)
{
	json_number(json, "count", trace->count);
	json_number(json, "bytes", trace->bytes);
	json_number(json, "waste", trace->waste);
	if (trace->caller)
		put_origin(json, traces, trace);
	json_open_array(json, "nodes");
	for (unsigned int i = 0; i < 32; i++) {
		if (trace->nodes >> i & 1)
			json_number(json, NULL, i);
	}
	json_close(json);
	json_open_array(json, "stack");
	for (uint32_t i = 0; i < trace->nr_frames; i++)
		trace_put_frame(json, trace->frames[i], names);
	json_close(json);
}
