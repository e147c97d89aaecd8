/* SPDX-License-Identifier: MIT */
/*
 * What the files of buckets share and no other knows.
 *
 * Tests: tests/unit/malloc/test_bucket*.cc, tests/pool/bucket_test.cc.
 * Page: docs/api/c.md.
 */
#ifndef SLUB_BUCKET_INTERNAL_H
#define SLUB_BUCKET_INTERNAL_H

#include "core/malloc/malloc.h"

#include <slub/bucket.h>

#define BUCKET_MAGIC 0x74656b637562736cull

struct slub_bucket {
	void *free_link;	/* the cache's, while this is free */
	uint64_t magic;		/* BUCKET_MAGIC: a bucket */
	/* const */
	unsigned long flags;	/* enum slub_cache_flag */
	char name[SLUB_BUCKET_NAME_MAX + 1];
	struct slub_bucket *next;	/* of the same hash; under buckets_lock */
	/* atomic */
	uint64_t nr_refused;
	uint32_t place;		/* as struct slub_cache's, of large blocks too */
	bool had_large;		/* only then a walk over the page map may find one of it */
	struct slub_cache *classes[CLASS_NR];	/* live, or NULL: not made yet */
};

static inline bool bucket_is_live(const struct slub_bucket *bucket)
{
	return bucket && bucket->magic == BUCKET_MAGIC;
}

/* False: it is none, and that was said. */
static inline bool bucket_check(const struct slub_bucket *bucket, const char *call)
{
	if (likely(bucket_is_live(bucket)))
		return true;
	log_message("%s: %p is not a bucket", call, (const void *)bucket);
	return false;
}

/* Its cache for malloc's class with @number; NULL: it is not made yet. */
static inline struct slub_cache *bucket_class(const struct slub_bucket *bucket,
					      uint32_t number)
{
	/* acquire: pairs with the release in create() of features/typed/create.c */
	return __atomic_load_n(&bucket->classes[number], __ATOMIC_ACQUIRE);
}

/* bucket_alloc.c: is @ptr a large block, and of @bucket? */
bool bucket_large_owns(const struct slub_bucket *bucket, const void *ptr);

#endif
