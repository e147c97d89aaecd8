/* SPDX-License-Identifier: MIT */
/* What the files of the page layer share and no other layer knows. */
#ifndef SLUB_PAGE_INTERNAL_H
#define SLUB_PAGE_INTERNAL_H

#include "core/page/page.h"
#include "core/page/purge.h"

/*
 * STUCK: dirty, and the kernel would not take it back.  It is not counted as dirty, so that
 * nobody tries for ever; purge_retry() makes it DIRTY again.
 */
enum zone_kind { CLEAN, DIRTY, STUCK, KINDS };

/*
 * The buddy lists of one node, and what it keeps aside.  The reserve lies under
 * the zone's own lock so that a free can fill it before anyone else sees
 * the block.
 */
struct zone {
	struct lock lock;
	uint32_t node;		/* const */
	/* under lock */
	uint32_t present;	/* bit per order: a list is not empty */
	struct list free[BLOCK_ORDER_MAX + 1][KINDS];
	struct list reserve;	/* blocks of RESERVE_ORDER, type TYPE_NONE */
	/* written under lock, read without it too */
	_Atomic size_t nr_dirty;	/* pages in dirty blocks */
	_Atomic size_t nr_stuck;	/* pages in those set aside */
	_Atomic size_t nr_reserve;	/* blocks in the reserve */
	_Atomic size_t reserve_wanted;	/* blocks that it is to have */
} align_to(64);

/*
 * Pages that all CPUs count, with each run taken or given back.  In a line of its
 * own: what malloc and free read would wait for it (tests/golden/lines.py).
 */
struct page_count {
	_Atomic size_t pages;
} align_to(64);

/* zone.c */
extern struct zone zones[OS_NODES_MAX];
extern uint32_t nr_zones;

static inline struct zone *zone_of_node(uint32_t node)
{
	return &zones[node < nr_zones ? node : 0];
}

static inline bool page_is_dirty(const struct page *page)
{
	return page_flags_read(page) & PAGE_DIRTY;
}

/* Of @dirty pages among @whole, those among @pages: all or none, or a share. */
static inline size_t dirty_share(size_t dirty, size_t pages, size_t whole)
{
	return (dirty * pages + whole - 1) / whole;
}

/* On and off the lists, under the zone's lock; @dirty: how many of its pages. */
void zone_block_insert(struct zone *zone, struct page *page, uint32_t order, size_t dirty);
void zone_block_remove(struct zone *zone, struct page *page, uint32_t order);
/*
 * A block of 2^@order pages off the lists, or NULL; under the zone's lock.  *@dirty: so many of
 * its pages may have memory behind them; 0: it reads as zero.
 */
struct page *zone_block_take(struct zone *zone, uint32_t order, size_t *dirty);
/* Is there one, as of a moment ago? */
bool zone_has_block(uint32_t order, uint32_t node);
/*
 * Splits what starts at @page, of order @from and on no list, down to @order;
 * the rest goes on the lists.  Returns which of its @dirty pages are left to it.  Under the
 * zone's lock.
 */
size_t zone_block_split(struct zone *zone, struct page *page, uint32_t from,
			uint32_t order, size_t dirty);

/*
 * Takes clean free blocks behind @block, of @order, so that all of it is a block of
 * the order that it returns, @most at the most; and puts what is behind the
 * first @order back on the lists.
 */
uint32_t zone_block_widen(void *block, uint32_t order, uint32_t most,
			  uint32_t node);
void zone_block_narrow(void *block, uint32_t from, uint32_t order,
		       uint32_t node, bool is_dirty);

/*
 * As zone_alloc(), of @pages that are no power of two; @align: bytes.  What is behind them goes
 * back and never counted.
 */
void *zone_alloc_front(size_t pages, size_t align, uint32_t node, bool *is_zero);

/* zone_row.c */
/* What a request takes: the first @pages of a block of @order, or a row of as many. */
struct piece {
	uint32_t order;
	size_t pages, align;
	size_t dirty;	/* of what was taken */
	bool is_row;	/* nothing is to be cut off */
	bool is_refused;	/* the system would not open what was taken */
};

/* The first row that fits, or NULL. */
void *zone_row_take(struct zone *zone, struct piece *piece);
/* Takes @more pages from @end on out of the zone, if all of them are free. */
bool zone_extend(char *end, size_t more, uint32_t node);

/* pagemap.c: the heap is open up to there (OPEN-2) */
extern _Atomic uintptr_t heap_opened SLUB_INTERNAL;
cold bool heap_open_to(const void *end);

static inline bool heap_is_open(const void *end)
{
	/* acquire: pairs with the release in open_to() */
	return likely((uintptr_t)end <= __atomic_load_n(&heap_opened, __ATOMIC_ACQUIRE));
}

/* What ends at @end is about to be handed out (OPEN-1), with no lock held; false: no memory. */
static inline bool heap_open(const void *end)
{
	return heap_is_open(end) || heap_open_to(end);
}

/* superblock.c */
extern struct lock grow_lock;
/* One superblock is free again, with @dirty pages that have memory behind them. */
void superblock_free_mixed(char *start, size_t dirty);
/* So many had one that was just taken, and was not clean. */
size_t superblock_dirty_pages(const char *start);

/* superblock_home.c: const after start; NULL: there is one node */
extern uint8_t *superblock_homes SLUB_INTERNAL;
size_t superblock_settle_on(char *start, size_t n, uint32_t node, size_t nr_clean);

/* That of a superblock by its number. */
static inline uint32_t superblock_home(size_t index)
{
	return superblock_homes && superblock_homes[index] ? superblock_homes[index] - 1u : 0;
}

/* @n superblocks that were just taken become memory of @node; how many are clean then. */
static inline size_t superblock_settle(char *start, size_t n, uint32_t node,
				       size_t nr_clean)
{
	return superblock_homes ? superblock_settle_on(start, n, node, nr_clean) : nr_clean;
}

/*
 * block.c: freed large blocks that stay whole, in classes of more than 2^3 pages and up to half a
 * superblock.
 */
#define KEPT_SHIFT_MIN 3
#define KEPT_STEPS 8
#define KEPT_CLASSES ((BLOCK_ORDER_MAX - KEPT_SHIFT_MIN) * KEPT_STEPS)

static inline bool is_kept_size(size_t pages)
{
	return pages > 1 << KEPT_SHIFT_MIN && pages <= (size_t)1 << BLOCK_ORDER_MAX;
}

/* For such a size. */
static inline uint32_t kept_class(size_t pages)
{
	uint32_t shift = ilog2(pages - 1);

	return (shift - KEPT_SHIFT_MIN) * KEPT_STEPS +
	       (uint32_t)((pages - 1) >> (shift - KEPT_SHIFT_MIN) & (KEPT_STEPS - 1));
}

static inline size_t kept_class_pages(uint32_t nr)
{
	return (size_t)(nr % KEPT_STEPS + KEPT_STEPS + 1) << nr / KEPT_STEPS;
}

/* Pages in the lists, nearly: what frees look at. */
extern struct page_count quick_pages;
/* The same as of now: idle memory. */
size_t quick_nr_pages(void);
/* Is it to be merged for a request of @pages, which would take clean memory else? */
bool quick_is_spare(size_t pages);
/* A block of class @nr on @node that was kept; NULL: this CPU has none. */
void *quick_alloc(uint32_t nr, uint32_t node);
/* Keeps @block; false: it is not to be kept, and the caller's. */
bool quick_free(void *block, size_t pages, uint32_t node);
/*
 * Gives what this CPU keeps back to the zones, and what other CPUs keep where that needs no
 * stop; does nothing while a lock is held.
 */
void quick_flush_here(void);
static inline void quick_flush(void)
{
	if (quick_nr_pages())
		quick_flush_here();
}

/* limit.c, in pages; SIZE_MAX: none */
extern _Atomic size_t limit_pages SLUB_INTERNAL;
/* what the cgroup allows; features/growth writes it */
extern _Atomic size_t group_pages SLUB_INTERNAL;

/* renew.c */
/* A block that is handed out, asked for with @align: has it to be mapped anew at its free? */
void renew_mark(void *ptr, size_t pages, size_t align);
/* A block of @pages pages that is so marked was freed. */
void renew_note(size_t pages);
void renew_fork_finish(bool in_child);

/* limit.c: at the start */
void page_system_init(const struct os_limits *limits);

/* budget.c */
/*
 * Pages that a free of a block lets lie idle without a look at the limit, which is
 * lower after a burst only; 0 where that varies.
 */
extern _Atomic size_t purge_idle_always;
void purge_limit_changed(void);
/*
 * Frees superblocks of a run, whose memory nobody has counted; @flags: those of the run.
 */
void page_run_free(char *start, size_t n, uint32_t flags);
/* Gives pages of a block back that are mapped anew at its free. */
enum renewal page_renew(char *start, size_t bytes, uint32_t node);
/* Flags of a block that is mapped anew at its free, whatever the budget has room for. */
#define PAGE_GOES (PAGE_MOVED | PAGE_ANEW)

/* @idle pages lie idle: page_purge_if_needed(), unless that has just found nothing to do. */
void page_purge_look(size_t idle);

/* After a free, with no lock held: mostly no call. */
static inline void purge_look(void)
{
	size_t idle = size_read(&quick_pages.pages) + superblock_nr_dirty();

	for (uint32_t n = 0; n < nr_zones; n++)
		idle += __atomic_load_n(&zones[n].nr_dirty, __ATOMIC_RELAXED);
	/* The first may be a little below 0: others are folding their parts. */
	if ((ptrdiff_t)idle > (ptrdiff_t)size_read(&purge_idle_always))
		page_purge_look(idle);
}

/* large.c */
static inline void large_entry_set(const void *ptr, enum map_entry entry)
{
	__atomic_store_n((uint16_t *)pagemap_base + pagemap_index(ptr),
			 (uint16_t)entry, __ATOMIC_RELAXED);
}

/*
 * How many pages the program wanted last, of a block that has room to grow; 0: of any other.
 * Only the thread that has the block looks.
 */
static inline uintptr_t *large_wanted(struct page *page)
{
	return &page_state(page)->first;
}

static inline void large_mark(void *ptr, size_t pages, uint32_t node, bool run)
{
	struct page *page = page_of(ptr);

	page_flags_write(page, page_flags_make(TYPE_LARGE, 0, node) |
				       (run ? PAGE_RUN : 0));
	/* Walks look at what they take for a slab, or count groups by. */
	__atomic_store_n(&page->count, (uint32_t)pages, __ATOMIC_RELAXED);
	__atomic_store_n(page_owner(page), 0, __ATOMIC_RELAXED);
	*large_wanted(page) = 0;
	large_entry_set(ptr, MAP_LARGE);
}

void large_unmark(void *ptr);
/* Gives a block that no longer counts as a large one to its zone. */
void large_release(void *block, size_t pages, uint32_t node);
/* @pages, which zones count as used, belong to large blocks from now on. */
void large_count_add(size_t pages);
void large_count_set(struct page *page, size_t pages);
/* Of *@node or, when there is none and no more to be had, of another: *@node then. */
void *large_piece(size_t pages, size_t align, uint32_t *node, bool *is_zero);

/* Pages in the largest block that is cut from a zone; a longer one is a run. */
#define ZONE_PAGES_MAX ((size_t)1 << BLOCK_ORDER_MAX)

static inline bool is_run(size_t pages)
{
	return pages > ZONE_PAGES_MAX;
}

/* large_run.c: for page_places() */
const _Atomic size_t *run_moved_place(void);

/* large_run.c */
/*
 * So small a block has no business in a superblock of its own: the heap's range is four
 * times the memory, and would be full before that is.
 */
#define RUN_PAGES_MIN (SUPERBLOCK_PAGES / 4)

/*
 * What a run of @pages counts for: where huge pages are asked for, memory comes
 * 2 MiB at a time, also behind the end.
 */
size_t run_charge(size_t pages);
/* A run for @pages pages; @charged of them are counted already. */
void *run_piece(size_t pages, size_t align, size_t charged, uint32_t node, bool *is_zero);
void run_free(char *ptr, size_t pages, uint32_t flags);
/* The last superblocks go, and a tail worth a call. */
void run_shrink(char *ptr, size_t old, size_t pages, uint32_t flags);
/* Where it is, or else elsewhere. */
void *run_grow(char *ptr, size_t old, size_t pages);

/* large.c: to a block that is cut from a zone, by a copy; NULL: no memory. */
void *large_leave(char *ptr, size_t old, size_t pages, uint32_t flags);

/* Large blocks as large.c has them, without fences. */
void *large_take(size_t bytes, size_t align, bool *is_zero);
/* @flags: PAGE_RUN, and the node; @ptr is marked no more. */
void large_give(void *ptr, size_t pages, uint32_t flags);

/* What the reserve lacks of the zone: core/base/features.h, reserve_claim(). */
static inline bool reserve_is_short(const struct zone *zone)
{
	return size_read(&zone->nr_reserve) < size_read(&zone->reserve_wanted);
}

#endif
