/* SPDX-License-Identifier: MIT */
/* The shape of a cache, from what a program asks for. */
#include "core/slab/key.h"
#include "features/profile/sample.h"
#include "features/watch/watch.h"
#include "features/typed/typed.h"

static size_t choose_align(const struct slub_cache_args *args)
{
	size_t align = max_size(args->align, sizeof(void *));
	size_t line = 64;

	if (!(args->flags & SLUB_CACHE_HWCACHE_ALIGN))
		return align;
	while (args->size <= line / 2)
		line /= 2;
	return max_size(align, line);
}

/*
 * What lies behind @bytes that are kept: a link, and a check word where an object gets no more than
 * a word larger by it.  With an alignment of 64 that may be 64 bytes.
 */
static size_t link_bytes(const struct slub_cache *cache, size_t bytes)
{
	size_t plain = round_up(bytes + sizeof(void *), cache->align);
	size_t keyed = round_up(bytes + KEY_BYTES_MIN, cache->align);

	return KEYS && keyed - plain <= sizeof(void *) && keyed < PAGE_BYTES ?
		       KEY_BYTES_MIN : sizeof(void *);
}

/*
 * Where the link of a free object lies: in its first word; where the caller
 * says; behind the object if nothing of it may be touched; or, for objects of
 * a page or more, in the table of pages.  Links in objects have a check word behind them, but not
 * those of the caller's: an object of 8 bytes gets 8 more (an overflow by a zero byte made alloc
 * return a live one, 18 of 20 layouts).
 */
static void choose_link(struct slub_cache *cache,
			const struct slub_cache_args *args)
{
	size_t bytes = round_up(max_size(args->size, 1), sizeof(void *));

	cache->link = 0;
	if (args->has_free_pointer_offset) {
		cache->link = args->free_pointer_offset;
	} else if ((args->ctor || args->flags & SLUB_CACHE_TYPESAFE_BY_RCU) &&
		   round_up(bytes, cache->align) < PAGE_BYTES) {
		cache->link = bytes;
		bytes += link_bytes(cache, bytes);
	} else if (KEYS) {
		bytes = max_size(bytes, KEY_BYTES_MIN);
	}
	cache_sizes_set(cache, round_up(bytes, cache->align), args->size);
	if (cache->size >= PAGE_BYTES)
		cache->link = page_link_bias;
}

bool cache_is_like(const struct slub_cache *cache,
		   const struct slub_cache_args *args)
{
	return cache->object_size == args->size &&
	       cache->align == choose_align(args) &&
	       cache->flags == args->flags && cache->ctor == args->ctor &&
	       cache->useroffset == args->useroffset &&
	       cache->usersize == args->usersize &&
	       !args->has_free_pointer_offset && !args->sheaf_length;
}

int cache_make(struct slub_cache *cache, const struct slub_cache_args *args)
{
	int err;

	cache_name_set(cache, args->name);
	cache->align = (uint32_t)choose_align(args);
	cache->flags = (uint32_t)args->flags;
	cache->ctor = args->ctor;
	cache->useroffset = (uint32_t)args->useroffset;
	cache->usersize = (uint32_t)args->usersize;
	cache->has_sheaf_length = args->sheaf_length;
	__atomic_store_n(&cache->is_internal, false, __ATOMIC_RELAXED);
	cache_accounted_set(cache, cache->flags & SLUB_CACHE_ACCOUNT);
	choose_link(cache, args);
	cache->has_keys = cache_may_have_keys(cache);
	err = cache_publish(cache, args->sheaf_length);
	if (err)
		return err;
	debug_cache_made(cache);
	sample_cache_made(cache);
	return err;
}
