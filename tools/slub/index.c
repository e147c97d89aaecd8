/* SPDX-License-Identifier: MIT */
#include "index.h"
#include "slub.h"

#include <stdlib.h>

static size_t place_of(const struct index *index, uint64_t hash, size_t step)
{
	return (size_t)((hash * 0x9e3779b97f4a7c15u >> 20) + step) &
	       (index->size - 1);
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
	index->entries = calloc(index->size, sizeof(*index->entries));
	if (!index->entries) {
		complain("out of memory");
		exit(125);
	}
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
