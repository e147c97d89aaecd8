/* SPDX-License-Identifier: MIT */
/*
 * Buckets: the size classes once more, for one subsystem or tenant.
 *
 *   up to 32 KiB   an object of the bucket's cache of that class
 *   above          a large block, whose descriptor has PAGE_BUCKET set and names
 *                  the bucket by its link
 *
 * So neither needs a header, free() need not know of buckets, and nothing is
 * counted: who wants to know walks the page map.  A large block that is freed
 * or moved by realloc() loses the mark with its descriptor's flags.
 *
 * Invariants
 *   BUCKET-1  a class is NULL, a live cache of this bucket, being made, which only who
 *             does that ends, or left so (in a child of fork), and anybody's to go on with.
 *
 * Locks: buckets_lock protects the list of buckets.
 */
#include "malloc/account.h"
#include "malloc/bucket.h"
#include "slab/guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of a large block's descriptor, beside PAGE_RUN; its `link` is the bucket. */
#define PAGE_BUCKET (1u << 26)

/* How often another thread that makes it is waited for. */
#define MAKING_WAITS_MAX 10000

#define FLAGS_ALL (SLUB_PANIC | SLUB_ACCOUNT | SLUB_RECLAIM_ACCOUNT |	\
		   SLUB_CONSISTENCY_CHECKS | SLUB_RED_ZONE |		\
		   SLUB_POISON | SLUB_STORE_USER | SLUB_TRACE |		\
		   SLUB_FAILSLAB)

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
	struct slub_cache *classes[CLASS_NR];
};

static const struct slub_cache_args cache_args = {
	.name = "slub_bucket",
	.size = sizeof(struct slub_bucket),
	.flags = SLUB_NO_MERGE,
};
static struct slub_cache bucket_cache = { .args = &cache_args };

static struct lock buckets_lock = LOCK_INIT;
static struct list buckets = { &buckets, &buckets };

static bool bucket_is_live(const struct slub_bucket *bucket)
{
	return bucket && bucket->magic == BUCKET_MAGIC;
}

static struct slub_bucket *next_bucket(const struct list *item)
{
	if (item->next == &buckets)
		return NULL;
	return container_of(item->next, struct slub_bucket, list);
}

/* ---- create ---- */

static bool name_is_valid(const char *name)
{
	size_t n = 0;

	for (; name && name[n]; n++) {
		if (n == SLUB_BUCKET_NAME_MAX || name[n] <= ' ' ||
		    name[n] > '~')
			return false;
	}
	return n > 0;
}

/* Enters @bucket in the list; false: there is one of that name. */
static bool list_enter(struct slub_bucket *bucket)
{
	struct slub_bucket *b;

	lock_acquire(&buckets_lock);
	for (b = next_bucket(&buckets); b; b = next_bucket(&b->list)) {
		if (strcmp(b->name, bucket->name) == 0)
			break;
	}
	if (!b)
		list_add_tail(&buckets, &bucket->list);
	lock_release(&buckets_lock);
	return !b;
}

/* 0, or an errno. */
static int create(const char *name, unsigned long flags, struct slub_bucket **out)
{
	struct slub_bucket *bucket;

	if (!name_is_valid(name) || flags & ~(unsigned long)FLAGS_ALL) {
		log_message("slub_bucket_create(%s): %s", name ? name : "NULL",
			    name_is_valid(name) ?
			    "unknown flag, or one that is not for buckets" :
			    "the name must have 1 to 41 printable characters "
			    "without blanks");
		return EINVAL;
	}
	if (slub_thread.locks_held || !slub_start())
		return ENOMEM;
	bucket = slub_cache_zalloc(&bucket_cache);
	if (!bucket)
		return ENOMEM;
	memcpy(bucket->name, name, strlen(name));
	bucket->flags = flags;
	if (!list_enter(bucket)) {
		slub_cache_free_slow(&bucket_cache, bucket);
		log_message("slub_bucket_create(%s): there is a bucket of that "
			    "name", name);
		return EEXIST;
	}
	bucket->magic = BUCKET_MAGIC;
	*out = bucket;
	return 0;
}

SLUB_EXPORT struct slub_bucket *slub_bucket_create(const char *name, unsigned long flags)
{
	struct slub_bucket *bucket = NULL;
	int err = create(name, flags, &bucket);

	if (err && flags & SLUB_PANIC) {
		log_always("slub_bucket_create(%s): error %d, and SLUB_PANIC "
			   "was asked for", name ? name : "NULL", err);
		abort();
	}
	if (err)
		errno = err;
	return bucket;
}

/* ---- classes ---- */

/* The number of the class for @size <= CLASS_BYTES_MAX. */
static uint32_t class_number(size_t size)
{
	return (uint32_t)(sizeclass_cache(size) - sizeclass_cache(0));
}

static struct slub_cache *class_create(const struct slub_bucket *bucket,
				       uint32_t bytes, struct slub_cache **class)
{
	char space[SLUB_CACHE_NAME_MAX + 1] = "";
	struct text name = { space, SLUB_CACHE_NAME_MAX, 0 };
	struct slub_cache_args args = {
		.name = space, .size = bytes,
		/* As aligned as malloc's own class of that size. */
		.align = min_size(bytes & -bytes, PAGE_BYTES),
		.flags = (bucket->flags & ~(unsigned long)SLUB_PANIC) |
			 SLUB_NO_MERGE,
	};

	text_printf(&name, "%s-%u", bucket->name, bytes);
	return cache_create_at(&args, class);
}

/* Another thread makes it; NULL: it failed, or it takes too long. */
static struct slub_cache *class_wait(struct slub_cache **class)
{
	for (unsigned int i = 0; i < MAKING_WAITS_MAX; i++) {
		struct slub_cache *cache = __atomic_load_n(class,
							   __ATOMIC_ACQUIRE);

		if (!cache_is_making(cache))
			return cache;
		sys_wait(i);
	}
	return NULL;
}

/* True: this thread makes the class, or goes on where the parent's thread was: *@cache. */
static bool class_begin(struct slub_cache **class, struct slub_cache **cache)
{
	do {
		if (*cache && !cache_is_left(*cache))
			return false;
	} while (!__atomic_compare_exchange_n(class, cache, cache_making(NULL), false,
					      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
	*cache = cache_made(*cache);
	return true;
}

static cold struct slub_cache *class_make(struct slub_bucket *bucket,
					  uint32_t number, uint32_t bytes)
{
	struct slub_cache **class = &bucket->classes[number];
	struct slub_cache *cache = NULL;

	errno = ENOMEM;
	if (slub_thread.locks_held)
		return NULL;
	if (!class_begin(class, &cache))
		return cache_is_making(cache) ? class_wait(class) : cache;
	if (!cache)
		cache = class_create(bucket, bytes, class);
	/* release: pairs with the acquire in class_of() */
	__atomic_store_n(class, cache, __ATOMIC_RELEASE);
	/* Behind this, for slub_bucket_group_set() may not have seen it. */
	if (cache && bucket->flags & SLUB_ACCOUNT)
		cache_place_copy(cache, &bucket->place);
	return cache;
}

/* The bucket's cache for what malloc has @model for; NULL: errno. */
static struct slub_cache *class_like(struct slub_bucket *bucket, const struct slub_cache *model)
{
	uint32_t number = (uint32_t)(model - sizeclass_cache(0));
	struct slub_cache *cache;

	cache = __atomic_load_n(&bucket->classes[number], __ATOMIC_ACQUIRE);
	if (likely(cache && !cache_is_making(cache)))
		return cache;
	return class_make(bucket, number, model->size);
}

/* ---- large blocks ---- */

static void large_mark(struct slub_bucket *bucket, void *ptr)
{
	struct page *page = page_of(ptr);

	page->link = bucket;
	page_flags_write(page, page_flags_read(page) | PAGE_BUCKET);
}

static bool large_is_of(const struct slub_bucket *bucket, const void *ptr)
{
	const struct page *page = page_of(ptr);

	return page_type(page) == TYPE_LARGE &&
	       page_flags_read(page) & PAGE_BUCKET && page->link == bucket;
}

static void *large_try(size_t size, size_t align, bool *is_zero)
{
	void *ptr;

	if (slub_thread.locks_held)
		return NULL;
	ptr = large_alloc(size, align, is_zero);
	if (ptr)
		return ptr;
	slab_shrink_all();
	page_purge(0);
	return large_alloc(size, align, is_zero);
}

static void *large_get(struct slub_bucket *bucket, size_t size, size_t align, bool *is_zero)
{
	uint32_t owner = 0;
	void *ptr = NULL;

	if (!(bucket->flags & SLUB_ACCOUNT) ||
	    !group_charge_place(&bucket->place, account_large_bytes(size),
				&owner)) {
		ptr = large_try(size, align, is_zero);
		if (!ptr && owner)
			group_uncharge(owner, account_large_bytes(size));
	}
	if (!ptr) {
		errno = ENOMEM;
		return NULL;
	}
	large_set_owner(ptr, owner);
	large_mark(bucket, ptr);
	return ptr;
}

/* Adds the large blocks of @bucket to @stats. */
static void large_count(const struct slub_bucket *bucket, struct slub_bucket_stats *stats)
{
	char *addr = (char *)heap_start;
	char *end = addr + pagemap_committed();

	for (; addr < end; addr += PAGE_BYTES) {
		if (pagemap_get(addr) != MAP_LARGE ||
		    !large_is_of(bucket, addr))
			continue;
		stats->large_blocks++;
		stats->large_bytes += large_bytes(addr);
	}
}

/* ---- alloc, free ---- */

static void *bucket_alloc(struct slub_bucket *bucket, size_t size, size_t align, bool *is_zero)
{
	const struct slub_cache *model;
	struct slub_cache *cache;

	*is_zero = false;
	if (unlikely(!bucket_is_live(bucket))) {
		log_message("slub_bucket_alloc: %p is not a bucket",
			    (void *)bucket);
		errno = EINVAL;
		return NULL;
	}
	if (unlikely(size > PTRDIFF_MAX)) {
		errno = ENOMEM;
		return NULL;
	}
	if (unlikely(size > CLASS_BYTES_MAX || align > PAGE_BYTES))
		return large_get(bucket, max_size(size, 1), align, is_zero);
	model = align == MALLOC_ALIGN ? sizeclass_cache(size) :
					sizeclass_aligned(size, align);
	cache = class_like(bucket, model);
	return likely(cache) ? slub_cache_alloc_slow(cache) : NULL;
}

SLUB_EXPORT void *slub_bucket_alloc(struct slub_bucket *bucket, size_t size)
{
	bool is_zero;

	return bucket_alloc(bucket, size, MALLOC_ALIGN, &is_zero);
}

SLUB_EXPORT void *slub_bucket_aligned_alloc(struct slub_bucket *bucket, size_t align, size_t size)
{
	bool is_zero;

	if (!is_power_of_two(align)) {
		log_message("slub_bucket_aligned_alloc: the alignment must be a "
			    "power of two, not %zu", align);
		errno = EINVAL;
		return NULL;
	}
	return bucket_alloc(bucket, size, max_size(align, MALLOC_ALIGN),
			    &is_zero);
}

SLUB_EXPORT void *slub_bucket_calloc(struct slub_bucket *bucket, size_t nr, size_t size)
{
	size_t bytes;
	bool is_zero;
	void *ptr;

	if (__builtin_mul_overflow(nr, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	ptr = bucket_alloc(bucket, bytes, MALLOC_ALIGN, &is_zero);
	if (ptr && !is_zero)
		memset(ptr, 0, bytes);
	return ptr;
}

static bool owns(const struct slub_bucket *bucket, const void *ptr)
{
	const struct slub_cache *owner = cache_of(ptr), *mine;

	if (guard_owns(ptr))
		owner = guard_cache_of(ptr);
	if (!owner)
		return pagemap_get(ptr) == MAP_LARGE &&
		       large_is_of(bucket, ptr);
	if (owner->object_size > CLASS_BYTES_MAX)
		return false;
	mine = __atomic_load_n(&bucket->classes[class_number(owner->object_size)],
			       __ATOMIC_RELAXED);
	/* Watched and sampled objects are in caches beside it. */
	return mine && (mine == owner || mine == owner->root);
}

SLUB_EXPORT void slub_bucket_free(struct slub_bucket *bucket, void *ptr)
{
	if (!ptr)
		return;
	if (unlikely(!bucket_is_live(bucket) || !owns(bucket, ptr))) {
		if (bucket_is_live(bucket))
			__atomic_fetch_add(&bucket->nr_refused, 1,
					   __ATOMIC_RELAXED);
		log_message("slub_bucket_free(%s): %p is not of this bucket; "
			    "freed where it belongs",
			    bucket_is_live(bucket) ? bucket->name : "?", ptr);
	}
	fast_free(ptr);
}

/* A large block that stays one: pages are moved, not bytes; NULL: cannot. */
static void *resize_large(struct slub_bucket *bucket, void *ptr, size_t size)
{
	void *to;

	if (pagemap_get(ptr) != MAP_LARGE || size <= CLASS_BYTES_MAX ||
	    slub_thread.locks_held)
		return NULL;
	to = large_resize(ptr, size);
	if (to)
		large_mark(bucket, to);
	return to;
}

static void *resize(struct slub_bucket *bucket, void *ptr, size_t size)
{
	size_t have = block_bytes(ptr);
	bool is_zero;
	void *to = resize_large(bucket, ptr, size);

	if (to)
		return to;
	if (pagemap_get(ptr) != MAP_LARGE && !guard_owns(ptr) &&
	    size_is_worth_keeping(have, size))
		return ptr;
	to = bucket_alloc(bucket, size, MALLOC_ALIGN, &is_zero);
	if (!to)
		return NULL;
	memcpy(to, ptr, min_size(have, size));
	fast_free(ptr);
	return to;
}

SLUB_EXPORT void *slub_bucket_realloc(struct slub_bucket *bucket, void *ptr, size_t size)
{
	if (!ptr)
		return slub_bucket_alloc(bucket, size);
	if (!bucket_is_live(bucket) || !owns(bucket, ptr)) {
		log_message("slub_bucket_realloc(%s): %p is not of this "
			    "bucket; left alone",
			    bucket_is_live(bucket) ? bucket->name : "?", ptr);
		errno = EINVAL;
		return NULL;
	}
	if (size)
		return resize(bucket, ptr, size);
	fast_free(ptr);
	return NULL;
}

/* ---- what is in it ---- */

/* Adds a cache's objects; returns 0 or -EAGAIN. */
static int class_count(struct slub_cache *cache,
		       struct slub_bucket_stats *stats)
{
	struct slub_cache_stats numbers = { 0 };
	size_t nr = 0;
	int ret = slub_cache_for_each_object(cache, object_count, &nr);

	slub_cache_stats(cache, &numbers);
	if (ret)
		nr = numbers.objects + guard_nr_objects(cache);
	stats->classes++;
	stats->live_blocks += nr;
	stats->live_bytes += nr * cache->object_size;
	stats->slab_bytes += numbers.slabs * (PAGE_BYTES << cache->order) +
			     guard_page_bytes(cache);
	return ret;
}

static int count(struct slub_bucket *bucket, struct slub_bucket_stats *stats)
{
	int ret = 0;

	memset(stats, 0, sizeof(*stats));
	large_count(bucket, stats);
	stats->live_blocks = stats->large_blocks;
	stats->live_bytes = stats->large_bytes;
	stats->refused = __atomic_load_n(&bucket->nr_refused,
					 __ATOMIC_RELAXED);
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = __atomic_load_n(&bucket->classes[c],
							   __ATOMIC_ACQUIRE);

		if (cache && !cache_is_making(cache) && class_count(cache, stats))
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
		return -EAGAIN;
	return count(bucket, stats);
}

/* ---- groups ---- */

SLUB_EXPORT int slub_bucket_group_set(struct slub_bucket *bucket,
				      struct slub_group *group)
{
	if (!bucket_is_live(bucket) || !(bucket->flags & SLUB_ACCOUNT) ||
	    slub_thread.locks_held || (group && !group_is_good(group)))
		return -EINVAL;
	group_place_set(&bucket->place, group);
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = __atomic_load_n(&bucket->classes[c],
							   __ATOMIC_ACQUIRE);

		if (cache && !cache_is_making(cache))
			cache_place_copy(cache, &bucket->place);
	}
	return 0;
}

/* ---- destroy ---- */

/* Destroys its caches until one is still in use. */
static int classes_destroy(struct slub_bucket *bucket)
{
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		struct slub_cache *cache = cache_made(bucket->classes[c]);
		int err = cache ? slub_cache_destroy(cache) : 0;

		if (err)
			return err;
		bucket->classes[c] = NULL;
	}
	return 0;
}

static int has_blocks(void *bucket)
{
	struct slub_bucket_stats stats;
	int err = count(bucket, &stats);

	return err ? err : stats.live_blocks != 0;
}

static int destroy(struct slub_bucket *bucket)
{
	struct slub_bucket_stats stats;
	int err = wait_unused(has_blocks, bucket);

	if (!err)
		return classes_destroy(bucket);
	if (err == -EBUSY && !count(bucket, &stats))
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
	if (!bucket_is_live(bucket)) {
		log_message("slub_bucket_destroy: %p is not a bucket",
			    (void *)bucket);
		return -EINVAL;
	}
	if (slub_thread.locks_held)
		return -EAGAIN;
	err = destroy(bucket);
	if (err)
		return err;
	lock_acquire(&buckets_lock);
	list_remove(&bucket->list);
	lock_release(&buckets_lock);
	bucket->magic = 0;
	group_place_set(&bucket->place, NULL);
	slub_cache_free_slow(&bucket_cache, bucket);
	return 0;
}

/* ---- fork ---- */

usual void bucket_fork_prepare(void)
{
	lock_acquire_for_fork(&buckets_lock);
}

/* Who was making a cache in the parent does not go on in the child. */
usual void bucket_fork_finish(bool in_child)
{
	struct slub_bucket *b = in_child ? next_bucket(&buckets) : NULL;

	for (; b; b = next_bucket(&b->list)) {
		for (uint32_t c = 0; c < CLASS_NR; c++) {
			if (cache_is_making(b->classes[c]))
				b->classes[c] = cache_left(b->classes[c]);
		}
	}
	lock_release_after_fork(&buckets_lock, in_child);
}
