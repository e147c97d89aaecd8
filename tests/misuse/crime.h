/* SPDX-License-Identifier: MIT */
/*
 * The corpus of misuse: small programs that do one thing wrong each.
 *
 *   crime     one wrong use of memory, at one size
 *   twin      the same program without the wrong step
 *   row       a function and its arguments, for one size or for several
 *   wrong     what stands between begin_wrong() and end_wrong(): if SIGSEGV comes
 *             there, the access itself was stopped
 *
 * The program `crime` is linked with no allocator: LD_PRELOAD says which is tried.
 * `crime_typed` has typed caches, and is linked with libslub.
 */
#ifndef CRIME_H
#define CRIME_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* How memory is asked for, and given back. */
enum how { MALLOC, CALLOC, REALLOC, ALIGNED, NEW, ARRAY };

#define SIZES_END SIZE_MAX

struct row {
	const char *kind;
	const char *name;
	void (*commit)(const struct row *row, size_t size);
	const size_t *sizes;	/* up to SIZES_END */
	long at;
	size_t n;
	enum how how;
	/* What letters F, Z, P and U report: a pattern; NULL: nothing is promised. */
	const char *report;
};

extern const size_t every_size[], small_sizes[], large_sizes[], whole_sizes[];
/* One size. */
extern const size_t of_0[], of_1[], of_20[], of_24[], of_40[], of_50[], of_64[],
	of_256[], of_300[], of_2000[], of_5000[], of_20000[], of_4M[];

/* Is this the twin? */
extern bool innocent;

void begin_wrong(void);
void end_wrong(void);

/* What the compiler must not see through. */
char *hide(void *p);
char *get(size_t size, enum how how = MALLOC);
void put(void *p, enum how how = MALLOC);
/* @n blocks of @size, one after the other. */
void traffic(size_t size, size_t n);
/* @n blocks of @size at once, in a process that goes on after its crime. */
void crowd(size_t size, size_t n);
void in_thread(void (*call)(void *), void *arg);

/* A file names its rows, up to one without a name, by an object of this. */
struct rows {
	const struct row *first;
	struct rows *next;

	explicit rows(const struct row *rows_of_file);
};

#endif
