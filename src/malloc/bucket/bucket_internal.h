/* SPDX-License-Identifier: MIT */
/* What the files of buckets share and no other knows. */
#ifndef SLUB_BUCKET_INTERNAL_H
#define SLUB_BUCKET_INTERNAL_H

#include "malloc/malloc.h"

#include <slub/bucket.h>

#define BUCKET_MAGIC 0x74656b637562736cull

struct slub_bucket {
	void *free_link;	/* the cache's, while this is free */
	uint64_t magic;		/* BUCKET_MAGIC: a bucket */
	/* const */
	unsigned long flags;	/* enum slub_cache_flag */
	char name[SLUB_BUCKET_NAME_MAX + 1];
	struct list list;	/* under buckets_lock */
	/* atomic */
	uint64_t nr_refused;
	uint32_t place;		/* as struct slub_cache's, of large blocks too */
	struct slub_cache *classes[CLASS_NR];	/* live, or NULL: not made yet */
};

static inline bool bucket_is_live(const struct slub_bucket *bucket)
{
	return bucket && bucket->magic == BUCKET_MAGIC;
}

/* bucket_class.c */
struct slub_cache *bucket_class_make(struct slub_bucket *bucket,
				     uint32_t number);
/* All of them have the bucket's place from here on. */
void bucket_classes_place(struct slub_bucket *bucket);
/* Adds their objects to @stats; returns 0 or -EAGAIN. */
int bucket_classes_count(struct slub_bucket *bucket,
			 struct slub_bucket_stats *stats);
/* Frees all their objects, which nobody else uses; 0 or -EAGAIN. */
int bucket_classes_clear(struct slub_bucket *bucket);
/* Destroys them until one is still in use; 0 or -errno. */
int bucket_classes_destroy(struct slub_bucket *bucket);

/* The bucket's cache for what malloc has @model for; NULL: errno. */
static inline struct slub_cache *bucket_class(struct slub_bucket *bucket,
					      const struct slub_cache *model)
{
	uint32_t number = (uint32_t)(model - sizeclass_cache(0));
	struct slub_cache *cache;

	/* acquire: pairs with the release in create() of slab/typed/create.c */
	cache = __atomic_load_n(&bucket->classes[number], __ATOMIC_ACQUIRE);
	if (likely(cache))
		return cache;
	return bucket_class_make(bucket, number);
}

/* The class to which objects as @cache's belong, if there is one of their size. */
static inline const struct slub_cache *
bucket_class_for(const struct slub_bucket *bucket,
		 const struct slub_cache *cache)
{
	const struct slub_cache *model;

	if (cache->object_size > CLASS_BYTES_MAX)
		return NULL;
	model = sizeclass_cache(cache->object_size);
	return __atomic_load_n(&bucket->classes[model - sizeclass_cache(0)],
			       __ATOMIC_RELAXED);
}

/* bucket_large.c; NULL: errno */
void *bucket_large_alloc(struct slub_bucket *bucket, size_t size, size_t align,
			 bool *is_zero);
/* A large block that stays one: pages are moved, not bytes; NULL: cannot. */
void *bucket_large_resize(struct slub_bucket *bucket, void *ptr, size_t size);
/* Is @ptr a large block, and of @bucket? */
bool bucket_large_owns(const struct slub_bucket *bucket, const void *ptr);
/* Frees all of them. */
void bucket_large_clear(const struct slub_bucket *bucket);
/* Adds the large blocks of @bucket to @stats. */
void bucket_large_count(const struct slub_bucket *bucket,
			struct slub_bucket_stats *stats);


#endif
