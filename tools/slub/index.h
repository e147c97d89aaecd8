/* SPDX-License-Identifier: MIT */
/* From the hash of something to its number: the caller compares the thing. */
#ifndef SLUB_TOOL_INDEX_H
#define SLUB_TOOL_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct index_entry {
	uint64_t hash;
	size_t number;		/* + 1; 0: nothing is here */
};

struct index {
	struct index_entry *entries;
	size_t size;		/* a power of two, or 0 */
	size_t used;
};

#define INDEX_NONE ((size_t)-1)

/* The numbers entered under @hash, one a call; *@at is 0 at first. */
size_t index_next(const struct index *index, uint64_t hash, size_t *at);
void index_add(struct index *index, uint64_t hash, size_t number);
void index_free(struct index *index);

/* One hash of two numbers, another in each run. */
uint64_t hash_mix(uint64_t hash, uint64_t more);
uint64_t hash_string(const char *text);

#endif
