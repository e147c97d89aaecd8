/* SPDX-License-Identifier: MIT */
/*
 * index.c again, as a list: what is looked up by a hash is the same whatever the hash.  Here all
 * things may have one, and the numbers that a hash was made of are kept.
 */
#ifndef TOOL_ONE_HASH_H
#define TOOL_ONE_HASH_H

#include <stdbool.h>
#include <stdlib.h>

#include "index.h"

static bool has_one_hash;
static uint64_t mixed[64];
static size_t nr_mixed;

uint64_t hash_mix(uint64_t hash, uint64_t more)
{
	mixed[nr_mixed++ % 64] = more;
	return has_one_hash ? 1 : (hash + more) * 0xff51afd7ed558ccdu;
}

size_t index_next(const struct index *index, uint64_t hash, size_t *at)
{
	while (*at < index->used) {
		if (index->entries[(*at)++].hash == hash)
			return index->entries[*at - 1].number;
	}
	return INDEX_NONE;
}

void index_add(struct index *index, uint64_t hash, size_t number)
{
	index->entries = realloc(index->entries, (index->used + 1) * sizeof(*index->entries));
	index->entries[index->used++] = (struct index_entry){ hash, number };
}

void index_free(struct index *index)
{
	free(index->entries);
	*index = (struct index){ .size = 0 };
}

#endif
