/* SPDX-License-Identifier: MIT */
/*
 * A linear overflow of n bytes behind a block, into a free neighbour: into its link, where it has
 * one in itself.
 */
#include "attack.h"

static bool overflow(size_t size, struct neighbours pair, const void *bytes, size_t nr_bytes)
{
	free_some(size, pair.first, pair.second);
	block_put(pair.second);
	bytes_write(pair.first + size, bytes, nr_bytes);
	return gets_wrong(size, 200);
}

static bool with_bytes(size_t size, const void *bytes, size_t nr_bytes)
{
	history(size);
	return overflow(size, neighbours_get(size), bytes, nr_bytes);
}

/* The end of a string. */
static bool zero(size_t size)
{
	return with_bytes(size, "", 1);
}

static bool zeros(size_t size)
{
	return with_bytes(size, "\0", 2);
}

/* Where the heap lies is drawn; where a block lies in it is not, and so its lowest bytes. */
static bool low(size_t size)
{
	struct neighbours pair;
	uintptr_t live;

	history(size);
	pair = neighbours_get(size);
	live = (uintptr_t)block_some(size, pair.first);
	return overflow(size, pair, &live, 2);
}

/* The address of the attacker's buffer: the program lies where he knows. */
static bool address(size_t size)
{
	uintptr_t word = (uintptr_t)buffer;

	return with_bytes(size, &word, sizeof(word));
}

static bool address_and_more(size_t size)
{
	uintptr_t words[2] = { (uintptr_t)buffer };

	return with_bytes(size, words, sizeof(words));
}

/* One address of the heap is known: that of a live block. */
static bool live(size_t size)
{
	struct neighbours pair;
	uintptr_t word;

	history(size);
	pair = neighbours_get(size);
	word = (uintptr_t)block_some(size, pair.first);
	return overflow(size, pair, &word, sizeof(word));
}

/* As far as the link lies, with what lies before it as it was, and the neighbour's address. */
static bool link(size_t size)
{
	struct neighbours pair;
	uintptr_t words[3];
	size_t skip = 0;

	history(size);
	pair = neighbours_get(size);
	if (dialect == GLIBC) {
		skip = pair.distance - size;
		words[skip / 8 - 1] = pair.distance | 1;
	}
	words[skip / 8] = plain_link(pair.second, buffer);
	return overflow(size, pair, words, skip + sizeof(*words));
}

const struct attack attacks[] = {
	{ "zero", zero, { 24, 32, 64, 128, 512 }, { 16, 40, 200, 1000, 4096, 40000 }, NULL },
	{ "zeros", zeros, { 64, 512 }, { 16, 24, 32, 128, 1000, 4096, 40000 }, NULL },
	{ "low", low, { 64, 512 }, { 16, 24, 32, 128, 1000, 4096 }, NULL },
	{ "address", address, { 64 }, { 16, 24, 32, 128, 512, 1000 }, NULL },
	{ "address-16", address_and_more, { 64 }, { 16, 24, 32, 128, 512, 1000 }, NULL },
	{ "live", live, { 32, 64 }, { 16, 24, 128, 512, 1000 }, NULL },
	{ "link", link, { 24, 64 }, { 40, 128, 512, 1000 }, NULL },
	{ .name = NULL },
};
