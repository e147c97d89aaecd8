/* SPDX-License-Identifier: MIT */
/*
 * What the files of `slub leaks` share: the search for objects that nothing leads to.
 *
 *   index   each object of the heap has a number: leak_index.c
 *   free    what lies free in lists is no object: leak_free.c
 *   roots   where a program keeps its pointers: leak_roots.c, leak_threads.c
 *   mark    what can be reached from there, in one pass over the heap: leak_mark.c
 *   chains  long lists, walked from many places at once: leak_chain.c
 *   groups  what cannot, put in order: leak_group.c
 *
 * An object's number is 64 * the number of its block + its place there.  A block has 64 objects of
 * one slab, or what there is, and lies in one line of the processor's cache: the way from an object
 * to the next is two misses, that of the block and that of its edges.
 */
#ifndef SLUB_TOOL_LEAK_H
#define SLUB_TOOL_LEAK_H

#include "guard.h"
#include "heap.h"
#include "index.h"
#include "profile.h"
#include "snapshot.h"
#include "source.h"
#include "trace.h"

#define LEAK_BLOCK_OBJECTS 64u
#define LEAK_NONE UINT64_MAX
#define LEAK_VIEWS_MAX 3

struct leak_block {
	uint64_t allocated;
	uint64_t marked;
	/* how many edges are known, 0 to 3; what an object points to that was marked has none */
	uint64_t one, two;
	uint64_t unknown;		/* edges are to be read from memory */
	uint64_t pending;		/* ... now, for the object is marked */
	uint64_t suspect;		/* was found unreachable before; at last: is a leak */
	uint32_t edge;			/* number of the first */
	uint32_t slab;
};

/* Objects that are none of a cache's. */
#define LEAK_LARGE (-1)
#define LEAK_GUARDED (-2)

struct leak_slab {
	uint64_t address;
	uint32_t block;			/* the first */
	int32_t cache;			/* index in the snapshot, or one of these */
	uint32_t pages;			/* of a large block; LEAK_GUARDED: its place */
	uint32_t next;			/* in the queue, number + 1; LEAK_LAST; 0: not in it */
};

#define LEAK_LAST UINT32_MAX

/* How the objects of a cache lie in a slab. */
struct leak_shape {
	uint64_t left;			/* before the first one */
	uint64_t size, object_size;
	uint64_t magic;			/* 2^64 / size + 1 */
	uint64_t nr;
	uint64_t link;			/* as of SLUB_ABI_CACHE_LINK */
	bool is_library;		/* the library's own: all of them are roots */
	bool is_malloc;			/* free ones have a check word */
};

/* Words that hold an address in another form: (word & mask) >> right << left. */
struct leak_view {
	uint64_t mask;
	unsigned int right, left;
};

struct leak_options {
	struct leak_view views[LEAK_VIEWS_MAX];
	unsigned int nr_views;
	bool stop;
	unsigned int interval_ms;
};

struct leak_range {
	uint64_t start, end;
	bool is_code;			/* made by the program: addresses lie at any byte */
};

/* What leads to objects, beside other objects. */
struct leak_roots {
	struct leak_range *ranges;
	size_t nr;
	uint64_t *words;		/* registers */
	size_t nr_words;
	uint64_t *stacks;		/* stack pointers */
	size_t nr_stacks;
	size_t nr_threads, nr_blind;	/* all; those without registers */
};

/* Threads that are held by ptrace(2). */
struct leak_stop {
	pid_t *threads;
	int *signals;			/* that they are owed */
	size_t nr;
	uint64_t began_ns;
};

struct leaks {
	struct source *source;
	const struct process *process;
	struct leak_options options;
	struct snapshot snapshot;
	struct guard guard;
	struct slub_abi_book book;	/* place is 0: nothing is known of it */
	uint64_t heap_start, heap_bytes;
	uint64_t guard_start, guard_bytes;	/* all pools */
	unsigned int page_shift;
	uint32_t *slab_of_page;		/* number + 1 */
	uint32_t *slab_of_place;	/* of the first pool; likewise */
	struct leak_shape *shapes;	/* by index of the cache */
	uint64_t smallest;		/* size of all of them */
	struct leak_slab *slabs;
	size_t nr_slabs, room_slabs;
	struct leak_block *blocks;
	size_t nr_blocks, room_blocks;
	struct leak_range *strangers;	/* the second time: what was not there before */
	size_t nr_strangers;
	uint64_t heap_used;		/* bytes of slabs and blocks */
	/* edges, of `width` bits each */
	uint64_t *edges;
	uint64_t nr_edges, edges_max;
	size_t edges_bytes;
	unsigned int width;
	/* by block: a first object that its first object leads to, that block + 1; or NULL */
	uint32_t *chains;
	/* ... and the object behind those that were walked from it, + 1; or LEAK_WAY_OVER */
	uint32_t *ways;
	/* the mark stack; what it has no room for is pending */
	uint64_t *stack;
	size_t nr_stack;
	uint32_t queue_first, queue_last;	/* slabs with pending objects, + 1 */
	uint64_t swept;			/* objects below were read in this pass */
	uint64_t key;			/* of the check words */
	unsigned int key_votes;
	char *buffer;			/* a slab, or a part of the rest */
	int error;			/* -ESRCH: it ended */
	uint64_t objects, bytes;	/* allocated */
	struct leak_roots roots;
	uint64_t stopped_ns;		/* 0: it was not */
	unsigned int looks;		/* of a process that runs */
	/* while is_counting: objects that were marked */
	bool is_counting;
	uint64_t reached, reached_bytes;
	uint32_t copied;		/* the slab that the buffer has, + 1; for leak_edges() */
};

#define LEAK_BUFFER_BYTES (1u << 20)

/* ---- leak_index.c ---- */
/* All objects; those in no list are allocated.  @again: of the slabs that were there before. */
void leak_index_make(struct leaks *leaks, bool again);
void leak_index_free(struct leaks *leaks);
/* Zeros, in huge pages where there are some; what is never written takes no memory. */
void *leak_reserve(size_t bytes);
/* The number of the object that @address is in; LEAK_NONE: it is in none. */
uint64_t leak_object_in(const struct leaks *leaks, uint64_t address);
/* Where object number @object begins; *@bytes: its size. */
uint64_t leak_object_at(const struct leaks *leaks, uint64_t object, uint64_t *bytes);
/* How many objects there is room for in a slab. */
uint64_t leak_slab_nr(const struct leaks *leaks, const struct leak_slab *slab);

static inline struct leak_block *leak_block_of(const struct leaks *leaks, uint64_t object)
{
	return &leaks->blocks[object / LEAK_BLOCK_OBJECTS];
}

static inline uint64_t leak_bit(uint64_t object)
{
	return 1ull << object % LEAK_BLOCK_OBJECTS;
}

/* ---- leak_free.c ---- */
/* In the lists of @piece, a slab of shape @shape. */
void leak_free_of_slab(struct leaks *leaks, const struct piece *piece,
		       const struct leak_slab *slab);
/* In the lists of the CPUs, and in their barns. */
void leak_free_of_cpus(struct leaks *leaks);
/* Does the check word of an object of malloc's, whose copy is at @words, say that it is free? */
static inline bool leak_is_free(const struct leaks *leaks, const struct leak_shape *shape,
				uint64_t address, const uint64_t *words)
{
	return shape->is_malloc && !shape->link && leaks->key_votes &&
	       (words[0] ^ words[1] ^ address) == leaks->key;
}

/* ---- leak_read.c ---- */
typedef void leak_visitor(struct leaks *leaks, const uint64_t *words, size_t nr);
/* Calls @visit for the words of so much memory as is there. */
void leak_read(struct leaks *leaks, struct leak_range range, leak_visitor *visit);
/* All of it, to @to; false: it is not there. */
bool leak_copy(struct leaks *leaks, uint64_t address, void *to, size_t bytes);

/* @nr pieces, to the buffer, behind one another; how many there are before one that is not. */
struct iovec;
size_t leak_copy_pieces(struct leaks *leaks, const struct iovec *pieces, size_t nr);

/* ---- leak_threads.c ---- */
/* Holds all threads.  0, or an exit status after a message. */
int leak_stop(struct leaks *leaks, struct leak_stop *stop);
void leak_go_on(struct leaks *leaks, struct leak_stop *stop);
/* Registers and stack pointers; @stop: NULL, or of the threads that are held. */
void leak_threads_read(struct leaks *leaks, const struct leak_stop *stop);

/* Is it a core of another kind of machine, whose registers are others? */
bool leak_is_foreign(const struct process *process);

/* ---- leak_roots.c ---- */
void leak_roots_find(struct leaks *leaks, const struct leak_stop *stop);
void leak_roots_free(struct leak_roots *roots);

/* ---- edges, packed ---- */
#define LEAK_EDGES_MAX 3

static inline uint64_t leak_edge_get(const struct leaks *leaks, uint64_t number)
{
	uint64_t bit = number * leaks->width;
	const uint64_t *word = &leaks->edges[bit / 64];
	uint64_t target;

	bit %= 64;
	target = word[0] >> bit;
	if (bit + leaks->width > 64)
		target |= word[1] << (64 - bit);
	return target & ((1ull << leaks->width) - 1);
}

/* The number of the first edge of an object; *@nr: how many there are. */
static inline uint64_t leak_edges_of(const struct leak_block *block, uint64_t bit,
				     unsigned int *nr)
{
	uint64_t below = bit - 1;

	*nr = (block->one & bit ? 1 : 0) + (block->two & bit ? 2 : 0);
	return block->edge + (uint64_t)__builtin_popcountll(block->one & below) +
	       2 * (uint64_t)__builtin_popcountll(block->two & below);
}

/* ---- leak_chain.c ---- */
/* What that takes of memory for each block. */
#define LEAK_CHAIN_BYTES 20u
#define LEAK_WAY_OVER UINT32_MAX
void leak_chains_walk(struct leaks *leaks);
/* Once nothing more is marked: what was walked and not reached is open again. */
void leak_chains_settle(struct leaks *leaks);
void leak_chains_free(struct leaks *leaks);

/* ---- leak_mark.c ---- */
/* Marks what the roots lead to. */
void leak_mark(struct leaks *leaks);
void leak_mark_object(struct leaks *leaks, uint64_t object);
/* @object is marked: what it leads to is to be. */
void leak_mark_follow(struct leaks *leaks, uint64_t object);
void leak_mark_words(struct leaks *leaks, const uint64_t *words, size_t nr);
/* Objects but @self that the @nr words lead to, up to LEAK_EDGES_MAX + 1; how many. */
unsigned int leak_targets(const struct leaks *leaks, uint64_t self, const uint64_t *words,
			  size_t nr, uint64_t targets[LEAK_EDGES_MAX + 1]);
/* Until nothing more is marked. */
void leak_mark_rest(struct leaks *leaks);
/*
 * Calls @visit for each object that @object points to and that was not marked when it was read;
 * one after the other in the order of their numbers, for it keeps a copy.
 */
typedef void leak_edge_visitor(struct leaks *leaks, uint64_t target, void *arg);
void leak_edges(struct leaks *leaks, uint64_t object, leak_edge_visitor *visit, void *arg);

/* ---- leak_still.c: the first 8,192 of what was not found by the first look ---- */
struct leak_still *leak_still_open(struct leaks *leaks);
/* Those that have changed since are no leaks. */
void leak_still_look(struct leaks *leaks, struct leak_still *still);
/* The same now and then, for so long. */
void leak_still_wait(struct leaks *leaks, struct leak_still *still, unsigned int ms);
void leak_still_close(struct leak_still *still);

/* ---- leak_find.c ---- */
/*
 * Searches; what was found is `suspect` in its block.  0, or an exit status after a message.
 */
int leaks_find(struct leaks *leaks, struct source *source, const struct leak_options *options);
void leaks_free(struct leaks *leaks);

/* ---- leak_group.c ---- */
#define LEAK_EXAMPLES 8

/* Leaks of one cache and one stack: those that no other leads to, and what hangs from them. */
struct leak_group {
	int32_t cache;			/* or LEAK_LARGE, and the size is `size` */
	uint64_t size;
	uint64_t stack;			/* what tells it from others; 0: not known */
	uint64_t frames[TRACE_FRAMES_MAX];
	uint32_t nr_frames;
	uint64_t nr, bytes;		/* direct */
	uint64_t nr_beneath, bytes_beneath;
	uint64_t nr_rings;		/* of nr: objects that lead to themselves by others */
	uint64_t examples[LEAK_EXAMPLES];	/* numbers of objects */
	uint64_t beneath[LEAK_EXAMPLES];	/* how many hang from it */
	uint32_t nr_examples;
};

struct leak_groups {
	struct leak_group *rows;	/* the most bytes first */
	size_t nr;
	uint64_t nr_direct, bytes_direct, nr_beneath, bytes_beneath;
	struct index index;
	struct leak_stacks *stacks;
};

void leak_groups_make(struct leaks *leaks, struct leak_groups *groups, unsigned int nr_examples);
void leak_groups_free(struct leak_groups *groups);

/* ---- leak_stack.c: who allocated an object, where that is known ---- */
struct leak_stacks *leak_stacks_open(struct leaks *leaks);
/* How many frames; *@id is another for each stack. */
uint32_t leak_stack_of(struct leak_stacks *stacks, uint64_t object, uint64_t *id,
		       uint64_t frames[TRACE_FRAMES_MAX]);
void leak_stacks_close(struct leak_stacks *stacks);

/* ---- leak_print.c ---- */
void leaks_print(struct leaks *leaks, const struct leak_groups *groups, size_t lines);
void leaks_put(struct leaks *leaks, const struct leak_groups *groups, size_t lines);

#endif
