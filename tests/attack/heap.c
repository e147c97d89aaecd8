/* SPDX-License-Identifier: MIT */
/* What the attacked program has in its heap, and when malloc hands out what it must not. */
#include "attack.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4096, NEIGHBOURS = 32, LATE = 64, LARGE = 32768 };

struct block {
	char *at;
	size_t size;
};

unsigned int layout;
char buffer[1 << 16] __attribute__((aligned(4096)));

static struct block blocks[BLOCKS];
static int nr_blocks;

void *(*object_alloc)(size_t size) = malloc;
void (*object_free)(void *object) = free;

unsigned int chance(unsigned int limit)
{
	static uint64_t state;

	if (!state)
		state = layout * 0x9e3779b97f4a7c15ull + 1;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)(state >> 33) % limit;
}

static bool is_loaded(const void *at)
{
	Dl_info info;

	return dladdr(at, &info);
}

static bool is_wrong(const char *block, size_t size)
{
	for (int i = 0; i < nr_blocks; i++)
		if (block < blocks[i].at + blocks[i].size &&
		    blocks[i].at < block + size)
			return true;
	return is_loaded(block);
}

static void block_enter(char *at, size_t size)
{
	if (nr_blocks < BLOCKS)
		blocks[nr_blocks++] = (struct block){ at, size };
}

static void block_forget(const char *at)
{
	for (int i = 0; i < nr_blocks; i++)
		if (blocks[i].at == at) {
			blocks[i] = blocks[--nr_blocks];
			return;
		}
}

/* As in programs, the first word is a null pointer, a pointer to such a block, or text. */
char *block_get(size_t size)
{
	char *block = object_alloc(size), *other;

	if (!block)
		exit(3);
	memset(block, 'L', size < 256 ? size : 256);
	other = block_some(size, block);
	if (size >= sizeof(other) && chance(3)) {
		if (chance(2))
			other = NULL;
		memcpy(block, &other, sizeof(other));
	}
	block_enter(block, size);
	return block;
}

void block_put(char *block)
{
	block_forget(block);
	object_free(block);
}

void block_put_live(char *block)
{
	object_free(block);
}

char *block_some(size_t size, const char *not)
{
	int from = nr_blocks ? (int)chance((unsigned int)nr_blocks) : 0;

	for (int i = 0; i < nr_blocks; i++) {
		struct block *block = &blocks[(from + i) % nr_blocks];

		if (block->size == size && block->at != not)
			return block->at;
	}
	return NULL;
}

void free_some(size_t size, const char *not, const char *nor)
{
	for (int nr = 1 + (int)chance(4); nr > 0; nr--) {
		char *block = block_some(size, not);

		if (block && block != nor)
			block_put(block);
	}
}

void history(size_t size)
{
	static const size_t others[] = { 16, 24, 40, 64, 100, 200, 500, 1000 };
	int nr = 20 + (int)chance(60);

	while (nr-- > 0) {
		size_t one = chance(2) && size <= LARGE ?
				     size : others[chance(8)];

		block_get(one);
		if (!chance(3))
			block_put(blocks[chance((unsigned int)nr_blocks)].at);
	}
	/* What is free now may be anywhere; the blocks of the attack lie together. */
	for (nr = size <= LARGE ? 12 : 2; nr > 0; nr--)
		block_get(size);
}

struct neighbours neighbours_get(size_t size)
{
	int nr = size <= LARGE / 4 ? NEIGHBOURS : 4, nr_found = 0;
	struct neighbours found = { NULL, NULL, SIZE_MAX };
	char *some[NEIGHBOURS];

	for (int i = 0; i < nr; i++)
		some[i] = block_get(size);
	for (int i = 0; i < nr * nr; i++) {
		char *first = some[i / nr], *second = some[i % nr];
		size_t distance = (size_t)(second - first);

		if (first >= second || distance > found.distance)
			continue;
		nr_found = distance < found.distance ? 1 : nr_found + 1;
		if (!chance((unsigned int)nr_found) || nr_found == 1)
			found = (struct neighbours){ first, second, distance };
	}
	return found;
}

static char *late[LATE];

void late_get(size_t size)
{
	for (int i = 0; i < LATE; i++)
		late[i] = object_alloc(size);
}

void late_put(void)
{
	for (int i = 0; i < LATE; i++)
		object_free(late[i]);
}

bool gets_wrong(size_t size, int nr)
{
	while (nr-- > 0) {
		char *block = object_alloc(size);

		if (!block)
			return false;
		if (is_wrong(block, size))
			return true;
		block_enter(block, size);
	}
	return false;
}

uintptr_t word_at(const void *at)
{
	return __atomic_load_n((const uintptr_t *)at, __ATOMIC_RELAXED);
}

void word_write(void *at, uintptr_t word)
{
	bytes_write(at, &word, sizeof(word));
}

void bytes_write(void *at, const void *bytes, size_t nr_bytes)
{
	for (size_t i = 0; i < nr_bytes; i++)
		((volatile char *)at)[i] = ((const char *)bytes)[i];
}
