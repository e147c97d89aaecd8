/* SPDX-License-Identifier: MIT */
/*
 * What the files of slub_leaks_find() share: the search for objects that nothing leads to, in a
 * child with a copy of all memory.
 *
 *   leaks.c       the child, what it answers, and what is told of that
 *   leak_index.c  each object has a bit; those in the lists of the library are free
 *   leak_roots.c  where the program keeps its pointers
 *   leak_mark.c   what can be reached from there, and the rest in order
 *
 * Words
 *   slab     here also a large block, or a guarded object: of one object
 *   object   a slab and a number in it
 *   beneath  what a leak leads to
 *
 * Invariants
 *   LEAK-1  the child allocates nothing by the library and takes no lock: whoever held one has
 *           no thread here;
 *   LEAK-2  what the search itself keeps is no root: neither its memory nor what is shared;
 *   LEAK-3  every bit map has a word of its own for each slab's first object.
 *
 * Tests: tests/debug/leaks*_test.cc, tests/unit/inspect/test_ended.cc.
 * Page: docs/operate/leaks.md.
 */
#ifndef SLUB_INSPECT_LEAK_H
#define SLUB_INSPECT_LEAK_H

#include <string.h>

#include "features/guard/guard.h"
#include "core/slab/slab_internal.h"

#include <slub/leaks.h>

/* So many threads are known by their stack pointers; the stacks of the others are read whole. */
#define LEAK_THREADS_MAX 8192
/* The arguments of a system call. */
#define LEAK_THREAD_WORDS 6

struct leak_found {
	uintptr_t object;
	size_t bytes;
	size_t beneath, beneath_bytes;
	const struct slub_cache *cache;		/* NULL: a large block */
	uint32_t stack;				/* stack_frames(); 0: not known */
	uint32_t is_ring;
};

/* Mapped by parent and child; only what was written has memory. */
struct leak_shared {
	long result;				/* leaks, or -errno */
	uint32_t is_done;			/* atomic: the child has written the rest */
	/* of the parent */
	uint32_t nr_stacks;
	uint32_t nr_words;
	uintptr_t arg;
	uintptr_t stacks[LEAK_THREADS_MAX];	/* stack pointers */
	uintptr_t words[LEAK_THREADS_MAX * LEAK_THREAD_WORDS];
	/* of the child */
	size_t nr_found;
	struct leak_found found[SLUB_LEAKS_VISITED_MAX];
};

struct leak_slab {
	uintptr_t start;		/* of its first object */
	uint64_t magic;			/* 2^64 / size + 1; 0: there is one object */
	const struct slub_cache *cache;
	size_t size;			/* from one object to the next */
	size_t object_size;
	uint32_t nr;
	uint32_t word;			/* the first in each bit map */
	uint32_t stack;			/* of a guarded object: who allocated it */
	bool is_root;			/* the library's own objects */
	bool is_single;			/* a large block, or a guarded object */
	bool is_careful;		/* pages of it may be closed, or were never touched */
};

struct leak_object {
	uint32_t slab;
	uint32_t nr;
};

struct leak_search {
	struct leak_shared *shared;
	uintptr_t heap;
	size_t heap_bytes;
	uint32_t *slab_of_page;		/* its number + 1 */
	struct leak_slab *slabs;
	uint32_t nr_slabs;
	uint32_t guarded[GUARD_POOLS];	/* the number of the first place's */
	/* a bit for each object */
	size_t nr_words;
	uint64_t *allocated, *marked;
	uint64_t *pending;		/* marked, and the stack had no room for it */
	uint64_t *led_to;		/* by another leak */
	struct leak_object *stack;
	size_t nr_stack;
	bool is_pending;		/* is a bit of `pending` set? */
	char *buffer;
	char *memory;			/* all of the above */
	size_t memory_bytes;
	long pagemap;			/* /proc/self/pagemap; below 0: none */
	bool is_blunt;			/* the kernel copies nothing: memory is read as it is */
	/* of the marks since they were set to 0 */
	size_t reached, reached_bytes;
};

#define LEAK_BUFFER_BYTES ((size_t)64 << 10)
#define LEAK_STACK_MAX ((size_t)1 << 20)

/* leak_index.c */
/* All objects, and which of them are allocated; 0 or -ENOMEM. */
int leak_index(struct leak_search *search);
/* The object that @address lies in; false: in none. */
bool leak_find(const struct leak_search *search, uintptr_t address, struct leak_object *found);

/* "slub-" of "slub-cache" */
static inline bool has_prefix(const char *name, const char *prefix)
{
	return name && !strncmp(name, prefix, strlen(prefix));
}

static inline uint64_t *leak_word(const struct leak_search *search, uint64_t *map,
				  struct leak_object object)
{
	return &map[search->slabs[object.slab].word + object.nr / 64];
}

static inline uint64_t leak_bit(struct leak_object object)
{
	return 1ull << object.nr % 64;
}

static inline uintptr_t leak_start(const struct leak_search *search, struct leak_object object)
{
	const struct leak_slab *slab = &search->slabs[object.slab];

	return slab->start + object.nr * slab->size;
}

/* leak_roots.c */
/* In the parent: where the stacks of other threads end, as far as the kernel says. */
void leak_threads(struct leak_shared *shared);
/* Marks what each mapping leads to; @stack: where that of this thread begins.  0 or -errno. */
int leak_roots(struct leak_search *search, uintptr_t stack);
/* What is there of @start to @end goes to @use, a piece of whole words at a time. */
typedef void leak_words_user(struct leak_search *search, const uintptr_t *words, size_t nr);
void leak_read(struct leak_search *search, uintptr_t start, uintptr_t end, bool is_shared,
	       leak_words_user *use);

/* leak_mark.c */
void leak_mark_words(struct leak_search *search, const uintptr_t *words, size_t nr);
/* The library's own objects are roots. */
void leak_mark_own(struct leak_search *search);
/* Until nothing more is marked. */
void leak_mark_rest(struct leak_search *search);
/* All that is not marked, in order; returns how many. */
size_t leak_group(struct leak_search *search);

#endif
