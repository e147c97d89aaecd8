/* SPDX-License-Identifier: MIT */
/*
 * Buckets: the size classes once more, for one subsystem or tenant.
 *
 *   up to 32 KiB   an object of the bucket's cache of that class
 *   above          a large block that names the bucket
 *
 * So neither needs a header, free() need not know of buckets, and nothing is counted:
 * slub_bucket_stats() walks the page map.  Here is how they come and go.
 *
 * Locks: buckets_lock protects the table of buckets.
 */
#include "core/base/hash.h"
#include "core/base/word.h"
#include "features/reclaim/reclaim.h"
#include "features/buckets/bucket_internal.h"
#include "features/guard/guard.h"
#include "features/groups/owned.h"
#include "features/typed/typed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_ALL (SLUB_CACHE_PANIC | SLUB_CACHE_ACCOUNT | SLUB_CACHE_RECLAIM_ACCOUNT |	\
		   SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE |		\
		   SLUB_CACHE_POISON | SLUB_CACHE_STORE_USER | SLUB_CACHE_TRACE |		\
		   SLUB_CACHE_FAILSLAB)

static const struct slub_cache_args cache_args = {
	.name = "slub_bucket",
	.size = sizeof(struct slub_bucket),
	.flags = SLUB_CACHE_NO_MERGE,
};
static struct slub_cache bucket_cache = { .args = &cache_args };

static struct lock buckets_lock fork_writes = LOCK_INIT;
/* By the hash of the name. */
#define TABLE_BITS 9
static struct slub_bucket *buckets[1 << TABLE_BITS] rarely_touched;

static struct slub_bucket **head_of(const char *name)
{
	return &buckets[hash_gnu(name) * HASH_MULTIPLIER >> (64 - TABLE_BITS)];
}

/* ---- create ---- */

/* Enters @bucket in the table; false: there is one of that name. */
static bool table_enter(struct slub_bucket *bucket)
{
	struct slub_bucket **head = head_of(bucket->name), *b;

	lock_acquire(&buckets_lock);
	for (b = *head; b && strcmp(b->name, bucket->name) != 0;)
		b = b->next;
	if (!b) {
		bucket->next = *head;
		*head = bucket;
	}
	lock_release(&buckets_lock);
	return !b;
}

static void table_leave(struct slub_bucket *bucket)
{
	struct slub_bucket **at = head_of(bucket->name);

	lock_acquire(&buckets_lock);
	while (*at && *at != bucket)
		at = &(*at)->next;
	if (*at)
		*at = bucket->next;
	lock_release(&buckets_lock);
}

/* 0, or an errno. */
static int create(const char *name, unsigned long flags,
		  struct slub_bucket **out)
{
	struct slub_bucket *bucket;
	int err;

	if (!name_is_valid(name, SLUB_BUCKET_NAME_MAX) || flags & ~(unsigned long)FLAGS_ALL) {
		log_message("slub_bucket_create(%s): %s", name ? name : "NULL",
			    name_is_valid(name, SLUB_BUCKET_NAME_MAX) ?
			    "unknown flag, or one that is not for buckets" :
			    "the name must have 1 to 41 printable characters "
			    "without blanks");
		return EINVAL;
	}
	err = -slub_begin();
	if (err)
		return err;
	bucket = slub_cache_zalloc(&bucket_cache);
	if (!bucket)
		return errno == ENOSPC ? ENOSPC : ENOMEM;
	memcpy(bucket->name, name, strlen(name));
	bucket->flags = flags;
	if (!table_enter(bucket)) {
		slub_cache_free(&bucket_cache, bucket);
		log_message("slub_bucket_create(%s): there is a bucket of that "
			    "name", name);
		return EEXIST;
	}
	bucket->magic = BUCKET_MAGIC;
	*out = bucket;
	return 0;
}

SLUB_EXPORT struct slub_bucket *slub_bucket_create(const char *name,
						   unsigned long flags)
{
	struct slub_bucket *bucket = NULL;
	int err = create(name, flags, &bucket);

	if (err && flags & SLUB_CACHE_PANIC) {
		log_always("slub_bucket_create(%s): error %d, and SLUB_CACHE_PANIC "
			   "was asked for", name ? name : "NULL", err);
		abort();
	}
	if (err)
		errno = err;
	return bucket;
}

/* ---- groups ---- */

/* All caches have the bucket's place from here on. */
static void classes_place(struct slub_bucket *bucket)
{
	/* seq_cst: the place was written before; pairs with class_make() */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = bucket_class(bucket, c);

		if (cache)
			cache_place_copy(cache, &bucket->place);
	}
}

SLUB_EXPORT int slub_bucket_group_set(struct slub_bucket *bucket,
				      struct slub_group *group)
{
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!bucket_is_live(bucket) || !(bucket->flags & SLUB_CACHE_ACCOUNT) ||
	    group_place_set(&bucket->place, group))
		return -EINVAL;
	classes_place(bucket);
	return 0;
}

/* ---- what is in one ---- */

/* The next large block of @bucket from @addr on; NULL: there is none. */
static char *next_large(const struct slub_bucket *bucket, char *addr)
{
	char *end = (char *)heap_start + pagemap_committed();

	if (!__atomic_load_n(&bucket->had_large, __ATOMIC_RELAXED))
		return NULL;
	for (; addr < end; addr += PAGE_BYTES) {
		if (bucket_large_owns(bucket, addr))
			return addr;
	}
	return NULL;
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

/*
 * What was freed already, deferred or by a handler that had to put it off, is free
 * afterwards: before anything looks at what is allocated.  0, or -EDEADLK: this thread
 * is a reader, and what its section keeps is still there.
 */
static int frees_end(void)
{
	frees_finish();
	return slub_deferred_barrier();
}

static int bucket_count(struct slub_bucket *bucket,
			struct slub_bucket_stats *stats)
{
	char *addr = (char *)heap_start;
	int ret = 0;

	memset(stats, 0, sizeof(*stats));
	while ((addr = next_large(bucket, addr)) != NULL) {
		stats->large_blocks++;
		stats->large_bytes += large_bytes(addr);
		addr += PAGE_BYTES;
	}
	stats->live_blocks = stats->large_blocks;
	stats->live_bytes = stats->large_bytes;
	stats->refused = __atomic_load_n(&bucket->nr_refused,
					 __ATOMIC_RELAXED);
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = bucket_class(bucket, c);

		if (cache && class_count(cache, stats))
			ret = -EAGAIN;
	}
	return ret;
}

SLUB_EXPORT int slub_bucket_stats(struct slub_bucket *bucket,
				  struct slub_bucket_stats *stats)
{
	if (!bucket_is_live(bucket))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	frees_end();
	sanitizer_written(stats, sizeof(*stats));
	return bucket_count(bucket, stats);
}

/* ---- destroy ---- */

/* Until one is still in use: -errno. */
static int classes_destroy(struct slub_bucket *bucket)
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

/* Until one is found: -errno. */
static int look_unused(struct slub_bucket *bucket)
{
	if (next_large(bucket, (char *)heap_start))
		return -EBUSY;
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = bucket->classes[c];
		int err = cache ? cache_look_unused(cache) : 0;

		if (err)
			return err;
	}
	return 0;
}

static int destroy(struct slub_bucket *bucket)
{
	struct slub_bucket_stats stats;
	int err = frees_end();

	if (!err)
		err = look_unused(bucket);
	if (!err)
		return classes_destroy(bucket);
	if (err == -EBUSY && log_is_enabled() && !bucket_count(bucket, &stats))
		log_message("slub_bucket_destroy(%s): %zu blocks of %zu bytes are still "
			    "allocated, %zu of them large", bucket->name, stats.live_blocks,
			    stats.live_bytes, stats.large_blocks);
	return err;
}

SLUB_EXPORT int slub_bucket_destroy(struct slub_bucket *bucket)
{
	int err;

	if (!bucket)
		return 0;
	if (!bucket_check(bucket, "slub_bucket_destroy"))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	err = destroy(bucket);
	if (err)
		return err;
	table_leave(bucket);
	bucket->magic = 0;
	group_place_set(&bucket->place, NULL);
	slub_cache_free(&bucket_cache, bucket);
	return 0;
}

/* ---- all blocks at once ---- */

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

SLUB_EXPORT int slub_bucket_clear(struct slub_bucket *bucket)
{
	char *addr = (char *)heap_start;
	int err;

	if (!bucket_check(bucket, "slub_bucket_clear"))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	/* Else a block that was freed already would be freed once more. */
	err = frees_end();
	if (err)
		return err;
	while ((addr = next_large(bucket, addr)) != NULL) {
		fast_free(addr);
		addr += PAGE_BYTES;
	}
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = bucket_class(bucket, c);
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

SLUB_EXPORT int slub_bucket_destroy_all(struct slub_bucket *bucket)
{
	int err = bucket ? slub_bucket_clear(bucket) : 0;

	return err ? err : slub_bucket_destroy(bucket);
}

/* ---- fork ---- */

usual void bucket_fork(enum fork_step step)
{
	lock_fork(&buckets_lock, step);
}
