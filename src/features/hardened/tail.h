/* SPDX-License-Identifier: MIT */
/* The hardened build's words about an object, in the object: its tail, its pad, its fill. */
#ifndef SLUB_HARDENED_TAIL_H
#define SLUB_HARDENED_TAIL_H

#include "core/arch/slot.h"
#include "core/base/bits.h"
#include "core/base/features.h"

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
 *         46 and 47, TAIL_FREE and TAIL_NEW in 45 and 44, 0 below.  The word is encoded with
 *         the secret of the cache and the address of the object, as a link in its first word
 *         is, and with the secret of all tails.  Its lowest bit is set, for secrets are odd
 *   pad   its first 8 bytes, or all of a shorter one, are TAIL_PAD
 *
 * So the first byte that is written beyond the end belongs to the pad, or is the lowest byte
 * of the tail, which is never 0: that shows the zero of a string that does not fit, too.
 *
 * A tail stays when its object is freed, and says that it is free.  It is one aligned word, so
 * a thread that looks at the tail of a neighbour finds the old or the new one.  A tail of 0 was
 * never written: its pages went back to the system.
 *
 * A free fills a part of the object with zeros, pads too; where no list takes the object then,
 * hardened_unpush() puts the pad back.
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
/* The object is free, and filled; or it was never handed out, and is not. */
#define TAIL_FREE ((uint64_t)1 << 61)
#define TAIL_NEW ((uint64_t)1 << 60)

/*
 * struct slot_check (core/arch/slot.h) describes the slabs whose pages name the slot: does an
 * object begin at @ptr?  A multiple of the size, times 2^64 / size, has nearly no fraction.
 * With magic 0 there is no object anywhere.
 */
static always_inline bool is_at_object(const struct slot_check *g,
				       const void *ptr)
{
	uint64_t offset = (uint32_t)(uintptr_t)ptr & (g->mask | 7);

	return offset * g->magic < g->magic;
}

static always_inline uint64_t *tail_of(const struct slot_check *g,
				       const void *object)
{
	return (uint64_t *)((char *)object + g->tail);
}

/*
 * hardened.c: beside the secret of the cache, for all caches; even, const after start.  So a tail
 * that is read gives neither of the two, nor does a link give a tail.
 */
extern uint64_t tail_secret __attribute__((visibility("hidden")));

/* From the key of a link in the first word.  The highest byte of an address is 0: it is odd. */
static always_inline uint64_t tail_key_by(uint64_t link)
{
	return link ^ tail_secret;
}

static always_inline uint64_t tail_key(const struct slot_check *g,
				       const void *object)
{
	return tail_key_by(g->secret ^ __builtin_bswap64((uintptr_t)object));
}

static always_inline uint64_t tail_word(const uint64_t *place)
{
	return __atomic_load_n(place, __ATOMIC_RELAXED);
}

/* @word, decoded, as tails are read.  If a bit is set that must be 0, it is too large. */
static always_inline uint64_t tail_rotated(uint64_t word)
{
	return word << 16 | word >> TAIL_SIZE_SHIFT;
}

/*
 * The requested bytes by the tail of @object, and the call in the two highest bits.  More
 * bytes than any object has: this is no tail, or that of a free object.
 */
static always_inline size_t tail_read_all(const struct slot_check *g,
					  const void *object)
{
	return tail_rotated(tail_word(tail_of(g, object)) ^
			    tail_key(g, object));
}

/* The same, whatever the call was. */
static always_inline size_t tail_read(const struct slot_check *g,
				      const void *object)
{
	return tail_read_all(g, object) << 2 >> 2;
}

/* Writes @bits, as tails are read; release: pairs with is_intact(), which looks at the pad. */
static always_inline void tail_set_by(uint64_t key, uint64_t *place,
				      uint64_t bits)
{
	__atomic_store_n(place, key ^ (bits << TAIL_SIZE_SHIFT | bits >> 16),
			 __ATOMIC_RELEASE);
}

static always_inline void tail_set(const struct slot_check *g, void *object,
				   uint64_t bits)
{
	tail_set_by(tail_key(g, object), tail_of(g, object), bits);
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
static always_inline size_t pad_at(size_t tail, size_t bytes)
{
	return min_size(bytes, tail - 8);
}

/* hardened.c: word @n has all bits but those of its first @n bytes; n is 8 at most. */
extern const uint64_t words_behind[9] __attribute__((visibility("hidden")));

/* Writes the pad behind the first @bytes of @object. */
static always_inline void pad_write(const struct slot_check *g, char *object,
				    size_t bytes)
{
	size_t at = pad_at(g->tail, bytes), n = bytes - at;
	uint64_t pad = TAIL_PAD << 4 * n << 4 * n;
	uint64_t user = ~(UINT64_MAX << 4 * n << 4 * n);

	word_store(object + at, (word_load(object + at) & user) | pad);
}

static always_inline bool pad_is_right(const struct slot_check *g,
				       const char *object, size_t bytes)
{
	size_t at = pad_at(g->tail, bytes);
	uint64_t word = word_load(object + at) ^ TAIL_PAD;

	return !(word & words_behind[bytes - at]);
}

/* Writes pad and tail of @object, for a request of @bytes. */
static always_inline void tail_write(const struct slot_check *g, void *object,
				     size_t bytes)
{
	pad_write(g, (char *)object, bytes);
	tail_set(g, object, bytes);
}

/* Objects of a page or more: the pages of free ones may go back to the system. */
static always_inline bool tail_is_far(const struct slot_check *g)
{
	return g->tail >= LINK_OFFSET_MAX - TAIL_BYTES;
}

/*
 * Is the tail right of the object that ends where @object begins?  Nothing is known of the
 * bytes in front of a slab, and they may be unreadable: so the mask has no lowest bits, for
 * pointers into the first word of a slab.  Of these the first alone may be an object's: the
 * tail of another would end behind a slab that has one object.  Where the mask is 0 every
 * pointer is such a one, and has no tail but the word that it points to.  Size, call and marks,
 * in this order, are the lowest bits of a number that has no others.  (A free object of a page
 * or more may have lost its tail: see look() in hardened.c.)
 */
static always_inline bool tail_before_is_right(const struct slot_check *g,
					       const void *object)
{
	const uint64_t *place = (const uint64_t *)object - 1;
	uint64_t word;

	if (unlikely(!((uint32_t)(uintptr_t)object & g->mask)))
		return !((uintptr_t)object % TAIL_BYTES);
	word = tail_word(place) ^
	       tail_key(g, (const char *)place - g->tail);
	return (word << 20 | word >> 44) <= g->tail_most;
}

#define TAIL_MOST(tail) ((tail) << 4 | 15)

typedef uint64_t word_pair __attribute__((vector_size(16), aligned(1),
					  may_alias));

/*
 * The first word of a free object is its link, and is not filled.  How many bytes behind it a
 * slot's objects have filled is a constant, 16 or more, or 0 (fill 8 or less): so nothing waits
 * for a tail, and the branches go one way for a class.  Work goes on from both ends.
 */
#define FILL_INLINE (8 + 128)

/* hardened.c: the two below for more than FILL_INLINE bytes */
void hardened_fill_far(void *object, size_t bytes);
bool hardened_fill_far_is_right(const char *object, size_t bytes);

static always_inline bool fill_is_far(const struct slot_check *g)
{
	return unlikely(g->fill > FILL_INLINE);
}

/* The pair of words number @i behind @at, and the one before @end. */
static always_inline void pairs_clear(char *at, char *end, int i)
{
	const word_pair zero = { 0, 0 };

	*(word_pair *)(at + 16 * i) = zero;
	*(word_pair *)(end - 16 * i - 16) = zero;
}

static always_inline word_pair pairs_of(const char *at, const char *end, int i)
{
	return *(const word_pair *)(at + 16 * i) |
	       *(const word_pair *)(end - 16 * i - 16);
}

/* Clears what is filled of the object at @start; not far. */
static always_inline void fill_write(const struct slot_check *g, void *start)
{
	char *at = (char *)start + 8, *end;

	if (unlikely(g->fill <= 8))
		return;
	end = (char *)start + g->fill;
	pairs_clear(at, end, 0);
	if (likely(g->fill > 8 + 32)) {
		pairs_clear(at, end, 1);
		if (likely(g->fill > 8 + 64)) {
			pairs_clear(at, end, 2);
			pairs_clear(at, end, 3);
		}
	}
}

/*
 * Is it 0 still?  Not if it is far.  The first word was a link, and has just been written: a
 * wider load of it would wait for the store to reach the cache.  (A free and a malloc at random
 * among 20,000 took 314 ns with that load, and 204 ns without.)
 */
static always_inline bool fill_is_right(const struct slot_check *g,
					const char *object)
{
	const char *at = object + 8, *end;
	word_pair all;

	if (unlikely(g->fill <= 8))
		return true;
	end = object + g->fill;
	all = pairs_of(at, end, 0);
	if (likely(g->fill > 8 + 32)) {
		all |= pairs_of(at, end, 1);
		if (likely(g->fill > 8 + 64)) {
			if (fill_is_far(g))
				return false;
			all |= pairs_of(at, end, 2) | pairs_of(at, end, 3);
		}
	}
	return !(all[0] | all[1]);
}

#endif
