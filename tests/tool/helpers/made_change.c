/* SPDX-License-Identifier: MIT */
/*
 * Another number in the heap that is made by hand, by NAME=VALUE:
 *
 *   backend=9	      a field of struct slub_abi
 *   nr.2=1	      how many of a pool there are: groups, owners, stocks of threads
 *   spare.320=0x6100	      what the spare list in a slot of the first CPU begins with
 *   map.130=96	      the map's entry of a page; flags.130, count.130: of its descriptor;
 *		      inuse.130: of a slab
 *   cache.0.order=17   of a cache, by field.def; name.0=0x3c: the letters of its name;
 *		      names.0=0x78: each letter of its further names in the statistics file
 *   node.0.nr_slabs=1  of its part on node 0
 *   guard.version=2    of the first pool; place.0.state=3: of a place in it
 *   groups.version=2   of the description of groups; group.2.usage=1: of a group
 *   box.version=9      of the mailbox
 *   head.state=1	of the statistics file; record.0.slabs=9, file.version=2 (groups)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "features/debug/mailbox.h"
#include "made.h"

struct field {
	const char *name;
	size_t offset, bytes;
};

#define FIELD(type, member) \
	{ #member, offsetof(struct type, member), sizeof(((struct type *)0)->member) }
#define ABI(member) FIELD(slub_abi, member)
#define CACHE_FIELD(field, member) FIELD(made_cache, member),

static const struct field abi_fields[] = {
	ABI(version), ABI(size), ABI(ready), ABI(backend), ABI(cpu_number), ABI(page_size),
	ABI(layout), ABI(smp), ABI(nr_cpus_allowed), ABI(nr_cpus_quota), ABI(nr_nodes),
	ABI(membarrier), ABI(huge), ABI(range_start), ABI(range_bytes), ABI(heap_start),
	ABI(heap_bytes), ABI(retain_bytes), ABI(start_ns), ABI(self), ABI(map), ABI(map_stride),
	ABI(page_bytes), ABI(descriptors), ABI(descriptor_stride), ABI(descriptor_flags),
	ABI(descriptor_count), ABI(descriptor_holes), ABI(descriptor_state),
	ABI(descriptor_state_align), ABI(base_table), ABI(nr_areas), ABI(area_bytes),
	ABI(slot_bytes), ABI(slot_head), ABI(slot_room), ABI(slot_spare_head), ABI(slot_owners),
	ABI(nr_slots), ABI(cache_bytes), ABI(cache_nodes), ABI(node_bytes), ABI(options),
	ABI(nr_options), ABI(option_bytes), ABI(guard), ABI(stacks), ABI(watch_bytes),
	ABI(track_bytes), ABI(groups), ABI(deferred), ABI(limit), ABI(far_owners),
	ABI(far_entry), ABI(nr_far_slots), ABI(refused_superblocks), ABI(refused_pages),
	ABI(moved_runs), { NULL, 0, 0 },
};
static const struct field cache_fields[] = {
#include "features/inspect/field.def"
	{ NULL, 0, 0 },
};
#undef CACHE_FIELD
static const struct field node_fields[] = {
#define NODE_FIELD(field, member) FIELD(made_node, member),
#include "features/inspect/field.def"
	{ NULL, 0, 0 },
};
#define POOL(member) FIELD(guard_pool, member)
static const struct field pool_fields[] = {
	POOL(version), POOL(size), POOL(every), POOL(base), POOL(bytes), POOL(place_bytes),
	POOL(nr_places), POOL(place_size), POOL(places), POOL(stacks), POOL(next_pool),
	{ NULL, 0, 0 },
};
static const struct field place_fields[] = {
	FIELD(guard_place, bytes), FIELD(guard_place, state), FIELD(guard_place, errors),
	FIELD(guard_place, cache), FIELD(guard_place, allocated.caller), { NULL, 0, 0 },
};
#define GROUPS(member) FIELD(slub_abi_groups, member)
static const struct field groups_fields[] = {
	GROUPS(version), GROUPS(size), GROUPS(groups.bytes), GROUPS(owners.bytes),
	GROUPS(thread_stocks.bytes), GROUPS(stock_shift), GROUPS(group_name), GROUPS(stock_back),
	GROUPS(owner_stock_bits), GROUPS(owner_group.bytes), GROUPS(stock_owner.offset),
	GROUPS(groups.start), { NULL, 0, 0 },
};
#define HEAD(member) FIELD(slub_stats_head, member)
static const struct field head_fields[] = {
	HEAD(version), HEAD(size), HEAD(state), HEAD(pid), HEAD(update_ns), HEAD(census_ns),
	HEAD(options_offset), HEAD(nr_options), HEAD(option_bytes), HEAD(records_offset),
	HEAD(record_bytes), HEAD(nr_records), HEAD(nr_nodes), HEAD(groups_offset), HEAD(magic),
	HEAD(abi.magic), HEAD(abi.version), { NULL, 0, 0 },
};
#define RECORD(member) FIELD(slub_stats_cache, member)
static const struct field record_fields[] = {
	RECORD(sequence), RECORD(slot), RECORD(slabs), RECORD(active), RECORD(carved),
	RECORD(cached), RECORD(partial),
	/* Of its first node. */
	{ "nr_slabs", offsetof(struct slub_stats_cache, nodes) + 8 * SLUB_ABI_NODE_NR_SLABS, 8 },
	{ "nr_partial", offsetof(struct slub_stats_cache, nodes) + 8 * SLUB_ABI_NODE_NR_PARTIAL,
	  8 },
	{ NULL, 0, 0 },
};
#define FILE_GROUPS(member) FIELD(slub_stats_groups, member)
static const struct field file_fields[] = {
	FILE_GROUPS(version), FILE_GROUPS(size), FILE_GROUPS(nr_groups), FILE_GROUPS(group_bytes),
	FILE_GROUPS(nr_beyond), { NULL, 0, 0 },
};

#define BOX(member) FIELD(debug_mailbox, member)
static const struct field box_fields[] = {
	BOX(magic), BOX(version), BOX(size), BOX(is_off), BOX(state), BOX(request.id), BOX(beat),
	{ NULL, 0, 0 },
};

static const struct kind {
	const char *name;
	const struct field *fields;
	char *(*of)(unsigned long n);
} kinds[] = {
	{ "cache", cache_fields, made_cache_at }, { "node", node_fields, made_node_at },
	{ "guard", pool_fields, made_pool_at }, { "place", place_fields, made_place_at },
	{ "groups", groups_fields, made_groups_at }, { "head", head_fields, made_head_at },
	{ "record", record_fields, made_record_at }, { "file", file_fields, made_file_at },
	{ "box", box_fields, made_box_at },
};

/* There is one where made_mailbox.c is. */
__attribute__((weak)) char *made_box_at(unsigned long n)
{
	static struct debug_mailbox none;

	(void)n;
	return (char *)&none;
}

static int put(char *base, const struct field *fields, const char *name, uint64_t value)
{
	for (; fields->name; fields++) {
		if (!strcmp(fields->name, name)) {
			memcpy(base + fields->offset, &value,
			       fields->bytes < 8 ? fields->bytes : 8);
			return 0;
		}
	}
	return -1;
}

static int put_by_number(const char *kind, unsigned long n, uint64_t value)
{
	if (!strcmp(kind, "map"))
		put_map((uint32_t)n, (uint32_t)value);
	else if (!strcmp(kind, "name"))
		memcpy(made_names[n % NR_CACHES], &value, sizeof(value));
	else if (!strcmp(kind, "names"))
		memset(made_aliases_at(n), (int)value, SLUB_STATS_ALIASES);
	else if (!strcmp(kind, "nr"))
		put_nr(n, (uint32_t)value);
	else if (!strcmp(kind, "spare"))
		put_spare((uint32_t)n, value);
	else if (!strcmp(kind, "inuse"))
		put_state((uint32_t)n, 0, value);
	else if (!strcmp(kind, "flags") || !strcmp(kind, "count"))
		memcpy(made_descriptor((uint32_t)n) + (*kind == 'f' ? 0 : 4), &value, 4);
	else
		return -1;
	return 0;
}

int made_change(const char *text)
{
	char name[64], *dot, *end;
	const char *equals = strchr(text, '=');
	unsigned long n = 0;
	uint64_t value;

	if (!equals || equals - text >= (ptrdiff_t)sizeof(name))
		return -1;
	snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
	value = strtoull(equals + 1, NULL, 0);
	dot = strchr(name, '.');
	if (!dot)
		return put((char *)&slub_abi_state, abi_fields, name, value);
	*dot++ = '\0';
	n = strtoul(dot, &end, 10);
	if (end > dot && !*end)
		return put_by_number(name, n, value);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(kinds[i].name, name))
			return put(kinds[i].of(n), kinds[i].fields, end > dot ? end + 1 : dot,
				   value);
	}
	return -1;
}
