/* SPDX-License-Identifier: MIT */
/* A second free of a block: will two parts of the program get it at once? */
#include "attack.h"

#include <malloc.h>

enum { CACHED = 7 };	/* glibc: blocks of a size that a thread keeps where second frees show */

static bool plain(size_t size)
{
	char *block;

	history(size);
	block = block_some(size, NULL);
	block_put(block);
	block_put_live(block);
	return gets_wrong(size, 200);
}

/* Another block is freed between the two. */
static bool between(size_t size)
{
	char *block, *other;

	history(size);
	block = block_some(size, NULL);
	other = block_some(size, block);
	block_put(block);
	block_put(other);
	block_put_live(block);
	return gets_wrong(size, 200);
}

/* ... and seven in front of them. */
static bool filled(size_t size)
{
	char *block, *other, *some[CACHED];

	history(size);
	for (int i = 0; i < CACHED; i++)
		some[i] = block_get(size);
	block = block_get(size);
	other = block_get(size);
	for (int i = 0; i < CACHED; i++)
		block_put(some[i]);
	block_put(block);
	block_put(other);
	block_put_live(block);
	return gets_wrong(size, 200);
}

/* Its second word was written to between the two, through the old pointer. */
static bool cleared(size_t size)
{
	char *block;

	history(size);
	block = block_some(size, NULL);
	block_put(block);
	word_write(block + 8, 0);
	block_put_live(block);
	return gets_wrong(size, 200);
}

/* Both words. */
static bool both(size_t size)
{
	char *block;

	history(size);
	block = block_some(size, NULL);
	block_put(block);
	word_write(block, 0);
	word_write(block + 8, 0);
	block_put_live(block);
	return gets_wrong(size, 200);
}

/* Both words, and what is free goes back from the lists before the second free, and behind it. */
static bool trimmed(size_t size)
{
	char *block;

	history(size);
	block = block_some(size, NULL);
	block_put(block);
	malloc_trim(0);
	word_write(block, 0);
	word_write(block + 8, 0);
	block_put_live(block);
	if (chance(2))
		malloc_trim(0);
	return gets_wrong(size, 200);
}

/* Both words; the block is free twice behind another one, so its link names it. */
static bool behind(size_t size)
{
	char *block, *other;

	history(size);
	block = block_some(size, NULL);
	other = block_some(size, block);
	block_put(block);
	word_write(block, 0);
	word_write(block + 8, 0);
	block_put_live(block);
	block_put(other);
	return gets_wrong(size, 200);
}

/* The program has got it again, so that it is in use when it is freed the second time. */
static bool reused(size_t size)
{
	char *block, *again = NULL;

	history(size);
	late_get(size);
	block = block_some(size, NULL);
	block_put(block);
	late_put();
	for (int i = 0; i < 2000 && again != block; i++)
		again = block_get(size);
	if (again != block)
		return false;
	late_get(size);
	block_put_live(block);
	late_put();
	return gets_wrong(size, 200);
}

const struct attack attacks[] = {
	{ "plain", plain, { 24, 5000 }, { 16, 64, 200, 1000, 40000, 200000 }, NULL },
	{ "between", between, { 64, 1000 }, { 16, 24, 200, 5000, 40000 }, NULL },
	{ "filled", filled, { 24, 64 }, { 100, 200, 1000, 5000, 40000 }, NULL },
	{ "cleared", cleared, { 24, 64, 1000 }, { 16, 200, 500, 5000 }, NULL },
	{ "both", both, { 64 }, { 16, 24, 200, 1000, 5000 }, NULL },
	{ "trimmed", trimmed, { 64, 1000 }, { 24, 200, 3000, 5000 }, NULL },
	{ "behind", behind, { 64 }, { 24, 1000, 5000 }, NULL },
	{ "reused", reused, { 64, 5000 }, { 16, 24, 200, 1000, 40000 }, NULL },
	{ .name = NULL },
};
