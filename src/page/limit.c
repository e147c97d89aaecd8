/* SPDX-License-Identifier: MIT */
/*
 * How many pages are in use, and how many may be (SLUB_LIMIT).
 *
 * A page counts from when a zone, or the superblocks, hand it out until it
 * comes back there; that is where the limit is looked at, far behind every
 * fast path.  What is refused there fails once more above, after all lists
 * were emptied, and then the request fails with it.
 *
 * Idle memory is not in use, but it is resident: where there is a limit, used
 * and idle memory together keep to it.  See page_budget() for frees, and
 * page_bought() for memory that was taken anew while other pages lay idle.
 *
 * Before a request is refused, or the heap grows, or where a limit is near, the layers
 * above are asked to free something, by hooks that they set.
 */
#include "base/turn.h"
#include "page/page_internal.h"

#define TRIES_MAX 2

static struct page_count used_pages;
static _Atomic size_t limit_pages = SIZE_MAX;	/* SIZE_MAX: none */
static _Atomic size_t group_pages = SIZE_MAX;	/* what the cgroup allows */

/* What large.c keeps is counted, but it is idle memory. */
static size_t used_really(void)
{
	size_t used = size_read(&used_pages.pages), idle = quick_nr_pages();

	return used > idle ? used - idle : 0;
}

/* A compare-exchange, so that one request cannot make a smaller one fail. */
static bool try_charge(size_t pages)
{
	size_t used = size_read(&used_pages.pages);

	do {
		size_t limit = size_read(&limit_pages);

		if (unlikely(pages > limit || used > limit - pages))
			return false;
	} while (!__atomic_compare_exchange_n(&used_pages.pages, &used, used + pages,
					      true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

/*
 * For what is not heap and yet the group's: our tables, which are a share of
 * the heap, and the program with its stacks and page tables.
 */
#define NOT_HEAP_SHARE 16
#define NOT_HEAP_BYTES ((size_t)8 << 20)

static size_t heap_part(size_t bytes)
{
	size_t part = bytes - bytes / NOT_HEAP_SHARE;

	return max_size(part - min_size(part, NOT_HEAP_BYTES), bytes / 2);
}

/*
 * The group's limit in pages, less what is not heap; SIZE_MAX: none; 0: not known at
 * the moment.
 */
static usual size_t group_limit(void)
{
	size_t bytes = os_cgroup_memory_max("/proc/self/cgroup",
					    "/sys/fs/cgroup");

	if (bytes == SIZE_MAX)
		return 0;
	return bytes ? max_size(heap_part(bytes) / PAGE_BYTES, 1) : SIZE_MAX;
}

/*
 * ---- a limit that changes ----
 *
 * A pod may be resized while it runs.  Where there was a limit it is read again when
 * the heap has grown, near it, and before it refuses a request, so a process that
 * does none of these makes no system call for it; and ten times a second at the most.
 * Where there was none it is not: a sandbox may forbid to open files by then.
 */
#define REREAD_NS 100000000ull

static _Atomic bool group_had_limit;
static _Atomic bool limit_is_auto;
static struct turn rereading;
static _Atomic uint64_t reread_at_ns;

static usual void group_apply(size_t pages)
{
	size_t limit;

	if (!pages || pages == __atomic_load_n(&group_pages, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&group_pages, pages, __ATOMIC_RELAXED);
	/*
	 * Not over a limit that was set meanwhile.  acquire: that is seen together with
	 * limit_is_auto, which page_limit_init() writes before it.
	 */
	limit = __atomic_load_n(&limit_pages, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&limit_is_auto, __ATOMIC_RELAXED))
		__atomic_compare_exchange_n(&limit_pages, &limit, pages, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	purge_limit_changed();
}

static cold void reread(void)
{
	uint64_t now = os_clock_ns();
	uint64_t last = __atomic_load_n(&reread_at_ns, __ATOMIC_RELAXED);

	if (slub_thread.locks_held || now - last < REREAD_NS ||
	    !turn_try(&rereading))
		return;
	__atomic_store_n(&reread_at_ns, now, __ATOMIC_RELAXED);
	group_apply(group_limit());
	turn_end(&rereading);
}

static void reread_if_limited(void)
{
	if (unlikely(__atomic_load_n(&group_had_limit, __ATOMIC_RELAXED)))
		reread();
}

/*
 * Twice at the most: what was freed may serve the request without a page, and
 * only the layers above can tell.
 */
static cold bool charge_after_growth_hook(size_t pages)
{
	quick_flush();
	if (__atomic_load_n(&limit_is_auto, __ATOMIC_RELAXED))
		reread_if_limited();
	if (try_charge(pages))
		return true;
	for (int i = 0; i < TRIES_MAX; i++) {
		if (pages > size_read(&limit_pages) ||
		    !page_growth_ask(pages * PAGE_BYTES, GROWTH_FAILED))
			return false;
		if (try_charge(pages))
			return true;
	}
	return false;
}

bool page_charge(size_t pages)
{
	return likely(try_charge(pages)) || charge_after_growth_hook(pages);
}

void page_charge_always(size_t pages)
{
	__atomic_fetch_add(&used_pages.pages, pages, __ATOMIC_RELAXED);
}

void page_uncharge(size_t pages)
{
	/* For the assertion, where there are any: NOLINTNEXTLINE(*DeadStores) */
	size_t was = __atomic_fetch_sub(&used_pages.pages, pages, __ATOMIC_RELAXED);

	slub_assert(was >= pages);
}

size_t page_limit_room(void)
{
	size_t limit = size_read(&limit_pages), used = used_really();

	if (likely(limit == SIZE_MAX))
		return SIZE_MAX;
	return used < limit ? limit - used : 0;
}

size_t page_used_bytes(void)
{
	return used_really() * PAGE_BYTES;
}

size_t page_limit_bytes(void)
{
	size_t limit = size_read(&limit_pages);

	return limit == SIZE_MAX ? 0 : limit * PAGE_BYTES;
}

void page_limit_set(size_t bytes)
{
	size_t pages = bytes ? max_size(bytes / PAGE_BYTES, 1) : SIZE_MAX;

	/* release: limit_is_auto was written before; pairs with group_apply() */
	__atomic_store_n(&limit_pages, pages, __ATOMIC_RELEASE);
	purge_limit_changed();
	page_purge_if_needed();
}

static cold void limit_auto(void)
{
	size_t pages = group_limit();

	if (!pages || pages == SIZE_MAX) {
		log_message("option limit: no memory limit of a cgroup found; "
			    "using none");
		pages = SIZE_MAX;
	} else {
		__atomic_store_n(&limit_is_auto, true, __ATOMIC_RELAXED);
		__atomic_store_n(&group_had_limit, true, __ATOMIC_RELAXED);
	}
	page_limit_set(pages == SIZE_MAX ? 0 : pages * PAGE_BYTES);
}

usual void page_limit_init(void)
{
	size_t bytes = option_value(OPTION_limit);

	__atomic_store_n(&limit_is_auto, false, __ATOMIC_RELAXED);
	if (bytes == OPTION_VALUE_AUTO)
		limit_auto();
	else
		page_limit_set(bytes);
}

/*
 * ---- the cgroup's limit, where nobody asked for one ----
 *
 * What is beyond it gets the process killed, so near it memory that is free
 * somewhere is worth more than time.  Nothing is refused for it: the group may
 * have swap, and a block need not be written to.  The files are read by a heap that is
 * not small any more, so that most processes never do.
 */

/* Superblocks from which on it is worth a look. */
#define LOOK_FROM 4
/* Huge pages, and windows, up to this part of the limit. */
#define HUGE_SHARE 8
/* Parts of the limit that are left when it is near, and close. */
#define NEAR_SHARE 4
#define CLOSE_SHARE 16
/* Between two times that the layers above are asked: a part of the room. */
#define ROOM_SHARE 4
#define STEP_MIN (((size_t)1 << 20) / PAGE_BYTES)
/*
 * After one in vain the next comes with time, or when as much again became
 * resident: a server that was kept waiting makes up for it, and 200 ms were
 * enough to take all that was left (killed after 246 to 263 s, at loads of 3 to 25).
 */
#define RESIDENT_SHARE 64

static _Atomic bool group_is_known;
static _Atomic size_t tight_pages;	/* became resident since the last time */

static usual void group_look_first(void)
{
	size_t pages;

	/* The thread that has the turn reads it now, or has read it: SLUB_LIMIT=auto. */
	if (!turn_try(&rereading))
		return;
	pages = group_limit();
	if (pages && pages != SIZE_MAX)
		__atomic_store_n(&group_had_limit, true, __ATOMIC_RELAXED);
	__atomic_store_n(&reread_at_ns, os_clock_ns(), __ATOMIC_RELAXED);
	group_apply(pages);
	turn_end(&rereading);
}

void page_group_look(size_t superblocks)
{
	if (likely(superblocks < LOOK_FROM))
		return;
	if (likely(__atomic_load_n(&group_is_known, __ATOMIC_RELAXED)))
		reread_if_limited();
	else if (!__atomic_exchange_n(&group_is_known, true, __ATOMIC_RELAXED))
		group_look_first();
}

bool page_memory_is_ample(void)
{
	return size_read(&limit_pages) == SIZE_MAX &&
	       superblock_nr_used() * SUPERBLOCK_PAGES <=
		       size_read(&group_pages) / HUGE_SHARE;
}

size_t page_nr_resident(void)
{
	return used_really() + page_nr_dirty();
}

size_t page_group_room(void)
{
	size_t limit = size_read(&group_pages), resident;

	if (likely(limit == SIZE_MAX))
		return SIZE_MAX;
	resident = page_nr_resident();
	return resident < limit ? limit - resident : 0;
}

/* Of the lower of the two limits, what is not resident; both in pages. */
static size_t tight_room(size_t *limit)
{
	size_t resident = page_nr_resident();

	*limit = min_size(size_read(&group_pages), size_read(&limit_pages));
	return resident < *limit ? *limit - resident : 0;
}

/* Resident when a call was in vain, in pages. */
static _Atomic size_t vain_pages;

static bool has_grown(void)
{
	size_t limit, room = tight_room(&limit);
	size_t then = __atomic_load_n(&vain_pages, __ATOMIC_RELAXED);
	size_t step = max_size(room / ROOM_SHARE, then / RESIDENT_SHARE);

	return page_nr_resident() > then + step;
}

bool page_group_is_close(void)
{
	size_t room = page_group_room();

	return room != SIZE_MAX && room < size_read(&group_pages) / CLOSE_SHARE;
}

void page_tight_look(size_t pages)
{
	size_t limit, room = tight_room(&limit);

	if (limit == SIZE_MAX || room >= limit / NEAR_SHARE) {
		__atomic_store_n(&tight_pages, 0, __ATOMIC_RELAXED);
		return;
	}
	pages = __atomic_add_fetch(&tight_pages, pages, __ATOMIC_RELAXED);
	if (pages < max_size(room / ROOM_SHARE, STEP_MIN))
		return;
	__atomic_store_n(&tight_pages, 0, __ATOMIC_RELAXED);
	reread_if_limited();
	page_growth_ask(pages * PAGE_BYTES, GROWTH_TIGHT);
}

/*
 * ---- the hooks that are asked for memory ----
 *
 * A hook may be expensive and free nothing, so there are at most SLUB_RECLAIM_RATE
 * calls a second.  One exception: a request that would fail is worth another call as
 * long as calls yield something, for a cache that lives at its limit frees a little for
 * each thing it takes in.  Near a limit another is also worth it when much became
 * resident since.
 */

#define SECOND_NS 1000000000ull

/* const but for page_set_growth_hook() */
static bool (*_Atomic growth_hook)(size_t bytes);
/* const but for page_set_tight_hook() */
static bool (*_Atomic tight_hook)(size_t bytes);

/* Estimates: a lost update costs a call too many or too few. */
static _Atomic uint64_t asked_at_ns;
static _Atomic bool asked_in_vain;
/* The same near a limit, and close to it, where more is asked for. */
static _Atomic bool tight_in_vain[2];

void page_set_growth_hook(bool (*hook)(size_t bytes))
{
	/* release: pairs with the acquire in page_growth_ask() */
	__atomic_store_n(&growth_hook, hook, __ATOMIC_RELEASE);
	__atomic_store_n(&asked_at_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&asked_in_vain, false, __ATOMIC_RELAXED);
}

void page_set_tight_hook(bool (*hook)(size_t bytes))
{
	/* release: pairs with the acquire in page_growth_ask() */
	__atomic_store_n(&tight_hook, hook, __ATOMIC_RELEASE);
}

static _Atomic bool *in_vain_of(enum growth_cause cause)
{
	if (cause != GROWTH_TIGHT)
		return &asked_in_vain;
	return &tight_in_vain[page_group_is_close()];
}

static bool is_due(enum growth_cause cause, const _Atomic bool *in_vain)
{
	size_t rate = option_value(OPTION_reclaim_rate);
	uint64_t now = os_clock_ns();
	/* In the future after a long call in vain. */
	uint64_t last = __atomic_load_n(&asked_at_ns, __ATOMIC_RELAXED);

	if (!rate)
		return false;
	if (cause != GROWTH_MORE &&
	    (!__atomic_load_n(in_vain, __ATOMIC_RELAXED) ||
	     (cause == GROWTH_TIGHT && has_grown()))) {
		__atomic_store_n(&asked_at_ns, now, __ATOMIC_RELAXED);
		return true;
	}
	/* Of several threads one gets the turn. */
	return (int64_t)(now - last) >= (int64_t)(SECOND_NS / rate) &&
	       __atomic_compare_exchange_n(&asked_at_ns, &last, now, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/*
 * What took long and was of no use waits four times as long; on a loaded machine
 * it may have stood still most of the time.
 */
#define VAIN_SHARE 4
#define VAIN_NS_MAX 50000000ull

static void wait_after(uint64_t start)
{
	uint64_t now = os_clock_ns(), ns = now - start;

	ns = ns < VAIN_NS_MAX ? ns : VAIN_NS_MAX;
	__atomic_store_n(&asked_at_ns, now + ns * VAIN_SHARE, __ATOMIC_RELAXED);
}

bool page_growth_ask(size_t bytes, enum growth_cause cause)
{
	bool (*hook)(size_t);
	_Atomic bool *in_vain;
	uint64_t start;
	bool freed;

	/* acquire: what the hook works on is complete */
	hook = __atomic_load_n(cause == GROWTH_TIGHT ? &tight_hook :
			       &growth_hook, __ATOMIC_ACQUIRE);
	if (likely(!hook))
		return false;
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return false;
	in_vain = in_vain_of(cause);
	if (!is_due(cause, in_vain))
		return false;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	start = os_clock_ns();
	freed = hook(bytes);
	if (!freed && cause == GROWTH_TIGHT) {
		wait_after(start);
		__atomic_store_n(&vain_pages, page_nr_resident(), __ATOMIC_RELAXED);
	}
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	__atomic_store_n(in_vain, !freed, __ATOMIC_RELAXED);
	return freed;
}
