/* SPDX-License-Identifier: MIT */
/*
 * The memory that the restartable sequences work on: one slot per cache, at
 * the same offset in every CPU's area.
 *
 *            0        8     12    16       24    28    32
 *           +--------+-----+-----+--------+-----+-----+
 *   slot    | head   |room | -   | head   |nr   |limit|
 *           +--------+-----+-----+--------+-----+-----+
 *             main list            spare list
 *
 *   head  the first free object of a list, NULL when empty; the objects are
 *         linked through a word of their own (enum link)
 *   -     main: with local lists, ~(bytes of a slab - 1) of the class; 0: there are none
 *   room  main: how many pushes are left before the list counts as full.  It
 *         may be off by one per aborted sequence; it bounds memory and nothing
 *         else depends on it.
 *   limit the room that the main list has without objects, by which those of it are counted;
 *         0: not known.  Bounds change, and each list is set against that of its own time.
 *   nr    objects in the spare list; 0: not known
 *
 * In slot 0 of an area nr says whether the area is live (AREA_LIVE), and limit has the area's
 * CPU number (AREA_NUMBER), or none while that CPU is stopped.  Of backend rseq the spare's head is
 * what check words are made with (AREA_KEY): the sequences of programs find it in the line of the
 * number, which they have just read.
 *
 * Backend tid uses the main list's second half as the transaction id, and
 * nr as the main list's room.
 *
 * Slot 0 belongs to no cache: its head is NULL and its room 0 for ever, so
 * what maps to it falls into the slow path by itself.
 */
#ifndef SLUB_ARCH_SLOT_H
#define SLUB_ARCH_SLOT_H

#include "core/base/base.h"

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
#define SLOT_LIMIT 28

/* Offset, in an area, of the key; of backend rseq. */
#define AREA_KEY 16
/* ... of the word that says the area is live. */
#define AREA_LIVE 24
/* ... and of its CPU number. */
#define AREA_NUMBER 28
#define AREA_NUMBER_NONE 0x80000000u

_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slot size");
_Static_assert(offsetof(struct slot, main.room) == SLOT_ROOM, "room");
_Static_assert(offsetof(struct slot, spare) == SLOT_SPARE, "spare");
_Static_assert(offsetof(struct slot, spare.unused) == SLOT_LIMIT, "limit");
_Static_assert(offsetof(struct slot, spare.head) == AREA_KEY, "key");
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

/*
 * The map of pages has 16 bits for each page, the entry, and free() takes it for the offset of a
 * slot.  So slots that free() pushes to lie at the start of an area, up to AREA_NEAR_BYTES.  For
 * what has no room there an entry is a mere number: it leads free() to bytes that are 0 in every
 * area, where no list has room, and so to the slow path.  The slot itself is a far one.
 *
 *   0            48 KiB           64 KiB       128 KiB      640 KiB
 *   +------------+----------------+------------+------------+------------+
 *   | near slots | nothing: room  | memory of  | far slots, | memory of  |
 *   |            | 0 for ENTRIES  | programs   | as needed  | programs   |
 *   +------------+----------------+------------+------------+------------+
 *                AREA_NEAR_BYTES  AREA_BYTES   AREA_FAR     AREA_FAR_END
 *
 * Far slot number n has entry AREA_NEAR_BYTES + n: at any byte, for nobody but free() looks there.
 */
#define AREA_NEAR_BYTES 49152
#define AREA_BYTES 65536
#define AREA_FAR 131072
/* An entry's room, four bytes, is to lie before AREA_BYTES. */
#define FAR_SLOTS (AREA_BYTES - AREA_NEAR_BYTES - SLOT_ROOM - 4)
#define AREA_FAR_END (AREA_FAR + (AREA_BYTES - AREA_NEAR_BYTES) * SLOT_BYTES)

static always_inline bool slot_is_far(uintptr_t offset)
{
	return offset - AREA_FAR < AREA_FAR_END - AREA_FAR;
}

/* Does a slot lie at @offset, and no memory of programs? */
static always_inline bool offset_is_slots(uintptr_t offset)
{
	return offset < AREA_BYTES || slot_is_far(offset);
}

/*
 * What take and put are given for a half: its room, with the limit that this is set against in
 * the high part.  A spare list has none, nor one whose room is below 0: it may lie beyond the
 * slots, and be shorter than a slot.  Their limit goes to where the room is about to be stored.
 */
static always_inline uintptr_t half_limit_at(uintptr_t offset, int64_t room)
{
	return offset & SLOT_SPARE || room < 0 ? SLOT_ROOM : SLOT_LIMIT;
}

static always_inline int32_t half_limit(int64_t room)
{
	return (int32_t)(room >> 32);
}

/* The room of a main list with @nr objects, and they may be more than @limit. */
static always_inline int64_t list_room(int32_t limit, int32_t nr)
{
	limit = limit > nr ? limit : nr;
	return (int64_t)limit << 32 | (limit - nr);
}

/* Of the slot at @offset: what the map of pages has for it. */
static always_inline uint32_t slot_entry(uint32_t offset)
{
	return slot_is_far(offset) ?
	       AREA_NEAR_BYTES + (offset - AREA_FAR) / SLOT_BYTES : offset;
}

/* The slot that @entry stands for. */
static always_inline uint32_t entry_slot(uint32_t entry)
{
	return entry < AREA_NEAR_BYTES ? entry :
	       AREA_FAR + (entry - AREA_NEAR_BYTES) * SLOT_BYTES;
}

/* Near slots have numbers, and then far ones. */
#define SLOT_NUMBERS_NEAR (AREA_NEAR_BYTES / SLOT_BYTES)
#define SLOT_NUMBERS (SLOT_NUMBERS_NEAR + AREA_BYTES - AREA_NEAR_BYTES)

static always_inline uint32_t entry_number(uint32_t entry)
{
	return entry < AREA_NEAR_BYTES ? entry / SLOT_BYTES :
	       SLOT_NUMBERS_NEAR + entry - AREA_NEAR_BYTES;
}

/* @slot is an offset, or an entry. */
static always_inline uint32_t slot_number(uint32_t slot)
{
	return entry_number(slot_entry(slot));
}

/* The opposite: an entry. */
static always_inline uint32_t numbered_entry(uint32_t number)
{
	return number < SLOT_NUMBERS_NEAR ? number * SLOT_BYTES :
	       AREA_NEAR_BYTES + number - SLOT_NUMBERS_NEAR;
}

/*
 * The room of a short list (core/slab/local.h) without objects; it is so much lower as it has.
 * Nothing is pushed there.
 */
#define ROOM_SHORT (-(1 << 30))
/*
 * Beside a short list objects of other CPUs' slabs have the place of the spare one, and are given
 * back by so many at a time.  The nr there is its room.
 */
#define LOCAL_FOREIGN 32

/* The word of a slab's local list, core/slab/local.h. */
#define LOCAL_ROOM_MASK 0x7ff
#define LOCAL_OWNER_SHIFT 11
#define LOCAL_OWNER_MASK 0x3ff
#define LOCAL_HEAD_SHIFT 21
#define LOCAL_HEAD_MASK 0xfff
#define LOCAL_UNIT_SHIFT 4	/* the head is a place in the slab, in units of 16 bytes */
#define LOCAL_SUM_SHIFT 33

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
 * The check word, of free objects below a page: the word behind the link, which covers the link and
 * its place.  With the link in the first word the place is the object, and the check word is its
 * second one; an object that keeps what is in it has both behind it (core/slab/key.h).
 *
 *    63       48 47 ................................................ 0
 *   +-----------+-----------------------------------------------------+
 *   | KEY_TOP   | 48 random bits ^ link ^ address of the link          |   behind the link
 *   +-----------+-----------------------------------------------------+
 *
 * The bits are the process's, so nobody makes a link who has not read both words of a free object.
 * KEY_TOP is the same in all processes, and free() compares nothing else: it is the end of no
 * address, small number, common fraction or text, so a program's own word seldom has it, and then
 * free() goes the slow way, which compares all.  The hardened build has encoded links in its place.
 */
#define KEYS (SLUB_CONFIG_CHECKS && !SLUB_CONFIG_HARDENED)
#define KEY_TOP 0x86f9
#define KEY_TOP_SHIFT 48

/* What free() reads of variables: one line.  Const after the start. */
struct free_front {
	void **map_bases;	/* core/percpu/percpu.h */
	uintptr_t key;
};
extern struct free_front slub_free_front __attribute__((visibility("hidden")));
#define slub_map_bases (slub_free_front.map_bases)
#define slub_key (slub_free_front.key)

/*
 * For the operations on lists: this bit of the link, a multiple of 8, says that there is a check
 * word.  Alone it stands for a link in the first word.
 */
#define LINK_KEYED 1u

static always_inline bool link_is_keyed(uintptr_t link)
{
	return KEYS && link & LINK_KEYED;
}

/* Where the operations on lists find the link of @object. */
static always_inline void **list_link_of(uintptr_t link, void *object)
{
	return object_link(link_is_keyed(link) ? link - LINK_KEYED : link, object);
}

/* @place, here and below: where a free object has its link. */
static always_inline uintptr_t key_made(const void *place, uintptr_t next)
{
	return slub_key ^ next ^ (uintptr_t)place;
}

static always_inline uintptr_t *key_of(const void *place)
{
	return (uintptr_t *)place + 1;
}

/* As free() asks: so is one word in 65,536 by chance. */
static always_inline bool key_seems_set(const void *place)
{
	return *key_of(place) >> KEY_TOP_SHIFT == KEY_TOP;
}

/* The object is free, and its link is @next. */
static always_inline void link_set_keyed(void *place, void *next)
{
	*(void **)place = next;
	*key_of(place) = key_made(place, (uintptr_t)next);
}

static always_inline bool key_is_right(const void *place)
{
	return *key_of(place) == key_made(place, *(const uintptr_t *)place);
}

/*
 * What the hardened build (features/hardened/hardened.h) checks of the objects in a slot's
 * lists.  As large as a slot, so that the slot's offset is that in the table too.
 */
struct slot_check {
	uintptr_t secret;	/* of the cache: one for all of its slots; odd */
	uint64_t magic;		/* 2^64 / size + 1; 0: no objects */
	uint32_t mask;		/* of the offset within the slab, in words of 8 bytes */
	uint32_t fill;		/* a free fills so many bytes with zeros */
	uint32_t tail;		/* where in an object its tail is; 0: it has none */
	uint32_t tail_most;	/* the largest number that tail_rotated() gives of one */
} __attribute__((packed));	/* free() has one at an entry, which is any byte */

_Static_assert(sizeof(struct slot_check) == SLOT_BYTES, "index of a slot");

#define SLOT_CHECKS ((SLUB_CONFIG_HARDENED ? AREA_FAR_END : AREA_BYTES) / SLOT_BYTES)
extern struct slot_check slot_checks[SLOT_CHECKS]
	__attribute__((visibility("hidden")));

static always_inline struct slot_check *slot_check(uintptr_t slot)
{
	return (struct slot_check *)((char *)slot_checks + slot);
}

/*
 * The same for an entry of the map.  The fast path of free() does without, and finds for the entry
 * of a far slot what is 0: no object, which is the slow path's.
 */
static always_inline struct slot_check *entry_check(uint32_t entry)
{
	return slot_check(entry_slot(entry));
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
	return SLUB_CONFIG_HARDENED && offset_is_slots(slot) &&
	       link_is_in_object(link);
}

#endif
