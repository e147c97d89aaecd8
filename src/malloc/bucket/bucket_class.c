/* SPDX-License-Identifier: MIT */
/*
 * A bucket's caches: one for each of malloc's classes, made when it is first needed.  Of two
 * threads that need the same cache the first makes it, while the second waits for its turn
 * to make one (cache_create_at()).
 */
#include "malloc/bucket/bucket_internal.h"
#include "slab/shadow/owned.h"
#include "slab/guard/guard.h"

#include <errno.h>

/* ---- one ---- */

static struct slub_cache *class_create(struct slub_bucket *bucket,
				       uint32_t number)
{
	uint32_t size = sizeclass_bytes(number) + (uint32_t)CLASS_TAIL;
	char space[SLUB_CACHE_NAME_MAX + 1] = "";
	struct text name = { space, SLUB_CACHE_NAME_MAX, 0 };
	struct slub_cache_args args = {
		.name = space, .size = sizeclass_bytes(number),
		/* As aligned as malloc's own class of that size. */
		.align = min_size(size & -size, PAGE_BYTES),
		.flags = (bucket->flags & ~(unsigned long)SLUB_CACHE_PANIC) |
			 SLUB_CACHE_NO_MERGE,
	};

	text_printf(&name, "%s-%u", bucket->name, size);
	return cache_create_at(&args, &bucket->classes[number]);
}

cold struct slub_cache *bucket_class_make(struct slub_bucket *bucket,
					  uint32_t number)
{
	struct slub_cache *cache;

	errno = ENOMEM;
	if (slub_thread.locks_held)
		return NULL;
	cache = class_create(bucket, number);
	/*
	 * The place is copied after the store, since slub_bucket_group_set() may have missed
	 * this cache.  seq_cst: pairs with bucket_classes_place(); one of the two sees the
	 * other's store.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (cache && bucket->flags & SLUB_CACHE_ACCOUNT)
		cache_place_copy(cache, &bucket->place);
	return cache;
}

/* ---- all ---- */

/* The cache of a class, or NULL while it is not made. */
static struct slub_cache *class_made(const struct slub_bucket *bucket,
				     uint32_t number)
{
	return __atomic_load_n(&bucket->classes[number], __ATOMIC_ACQUIRE);
}

void bucket_classes_place(struct slub_bucket *bucket)
{
	/* seq_cst: the place was written before; pairs with bucket_class_make() */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = class_made(bucket, c);

		if (cache)
			cache_place_copy(cache, &bucket->place);
	}
}

/* Adds a cache's objects; returns 0 or -EAGAIN. */
static int class_count(struct slub_cache *cache,
		       struct slub_bucket_stats *stats)
{
	struct slub_cache_stats numbers = { 0 };
	size_t nr = 0, guarded_bytes = 0;
	int ret = slub_cache_for_each_object(cache, object_count, &nr);
	size_t guarded = guard_nr_objects(cache, &guarded_bytes);

	slub_cache_stats(cache, &numbers);
	if (ret)
		nr = numbers.objects + guarded;
	stats->classes++;
	stats->live_blocks += nr;
	stats->live_bytes += nr * cache->object_size;
	stats->slab_bytes += numbers.slabs * (PAGE_BYTES << cache->order) +
			     guarded_bytes;
	return ret;
}

int bucket_classes_count(struct slub_bucket *bucket,
			 struct slub_bucket_stats *stats)
{
	int ret = 0;

	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = class_made(bucket, c);

		if (cache && class_count(cache, stats))
			ret = -EAGAIN;
	}
	return ret;
}

/*
 * Onto a list through their first words: the walk would lose its way if a slab went in the
 * middle of it.
 */
static int object_collect(void *object, void *list)
{
	*(void **)object = *(void **)list;
	*(void **)list = object;
	return 0;
}

int bucket_classes_clear(struct slub_bucket *bucket)
{
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = class_made(bucket, c);
		void *list = NULL, *next;

		if (cache && slub_cache_for_each_object(cache, object_collect, &list))
			return -EAGAIN;
		for (; list; list = next) {
			next = *(void **)list;
			fast_free(list);
		}
	}
	return 0;
}

int bucket_classes_destroy(struct slub_bucket *bucket)
{
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = bucket->classes[c];
		int err = cache ? slub_cache_destroy(cache) : 0;

		if (err)
			return err;
		bucket->classes[c] = NULL;
	}
	return 0;
}
