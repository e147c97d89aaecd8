/* SPDX-License-Identifier: MIT */
/*
 * Can the size that operator delete and free_sized() are told be the one that was asked for?
 * It is not needed to free the block, but a wrong one is a bug of the program, mostly a class
 * without a virtual destructor.
 *
 * Watched and guarded objects know what was asked for; of others it is known what their class
 * could have been asked for.  Frees on the fast path are not looked at, but in the hardened
 * build and where an alignment is told too.
 */
#include "features/misuse/misuse.h"
#include "core/malloc/malloc.h"
#include "features/watch/watch.h"
#include "features/guard/guard.h"

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
	size_t asked = tail_read(g, ptr);

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
	size_t have;

	if (SLUB_CONFIG_HARDENED)
		return told == large_asked(ptr);
	have = large_bytes(ptr);
	if (told > have)
		return false;
	return align > PAGE_BYTES ||
	       (told > CLASS_BYTES_MAX &&
		size_with_room(told) + PAGE_BYTES >= have);
}

/*
 * More than the block has, told with an alignment: the caller takes the block for something
 * else.  Without an alignment only frees that leave the fast path are checked.  A program
 * that ends at one such free in some dozens would be a riddle, so that is only reported.
 */
static bool is_certain(size_t told, size_t have, size_t align)
{
	return SLUB_CONFIG_CHECKS && align && told > have;
}

static cold bool misuse_size(const void *ptr, const char *whose, size_t told, size_t have)
{
	char where[160];
	struct text text = { where, sizeof(where), 0 };

	text_printf(&text, "%s, has room for %zu bytes, and %zu were said", whose, have, told);
	misuse_found(MISUSE_SIZE, "free", ptr, where);
	return false;
}

/* False: the block is to be left alone; so are those below. */
static cold bool complain(struct slub_cache *cache, const void *ptr,
			  size_t told, size_t have, size_t align)
{
	if (cache)
		stat_add(cache, STAT_WRONG_SIZE);
	log_once("sized free: %p has room for %zu bytes, and %zu were said; freed "
		 "by its own size (further ones are not reported)", ptr, have, told);
	if ((SLUB_CONFIG_HARDENED || is_certain(told, have, align)) &&
	    !(cache && cache->debug))
		return misuse_size(ptr, cache ? cache->name : "large block", told, have);
	if (cache)
		debug_free_size(cache, ptr, told, have);
	return true;
}

static bool check_guarded(void *ptr, size_t told, size_t align)
{
	size_t have = guard_bytes(ptr);

	/* A new leaves no room. */
	if (!have || (guard_was_looked_at(ptr) ? told == have :
						 is_what_was_asked(have, told)))
		return true;
	guard_free_size(ptr);
	/* Letters report and go on. */
	if (option_text(OPTION_debug) ||
	    !(SLUB_CONFIG_HARDENED || is_certain(told, have, align)))
		return true;
	return misuse_size(ptr, "guarded", told, have);
}

bool sized_check(void *ptr, size_t told, size_t align)
{
	struct slub_cache *cache = cache_of(ptr);
	size_t have;

	if (cache && cache->debug && debug_knows_size(cache, ptr)) {
		have = cache_object_bytes(cache, ptr);
		if (!is_what_was_asked(have, told))
			return complain(cache, ptr, told, have, align);
	} else if (cache) {
		if (unlikely(!fits_class(cache, ptr, told, align)))
			return complain(cache, ptr, told, cache->object_size,
					align);
	} else if (guard_owns(ptr)) {
		return check_guarded(ptr, told, align);
	} else if (pagemap_get(ptr) == MAP_LARGE &&
		   /* Elsewhere in it: for the free itself to see. */
		   !((uintptr_t)ptr % PAGE_BYTES) &&
		   !fits_large(ptr, told, align)) {
		return complain(NULL, ptr, told, large_bytes(ptr), align);
	}
	return true;
}
