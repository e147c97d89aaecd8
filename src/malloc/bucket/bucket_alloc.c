/* SPDX-License-Identifier: MIT */
/* What programs call for memory of a bucket, and to free it there. */
#include "malloc/bucket/bucket_internal.h"
#include "slab/guard/guard.h"

#include <errno.h>
#include <string.h>

static void *bucket_alloc(struct slub_bucket *bucket, size_t size, size_t align,
			  bool *is_zero)
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
		return bucket_large_alloc(bucket, max_size(size, 1), align,
					  is_zero);
	model = sizeclass_fitting(size, align);
	cache = bucket_class(bucket, model);
	return likely(cache) ? slub_cache_alloc(cache) : NULL;
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
		errno = EINVAL;
		return NULL;
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
		return bucket_large_owns(bucket, ptr);
	mine = bucket_class_for(bucket, owner);
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
	size_t have = block_bytes(ptr);
	bool is_zero;
	void *to = bucket_large_resize(bucket, ptr, size);

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

SLUB_EXPORT void *slub_bucket_realloc(struct slub_bucket *bucket, void *ptr,
				      size_t size)
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
