/* SPDX-License-Identifier: MIT */
/*
 * The hardened build (-DSLUB_HARDENED=ON): the checks of objects that come and
 * go, also on the fast paths.  Links are encoded (arch/slot.h), objects end in a
 * tail, and an object that is handed out loses its link.
 *
 *   at alloc   the link of the head must decode to an address.  A list ends at a
 *              link that does not: the rest of it is given up (leaked), and
 *              reported.  The bytes that a free has filled are zeros still
 *   at free    the pointer is the start of an object, by the geometry of its slab.
 *              The object has no link: one with a link is free already.  Its tail,
 *              and the tail of the object before it, are as they were written.
 *              The call belongs to the call that allocated
 *   at exit    the tails are as they were written
 *   in chains  as at alloc, and the next object lies in a slab of the same cache
 *   new slabs  objects are linked in random order
 *
 * An object whose link is in its page's descriptor has LINK_USED there while
 * it is allocated.
 *
 * Other builds compile none of this: callers ask SLUB_CONFIG_HARDENED.
 */
#ifndef SLUB_HARDENED_H
#define SLUB_HARDENED_H

#include "debug/debug.h"
#include "debug/misuse.h"
#include "slab/core/key.h"

/* ---- the tail ---- */

/*
 * The tail of an object of the hardened build is its last word.  It says how many bytes of
 * the object were asked for, and only code that knows a secret can write it.
 *
 *   0                    bytes            tail        tail + 8
 *   +----------------------+----------------+------------+
 *   | what was asked for   | pad, 0 to ...  | tail       |
 *   +----------------------+----------------+------------+
 *
 *   tail  the number of bytes in the highest 16 bits, the call that asked for them in bits
 *         46 and 47, 0 below.  The word is encoded with the secret of the cache and the
 *         address of the tail, as links are, and its lowest bit is set
 *   pad   its first 8 bytes, or all of a shorter one, are TAIL_PAD
 *
 * So the first byte that is written beyond the end belongs to the pad, or is the lowest byte
 * of the tail, which is never 0: that shows the zero of a string that does not fit, too.
 *
 * A tail stays when its object is freed, and says then how much of the object was filled with
 * zeros.  It is one aligned word, so a thread that looks at the tail of a neighbour finds the
 * old or the new one.  A tail of 0 was never written: the object is new, or its pages went
 * back to the system.
 *
 * A request of less than 8 bytes has a part of its pad in the first word.  Where that is also
 * the place of the link, the link overwrites the pad, and hardened_unlinked() puts it back.
 */
#define TAIL_BYTES ((size_t)8)
#define TAIL_PAD 0xb5b5b5b5b5b5b5b5ull
#define TAIL_SIZE_SHIFT 48
/*
 * The call, as tails are read: rotated, so that an unexpected call makes a number of bytes
 * that no object has.  malloc's call is 0, so its tails are sizes alone.
 */
#define TAIL_CALL(call) ((uint64_t)((call) ^ CALL_MALLOC) << 62)
#define TAIL_CALL_MASK TAIL_CALL(CALL_MALLOC ^ 3)
/* For frees that suit every call. */
#define TAIL_CALL_ANY UINT64_MAX

/*
 * struct slot_check (arch/slot.h) describes the slabs whose pages name the slot: does an
 * object begin at @ptr?  A multiple of the size, times 2^64 / size, has nearly no fraction.
 * With magic 0 there is no object anywhere.
 */
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
 * The requested bytes by the tail at @place, and the call in the two highest bits.  More
 * bytes than any object has: this is no tail.
 */
static always_inline size_t tail_read_all(const struct slot_check *g,
					  const uint64_t *place)
{
	uint64_t word = __atomic_load_n(place, __ATOMIC_RELAXED) ^
			tail_key(g, place);

	/* Rotated: if a bit is set that must be 0, the number is too large. */
	return word << 16 | word >> TAIL_SIZE_SHIFT;
}

/* The same, whatever the call was. */
static always_inline size_t tail_read(const struct slot_check *g,
				      const uint64_t *place)
{
	return tail_read_all(g, place) << 2 >> 2;
}

/* Enters @call, a TAIL_CALL(), in the tail of @object, which malloc has just handed out. */
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
 * The pad without a branch, since no processor could foretell its length: the word at
 * pad_at() begins with the last bytes of the request, if any, and ends with the pad.
 */
static always_inline size_t pad_at(const struct slot_check *g, size_t bytes)
{
	return min_size(bytes, g->tail - 8);
}

/* @word without its first @n bytes; in two shifts, for @n may be 8. */
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

/* Writes pad and tail of @object, for a request of @bytes. */
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
 * Is the tail right of the object that ends where @object begins?  Nothing is known of the
 * bytes in front of a slab, and a free object of a page or more may have lost its tail:
 * there the answer is yes.
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

/* hardened.c: fill_write() and fill_is_right() for more than FILL_INLINE bytes */
#define FILL_INLINE 128
void hardened_fill_far(void *object, size_t bytes);
bool hardened_fill_far_is_right(const char *object, size_t bytes);

/*
 * Clears the first @bytes of the object at @start, which has at least 8.  It works from both
 * ends: the few branches mostly go one way for a size, and the last branch of a loop does not.
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

/* The bits that are set in the @n pairs from @at on, or in the @n that end at @end. */
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
 * Are the first @bytes 0, except for the first word?  That was a link, and has just been
 * written: a wider load of it would wait for the store to reach the cache.  (A free and a
 * malloc at random among 20,000 took 314 ns with that load, and 204 ns so.)
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

/* hardened.c: reports that a free object, its tail, or the link to it was written to. */
cold void hardened_written(const struct slot_check *g, void *object);

/*
 * Hands @object out, which has lost its link, for a request of @bytes.  Checks that its tail
 * and the bytes that were filled are as a free has left them.
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
 * Is @ptr as an allocated object with a tail must be?  If so, it is filled.  @call:
 * TAIL_CALL() of the call that must have allocated it, or TAIL_CALL_ANY.
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

/* The same for an object whose link is in the descriptor of its page. */
static always_inline bool hardened_may_push_page(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);

	return likely(is_at_object(g, ptr) &&
		      *page_link(page_link_bias, ptr) == LINK_USED) &&
	       may_push(g, ptr, TAIL_CALL_ANY);
}

/*
 * A push was aborted, and @ptr, whose link is its first word, is in no list.  Takes the link
 * away, and restores the pad; the fill stays.
 */
static always_inline void hardened_unlinked(void *ptr, uintptr_t slot)
{
	const struct slot_check *g = slot_check(slot);
	size_t bytes = tail_read(g, tail_of(g, ptr));

	word_store(ptr, bytes < 8 ? TAIL_PAD << 8 * bytes : 0);
}

/* @object of @cache comes from a list of frees that had to wait: takes that link away. */
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
 * May a program have @object of @cache, and was nothing written around it?  False: no, and
 * it was reported as a finding of @call.
 */
bool hardened_check(const struct slub_cache *cache, void *object,
		    const char *call);
/*
 * May @call (TAIL_CALL()) free @ptr, if the call that allocated it is known?  False: no, and
 * it was reported as a finding of @name, or of the function of @call if @name is NULL.  Other
 * checks look at everything else that may be wrong with @ptr.
 */
bool hardened_may_call(const void *ptr, uint64_t call, const char *name);
/* The same for realloc(), of @ptr, an object of @cache or of none, that was checked. */
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
/* The call that allocated @ptr, as a TAIL_CALL(); that of CALL_UNKNOWN: not known. */
uint64_t hardened_call(const void *ptr);
/* hardened_check() of an object that is freed; then fills it. */
bool hardened_free(struct slub_cache *cache, void *object);
/* Fills @object of @cache, which was freed. */
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

/* Writes the tail of @ptr, which malloc() is about to return for a request of @bytes. */
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

/* Enters @call, a TAIL_CALL(), for @ptr, which malloc() has just returned. */
static always_inline void hardened_called(void *ptr, uint64_t call)
{
	uint32_t entry = pagemap_get(ptr);
	const struct slot_check *g = slot_check(entry);

	if (likely(g->tail))
		tail_call_add(g, ptr, call);
	else if (entry == MAP_LARGE)
		large_call_add(ptr, call);
}

/* @from of @cache was copied to @to, byte by byte: writes the tail of @to. */
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

/* The requested bytes of @object, of @cache. */
static inline size_t hardened_bytes(const struct slub_cache *cache,
				    const void *object)
{
	const struct slot_check *g = slot_check(cache->list_slot);

	if (!g->tail)
		return cache->object_size;
	return min_size(tail_read(g, tail_of(g, object)), cache->object_size);
}

/*
 * The object behind @object of @cache in a prefill.  Objects of a cache and of its shadows,
 * watched or sampled, are linked to each other there.
 */
void *hardened_next_aside(struct slub_cache *cache, void *object);
/* No object can be popped off the list at @slot of this CPU: takes the list away. */
void hardened_mend(struct slub_cache *cache, uint32_t slot);
/* The slot from which @cache hands objects out; hardened_quarantine.c. */
uint32_t hardened_alloc_slot(const struct slub_cache *cache);
/* Option quarantine is not 0. */
bool hardened_has_quarantine(void);
/* malloc's caches get such a slot each, if there is a quarantine; 0 or -ENOSPC. */
int hardened_caches_prepare(struct slub_cache *caches, uint32_t nr);
/* The list at that slot is empty: fills it.  An object, or NULL: there is no memory. */
void *hardened_alloc_slow(struct slub_cache *cache);
/* At exit: reports the first tail that is not as it was written. */
void hardened_finish(void);
/* A random number below @end; 0 if that is 0. */
uint32_t hardened_random(uint32_t end);
/* Writes the tails of @nr carved objects from @first on; under the node's lock. */
void hardened_carved(const struct slub_cache *cache, char *first, uint32_t nr);
/* Links @nr new objects in random order; returns the first. */
void *hardened_link(struct slub_cache *cache, char *first, uint32_t nr);

#endif
