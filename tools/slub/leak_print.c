/* SPDX-License-Identifier: MIT */
/* Leaks as text, and as JSON. */
#include "cache_name.h"
#include "leak.h"
#include "slub.h"
#include "trace_name.h"
#include "trace_print.h"
#include "view.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA 1
#define LINE_BYTES 16u
#define EXAMPLE_BYTES 32u
#define LARGE_NAME "large blocks"

struct printing {
	struct leaks *leaks;
	const struct leak_groups *groups;
	struct traces traces;		/* the groups' stacks, for their names */
	struct profile names;
	size_t lines;
};

static void begin(struct printing *printing)
{
	const struct leak_groups *groups = printing->groups;
	struct traces *traces = &printing->traces;

	traces->rows = must_have(calloc(groups->nr + 1, sizeof(*traces->rows)));
	for (size_t i = 0; i < groups->nr && i < printing->lines; i++) {
		struct trace *row = &traces->rows[traces->nr++];

		row->nr_frames = groups->rows[i].nr_frames;
		memcpy(row->frames, groups->rows[i].frames, sizeof(row->frames));
	}
	trace_names_find(&printing->names, printing->leaks->process, traces);
}

static void end(struct printing *printing)
{
	profile_free(&printing->names);
	traces_free(&printing->traces);
}

static const char *name_of(const struct leaks *leaks, const struct leak_group *group,
			   char name[CACHE_NAME_SIZE])
{
	const struct leak_slab *slab;

	if (group->cache >= 0) {
		cache_plain_name(&leaks->snapshot, &leaks->snapshot.caches[group->cache], name);
		return name;
	}
	if (group->cache == LEAK_LARGE)
		return LARGE_NAME;
	slab = &leaks->slabs[leak_block_of(leaks, group->examples[0])->slab];
	return leaks->guard.places[slab->pages].name;
}

/* The first bytes of an object; how many. */
static size_t first_bytes(struct leaks *leaks, uint64_t object, unsigned char *to)
{
	uint64_t bytes, address = leak_object_at(leaks, object, &bytes);

	if (bytes > EXAMPLE_BYTES)
		bytes = EXAMPLE_BYTES;
	return leak_copy(leaks, address, to, bytes) ? (size_t)bytes : 0;
}

/* ---- text ---- */

static void print_line(const unsigned char *bytes, size_t nr)
{
	printf("\t   ");
	for (size_t i = 0; i < LINE_BYTES; i++) {
		if (i < nr)
			printf(" %02x", bytes[i]);
		else
			printf("   ");
	}
	printf("  |");
	for (size_t i = 0; i < nr; i++)
		putchar(bytes[i] < 0x7f && isprint(bytes[i]) ? bytes[i] : '.');
	printf("|\n");
}

static void print_example(struct leaks *leaks, uint64_t object, uint64_t beneath)
{
	unsigned char bytes[EXAMPLE_BYTES];
	uint64_t size, address = leak_object_at(leaks, object, &size);
	size_t nr = first_bytes(leaks, object, bytes);

	printf("\t0x%" PRIx64, address);
	if (beneath)
		printf(", and %" PRIu64 " beneath it", beneath);
	putchar('\n');
	for (size_t at = 0; at < nr; at += LINE_BYTES)
		print_line(bytes + at, nr - at < LINE_BYTES ? nr - at : LINE_BYTES);
}

static void print_stack(const struct printing *printing, const struct leak_group *group)
{
	char name[512];

	for (uint32_t i = 0; i < group->nr_frames; i++) {
		printf("\t%s %s\n", i ? "   " : "by ",
		       trace_name_text(&printing->names, group->frames[i], name, sizeof(name)));
		symbol_print_outers(trace_name(&printing->names, group->frames[i]), "\t      ");
	}
}

static void print_group(const struct printing *printing, const struct leak_group *group)
{
	char name[CACHE_NAME_SIZE], bytes[SIZE_TEXT], beneath[SIZE_TEXT];

	printf("%9" PRIu64 " %9s %9" PRIu64 " %9s  %s", group->nr,
	       size_text(bytes, group->bytes, false), group->nr_beneath,
	       size_text(beneath, group->bytes_beneath, false),
	       name_of(printing->leaks, group, name));
	if (group->nr_rings)
		printf(" (%" PRIu64 " in rings)", group->nr_rings);
	putchar('\n');
	print_stack(printing, group);
	for (uint32_t i = 0; i < group->nr_examples; i++)
		print_example(printing->leaks, group->examples[i], group->beneath[i]);
}

static const char *plural(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

static void print_how(const struct leaks *leaks)
{
	if (leaks->process->core)
		printf("read from a core with %zu thread%s\n", leaks->roots.nr_threads,
		       plural(leaks->roots.nr_threads));
	else if (leaks->stopped_ns)
		printf("%zu thread%s stopped for %" PRIu64 " ms\n", leaks->roots.nr_threads,
		       leaks->roots.nr_threads == 1 ? " was" : "s were",
		       (leaks->stopped_ns + 999999) / 1000000);
	else if (leaks->looks > 2)
		printf("read %u times, %u ms apart, while it ran; the registers of %zu thread%s "
		       "are not known (--stop)\n", leaks->looks, leaks->options.interval_ms,
		       leaks->roots.nr_blind, plural(leaks->roots.nr_blind));
	else
		printf("read twice, %u ms apart, while it ran; the registers of %zu thread%s are "
		       "not known (--stop)\n", leaks->options.interval_ms, leaks->roots.nr_blind,
		       plural(leaks->roots.nr_blind));
}

static void print_sum(const struct leaks *leaks, const struct leak_groups *groups)
{
	char direct[SIZE_TEXT], beneath[SIZE_TEXT], all[SIZE_TEXT];

	size_text(direct, groups->bytes_direct, false);
	size_text(beneath, groups->bytes_beneath, false);
	size_text(all, leaks->bytes, false);
	printf("%s (%s): ", leaks->source->label, leaks->snapshot.name);
	if (!groups->nr_direct)
		printf("no leaks among %" PRIu64 " objects of %s\n", leaks->objects, all);
	else
		printf("%" PRIu64 " leak%s (%s), and beneath them %" PRIu64 " objects (%s), of %"
		       PRIu64 " allocated (%s)\n", groups->nr_direct,
		       plural(groups->nr_direct), direct, groups->nr_beneath, beneath,
		       leaks->objects, all);
}

/* Nothing knows it of what was allocated unwatched; of the next leaks it can be had. */
static void print_who(const struct leaks *leaks, const struct leak_groups *groups, size_t lines)
{
	char name[CACHE_NAME_SIZE];
	size_t i = 0;

	while (i < groups->nr && i < lines &&
	       (groups->rows[i].nr_frames || groups->rows[i].cache < 0))
		i++;
	if (i == groups->nr || i == lines)
		return;
	name_of(leaks, &groups->rows[i], name);
	if (leaks->process->core)
		printf("\nwhat allocates %s is not known: run it with SLUB_DEBUG=U,%s\n", name,
		       name);
	else
		printf("\nwhat allocates %s is not known: `slub debug %d %s U`, and search again "
		       "when more has leaked\n", name, (int)leaks->process->pid, name);
}

void leaks_print(struct leaks *leaks, const struct leak_groups *groups, size_t lines)
{
	struct printing printing = { .leaks = leaks, .groups = groups, .lines = lines };

	print_sum(leaks, groups);
	if (!groups->nr)
		return;
	print_how(leaks);
	begin(&printing);
	printf("\n%9s %9s %9s %9s  %s\n", "LEAKS", "BYTES", "BENEATH", "BYTES", "CACHE");
	for (size_t i = 0; i < groups->nr && i < lines; i++)
		print_group(&printing, &groups->rows[i]);
	if (groups->nr > lines)
		printf("%9s %zu more lines (-N)\n", "...", groups->nr - lines);
	print_who(leaks, groups, lines);
	end(&printing);
}

/* ---- JSON ---- */

static void put_example(struct json *json, struct leaks *leaks, uint64_t object, uint64_t beneath)
{
	unsigned char bytes[EXAMPLE_BYTES];
	char hex[2 * EXAMPLE_BYTES + 1] = "", text[EXAMPLE_BYTES + 1] = "";
	uint64_t size, address = leak_object_at(leaks, object, &size);
	size_t nr = first_bytes(leaks, object, bytes);

	for (size_t i = 0; i < nr; i++) {
		sprintf(hex + 2 * i, "%02x", bytes[i]);
		text[i] = bytes[i] < 0x7f && isprint(bytes[i]) ? (char)bytes[i] : '.';
	}
	json_open(json, NULL);
	json_address(json, "address", address);
	json_number(json, "beneath", beneath);
	json_string(json, "hex", hex);
	json_string(json, "text", text);
	json_close(json);
}

static void put_group(struct json *json, const struct printing *printing,
		      const struct leak_group *group)
{
	char name[CACHE_NAME_SIZE];

	json_open(json, NULL);
	json_string(json, "cache", name_of(printing->leaks, group, name));
	json_number(json, "size", group->size);
	json_number(json, "count", group->nr);
	json_number(json, "bytes", group->bytes);
	json_number(json, "beneath_count", group->nr_beneath);
	json_number(json, "beneath_bytes", group->bytes_beneath);
	json_number(json, "rings", group->nr_rings);
	json_open_array(json, "stack");
	for (uint32_t i = 0; i < group->nr_frames; i++)
		trace_put_frame(json, group->frames[i], &printing->names);
	json_close(json);
	json_open_array(json, "examples");
	for (uint32_t i = 0; i < group->nr_examples; i++)
		put_example(json, printing->leaks, group->examples[i], group->beneath[i]);
	json_close(json);
	json_close(json);
}

static void put_sums(struct json *json, const struct leaks *leaks,
		     const struct leak_groups *groups)
{
	json_number(json, "objects", leaks->objects);
	json_number(json, "object_bytes", leaks->bytes);
	json_number(json, "leaks", groups->nr_direct);
	json_number(json, "leak_bytes", groups->bytes_direct);
	json_number(json, "beneath", groups->nr_beneath);
	json_number(json, "beneath_bytes", groups->bytes_beneath);
	json_number(json, "threads", leaks->roots.nr_threads);
	json_number(json, "threads_without_registers", leaks->roots.nr_blind);
	if (leaks->looks)
		json_number(json, "looks", leaks->looks);
	if (leaks->stopped_ns)
		json_number(json, "stopped_us", leaks->stopped_ns / 1000);
}

void leaks_put(struct leaks *leaks, const struct leak_groups *groups, size_t lines)
{
	struct printing printing = { .leaks = leaks, .groups = groups, .lines = lines };
	struct json json = { .to = stdout };

	begin(&printing);
	json_open(&json, NULL);
	json_string(&json, "kind", "unreachable");
	json_number(&json, "schema", SCHEMA);
	json_number(&json, "pid", leaks->snapshot.pid);
	json_string(&json, "name", leaks->snapshot.name);
	put_sums(&json, leaks, groups);
	json_open_array(&json, "groups");
	for (size_t i = 0; i < groups->nr && i < lines; i++)
		put_group(&json, &printing, &groups->rows[i]);
	json_close(&json);
	json_close(&json);
	end(&printing);
}
