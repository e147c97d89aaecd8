/* SPDX-License-Identifier: MIT */
/*
 * What the parts of soak share.  A pair is an allocation and its free with all bytes of the
 * object checked before the free.
 *
 * SOAK-1  An object that a thread has is in exactly one place of a table: `start` is written last
 *         when it comes, and first when it goes, so that a child of fork finds in every table
 *         whole objects only, whatever the owner was doing.
 * SOAK-2  Each word of an object says who stamped it: a word that belongs to another object
 *         names that object.
 */
#ifndef SLUB_TESTS_SOAK_H
#define SLUB_TESTS_SOAK_H

#include "fire.h"

#include <pthread.h>
#include <stdatomic.h>

#include <slub/slub.h>

enum {
	SOAK_THREADS = 64,
	SOAK_HELD = 1024,	/* objects of a thread, a power of two */
	SOAK_HANDLED = 16,	/* objects of its signal handler */
	SOAK_CACHES = 6,
	SOAK_GROUPS = 4,
};

/* How an object was made; SOAK_CACHE + n is the typed cache n. */
enum soak_kind {
	SOAK_MALLOC,
	SOAK_CALLOC,
	SOAK_ALIGNED,
	SOAK_BUCKET,
	SOAK_CACHE,
	SOAK_ACCOUNTED = SOAK_CACHE + 2,
	SOAK_CONSTRUCTED = SOAK_CACHE + 3,
};

struct object {
	void *start;		/* NULL: none is here */
	uint64_t id;		/* the owner's number above 40 bits of a serial number */
	uint32_t size;
	uint32_t kind;
};

/* Who stamps: a thread, or the signal handler of one. */
struct owner {
	uint64_t rng;
	uint64_t number;
	uint64_t next_serial;
	struct slub_group *inside;
	bool in_handler;	/* where a typed cache may have nothing */
	_Atomic uint64_t pairs;	/* written by this owner alone */
	_Atomic uint64_t checks;	/* of objects that were not freed then */
	_Atomic uint64_t bytes;	/* that were checked */
	_Atomic uint64_t refused;	/* by a group's limit */
};

struct worker {
	struct owner self, handler;
	pthread_t thread;
	_Atomic int tid;	/* 0 before it runs */
	_Atomic bool ended;
	struct object *held;
	struct object handled[SOAK_HANDLED];
};

/* Pairs of children, in memory that all processes share. */
struct soak_children {
	_Atomic uint64_t pairs, checks, bytes, refused;
};

/* soak.c */
extern struct worker workers[SOAK_THREADS];
extern unsigned int nr_workers;
extern atomic_bool soak_stop;
uint64_t soak_pairs(void);
void soak_child(struct worker *worker) __attribute__((noreturn));

/* object.c */
extern struct slub_cache *soak_caches[SOAK_CACHES];
extern struct slub_bucket *soak_bucket;
void objects_start(uint64_t seed);
void objects_end(void);
void object_make(struct owner *owner, struct object *place, uint64_t bits);
void object_check(struct owner *owner, const struct object *object, const char *where);
void object_free(struct owner *owner, struct object *place, const char *where);
void object_put(struct object *place, const struct object *object);
struct object object_take(struct object *place);
void object_stamp(const struct object *object);
bool object_refused(struct owner *owner, const void *got, uint32_t kind);
uint64_t object_id(struct owner *owner);
void object_scrub(struct owner *owner, const struct object *object, const char *where);

/* steps.c */
void step_take(struct worker *worker);
void boxes_empty(struct owner *owner);

/* disturb.c */
enum soak_deed {
	DEED_MOVE, DEED_TRIM, DEED_SHRINK, DEED_DEBUG, DEED_VALIDATE, DEED_GROUP, DEED_FORK,
	DEED_END, DEED_LOOK, NR_DEEDS,
};
extern _Atomic uint64_t soak_deeds[NR_DEEDS];
extern atomic_int forks_wanted, ends_wanted;
void groups_start(void);
void groups_end(void);
void group_enter(struct owner *owner);
void group_leave(struct owner *owner);
void *disturb(void *seed);
void debug_end(void);

/* Order for whoever stops this thread in the middle: a handler, or fork in another thread. */
static inline void soak_fence(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void soak_count(_Atomic uint64_t *counter, uint64_t n)
{
	/* One writer; the reader wants a number that it had at some time. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif
