/* SPDX-License-Identifier: MIT */
/*
 * What the parts of api_storm share: a thread's things, its objects, its steps.
 */
#ifndef SLUB_TESTS_API_STORM_H
#define SLUB_TESTS_API_STORM_H

#include "fire.h"

#include <slub/slub.h>

enum {
	STORM_OBJECTS = 48,	/* a thread's own, at the most */
	STORM_HUNG_SECONDS = 100,
};

/* An object says itself what it is: any thread may check and free it. */
struct head {
	uint64_t size;
	uint64_t id;
	struct slub_cache *cache;	/* NULL: malloc's */
};

struct thread {
	uint64_t random;
	uint64_t next_id;
	bool is_child;		/* in a child of fork: other threads are not there */
	const char *does;	/* the step it is at, for the watchdog's reader */
	struct head *objects[STORM_OBJECTS];
	struct slub_cache *cache;
	struct slub_bucket *bucket;
	struct slub_mempool *pool;
	struct slub_group *group;
	struct slub_shrinker shrinker;
	struct busy *busy;	/* api_storm_others.c */
	uintptr_t word;
	int64_t word_sum;
	char name[24];
};

struct step {
	const char *name;
	void (*take)(struct thread *);
	unsigned int weight;
};

/* api_storm.c */
extern struct slub_cache *shared;
extern struct slub_srcu domain;

uint64_t below(struct thread *t, uint64_t bound);
bool is_thread(int err);
bool is_destroyed(const struct thread *t, int err, const char *what);
void check_is(long got, long one, long other, const char *what);
struct head *object_mark(struct thread *t, void *ptr, size_t size, struct slub_cache *cache);
void object_check(struct head *head);
struct head *object_resize(struct thread *t, struct head *head, void *ptr, size_t size);
void object_keep(struct thread *t, struct head *head);
void object_free(struct head *head);
void take_malloc(struct thread *t);
void take_free(struct thread *t);

long storm_steps_left(void);

/* The same thread, whoever asks: to send it a signal. */
pthread_t thread_id(struct thread *t);
struct thread *thread_any(struct thread *t);

/*
 * api_storm_own.c: things of a thread's own.  api_storm_objects.c: what concerns objects.
 * api_storm_others.c: all else.
 */
extern const struct step own_steps[], object_steps[], other_steps[];

/*
 * api_storm_refuse.c: the system refuses memory from refuse_begin() to refuse_end().
 * is_refused() is for who got nothing, with errno as it was then: true if that may be, else
 * it ends the program.
 */
extern const struct step refuse_steps[];
void refuse_start(uint64_t seed);
void refuse_begin(void);
void refuse_end(void);
void refuse_fork_child(void);
void refuse_report(void);
bool is_refusing(void);
bool is_refused(const char *what);
bool is_refused_err(long err, const char *what);

void own_drop(struct thread *t);
void group_drop(struct thread *t);
void objects_start(void);
void objects_end(void);
void others_load(void);
void others_start(void);
void others_end(void);

#endif
