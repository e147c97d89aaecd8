/* SPDX-License-Identifier: MIT */
/*
 * A bucket's large blocks: what is too large for a class, or for its alignment.  The descriptor
 * has PAGE_BUCKET set, and names the bucket; one that is freed, or moved by realloc(), loses
 * the mark with its descriptor's flags.
 */
#include "malloc/bucket/bucket_internal.h"
#include "reclaim/reclaim.h"

#include <errno.h>

static void bucket_mark(struct slub_bucket *bucket, void *ptr)
{
	struct page *page = page_of(ptr);

	page->bucket = bucket;
	page_flags_write(page, page_flags_read(page) | PAGE_BUCKET);
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

void *bucket_large_alloc(struct slub_bucket *bucket, size_t size, size_t align,
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
	if (!ptr) {
		errno = ENOMEM;
		return NULL;
	}
	large_set_owner(ptr, owner);
	bucket_mark(bucket, ptr);
	return ptr;
}

void *bucket_large_resize(struct slub_bucket *bucket, void *ptr, size_t size)
{
	void *to;

	if (pagemap_get(ptr) != MAP_LARGE || size <= CLASS_BYTES_MAX ||
	    slub_thread.locks_held)
		return NULL;
	to = large_resize(ptr, size);
	if (to)
		bucket_mark(bucket, to);
	return to;
}

void bucket_large_clear(const struct slub_bucket *bucket)
{
	char *addr = (char *)heap_start;
	char *end = addr + pagemap_committed();

	for (; addr < end; addr += PAGE_BYTES) {
		if (bucket_large_owns(bucket, addr))
			fast_free(addr);
	}
}

void bucket_large_count(const struct slub_bucket *bucket,
			struct slub_bucket_stats *stats)
{
	char *addr = (char *)heap_start;
	char *end = addr + pagemap_committed();

	for (; addr < end; addr += PAGE_BYTES) {
		if (!bucket_large_owns(bucket, addr))
			continue;
		stats->large_blocks++;
		stats->large_bytes += large_bytes(addr);
	}
}
