/* SPDX-License-Identifier: MIT */
/*
 * slub_stats_json(): what `slub stats --json` prints, made in the process itself.
 *
 * The names come from the same tables, value.def and core/slab/stat.def; the tool_json_test
 * compares the two.  Nothing is allocated: text goes to the caller's room, a piece at a time,
 * and what does not fit is counted.
 */
#include "features/inspect/counter.h"
#include "features/inspect/inspect.h"
#include "features/typed/typed.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <slub/control.h>
#include <slub/version.h>

#define SCHEMA 1		/* as tools/slub/view.c */
#define PIECE_BYTES 256

struct out {
	char *text;
	size_t size_bytes;
	size_t used_bytes;	/* of the whole, also what there was no room for */
	bool has_member;	/* of the object or array that is open */
};

/* ---- text ---- */

static cold void put_bytes(struct out *out, const char *bytes, size_t nr)
{
	size_t at = out->used_bytes;

	out->used_bytes += nr;
	if (at < out->size_bytes)
		memcpy(out->text + at, bytes, min_size(nr, out->size_bytes - at));
}

static cold void put(struct out *out, const char *text)
{
	put_bytes(out, text, strlen(text));
}

static cold void put_char(struct out *out, char c)
{
	put_bytes(out, &c, 1);
}

/* Names are ASCII, but for the process's, which may be anything: "?" for what is not. */
static cold void put_quoted(struct out *out, const char *text)
{
	put_char(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			put_char(out, '\\');
		put_char(out, *text < 0x20 || *text > 0x7e ? '?' : *text);
	}
	put_char(out, '"');
}

static cold void put_name(struct out *out, const char *name)
{
	if (out->has_member)
		put(out, ",\n");
	out->has_member = true;
	if (name) {
		put_quoted(out, name);
		put(out, ": ");
	}
}

static cold void put_open(struct out *out, const char *name, char bracket)
{
	put_name(out, name);
	put_char(out, bracket);
	out->has_member = false;
}

static cold void put_close(struct out *out, char bracket)
{
	put_char(out, bracket);
	out->has_member = true;
}

static cold void put_word(struct out *out, const char *name, const char *word)
{
	put_name(out, name);
	put(out, word);
}

static cold void put_string(struct out *out, const char *name, const char *value)
{
	put_name(out, name);
	put_quoted(out, value);
}

static cold void put_number(struct out *out, const char *name, uint64_t number)
{
	char piece[PIECE_BYTES];
	struct text text = { piece, sizeof(piece), 0 };

	put_name(out, name);
	text_printf(&text, "%lu", (unsigned long)number);
	put_bytes(out, piece, text.used_bytes);
}

/* A number with three digits behind the point. */
static cold void put_thousandths(struct out *out, const char *name, uint64_t number)
{
	char digits[] = { '.', (char)('0' + number / 100 % 10),
			  (char)('0' + number / 10 % 10), (char)('0' + number % 10) };

	put_number(out, name, number / 1000);
	put_bytes(out, digits, sizeof(digits));
}

static cold void put_bool(struct out *out, const char *name, bool value)
{
	put_word(out, name, value ? "true" : "false");
}

/* ---- the process and the heap ---- */

static cold void put_identity(struct out *out)
{
	static const char *const backends[] = {
		[SLUB_ABI_BACKEND_NONE] = "none", [SLUB_ABI_BACKEND_RSEQ] = "rseq",
		[SLUB_ABI_BACKEND_THREAD] = "thread", [SLUB_ABI_BACKEND_TID] = "tid",
		[SLUB_ABI_BACKEND_LOCK] = "lock",
	};
	char name[32] = "";
	long n = os_file_read("/proc/self/comm", name, sizeof(name));

	if (n > 0 && name[n - 1] == '\n')
		name[n - 1] = '\0';
	put_string(out, "kind", "stats");
	put_number(out, "schema", SCHEMA);
	put_number(out, "pid", (uint64_t)sys_pid());
	put_string(out, "name", name);
	put_bool(out, "exited", false);
	put_string(out, "version", SLUB_VERSION_STRING);
	put_string(out, "backend", backends[slub_abi_state.backend]);
	put_thousandths(out, "time", (os_clock_read_ns(CLOCK_REALTIME) + 500000) / 1000000);
	put_thousandths(out, "start_time", (slub_abi_state.start_ns + 500000) / 1000000);
}

/* "heap.slab_bytes" is a member of the object "heap"; @before: the name before, or "". */
static cold const char *put_member(struct out *out, const char *before, const char *name,
				   uint64_t number)
{
	const char *dot = strchr(name, '.');

	if (strncmp(before, name, (size_t)(dot - name) + 1) != 0) {
		if (*before)
			put_close(out, '}');
		put_open(out, *name == 'h' ? "heap" : "objects", '{');
	}
	put_number(out, dot + 1, number);
	return name;
}

static cold void put_heap(struct out *out)
{
	struct heap_census census, *heap = &census;
	const char *before = "";

	census_heap(heap);
#define VALUE_HEAP(name, kind, expression)					\
	before = put_member(out, before, #name, (expression));
#include "features/inspect/value.def"
	put_close(out, '}');
}

/* ---- a cache ---- */

static cold void put_aliases(struct out *out, const struct slub_stats_cache *record)
{
	const char *name = (const char *)record->nodes[slub_abi_state.nr_nodes];

	put_open(out, "alias_names", '[');
	for (; *name; name += strlen(name) + 1)
		put_string(out, NULL, name);
	put_close(out, ']');
}

static cold void put_bits(struct out *out, const uint64_t *fields)
{
#define CACHE_BIT(number, bit, name)						\
	put_bool(out, #name, fields[SLUB_ABI_CACHE_##number] & (bit));
#include "features/inspect/cache_bit.def"
}

/* Of a class that nobody has counted the slack is not known. */
static cold void put_count(struct out *out, const char *name, uint64_t number,
			   const struct slub_stats_cache *record)
{
	if (!record->fields[SLUB_ABI_CACHE_SLACK] && !strcmp(name, "slack_bytes"))
		put_word(out, name, "null");
	else
		put_number(out, name, number);
}

static cold void put_counts(struct out *out, const struct cache_census *census,
			    const struct slub_stats_cache *record)
{
#define VALUE_COUNT(name, kind, expression) put_count(out, #name, (expression), record);
#include "features/inspect/value.def"
	put_number(out, "skip_kfence", record->fields[SLUB_ABI_CACHE_UNGUARDED] != 0);
}

static cold void put_nodes(struct out *out, const struct slub_stats_cache *record)
{
	put_open(out, "nodes", '[');
	for (uint32_t n = 0; n < slub_abi_state.nr_nodes; n++) {
		put_open(out, NULL, '{');
		put_number(out, "node", n);
#define VALUE_NODES(name, kind, field)						\
		put_number(out, #name, record->nodes[n][SLUB_ABI_NODE_##field]);
#include "features/inspect/value.def"
		put_close(out, '}');
	}
	put_close(out, ']');
}

/* At least so much of the allocations, in thousandths of a percent, found a list. */
static cold uint64_t fast_share(const struct slub_stats_cache *record)
{
	const uint64_t *stats = record->stats;
	uint64_t lists = stats[SLUB_ABI_STAT_ALLOC_SPARE] +
			 stats[SLUB_ABI_STAT_ALLOC_BARN];
	uint64_t slow = lists + stats[SLUB_ABI_STAT_ALLOC_REFILL];
	uint64_t all = stats[SLUB_ABI_STAT_OBJECTS_OUT] +
		       lists * record->fields[SLUB_ABI_CACHE_CAPACITY_NOW];

	return slow && all > slow ? ((all - slow) * 100000 + all / 2) / all : 0;
}

static cold void put_statistics(struct out *out, const uint64_t *stats)
{
	put_open(out, "statistics", '{');
#define COUNTER(name, meaning, kind, one, other)				\
	put_number(out, #name, counter_number(COUNTER_##kind,			\
					      stats[SLUB_ABI_STAT_##one],	\
					      stats[SLUB_ABI_STAT_##other]));
#include "core/slab/stat.def"
	put_close(out, '}');
}

static cold int put_cache(const struct slub_cache *cache, const char *name,
			  const struct cache_census *census, void *arg)
{
	union cache_record space = { .bytes = { 0 } };
	const uint64_t *fields = space.record.fields;
	struct out *out = arg;

	census_record(cache, slub_abi_state.nr_nodes, &space.record);
	put_open(out, NULL, '{');
	put_string(out, "name", name);
	put_aliases(out, &space.record);
#define VALUE_FIELD(name, kind, field) put_number(out, #name, fields[SLUB_ABI_CACHE_##field]);
#include "features/inspect/value.def"
	put_bits(out, fields);
	put_number(out, "ctor", fields[SLUB_ABI_CACHE_CTOR]);
	put_word(out, "ctor_name", "null");
	put_counts(out, census, &space.record);
	put_nodes(out, &space.record);
	put_thousandths(out, "fast_percent_min", fast_share(&space.record));
	put_statistics(out, space.record.stats);
	put_bool(out, "torn", false);
	put_close(out, '}');
	return 0;
}

SLUB_EXPORT cold long slub_stats_json(char *text, size_t size)
{
	struct out out = { text, size ? size - 1 : 0, 0, false };
	int err = text || !size ? slub_begin() : -EINVAL;

	if (err)
		return err;
	put_open(&out, NULL, '{');
	put_identity(&out);
	put_heap(&out);
	put_open(&out, "caches", '[');
	err = census_each(put_cache, &out);
	put_close(&out, ']');
	put_close(&out, '}');
	put_char(&out, '\n');
	if (size)
		text[min_size(out.used_bytes, size - 1)] = '\0';
	return err ? err : (long)out.used_bytes;
}
