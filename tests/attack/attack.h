/* SPDX-License-Identifier: MIT */
/*
 * An attacker on a heap.  Each program here is a kind of attack: a program with one flaw, the
 * primitive, of which the attacker makes what it is worth.  He has won when malloc hands out what
 * it must not: memory that a live block has, memory of a loaded object (his own buffer, or the
 * library's variables), or when he knows an address of the heap that he was not told.
 *
 * The attacker knows the sources of the allocator that is in front of him, and has a copy of the
 * program to study; he does not know what is drawn anew in each process.  So he forges what suits
 * that allocator: enum dialect.
 *
 * A layout is a history of the heap, by its number: what was allocated and freed before.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dialect {
	OTHER,		/* links are raw */
	GLIBC,		/* link ^ (own address >> 12), behind a header with the size */
	SLUB,		/* raw, with a second word that vouches for it */
	SLUB_HARDENED,	/* encoded with a secret; a tail with a secret */
};

enum { SIZES_MOST = 12, WORDS = 4, COPIES = 4 };

/* One row of a program: a variant of its kind, and the sizes of blocks it is tried with. */
struct attack {
	const char *name;
	bool (*run)(size_t size);	/* has the attacker won? */
	size_t sizes[SIZES_MOST];	/* the test's */
	size_t more[SIZES_MOST];	/* the sweep's as well */
	/* What the attacker learns from a copy of the program: copies[]. */
	void (*tell)(size_t size, uintptr_t words[WORDS]);
};

/* Each program's own; the last one has no name. */
extern const struct attack attacks[];

extern enum dialect dialect;
/* What the copies told, of which nr_copies answered. */
extern uintptr_t copies[COPIES][WORDS];
extern int nr_copies;
/* The number of the layout. */
extern unsigned int layout;
/* Asks one more process of this program, of the same layout. */
bool copy_ask(uintptr_t words[WORDS]);

/* The attacker's own buffer, a variable of the program, all zeros. */
extern char buffer[1 << 16];

/* ---- the program ---- */

/* A number below @limit, the layout's next. */
unsigned int chance(unsigned int limit);
/* How objects come and go: malloc() and free(), but for typed caches. */
extern void *(*object_alloc)(size_t size);
extern void (*object_free)(void *object);
/* A block that the program has in use from here on, with something in it. */
char *block_get(size_t size);
void block_put(char *block);
/* Freed by the program, which still has it in use, as it believes. */
void block_put_live(char *block);
/* Some block of @size that is in use, but for @not. */
char *block_some(size_t size, const char *not);
/* What the program did before, with blocks of @size and others. */
void history(size_t size);
/* Frees some blocks of @size, none of them @not or @nor. */
void free_some(size_t size, const char *not, const char *nor);

struct neighbours {
	char *first, *second;	/* both in use */
	size_t distance;
};
struct neighbours neighbours_get(size_t size);
/* Blocks that are freed after the attacked one, so that its list is handed out at all. */
void late_get(size_t size);
void late_put(void);

/* ---- the attacker ---- */

uintptr_t word_at(const void *at);
/* Through a pointer that the program must not use so any longer, or so far. */
void word_write(void *at, uintptr_t word);
void bytes_write(void *at, const void *bytes, size_t nr_bytes);
/* Does the program get what it must not, in @nr requests of @size? */
bool gets_wrong(size_t size, int nr);

/* glibc: the link at @at. */
uintptr_t glibc_link(uintptr_t at, uintptr_t target);
/* glibc: the address of the block whose link is @word, and leads @distance bytes on. */
uintptr_t glibc_link_at(uintptr_t word, uintptr_t distance);
/* The link at @at to @target, with no secret known. */
uintptr_t plain_link(const void *at, const void *target);

/*
 * libslub: how the second word of a free object is made: the same for all, or by link and
 * address.  From blocks of the attacker's copy: it tells the way, not the key.
 */
enum second_word { SECOND_UNKNOWN, SECOND_SAME, SECOND_XOR };
enum second_word second_word_study(size_t size);
uintptr_t second_word_key(enum second_word way, uintptr_t at,
			  uintptr_t first, uintptr_t second);
uintptr_t second_word_make(enum second_word way, uintptr_t key, uintptr_t at,
			   uintptr_t first);

/* The hardened build: secrets from a link and from a tail that were read, and both forged. */
uint64_t hardened_link_secret(uint64_t word, const void *at, const void *next);
uint64_t hardened_link(uint64_t secret, const void *at, const void *next);
uint64_t hardened_tail_secret(uint64_t tail, const void *block, size_t size);
/* That of a block in use, for a request of @size. */
uint64_t hardened_tail(uint64_t secret, const void *block, size_t size);
/* The link of a free object, and what must be zeros. */
#define HARDENED_ZEROS ((size_t)144)
/* Makes a free object of @slot_bytes at @at. */
void hardened_fake(char *at, size_t slot_bytes, uint64_t link_secret,
		   uint64_t tail_secret);

#endif
