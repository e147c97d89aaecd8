/* SPDX-License-Identifier: MIT */
/*
 * Superblocks: the heap in units of 2 MiB, one byte of state for each.
 *
 * First fit from the lowest address: the heap stays dense at its low end, and
 * a scan reads 64 states per cache line (a heap of 16 GiB has 8,192).
 *
 * Locks: superblock_lock protects everything here and the commit.
 */
#include "page/superblock_wall.h"

#include <errno.h>
#include <string.h>

/* How much is committed at a time. */
#define GROW_MIN 4
#define GROW_MAX 32

enum superblock_state {
	SB_NONE,		/* not committed yet, or somebody else's */
	SB_FRESH,		/* clean, and so are its descriptors */
	SB_CLEAN,
	SB_DIRTY,
	SB_STUCK,		/* the kernel would not take it back; not counted as dirty */
	SB_USED,
};

struct lock superblock_lock fork_writes = LOCK_INIT;

/* under superblock_lock */
static uint8_t *states;
static size_t nr_committed;
static size_t first_free;	/* no free superblock lies below */
/* Written under the lock, read without it too. */
static _Atomic size_t nr_free[SB_USED];	/* in each state */
static _Atomic size_t nr_used;

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
	return size_read(&nr_free[SB_DIRTY]) * SUPERBLOCK_PAGES;
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

	nr_committed = 0;
	first_free = 0;
	wall_init();
	states = meta_alloc(bytes);
	superblock_homes = nr_nodes > 1 ? meta_alloc(bytes) : NULL;
	return states && (superblock_homes || nr_nodes == 1) ? 0 : -ENOMEM;
}

static bool is_free(size_t index)
{
	return states[index] >= SB_FRESH && states[index] < SB_USED;
}

static void state_set(size_t index, enum superblock_state state)
{
	if (is_free(index))
		size_add(&nr_free[states[index]], (size_t)-1);
	if (state < SB_USED)
		size_add(&nr_free[state], 1);
	states[index] = (uint8_t)state;
}

/* First-fit for @n free superblocks; nr_committed when there are none. */
static size_t find_run(size_t n, size_t align)
{
	size_t i = first_free;

	while (i < nr_committed) {
		size_t length = 0;

		i = round_up(heap_start / SUPERBLOCK_BYTES + i, align) -
		    heap_start / SUPERBLOCK_BYTES;
		while (length < n && i + length < nr_committed &&
		       is_free(i + length))
			length++;
		if (length == n)
			return i;
		/* What ends the heap may be continued by growing it. */
		if (i + length >= nr_committed)
			return i < nr_committed ? i : nr_committed;
		i += length + 1;
	}
	return nr_committed;
}

/* The lowest idle one with memory of @node; nr_committed when there is none. */
static size_t find_near(uint32_t node)
{
	size_t i = size_read(&nr_free[SB_DIRTY]) ? first_free : nr_committed;

	while (i < nr_committed &&
	       (states[i] != SB_DIRTY || superblock_homes[i] != node + 1))
		i++;
	return i;
}

/* On several nodes memory that is near goes before a low address. */
static size_t find(size_t n, size_t align, uint32_t node)
{
	size_t near = superblock_homes && n == 1 && align == 1 ? find_near(node) :
						      nr_committed;

	return near < nr_committed ? near : find_run(n, align);
}

/* What a new mapping of the heap is told. */
static void advise(size_t first, size_t n)
{
	if (option_value(OPTION_huge) == HUGE_NEVER)
		os_huge(superblock_address(first), n * SUPERBLOCK_BYTES, false);
}

void superblock_add(size_t first, size_t n)
{
	advise(first, n);
	memset(states + first, SB_FRESH, n);
	size_add(&nr_free[SB_FRESH], n);
	first_free = min_size(first_free, first);
}

cold void superblock_go_on(size_t first, size_t n)
{
	memset(states + nr_committed, SB_NONE, first - nr_committed);
	superblock_add(first, n);
	nr_committed = first + n;
	wall_end();
}

bool superblock_is_strange(size_t index)
{
	return states[index] == SB_NONE;
}

size_t superblock_nr_committed(void)
{
	return nr_committed;
}

/* @is_less: than what was refused just before. */
static int commit_to(size_t target, bool is_less)
{
	int err = is_less ? pagemap_commit_less(target * SUPERBLOCK_BYTES) :
			    pagemap_commit(target * SUPERBLOCK_BYTES);

	if (!err)
		superblock_go_on(nr_committed, target - nr_committed);
	return err;
}

/* Commits so that @end superblocks are there.  PASSED: look anew where there is room. */
static enum growth grow_to(size_t end)
{
	size_t reserved = heap_reserved_bytes / SUPERBLOCK_BYTES;
	size_t step = max_size(min_size(nr_committed / 8, GROW_MAX), GROW_MIN);
	size_t target = min_size(max_size(end, nr_committed + step), reserved);
	int err = -EAGAIN;

	if (end > reserved)
		return wall_end_of_heap(end - nr_committed);
	if (unlikely(wall_is_met()))
		return wall_pass(end - nr_committed);
	if (!wall_was_met())
		err = commit_to(target, false);
	if (err && (target > end || err == -EAGAIN))
		err = commit_to(end, true);
	if (err == -EEXIST)
		return wall_pass(end - nr_committed);
	if (err == -EADDRINUSE)
		return wall_refill(end - nr_committed);
	return err ? REFUSED : GROWN;
}

/* The same, for a request that may have been refused before. */
static enum growth grow(size_t end)
{
	enum growth growth;

	if (end <= nr_committed)
		return GROWN;
	if (slub_thread.growth >= THREAD_GROWTH_NONE)
		return REFUSED;
	growth = grow_to(end);
	if (growth != GROWN && growth != PASSED && slub_thread.growth)
		slub_thread.growth = growth == WALLED ? THREAD_GROWTH_WALLED :
							THREAD_GROWTH_NONE;
	return growth;
}

/* Returns how many of them have no memory behind them. */
static size_t mark_used(size_t first, size_t n)
{
	size_t nr_clean = 0;

	for (size_t i = first; i < first + n; i++) {
		nr_clean += states[i] < SB_DIRTY;
		state_set(i, SB_USED);
	}
	size_add(&nr_used, n);
	while (first_free < nr_committed && !is_free(first_free))
		first_free++;
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
	enum growth growth;
	char *start = NULL;
	size_t first;

	lock_acquire(&superblock_lock);
	wall_begin(true);
	do {
		first = find(n, align, node);
		if (first == nr_committed)
			first = round_up(heap_start / SUPERBLOCK_BYTES + first,
					 align) - heap_start / SUPERBLOCK_BYTES;
		if (n <= nr_committed && first <= nr_committed - n)
			may_grow = true;	/* it need not */
		growth = may_grow ? grow(first + n) : REFUSED;
	} while (unlikely(growth == PASSED));
	if (growth == GROWN) {
		*nr_clean = mark_used(first, n);
		start = superblock_address(first);
	}
	lock_release(&superblock_lock);
	if (!start)
		return NULL;
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
	if (nr_clean)
		page_bought(nr_clean * SUPERBLOCK_PAGES);
	*is_zero = nr_clean == n;
	return start;
}

/* Under the lock. */
static void mark_free(size_t first, size_t n, enum superblock_state state)
{
	for (size_t i = first; i < first + n; i++) {
		slub_assert(states[i] == SB_USED);
		state_set(i, state);
	}
	if (state == SB_NONE)
		wall_strange_add(n);
	else if (first < first_free)
		first_free = first;
}

/* They are free again; @nr_counted of them counted as used. */
static void give_back(size_t first, size_t n, enum superblock_state state,
		      size_t nr_counted)
{
	lock_acquire(&superblock_lock);
	mark_free(first, n, state);
	size_add(&nr_used, -nr_counted);
	lock_release(&superblock_lock);
}

void superblock_free(char *start, size_t n, bool is_dirty)
{
	give_back(superblock_index(start), n, is_dirty ? SB_DIRTY : SB_CLEAN, n);
}

enum extension { EXTENDED, BLOCKED, NOT_COMMITTED };

static enum extension extend(size_t next, size_t more, bool may_grow,
			     size_t *nr_clean)
{
	enum extension result = BLOCKED;
	size_t i = 0;

	lock_acquire(&superblock_lock);
	wall_begin(false);
	while (i < more && next + i < nr_committed && is_free(next + i))
		i++;
	if (i == more)
		result = EXTENDED;
	else if (next + i >= nr_committed)
		result = may_grow && grow(next + more) == GROWN ?
			 EXTENDED : NOT_COMMITTED;
	if (result == EXTENDED)
		*nr_clean = mark_used(next, more);
	lock_release(&superblock_lock);
	return result;
}

bool superblock_extend(char *start, size_t n, size_t more)
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
	return states[index] == SB_DIRTY && (!home || superblock_homes[index] == home);
}

/*
 * Takes the highest run of idle superblocks below *@first out, @most of them, as used;
 * returns how many and where.  Highest first: what stays is at the dense end.
 */
static size_t take_dirty(size_t *first, size_t most, uint8_t home)
{
	size_t end, n = 0;

	lock_acquire(&superblock_lock);
	end = size_read(&nr_free[SB_DIRTY]) ? min_size(nr_committed, *first) : 0;
	while (end > 0 && !is_idle(end - 1, home))
		end--;
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

	inject(INJECT_purge);
	renewal = purge_renew(purge, superblock_address(first), n * SUPERBLOCK_BYTES,
			      superblock_home(first));
	if (unlikely(renewal == RENEW_DIRTY) && n > 1 && purge_may(purge)) {
		purge_taken(first + n / 2, n - n / 2, purge);
		purge_taken(first, n / 2, purge);
		return;
	}
	give_back(first, n, states_then[renewal], n);
}

cold void superblock_free_purged(char *start, size_t n, struct purge *purge)
{
	purge_taken(superblock_index(start), n, purge);
}

cold void superblock_purge(size_t pages, struct purge *purge)
{
	size_t dirty;

	while ((dirty = page_nr_dirty()) > pages && purge_may(purge)) {
		size_t most = round_up(dirty - pages, SUPERBLOCK_PAGES) /
			      SUPERBLOCK_PAGES;
		size_t first = SIZE_MAX, n;

		most = min_size(most, min_size(purge->piece, TAKEN_MAX));
		n = take_dirty(&first, most, 0);
		if (!n)
			return;
		purge_taken(first, n, purge);
	}
}

cold void superblock_purge_node(uint32_t node, struct purge *purge)
{
	size_t first = SIZE_MAX, n;

	while ((n = take_dirty(&first, TAKEN_MAX, (uint8_t)(node + 1))))
		purge_taken(first, n, purge);
}

cold void superblock_retry(void)
{
	if (!size_read(&nr_free[SB_STUCK]))
		return;
	lock_acquire(&superblock_lock);
	for (size_t i = first_free; i < nr_committed; i++) {
		if (states[i] == SB_STUCK)
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
	while (*end > 0 && states[*end - 1] != SB_CLEAN)
		--*end;
	while (*end > 0 && states[*end - 1] == SB_CLEAN && n < most) {
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
static void purge_descriptors(const char *start, size_t n, struct purge *purge)
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
		purge_descriptors(superblock_address(first), n, purge);
		give_back(first, n, SB_FRESH, 0);
	}
}
