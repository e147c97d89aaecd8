/* SPDX-License-Identifier: MIT */
/*
 * Superblocks: the heap in units of 2 MiB, one byte of state for each, and a bit in a map for
 * those that are free, and for those that are dirty.
 *
 * First fit from the lowest address keeps the heap dense at its low end; a search looks at 64
 * superblocks per word (a heap of 1 TiB has 8,192 words).
 *
 * Locks: superblock_lock protects everything here; pagemap.c has the growth.
 */
#include "core/base/bit_map.h"
#include "core/page/superblock_growth.h"

#include <errno.h>
#include <string.h>

struct lock superblock_lock fork_writes = LOCK_INIT;

/* under superblock_lock */
uint8_t *superblock_states;
static uint64_t *free_map, *dirty_map;
static size_t nr_committed;
static size_t first_free;	/* no free superblock lies below */
/*
 * Pages with memory behind them in a dirty one: what a zone gave back may have less than all.
 * That of a used one, since it was taken, belongs to the thread that took it.
 */
static uint16_t *dirty_pages;
/* Written under the lock, read without it too; in each state. */
static _Atomic size_t nr_free[SB_USED];
static _Atomic size_t nr_dirty_pages, nr_used;

static size_t superblock_index(const char *addr)
{
	return ((uintptr_t)addr - heap_start) >> SUPERBLOCK_SHIFT;
}

size_t superblock_nr_used(void)
{
	return size_read(&nr_used);
}

size_t superblock_nr_dirty(void)
{
	return size_read(&nr_dirty_pages);
}

const _Atomic size_t *superblock_stuck_place(void)
{
	return &nr_free[SB_STUCK];
}

size_t superblock_nr_clean(void)
{
	return size_read(&nr_free[SB_CLEAN]);
}

int superblock_init(uint32_t nr_nodes)
{
	size_t bytes = heap_reserved_bytes / SUPERBLOCK_BYTES + 1;

	nr_committed = first_free = 0;
	growth_init();
	superblock_states = meta_alloc(bytes);
	dirty_pages = meta_alloc(bytes * sizeof(*dirty_pages));
	free_map = meta_alloc(bytes / 8 + 8);
	dirty_map = meta_alloc(bytes / 8 + 8);
	superblock_homes = nr_nodes > 1 ? meta_alloc(bytes) : NULL;
	return superblock_states && dirty_pages && free_map && dirty_map &&
	       (superblock_homes || nr_nodes == 1) ? 0 : -ENOMEM;
}

static bool superblock_is_free(size_t index)
{
	return superblock_states[index] >= SB_FRESH && superblock_states[index] < SB_USED;
}

static void state_set(size_t index, enum superblock_state state)
{
	if (superblock_is_free(index))
		size_add(&nr_free[superblock_states[index]], (size_t)-1);
	if (superblock_states[index] == SB_DIRTY)
		size_add(&nr_dirty_pages, -(size_t)dirty_pages[index]);
	if (state < SB_USED)
		size_add(&nr_free[state], 1);
	if (state == SB_DIRTY)
		size_add(&nr_dirty_pages, dirty_pages[index]);
	__atomic_store_n(&superblock_states[index], (uint8_t)state, __ATOMIC_RELAXED);
	bit_map_set(free_map, index, superblock_is_free(index));
	bit_map_set(dirty_map, index, state == SB_DIRTY);
}

/* What was mapped since is free now; under superblock_lock. */
static void settle_growth(void)
{
	/* In this order: what was refilled lies before the end as it was by then. */
	size_t first, n = growth_refilled(&first), end = growth_end();

	for (; nr_committed < end; nr_committed++) {
		bool is_ours = superblock_states[nr_committed] == SB_FRESH;

		size_add(&nr_free[SB_FRESH], is_ours);
		bit_map_set(free_map, nr_committed, is_ours);
	}
	if (likely(!n))
		return;
	for (size_t i = first; i < first + n; i++)
		state_set(i, SB_FRESH);
	first_free = min_size(first_free, first);
	growth_settled();
}

size_t superblock_dirty_pages(const char *start)
{
	return dirty_pages[superblock_index(start)];
}

/* First-fit for @n free superblocks; nr_committed when there are none. */
static size_t find_run(size_t n, size_t align)
{
	size_t base = heap_start / SUPERBLOCK_BYTES, i = first_free, end;

	for (;;) {
		i = bit_map_next(free_map, i, nr_committed, true);
		i = round_up(base + i, align) - base;
		if (i >= nr_committed)
			return nr_committed;
		end = bit_map_next(free_map, i, min_size(nr_committed, i + n), false);
		/* What ends the heap may be continued by growing it. */
		if (end - i == n || end == nr_committed)
			return i;
		i = end + 1;
	}
}

/* The lowest idle one with memory of @node; nr_committed when there is none. */
static size_t find_near(uint32_t node)
{
	size_t i = bit_map_next(dirty_map, first_free, nr_committed, true);

	while (i < nr_committed && superblock_homes[i] != node + 1)
		i = bit_map_next(dirty_map, i + 1, nr_committed, true);
	return i;
}

/* On several nodes memory that is near goes before a low address. */
static size_t superblock_find(size_t n, size_t align, uint32_t node)
{
	size_t near = superblock_homes && n == 1 && align == 1 ? find_near(node) :
						      nr_committed;

	return near < nr_committed ? near : find_run(n, align);
}

/* Returns how many of them have no memory behind them. */
static size_t mark_used(size_t first, size_t n)
{
	size_t nr_clean = 0;

	for (size_t i = first; i < first + n; i++) {
		nr_clean += superblock_states[i] < SB_DIRTY;
		state_set(i, SB_USED);
	}
	size_add(&nr_used, n);
	first_free = bit_map_next(free_map, first_free, nr_committed, true);
	return nr_clean;
}

/*
 * The kernel's own setting decides, unless the user asks (SLUB_HUGE): `block` for
 * runs that are not cut into blocks, `always` for everything.
 *
 * Huge pages in a heap of more than 8 MiB were the default once.  On an Intel machine
 * whose balloon reports free huge pages to the host ten real programs took 1.131 of the
 * best peer's time with them and 1.027 without, and their peaks were 5 % higher; 20 blocks
 * of 256 KiB to 16 MiB, replaced at random, took 770 to 1,150 us with them and 400 to
 * 520 us in small pages.
 */
static bool wants_huge(size_t n, bool is_block)
{
	switch ((enum option_huge)option_value(OPTION_huge)) {
	case HUGE_ALWAYS:
		return true;
	case HUGE_BLOCK:
		return !is_block && n > 1;
	case HUGE_AUTO:
	case HUGE_NEVER:
		break;
	}
	return false;
}

char *superblock_take(size_t n, size_t align, uint32_t node, bool is_block,
		      bool may_grow, size_t *nr_clean)
{
	size_t base = heap_start / SUPERBLOCK_BYTES, first, seen;
	struct wall_request request = WALL_REQUEST(true);
	char *start;
	bool fits;

	do {
		lock_acquire(&superblock_lock);
		settle_growth();
		seen = nr_committed;
		first = superblock_find(n, align, node);
		if (first == seen)
			first = round_up(base + first, align) - base;
		fits = n <= seen && first <= seen - n;
		if (fits)
			*nr_clean = mark_used(first, n);
		lock_release(&superblock_lock);
	} while (!fits && may_grow && has_grown(superblock_grow(first + n, seen, &request)));
	if (!fits)
		return NULL;
	start = superblock_address(first);
	*nr_clean = superblock_settle(start, n, node, *nr_clean);
	page_group_look(superblock_nr_used());
	if (!wants_huge(n, is_block))
		return start;
	os_huge(start, n * SUPERBLOCK_BYTES, true);
	/* The first touch of a block brings all the others. */
	if (is_block && *nr_clean == n) {
		page_bought(n * SUPERBLOCK_PAGES);
		*nr_clean = 0;
	}
	return start;
}

/* What was just taken is open, or given back: there is no memory for it. */
static cold bool superblocks_opened(char *start, size_t n, size_t nr_clean)
{
	if (heap_open(start + n * SUPERBLOCK_BYTES))
		return true;
	superblock_free(start, n, nr_clean < n);
	return false;
}

char *superblock_alloc(size_t n, size_t align, uint32_t node, bool is_block,
		       bool *is_zero)
{
	size_t bytes = n * SUPERBLOCK_BYTES;
	size_t nr_clean = 0;
	char *start;

	/* Rather than new memory: what lies idle may make superblocks. */
	if (quick_nr_pages() >= SUPERBLOCK_PAGES)
		quick_flush();
	start = superblock_take(n, align, node, is_block, false, &nr_clean);
	if (!start && page_growth_ask(bytes, GROWTH_MORE))
		start = superblock_take(n, align, node, is_block, false,
					&nr_clean);
	if (!start)
		start = superblock_take(n, align, node, is_block, true,
					&nr_clean);
	if (!start && page_growth_ask(bytes, GROWTH_FAILED))
		start = superblock_take(n, align, node, is_block, true,
					&nr_clean);
	if (!is_block && start && !superblocks_opened(start, n, nr_clean))
		return NULL;
	if (nr_clean)
		page_bought(nr_clean * SUPERBLOCK_PAGES);
	*is_zero = nr_clean == n;
	return start;
}

/* Under the lock; @dirty: pages of each. */
static void superblocks_mark_free(size_t first, size_t n, enum superblock_state state, size_t dirty)
{
	for (size_t i = first; i < first + n; i++) {
		slub_assert(superblock_states[i] == SB_USED);
		dirty_pages[i] = (uint16_t)dirty;
		state_set(i, state);
	}
	if (state == SB_NONE)
		wall_strange_add(n);
	else if (first < first_free)
		first_free = first;
}

/* They are free again; @nr_counted of them counted as used. */
static void superblocks_give_back(size_t first, size_t n, enum superblock_state state,
				  size_t dirty, size_t nr_counted)
{
	lock_acquire(&superblock_lock);
	superblocks_mark_free(first, n, state, dirty);
	size_add(&nr_used, -nr_counted);
	lock_release(&superblock_lock);
}

void superblock_free(char *start, size_t n, bool is_dirty)
{
	superblocks_give_back(superblock_index(start), n, is_dirty ? SB_DIRTY : SB_CLEAN,
			     is_dirty ? SUPERBLOCK_PAGES : 0, n);
}

void superblock_free_mixed(char *start, size_t dirty)
{
	superblocks_give_back(superblock_index(start), 1, dirty ? SB_DIRTY : SB_CLEAN, dirty, 1);
}

enum extension { EXTENDED, BLOCKED, NOT_COMMITTED };

static cold enum extension extend_once(size_t next, size_t more, size_t *seen, size_t *nr_clean)
{
	enum extension result = BLOCKED;
	size_t i;

	lock_acquire(&superblock_lock);
	settle_growth();
	*seen = nr_committed;
	i = bit_map_next(free_map, next, min_size(nr_committed, next + more), false);
	if (i == next + more)
		result = EXTENDED;
	else if (i >= nr_committed)
		result = NOT_COMMITTED;
	if (result == EXTENDED)
		*nr_clean = mark_used(next, more);
	lock_release(&superblock_lock);
	return result;
}

static cold enum extension extend(size_t next, size_t more, bool may_grow, size_t *nr_clean)
{
	struct wall_request request = WALL_REQUEST(false);
	enum extension result;
	size_t seen;

	do {
		result = extend_once(next, more, &seen, nr_clean);
	} while (result == NOT_COMMITTED && may_grow &&
		 superblock_grow(next + more, seen, &request) == GROWN);
	return result;
}

cold bool superblock_extend(char *start, size_t n, size_t more)
{
	size_t next = superblock_index(start) + n;
	uint32_t node = page_node(page_of(start));
	size_t nr_clean;
	enum extension result = extend(next, more, false, &nr_clean);

	if (result == NOT_COMMITTED) {
		/* What it frees lies elsewhere; the growth is asked for. */
		page_growth_ask(more * SUPERBLOCK_BYTES, GROWTH_MORE);
		result = extend(next, more, true, &nr_clean);
	}
	if (result != EXTENDED)
		return false;
	if (!superblocks_opened(start + n * SUPERBLOCK_BYTES, more, nr_clean))
		return false;
	/* Like the run, so that it stays one mapping and can be moved. */
	nr_clean = superblock_settle(start + n * SUPERBLOCK_BYTES, more, node, nr_clean);
	if (wants_huge(n + more, false))
		os_huge(n > 1 ? start + n * SUPERBLOCK_BYTES : start,
			(n > 1 ? more : n + more) * SUPERBLOCK_BYTES, true);
	if (nr_clean)
		page_bought(nr_clean * SUPERBLOCK_PAGES);
	return true;
}

/* Superblocks that a purge has out of others' reach at a time; a forked child loses them. */
#define TAKEN_MAX 32

/* Is it idle memory, of the node whose home that is?  0: of any. */
static bool is_idle(size_t index, uint8_t home)
{
	return superblock_states[index] == SB_DIRTY && (!home || superblock_homes[index] == home);
}

/*
 * Takes the highest run of idle superblocks below *@first out, @most of them, as used;
 * returns how many and where.  Highest first: what stays is at the dense end.
 */
static size_t superblock_take_dirty(size_t *first, size_t most, uint8_t home)
{
	size_t end, n = 0;

	lock_acquire(&superblock_lock);
	end = bit_map_end(dirty_map, min_size(nr_committed, *first));
	while (end > 0 && !is_idle(end - 1, home))
		end = bit_map_end(dirty_map, end - 1);
	while (n < min_size(end, most) && is_idle(end - 1 - n, home)) {
		state_set(end - 1 - n, SB_USED);
		n++;
	}
	size_add(&nr_used, n);
	*first = end - n;
	lock_release(&superblock_lock);
	return n;
}

/*
 * Gives memory of used superblocks back, and them with it.  Of a run that the kernel refuses
 * it tries the halves: one page that the program locked holds up its own superblock.
 */
static cold void purge_taken(size_t first, size_t n, struct purge *purge)
{
	static const enum superblock_state states_then[] = {
		[RENEW_CLEAN] = SB_CLEAN,
		[RENEW_DIRTY] = SB_STUCK,
		[RENEW_LOST] = SB_NONE,
	};
	enum renewal renewal;
	size_t dirty = 0;

	for (size_t i = first; i < first + n; i++)
		dirty += dirty_pages[i];
	inject(INJECT_purge);
	renewal = purge_renew(purge, superblock_address(first), n * SUPERBLOCK_BYTES,
			      dirty * PAGE_BYTES, superblock_home(first));
	if (unlikely(renewal == RENEW_DIRTY) && n > 1 && purge_may(purge)) {
		purge_taken(first + n / 2, n - n / 2, purge);
		purge_taken(first, n / 2, purge);
		return;
	}
	superblocks_give_back(first, n, states_then[renewal], SUPERBLOCK_PAGES, n);
}

cold void superblock_free_purged(char *start, size_t n, struct purge *purge)
{
	size_t first = superblock_index(start);

	/* Nobody has counted it. */
	for (size_t i = first; i < first + n; i++)
		dirty_pages[i] = SUPERBLOCK_PAGES;
	purge_taken(first, n, purge);
}

cold void superblock_purge(size_t pages, struct purge *purge)
{
	size_t dirty;

	while ((dirty = page_nr_dirty()) > pages && purge_may(purge)) {
		size_t most = round_up(dirty - pages, SUPERBLOCK_PAGES) /
			      SUPERBLOCK_PAGES;
		size_t first = SIZE_MAX, n;

		most = min_size(most, min_size(purge->piece, TAKEN_MAX));
		n = superblock_take_dirty(&first, most, 0);
		if (!n)
			return;
		purge_taken(first, n, purge);
	}
}

cold void superblock_purge_node(uint32_t node, struct purge *purge)
{
	size_t first = SIZE_MAX, n;

	while ((n = superblock_take_dirty(&first, TAKEN_MAX, (uint8_t)(node + 1))))
		purge_taken(first, n, purge);
}

cold void superblock_retry(void)
{
	if (!size_read(&nr_free[SB_STUCK]))
		return;
	lock_acquire(&superblock_lock);
	for (size_t i = first_free; i < nr_committed; i++) {
		if (superblock_states[i] == SB_STUCK)
			state_set(i, SB_DIRTY);
	}
	lock_release(&superblock_lock);
}

/*
 * Takes the highest run of clean superblocks below *@end out, down to its new
 * value; returns how many.  They count neither as used nor as free meanwhile.
 */
static size_t take_clean(size_t *end, size_t most)
{
	size_t n = 0;

	lock_acquire(&superblock_lock);
	*end = min_size(*end, nr_committed);
	while (*end > 0 && superblock_states[*end - 1] != SB_CLEAN)
		--*end;
	while (*end > 0 && superblock_states[*end - 1] == SB_CLEAN && n < most) {
		state_set(--*end, SB_USED);
		n++;
	}
	lock_release(&superblock_lock);
	return n;
}

static void purge_within(void *start, size_t bytes, struct purge *purge)
{
	size_t unit = os_page_size();
	uintptr_t from = round_up((uintptr_t)start, unit);
	uintptr_t to = round_down((uintptr_t)start + bytes, unit);

	if (from < to)
		purge_range(purge, (void *)from, to - from);
}

/* A descriptor that is all zero is one of no type, as it was at first. */
static void descriptors_give_back(const char *start, size_t n, struct purge *purge)
{
	size_t pages = n * SUPERBLOCK_PAGES, touched = purge->touched;

	purge_within(page_of(start), pages * sizeof(struct page), purge);
	purge_within(page_link(page_link_bias, start), pages * sizeof(void *), purge);
	/* It is bought again without being asked for. */
	purge->touched = touched;
}

cold void superblock_purge_descriptors(size_t keep, struct purge *purge)
{
	size_t first = SIZE_MAX, n, nr;

	/* Two calls for each run. */
	while ((nr = size_read(&nr_free[SB_CLEAN])) > keep && purge_may(purge) &&
	       purge->calls > 1) {
		n = take_clean(&first, min_size(nr - keep, TAKEN_MAX));
		if (!n)
			return;
		descriptors_give_back(superblock_address(first), n, purge);
		superblocks_give_back(first, n, SB_FRESH, 0, 0);
	}
}
