/* SPDX-License-Identifier: MIT */
/*
 * Memory groups for other processes: where their numbers are, and a copy of
 * them for the statistics file.
 *
 * This file alone looks into struct slub_group from outside of its layer.  It
 * takes no lock: while threads charge and free, the sums are estimates.
 */
#include "features/inspect/inspect.h"

#include <string.h>

#include "core/percpu/percpu_internal.h"
#include "features/groups/group.h"
#include "features/groups/owned.h"

_Static_assert(SLUB_ABI_OWNER_FREE == OWNER_FREE &&
	       SLUB_ABI_GROUP_NAME == SLUB_GROUP_NAME_MAX + 1 &&
	       SLUB_ABI_GROUP_NO_LIMIT == SLUB_GROUP_NO_LIMIT, "groups");

/* ---- where the numbers are ---- */

#define POOL(name, type) { \
	.start = (uintptr_t)&(name).start, .end = (uintptr_t)&(name).nr_made, \
	.bytes = sizeof(struct type) }

static struct slub_abi_groups description;

usual void groups_describe(struct slub_abi *abi)
{
	description = (struct slub_abi_groups){
		.version = SLUB_ABI_GROUPS_VERSION,
		.size = sizeof(description),
		.groups = POOL(group_pool, slub_group),
		.owners = POOL(owner_pool, group_owner),
		.thread_stocks = POOL(thread_stock_pool, thread_stock),
		.stock_shift = CHARGE_BYTES_BITS,
		.group_fields = {
			[SLUB_ABI_GROUP_PARENT] = FIELD(slub_group, parent),
			[SLUB_ABI_GROUP_ALIVE] = FIELD(slub_group, is_alive),
			[SLUB_ABI_GROUP_USAGE] = FIELD(slub_group, usage),
			[SLUB_ABI_GROUP_PEAK] = FIELD(slub_group, peak),
			[SLUB_ABI_GROUP_LOW] =
				FIELD(slub_group, limits[SLUB_GROUP_LOW]),
			[SLUB_ABI_GROUP_HIGH] =
				FIELD(slub_group, limits[SLUB_GROUP_HIGH]),
			[SLUB_ABI_GROUP_MAX] =
				FIELD(slub_group, limits[SLUB_GROUP_MAX]),
			[SLUB_ABI_GROUP_FAILURES] = FIELD(slub_group, failures),
			[SLUB_ABI_GROUP_MAX_HITS] = FIELD(slub_group, max_hits),
			[SLUB_ABI_GROUP_HIGH_HITS] =
				FIELD(slub_group, high_hits),
		},
		.group_name = offsetof(struct slub_group, name),
		.owner_group = FIELD(group_owner, group),
		.owner_heir = FIELD(group_owner, heir),
		.stock_owner = FIELD(thread_stock, owner),
		.stock_bytes = FIELD(thread_stock, bytes),
		.stock_back = offsetof(struct thread_stock, back),
		.owner_stock = FIELD(group_owner, word),
		.owner_stock_bits = OWNER_STOCK_BITS,
	};
	abi->groups = (uintptr_t)&description;
}

/* ---- what each has, by a walk over the heap ---- */

struct tally {
	int64_t stock_bytes;
	uint64_t objects;
	uint64_t object_bytes;
	uint64_t slab_bytes;
	uint64_t large_bytes;
	const struct page *slab;	/* the one counted last */
	uint32_t nr_threads;
};

#define TALLIES_BYTES (STATS_GROUPS_MAX * sizeof(struct tally))

/* Inside group_domain: the group that @owner's charges belong to; NULL: none. */
static struct slub_group *group_of_owner(uint32_t owner)
{
	if (!owner || owner >= pool_end(&owner_pool))
		return NULL;
	return owner_group(owner_of(owner));
}

/* Of groups that have no place, the one with number 0, which nobody reads. */
static struct tally *tally_of(struct tally *tallies,
			      const struct slub_group *group)
{
	uint32_t number = group_number(group);

	return &tallies[number < STATS_GROUPS_MAX ? number : 0];
}

static void add_object(const struct slub_cache *cache, const struct page *slab,
		       uint32_t owner, void *tallies)
{
	for (struct slub_group *group = group_of_owner(owner); group; group = group->parent) {
		struct tally *tally = tally_of(tallies, group);

		tally->objects++;
		tally->object_bytes += cache->object_size;
		if (tally->slab != slab)
			tally->slab_bytes += PAGE_BYTES << cache->order;
		tally->slab = slab;
	}
}

static void add_large(uint32_t owner, size_t bytes, void *tallies)
{
	for (struct slub_group *group = group_of_owner(owner); group; group = group->parent)
		tally_of(tallies, group)->large_bytes += bytes;
}

static void add_stock(struct tally *tallies, uint32_t owner, int64_t bytes)
{
	struct slub_group *group = bytes > 0 ? group_of_owner(owner) : NULL;

	for (; group; group = group->parent)
		tally_of(tallies, group)->stock_bytes += bytes;
}

static void tally_thread_stock(struct tally *tallies,
			       const struct thread_stock *stock)
{
	uint64_t back = __atomic_load_n(&stock->back, __ATOMIC_RELAXED);
	struct slub_group *group = group_of_owner(stock->owner);

	if (group)
		tally_of(tallies, group)->nr_threads++;
	add_stock(tallies, stock->owner, stock->bytes);
	add_stock(tallies, charge_word_owner(back), (int64_t)charge_word_bytes(back));
}

static void tally_stocks(struct tally *tallies)
{
	for (uint32_t n = 1; n < pool_end(&thread_stock_pool); n++)
		tally_thread_stock(tallies, pool_item(&thread_stock_pool, n));
	for (uint32_t n = 1; n < pool_end(&owner_pool); n++) {
		uint64_t word = __atomic_load_n(&owner_of(n)->word,
						__ATOMIC_RELAXED);

		add_stock(tallies, n, (int64_t)owner_stock(word));
	}
}

/* ---- the statistics file ---- */

static struct slub_stats_group *place_of(struct slub_stats_groups *out,
					 uint32_t number)
{
	return (struct slub_stats_group *)(out + 1) + number;
}

static void record_counters(struct slub_stats_group *place,
			    const struct slub_group *group)
{
	place->parent = group_number(group->parent);
	memcpy(place->name, group->name, sizeof(place->name));
	for (int i = SLUB_ABI_GROUP_ALIVE; i < SLUB_ABI_GROUP_FIELDS_KNOWN; i++)
		place->fields[i] = field_get(group, description.group_fields[i]);
}

static void record_tally(struct slub_stats_group *place,
			 const struct tally *tally)
{
	place->nr_threads = tally->nr_threads;
	place->stock_bytes = (uint64_t)tally->stock_bytes;
	place->objects = tally->objects;
	place->object_bytes = tally->object_bytes;
	place->slab_bytes = tally->slab_bytes;
	place->large_bytes = tally->large_bytes;
}

static void record_place(struct slub_stats_groups *out, uint32_t number,
			 const struct tally *tally)
{
	const struct slub_group *group = group_of_number(number);
	struct slub_stats_group *place = place_of(out, number);
	bool is_alive = group_is_alive(group);

	if (!is_alive && !place->number)
		return;
	if (!record_begin(&place->sequence))
		return;
	if (is_alive) {
		record_counters(place, group);
		record_tally(place, tally);
	}
	place->number = is_alive ? number : 0;
	record_end(&place->sequence);
}

static void update_place(struct slub_stats_groups *out,
			 const struct slub_group *group)
{
	static const struct tally none;
	uint32_t number = group_number(group);
	struct slub_stats_group *place = place_of(out, number);

	if (number >= STATS_GROUPS_MAX || !group_is_alive(group) ||
	    !record_begin(&place->sequence))
		return;
	/* What the census has not seen yet may have been another group's. */
	if (place->number != number)
		record_tally(place, &none);
	record_counters(place, group);
	place->number = number;
	record_end(&place->sequence);
	if (out->nr_groups <= number)
		out->nr_groups = number + 1;
}

void groups_update(struct slub_stats_groups *out)
{
	struct slub_group *group;
	int index;

	if (!group_current())
		return;
	index = slub_srcu_read_lock(&group_domain);
	group = group_of_owner(group_current());
	for (; group; group = group->parent)
		update_place(out, group);
	slub_srcu_read_unlock(&group_domain, index);
}

void groups_record(struct slub_stats_groups *out)
{
	uint32_t end = pool_end(&group_pool), nr_beyond = 0;
	struct owned_visitor visitor = { add_object, NULL, add_large, NULL };
	struct tally *tallies;
	int index;

	if (end == 1)
		return;
	tallies = os_map(TALLIES_BYTES);
	if (!tallies)
		return;
	visitor.arg = tallies;
	owned_visit(&visitor);
	index = slub_srcu_read_lock(&group_domain);
	tally_stocks(tallies);
	for (uint32_t n = 1; n < end; n++) {
		if (n < STATS_GROUPS_MAX)
			record_place(out, n, &tallies[n]);
		else
			nr_beyond += group_is_alive(group_of_number(n));
	}
	slub_srcu_read_unlock(&group_domain, index);
	out->nr_beyond = nr_beyond;
	out->nr_groups = (uint32_t)min_size(end, STATS_GROUPS_MAX);
	os_unreserve(tallies, TALLIES_BYTES);
}

void groups_file_begin(struct slub_stats_groups *out)
{
	out->version = SLUB_ABI_GROUPS_VERSION;
	out->size = sizeof(*out);
	out->group_bytes = sizeof(struct slub_stats_group);
}
