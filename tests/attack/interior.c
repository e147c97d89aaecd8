/* SPDX-License-Identifier: MIT */
/* A free of a pointer into a block that is in use. */
#include "attack.h"

#include <string.h>

static bool at(size_t size, size_t offset)
{
	char *block;

	history(size);
	block = block_some(size, NULL);
	if (size >= 4096)
		memset(block, 'L', size);
	block_put_live(block + offset);
	return gets_wrong(size, 300);
}

static bool at_8(size_t size)
{
	return at(size, 8);
}

static bool at_16(size_t size)
{
	return at(size, 16);
}

static bool middle(size_t size)
{
	return at(size, size / 2 / 16 * 16);
}

/* What lies in the block is the attacker's: a header as it is in front of each block. */
static bool forged(size_t size)
{
	size_t chunk = (size + 8 + 15) / 16 * 16;
	char *block;

	history(size);
	block = block_some(size, NULL);
	word_write(block + 8, chunk | 1);
	block_put_live(block + 16);
	return gets_wrong(size, 300);
}

/* ... and 16 bytes were read behind it before; the block behind is the attacker's as well. */
static bool read_behind(size_t size)
{
	struct neighbours pair;
	uint64_t secret;
	size_t tail;

	if (dialect != SLUB_HARDENED)
		return forged(size);
	history(size);
	late_get(size);
	pair = neighbours_get(size);
	tail = pair.distance - sizeof(uint64_t);
	secret = hardened_tail_secret(word_at(pair.first + tail), pair.first,
				      size);
	/* The tail of what would lie in front, and its own. */
	word_write(pair.first + 8,
		   hardened_tail(secret, pair.first + 16 - pair.distance,
				 tail));
	word_write(pair.second + 8,
		   hardened_tail(secret, pair.first + 16, tail));
	block_put_live(pair.first + 16);
	late_put();
	return gets_wrong(size, 2000);
}

const struct attack attacks[] = {
	{ "8", at_8, { 64 }, { 24, 200, 1000, 5000, 40000 }, NULL },
	{ "16", at_16, { 24, 48, 100, 1000 }, { 64, 200, 500, 2000, 5000, 40000 }, NULL },
	{ "middle", middle, { 64, 5000, 40000 }, { 100, 200, 1000, 200000 }, NULL },
	{ "forged", forged, { 64, 200 }, { 24, 48, 100, 500, 1000, 5000 }, NULL },
	{ "read", read_behind, { 64 }, { 24, 100, 200, 500, 1000 }, NULL },
	{ .name = NULL },
};
