/* SPDX-License-Identifier: MIT */
/*
 * page: blocks of pages out of one range of addresses.
 *
 * Words
 *   page        4 KiB of the heap, whatever the system's page size; the unit of
 *               the page map and of the descriptors
 *   block       2^order pages, aligned to its size; orders 0 to BLOCK_ORDER_MAX
 *   superblock  2 MiB, aligned: the unit that the range is handed out in, and
 *               what a huge page can back
 *   run         consecutive superblocks given out as one piece
 *   clean       free, and known to read as zero with no memory behind it
 *   dirty       free, but memory is still behind it
 *
 * The range and what belongs to it, low to high, each part with room behind it to grow:
 *
 *   +----------------+----------+---------+-------+--------+--------------------+
 *   | descriptors -> | links -> | <- meta | areas | map -> | heap ->            |
 *   +----------------+----------+---------+-------+--------+--------------------+
 *                                    pagemap_base ^        ^ 2 MiB aligned   committed
 *
 * "Areas" is the copy of the table of areas that free() takes (core/percpu/percpu.h).  What is
 * committed is mapped, and open as far as blocks were handed out (pagemap.c); behind it nothing is.
 *
 * The map has two bytes per page of the whole range: the offset of the slot
 * that free() pushes to, or a special slot below whose room is 0 for ever.
 *
 * Invariants
 *   PAGE-1  a descriptor's type is TYPE_FREE exactly while its block is on a
 *           free list of its zone;
 *   PAGE-2  no two free blocks of a zone are buddies;
 *   PAGE-3  a page's map entry is MAP_NONE unless it belongs to a slab or
 *           starts a large block;
 *   PAGE-4  memory of the heap is never unmapped once it was committed.
 */
#ifndef SLUB_PAGE_H
#define SLUB_PAGE_H

#include "core/os/os.h"
#include "core/percpu/percpu.h"

#define PAGE_SHIFT LINK_PAGE_SHIFT
#define PAGE_BYTES ((size_t)1 << PAGE_SHIFT)
#define SUPERBLOCK_SHIFT 21
#define SUPERBLOCK_BYTES ((size_t)1 << SUPERBLOCK_SHIFT)
#define SUPERBLOCK_PAGES (SUPERBLOCK_BYTES / PAGE_BYTES)
#define BLOCK_ORDER_MAX (SUPERBLOCK_SHIFT - PAGE_SHIFT - 1)

/* Slots that belong to no cache (see PAGE-3). */
enum map_entry {
	MAP_NONE = 0,
	MAP_LARGE = SLOT_BYTES,		/* first page of a large block */
	MAP_RESERVED = 2 * SLOT_BYTES,	/* what older readers take for a pool */
	MAP_SPECIAL_END = 3 * SLOT_BYTES,
};

enum page_type {
	TYPE_NONE,
	TYPE_FREE,
	TYPE_SLAB,
	TYPE_LARGE,
};

/*
 * The descriptor's flags:
 *
 *   31    30    29      28      27       26     25     24   23 .. 16 15 .. 8  7 .. 0
 * +------+------+-------+-------+--------+--------+-----+-------+------+-------+------+
 * | lock | kept | moved | stuck | fenced | bucket | run | dirty | node | order | type |
 * |      |      |       | anew  |        |        |     | guard |      |       |      |
 * |      |      |       | fresh |        |        |     |       |      |       |      |
 * +------+------+-------+-------+--------+--------+-----+-------+------+-------+------+
 *
 * lock is used by layout lock56 only (core/slab/lock_bit.c); dirty and stuck by free blocks;
 * moved by runs whose pages came from elsewhere (large_run.c); anew by large blocks that are
 * mapped anew at their free (renew.c); fresh by slabs whose uncarved objects read as zero;
 * run by large blocks that are made of whole superblocks, bucket by those that belong
 * to one (page->bucket), fenced by those between closed pages, and the place of dirty says
 * there which kind of closed pages (features/hardened/fence.c); fenced by slabs with a closed page
 * behind them, too (gap.c);
 * kept by blocks that lie in the reserve (features/reserve/reserve.c).
 *
 * A free of the block beside it reads them without owning the block, to see
 * whether it is free (PAGE-1); it is that exactly while the reader's lock says
 * so.  Hence relaxed accesses: page_flags_read(), page_flags_write().
 */
#define PAGE_LOCK_BIT (1u << 31)
#define PAGE_KEPT (1u << 30)
#define PAGE_MOVED (1u << 29)
#define PAGE_STUCK (1u << 28)
#define PAGE_ANEW (1u << 28)
#define PAGE_FRESH (1u << 28)
#define PAGE_FENCED (1u << 27)
#define PAGE_BUCKET (1u << 26)
#define PAGE_RUN (1u << 25)
#define PAGE_DIRTY (1u << 24)
#define PAGE_GUARDED (1u << 24)
/* What a block of the hardened build keeps while it is free: which of its pages are closed. */
#define PAGE_CLOSED_MASK (PAGE_FENCED | PAGE_GUARDED | 0xff00u)

struct page {
	uint32_t flags;
	/* slab: objects carved so far (node lock); large: pages */
	uint32_t count;
	union {
		uint64_t holes;		/* slab: see features/idle/holes.c */
		/* slab whose objects have no link in them: see features/idle/holes.c */
		struct {
			uint32_t purged_from;
			uint32_t nr_purged;
		};
		void *bucket;		/* large: see features/buckets/bucket_alloc.c */
	};
#if SLUB_CONFIG_LAYOUT == 0
	struct double_word state align_to(16);
	struct list list;
	uint32_t owner;		/* see page_owner() */
	uint32_t looked;	/* see page_looked() */
	void *unused;
#elif SLUB_CONFIG_LAYOUT == 1
	/* Two words at 16 or 24, whichever is 16-byte aligned here. */
	uintptr_t state_space[3];
	struct list list;
#else
	struct double_word state;
	struct list list;
	uint32_t owner;
	uint32_t looked;
#endif
};

#define DESCRIPTOR_BYTES (SLUB_CONFIG_LAYOUT == 0 ? 64 : 56)
_Static_assert(sizeof(struct page) == DESCRIPTOR_BYTES, "descriptor size");
#if SLUB_CONFIG_LAYOUT == 0
_Static_assert(offsetof(struct page, state) == 16, "double word aligned");
_Static_assert(offsetof(struct page, list) == 32, "list behind it");
#elif SLUB_CONFIG_LAYOUT == 1
_Static_assert(offsetof(struct page, state_space) == 16, "room to align");
_Static_assert(offsetof(struct page, list) == 40, "list behind it");
#else
_Static_assert(offsetof(struct page, state) == 16, "double word");
_Static_assert(offsetof(struct page, list) == 32, "list behind it");
#endif

/* The slab's {freelist, counters}; see core/slab/slab.h. */
static inline struct double_word *page_state(struct page *page)
{
#if SLUB_CONFIG_LAYOUT == 1
	return (struct double_word *)round_up((uintptr_t)page->state_space,
					      16);
#else
	return &page->state;
#endif
}

/*
 * The owner (group_charge()) that is charged with the large block, or the object of a
 * page or more, that starts here.
 */
static inline uint32_t *page_owner(struct page *page)
{
#if SLUB_CONFIG_LAYOUT == 1
	/* What the double word leaves of its space. */
	return (uint32_t *)(page->state_space +
			    ((uintptr_t)page->state_space % 16 ? 0 : 2));
#else
	return &page->owner;
#endif
}

/* Of a slab: features/idle/sparse.c. */
static inline uint32_t *page_looked(struct page *page)
{
#if SLUB_CONFIG_LAYOUT == 1
	return page_owner(page) + 1;
#else
	return &page->looked;
#endif
}

static inline uint32_t page_flags_make(enum page_type type, uint32_t order,
				       uint32_t node)
{
	return (uint32_t)type | order << 8 | node << 16;
}

static inline uint32_t page_flags_read(const struct page *page)
{
	return __atomic_load_n(&page->flags, __ATOMIC_RELAXED);
}

static inline void page_flags_write(struct page *page, uint32_t flags)
{
	__atomic_store_n(&page->flags, flags, __ATOMIC_RELAXED);
}

static inline enum page_type page_flags_type(uint32_t flags)
{
	return (enum page_type)(flags & 0xff);
}

static inline uint32_t page_flags_order(uint32_t flags)
{
	return flags >> 8 & 0xff;
}

static inline enum page_type page_type(const struct page *page)
{
	return page_flags_type(page_flags_read(page));
}

static inline uint32_t page_order(const struct page *page)
{
	return page_flags_order(page_flags_read(page));
}

static inline uint32_t page_node(const struct page *page)
{
	return page_flags_read(page) >> 16 & 0xff;
}

/* A number that others look at without its lock, or that is an estimate. */
static inline size_t size_read(const _Atomic size_t *what)
{
	return __atomic_load_n(what, __ATOMIC_RELAXED);
}

static inline void size_write(_Atomic size_t *what, size_t value)
{
	__atomic_store_n(what, value, __ATOMIC_RELAXED);
}

/* Under a lock that orders all changes of it. */
static inline void size_add(_Atomic size_t *what, size_t n)
{
	size_write(what, size_read(what) + n);
}

/* pagemap.c: const after start, but for the limit, which grows */
extern uintptr_t pagemap_base SLUB_INTERNAL;
/* pages from the base to the end of what is committed */
extern size_t pagemap_limit SLUB_INTERNAL;
extern uintptr_t descriptor_bias SLUB_INTERNAL;
extern uintptr_t page_link_bias SLUB_INTERNAL;
extern uintptr_t heap_start;
extern size_t heap_reserved_bytes;
extern size_t range_reserved_bytes;

static inline size_t pagemap_index(const void *addr)
{
	return ((uintptr_t)addr - pagemap_base) >> PAGE_SHIFT;
}

/* Does it lie in the heap's place, its tables included, mapped or not? */
bool pagemap_owns(const void *addr);

/* Is @addr one that the map can answer for? */
static inline bool pagemap_covers(const void *addr)
{
	return pagemap_index(addr) < __atomic_load_n(&pagemap_limit,
						     __ATOMIC_RELAXED);
}

/* The map entry of an address, MAP_NONE for one outside the range. */
static inline uint32_t pagemap_get_covered(const void *addr)
{
	return __atomic_load_n((uint16_t *)pagemap_base + pagemap_index(addr),
			       __ATOMIC_RELAXED);
}

static inline uint32_t pagemap_get(const void *addr)
{
	/* Read once; a compiler reads it anew behind the atomic load of the limit. */
	const uintptr_t base = pagemap_base;
	size_t index = ((uintptr_t)addr - base) >> PAGE_SHIFT;

	if (index >= __atomic_load_n(&pagemap_limit, __ATOMIC_RELAXED))
		return MAP_NONE;
	return __atomic_load_n((uint16_t *)base + index, __ATOMIC_RELAXED);
}

void pagemap_set(const void *addr, size_t pages, uint32_t entry);

/* @number: of the page in the address space; it lies in the heap. */
static inline struct page *page_of_number(uintptr_t number)
{
	return (struct page *)(descriptor_bias + number * sizeof(struct page));
}

/* The descriptor of the page that holds @addr; @addr lies in the heap. */
static inline struct page *page_of(const void *addr)
{
	return page_of_number((uintptr_t)addr >> PAGE_SHIFT);
}

static inline void *page_address(const struct page *page)
{
	return (void *)((((uintptr_t)page - descriptor_bias) /
			 sizeof(struct page)) << PAGE_SHIFT);
}

/* Finds a place for the range and sets up everything in front of the heap. */
int pagemap_init(const struct os_limits *limits);
/* A start has failed: all of it goes back. */
void pagemap_exit(void);
/*
 * Commits the heap up to @bytes from its start; under grow_lock.  -EEXIST: the
 * program has mapped part of that, at an address of its own choice; -EADDRINUSE: or of
 * what the tables need for it.
 */
int pagemap_commit(size_t bytes);
/* The same where more was refused just before: the limit of addresses is known. */
int pagemap_commit_less(size_t bytes);
/* The same, from @from on only: what lies before stays what it is. */
int pagemap_commit_behind(size_t from, size_t bytes);
size_t pagemap_committed(void);
/* May the heap become as large?  With the limit on address space, as far as it is known. */
bool pagemap_allows(size_t bytes);
/* Keeps *@word at what is committed, for other processes to read. */
void pagemap_publish(uint64_t *word);

/* superblock.c */
int superblock_init(uint32_t nr_nodes);
/*
 * @n superblocks, the first aligned to @align superblocks; NULL: no space.
 * Before the heap grows the growth hook is asked.  They are open, unless they are to be cut into
 * blocks (@is_block).
 */
char *superblock_alloc(size_t n, size_t align, uint32_t node, bool is_block,
		       bool *is_zero);
/*
 * The same in one try, and perhaps closed; @may_grow: more may be asked of the system.
 * *@nr_clean: how many of them have no memory behind them, which page_bought() does not know
 * as yet.
 */
char *superblock_take(size_t n, size_t align, uint32_t node, bool is_block,
		      bool may_grow, size_t *nr_clean);
void superblock_free(char *start, size_t n, bool is_dirty);
/* Makes a run longer in place: superblocks behind it, if they are free. */
bool superblock_extend(char *start, size_t n, size_t more);
/*
 * Could the heap not grow, when it last tried, for addresses that the program has mapped?
 * Memory may be had elsewhere then.
 */
bool superblock_is_walled_in(void);
extern struct lock superblock_lock;
size_t superblock_nr_dirty(void);
size_t superblock_nr_used(void);

/* zone.c: the buddy lists of one node */
/*
 * A block of @node, out of its zone or a new superblock.  NULL: there is none; where
 * other nodes have one nobody was asked to free something, for their zones come first.
 */
void *zone_alloc(uint32_t order, uint32_t node, bool *is_zero);
void zone_free(void *block, uint32_t order, uint32_t node, bool is_dirty);
void zone_init(uint32_t nr_nodes);
size_t zone_nr_dirty(void);

/* Blocks that the reserve lacks (features/reserve), an estimate: 0 nearly always. */
extern size_t page_reserve_short SLUB_INTERNAL;

static inline bool page_reserve_is_short(void)
{
	return unlikely(__atomic_load_n(&page_reserve_short,
					__ATOMIC_RELAXED) != 0);
}

/* Called after frees, with no lock held: makes up what the reserve lacks. */
static inline void page_reserve_refill(void)
{
	if (page_reserve_is_short())
		reserve_refill();
}

/* block.c: what the layers above call */
void block_init(uint32_t nr_nodes);
/*
 * A block of 2^@order pages on @node, or NULL.  Its map entries are MAP_NONE.
 * *@is_zero, if asked for, tells whether it is known to read as zero.
 */
void *block_alloc(uint32_t order, uint32_t node, bool *is_zero);
/*
 * Would block_alloc() find one, or memory to make it of, that the heap has
 * already?  As of a moment ago; false: it would take a clean superblock.
 */
bool block_is_near(uint32_t order, uint32_t node);
/* The same as block_alloc() for one whose every page will be touched soon. */
void *block_alloc_touched(uint32_t order, uint32_t node);
void block_free(void *block, uint32_t order, uint32_t node);
/* Frees a list of blocks that percpu_collect() took from slot @slot. */
void block_free_collected(uint32_t slot, struct slot *lists);
bool block_owns_slot(uint32_t slot);
/* Gives the blocks in the lists that @from says back to the zones. */
void block_flush(enum collect_from from);

/* large.c: blocks of any number of pages, beyond the largest size class */
/*
 * At least @bytes, aligned to @align (a power of two); the block's first page
 * is marked MAP_LARGE.  NULL: no memory.
 */
void *large_alloc(size_t bytes, size_t align, bool *is_zero);
/* The same out of the reserve: core/base/features.h, reserve_take_large(). */
void *large_alloc_reserve(size_t bytes, size_t align);
/*
 * Could that ever be had, if everybody gave back what they can?  Not what is larger than
 * the heap or the limit: for that nobody is to be asked.
 */
bool large_is_possible(size_t bytes, size_t align);
/*
 * The same for one that was freed and kept whole, which is the usual case; its
 * contents are undefined.  NULL: there is none of this size.
 */
void *large_alloc_kept(size_t bytes);
void large_free(void *ptr);
/* Makes the first @bytes of a new block zero (zero.c). */
void large_zero(void *ptr, size_t bytes);
/* Pages in large blocks. */
size_t large_nr_pages(void);
/* Runs now whose pages came from elsewhere: each is a mapping or two more. */
size_t run_nr_moved(void);
size_t large_bytes(const void *ptr);
/* What a block for @bytes will have. */
size_t large_bytes_for(size_t bytes);
/*
 * Grows or shrinks in place, or moves by mremap, or by a copy if little is left; NULL: cannot,
 * unchanged.
 */
void *large_resize(void *ptr, size_t bytes);
/* Would it leave the block as it is?  Not asked in the hardened build. */
bool large_stays(void *ptr, size_t bytes);
/* A new block is larger than the @bytes that are wanted of it now: it is to grow. */
void large_has_room(void *ptr, size_t bytes);
/*
 * A block that was charged: large_free() gives the charge back, and
 * large_resize() charges what it grows by, to the same owner.
 */
void large_set_owner(void *ptr, uint32_t owner);

/* limit.c: what is in use, and how much may be */
/* As the option says; again when that has changed. */
void page_limit_init(void);
/* At most @bytes in use; 0: no limit.  What is in use already stays. */
void page_limit_set(size_t bytes);
size_t page_limit_bytes(void);
/* Where the limit stands, in pages; SIZE_MAX there: none. */
const _Atomic size_t *page_limit_place(void);
/*
 * Bytes in blocks that are handed out: to slabs, as large blocks, in the lists
 * of the CPUs and in the reserve.  Idle memory is not among them.
 */
size_t page_used_bytes(void);
/*
 * Would the system refuse a program that maps @bytes itself?  Only what is half of the
 * machine's memory or more is asked about.
 */
bool page_system_refuses(size_t bytes);
/* Counts @pages as used; false: that would be beyond the limit. */
bool page_charge(size_t pages);
/* The same for what must not be refused. */
void page_charge_always(size_t pages);
void page_uncharge(size_t pages);
/* Pages that may still be taken into use; SIZE_MAX: no limit. */
size_t page_limit_room(void);
/*
 * The same of what the cgroup allows, which nothing is refused for: pages that
 * may still become resident.  SIZE_MAX: no limit, or the heap is small.
 */
size_t page_group_room(void);
/* There is no limit near: what nobody asked for may be resident too. */
bool page_memory_is_ample(void);
/* Pages in use or idle. */
size_t page_nr_resident(void);

/* Somebody wants to know: there is a statistics file. */
extern bool slab_is_told SLUB_INTERNAL;

/*
 * Called with no lock held when a slab of @cache, or a large block (NULL), has
 * come or gone, and when objects have left or entered slabs.
 */
static inline void slab_tell(struct slub_cache *cache)
{
	if (unlikely(slab_is_told))
		stats_file_update(cache);
}

/* budget.c */
void page_purge_init(const struct os_limits *limits);
/* The option is another than at the start. */
void page_retain_changed(void);
/* Tells that clean pages were taken into use; with no lock held. */
void page_bought(size_t pages);
/* Free pages with memory behind them, those in per-CPU lists apart. */
size_t page_nr_dirty(void);
/* What barns hold: it counts as the free pages do. */
extern _Atomic ptrdiff_t page_kept_bytes SLUB_INTERNAL;
/* Free pages that the kernel would not take back; they count as neither dirty nor used. */
size_t page_nr_stuck(void);
/*
 * Where other processes find the numbers behind that and behind run_nr_moved(); those of
 * pages are one for each node, so many bytes apart.
 */
struct page_places {
	const _Atomic size_t *stuck_superblocks;
	const _Atomic size_t *stuck_pages;
	size_t stuck_stride;
	const _Atomic size_t *moved;
};
struct page_places page_places(void);
/* The same of free pages of slabs that had gone back to the system, and are used again. */
void page_bought_again(size_t pages);
/* What that does about regret, for a caller that may hold a lock. */
void page_regretted(size_t pages);
/* Whole free pages of slabs that are in use, an estimate: features/idle/sparse.c writes it. */
extern _Atomic size_t page_nr_sparse SLUB_INTERNAL;
struct purge;
/*
 * The hook gives back up to @pages of them, as far as @purge allows, with no lock held; returns
 * how many.
 */
void page_set_sparse_hook(size_t (*hook)(size_t pages, struct purge *purge));
/* Until then none of them is to be had: of the coarse clock. */
extern _Atomic uint64_t page_sparse_wait_ns SLUB_INTERNAL;
/* How many bytes of free memory may keep memory behind them. */
size_t page_budget(void);
/* May barns hold @bytes more? */
bool page_budget_has_room(size_t bytes);
/*
 * Called after frees, with no lock held: gives memory back to the system if more than the
 * limit lies idle, as much as one call may (budget.c).  Returns how many pages.
 */
size_t page_purge_if_needed(void);
/* More than the base is held, or perhaps. */
bool page_has_too_much(void);
/* May a thread whose fast path was closed look, with page_purge_if_needed()?  Not too often. */
enum page_visit {
	VISIT_NOT,
	VISIT_LATER,	/* not in this tick, but it may come again */
	VISIT_NOW,
	VISIT_QUIET,	/* the first of a tick, and the last visits came seldom */
};
enum page_visit page_purge_visit(void);
/*
 * The last call that gave memory back had not enough with what one call may spend: slow paths
 * of frees come more often meanwhile, and go on.
 */
extern _Atomic bool page_purge_owed SLUB_INTERNAL;

static inline bool page_purge_is_owed(void)
{
	return unlikely(__atomic_load_n(&page_purge_owed, __ATOMIC_RELAXED));
}

/* Gives back what is held for regret alone: somebody asks for it. */
void page_purge_regret(void);
/* Keeps at most @bytes of idle memory; returns how many pages it gave back. */
size_t page_purge(size_t bytes);
/* The same to the last page, and the descriptors of what is free then. */
size_t page_purge_all(void);
/* All that is free on @node, with no lock held; returns how many pages it gave back. */
size_t page_purge_node(uint32_t node);

void page_fork_prepare(void);
void page_fork_finish(bool in_child);

#endif
