/* SPDX-License-Identifier: MIT */
/* What /sys/kernel/slab shows of a cache. */
#include "attribute.h"
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
#define NR_COUNTED 11

struct counted {
	const char *name;
	uint64_t value;
};

/* Allocated ones in slabs that are neither full nor empty. */
static uint64_t partial_objects(const struct cache_view *cache)
{
	uint64_t in_full = cache->full *
			   cache_field(cache, SLUB_ABI_CACHE_OBJECTS);

	return cache->active > in_full ? cache->active - in_full : 0;
}

static void count(const struct cache_view *cache, struct counted *out)
{
	out[0] = (struct counted){ "slabs", cache->slabs };
	out[1] = (struct counted){ "partial", cache_partial(cache) };
	out[2] = (struct counted){ "empty", cache->empty };
	out[3] = (struct counted){ "cpu_slabs", cache->carving };
	out[4] = (struct counted){ "total_objects", cache_capacity(cache) };
	out[5] = (struct counted){ "objects", cache->active };
	out[6] = (struct counted){ "objects_cached", cache->cached };
	out[8] = (struct counted){ "aliases", cache_aliases(cache) };
	out[7] = (struct counted){ "objects_carved", cache->carved };
	out[9] = (struct counted){ "objects_partial",
				   partial_objects(cache) };
	out[10] = (struct counted){ "skip_kfence",
		cache_field(cache, SLUB_ABI_CACHE_UNGUARDED) != 0 };
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

static void print_counters(const struct snapshot *snapshot,
			   const struct cache_view *cache)
{
	for (size_t i = 0; i < nr_counters; i++) {
		if (counter_is_there(snapshot, &counters[i]))
			printf("%-20s %" PRIu64 "\n", counters[i].name,
			       counter_value(&counters[i], cache));
	}
}

void attributes_print(const struct snapshot *snapshot,
		      const struct cache_view *cache)
{
	struct counted counted[NR_COUNTED];
	uint64_t slack;

	for (size_t i = 0; i < NR_PLAIN; i++) {
		if (snapshot_has(snapshot, plain[i].field))
			printf("%-20s %" PRIu64 "\n", plain[i].name,
			       cache_field(cache, plain[i].field));
	}
	for (size_t i = 0; i < NR_BITS; i++) {
		if (snapshot_has(snapshot, bits[i].field))
			printf("%-20s %d\n", bits[i].name,
			       (cache_field(cache, bits[i].field) &
				bits[i].bit) != 0);
	}
	if (snapshot_has(snapshot, SLUB_ABI_CACHE_CTOR))
		print_ctor(snapshot, cache);
	if (cache_slack(cache, &slack))
		printf("%-20s %" PRIu64 "\n", "slack_bytes", slack);
	count(cache, counted);
	for (size_t i = 0; i < NR_COUNTED; i++)
		printf("%-20s %" PRIu64 "\n", counted[i].name,
		       counted[i].value);
	for (size_t i = 0; i < NR_BY_NODE; i++) {
		if (snapshot->abi.node_fields[by_node[i].field].bytes)
			print_nodes(snapshot, cache, i);
	}
	print_counters(snapshot, cache);
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

static void put_counters(struct json *json, const struct snapshot *snapshot,
			 const struct cache_view *cache)
{
	json_open(json, "statistics");
	for (size_t i = 0; i < nr_counters; i++) {
		if (counter_is_there(snapshot, &counters[i]))
			json_number(json, counters[i].name, counter_value(&counters[i], cache));
	}
	json_close(json);
}

void attributes_put(struct json *json, const struct snapshot *snapshot,
		    const struct cache_view *cache)
{
	struct counted counted[NR_COUNTED];
	uint64_t slack;

	json_string(json, "name", cache->name);
	put_aliases(json, cache);
	for (size_t i = 0; i < NR_PLAIN; i++) {
		if (snapshot_has(snapshot, plain[i].field))
			json_number(json, plain[i].name,
				    cache_field(cache, plain[i].field));
	}
	for (size_t i = 0; i < NR_BITS; i++) {
		if (snapshot_has(snapshot, bits[i].field))
			json_bool(json, bits[i].name,
				  cache_field(cache, bits[i].field) &
				  bits[i].bit);
	}
	put_ctor(json, snapshot, cache);
	if (cache_slack(cache, &slack))
		json_number(json, "slack_bytes", slack);
	else
		json_null(json, "slack_bytes");
	count(cache, counted);
	for (size_t i = 0; i < NR_COUNTED; i++)
		json_number(json, counted[i].name, counted[i].value);
	json_number(json, "bytes", cache_bytes(snapshot, cache));
	put_nodes(json, snapshot, cache);
	json_real(json, "fast_percent_min", cache_fast_percent(cache));
	put_counters(json, snapshot, cache);
	json_bool(json, "torn", cache->damaged);
}
