/* SPDX-License-Identifier: MIT */
/*
 * The hardened build (-DSLUB_HARDENED=ON): what is checked when objects come and
 * go, also on the fast paths.  Links are encoded (arch/slot.h), objects end in a
 * tail, and an object that is handed out loses its link.
 *
 *   at alloc   the link of the head must decode to an address; what is behind
 *              a link that does not is given up (leaked), and that is reported;
 *              what a free has filled with zeros is so still
 *   at free    the pointer is that of an object, by the geometry of its slab;
 *              the object has no link, or it is free already; its tail, and that
 *              of the object before it, are as they were written; it is the
 *              call that belongs to the one that allocated
 *   at exit    the tails are as they were written
 *   in chains  as at alloc, and what follows lies in a slab of the same cache
 *   new slabs  objects are linked in random order
 *
 * An object whose link is in its page's descriptor has LINK_USED there while
 * it is allocated.
 *
 * Nothing of this is compiled otherwise: callers ask SLUB_CONFIG_HARDENED.
 */
#ifndef SLUB_HARDENED_H
#define SLUB_HARDENED_H

#include "debug/debug.h"
#include "debug/misuse.h"
#include "slab/core/key.h"

/* ---- the tail ---- */

/*
 * The tail of an object of the hardened build: its last word, which says how many bytes of
 * the object its user asked for, and which one can write only by a secret.
 *
 *   0                    bytes            tail        tail + 8
 *   +----------------------+----------------+------------+
 *   | what was asked for   | pad, 0 to ...  | tail       |
 *   +----------------------+----------------+------------+
 *
 *   tail  bytes in the highest 16 bits, the call that asked for them in the two bits 46 and
 *         47, 0 below; all of it encoded with the secret of the cache and the address of the
 *         tail, as links are, and with the lowest bit set
 *   pad   the first 8 bytes of it, or all of it if it is shorter, are TAIL_PAD
 *
 * So the first byte that is written beyond the end is one of the pad or the lowest one of the
 * tail, which is never 0: a string's end that does not fit is seen too.
 *
 * A tail stays when its object is freed, and says then how much of the object was filled with
 * zeros.  It is one aligned word, so whoever looks at a neighbour's finds the old or the new
 * one.  One that is 0 was never written: the object is new, or its pages were given back.
 *
 * Where the first word of a free object is its link and less than 8 bytes were asked for, that
 * word has a part of the pad, which the link overwrites: hardened_unlinked() puts it back.
 */
#define TAIL_BYTES ((size_t)8)
#define TAIL_PAD 0xb5b5b5b5b5b5b5b5ull
#define TAIL_SIZE_SHIFT 48
/*
 * The call, as tails are read: rotated, so that a call that is not the expected one makes a
 * number of bytes that no object has.  malloc's is 0, so that its tails are sizes alone.
 */
#define TAIL_CALL(call) ((uint64_t)((call) ^ CALL_MALLOC) << 62)
#define TAIL_CALL_MASK TAIL_CALL(CALL_MALLOC ^ 3)
/* For frees that belong to no call in particular. */
#define TAIL_CALL_ANY UINT64_MAX

/*
 * struct slot_check (arch/slot.h), of the slabs whose pages name the slot: is an
 * offset that of an object?
 */

/* A multiple of the size times 2^64 / size has no fraction to speak of.  Magic 0: never. */
static always_inline bool is_at_object(const struct slot_check *g,
				       const void *ptr)
{
	uint64_t offset = (uint32_t)(uintptr_t)ptr & g->mask;

	return offset * g->magic < g->magic;
}

static always_inline uint64_t *tail_of(const struct slot_check *g,
				       const void *object)
{
	return (uint64_t *)((char *)object + g->tail);
}

static always_inline uint64_t tail_key(const struct slot_check *g,
				       const uint64_t *place)
{
	return (g->secret ^ __builtin_bswap64((uintptr_t)place)) | 1;
}

/*
 * What was asked for, by the tail at @place, and the call in the two highest bits; below them
 * more than any object has: it is none.
 */
static always_inline size_t tail_read_all(const struct slot_check *g,
					  const uint64_t *place)
{
	uint64_t word = __atomic_load_n(place, __ATOMIC_RELAXED) ^
			tail_key(g, place);

	/* Rotated, so that what must be 0 makes a number that is too large. */
	return word << 16 | word >> TAIL_SIZE_SHIFT;
}

/* The same, whatever the call was. */
static always_inline size_t tail_read(const struct slot_check *g,
				      const uint64_t *place)
{
	return tail_read_all(g, place) << 2 >> 2;
}

/* @object, which malloc has just handed out, is asked for by @call: TAIL_CALL(). */
static always_inline void tail_call_add(const struct slot_check *g,
					void *object, uint64_t call)
{
	uint64_t *place = tail_of(g, object);

	__atomic_store_n(place, *place ^ call >> 16, __ATOMIC_RELAXED);
}

static always_inline uint64_t word_load(const void *at)
{
	uint64_t word;

	__builtin_memcpy(&word, at, sizeof(word));
	return word;
}

static always_inline void word_store(void *at, uint64_t word)
{
	__builtin_memcpy(at, &word, sizeof(word));
}

/*
 * The pad without a branch, for how long it is nobody can foretell: the word at pad_at() has
 * bytes of the user's, as many as pad_shift() has bits, and then the pad.
 */
static always_inline size_t pad_at(const struct slot_check *g, size_t bytes)
{
	return min_size(bytes, g->tail - 8);
}

/* @word without its first @n bytes, in two steps: there may be 8 of them. */
static always_inline uint64_t word_behind(uint64_t word, size_t n)
{
	return word >> 4 * n >> 4 * n;
}

/* Writes the pad behind the first @bytes of @object. */
static always_inline void pad_write(const struct slot_check *g, char *object,
				    size_t bytes)
{
	size_t at = pad_at(g, bytes), n = bytes - at;
	uint64_t pad = TAIL_PAD << 4 * n << 4 * n;
	uint64_t user = ~(UINT64_MAX << 4 * n << 4 * n);

	word_store(object + at, (word_load(object + at) & user) | pad);
}

static always_inline bool pad_is_right(const struct slot_check *g,
				       const char *object, size_t bytes)
{
	size_t at = pad_at(g, bytes);

	return !word_behind(word_load(object + at) ^ TAIL_PAD, bytes - at);
}

/* @bytes of @object are its user's from here on. */
static always_inline void tail_write(const struct slot_check *g, void *object,
				     size_t bytes)
{
	uint64_t *place = tail_of(g, object);

	pad_write(g, (char *)object, bytes);
	__atomic_store_n(place, (uint64_t)bytes << TAIL_SIZE_SHIFT ^
				tail_key(g, place), __ATOMIC_RELAXED);
}

/* Objects of a page or more: the pages of free ones may go back to the system. */
static always_inline bool tail_is_far(const struct slot_check *g)
{
	return g->tail >= LINK_OFFSET_MAX - TAIL_BYTES;
}

/*
 * Has the object that ends where @object begins a tail?  Of the first one of a slab nobody
 * knows what is in front of it; a free one of a page or more may have lost its tail.
 */
static always_inline bool tail_before_is_right(const struct slot_check *g,
					       const void *object)
{
	const uint64_t *place = (const uint64_t *)object - 1;

	return !((uint32_t)(uintptr_t)object & g->mask) || tail_is_far(g) ||
	       tail_read(g, place) <= g->tail;
}

typedef uint64_t word_pair __attribute__((vector_size(16), aligned(1),
					  may_alias));

/* hardened.c: the same for more than FILL_INLINE bytes */
#define FILL_INLINE 128
void hardened_fill_far(void *object, size_t bytes);
bool hardened_fill_far_is_right(const char *object, size_t bytes);

/*
 * The first @bytes of the object at @start, which has 8 at the least, become 0.  From both
 * ends: of the few branches most go the same way for a size, and a loop's last one does not.
 */
static always_inline void fill_write(void *start, size_t bytes)
{
	const word_pair zero = { 0, 0 };
	char *object = (char *)start, *end = object + bytes;

	if (bytes >= 64) {
		if (unlikely(bytes > FILL_INLINE)) {
			hardened_fill_far(object, bytes);
			return;
		}
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			*(word_pair *)(object + 16 * i) = zero;
			*(word_pair *)(end - 16 * i - 16) = zero;
		}
	} else if (bytes >= 32) {
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++) {
			*(word_pair *)(object + 16 * i) = zero;
			*(word_pair *)(end - 16 * i - 16) = zero;
		}
	} else if (bytes >= 16) {
		*(word_pair *)object = zero;
		*(word_pair *)(end - 16) = zero;
	} else if (bytes >= 8) {
		word_store(object, 0);
		word_store(end - 8, 0);
	} else {
		word_store(object, word_load(object) >> 8 * bytes << 8 * bytes);
	}
}

/* What is not 0 of the @n pairs from @at on, and of the @n that end at @end. */
static always_inline word_pair pairs_of(const char *at, const char *end, int n)
{
	word_pair all = { 0, 0 };

#pragma GCC unroll 4
	for (int i = 0; i < n; i++)
		all |= *(const word_pair *)(at + 16 * i) |
		       *(const word_pair *)(end - 16 * i - 16);
	return all;
}

/*
 * Are they, but for the first word?  That was a link, and has just been written: a wider load
 * of it would wait for the store to reach the cache (measured: 314 -> 204 ns for a free and a
 * malloc at random among 20,000).
 */
static always_inline bool fill_is_right(const char *object, size_t bytes)
{
	const char *at = object + 8, *end = object + bytes;
	word_pair all;

	if (bytes >= 8 + 64) {
		if (unlikely(bytes > FILL_INLINE))
			return hardened_fill_far_is_right(object, bytes);
		all = pairs_of(at, end, 4);
	} else if (bytes >= 8 + 32) {
		all = pairs_of(at, end, 2);
	} else if (bytes >= 8 + 16) {
		all = pairs_of(at, end, 1);
	} else if (bytes >= 16) {
		return !(word_load(at) | word_load(end - 8));
	} else {
		return bytes <= 8 ||
		       !(word_load(at) << (128 - 8 * bytes));
	}
	return !(all[0] | all[1]);
}

/* hardened.c: a free object, its tail, or the link that led to it is not as it was left. */
cold void hardened_written(const struct slot_check *g, void *object);

/*
 * @object, which has lost its link, becomes its user's, who asked for @bytes; but for a pad
 * and its tail, what of it was filled is looked at.
 */
static always_inline void hardened_hand_out(const struct slot_check *g,
					    void *object, size_t bytes)
{
	size_t had = tail_read(g, tail_of(g, object));

	if (unlikely(!is_at_object(g, object) || had > g->tail ||
		     !fill_is_right((const char *)object, min_size(had, g->fill))))
		hardened_written(g, object);
	tail_write(g, object, bytes);
}

/* ---- caches ---- */

/* Before any cache is made. */
void hardened_init(void);
void hardened_cache_made(const struct slub_cache *cache);
void hardened_cache_unmade(const struct slub_cache *cache);
/* Lists at @slot will have objects of @cache. */
void hardened_slot_made(const struct slub_cache *cache, uint32_t slot);

/* ---- free ---- */

/*
 * What is so of every object that is allocated and has a tail; then it is filled.  @call:
 * TAIL_CALL() of what must have allocated it, or TAIL_CALL_ANY.
 */
static always_inline bool may_push(const struct slot_check *g, void *ptr,
				   uint64_t call)
{
	size_t bytes = __builtin_constant_p(call) && call == TAIL_CALL_ANY ?
			       tail_read(g, tail_of(g, ptr)) :
			       tail_read_all(g, tail_of(g, ptr)) ^ call;

	if (unlikely(bytes > g->tail || !pad_is_right(g, (char *)ptr, bytes) ||
		     !tail_before_is_right(g, ptr)))
		return false;
	fill_write(ptr, min_size(bytes, g->fill));
	return true;
}

/* May a free push @ptr, whose link is its first word, without a closer look? */
static always_inline bool hardened_may_push(void *ptr, uintptr_t slot,
					    uint64_t call)
{
	const struct slot_check *g = slot_check(slot);

	return likely(is_at_object(g, ptr) &&
		      !link_is_plausible(link_decode(slot, ptr,
						     *(void **)ptr))) &&
	       may_push(g, ptr, call);
}

/* The same for one whose link is in its page's descriptor. */
static always_inline bool hardened_may_push_page(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);

	return likely(is_at_object(g, ptr) &&
		      *page_link(page_link_bias, ptr) == LINK_USED) &&
	       may_push(g, ptr, TAIL_CALL_ANY);
}

/*
 * A push was aborted, and @ptr, whose link is its first word, is in no list: it has to be
 * as it was, but for the fill.
 */
static always_inline void hardened_unlinked(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);
	size_t bytes = tail_read(g, tail_of(g, ptr));

	word_store(ptr, bytes < 8 ? TAIL_PAD << 8 * bytes : 0);
}

/* @object of @cache was in a list of frees that had to wait, as its user left it. */
static inline void hardened_postponed(const struct slub_cache *cache,
				      void *object)
{
	if (!link_is_in_object(cache->link))
		*object_link(cache->link, object) = LINK_USED;
	else if (!cache->link && slot_check(cache->list_slot)->tail)
		hardened_unlinked(object, cache->list_slot);
	else
		*object_link(cache->link, object) = NULL;
}

/*
 * Is @object of @cache one that a program may have, and nothing written around it?  False:
 * it is not, and was reported as what @call has found.
 */
bool hardened_check(const struct slub_cache *cache, void *object,
		    const char *call);
/*
 * May @call (TAIL_CALL()) free @ptr, as far as what allocated it is known?  False: it may not,
 * and was reported as what @name has found, or the function of @call if that is NULL.  What
 * else may be wrong with @ptr is for others to see.
 */
bool hardened_may_call(const void *ptr, uint64_t call, const char *name);
/* The same of realloc(), and @ptr, an object of @cache or of none, that was looked at. */
static inline bool hardened_may_realloc(const struct slub_cache *cache,
					const void *ptr)
{
	const struct slot_check *g;

	if (likely(cache)) {
		g = slot_check(cache->list_slot);
		if (likely(!g->tail ||
			   tail_read_all(g, tail_of(g, ptr)) <= g->tail))
			return true;
	}
	return !ptr || hardened_may_call(ptr, TAIL_CALL(CALL_MALLOC), "realloc");
}
/* What allocated @ptr, as a TAIL_CALL(); that of CALL_UNKNOWN: it is not said. */
uint64_t hardened_call(const void *ptr);
/* The same before it goes to a list; then it is filled. */
bool hardened_free(struct slub_cache *cache, void *object);
/* @object of @cache is nobody's any more: fills it. */
static inline void hardened_fill(const struct slub_cache *cache, void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t bytes;

	if (!SLUB_CONFIG_HARDENED || !g->tail)
		return;
	bytes = tail_read(g, tail_of(g, object));
	if (bytes <= g->tail)
		fill_write(object, min_size(bytes, g->fill));
}

/* ---- alloc ---- */

/* @ptr, which malloc() is about to return, is what @bytes were asked for. */
static always_inline void *hardened_sealed(void *ptr, size_t bytes)
{
	if (SLUB_CONFIG_HARDENED && likely(ptr)) {
		uint32_t entry = pagemap_get(ptr);
		const struct slot_check *g = slot_check(entry);

		if (likely(g->tail))
			tail_write(g, ptr, bytes);
		else if (entry == MAP_LARGE && large_asked(ptr) != bytes)
			large_ask(ptr, bytes);
	}
	return ptr;
}

/* @ptr, which malloc() has just returned, was asked for by @call, a TAIL_CALL(). */
static always_inline void hardened_called(void *ptr, uint64_t call)
{
	uint32_t entry = pagemap_get(ptr);
	const struct slot_check *g = slot_check(entry);

	if (likely(g->tail))
		tail_call_add(g, ptr, call);
	else if (entry == MAP_LARGE)
		large_call_add(ptr, call);
}

/* @from of @cache has moved to @to, byte by byte. */
static inline void hardened_moved(const struct slub_cache *cache,
				  const void *from, void *to)
{
	const struct slot_check *g = slot_check(cache->list_slot);
	size_t bytes;

	if (!SLUB_CONFIG_HARDENED || !g->tail)
		return;
	bytes = tail_read_all(g, tail_of(g, from));
	if ((bytes & ~TAIL_CALL_MASK) > g->tail)
		return;
	tail_write(g, to, bytes & ~TAIL_CALL_MASK);
	tail_call_add(g, to, bytes & TAIL_CALL_MASK);
}

/* What of @object, of @cache, was asked for. */
static inline size_t hardened_bytes(const struct slub_cache *cache,
				    const void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);

	if (!g->tail)
		return cache->object_size;
	return min_size(tail_read(g, tail_of(g, object)), cache->object_size);
}

/*
 * What follows @object of @cache where objects of a cache and of what stands for it,
 * watched or sampled, are linked to each other: in what is put aside (prefill).
 */
void *hardened_next_aside(struct slub_cache *cache, void *object);
/* @slot of this CPU has a list that nothing can be popped off: takes it away. */
void hardened_mend(struct slub_cache *cache, uint32_t slot);
/* Where @cache has what it hands out; hardened_quarantine.c. */
uint32_t hardened_alloc_slot(const struct slub_cache *cache);
/* Option quarantine is not 0. */
bool hardened_has_quarantine(void);
/* malloc's caches get such a slot each, if there is a quarantine; 0 or -ENOSPC. */
int hardened_caches_prepare(struct slub_cache *caches, uint32_t nr);
/* That slot, not the cache's own, is empty: fills it; an object, or NULL: no memory. */
void *hardened_alloc_slow(struct slub_cache *cache);
/* At exit: are the tails of all objects as they were written?  One that is not is reported. */
void hardened_finish(void);
/* A random number below @end; 0 if that is 0. */
uint32_t hardened_random(uint32_t end);
/* @nr objects from @first on are carved; under the node's lock. */
void hardened_carved(const struct slub_cache *cache, char *first, uint32_t nr);
/* Links @nr new objects in random order; returns the first. */
void *hardened_link(struct slub_cache *cache, char *first, uint32_t nr);

#endif
