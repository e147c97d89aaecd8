/* SPDX-License-Identifier: MIT */
/* What superblock.c, pagemap.c and superblock_wall.c tell each other of the heap's growth. */
#ifndef SLUB_PAGE_SUPERBLOCK_GROWTH_H
#define SLUB_PAGE_SUPERBLOCK_GROWTH_H

#include "core/page/page_internal.h"

enum growth {
	GROWN,
	REFUSED,	/* by the kernel, or by a limit */
	WALLED,		/* for addresses that the program has mapped */
	PASSED,		/* there is more now, elsewhere: look anew */
};

enum superblock_state {
	SB_NONE,		/* not committed yet, or somebody else's */
	SB_FRESH,		/* clean, and so are its descriptors */
	SB_CLEAN,
	SB_DIRTY,
	SB_STUCK,		/* the kernel would not take it back; not counted as dirty */
	SB_USED,
};

/* superblock.c; behind growth_mapped under grow_lock, before it under superblock_lock */
extern uint8_t *superblock_states;

static inline char *superblock_address(size_t index)
{
	return (char *)heap_start + index * SUPERBLOCK_BYTES;
}

/* What a request knows, on the stack of its thread, for it holds no lock between two looks. */
struct wall_request {
	bool passes;		/* it may go behind a wall */
	uint32_t nr_tries;	/* it has made */
	size_t met_at;		/* the heap ended there when it met one; SIZE_MAX: it has not */
};
#define WALL_REQUEST(may_pass) { .passes = (may_pass), .met_at = SIZE_MAX }

/* pagemap.c: so many superblocks are mapped, those that are strange among them */
extern _Atomic size_t growth_mapped;
/* Strange ones that were mapped since, and are free: the first, and how many; 0: none. */
extern _Atomic uint64_t growth_refill;
#define REFILL_SHIFT 32

void growth_init(void);
/* The heap ends behind @n that have just been mapped at @first; what it passed over is strange. */
void superblock_go_on(size_t first, size_t n);
/* @n strange ones have just been mapped; those before them have been settled. */
void superblock_add_strange(size_t first, size_t n);
/*
 * Grows the heap so that @end superblocks are there, for a request that found @seen and may have
 * been refused before; with no lock held.  GROWN, too: look anew, for others may take what came.
 */
enum growth superblock_grow(size_t end, size_t seen, struct wall_request *request);

static inline bool has_grown(enum growth growth)
{
	return growth == GROWN || growth == PASSED;
}

/* Under grow_lock. */
static inline size_t superblock_nr_mapped(void)
{
	return size_read(&growth_mapped);
}

/* Committed, and not the heap's; under grow_lock. */
static inline bool superblock_is_strange(size_t index)
{
	return __atomic_load_n(&superblock_states[index], __ATOMIC_RELAXED) == SB_NONE;
}

/* Some were mapped that were strange, and the next look for a superblock makes them free. */
static inline bool growth_is_unsettled(void)
{
	/* acquire: pairs with the release in growth_settled() */
	return __atomic_load_n(&growth_refill, __ATOMIC_ACQUIRE);
}

/* Under superblock_lock: what is to be free from now on, up to the end, and @n from @first on. */
static inline size_t growth_end(void)
{
	/* acquire: pairs with the release in superblock_go_on() */
	return __atomic_load_n(&growth_mapped, __ATOMIC_ACQUIRE);
}

static inline size_t growth_refilled(size_t *first)
{
	/* acquire: pairs with the release in superblock_add_strange() */
	uint64_t refill = __atomic_load_n(&growth_refill, __ATOMIC_ACQUIRE);

	*first = refill >> REFILL_SHIFT;
	return (uint32_t)refill;
}

static inline void growth_settled(void)
{
	/* release: strange ones are looked for again when these are none, by their states */
	__atomic_store_n(&growth_refill, 0, __ATOMIC_RELEASE);
}

/* Has the request met a wall, and where the heap ends now? */
static inline bool wall_was_met(const struct wall_request *request)
{
	return request->nr_tries;
}

static inline bool wall_is_met(const struct wall_request *request, size_t end)
{
	return request->met_at == end;
}

/* superblock_wall.c; all of it under grow_lock */
struct wall {
	_Atomic bool is_around;	/* the heap is walled in; read without the lock too */
	uint32_t nr_steps;	/* in vain, since the heap last grew; of all requests */
};
extern struct wall wall SLUB_INTERNAL;

static inline void wall_around_set(bool is_so)
{
	__atomic_store_n(&wall.is_around, is_so, __ATOMIC_RELAXED);
}

/* The heap has grown. */
static inline void wall_end(void)
{
	wall.nr_steps = 0;
	wall_around_set(false);
}

void wall_init(void);
/* @n superblocks have become strange; under either lock. */
void wall_strange_add(size_t n);
/* The program has mapped some of the next @n superblocks. */
enum growth wall_pass(size_t n, struct wall_request *request);
/* The tables of @n more have no place: what was passed over may be free by now. */
enum growth wall_refill(size_t n, struct wall_request *request);
/* The same where the heap has no place for @n more. */
enum growth wall_end_of_heap(size_t n, struct wall_request *request);

#endif
