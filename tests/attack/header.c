/* SPDX-License-Identifier: MIT */
/*
 * A linear overflow of n bytes behind a block, into a neighbour that is in use and is freed then:
 * into its size, where the allocator has one in front of blocks.  Or into the own one, in front.
 */
#include "attack.h"

#include <string.h>

#define MORE 96

static bool overflow(size_t size, size_t nr_bytes)
{
	size_t chunk = (size + 8 + 15) / 16 * 16, wrong = (chunk + MORE) | 1;
	struct neighbours pair;
	char bytes[16];

	history(size);
	pair = neighbours_get(size);
	memset(bytes, 'A', sizeof(bytes));
	memcpy(bytes + chunk - 8 - size, &wrong, sizeof(wrong));
	bytes_write(pair.first + size, bytes, nr_bytes);
	block_put(pair.second);
	return gets_wrong(chunk + MORE - 8, 50);
}

static bool by_2(size_t size)
{
	return overflow(size, 2);
}

static bool by_8(size_t size)
{
	return overflow(size, 8);
}

static bool by_16(size_t size)
{
	return overflow(size, 16);
}

static bool under(size_t size)
{
	size_t chunk = (size + 8 + 15) / 16 * 16;
	struct neighbours pair;

	history(size);
	pair = neighbours_get(size);
	word_write(pair.second - 8, (chunk + MORE) | 1);
	block_put(pair.second);
	return gets_wrong(chunk + MORE - 8, 50);
}

const struct attack attacks[] = {
	{ "2", by_2, { 24 }, { 40, 64, 200 }, NULL },
	{ "8", by_8, { 24, 64 }, { 40, 200 }, NULL },
	{ "16", by_16, { 64 }, { 24, 40, 200 }, NULL },
	{ "under", under, { 64 }, { 24, 40, 200 }, NULL },
	{ .name = NULL },
};
