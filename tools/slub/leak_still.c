/* SPDX-License-Identifier: MIT */
/*
 * What is lost does not change, for nobody can write to it.  An object that a busy thread frees and
 * allocates again and again may be in its registers alone at both looks, and so be called a leak;
 * but its bytes change between them.
 */
#include "leak.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define OBJECTS_MAX 8192u
#define BYTES_MAX 64u
#define GLANCES 32u

struct leak_still {
	uint64_t *objects;		/* numbers */
	uint64_t *hashes;		/* of their first bytes */
	size_t nr;
};

static uint64_t hash_of(struct leaks *leaks, uint64_t object)
{
	uint64_t words[BYTES_MAX / 8] = { 0 }, bytes, hash = 0;
	uint64_t address = leak_object_at(leaks, object, &bytes);

	if (!leak_copy(leaks, address, words, bytes < BYTES_MAX ? (size_t)bytes : BYTES_MAX))
		return 0;
	for (size_t i = 0; i < BYTES_MAX / 8; i++)
		hash = hash_mix(hash, words[i]);
	return hash | 1;
}

static void add_block(struct leaks *leaks, struct leak_still *still, size_t number)
{
	uint64_t bits = leaks->blocks[number].suspect;

	for (; bits && still->nr < OBJECTS_MAX; bits &= bits - 1) {
		uint64_t object = number * LEAK_BLOCK_OBJECTS + (uint64_t)__builtin_ctzll(bits);

		still->objects[still->nr] = object;
		still->hashes[still->nr++] = hash_of(leaks, object);
	}
}

struct leak_still *leak_still_open(struct leaks *leaks)
{
	struct leak_still *still = must_have(calloc(1, sizeof(*still)));

	still->objects = must_have(calloc(OBJECTS_MAX, sizeof(*still->objects)));
	still->hashes = must_have(calloc(OBJECTS_MAX, sizeof(*still->hashes)));
	for (size_t i = 0; i < leaks->nr_blocks; i++)
		add_block(leaks, still, i);
	return still;
}

void leak_still_look(struct leaks *leaks, struct leak_still *still)
{
	for (size_t i = 0; i < still->nr && !leaks->error; i++) {
		uint64_t object = still->objects[i];
		struct leak_block *block = leak_block_of(leaks, object);

		if (block->suspect & leak_bit(object) &&
		    hash_of(leaks, object) != still->hashes[i])
			block->suspect &= ~leak_bit(object);
	}
}

void leak_still_wait(struct leaks *leaks, struct leak_still *still, unsigned int ms)
{
	uint64_t ns = (uint64_t)ms * 1000000 / GLANCES;

	for (unsigned int i = 0; i < GLANCES; i++) {
		struct timespec left = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

		while (nanosleep(&left, &left) && errno == EINTR)
			;
		leak_still_look(leaks, still);
	}
}

void leak_still_close(struct leak_still *still)
{
	free(still->objects);
	free(still->hashes);
	free(still);
}
