/* SPDX-License-Identifier: MIT */
/* A write to a block after its free: of n bytes at an offset. */
#include "attack.h"

#include <string.h>

#define HEAP_ALIGN ((uintptr_t)2 << 20)

static char *freed(size_t size)
{
	struct neighbours pair;

	history(size);
	pair = neighbours_get(size);
	free_some(size, pair.first, pair.second);
	block_put(pair.second);
	return pair.second;
}

/* 8 bytes at 0: the address of the attacker's buffer. */
static bool address(size_t size)
{
	char *block = freed(size);

	word_write(block, (uintptr_t)buffer);
	return gets_wrong(size, 200);
}

/* The lowest 2 bytes of a live block's address. */
static bool low(size_t size)
{
	char *block = freed(size);
	uintptr_t live = (uintptr_t)block_some(size, NULL);

	bytes_write(block, &live, 2);
	return gets_wrong(size, 200);
}

/* 8 bytes at 0: a live block's address, the one address of the heap that is known. */
static bool live(size_t size)
{
	char *block = freed(size), *victim = block_some(size, NULL);

	/* The block may well be on the same page. */
	word_write(block, plain_link(victim, victim));
	return gets_wrong(size, 200);
}

/*
 * The block's address is known, and 16 bytes are written: a link to the attacker's buffer, and
 * what makes it one, if that lies at a fixed distance from the heap.
 */
static bool known(size_t size)
{
	char *block = freed(size);
	uintptr_t key = copies[0][0] + ((uintptr_t)block & -HEAP_ALIGN);
	uintptr_t words[2] = { plain_link(block, buffer), key };

	if (dialect == SLUB) {
		word_write(buffer + 8, key);
		bytes_write(block, words, 16);
	} else {
		bytes_write(block, words, 8);
	}
	return gets_wrong(size, 200);
}

static void known_tell(size_t size, uintptr_t words[WORDS])
{
	char *block = freed(size);

	words[0] = word_at(block + 8) - ((uintptr_t)block & -HEAP_ALIGN);
}

/*
 * As live(), when so much was freed that the block has left the list that malloc takes from first.
 * With glibc it is in a list of chunks then: a chunk begins 16 bytes in front of its block.
 */
static bool deep(size_t size)
{
	enum { FREED = 600 };
	static char *some[FREED];
	char *block, *victim;
	uintptr_t at, word;

	history(size);
	for (int i = 0; i < FREED; i++)
		some[i] = block_get(size);
	victim = block_get(size);
	for (int i = 0; i < FREED; i++)
		block_put(some[i]);
	block = some[FREED / 2 + chance(40)];
	at = (uintptr_t)block;
	word = dialect == GLIBC ? glibc_link(at, (uintptr_t)victim - 16) :
				  (uintptr_t)victim;
	word_write(block, word);
	return gets_wrong(size, 2 * FREED);
}

/* 8 bytes at 8. */
static bool second(size_t size)
{
	char *block = freed(size);

	word_write(block + 8, (uintptr_t)buffer);
	return gets_wrong(size, 200);
}

/* The whole block is cleared. */
static bool cleared(size_t size)
{
	char *block = freed(size);

	memset(block, 0, size);
	return gets_wrong(size, 200);
}

const struct attack attacks[] = {
	{ "address", address, { 24, 64, 1000 }, { 16, 200, 512, 4096, 40000 }, NULL },
	{ "low", low, { 64 }, { 16, 24, 200, 512, 1000, 4096 }, NULL },
	{ "live", live, { 64, 200 }, { 16, 24, 512, 1000, 4096 }, NULL },
	{ "deep", deep, { 64, 200 }, { 16, 24, 512, 1000, 4096 }, NULL },
	{ "known", known, { 64 }, { 16, 24, 200, 512, 1000 }, known_tell },
	{ "second", second, { 64 }, { 16, 24, 200, 512, 1000, 4096 }, NULL },
	{ "cleared", cleared, { 64 }, { 16, 24, 200, 512, 1000, 4096, 40000 }, NULL },
	{ .name = NULL },
};
