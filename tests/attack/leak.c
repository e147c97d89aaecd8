/* SPDX-License-Identifier: MIT */
/* One address was leaked: which others does it tell? */
#include "attack.h"

#include <stdio.h>

#define HEAP_ALIGN ((uintptr_t)2 << 20)

/* ---- of a library: where does the heap lie? ---- */

static void library_tell(size_t size, uintptr_t words[WORDS])
{
	words[0] = (uintptr_t)object_alloc(size);
	words[1] = (uintptr_t)puts & -(uintptr_t)4096;
}

/*
 * At a distance from it that copies had, or from a fixed part of its address, where libslub had
 * its heap once: each copy makes a guess or two.
 */
static bool library(size_t size)
{
	uintptr_t words[WORDS];

	(void)size;
	if (!copy_ask(words))
		return false;
	for (int i = 0; i < nr_copies; i++) {
		uintptr_t heap = copies[i][0], of = copies[i][1];
		uintptr_t nine = words[1] / 16 * 9 - of / 16 * 9 + heap;

		if (heap - of == words[0] - words[1] ||
		    ((nine ^ words[0]) & -HEAP_ALIGN) == 0)
			return true;
	}
	return false;
}

/* ---- of a block: where will the next one lie? ---- */

static void heap_tell(size_t size, uintptr_t words[WORDS])
{
	history(size);
	words[0] = (uintptr_t)object_alloc(size);
	words[1] = (uintptr_t)object_alloc(size);
}

/* A copy with the same history has the same distance. */
static bool heap(size_t size)
{
	uintptr_t own[WORDS], other[WORDS];

	(void)size;
	return copy_ask(own) && copy_ask(other) &&
	       own[1] - own[0] == other[1] - other[0];
}

/* ---- what new blocks have in them ---- */

static bool is_near(uintptr_t word, const char *block)
{
	return word - ((uintptr_t)block & -HEAP_ALIGN) < HEAP_ALIGN;
}

/* The first two words of new blocks, which a program sends out uncleared. */
static bool fresh(size_t size)
{
	enum { BLOCKS = 20 };
	char *some[BLOCKS];
	int nr = 0;

	history(size);
	for (int i = 0; i < BLOCKS; i++)
		some[i] = object_alloc(size);
	for (int i = 0; i < BLOCKS; i++)
		object_free(some[(i * 7 + layout) % BLOCKS]);
	for (int i = 0; i < BLOCKS; i++) {
		char *block = object_alloc(size);
		uintptr_t words[2] = { word_at(block), word_at(block + 8) };

		if (dialect == GLIBC)
			words[0] = glibc_link_at(words[0], 0);
		nr += is_near(words[0], block) || is_near(words[1], block);
	}
	return nr > 0;
}

const struct attack attacks[] = {
	{ "library", library, { 64 }, { 24, 1000, 40000 }, library_tell },
	{ "heap", heap, { 64 }, { 24, 200, 1000, 5000, 40000 }, heap_tell },
	{ "fresh", fresh, { 64 }, { 24, 48, 200, 1000 }, NULL },
	{ .name = NULL },
};
