/* SPDX-License-Identifier: MIT */
/* What /sys/kernel/slab shows of a cache. */
#include "attribute.h"
#include "core/base/bits.h"
#include "counter.h"
#include "symbols.h"
#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Numbers of the structure as they are. */
static const struct {
	enum slub_abi_cache_field field;
	const char *name;
} plain[] = {
#define VALUE_FIELD(name, kind, field) { SLUB_ABI_CACHE_##field, #name },
#include "features/inspect/value.def"
};

/* Bits of a number, each a file of its own there: 0 or 1. */
static const struct {
	enum slub_abi_cache_field field;
	uint64_t bit;
	const char *name;
} bits[] = {
#define CACHE_BIT(number, bit, name) { SLUB_ABI_CACHE_##number, bit, #name },
#include "features/inspect/cache_bit.def"
};

static const struct {
	enum slub_abi_node_field field;
	const char *name;
} by_node[] = {
#define VALUE_NODES(name, kind, field) { SLUB_ABI_NODE_##field, #name },
#include "features/inspect/value.def"
};

#define NR_PLAIN   (sizeof(plain) / sizeof(plain[0]))
#define NR_BY_NODE (sizeof(by_node) / sizeof(by_node[0]))
#define NR_BITS	   (sizeof(bits) / sizeof(bits[0]))

/* A line of text, or a member of the object that is open. */
static void put(struct json *json, const char *name, uint64_t number)
{
	if (json)
		json_number(json, name, number);
	else
		printf("%-20s %" PRIu64 "\n", name, number);
}

/* What the expressions of value.def are about, of a cache that was read. */
struct cache_census {
	uint64_t slabs, partial, empty, carving;
	uint64_t objects, active, carved, partial_active;
};

static struct cache_census census_of(const struct cache_view *cache)
{
	uint64_t in_full = cache->full * cache_field(cache, SLUB_ABI_CACHE_OBJECTS);

	return (struct cache_census){
		.slabs = cache->slabs, .partial = cache_partial(cache),
		.empty = cache->empty, .carving = cache->carving,
		.objects = cache_capacity(cache), .active = cache->active,
		.carved = cache->carved,
		.partial_active = cache->active > in_full ? cache->active - in_full : 0,
	};
}

static void put_counts(struct json *json, const struct cache_view *record)
{
	const struct cache_census view = census_of(record), *census = &view;

#define VALUE_COUNT(name, kind, expression) put(json, #name, (expression));
#define VALUE_MEMORY(...)
#include "features/inspect/value.def"
	put(json, "skip_kfence", cache_field(record, SLUB_ABI_CACHE_UNGUARDED) != 0);
}

static void put_plain(struct json *json, const struct snapshot *snapshot,
		      const struct cache_view *cache)
{
	for (size_t i = 0; i < NR_PLAIN; i++) {
		if (snapshot_has(snapshot, plain[i].field))
			put(json, plain[i].name, cache_field(cache, plain[i].field));
	}
	for (size_t i = 0; i < NR_BITS; i++) {
		bool is_set = cache_field(cache, bits[i].field) & bits[i].bit;

		if (!snapshot_has(snapshot, bits[i].field))
			continue;
		if (json)
			json_bool(json, bits[i].name, is_set);
		else
			put(NULL, bits[i].name, is_set);
	}
}

static void put_counters(struct json *json, const struct snapshot *snapshot,
			 const struct cache_view *cache)
{
	for (size_t i = 0; i < nr_counters; i++) {
		if (counter_is_there(snapshot, &counters[i]))
			put(json, counters[i].name, counter_value(&counters[i], cache));
	}
}

/* "total N0=x N1=y", as the kernel writes it. */
static void print_nodes(const struct snapshot *snapshot,
			const struct cache_view *cache, size_t i)
{
	printf("%-20s %" PRIu64, by_node[i].name,
	       cache_node_sum(snapshot, cache, by_node[i].field));
	for (uint32_t n = 0; n < snapshot->abi.nr_nodes; n++) {
		if (snapshot->abi.nr_nodes > 1)
			printf(" N%u=%" PRIu64, n,
			       cache->nodes[n][by_node[i].field]);
	}
	putchar('\n');
}

/* Its symbol, else its address; 0: it has none. */
static void print_ctor(const struct snapshot *snapshot,
		       const struct cache_view *cache)
{
	uint64_t ctor = cache_field(cache, SLUB_ABI_CACHE_CTOR);
	const char *name = symbol_name(snapshot->process, ctor);

	printf("%-20s ", "ctor");
	if (name)
		puts(name);
	else
		printf(ctor ? "%#" PRIx64 "\n" : "%" PRIu64 "\n", ctor);
}

void attributes_print(const struct snapshot *snapshot,
		      const struct cache_view *cache)
{
	uint64_t slack;

	put_plain(NULL, snapshot, cache);
	if (snapshot_has(snapshot, SLUB_ABI_CACHE_CTOR))
		print_ctor(snapshot, cache);
	if (cache_slack(cache, &slack))
		put(NULL, "slack_bytes", slack);
	put_counts(NULL, cache);
	for (size_t i = 0; i < NR_BY_NODE; i++) {
		if (snapshot->abi.node_fields[by_node[i].field].bytes)
			print_nodes(snapshot, cache, i);
	}
	put_counters(NULL, snapshot, cache);
}

static void put_nodes(struct json *json, const struct snapshot *snapshot,
		      const struct cache_view *cache)
{
	json_open_array(json, "nodes");
	for (uint32_t n = 0; n < snapshot->abi.nr_nodes; n++) {
		json_open(json, NULL);
		json_number(json, "node", n);
		for (size_t i = 0; i < NR_BY_NODE; i++) {
			if (snapshot->abi.node_fields[by_node[i].field].bytes)
				json_number(json, by_node[i].name,
					    cache->nodes[n][by_node[i].field]);
		}
		json_close(json);
	}
	json_close(json);
}

static void put_aliases(struct json *json, const struct cache_view *cache)
{
	char names[ALIASES_SIZE], *rest = names, *name;

	memcpy(names, cache->aliases, sizeof(names));
	json_open_array(json, "alias_names");
	while (*names && (name = strsep(&rest, " ")) != NULL)
		json_string(json, NULL, name);
	json_close(json);
}

static void put_ctor(struct json *json, const struct snapshot *snapshot,
		     const struct cache_view *cache)
{
	uint64_t ctor = cache_field(cache, SLUB_ABI_CACHE_CTOR);
	const char *name = symbol_name(snapshot->process, ctor);

	if (!snapshot_has(snapshot, SLUB_ABI_CACHE_CTOR))
		return;
	json_number(json, "ctor", ctor);
	if (name)
		json_string(json, "ctor_name", name);
	else
		json_null(json, "ctor_name");
}

void attributes_put(struct json *json, const struct snapshot *snapshot,
		    const struct cache_view *cache)
{
	uint64_t slack;

	json_string(json, "name", cache->name);
	put_aliases(json, cache);
	put_plain(json, snapshot, cache);
	put_ctor(json, snapshot, cache);
	if (cache_slack(cache, &slack))
		json_number(json, "slack_bytes", slack);
	else
		json_null(json, "slack_bytes");
	put_counts(json, cache);
	json_number(json, "bytes", cache_bytes(snapshot, cache));
	put_nodes(json, snapshot, cache);
	json_real(json, "fast_percent_min", cache_fast_percent(cache));
	json_open(json, "statistics");
	put_counters(json, snapshot, cache);
	json_close(json);
	json_bool(json, "torn", cache->damaged);
}
