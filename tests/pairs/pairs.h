/* SPDX-License-Identifier: MIT */
/*
 * The table of pairs: what two features do where they meet.
 *
 * A feature is a row: a structure of operations, all optional.  cell.c composes those of two, in
 * both nestings and both orders of ending, and checks after each what must hold everywhere.  A new
 * feature is a line in table.def and a structure; that gives it a cell with each other one.
 */
#ifndef SLUB_TESTS_PAIRS_H
#define SLUB_TESTS_PAIRS_H

#include "fire.h"

#include <slub/slub.h>

struct cell;

/* Where the thread is: a feature names what the headers do not allow there. */
enum context {
	IN_READER = 1 << 0,	/* inside slub_read_lock() */
	IN_HANDLER = 1 << 1,	/* in a signal handler that interrupted nothing of the library */
	IN_CALLBACK = 1 << 2,	/* in a callback of the library */
	IN_MIGRATE = 1 << 3,	/* in one that moves an object */
	IN_GROUP = 1 << 4,	/* inside slub_group_enter() */
	IN_THREAD = 1 << 5,	/* in a thread that ends soon */
};

struct feature {
	const char *name;
	/* Begins; and ends, when what alloc gave is free.  False: not while the other goes on. */
	void (*enter)(struct cell *cell);
	bool (*leave)(struct cell *cell);
	/* Calls cell_nest() where the feature is at work. */
	void (*around)(struct cell *cell);
	/* Its own kind of memory; *@size is what is wanted and what it is. */
	void *(*alloc)(struct cell *cell, size_t *size);
	void (*free)(struct cell *cell, void *block);
	/* Its own way to free what the other, or malloc, has made. */
	void (*release)(struct cell *cell, void *block);
	/* Whatever else it can do to the other's memory, and to its own. */
	void (*disturb)(struct cell *cell);
	/* Its counts are right. */
	void (*check)(struct cell *cell);
	/* Gives up what it keeps of the other's memory, since that one ends. */
	void (*drop)(struct cell *cell);
	/* enum context, where these may not be called. */
	unsigned int around_not, alloc_not, free_not, release_not, disturb_not;
	bool is_freed_by_itself;	/* what alloc gave has to come back by free */
	bool refuses;			/* NULL is a right answer while it is there */
};

struct block {
	char *at;		/* NULL: nothing here */
	size_t size;
	uint64_t id;
	const struct feature *maker;	/* NULL: malloc */
	bool in_group;		/* made there */
};

enum {
	BLOCKS = 96,
	LARGE = 100000,		/* a block of pages */
};

struct cell {
	char name[64];
	const struct feature *pair[2];
	bool is_there[2];	/* between enter and leave */
	volatile bool is_changing;	/* in one of these, where a handler leaves both alone */
	/* How it is being composed, and what is being called, for messages. */
	const char *outer, *first;
	const char *volatile doing_of, *volatile doing;
	unsigned int context;
	const struct feature *nest[3];
	unsigned int depth;
	struct block blocks[BLOCKS];
	uint64_t next_id, random;
	size_t handed_over;	/* to deferred frees, since the last barrier */
	bool is_child;
	unsigned int rounds;
};

/* ---- what features call ---- */

/* Says which cell, how composed, in what call, and ends the process. */
void cell_fail(struct cell *cell, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

/* An answer that the header does not name is a failure; returns whether it was 0. */
bool cell_expect(struct cell *cell, long answer, const char *call, int other);

/* What is nested inside: the other feature's around, in the end the work. */
void cell_nest(struct cell *cell);

const struct feature *cell_other(struct cell *cell, const struct feature *feature);
bool cell_has(struct cell *cell, const struct feature *feature);

/* Inside a section, or a deferred free is pending that may have to wait for one. */
static inline bool cell_is_in(const struct cell *cell, unsigned int context)
{
	return cell->context & context;
}

/* slub_deferred_barrier(), where it may be called. */
void cell_barrier(struct cell *cell);

/* The watchdog begins anew: in the child of a fork. */
void cell_watch(struct cell *cell);

/* ---- blocks: all that is allocated has a stamp, and nothing overlaps ---- */

/* NULL if @maker has none and may refuse. */
struct block *block_take(struct cell *cell, const struct feature *maker, size_t size);
/* False: it cannot be freed in this context.  @by: whose release; NULL: its maker's free. */
bool block_give(struct cell *cell, struct block *block, const struct feature *by);
void blocks_check(struct cell *cell);
/* Those of @maker, or all; returns how many are there. */
size_t blocks_of(const struct cell *cell, const struct feature *maker);
void blocks_give_all(struct cell *cell, const struct feature *maker, const struct feature *by);

/* ---- the same without the table: memory that features keep for a moment ---- */

struct loose {
	void *at;
	const struct feature *maker;	/* NULL: malloc */
};

/* The other's, where it makes any of at least @size, else malloc's. */
struct loose loose_take(struct cell *cell, const struct feature *me, size_t size);
/* By the other's way to free, where it has one, else where it came from. */
void loose_give(struct cell *cell, const struct feature *me, struct loose loose);

/* Takes pieces until one is refused, gives them all back, and expects that there is room again. */
void fill_until_refused(struct cell *cell, const struct feature *me, size_t piece);

/* ---- asking as the command does ---- */

/* Posts a request to the process's own mailbox, and comes by until it is answered. */
long command_ask(struct cell *cell, unsigned int operation, const char *text);

/* ---- what meetings take from features ---- */

/* SIGUSR2 in each @ns, until it is 0. */
void signal_storm(struct cell *cell, void (*handler)(int), long ns);

/* The source of the pressure thread, and an event of it. */
void pressure_source(struct cell *cell);
void pressure_event(struct cell *cell);

/* ---- hand-written meetings ---- */

typedef void meeting(struct cell *cell);

#define FEATURE(name, ...) extern const struct feature feature_##name;
#define MEETING(one, other, ...) meeting meet_##one##_x_##other;
#include "table.def"

/* Composes the cell, then @special if there is one. */
void cell_run(struct cell *cell, meeting *special);

#endif
