/* SPDX-License-Identifier: MIT */
/*
 * The memory that the restartable sequences work on: one slot per cache, at
 * the same offset in every CPU's area.
 *
 *            0        8     12    16       24    28    32
 *           +--------+-----+-----+--------+-----+-----+
 *   slot    | head   |room | -   | head   |room | -   |
 *           +--------+-----+-----+--------+-----+-----+
 *             main list            spare list
 *
 *   head  the first free object of a list, NULL when empty; the objects are
 *         linked through a word of their own (enum link)
 *   room  main: how many pushes are left before the list counts as full.  It
 *         may be off by one per aborted sequence; it bounds memory and nothing
 *         else depends on it.
 *         spare: not used, but in slot 0 of an area, where it says whether the
 *         area is live (AREA_LIVE), and the word behind it has the area's CPU
 *         number (AREA_NUMBER), or none while that CPU is stopped.
 *
 * Backend tid uses the main list's second half as the transaction id, and
 * the spare's room as the main list's.
 *
 * Slot 0 belongs to no cache: its head is NULL and its room 0 for ever, so
 * what maps to it falls into the slow path by itself.
 */
#ifndef SLUB_ARCH_SLOT_H
#define SLUB_ARCH_SLOT_H

#include "base/base.h"

struct half {
	void *head;
	int32_t room;
	uint32_t unused;
};

struct slot {
	struct half main;
	struct half spare;
} align_to(16);

#define SLOT_BYTES 32
#define SLOT_HEAD 0
#define SLOT_ROOM 8
#define SLOT_SPARE 16

/* Offset, in an area, of the word that says the area is live. */
#define AREA_LIVE 24
/* ... and of its CPU number. */
#define AREA_NUMBER 28
#define AREA_NUMBER_NONE 0x80000000u

_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slot size");
_Static_assert(offsetof(struct slot, main.room) == SLOT_ROOM, "room");
_Static_assert(offsetof(struct slot, spare) == SLOT_SPARE, "spare");
_Static_assert(offsetof(struct slot, spare.room) == AREA_LIVE, "live");
_Static_assert(offsetof(struct slot, spare.unused) == AREA_NUMBER, "number");

/*
 * Where the link of a free object lives: @link is an offset within the object (0 for malloc's;
 * behind what a constructor has made) or, for objects of a page or more, the bias of a table
 * with a word for each page.  The latter touches no object: 256 objects of 16 KiB would share
 * eight sets of a second-level cache otherwise, and a fresh object would cost a page fault for
 * being free.
 */
#define LINK_PAGE_SHIFT 12
#define LINK_OFFSET_MAX ((uintptr_t)1 << LINK_PAGE_SHIFT)

/* The link of the page at address A is at bias + (A >> 12) * 8. */
static inline void **page_link(uintptr_t bias, const void *object)
{
	return (void **)bias + ((uintptr_t)object >> LINK_PAGE_SHIFT);
}

/* Slots lie at the start of an area: an offset has 16 bits. */
#define AREA_SLOTS_BYTES 65536

static inline bool link_is_in_object(uintptr_t link)
{
	return link < LINK_OFFSET_MAX;
}

static inline void **object_link(uintptr_t link, void *object)
{
	if (likely(link_is_in_object(link)))
		return (void **)((char *)object + link);
	return page_link(link, object);
}

/*
 * What the hardened build (slab/hardened/hardened.h) checks of the objects in a slot's
 * lists.  As large as a slot, so that the slot's offset is that in the table too.
 */
struct slot_check {
	uintptr_t secret;	/* of the cache: one for all of its slots; odd */
	uint64_t magic;		/* 2^64 / size + 1; 0: no objects */
	uint32_t mask;		/* of the offset within the slab, in words of 8 bytes */
	uint32_t fill;		/* a free fills so many bytes with zeros */
	uint32_t tail;		/* where in an object its tail is; 0: it has none */
	uint32_t tail_most;	/* the largest number that tail_rotated() gives of one */
};

_Static_assert(sizeof(struct slot_check) == SLOT_BYTES, "index of a slot");

extern struct slot_check slot_checks[AREA_SLOTS_BYTES / SLOT_BYTES]
	__attribute__((visibility("hidden")));

static always_inline struct slot_check *slot_check(uintptr_t slot)
{
	return (struct slot_check *)((char *)slot_checks + slot);
}

/*
 * There a link within an object is encoded, as the kernel's: with a secret of
 * the cache, and with its own address, whose bytes are swapped so that its low
 * bits, which vary, meet the high ones of the pointer.  Then it is multiplied: a
 * byte of the word that is overwritten changes all bits of the pointer above it, so
 * that a link is no address either if a part was overwritten.  Links of pages
 * and those of lists beyond the slots are as they are.
 */
#define LINK_ENCODE_BY UINT64_C(0xf1de83e19937733d)
#define LINK_DECODE_BY UINT64_C(0x9e3779b97f4a7c15)
_Static_assert(LINK_ENCODE_BY * LINK_DECODE_BY == 1, "the inverse");

/* The same in memory: a sequence has no register to spare for them. */
extern const uint64_t link_encode_by, link_decode_by
	__attribute__((visibility("hidden")));

static always_inline uintptr_t link_key(uintptr_t slot, const void *place)
{
	return slot_check(slot)->secret ^ __builtin_bswap64((uintptr_t)place);
}

/* The address of the next object, from the word at @place. */
static always_inline uintptr_t link_decode(uintptr_t slot, const void *place,
					   const void *word)
{
	return (uintptr_t)word * LINK_DECODE_BY ^ link_key(slot, place);
}

/* The word that says so at @place. */
static always_inline uintptr_t link_encode(uintptr_t slot, const void *place,
					   const void *next)
{
	return ((uintptr_t)next ^ link_key(slot, place)) * LINK_ENCODE_BY;
}

/* No address has anything in these 19 bits; NULL has not either. */
static always_inline bool link_is_plausible(uintptr_t next)
{
	return !((next << 16 | next >> 48) & 0x7ffff);
}

/* Is the link of an object in the list at @slot encoded? */
static always_inline bool link_is_encoded(uintptr_t slot, uintptr_t link)
{
	return SLUB_CONFIG_HARDENED && slot < AREA_SLOTS_BYTES &&
	       link_is_in_object(link);
}

#endif
