/* SPDX-License-Identifier: MIT */
/*
 * Memory groups: root (number 1), below it a (2) and z (5), and a\"b (3) below a; 4 is gone.
 * Owners 1 to 3 are these groups', and 4, whose group is gone, has the heir 2.
 */
#include <string.h>

#include "made.h"

struct made_group {
	uint64_t parent;
	uint64_t usage, peak, low, high, max;
	uint32_t failures, max_hits, high_hits;
	uint8_t is_alive;
	char name[SLUB_ABI_GROUP_NAME];
};

struct made_owner {
	uint64_t group, heir, word;
};

struct made_stock {
	int64_t bytes;
	uint64_t back;
	uint32_t owner;
};

#define SHIFT 40
#define FIELD(type, member) { offsetof(struct type, member), sizeof(((struct type *)0)->member) }
#define POOL(name, nr) { (uintptr_t)&name##_start, (uintptr_t)&nr, sizeof(name[0]), 0 }

static struct made_group groups[6] = {
	[1] = { 0, 900000, 990000, 0, 1ull << 62, 1ull << 62, 0, 0, 0, 1, "root" },
	[2] = { 0, 500000, 700000, 4096, 600000, 1 << 20, 7, 8, 9, 1, "a" },
	[3] = { 0, 3000, 4000, 0, 1ull << 62, 8192, 1, 0, 2, 1, "a\\\"b" },
	[4] = { 0, 77, 77, 0, 0, 0, 0, 0, 0, 0, "gone" },
	[5] = { 0, 600000, 600000, 0, 1 << 20, 1ull << 62, 0, 0, 0, 1, "z" },
};
static struct made_owner owners[5] = {
	[1] = { 0, 0, 5ull << 16 | 100 },
	[2] = { 0, 0, 9ull << 16 | 2000 },
	[3] = { 0, 0, 0 },
	[4] = { 0, 0, 30 },
};
static struct made_stock stocks[4] = {
	[1] = { 1000, 2ull << SHIFT | 512, 2 },
	[2] = { -5, 0, 3 },
	[3] = { 700, 1ull << SHIFT | 64, 2 },
};
static uint64_t groups_start, owners_start, stocks_start;
static uint32_t nr_groups = 6, nr_owners = 5, nr_stocks = 4;

static struct slub_abi_groups description = {
	.version = SLUB_ABI_GROUPS_VERSION,
	.size = sizeof(description),
	.stock_shift = SHIFT,
	.group_fields = {
		[SLUB_ABI_GROUP_PARENT] = FIELD(made_group, parent),
		[SLUB_ABI_GROUP_ALIVE] = FIELD(made_group, is_alive),
		[SLUB_ABI_GROUP_USAGE] = FIELD(made_group, usage),
		[SLUB_ABI_GROUP_PEAK] = FIELD(made_group, peak),
		[SLUB_ABI_GROUP_LOW] = FIELD(made_group, low),
		[SLUB_ABI_GROUP_HIGH] = FIELD(made_group, high),
		[SLUB_ABI_GROUP_MAX] = FIELD(made_group, max),
		[SLUB_ABI_GROUP_FAILURES] = FIELD(made_group, failures),
		[SLUB_ABI_GROUP_MAX_HITS] = FIELD(made_group, max_hits),
		[SLUB_ABI_GROUP_HIGH_HITS] = FIELD(made_group, high_hits),
	},
	.group_name = offsetof(struct made_group, name),
	.stock_back = offsetof(struct made_stock, back),
	.owner_group = FIELD(made_owner, group),
	.owner_heir = FIELD(made_owner, heir),
	.stock_owner = FIELD(made_stock, owner),
	.stock_bytes = FIELD(made_stock, bytes),
	.owner_stock = FIELD(made_owner, word),
	.owner_stock_bits = 16,
};

static void link_groups(void)
{
	groups[2].parent = (uintptr_t)&groups[1];
	groups[3].parent = (uintptr_t)&groups[2];
	groups[4].parent = groups[5].parent = (uintptr_t)&groups[1];
	for (int i = 1; i < 5; i++)
		owners[i].group = (uintptr_t)&groups[i];
	owners[4].heir = (uintptr_t)&owners[2];
}

/* Objects of owned-128: 6 and 7 are in a CPU's list. */
static void make_owned(void)
{
	static const uint32_t words[9] = { 2, 3, 1, 2 | SLUB_ABI_OWNER_FREE, 0, 4, 2, 3, 2 };
	uint64_t next = page_at(28) + 7 * 128;

	memcpy((char *)(uintptr_t)page_at(28) + 3968, words, sizeof(words));
	memcpy((char *)(uintptr_t)page_at(28) + 6 * 128, &next, 8);
	put_owner(32, 3);
	put_owner(33, 2);
	put_owner(34, 1 | SLUB_ABI_OWNER_FREE);
}

void make_groups(void)
{
	groups_start = (uintptr_t)groups;
	owners_start = (uintptr_t)owners;
	stocks_start = (uintptr_t)stocks;
	description.groups = (struct slub_abi_pool)POOL(groups, nr_groups);
	description.owners = (struct slub_abi_pool)POOL(owners, nr_owners);
	description.thread_stocks = (struct slub_abi_pool)POOL(stocks, nr_stocks);
	slub_abi_state.groups = (uintptr_t)&description;
	link_groups();
	make_owned();
}

/* How many of a pool are told: groups, owners, stocks. */
void put_nr(unsigned long pool, uint32_t nr)
{
	uint32_t *const all[] = { &nr_groups, &nr_owners, &nr_stocks };

	*all[pool % 3] = nr;
}

char *made_groups_at(unsigned long n)
{
	(void)n;
	return (char *)&description;
}
