/* SPDX-License-Identifier: MIT */
/*
 * Zones: the buddy lists, one zone per node.
 *
 * The descriptor of its first page describes a free block; no memory of the
 * block itself is touched.  Each order has two lists.  Dirty blocks are given out
 * first, for they cost no page fault.
 *
 * A block merged from both kinds is dirty, and its descriptor has how many of its pages have
 * memory behind them.  Which ones they are nobody keeps, so what is cut off has its share of
 * them, and one page at the least.  Hence pages that went back are not taken for idle memory
 * again because a neighbour is freed, and whoever gets such a block buys them (page_bought()).
 *
 * A thread that frees a block looks at the flags of its buddy.  A buddy in use may
 * change its flags under another lock or none, but only under this zone's lock
 * does it become free (PAGE-1): so an outdated answer is never "free".
 *
 * Locks: zone->lock.
 */
#include "core/page/page_internal.h"

struct zone zones[OS_NODES_MAX] fork_writes_nodes;
uint32_t nr_zones = 1;
size_t page_reserve_short;	/* atomic, written by the reserve */

/*
 * So many blocks are on no list at a time.  A child that is forked meanwhile loses them.
 */
#define PURGE_BATCH 32

static void zone_lists_init(struct zone *zone)
{
	for (uint32_t o = 0; o <= BLOCK_ORDER_MAX; o++) {
		for (int kind = 0; kind < KINDS; kind++)
			list_init(&zone->free[o][kind]);
	}
}

void zone_init(uint32_t nr_nodes)
{
	nr_zones = nr_nodes;
	for (uint32_t n = 0; n < nr_nodes; n++) {
		zones[n].node = n;
		zone_lists_init(&zones[n]);
		list_init(&zones[n].reserve);
		size_write(&zones[n].nr_reserve, 0);
	}
}

size_t zone_nr_dirty(void)
{
	size_t pages = 0;

	for (uint32_t n = 0; n < nr_zones; n++)
		pages += size_read(&zones[n].nr_dirty);
	return pages;
}

size_t zone_nr_stuck(void)
{
	size_t pages = 0;

	for (uint32_t n = 0; n < nr_zones; n++)
		pages += size_read(&zones[n].nr_stuck);
	return pages;
}

static enum zone_kind page_kind(const struct page *page)
{
	uint32_t flags = page_flags_read(page);

	return !(flags & PAGE_DIRTY) ? CLEAN : flags & PAGE_STUCK ? STUCK : DIRTY;
}

static void count_kind(struct zone *zone, enum zone_kind kind, size_t pages)
{
	if (kind == DIRTY)
		size_add(&zone->nr_dirty, pages);
	else if (kind == STUCK)
		size_add(&zone->nr_stuck, pages);
}

static void block_insert_kind(struct zone *zone, struct page *page, uint32_t order,
			      enum zone_kind kind, size_t dirty)
{
	static const uint32_t flags[KINDS] = { 0, PAGE_DIRTY, PAGE_DIRTY | PAGE_STUCK };

	slub_assert(page_type(page) != TYPE_FREE);
	page_flags_write(page, page_flags_make(TYPE_FREE, order, zone->node) | flags[kind]);
	list_add_head(&zone->free[order][kind], &page->list);
	zone->present |= 1u << order;
	/* A walk that saw a slab here looks at it without the lock. */
	__atomic_store_n(&page->count, (uint32_t)dirty, __ATOMIC_RELAXED);
	count_kind(zone, kind, dirty);
}

void zone_block_insert(struct zone *zone, struct page *page, uint32_t order, size_t dirty)
{
	slub_assert(dirty <= (size_t)1 << order);
	block_insert_kind(zone, page, order, dirty ? DIRTY : CLEAN, dirty);
}

void zone_block_remove(struct zone *zone, struct page *page, uint32_t order)
{
	bool is_last = true;

	slub_assert(page_type(page) == TYPE_FREE && page_order(page) == order);
	count_kind(zone, page_kind(page), -(size_t)page->count);
	list_remove(&page->list);
	page_flags_write(page, page_flags_make(TYPE_NONE, order, zone->node));
	for (int kind = 0; kind < KINDS; kind++)
		is_last = is_last && list_is_empty(&zone->free[order][kind]);
	if (is_last)
		zone->present &= ~(1u << order);
}

static struct page *page_buddy(struct page *page, uint32_t order)
{
	uintptr_t addr = (uintptr_t)page_address(page);

	return page_of((void *)(addr ^ PAGE_BYTES << order));
}

/*
 * Puts a block back and merges it upwards (PAGE-2).  Returns the whole
 * superblock that it completed, else NULL.
 */
static char *block_put(struct zone *zone, struct page *page, uint32_t order,
		       size_t *dirty)
{
	while (order <= BLOCK_ORDER_MAX) {
		struct page *buddy = page_buddy(page, order);

		if (page_type(buddy) != TYPE_FREE ||
		    page_order(buddy) != order)
			break;
		*dirty += buddy->count;
		zone_block_remove(zone, buddy, order);
		if (buddy < page)
			page = buddy;
		order++;
	}
	if (order > BLOCK_ORDER_MAX)
		return page_address(page);
	zone_block_insert(zone, page, order, *dirty);
	return NULL;
}

/* The first block of the smallest order that fits; memory that is there goes before clean. */
static struct page *block_find(struct zone *zone, uint32_t order)
{
	uint32_t fit = zone->present >> order;
	struct list *list;

	if (!fit)
		return NULL;
	order += (uint32_t)__builtin_ctz(fit);
	list = &zone->free[order][DIRTY];
	if (list_is_empty(list))
		list = &zone->free[order][STUCK];
	if (list_is_empty(list))
		list = &zone->free[order][CLEAN];
	return container_of(list->next, struct page, list);
}

bool zone_has_block(uint32_t order, uint32_t node)
{
	struct zone *zone = zone_of_node(node);
	bool has;

	lock_acquire(&zone->lock);
	has = zone->present >> order;
	lock_release(&zone->lock);
	return has;
}

size_t zone_block_split(struct zone *zone, struct page *page, uint32_t from,
			uint32_t order, size_t dirty)
{
	while (from > order) {
		from--;
		dirty = dirty_share(dirty, 1, 2);
		zone_block_insert(zone, page_buddy(page, from), from, dirty);
	}
	return dirty;
}

struct page *zone_block_take(struct zone *zone, uint32_t order, size_t *dirty)
{
	struct page *page = block_find(zone, order);
	uint32_t from;

	if (!page)
		return NULL;
	from = page_order(page);
	zone_block_remove(zone, page, from);
	*dirty = zone_block_split(zone, page, from, order, page->count);
	return page;
}

/* A block off the lists; with @dirty_only, one with memory behind it. */
static void *take_free(struct zone *zone, uint32_t order, bool dirty_only,
		       size_t *dirty)
{
	struct page *page;

	lock_acquire(&zone->lock);
	page = block_find(zone, order);
	if (page && (!dirty_only || page_is_dirty(page)))
		page = zone_block_take(zone, order, dirty);
	else
		page = NULL;
	lock_release(&zone->lock);
	return page ? page_address(page) : NULL;
}

/* Memory that lies idle, as a block or a row. */
static void *take_idle(struct zone *zone, struct piece *piece)
{
	void *block = take_free(zone, piece->order, true, &piece->dirty);

	return block || is_power_of_two(piece->pages) ? block : zone_row_take(zone, piece);
}

/* There is no clean memory: what idles as large blocks may make a block. */
static cold void *take_kept(struct zone *zone, struct piece *piece)
{
	if (!quick_nr_pages())
		return NULL;
	quick_flush();
	return take_idle(zone, piece);
}

/* A block off the lists, or else out of one more superblock; it may be closed. */
static void *zone_take(struct zone *zone, struct piece *piece, bool may_grow)
{
	void *block = take_idle(zone, piece);
	size_t nr_clean;
	char *fresh;

	if (!block && quick_is_spare(piece->pages)) {
		quick_flush();
		block = take_idle(zone, piece);
	}
	if (!block)
		block = take_free(zone, piece->order, false, &piece->dirty);
	if (block)
		return block;
	fresh = superblock_take(1, 1, zone->node, true, may_grow, &nr_clean);
	if (!fresh)
		return may_grow ? take_kept(zone, piece) : NULL;
	piece->dirty = nr_clean ? 0 : superblock_dirty_pages(fresh);
	inject(INJECT_split);
	lock_acquire(&zone->lock);
	piece->dirty = zone_block_split(zone, page_of(fresh), BLOCK_ORDER_MAX + 1, piece->order,
					piece->dirty);
	lock_release(&zone->lock);
	return fresh;
}

/* Puts a block on the lists, or into the reserve while that is short. */
static void zone_put(struct zone *zone, struct page *page, uint32_t order,
		     size_t dirty)
{
	size_t whole_dirty, kept_dirty;
	struct page *kept = NULL;
	char *whole;

	lock_acquire(&zone->lock);
	whole = block_put(zone, page, order, &dirty);
	whole_dirty = kept_dirty = dirty;
	if (unlikely(reserve_is_short(zone)))
		kept = reserve_claim(zone, &whole, &kept_dirty);
	lock_release(&zone->lock);
	if (whole)
		superblock_free_mixed(whole, whole_dirty);
	if (unlikely(kept))
		reserve_keep(zone, kept, kept_dirty);
}

/* @block, open now, or NULL: there is no memory for it.  The system is not asked twice in a row. */
static cold void *piece_opened(struct zone *zone, struct piece *piece, char *block)
{
	if (!piece->is_refused)
		piece->is_refused = !heap_open_to(block + (PAGE_BYTES << piece->order));
	if (!piece->is_refused)
		return block;
	zone_put(zone, page_of(block), piece->order, piece->dirty);
	return NULL;
}

static void *zone_look(struct zone *zone, struct piece *piece, bool may_grow)
{
	char *block = zone_take(zone, piece, may_grow);

	if (!block || piece->is_row || heap_is_open(block + (PAGE_BYTES << piece->order)))
		return block;
	return piece_opened(zone, piece, block);
}

/* A thread that finds no memory on @zone's node asks other nodes before it reclaims. */
static bool others_have_block(const struct zone *zone, uint32_t order)
{
	for (uint32_t n = 0; n < nr_zones; n++) {
		if (n != zone->node && zone_has_block(order, n))
			return true;
	}
	return false;
}

/* Puts back what lies behind the first @pages of a block of @order, in large pieces. */
static void tail_put(struct zone *zone, struct page *page, uint32_t order,
		     size_t pages, size_t dirty)
{
	size_t whole = (size_t)1 << order;

	while (pages < whole) {
		uint32_t piece = (uint32_t)__builtin_ctzl(pages);

		zone_put(zone, page + pages, piece,
			 dirty_share(dirty, (size_t)1 << piece, whole));
		pages += (size_t)1 << piece;
	}
}

/* A block off the lists; else out of memory that the hook frees or the system gives. */
static void *zone_find(struct zone *zone, struct piece *piece)
{
	size_t bytes = PAGE_BYTES << piece->order;
	void *block = zone_look(zone, piece, false);

	if (unlikely(!block) && page_growth_ask(bytes, GROWTH_MORE))
		block = zone_look(zone, piece, false);
	if (unlikely(!block))
		block = zone_look(zone, piece, true);
	if (SLUB_CONFIG_HARDENED && unlikely(!block) && fence_flush())
		block = zone_look(zone, piece, true);
	if (unlikely(!block) && !others_have_block(zone, piece->order) &&
	    page_growth_ask(bytes, GROWTH_FAILED)) {
		piece->is_refused = false;
		block = zone_look(zone, piece, true);
	}
	return block;
}

void *zone_alloc_front(size_t pages, size_t align, uint32_t node, bool *is_zero)
{
	uint32_t order = order_of(max_size(pages, align / PAGE_BYTES));
	struct piece piece = { .order = order, .pages = pages, .align = align };
	struct zone *zone = zone_of_node(node);
	void *block;

	if (!page_charge(pages))
		return NULL;
	block = zone_find(zone, &piece);
	if (unlikely(!block)) {
		page_uncharge(pages);
		return NULL;
	}
	*is_zero = !piece.dirty;
	if (!piece.is_row) {
		tail_put(zone, page_of(block), order, pages, piece.dirty);
		piece.dirty = dirty_share(piece.dirty, pages, (size_t)1 << order);
	}
	if (piece.dirty < pages)
		page_bought(pages - piece.dirty);
	return block;
}

void *zone_alloc(uint32_t order, uint32_t node, bool *is_zero)
{
	return zone_alloc_front((size_t)1 << order, PAGE_BYTES, node, is_zero);
}

uint32_t zone_block_widen(void *block, uint32_t order, uint32_t most,
			  uint32_t node)
{
	struct zone *zone = zone_of_node(node);
	struct page *page = page_of(block);

	lock_acquire(&zone->lock);
	while (order < most) {
		struct page *buddy = page_buddy(page, order);

		if (buddy < page || page_type(buddy) != TYPE_FREE ||
		    page_order(buddy) != order || page_is_dirty(buddy) ||
		    !heap_is_open((char *)page_address(buddy) + (PAGE_BYTES << order)))
			break;
		zone_block_remove(zone, buddy, order);
		order++;
	}
	lock_release(&zone->lock);
	return order;
}

void zone_block_narrow(void *block, uint32_t from, uint32_t order,
		       uint32_t node, bool is_dirty)
{
	while (from > order) {
		from--;
		zone_put(zone_of_node(node), page_buddy(page_of(block), from),
			 from, is_dirty ? (size_t)1 << from : 0);
	}
}

void zone_free(void *block, uint32_t order, uint32_t node, bool is_dirty)
{
	zone_put(zone_of_node(node), page_of(block), order,
		 is_dirty ? (size_t)1 << order : 0);
	page_uncharge((size_t)1 << order);
	page_reserve_refill();
}

/* Takes up to @most dirty blocks of @order off the lists. */
static uint32_t zone_take_dirty(struct zone *zone, uint32_t order,
				struct page **pages, size_t most)
{
	struct list *list = &zone->free[order][DIRTY];
	uint32_t n = 0;

	lock_acquire(&zone->lock);
	while (n < most && !list_is_empty(list)) {
		pages[n] = container_of(list->prev, struct page, list);
		zone_block_remove(zone, pages[n], order);
		n++;
	}
	lock_release(&zone->lock);
	return n;
}

/* A block that the kernel would not take back; merged with another it is tried again. */
static cold void block_set_aside(struct zone *zone, struct page *page, uint32_t order)
{
	struct page *buddy = page_buddy(page, order);
	bool is_alone;

	lock_acquire(&zone->lock);
	is_alone = page_type(buddy) != TYPE_FREE || page_order(buddy) != order;
	if (is_alone)
		block_insert_kind(zone, page, order, STUCK, page->count);
	lock_release(&zone->lock);
	if (!is_alone)
		zone_put(zone, page, order, page->count);
}

static cold void zone_purge_block(struct zone *zone, struct page *page, uint32_t order,
				  struct purge *purge)
{
	switch (purge_renew(purge, page_address(page), PAGE_BYTES << order,
			    page->count * PAGE_BYTES, zone->node)) {
	case RENEW_CLEAN:
		zone_put(zone, page, order, 0);
		break;
	case RENEW_DIRTY:
		block_set_aside(zone, page, order);
		break;
	case RENEW_LOST:
		break;
	}
}

static void zone_purge_order(struct zone *zone, uint32_t order, size_t limit,
			     struct purge *purge)
{
	struct page *pages[PURGE_BATCH];
	uint32_t n;

	while (page_nr_dirty() > limit && purge_may(purge)) {
		n = zone_take_dirty(zone, order, pages, min_size(PURGE_BATCH, purge->calls));
		if (!n)
			return;
		for (uint32_t i = 0; i < n; i++) {
			inject(INJECT_purge);
			if (purge_may(purge))
				zone_purge_block(zone, pages[i], order, purge);
			else
				zone_put(zone, pages[i], order, pages[i]->count);
		}
	}
}

/* Those from number @first up to @end. */
static cold void zones_purge(uint32_t first, uint32_t end, size_t pages, struct purge *purge)
{
	uint32_t least = order_of(os_page_size() / PAGE_BYTES);

	/* Large blocks first: more memory per system call. */
	for (uint32_t o = BLOCK_ORDER_MAX + 1; o-- > least;) {
		for (uint32_t n = first; n < end; n++)
			zone_purge_order(&zones[n], o, pages, purge);
	}
}

void zone_purge(size_t pages, struct purge *purge)
{
	zones_purge(0, nr_zones, pages, purge);
}

cold void zone_purge_node(uint32_t node, struct purge *purge)
{
	zones_purge(node, node + 1, 0, purge);
}

static void zone_retry_order(struct zone *zone, uint32_t order)
{
	struct list *list = &zone->free[order][STUCK];

	while (!list_is_empty(list)) {
		struct page *page = container_of(list->next, struct page, list);

		zone_block_remove(zone, page, order);
		zone_block_insert(zone, page, order, page->count);
	}
}

cold void zone_retry(void)
{
	for (uint32_t n = 0; n < nr_zones; n++) {
		struct zone *zone = &zones[n];

		if (!size_read(&zone->nr_stuck))
			continue;
		lock_acquire(&zone->lock);
		for (uint32_t o = 0; o <= BLOCK_ORDER_MAX; o++)
			zone_retry_order(zone, o);
		lock_release(&zone->lock);
	}
}

static void zone_locks_fork(enum fork_step step)
{
	lock_fork(&grow_lock, step);
	lock_fork(&superblock_lock, step);
	for (uint32_t n = 0; n < nr_zones; n++)
		lock_fork(&zones[n].lock, step);
	lock_fork(&meta_lock, step);
}

void page_fork_prepare(void)
{
	zone_locks_fork(FORK_BEGINS);
	page_features_fork_prepare();
}

void page_fork_finish(bool in_child)
{
	zone_locks_fork(fork_end(in_child));
	page_features_fork_finish(in_child);
	renew_fork_finish(in_child);
}
