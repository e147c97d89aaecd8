/* SPDX-License-Identifier: MIT */
/*
 * The tail of an object of the hardened build: its last word, which says how many bytes of
 * the object its user asked for, and which nobody can write who does not know a secret.
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
#ifndef SLUB_HARDENED_TAIL_H
#define SLUB_HARDENED_TAIL_H

#include "arch/slot.h"
#include "base/base.h"
#include "debug/debug.h"

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

/* Writes the pad behind the first @bytes of @object. */
static always_inline void pad_write(const struct slot_check *g, char *object,
				    size_t bytes)
{
	size_t room = g->tail - bytes;
	char *last = object + g->tail - 8;

	if (likely(room >= 8))
		word_store(object + bytes, TAIL_PAD);
	else if (room)	/* not beyond the pad, where others may look */
		word_store(last, (word_load(last) << 8 * room >> 8 * room) |
				 TAIL_PAD << (64 - 8 * room));
}

static always_inline bool pad_is_right(const struct slot_check *g,
				       const char *object, size_t bytes)
{
	size_t room = g->tail - bytes;

	if (likely(room >= 8))
		return word_load(object + bytes) == TAIL_PAD;
	return !room || !((word_load(object + g->tail - 8) ^ TAIL_PAD) >>
			  (64 - 8 * room));
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

/* The first @bytes of @object, which has 8 at the least, become 0. */
static always_inline void fill_write(char *object, size_t bytes)
{
	if (likely(bytes >= 16)) {
		typedef uint64_t pair __attribute__((vector_size(16),
						     aligned(1), may_alias));
		char *at = object, *last = object + bytes - 16;

		for (; at < last; at += 16) {
			*(pair *)at = (pair){ 0, 0 };
			/* A call of memset() costs more than most objects have. */
			__asm__("" : "+r"(at));
		}
		*(pair *)last = (pair){ 0, 0 };
	} else if (bytes >= 8) {
		word_store(object, 0);
		word_store(object + bytes - 8, 0);
	} else if (bytes) {
		word_store(object, word_load(object) >> 8 * bytes << 8 * bytes);
	}
}

/*
 * Are they, but for the first word?  That was a link, and has just been written: a wider load
 * of it would wait for the store to reach the cache (measured: 314 -> 204 ns for a free and a
 * malloc at random among 20,000).
 */
static always_inline bool fill_is_right(const char *object, size_t bytes)
{
	if (likely(bytes >= 24)) {
		typedef uint64_t pair __attribute__((vector_size(16),
						     aligned(1), may_alias));
		const char *at = object + 8, *last = object + bytes - 16;
		pair all = *(const pair *)last;

		for (; at < last; at += 16)
			all |= *(const pair *)at;
		return !(all[0] | all[1]);
	}
	if (bytes >= 16)
		return !(word_load(object + 8) | word_load(object + bytes - 8));
	return bytes <= 8 || !(word_load(object + 8) << (128 - 8 * bytes));
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

#endif
