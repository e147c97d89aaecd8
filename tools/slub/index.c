/* SPDX-License-Identifier: MIT */
#include "index.h"
#include "slub.h"

#include <stdlib.h>
#include <sys/random.h>

/* Drawn at the start: a file cannot be made so that all of it falls into one place. */
static uint64_t seed(void)
{
	static uint64_t drawn;

	if (!drawn && getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) < 0)
		drawn = 0;
	drawn |= 1;
	return drawn;
}

/* Each bit of both has its part in each bit of the result (MurmurHash's last step). */
uint64_t hash_mix(uint64_t hash, uint64_t more)
{
	hash ^= more + seed();
	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
	return hash ^ hash >> 33;
}

static size_t place_of(const struct index *index, uint64_t hash, size_t step)
{
	return (size_t)(hash_mix(hash, 0) + step) & (index->size - 1);
}

size_t index_next(const struct index *index, uint64_t hash, size_t *at)
{
	while (*at < index->size) {
		const struct index_entry *entry =
			&index->entries[place_of(index, hash, *at)];

		if (!entry->number)
			break;
		++*at;
		if (entry->hash == hash)
			return entry->number - 1;
	}
	return INDEX_NONE;
}

static void enter(struct index *index, uint64_t hash, size_t number)
{
	size_t step = 0;

	while (index->entries[place_of(index, hash, step)].number)
		step++;
	index->entries[place_of(index, hash, step)] =
		(struct index_entry){ hash, number + 1 };
	index->used++;
}

static void grow(struct index *index)
{
	struct index old = *index;

	index->size = old.size ? 2 * old.size : 64;
	index->used = 0;
	index->entries = must_have(calloc(index->size, sizeof(*index->entries)));
	for (size_t i = 0; i < old.size; i++) {
		if (old.entries[i].number)
			enter(index, old.entries[i].hash,
			      old.entries[i].number - 1);
	}
	free(old.entries);
}

void index_add(struct index *index, uint64_t hash, size_t number)
{
	if (2 * (index->used + 1) > index->size)
		grow(index);
	enter(index, hash, number);
}

void index_free(struct index *index)
{
	free(index->entries);
	*index = (struct index){ NULL, 0, 0 };
}

/* FNV-1a */
uint64_t hash_string(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; text && *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}
