/* SPDX-License-Identifier: MIT */
/*
 * A write to a freed block: its link leads to a free block of another class, a small one, so that
 * the next large one reaches over the small ones behind it.
 */
#include "attack.h"

enum { SMALL = 24, SMALLS = 40 };

static char *freed, *small;

static void prepare(size_t size)
{
	char *smalls[SMALLS];
	struct neighbours pair;

	history(size);
	pair = neighbours_get(size);
	for (int i = 0; i < SMALLS; i++)
		smalls[i] = block_get(SMALL);
	small = smalls[4 + chance(SMALLS - 8)];
	block_put(small);
	free_some(size, pair.first, pair.second);
	freed = pair.second;
	block_put(freed);
}

/* The lowest 2 bytes, which are the same in each process. */
static bool low(size_t size)
{
	uintptr_t word;

	prepare(size);
	word = (uintptr_t)small;
	bytes_write(freed, &word, 2);
	return gets_wrong(size, 200);
}

/* All 8, for the address is known. */
static bool known(size_t size)
{
	prepare(size);
	word_write(freed, plain_link(freed, small));
	return gets_wrong(size, 200);
}

const struct attack attacks[] = {
	{ "low", low, { 64 }, { 40, 128, 200, 512 }, NULL },
	{ "known", known, { 64, 200 }, { 40, 128, 512, 1000 }, NULL },
	{ .name = NULL },
};
