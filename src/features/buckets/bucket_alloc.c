/* SPDX-License-Identifier: MIT */
/*
 * What programs call for memory of a bucket, and to free it there.
 *
 * Its caches are made when they are first needed.  Of two threads that need the same one the
 * first makes it, while the second waits for its turn to make one (cache_create_at()).  The
 * descriptor of a large block has PAGE_BUCKET set, and names the bucket; a block that is freed,
 * or moved by realloc(), loses the mark with its descriptor's flags.
 */
#include "features/buckets/bucket_internal.h"
#include "features/reclaim/reclaim.h"
#include "core/slab/key.h"
#include "features/groups/owned.h"
#include "features/guard/guard.h"
#include "features/typed/typed.h"

#include <errno.h>
#include <string.h>

/* ---- up to 32 KiB: classes ---- */

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

static cold struct slub_cache *class_make(struct slub_bucket *bucket,
					  uint32_t number)
{
	struct slub_cache *cache;

	errno = ENOMEM;
	if (slub_thread.locks_held)
		return NULL;
	cache = class_create(bucket, number);
	/*
	 * The place is copied after the store, since slub_bucket_group_set() may have missed
	 * this cache.  seq_cst: pairs with classes_place(); one of the two sees the
	 * other's store.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (cache && bucket->flags & SLUB_CACHE_ACCOUNT)
		cache_place_copy(cache, &bucket->place);
	return cache;
}

/* ---- above ---- */

static void *mark(struct slub_bucket *bucket, void *ptr)
{
	struct page *page = page_of(ptr);

	__atomic_store_n(&bucket->had_large, true, __ATOMIC_RELAXED);
	page->bucket = bucket;
	page_flags_write(page, page_flags_read(page) | PAGE_BUCKET);
	return ptr;
}

bool bucket_large_owns(const struct slub_bucket *bucket, const void *ptr)
{
	const struct page *page;

	if (pagemap_get(ptr) != MAP_LARGE)
		return false;
	page = page_of(ptr);
	return page_type(page) == TYPE_LARGE &&
	       page_flags_read(page) & PAGE_BUCKET && page->bucket == bucket;
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

static void *alloc_large(struct slub_bucket *bucket, size_t size, size_t align,
			 bool *is_zero)
{
	uint32_t owner = 0;
	void *ptr = NULL;

	if (large_is_possible(size, align) &&
	    (!(bucket->flags & SLUB_CACHE_ACCOUNT) ||
	     !group_charge_place(&bucket->place, large_bytes_for(size),
				 &owner))) {
		ptr = large_try(size, align, is_zero);
		if (!ptr && owner)
			group_uncharge(owner, large_bytes_for(size));
	}
	if (!ptr)
		return fail_with(ENOMEM);
	large_set_owner(ptr, owner);
	return mark(bucket, ptr);
}

/* ---- both ---- */

/* What is not watched is not told of at its free. */
static cold void object_use(void *object, size_t size)
{
	const struct slub_cache *cache = cache_of(object);

	if (cache && cache->debug)
		sanitizer_tell_use(object, size, cache->object_size);
}

static void *object_alloc(struct slub_cache *cache, size_t size)
{
	void *object = slub_cache_alloc(cache);

	if (unlikely(sanitizer.is_told) && object)
		object_use(object, size);
	return object;
}

static void *bucket_alloc(struct slub_bucket *bucket, size_t size, size_t align,
			  bool *is_zero)
{
	struct slub_cache *cache;
	uint32_t number;

	*is_zero = false;
	if (!bucket_check(bucket, "slub_bucket_alloc"))
		return fail_with(EINVAL);
	if (unlikely(size > PTRDIFF_MAX))
		return fail_with(ENOMEM);
	if (unlikely(size > CLASS_BYTES_MAX || align > PAGE_BYTES))
		return alloc_large(bucket, max_size(size, 1), align, is_zero);
	number = sizeclass_number(sizeclass_fitting(size, align));
	cache = bucket_class(bucket, number);
	if (unlikely(!cache))
		cache = class_make(bucket, number);
	return likely(cache) ? object_alloc(cache, size) : NULL;
}

SLUB_EXPORT void *slub_bucket_alloc(struct slub_bucket *bucket, size_t size)
{
	bool is_zero;

	return bucket_alloc(bucket, size, MALLOC_ALIGN, &is_zero);
}

SLUB_EXPORT void *slub_bucket_aligned_alloc(struct slub_bucket *bucket,
					    size_t align, size_t size)
{
	bool is_zero;

	if (!is_power_of_two(align)) {
		log_message("slub_bucket_aligned_alloc: the alignment must be a "
			    "power of two, not %zu", align);
		return fail_with(EINVAL);
	}
	return bucket_alloc(bucket, size, max_size(align, MALLOC_ALIGN),
			    &is_zero);
}

SLUB_EXPORT void *slub_bucket_calloc(struct slub_bucket *bucket, size_t nr,
				     size_t size)
{
	size_t bytes;
	bool is_zero;
	void *ptr;

	if (__builtin_mul_overflow(nr, size, &bytes))
		return fail_with(ENOMEM);
	ptr = bucket_alloc(bucket, bytes, MALLOC_ALIGN, &is_zero);
	if (ptr && !is_zero)
		large_zero(ptr, bytes);
	sanitizer_written(ptr, ptr ? bytes : 0);
	return ptr;
}

static bool owns(const struct slub_bucket *bucket, const void *ptr)
{
	const struct slub_cache *owner = cache_of(ptr), *mine;

	if (guard_owns(ptr))
		owner = guard_cache_of(ptr);
	if (!owner)
		return bucket_large_owns(bucket, ptr);
	if (owner->object_size > CLASS_BYTES_MAX)
		return false;
	mine = bucket_class(bucket,
			    sizeclass_number(sizeclass_cache(owner->object_size)));
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

static void *resize(struct slub_bucket *bucket, void *ptr, size_t size)
{
	bool is_zero, is_large = pagemap_get(ptr) == MAP_LARGE;
	size_t have = block_bytes(ptr);
	void *to = NULL;

	/* A large block that stays one: pages are moved, not bytes. */
	if (is_large && size > CLASS_BYTES_MAX && !slub_thread.locks_held)
		to = large_resize(ptr, size);
	if (to)
		return mark(bucket, to);
	if (!is_large && !guard_owns(ptr) && size_is_worth_keeping(have, size)) {
		if (unlikely(sanitizer.is_told))
			object_use(ptr, size);
		return ptr;
	}
	to = bucket_alloc(bucket, size, MALLOC_ALIGN, &is_zero);
	if (!to)
		return NULL;
	memcpy(to, ptr, min_size(have, size));
	sanitizer_written(to, min_size(have, size));
	fast_free(ptr);
	return to;
}

SLUB_EXPORT void *slub_bucket_realloc(struct slub_bucket *bucket, void *ptr,
				      size_t size)
{
	if (!ptr)
		return slub_bucket_alloc(bucket, size);
	if (!bucket_is_live(bucket) || !owns(bucket, ptr)) {
		log_message("slub_bucket_realloc(%s): %p is not of this "
			    "bucket; left alone",
			    bucket_is_live(bucket) ? bucket->name : "?", ptr);
		return fail_with(EINVAL);
	}
	if (size)
		return resize(bucket, ptr, size);
	fast_free(ptr);
	return NULL;
}
