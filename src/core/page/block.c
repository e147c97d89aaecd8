/* SPDX-License-Identifier: MIT */
/*
 * Blocks of pages, through the lists of a CPU: a freed block comes back on the next request
 * of its size without a lock.  (The kernel's page allocator pass-through went from 106 to 434
 * cycles for want of this.)
 *
 * There is a list for each order, which slabs are made of, and one for each class of large
 * blocks up to 1 MiB: eight classes per doubling, powers of two among them.  The lists are
 * ordinary slots, linked through the table of pages, so no memory of a block is touched.
 *
 * On several nodes a list has blocks of the node that its CPU is on: a block of another node is
 * not put in.  But a CPU's number can come to another node (it is the kernel's to give), and a
 * thread can move there between the look and the push.  So a block in a list has its node in
 * its descriptor, which nobody else looks at, and one that is not of the node where it is
 * wanted goes to its zone instead.  Each was put in by one free, so a free pays for one at most.
 *
 * ---- what lies in them ----
 *
 * The lists of orders are short, and what lies in them counts as used.  A list that is full
 * goes back to the zone whole.
 *
 * The lists of large blocks have no bound of their own: they are idle memory like any other
 * (page_nr_dirty()), and the budget is their bound.  To the counts of used and of large pages a
 * block in a list belongs still, so that it comes and goes without touching them: a thread that
 * reads them subtracts quick_nr_pages().  The first to go when it is too much are those of the
 * CPU that frees, without a stop of any other.  What idles in another CPU's lists goes with
 * that CPU's next look at the budget, or when somebody stops it for all (block_flush()).  A
 * request that would take clean memory merges those of its own CPU first, if the lists are no
 * use as they are (quick_is_spare()), or if there is no clean memory either.
 *
 * Their pages are counted in a word of the CPU, by sequences.  A word that is far from 0 is
 * folded into a number for all, which is what a free looks at: all words together may hide as
 * many pages from it as the least budget has.  A block is counted before its push, and until
 * behind its pop: so no sum is less than what lies in lists, except for one that is taken
 * between the two steps of a fold.  A child that is forked in between has lost that block, as
 * it has one that was being allocated, and counts it as idle.
 *
 * ---- windows ----
 *
 * A *window* is the memory of several blocks, brought at once.  A page in a heap of
 * small pages costs a page fault at its first touch.  A caller that will soon touch all
 * pages of a block asks for a window.  Then these pages come together with those of the
 * clean blocks behind it, which the next requests get.  In a virtual machine
 * (Linux 6.18), by the number of pages asked for at once, ns per page:
 *
 *   touched  2      4      8      16     32     512    in huge pages
 *   1,990    1,975  1,670  1,520  1,440  1,400  1,380  330
 *
 * So a window is 16 pages.  Its free blocks count as dirty: they are idle memory like
 * any other, and a thread that wants a block gets them before clean ones.
 */
#include <errno.h>

#include "core/page/page_internal.h"

#include <slub/percpu.h>

/* Bytes that one CPU may keep per order, and blocks at the least. */
#define LIST_BYTES ((size_t)128 << 10)
#define LIST_BLOCKS_MIN 2
#define LIST_BLOCKS_MAX 8

#define WINDOW_ORDER 4

#define NR_ORDERS (BLOCK_ORDER_MAX + 1)
#define NR_LISTS (NR_ORDERS + KEPT_CLASSES)
/* Of so many CPUs at a time what is in the lists fits the stack: 3 KiB. */
#define FLUSH_CPUS 2
/* More than a budget has room for. */
#define KEPT_BLOCKS_MAX (1 << 30)
/* So many blocks of other nodes a request takes off a list. */
#define STRANGE_MAX 8

/* The slots of the lists: const after start, in a row; 0: there are none. */
static uint32_t lists;
static bool keeps;		/* the same: large blocks too */

/* The least budget. */
#define HIDDEN_MAX (((size_t)1 << 20) / PAGE_BYTES)
/* Of so many areas the words are read for an exact sum. */
#define AREAS_SUMMED 64

/* Pages in lists of large blocks: a word of each CPU, and what was folded. */
static uintptr_t kept_word;	/* const after start */
struct page_count quick_pages;

static uint32_t list_slot(uint32_t list)
{
	return lists + list * SLOT_BYTES;
}

static int32_t list_capacity(uint32_t list)
{
	size_t n;

	if (list >= NR_ORDERS)
		return KEPT_BLOCKS_MAX;
	n = LIST_BYTES / (PAGE_BYTES << list);
	n = min_size(max_size(n, LIST_BLOCKS_MIN), LIST_BLOCKS_MAX);
	return (int32_t)n;
}

void block_init(uint32_t nr_nodes)
{
	/* The special slots of enum map_entry come first. */
	uint32_t special = MAP_SPECIAL_END / SLOT_BYTES - 1;

	zone_init(nr_nodes);
	percpu_alloc_slots(special);
	lists = percpu_alloc_slots(NR_LISTS);
	kept_word = percpu_alloc(sizeof(int64_t), sizeof(int64_t));
	keeps = lists && kept_word && option_value(OPTION_retain) > 0;
}

/* ---- what is kept ---- */

static size_t word_read(const char *area)
{
	return area ? size_read((const _Atomic size_t *)(area + kept_word)) : 0;
}

size_t quick_nr_pages(void)
{
	size_t sum = size_read(&quick_pages.pages);
	uint32_t end = percpu_areas_end();

	if (end > AREAS_SUMMED)
		return (ptrdiff_t)sum > 0 ? sum : 0;
	sum += word_read(percpu_shared_area());
	for (uint32_t cid = 0; cid < end; cid++)
		sum += word_read(percpu_area(cid));
	return (ptrdiff_t)sum > 0 ? sum : 0;
}

/*
 * The blocks of a class that are in use vary by chance: of N by about the square root of N, and
 * so many lie in its list.  With M classes of some N / M blocks each that is the part
 * sqrt(M / N) of what is in use: an eighth, if a class has 64 blocks.  Then a class finds its own
 * places again, and what programs touch of blocks, the ends mostly, lies on the same pages as
 * before.  Where classes have fewer blocks, or more lies in lists, it is better used merged.
 */
#define SPARE_SHARE 8
#define CLASS_BLOCKS (SPARE_SHARE * SPARE_SHARE)

bool quick_is_spare(size_t pages)
{
	size_t kept = quick_nr_pages(), used;

	if (!kept)
		return false;
	used = page_used_bytes() / PAGE_BYTES;
	return kept > used / SPARE_SHARE || used / KEPT_CLASSES / CLASS_BLOCKS < pages;
}

static cold void fold(int64_t pages)
{
	slub_percpu_add(kept_word, -pages);
	inject(INJECT_fold);
	__atomic_fetch_add(&quick_pages.pages, (size_t)pages, __ATOMIC_RELAXED);
}

/* Less where a smaller budget was given. */
static size_t hidden_most(void)
{
	return min_size(HIDDEN_MAX, option_value(OPTION_retain) / PAGE_BYTES);
}

static void quick_count_add(size_t pages)
{
	int64_t now = slub_percpu_fetch_add(kept_word, (int64_t)pages) + (int64_t)pages;
	size_t far = now < 0 ? (size_t)-now : (size_t)now;

	if (unlikely(far * percpu_areas_end() > hidden_most()))
		fold(now);
}

/* ---- lists ---- */

/* A block that is in no list any more goes to its zone. */
static cold void list_release(uint32_t list, void *block)
{
	uint32_t node = page_node(page_of(block));

	if (list < NR_ORDERS) {
		zone_free(block, list, node, true);
		return;
	}
	list -= NR_ORDERS;
	quick_count_add(-kept_class_pages(list));
	inject(INJECT_quick);
	if (!SLUB_CONFIG_HARDENED || fence_open(block, kept_class_pages(list)))
		large_release(block, kept_class_pages(list), node);
}

static cold void list_release_all(uint32_t list, void *block)
{
	while (block) {
		void *next = *page_link(page_link_bias, block);

		list_release(list, block);
		block = next;
	}
}

/* @block is not of @node: what is behind it may be. */
static cold void *list_pop_near(uint32_t list, void *block, uint32_t node)
{
	for (int i = 0; block && page_node(page_of(block)) != node; i++) {
		list_release(list, block);
		block = i < STRANGE_MAX ? percpu_pop(list_slot(list), page_link_bias) : NULL;
	}
	return block;
}

static always_inline void *block_pop(uint32_t list, uint32_t node)
{
	void *block = lists ? percpu_pop(list_slot(list), page_link_bias) : NULL;

	if (likely(nr_zones == 1) || !block)
		return block;
	return list_pop_near(list, block, node);
}

/* The list is full, or this thread has none yet. */
static cold bool list_push_slowly(uint32_t list, void *block)
{
	uint32_t slot = list_slot(list);
	void *full;
	bool done;

	percpu_enter();
	full = percpu_take(slot, list_capacity(list));
	*page_link(page_link_bias, block) = NULL;
	done = percpu_put(slot, block, list_room(list_capacity(list), 1));
	list_release_all(list, full);
	return done;
}

/* False: it is the caller's. */
static always_inline bool list_push(uint32_t list, void *block, uint32_t node)
{
	if (unlikely(!lists || page_reserve_is_short()))
		return false;
	if (unlikely(nr_zones > 1)) {
		if (node != os_node_current())
			return false;
		inject(INJECT_strange);
		page_flags_write(page_of(block),
				 page_flags_make(TYPE_NONE, 0, node) |
				 (SLUB_CONFIG_HARDENED ? page_flags_read(page_of(block)) &
							 PAGE_CLOSED_MASK : 0));
	}
	return likely(percpu_push(list_slot(list), block, page_link_bias)) ||
	       list_push_slowly(list, block);
}

void *block_alloc(uint32_t order, uint32_t node, bool *is_zero)
{
	void *block = block_pop(order, node);
	bool zero = false;

	if (!block)
		block = zone_alloc(order, node, &zero);
	if (is_zero)
		*is_zero = zero;
	return block;
}

bool block_is_near(uint32_t order, uint32_t node)
{
	return quick_nr_pages() || superblock_nr_dirty() ||
	       (lists && percpu_head(list_slot(order))) ||
	       zone_has_block(order, node);
}

static void *window_alloc(uint32_t order, uint32_t node)
{
	bool is_zero;
	void *block = zone_alloc(order, node, &is_zero);
	uint32_t end = order;
	bool is_dirty;

	/* Where memory is limited nothing is brought that nobody asked for. */
	if (!block || !is_zero || !page_memory_is_ample())
		return block;
	if (order < WINDOW_ORDER)
		end = zone_block_widen(block, order, WINDOW_ORDER, node);
	inject(INJECT_window);
	/* What breaks off, for want of memory in the group, say, has brought some of it. */
	is_dirty = os_populate(block, PAGE_BYTES << end) != -EINVAL;
	if (end == order)
		return block;
	if (is_dirty)
		page_bought(((size_t)1 << end) - ((size_t)1 << order));
	zone_block_narrow(block, end, order, node, is_dirty);
	return block;
}

void *block_alloc_touched(uint32_t order, uint32_t node)
{
	void *block = block_pop(order, node);

	return block ? block : window_alloc(order, node);
}

void block_free(void *block, uint32_t order, uint32_t node)
{
	if (!list_push(order, block, node))
		zone_free(block, order, node, true);
}

/* ---- large blocks ---- */

void *quick_alloc(uint32_t class, uint32_t node)
{
	void *block = block_pop(NR_ORDERS + class, node);

	if (block)
		quick_count_add(-kept_class_pages(class));
	return block;
}

bool quick_free(void *block, size_t pages, uint32_t node)
{
	uint32_t class;

	if (unlikely(!keeps || !is_kept_size(pages)))
		return false;
	class = kept_class(pages);
	if (unlikely(kept_class_pages(class) != pages))
		return false;
	quick_count_add(pages);
	if (likely(list_push(NR_ORDERS + class, block, node)))
		return true;
	quick_count_add(-pages);
	return false;
}

/* One by one: of a list in hand a child that is forked meanwhile would lose all. */
static cold void quick_flush_list(uint32_t list)
{
	/* Others may be freeing all the time. */
	size_t most = quick_nr_pages() / kept_class_pages(list - NR_ORDERS);
	void *block;

	while (most-- && (block = percpu_pop(list_slot(list), page_link_bias)))
		list_release(list, block);
}

static cold void flush(enum collect_from from, uint32_t first)
{
	struct slot some[FLUSH_CPUS * NR_LISTS];
	struct collection taken = { .lists = some,
				    .nr_lists_max = FLUSH_CPUS * NR_LISTS };

	if (!lists || slub_thread.locks_held)
		return;
	percpu_collection_init(&taken, from, list_slot(first), NR_LISTS - first);
	while (percpu_collect(&taken)) {
		for (uint32_t i = 0; i < taken.nr_lists; i++)
			block_free_collected(collection_slot(&taken, i), &some[i]);
	}
}

cold void quick_flush_here(void)
{
	if (slub_thread.locks_held || !lists)
		return;
	for (uint32_t list = NR_ORDERS; list < NR_LISTS; list++) {
		if (percpu_head(list_slot(list)))
			quick_flush_list(list);
	}
	/* Without a stop of any CPU: see COLLECT_HERE. */
	if (percpu_backend != BACKEND_RSEQ && quick_nr_pages())
		flush(COLLECT_HERE, NR_ORDERS);
}

bool block_owns_slot(uint32_t slot)
{
	return lists && slot >= lists && slot < list_slot(NR_LISTS);
}

cold void block_free_collected(uint32_t slot, struct slot *taken)
{
	list_release_all((slot - lists) / SLOT_BYTES, taken->main.head);
}

cold void block_flush(enum collect_from from)
{
	flush(from, 0);
}
