/* SPDX-License-Identifier: MIT */
/* A statistics file of the caches that made.c has. */
#include <stdio.h>
#include <string.h>

#include "made.h"

#define NODES_BYTES  (NR_NODES * SLUB_ABI_NODE_FIELDS * 8)
#define RECORD_BYTES (sizeof(struct slub_stats_cache) + NODES_BYTES + SLUB_STATS_ALIASES)
#define NR_GROUPS    5

static struct slub_stats_head head = {
	.magic = SLUB_STATS_MAGIC,
	.version = SLUB_STATS_VERSION,
	.size = sizeof(head),
	.state = SLUB_STATS_EXITED,
	.pid = 4321,
	.start_ns = 1600000000500000000,
	.update_ns = 1600000123250000000,
	.census_ns = 1600000120000000000,
	.name = "made",
	.command = "/bin/made of \033 words",
	.options_offset = sizeof(head),
	.option_bytes = sizeof(struct slub_abi_option),
	.record_bytes = RECORD_BYTES,
	.nr_nodes = NR_NODES,
	.totals = { 67371008, 90000, 1 << 20, 77, 4444, 44, 81920, 6, 98304 },
};

static struct {
	struct slub_stats_groups head;
	struct slub_stats_group places[NR_GROUPS];
} groups = {
	{ SLUB_ABI_GROUPS_VERSION, sizeof(groups.head), NR_GROUPS, sizeof(groups.places[0]), 3,
	  { 0 } },
	{
		[1] = { 2, 1, 0, 4, "root", { 0, 1, 9000, 9900, 0, 1ull << 62, 1ull << 62 },
			300, 20, 6000, 40960, 4096 },
		[2] = { 3, 2, 1, 2, "a", { 0, 1, 5000, 7000, 10, 6000, 8000, 7, 8, 9 },
			100, 10, 3000, 8192, 0 },
		[4] = { 0, 4, 2, 0, "b", { 0, 1, 50, 70, 0, 1ull << 62, 300 }, 60, 1, 1, 2, 3 },
	},
};

/* The last one is empty. */
static union record {
	struct slub_stats_cache record;
	char bytes[RECORD_BYTES];
} records[NR_CACHES + 1];

static uint64_t number(const void *from, struct slub_abi_field field)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)from + field.offset, field.bytes);
	return value;
}

static void fill(int n)
{
	const struct slub_abi *abi = &slub_abi_state;
	struct slub_stats_cache *out = &records[n].record;

	out->sequence = n == 1;
	out->slot = made_caches[n].slot;
	strncpy(out->name, made_names[n], sizeof(out->name) - 1);
	out->slabs = made_nodes[n][0].nr_slabs + made_nodes[n][1].nr_slabs;
	out->active = 90 + (unsigned int)n;
	out->carved = 20;
	out->cached = 30;
	for (int i = 0; i < SLUB_ABI_CACHE_FIELDS; i++)
		out->fields[i] = number(&made_caches[n], abi->cache_fields[i]);
	for (unsigned int i = 0; i < SLUB_ABI_STATS; i++)
		out->stats[i] = 100 * (unsigned int)n + (i == 10 ? 300 : 0) + i;
	for (int node = 0; node < NR_NODES; node++) {
		for (int i = 0; i < SLUB_ABI_NODE_FIELDS; i++)
			out->nodes[node][i] =
				number(&made_nodes[n][node], abi->node_fields[i]);
	}
	if (!n)
		memcpy(out->nodes[NR_NODES], "plain-a\0plain\nb", 16);
}

void make_stats(void)
{
	head.nr_options = made_nr_options;
	head.records_offset = head.options_offset + made_nr_options * head.option_bytes;
	head.nr_records = NR_CACHES + 1;
	head.groups_offset = head.records_offset + head.nr_records * head.record_bytes;
	head.abi = slub_abi_state;
	for (int n = 0; n < NR_CACHES; n++)
		fill(n);
}

/* What the file says of the library, and of caches, is what it says now. */
int write_stats(const char *path)
{
	FILE *to = fopen(path, "w");
	struct slub_abi abi = slub_abi_state;

	if (!to)
		return 1;
	memcpy(abi.magic, head.abi.magic, sizeof(abi.magic));
	if (head.abi.version != SLUB_ABI_VERSION)
		abi.version = head.abi.version;
	head.abi = abi;
	fwrite(&head, sizeof(head), 1, to);
	fwrite(made_options, sizeof(made_options[0]), made_nr_options, to);
	fwrite(records, sizeof(records), 1, to);
	fwrite(&groups, sizeof(groups), 1, to);
	return fclose(to) != 0;
}

char *made_head_at(unsigned long n)
{
	(void)n;
	return (char *)&head;
}

char *made_record_at(unsigned long n)
{
	return (char *)&records[n % (NR_CACHES + 1)];
}

char *made_aliases_at(unsigned long n)
{
	return (char *)records[n % NR_CACHES].record.nodes[NR_NODES];
}

char *made_file_at(unsigned long n)
{
	(void)n;
	return (char *)&groups.head;
}
