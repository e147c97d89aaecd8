/* SPDX-License-Identifier: MIT */
/*
 * When free memory goes back to the system: in the very call that frees it,
 * as soon as more than the limit lies idle, down to half of that.
 *
 * So a process that frees and then never calls again has nothing left to give
 * back, and there is no thread, no timer and no signal for it.
 *
 * The limit is SLUB_RETAIN where that is given.  By default it is an eighth of what is
 * in use, 4 MiB at the least and 16 MiB at the most; what follows is about that.
 *
 * A program that frees and allocates more than that in turns would buy the same
 * pages back each time, at a page fault each (10,000 blocks of 4 KiB, allocated
 * and freed over and over: 5,900 cycles per block against 40).  So the limit rises
 * while pages that were given back are bought back fast (8 MiB within an eighth of a
 * second; that is 1 to 3 % of a CPU in page faults), up to a sixteenth of the
 * machine's memory.
 *
 * A limit that was raised is what stays when the program falls silent.  So it
 * counts up to half of the peak of what was resident, until twelve times the peak
 * has been paid for in faults: forty vectors that grow to 2 MiB and are freed,
 * five times, left 102 MiB and leave 18.
 *
 * A heap of some size that has fallen to half of its height is one whose burst is
 * over: then the limit is a sixty-fourth of what is in use, 1 MiB at the least, until
 * the heap grows again by a quarter, so that at rest little is kept beyond what is
 * alive.  What is bought back fast raises that limit, too; and a heap that has
 * grown again is one at work for ten seconds: its next fall is none.
 *
 * A heap of some size that was seen to buy back what it gave, and takes while it gives
 * (page/swing.c), goes up and down: it keeps all that is idle, and that it is at half
 * of its height is no fall.  When it only gives, the limits count again.
 *
 * What the barns above this layer hold beyond SLUB_RETAIN is idle, too, and the limit is
 * one for both: 200 MiB of 2 KiB objects, filled and freed twenty times, left 212 MiB
 * when each had its own, and 105 with one.  (Lists are longer since: 74 up to sixteen
 * times, then that is paid for.)
 *
 * A limit rises by no more than was bought back, and at most doubles from one purge
 * to the next: a program that fills and empties its heap twice is not one that
 * does so all the time.  It halves with each second since the last rise.
 * That is worked out when somebody looks, so it needs no purge to happen.
 */
#include "page/page_internal.h"

#define LIMIT_MIN ((size_t)4 << 20)
#define LIMIT_SHARE 8
#define FALL_FROM ((size_t)64 << 20)
#define FALL_MIN ((size_t)1 << 20)
#define FALL_SHARE 64
#define GROWS_SHARE 4
#define GROWS_MIN ((size_t)16 << 20)
#define AT_WORK_NS 10000000000ull
#define PEAK_SHARE 2
#define PATIENCE 12
#define SWING_SHARE 4
#define RAISED_SHARE 16
#define BOUGHT_PAGES (((size_t)8 << 20) / PAGE_BYTES)
#define BOUGHT_NS 125000000ull
#define DECAY_NS 1000000000ull

/* Estimates: a lost update costs a purge too many or too few. */
static _Atomic size_t raised_bytes;	/* 0: the limit is not raised */
static size_t raised_max_bytes;		/* const after start */
static _Atomic uint64_t raised_at_ns;	/* or halved */
static _Atomic size_t given_pages;	/* back, and not bought since */
static _Atomic size_t bought_pages;	/* in this window */
static _Atomic uint64_t window_at_ns;
/* A cycle lasts from one purge to the next. */
static _Atomic size_t cycle_from_bytes;	/* the limit it began with; 0: none */
static _Atomic size_t cycle_bought;	/* pages bought back fast in it */
static _Atomic size_t paid_bytes;	/* bought back fast; halved too */
static _Atomic size_t peak_bytes;	/* resident; halved too */
static _Atomic size_t height_bytes;	/* in use at the most; see fall_look() */
static _Atomic size_t floor_bytes;	/* and since it fell; 0: it did not */
static _Atomic uint64_t grown_at_ns;	/* again, after a fall; 0: never */

_Atomic size_t purge_idle_always;
_Atomic ptrdiff_t page_kept_bytes;
static _Atomic size_t last_kept;	/* what the last look at the swing saw */

static uint64_t time_read(const _Atomic uint64_t *what)
{
	return __atomic_load_n(what, __ATOMIC_RELAXED);
}

static void time_write(_Atomic uint64_t *what, uint64_t value)
{
	__atomic_store_n(what, value, __ATOMIC_RELAXED);
}

void page_purge_init(const struct os_limits *limits)
{
	raised_max_bytes = max_size(limits->memory_bytes / RAISED_SHARE,
				    option_value(OPTION_retain));
	if (limits->address_bytes != SIZE_MAX ||
	    option_value(OPTION_retain) == 0)
		raised_max_bytes = 0;
	page_limit_init();
}

void purge_limit_changed(void)
{
	size_t bytes = min_size(LIMIT_MIN, option_value(OPTION_retain));

	if (page_limit_bytes() || page_group_room() != SIZE_MAX)
		bytes = 0;
	size_write(&purge_idle_always, bytes / PAGE_BYTES);
}

size_t page_nr_dirty(void)
{
	return zone_nr_dirty() + superblock_nr_dirty() + quick_nr_pages();
}

static size_t used_bytes(void)
{
	return superblock_nr_used() * SUPERBLOCK_BYTES -
	       (zone_nr_dirty() + quick_nr_pages()) * PAGE_BYTES;
}

static size_t kept_bytes(void)
{
	ptrdiff_t kept = __atomic_load_n(&page_kept_bytes, __ATOMIC_RELAXED) -
			 (ptrdiff_t)option_value(OPTION_retain);

	return kept > 0 ? (size_t)kept : 0;
}

/* @used bytes, less the @kept ones. */
static size_t busy(size_t used, size_t kept)
{
	return used - min_size(used, kept);
}

bool page_has_fallen(void)
{
	return size_read(&floor_bytes) != 0;
}

static bool is_at_work(void)
{
	uint64_t at = time_read(&grown_at_ns);

	return at && os_clock_ns() - at < AT_WORK_NS;
}

/* More than the limit is idle: is it since the heap has fallen, and does not @swing? */
static void fall_look(size_t kept, bool swings)
{
	size_t used = busy(page_used_bytes(), kept);
	size_t floor = size_read(&floor_bytes);
	size_t height = size_read(&height_bytes);

	if (floor && used > floor + max_size(floor / GROWS_SHARE, GROWS_MIN)) {
		size_write(&floor_bytes, 0);
		time_write(&grown_at_ns, os_clock_ns());
		height = 0;
	} else if (height >= FALL_FROM && used <= height / 2 && !swings &&
		   (floor ? used < floor : !is_at_work())) {
		size_write(&floor_bytes, max_size(used, 1));
	}
	if (used > height)
		size_write(&height_bytes, used);
}

/*
 * What the limit is when it is not raised and @used bytes are in use.  Who names one asks
 * for that much, whatever the heap's size and course.
 */
static size_t limit_usual(size_t used)
{
	if (option_was_given(OPTION_retain))
		return option_value(OPTION_retain);
	if (page_has_fallen())
		return min_size(max_size(busy(page_used_bytes(),
					      kept_bytes()) / FALL_SHARE,
					 FALL_MIN),
				option_value(OPTION_retain));
	return min_size(max_size(used / LIMIT_SHARE, LIMIT_MIN),
			option_value(OPTION_retain));
}

/* How far it may be raised: what is left at rest is judged by the peak. */
static size_t limit_raised(void)
{
	size_t raised = size_read(&raised_bytes);
	size_t peak = size_read(&peak_bytes);
	size_t most = max_size(peak / PEAK_SHARE, LIMIT_MIN * 4);

	if (raised <= most || size_read(&paid_bytes) / PATIENCE >= peak)
		return raised;
	return most;
}

/* Where memory is limited, idle pages must not take what is left of it. */
static size_t limit_bound(size_t bytes)
{
	size_t room = min_size(page_limit_room(), page_group_room());

	return likely(room == SIZE_MAX) ? bytes :
					  min_size(bytes, room * PAGE_BYTES);
}

size_t page_idle_limit(void)
{
	return limit_bound(max_size(limit_usual(used_bytes()),
				    limit_raised()));
}

size_t page_idle_most(void)
{
	return limit_bound(raised_max_bytes);
}

/* Does the heap go up and down, and was seen to?  Then what is @idle may stay. */
static bool is_swinging(size_t idle, size_t kept)
{
	size_t peak = size_read(&peak_bytes);
	size_t before = size_read(&last_kept);
	bool swings;

	/* What went to a barn was freed, and what was fetched from there is used. */
	if (kept > before)
		swing_freed((kept - before) / PAGE_BYTES);
	size_write(&last_kept, kept);
	swings = swing_look(busy(page_used_bytes(), kept) / PAGE_BYTES,
			    peak / SWING_SHARE / PAGE_BYTES);
	return swings && size_read(&raised_bytes) && peak >= FALL_FROM &&
	       idle <= page_idle_most();
}

/* Halves the raised limit, and the peak, for each second since it was raised. */
static void limit_decay(void)
{
	size_t raised = size_read(&raised_bytes);
	uint64_t now, at, seconds;

	if (!raised && !size_read(&peak_bytes))
		return;
	now = os_clock_ns();
	at = time_read(&raised_at_ns);
	/* Another thread may have raised it since this one looked at the clock. */
	if ((int64_t)(now - at) < (int64_t)DECAY_NS)
		return;
	seconds = (now - at) / DECAY_NS;
	raised = seconds < 64 ? raised >> seconds : 0;
	size_write(&raised_bytes, raised > LIMIT_MIN ? raised : 0);
	size_write(&peak_bytes, seconds < 64 ?
		   size_read(&peak_bytes) >> seconds : 0);
	size_write(&paid_bytes, seconds < 64 ?
		   size_read(&paid_bytes) >> seconds : 0);
	time_write(&raised_at_ns, at + seconds * DECAY_NS);
}

static void limit_raise(size_t pages)
{
	uint64_t now = os_clock_ns();
	bool fast = now - time_read(&window_at_ns) < BOUGHT_NS;
	size_t from, raised;

	size_write(&bought_pages, 0);
	time_write(&window_at_ns, now);
	if (!fast)
		return;
	limit_decay();
	from = size_read(&cycle_from_bytes);
	if (!from) {
		from = page_idle_limit();
		size_write(&cycle_from_bytes, from);
		size_write(&cycle_bought, 0);
	}
	size_write(&paid_bytes, size_read(&paid_bytes) + pages * PAGE_BYTES);
	pages += size_read(&cycle_bought);
	size_write(&cycle_bought, pages);
	raised = from + min_size(from, pages * PAGE_BYTES);
	time_write(&raised_at_ns, now);
	size_write(&raised_bytes, min_size(raised, raised_max_bytes));
}

/* Counts what is bought back of the pages that were given back. */
static cold void count_bought(size_t pages, size_t given)
{
	pages = min_size(pages, given);
	size_write(&given_pages, given - pages);
	pages = __atomic_add_fetch(&bought_pages, pages, __ATOMIC_RELAXED);
	if (pages >= BOUGHT_PAGES)
		limit_raise(pages);
}

/* New memory while other pages lie idle: both have to fit the limit. */
static cold void make_room(void)
{
	size_t room = page_limit_room();

	if (!slub_thread.locks_held && page_nr_dirty() > room)
		page_purge(room * PAGE_BYTES);
}

void page_bought(size_t pages)
{
	size_t given = size_read(&given_pages);

	if (unlikely(given))
		count_bought(pages, given);
	if (unlikely(page_limit_room() != SIZE_MAX))
		make_room();
	if (unlikely(__atomic_load_n(&purge_idle_always, __ATOMIC_RELAXED) == 0))
		page_tight_look(pages);
}

size_t page_purge(size_t bytes)
{
	size_t pages = bytes / PAGE_BYTES;
	size_t before = page_nr_dirty();
	size_t after;

	superblock_purge(pages);
	if (page_nr_dirty() > pages && quick_nr_pages()) {
		quick_flush();
		superblock_purge(pages);
	}
	if (page_nr_dirty() > pages)
		zone_purge(pages);
	after = page_nr_dirty();
	if (after >= before)
		return 0;
	__atomic_fetch_add(&given_pages, before - after, __ATOMIC_RELAXED);
	size_write(&cycle_from_bytes, 0);
	return before - after;
}

size_t page_purge_all(void)
{
	size_t pages = page_purge(0);

	superblock_purge_descriptors();
	return pages;
}

/* More lies idle than may without a raised limit, which could allow it: does it still? */
static cold size_t purge_idle(size_t used, size_t idle, size_t kept)
{
	size_t limit, pages;
	bool swings;

	limit_decay();
	/* What is idle was in use a moment ago, or is part of the peak. */
	if (used + idle > size_read(&peak_bytes))
		size_write(&peak_bytes, used + idle);
	swings = is_swinging(idle, kept);
	fall_look(kept, swings);
	limit = page_idle_limit();
	if ((swings && !page_has_fallen()) || idle <= limit)
		return 0;
	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM)
		return 0;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	pages = page_purge(limit / 2 - min_size(limit / 2, kept));
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	return pages;
}

size_t page_purge_if_needed(void)
{
	size_t kept = kept_bytes();
	size_t idle = page_nr_dirty() * PAGE_BYTES + kept;
	size_t used = busy(used_bytes(), kept);
	size_t limit = limit_bound(limit_usual(used));

	if (likely(idle <= limit))
		return 0;
	/* Where barns hold as much as may be idle, not page by page. */
	if (kept && idle - kept < min_size(FALL_MIN, limit))
		return 0;
	return purge_idle(used, idle, kept);
}
