/* SPDX-License-Identifier: MIT */
/*
 * The size that operator delete and free_sized() are told: whether it can be
 * the one that was asked for.  It is not needed to free the block, so a wrong one
 * does no harm here; but it is a bug of the program, mostly a class without a
 * virtual destructor, or another type.
 *
 * Watched and guarded objects know what was asked for; of others it is known
 * what their class could have been asked for, and only a free that leaves the
 * fast path looks, but in the hardened build.
 */
#include "malloc/malloc.h"
#include "slab/debug.h"
#include "slab/guard.h"
#include "slab/hardened.h"

/* realloc() leaves room in a block that grows by small steps. */
static bool is_what_was_asked(size_t asked, size_t told)
{
	return told == asked ||
	       (told >= REALLOC_ROOM_MIN && size_with_room(told) == asked);
}

/* In the hardened build.  A tail that is damaged is for the free itself to see. */
static bool is_what_tail_says(const struct slub_cache *cache, const void *ptr,
			      size_t told)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t asked = tail_read(g, tail_of(g, ptr));

	/* What C++ asks for when nothing is asked for is 1. */
	return asked > g->tail || told == asked || (!told && asked == 1);
}

/* realloc() leaves a block where it is as long as half of it is in use. */
static bool fits_class(const struct slub_cache *cache, const void *ptr,
		       size_t told, size_t align)
{
	if (SLUB_CONFIG_HARDENED && cache->is_internal && !cache->debug &&
	    slot_check(cache->list_slot)->tail)
		return is_what_tail_says(cache, ptr, told);
	if (told > cache->object_size)
		return false;
	return align > MALLOC_ALIGN ||
	       size_is_worth_keeping(cache->object_size, told);
}

static bool fits_large(const void *ptr, size_t told, size_t align)
{
	size_t have = large_bytes(ptr);

	if (SLUB_CONFIG_HARDENED)
		return told == large_asked(ptr);
	if (told > have)
		return false;
	return align > PAGE_BYTES ||
	       (told > CLASS_BYTES_MAX &&
		size_with_room(told) + PAGE_BYTES >= have);
}

static cold void complain(struct slub_cache *cache, const void *ptr,
			  size_t told, size_t have)
{
	static _Atomic bool said;

	if (SLUB_CONFIG_HARDENED && !cache)
		misuse_found(MISUSE_SIZE, "free", ptr, "large block");
	if (cache) {
		stat_add(cache, STAT_WRONG_SIZE);
		if (SLUB_CONFIG_HARDENED && !cache->debug)
			hardened_free_size(cache, ptr);
		else
			debug_free_size(cache, ptr, told, have);
	}
	if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		log_message("sized free: %p has room for %zu bytes, and %zu "
			    "were said; freed by its own size (further ones "
			    "are not reported)", ptr, have, told);
}

void sized_check(void *ptr, size_t told, size_t align)
{
	struct slub_cache *cache = cache_of(ptr);
	size_t have;

	if (cache && likely(!cache->debug)) {
		if (unlikely(!fits_class(cache, ptr, told, align)))
			complain(cache, ptr, told, cache->object_size);
	} else if (cache && debug_knows_size(cache, ptr)) {
		have = cache_object_bytes(cache, ptr);
		if (!is_what_was_asked(have, told))
			complain(cache, ptr, told, have);
	} else if (cache) {
		if (!fits_class(cache, ptr, told, align))
			complain(cache, ptr, told, cache->object_size);
	} else if (guard_owns(ptr)) {
		have = guard_bytes(ptr);
		/* A new leaves no room. */
		if (have && (guard_was_looked_at(ptr) ?
				     told != have :
				     !is_what_was_asked(have, told)))
			guard_free_size(ptr, told);
	} else if (pagemap_get(ptr) == MAP_LARGE &&
		   !fits_large(ptr, told, align)) {
		complain(NULL, ptr, told, large_bytes(ptr));
	}
}
