/* SPDX-License-Identifier: MIT */
/*
 * How much free memory the process holds, and when it goes back to the system: in the
 * call that frees it, as soon as the process holds more than its budget.
 *
 *     budget   base + regret
 *     base     used / 8, at least 1 MiB and at most 16 MiB; SLUB_RETAIN if that is given
 *     held     free pages with memory behind them, the descriptors of superblocks that
 *              are free and have none, the chains in barns, and whole free pages of
 *              slabs that are partly in use (features/idle/sparse.c)
 *     regret   pages that went back and were soon wanted again
 *
 * Regret is the price of a mistake: the kernel has to clear the page once more.  Half of the
 * regret is forgotten each second, and it never exceeds a sixteenth of the machine's memory.
 * So a program that fills and empties its heap all the time keeps what it needs from the
 * second time on, and a program that has ended a burst holds a mebibyte.
 *
 * Where mistakes go on, each counts once more for each time that the regret has the base in it
 * already.  So the regret of a program whose idle memory grows (blocks of many sizes, replaced
 * at random, fit into ever fewer gaps) doubles with each 0.7 of a base, and is ahead of what it
 * needs after a few; a program that makes fewer mistakes than that in a half-life forgets them
 * as fast.  The regret is never ahead of twice what would be held if nothing had gone back.
 *
 * A chain that a barn refused is no regret of its own, for its pages would count twice.
 *
 * No thread and no timer does this: the thread that frees looks at the clock, and works
 * out the seconds that have passed.  One thread does it at a time, and gives back as much as
 * one call may; the rest is left to the next call that frees.
 *
 * What the kernel refuses is set aside and not counted.  A kernel that refuses everything
 * (mlockall()) is not asked again before as much memory more lies idle as the base is.
 */
#include "core/base/turn.h"
#include "core/os/start_only.h"
#include "core/page/page_internal.h"

#define USED_SHARE 8
#define BASE_MIN ((size_t)1 << 20)
#define MEMORY_SHARE 16
#define NOT_WORTH_SHARE 4
#define HALF_LIFE_NS 1000000000ull
#define AHEAD 2

static _Atomic size_t regret_most;	/* const but for page_retain_changed() */
/* Estimates: a lost update gives a page too many or too few. */
static _Atomic size_t regret_bytes;
static _Atomic size_t given_bytes;	/* went back, not wanted again yet; halved too */
static _Atomic size_t given_sparse;	/* the same of pages of slabs, which serve these alone */
static _Atomic uint64_t halved_at_ns;

static _Atomic size_t refused_bytes;	/* held when the kernel took none of it */
static _Atomic uint64_t refused_at_ns;
static _Atomic uint64_t stuck_at_ns;	/* what is set aside was tried */
static struct turn purging;
/*
 * What the last look has found: none is due in this tick of the clock before so many pages lie
 * idle.  Estimates: an outdated one puts a look off by a tick.
 */
static _Atomic size_t quiet_pages;
static _Atomic uint64_t quiet_ns;
static _Atomic bool is_beyond_base;	/* more is held, or something is owed */

_Atomic bool page_purge_owed;
_Atomic size_t purge_idle_always;
_Atomic ptrdiff_t page_kept_bytes;
_Atomic size_t page_nr_sparse;
_Atomic uint64_t page_sparse_wait_ns;
static size_t (*sparse_hook)(size_t pages, struct purge *purge) start_only;

/* ---- the budget ---- */

void page_purge_init(const struct os_limits *limits)
{
	bool is_bounded = limits->address_bytes != SIZE_MAX ||
			  option_was_given(OPTION_retain);

	size_write(&regret_most,
		   is_bounded ? 0 : limits->memory_bytes / MEMORY_SHARE);
	page_system_init(limits);
	page_limit_init();
}

void purge_limit_changed(void)
{
	size_t bytes = min_size(BASE_MIN, option_value(OPTION_retain));

	if (page_limit_bytes() || page_group_room() != SIZE_MAX)
		bytes = 0;
	size_write(&purge_idle_always, bytes / PAGE_BYTES);
	size_write(&quiet_pages, 0);
}

size_t page_nr_dirty(void)
{
	return zone_nr_dirty() + superblock_nr_dirty() + quick_nr_pages();
}

static size_t in_barns(void)
{
	ptrdiff_t bytes = __atomic_load_n(&page_kept_bytes, __ATOMIC_RELAXED);

	return bytes > 0 ? (size_t)bytes : 0;
}

static size_t in_slabs(void)
{
	return size_read(&page_nr_sparse) * PAGE_BYTES;
}

/* Forgets half of the regret for each second since the last call that did so. */
static void halve(uint64_t now)
{
	uint64_t at = __atomic_load_n(&halved_at_ns, __ATOMIC_RELAXED);
	uint64_t seconds;

	/* Another thread may have moved it on since this one looked at the clock. */
	if ((int64_t)(now - at) < (int64_t)HALF_LIFE_NS)
		return;
	seconds = (now - at) / HALF_LIFE_NS;
	if (!__atomic_compare_exchange_n(&halved_at_ns, &at,
					 at + seconds * HALF_LIFE_NS, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	seconds = min_size(seconds, 63);
	size_write(&regret_bytes, size_read(&regret_bytes) >> seconds);
	size_write(&given_bytes, size_read(&given_bytes) >> seconds);
	size_write(&given_sparse, size_read(&given_sparse) >> seconds);
}

static size_t regret(void)
{
	if (likely(!size_read(&regret_bytes)))
		return 0;
	halve(os_clock_ns());
	return size_read(&regret_bytes);
}

/* The budget of a process that regrets nothing. */
static size_t base(void)
{
	size_t retain = option_value(OPTION_retain), used;

	if (option_was_given(OPTION_retain))
		return retain;
	used = page_used_bytes();
	used -= min_size(used, in_barns() + in_slabs());
	return min_size(max_size(used / USED_SHARE, BASE_MIN), retain);
}

/* Idle pages must not take the room that a limit leaves. */
static size_t bound(size_t bytes)
{
	size_t room = min_size(page_limit_room(), page_group_room());

	return likely(room == SIZE_MAX) ? bytes :
					  min_size(bytes, room * PAGE_BYTES);
}

size_t page_budget(void)
{
	return bound(base() + regret());
}

/* Chains come first: free pages give way to them.  If that was wrong, regret tells. */
bool page_budget_has_room(size_t bytes)
{
	bytes += in_barns();
	return bytes <= bound(base()) || bytes <= page_budget();
}

/* New memory was taken while other pages lie idle: both must fit below the limit. */
static cold void budget_make_room(void)
{
	size_t room = page_limit_room();

	if (!slub_thread.locks_held && page_nr_dirty() > room)
		page_purge(room * PAGE_BYTES);
}

static cold void budget_count_given(_Atomic size_t *given, size_t bytes)
{
	halve(os_clock_ns());
	__atomic_fetch_add(given, bytes, __ATOMIC_RELAXED);
}

static size_t held(void);

static cold void count_regret(_Atomic size_t *from, size_t bytes)
{
	size_t before, given, most, ahead;

	halve(os_clock_ns());
	before = size_read(&regret_bytes);
	given = size_read(from);
	most = AHEAD * (held() + given);
	bytes = min_size(bytes, given);
	size_write(from, given - bytes);
	/* As often as it has the base in it already. */
	ahead = before + bytes + bytes * (before / max_size(base(), 1));
	bytes = max_size(before + bytes, min_size(ahead, most));
	size_write(&regret_bytes, min_size(bytes, size_read(&regret_most)));
}

cold void page_regretted(size_t pages)
{
	if (unlikely(size_read(&given_sparse)))
		count_regret(&given_sparse, pages * PAGE_BYTES);
}

/*
 * A program that calls seldom finds all that it needs in its lists, and comes by no slow path.
 * So while something may be had, each look closes the fast path of malloc() to its thread, whose
 * next request comes by (fast_paths_open_now()): any number of times if it calls seldom, and a few
 * times in each tick of a clock of 100 Hz if it calls often.  Behind these the path stays closed
 * for a few calls more each time, for a program may fall silent in such a tick.
 *
 * A heap that grows beside free pages of slabs comes by for each block that it takes.
 */
#define VISITS_NS 10000000ull
#define VISITS_MAX 64
#define REFUSALS 8

static _Atomic int32_t nr_visits;	/* in this tick */

cold enum page_visit page_purge_visit(void)
{
	static _Atomic uint64_t since_ns;
	uint64_t now = os_clock_ns();
	bool is_first = now - __atomic_load_n(&since_ns, __ATOMIC_RELAXED) >= VISITS_NS;
	int32_t nr = __atomic_load_n(&nr_visits, __ATOMIC_RELAXED);

	if (is_first)
		__atomic_store_n(&since_ns, now, __ATOMIC_RELAXED);
	if (is_first || nr < VISITS_MAX)
		__atomic_store_n(&nr_visits, is_first ? 1 : nr + 1, __ATOMIC_RELAXED);
	if (nr < VISITS_MAX)
		return is_first ? VISIT_QUIET : VISIT_NOW;
	if (is_first)
		return VISIT_NOW;
	/* Refusals write to no word of other threads. */
	return ++slub_thread.visits_refused % REFUSALS ? VISIT_LATER : VISIT_NOT;
}

static cold void visit_once_more(void)
{
	__atomic_fetch_sub(&nr_visits, 1, __ATOMIC_RELAXED);
	slub_thread.malloc_limit = 0;
}

static void look_at_limits(void)
{
	if (unlikely(page_limit_room() != SIZE_MAX))
		budget_make_room();
	if (unlikely(__atomic_load_n(&purge_idle_always, __ATOMIC_RELAXED) == 0))
		page_tight_look();
}

void page_bought(size_t pages)
{
	if (unlikely(size_read(&page_nr_sparse)))
		visit_once_more();
	if (unlikely(size_read(&given_bytes)))
		count_regret(&given_bytes, pages * PAGE_BYTES);
	look_at_limits();
}

cold void page_bought_again(size_t pages)
{
	page_regretted(pages);
	look_at_limits();
}

size_t page_nr_stuck(void)
{
	return size_read(superblock_stuck_place()) * SUPERBLOCK_PAGES + zone_nr_stuck();
}

usual struct page_places page_places(void)
{
	return (struct page_places){ superblock_stuck_place(), &zones[0].nr_stuck,
				     sizeof(zones[0]), run_moved_place() };
}

/* Memory of descriptors that describe nothing. */
static size_t idle_descriptors(void)
{
	return superblock_nr_clean() * DESCRIPTORS_BYTES;
}

/* What is set aside is tried again by a call without a bound, or after a second. */
static void retry(const struct purge *purge)
{
	if (likely(!page_nr_stuck()))
		return;
	if (purge->until != UINT64_MAX &&
	    purge->now - __atomic_load_n(&stuck_at_ns, __ATOMIC_RELAXED) < HALF_LIFE_NS)
		return;
	__atomic_store_n(&stuck_at_ns, purge->now, __ATOMIC_RELAXED);
	superblock_retry();
	zone_retry();
}

/* Somebody asks for memory: no bound, and nothing is left to others. */
static void purge_begin_all(struct purge *purge)
{
	purge_begin(purge, false);
	__atomic_store_n(&page_purge_owed, false, __ATOMIC_RELAXED);
}

/* Keeps @pages dirty pages, as far as @purge allows; returns how many pages went back. */
static size_t purge_to(size_t pages, struct purge *purge)
{
	size_t before, after;

	retry(purge);
	before = page_nr_dirty();
	superblock_purge(pages, purge);
	if (page_nr_dirty() > pages && quick_nr_pages()) {
		quick_flush();
		superblock_purge(pages, purge);
	}
	if (page_nr_dirty() > pages)
		zone_purge(pages, purge);
	after = page_nr_dirty() + page_nr_stuck();
	budget_count_given(&given_bytes, purge->touched);
	return after < before ? before - after : 0;
}

size_t page_purge(size_t bytes)
{
	struct purge purge;

	purge_begin_all(&purge);
	return purge_to(bytes / PAGE_BYTES, &purge);
}

size_t page_purge_all(void)
{
	struct purge purge;
	size_t pages;

	block_flush(COLLECT_LISTS);
	purge_begin_all(&purge);
	pages = purge_to(0, &purge);
	superblock_purge_descriptors(0, &purge);
	return pages;
}

cold size_t page_purge_node(uint32_t node)
{
	size_t before = page_nr_dirty(), after;
	struct purge purge;

	if (nr_zones == 1)
		return page_purge_all();
	purge_begin_all(&purge);
	retry(&purge);
	/* A superblock that becomes whole by the first two steps goes by the third. */
	block_flush(COLLECT_LISTS);
	zone_purge_node(node, &purge);
	superblock_purge_node(node, &purge);
	budget_count_given(&given_bytes, purge.touched);
	after = page_nr_dirty() + page_nr_stuck();
	return after < before ? before - after : 0;
}

void page_purge_regret(void)
{
	size_t least = bound(base());

	if (page_nr_dirty() * PAGE_BYTES > least)
		page_purge(least - min_size(least, in_barns()));
}

static size_t held(void)
{
	return page_nr_dirty() * PAGE_BYTES + idle_descriptors() + in_barns();
}

/* What is to be had of it, perhaps: for a moment after a look that found none, nothing. */
static size_t in_slabs_at_rest(void)
{
	if (os_clock_ns() < __atomic_load_n(&page_sparse_wait_ns, __ATOMIC_RELAXED))
		return 0;
	return in_slabs();
}

/* The same with what lies in slabs, which gives way to the rest. */
static size_t held_all(void)
{
	return held() + in_slabs_at_rest();
}

static size_t budget_set_aside(void)
{
	return page_nr_stuck() * PAGE_BYTES;
}

/* The kernel took nothing: it is asked again in a second, or for as much more as the base. */
static void note_refusal(const struct purge *purge)
{
	bool is_refused = purge->nr_refused && !purge->touched;

	if (is_refused)
		__atomic_store_n(&refused_at_ns, os_clock_ns(), __ATOMIC_RELAXED);
	if (is_refused || size_read(&refused_bytes))
		size_write(&refused_bytes, is_refused ? held_all() + budget_set_aside() : 0);
}

/* Is it no use to ask, with @bytes more than the base held? */
static bool is_refused(size_t bytes)
{
	size_t refused = size_read(&refused_bytes);

	return unlikely(refused) && bytes + budget_set_aside() <= refused &&
	       os_clock_ns() - __atomic_load_n(&refused_at_ns, __ATOMIC_RELAXED) < HALF_LIFE_NS;
}

/* Descriptors go first: they cost a page fault for fifty that pages cost. */
static size_t purge_descriptors(size_t bytes, struct purge *purge)
{
	size_t pages = page_nr_dirty() * PAGE_BYTES, before = idle_descriptors(), after;

	if (pages + before > bytes)
		superblock_purge_descriptors((bytes - min_size(bytes, pages)) /
					     DESCRIPTORS_BYTES, purge);
	after = idle_descriptors();
	return after < before ? (before - after) / PAGE_BYTES : 0;
}

usual void page_set_sparse_hook(size_t (*hook)(size_t pages, struct purge *purge))
{
	sparse_hook = hook;
}

/* Keeps as much in all, if more than @most is held: by what lies free in slabs. */
static cold size_t purge_slabs(size_t keep, size_t most, struct purge *purge)
{
	size_t now = held_all(), before = purge->touched, pages;

	keep += in_barns();
	if (!sparse_hook || now <= max_size(most, keep) || !purge_may(purge))
		return 0;
	pages = sparse_hook((now - keep) / PAGE_BYTES, purge);
	budget_count_given(&given_sparse, purge->touched - before);
	return pages;
}

/*
 * Keeps @keep bytes in pages and their descriptors, if more than @most are; fewer than @least in
 * pages are not worth a call.
 */
static cold size_t purge_some(size_t keep, size_t most, size_t least)
{
	struct purge purge;
	size_t pages;

	if (slub_thread.locks_held || slub_thread.flags & THREAD_IN_RECLAIM ||
	    !turn_try(&purging))
		return 0;
	slub_thread.flags |= THREAD_IN_RECLAIM;
	purge_begin(&purge, true);
	pages = purge_descriptors(keep, &purge);
	if (held() > most && page_nr_dirty() * PAGE_BYTES >= least)
		pages += purge_to(keep / PAGE_BYTES, &purge);
	pages += purge_slabs(keep, most, &purge);
	__atomic_store_n(&page_purge_owed, !purge_may(&purge), __ATOMIC_RELAXED);
	note_refusal(&purge);
	slub_thread.flags &= ~(uint32_t)THREAD_IN_RECLAIM;
	turn_end(&purging);
	return pages;
}

/*
 * A page that is freed is one more that idles and, by the base, an eighth less that may: so for 8
 * of 9 pages of room nothing is to do.  Barns and slabs may take some of the rest meanwhile.
 */
#define QUIET_SHARE 2

/* @now is held and @most may be: nothing was to do. */
static void note_quiet(size_t now, size_t most)
{
	size_t room = most > now ? (most - now) / QUIET_SHARE / PAGE_BYTES : 0;

	if (unlikely(!size_read(&purge_idle_always)))
		room = 0;
	size_write(&quiet_pages, room ? page_nr_dirty() + room : 0);
	__atomic_store_n(&quiet_ns, os_clock_ns(), __ATOMIC_RELAXED);
}

/* @now is held, which is more than @least, the base; or something is owed. */
static cold size_t purge_beyond(size_t now, size_t least, bool is_owed)
{
	size_t most, keep;

	/* Others took what was owed, or the kernel refuses it. */
	if (now <= least / 2 || is_refused(now - least / 2)) {
		if (is_owed)
			__atomic_store_n(&page_purge_owed, false, __ATOMIC_RELAXED);
		return 0;
	}
	/* To half the base below the budget, so that the next free does not purge again. */
	most = keep = page_budget();
	keep -= min_size(least / 2, keep);
	if (is_owed)
		most = keep;
	if (now <= most) {
		/* What was owed is wanted again: the budget has grown over it. */
		if (is_owed)
			__atomic_store_n(&page_purge_owed, false, __ATOMIC_RELAXED);
		note_quiet(now, most);
		return 0;
	}
	return purge_some(keep - min_size(keep, in_barns()), most, least / NOT_WORTH_SHARE);
}

static void note_beyond_base(bool is_beyond)
{
	if (__atomic_load_n(&is_beyond_base, __ATOMIC_RELAXED) != is_beyond)
		__atomic_store_n(&is_beyond_base, is_beyond, __ATOMIC_RELAXED);
	if (is_beyond)
		slub_thread.malloc_limit = 0;
}

bool page_has_too_much(void)
{
	return __atomic_load_n(&is_beyond_base, __ATOMIC_RELAXED) || size_read(&page_nr_sparse);
}

size_t page_purge_if_needed(void)
{
	bool is_owed = page_purge_is_owed();
	size_t now = held(), least = bound(base()), pages;

	if (likely(now + in_slabs() <= least) && likely(!is_owed)) {
		note_beyond_base(false);
		note_quiet(now + in_slabs(), least);
		return 0;
	}
	pages = purge_beyond(now + in_slabs_at_rest(), least, is_owed);
	/* It is a sum over all CPUs. */
	if (pages)
		now = held();
	note_beyond_base(page_purge_is_owed() || now + in_slabs() > least);
	return pages;
}

void page_purge_look(size_t idle)
{
	if (idle > size_read(&quiet_pages) || page_purge_is_owed() ||
	    os_clock_ns() != __atomic_load_n(&quiet_ns, __ATOMIC_RELAXED))
		page_purge_if_needed();
	else if (__atomic_load_n(&is_beyond_base, __ATOMIC_RELAXED))
		slub_thread.malloc_limit = 0;
}

/*
 * A run that was freed goes back whole, in the call that frees it, where it does not fit:
 * as munmap() would, so that it costs what the program's own touching of it has cost
 * many times over.
 */
cold void page_run_free(char *start, size_t n, uint32_t flags)
{
	size_t bytes = n * SUPERBLOCK_BYTES, now = held() + bytes, least = bound(base());
	struct purge purge;

	if (!(flags & PAGE_GOES) &&
	    (now <= least || now <= page_budget() || is_refused(now - least))) {
		superblock_free(start, n, true);
		return;
	}
	purge_begin(&purge, true);
	purge.until = UINT64_MAX;
	superblock_free_purged(start, n, &purge);
	budget_count_given(&given_bytes, purge.touched);
	note_refusal(&purge);
}

enum renewal page_renew(char *start, size_t bytes, uint32_t node)
{
	enum renewal renewal;
	struct purge purge;

	purge_begin(&purge, false);
	renewal = purge_renew(&purge, start, bytes, bytes, node);
	budget_count_given(&given_bytes, purge.touched);
	return renewal;
}

/*
 * As if the new value had been given at the start, with one exception: a process that
 * started with 0 does not begin to keep freed blocks whole (large.c).
 */
cold void page_retain_changed(void)
{
	size_write(&regret_most, 0);
	size_write(&regret_bytes, 0);
	purge_limit_changed();
	page_purge_if_needed();
}
