/* SPDX-License-Identifier: MIT */
/*
 * percpu: an area of slots for each CPU, and the lists in them.
 *
 *   area     one CPU's slots; all areas have the same size, and a slot has the
 *            same offset in each
 *   base     slub_cpu_base[cid], the area of CPU number cid, or the dummy area
 *            while there is none or the CPU is stopped
 *   table    all base entries, and what the fast paths of malloc and free read
 *            besides
 *   backend  how a list operation is protected (SLUB_FASTPATH)
 *
 * Invariants:
 *   AREA-1  a base entry names the CPU's own area or the dummy area;
 *   AREA-2  the dummy area is all zero and never written;
 *   AREA-3  a thread that works on an area from outside has stopped its CPU and holds
 *           area_lock (backends rseq and thread), or uses the same atomic
 *           operations as everybody (tid), or holds the area's lock (lock).
 */
#ifndef SLUB_PERCPU_H
#define SLUB_PERCPU_H

#include "core/os/os.h"

enum backend {
	BACKEND_NONE,
	BACKEND_RSEQ,
	BACKEND_THREAD,
	BACKEND_TID,
	BACKEND_LOCK,
};

enum cpu_number {
	CPU_NUMBER_NONE,
	CPU_NUMBER_MM_CID,
	CPU_NUMBER_CPU_ID,
	CPU_NUMBER_THREAD,
	CPU_NUMBER_GETCPU,
};

/* CPU numbers a table can hold; the kernel's own limit on x86-64. */
#define AREAS_MAX 8192
/*
 * The table of areas, which malloc() addresses, and a copy of it right before the page
 * map, for free().  So each of them needs one address for all that it looks up:
 *
 *   +-----+-----------------+------+------------------+
 *   | gap | slots for sizes | none | area of each CPU |
 *   +-----+-----------------+------+------------------+
 *                                  ^ slub_cpu_base
 *   +-----+------+------------------+-----------------+-----+--------------
 *   | gap | none | area of each CPU | starts, by slot |     | page map ...
 *   +-----+------+------------------+-----------------+-----+--------------
 *                ^ slub_map_bases                           ^ MAP_FRONT_BYTES from the beginning
 *
 * Where the table is indexed by cpu_id, a thread that is not registered finds -1 there
 * (the kernel's), or -2 (the C library's): the entries before the first name the dummy
 * area, so each sequence fails in it as on a CPU without an area.
 *
 * The gaps are for processors that compare the low 12 bits of addresses and take a load for one
 * of what was just stored there.  So slots and first entries lie, within their page, neither
 * where a slab's first objects do nor where in an area the lists of malloc's classes below a
 * page do.
 */
#define TABLE_SIZES 244
#define TABLE_GAP 3456
#define TABLE_NONE 2
struct cpu_table {
	char gap[TABLE_GAP - TABLE_NONE * sizeof(void *) -
		 TABLE_SIZES * sizeof(uint16_t)];
	/* by (size + 15) / 16, below a page: the slot of the list for it */
	uint16_t slots[TABLE_SIZES];
	void *none[TABLE_NONE];
	void *base[AREAS_MAX];
};
_Static_assert(offsetof(struct cpu_table, base) == TABLE_GAP, "no padding");
extern struct cpu_table percpu_table SLUB_INTERNAL;
#define slub_cpu_base (percpu_table.base)

/* Pages of any size. */
#define MAP_FRONT_BYTES ((size_t)192 << 10)
/* What the map would have for itself: zeros, for pointers to what is in front of it. */
_Static_assert(sizeof(struct cpu_table) + AREA_BYTES + (MAP_FRONT_BYTES >> LINK_PAGE_SHIFT) * 2 <=
		       MAP_FRONT_BYTES,
	       "a map behind it");

/* Where an object begins: (address & mask) * magic < magic.  All zero: nowhere. */
struct start_check {
	uint32_t mask;		/* bytes of a slab, less 1 */
	uint32_t magic;		/* 2^32 / size + 1 */
};

/*
 * With 32 bits: an offset that is q * size gives q * (magic * size - 2^32), which is at most
 * slab_bytes, and all others more than 2^32 / size.  Where that is no more, all addresses will do,
 * and the slow path looks.
 */
static inline struct start_check start_check_of(size_t size, size_t slab_bytes)
{
	if (size * slab_bytes > UINT32_MAX)
		return (struct start_check){ 0, 1 };
	return (struct start_check){ (uint32_t)slab_bytes - 1,
				     size ? UINT32_MAX / (uint32_t)size + 1 : 0 };
}

/*
 * What free() asks, behind the copy and by slot.  All zero for a slot without a cache, and for the
 * entries of far slots.
 */
struct start_slot {
	struct start_check check;
	uint64_t unused[3];
};
#define START_CHECKS (AREAS_MAX * sizeof(void *))
_Static_assert(sizeof(struct start_slot) == SLOT_BYTES, "by the offset of the slot");

/* The copy is to lie at @memory, zeros before a page map; NULL: there is none. */
void percpu_map_front_set(void *memory);
/* Objects of @size bytes in slabs of @slab_bytes are what @slot's lists hold; 0: nothing does. */
void percpu_starts_set(uint32_t slot, size_t size, size_t slab_bytes);

/* const after start */
extern enum backend percpu_backend;
extern enum cpu_number percpu_cpu_number;
extern bool percpu_can_stop;	/* another CPU's area can be drained */

extern struct lock area_lock;

/* area.c */
/* Finds a place for the areas, and maps the shared one.  Returns 0 or -errno. */
int percpu_init(void);
/* A start has failed: all of it goes back. */
void percpu_exit(void);
/* Chooses the backend; the fast path may run from here on. */
void percpu_start(const struct os_cpus *cpus);
/* The areas: const after start, but for what grows as CPUs are first seen. */
struct percpu_areas {
	char *start;
	char *shared;		/* for threads that have no CPU; slub/percpu.h */
	struct slot *collect;	/* where the lists of stopped CPUs are copied */
	size_t stride;
	/* under area_lock; read without it, for an area is never taken back */
	uint32_t end;
	uint64_t made[AREAS_MAX / 64];	/* a bit each */
};
extern struct percpu_areas percpu_areas SLUB_INTERNAL;

/* acquire: pairs with the release in bit_set() */
static inline bool area_bit_is_set(const uint64_t *map, uint32_t cid)
{
	return __atomic_load_n(&map[cid / 64], __ATOMIC_ACQUIRE) >> cid % 64 & 1;
}

/* Where that of CPU number @cid is, or will be. */
static inline char *area_at(uint32_t cid)
{
	return percpu_areas.start + (size_t)cid * percpu_areas.stride;
}

/* The area of CPU number @cid if it has been made, else NULL. */
static inline char *percpu_area(uint32_t cid)
{
	return cid < AREAS_MAX && area_bit_is_set(percpu_areas.made, cid) ? area_at(cid) : NULL;
}

/* One past the highest CPU number that has an area. */
static inline uint32_t percpu_areas_end(void)
{
	return __atomic_load_n(&percpu_areas.end, __ATOMIC_ACQUIRE);
}
/*
 * Threads that came here since the start or the fork, of backend rseq: on no more CPUs does the
 * program run at a time.  One that has ended still counts.  0: not known.
 */
extern uint32_t percpu_nr_threads SLUB_INTERNAL;	/* atomic */
/*
 * The area of a CPU that may never have run: it has memory for copies of what programs
 * allocate, and no lists.
 */
char *percpu_copies(uint32_t cid);
uint32_t percpu_copies_end(void);
static inline char *percpu_shared_area(void)
{
	return percpu_areas.shared;
}
/* Where the memory of programs ends that every area has; far slots may lie before it. */
size_t percpu_committed(void);
/* Does every area have memory at @offset? */
bool percpu_is_committed(uintptr_t offset);

/* How much room the main list of @slot has is there: core/arch/slot.h. */
static inline const int32_t *percpu_room(const struct slot *slot)
{
	return percpu_backend == BACKEND_TID ? &slot->spare.room :
					       &slot->main.room;
}

/* word.c: objects in the main list there, which may be set against @limit if that is unknown */
uint32_t slot_main_nr(const struct slot *slot, int32_t limit);
/* ... in the spare one; @otherwise, where that is unknown */
uint32_t slot_spare_nr(const struct slot *slot, uint32_t otherwise);

/* allocator.c: offsets */
/* slub_percpu_alloc() for the library itself, which may not have started. */
uintptr_t percpu_alloc(size_t size, size_t align);
/* @nr near slots in a row, all zero on every CPU, below offset @end; 0: none left. */
uint32_t percpu_alloc_slots_below(uint32_t nr, uint32_t end);
static inline uint32_t percpu_alloc_slots(uint32_t nr)
{
	return percpu_alloc_slots_below(nr, AREA_NEAR_BYTES);
}
/* *@slot is a far one.  0, or -errno: ENOSPC, none is left; ENOMEM. */
int percpu_alloc_far_slot(uint32_t *slot);
/* They are empty, and nobody uses them any more. */
void percpu_free_slots(uint32_t slot, uint32_t nr);
/* One past the last near slot that was ever used. */
extern uint32_t percpu_slots_now SLUB_INTERNAL;
static inline uint32_t percpu_slots_end(void)
{
	return __atomic_load_n(&percpu_slots_now, __ATOMIC_RELAXED);
}
/* The same of far slots. */
extern uint32_t percpu_far_slots_now SLUB_INTERNAL;
static inline uint32_t percpu_far_slots_end(void)
{
	return __atomic_load_n(&percpu_far_slots_now, __ATOMIC_RELAXED);
}
/* For a walk over the slots that were ever used, by number: the one behind @number; 0: none. */
static inline uint32_t percpu_numbers_end(void)
{
	return slot_number(percpu_far_slots_end());
}

static inline uint32_t percpu_next_number(uint32_t number)
{
	if (++number == percpu_slots_end() / SLOT_BYTES)
		number = SLOT_NUMBERS_NEAR;
	return number < percpu_numbers_end() ? number : 0;
}

/*
 * Called in every slow path, with no lock held: gives this thread its
 * registration or number, and its CPU an area.  After it, a list operation
 * fails only for a reason that lies in the list.
 */
void percpu_enter(void);
/* Lets programs work inline on the area of the CPU this thread is on now. */
void percpu_remember(void);

/*
 * list.c: the operations, on the area of the CPU the caller is on.  @link as in object_link(), or
 * LINK_KEYED: then NULL is also the answer where the check word of the first object is wrong.
 */
void *percpu_pop(uint32_t slot, uintptr_t link);
bool percpu_push(uint32_t slot, void *object, uintptr_t link);
/* The first object of this CPU's list, as of a moment ago. */
void *percpu_head(uint32_t slot);
/* Both lists, to look at; this thread may be elsewhere by now. */
const struct slot *percpu_lists(uint32_t slot);
/*
 * The first object, and the room there; for a thread that has entered, else the answer may be
 * that of a list that is always empty.
 */
void *percpu_glance(uint32_t slot, int32_t *room);
/* On a list of slub/percpu.h; @half is a slot's offset, plus SLOT_SPARE for the spare list. */
bool percpu_push_bounded(uint32_t list, void *object, int32_t least);
/* To be called when nothing could be popped off such a list: it has all its room again. */
void percpu_room_mend(uint32_t list);
/* In one sequence, which should be over before the kernel wants the CPU back. */
#define SEQUENCE_OBJECTS_MAX 64
/* Up to @nr objects; returns how many.  @link as in object_link(). */
uint32_t percpu_pop_bulk(uint32_t slot, uintptr_t link, void **objects,
			 uint32_t nr);
/* A chain of @nr objects, all or none; @tail_link is the last one's link. */
bool percpu_push_bulk(uint32_t slot, uintptr_t link, void *head, void **tail_link,
		      uint32_t nr);
/* A list that is empty from here on; of a main one @limit is the room. */
void *percpu_take(uint32_t half, int32_t limit);
/*
 * @room: of a main list list_room(), or a room below 0, which nothing is counted by; of a spare
 * one how many objects it has, or 0.
 */
bool percpu_put(uint32_t half, void *chain, int64_t room);

/* collect.c: emptying the lists of any CPU */
/* Whose lists are collected. */
enum collect_from {
	COLLECT_ALL,	/* every CPU's */
	COLLECT_USED,	/* where there are lists or room in them; a guess */
	COLLECT_LISTS,	/* where there are lists; a guess */
	/*
	 * Where no CPU has to be stopped: this one's; under backend thread this thread's, and
	 * those that ended threads have left; under tid and lock COLLECT_LISTS.  For ordinary
	 * calls: a sandbox may end a process for membarrier.
	 */
	COLLECT_HERE,
};
/* So many CPUs are stopped at a time, with one barrier for all. */
#define COLLECT_CPUS 32
/* What is taken off some CPUs: the lists of @nr_slots slots in a row, from @start on. */
struct collection {
	enum collect_from from;
	uint32_t start;
	uint32_t nr_slots;
	uint32_t next;		/* the CPU number to go on with */
	uint32_t end;
	uint32_t nr_lists;	/* taken: @nr_slots for each CPU */
	uint32_t nr_lists_max;	/* room for so many; at least @nr_slots */
	bool is_whole;		/* until a CPU could not be stopped */
	struct slot *lists;
	/* Called while CPU number @cid is stopped, under area_lock; NULL: nobody asks */
	void (*stopped)(struct collection *collection, uint32_t cid);
	void *arg;
};
/* All but @lists and @nr_lists_max. */
void percpu_collection_init(struct collection *collection,
			    enum collect_from from, uint32_t start,
			    uint32_t nr_slots);
/*
 * Takes the lists of the next few CPUs; false: there were none.  With true there may
 * yet be none in it, where no CPU could be stopped.
 */
bool percpu_collect(struct collection *collection);
/* The offset of the slot that @lists[@i] was taken from. */
static inline uint32_t collection_slot(const struct collection *collection,
				       uint32_t i)
{
	return collection->start + i % collection->nr_slots * SLOT_BYTES;
}
/*
 * The same of all slots, into the collection area, which has room for COLLECT_LISTS_MAX; the first
 * fails while another thread is at it.  When there are no CPUs left, more slots may be.
 */
#define COLLECT_LISTS_MAX (AREA_BYTES / SLOT_BYTES)
bool percpu_collect_begin(struct collection *collection, enum collect_from from);
bool percpu_collect_more(struct collection *collection, enum collect_from from);
void percpu_collect_end(void);
bool percpu_peek(uint32_t cid, uintptr_t offset);	/* worth it? a guess */
/* How often a sequence is tried: a debugger that single-steps aborts each. */
#define ABORTS_MAX 64
/* The slot there, if its class may have local lists (core/slab/local.h); NULL: it may not. */
static inline const struct slot *percpu_local_slot(uint32_t cid, uint32_t slot)
{
	const char *area = percpu_area(cid);

	return ARCH_HAS_LOCAL && area && percpu_backend == BACKEND_RSEQ ?
		       (const struct slot *)(area + slot) : NULL;
}

/* Is the main list there a short one? */
static inline bool percpu_is_short(uint32_t cid, uint32_t slot)
{
	const struct slot *at = percpu_local_slot(cid, slot);

	return at && __atomic_load_n(&at->main.room, __ATOMIC_RELAXED) <= ROOM_SHORT;
}

/* Has CPU number @cid begun local lists of the class at @slot? */
static inline bool percpu_has_local(uint32_t cid, uint32_t slot)
{
	const struct slot *at = percpu_local_slot(cid, slot);

	return at && __atomic_load_n(&at->main.unused, __ATOMIC_RELAXED);
}

/* thread.c */
/* The number of the CPU, or of the thread, for the moment; AREAS_MAX or more: none. */
uint32_t percpu_here(void);
void percpu_thread_init(void);
/*
 * Around the making of a child that shares this thread's TLS: keeps both off
 * all sequences; what has to be restored goes to @saved.
 */
void percpu_share(uintptr_t saved[2]) SLUB_INTERNAL;
void percpu_unshare(const uintptr_t saved[2]);
void percpu_fork_prepare(void);
void percpu_fork_finish(bool in_child);
/* Lets collectors in again, as soon as no lock is held: another thread's fork may wait for that. */
void percpu_fork_let_collect(void);

#endif
