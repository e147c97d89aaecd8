/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the API's target share: the objects that an input has, and what each is
 * to look like.
 */
#ifndef SLUB_TESTS_FUZZ_API_H
#define SLUB_TESTS_FUZZ_API_H

#include "fuzz.h"

#include <errno.h>
#include <slub/slub.h>

enum {
	NR_OBJECTS = 96,
	NR_CACHES = 6,
	NR_GROUPS = 6,
	LIVE_BYTES_MAX = 32 << 20,
};

/* Whose an object is, which says how it may be freed. */
enum home { HOME_MALLOC, HOME_CACHE, HOME_BUCKET, HOME_POOL };

struct object {
	unsigned char *ptr;
	size_t size;
	enum home home;
	unsigned int owner;	/* index of the cache, the bucket or the pool */
	unsigned int seed;
};

struct cache {
	struct slub_cache *cache;
	size_t size;
	bool is_constructed;
	bool moves;
};

void *tested_malloc(size_t);
void *tested_calloc(size_t, size_t);
void *tested_realloc(void *, size_t);
void tested_free(void *);
int tested_malloc_trim(size_t);

/* api.c */
extern struct object objects[NR_OBJECTS];
extern size_t live_bytes;
struct object *object_any(struct input *in);
/* Of a slot that is empty now, if @ptr is none of those that may be missing. */
void object_enter(struct object *object, void *ptr, size_t size, enum home home,
		  unsigned int owner);
void object_check(const struct object *object);
/* It is no more; its bytes are as its constructor left them. */
void *object_take(struct object *object);
void object_free(struct object *object, unsigned int way);
/* May memory be refused now?  errno says why it was. */
bool is_refused(const void *ptr);

/* api_caches.c */
extern struct cache caches[NR_CACHES];
void caches_call(struct input *in);
void caches_end(void);

/* api_groups.c: groups, shrinkers */
bool groups_may_refuse(void);
void groups_call(struct input *in);
void groups_end(void);

/* api_pools.c: mempools, buckets, per-CPU memory */
void pool_free(unsigned int pool, void *element);
void bucket_free(unsigned int bucket, void *block, unsigned int way);
void pools_call(struct input *in);
void pools_end(void);

/* api.c: sections of slub_rcu_domain that this thread is in */
extern int readers;

#endif
