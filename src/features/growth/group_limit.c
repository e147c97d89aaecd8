/* SPDX-License-Identifier: MIT */
/*
 * The limit of the process's cgroup: what of it is the heap's, how it is followed where it
 * changes (SLUB_LIMIT=auto), and the look at it where nobody asked for one.
 */
#include "core/base/turn.h"
#include "features/growth/growth.h"
#include "core/page/page_internal.h"

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
 * A pod may be resized while it runs.  With SLUB_LIMIT=auto a limit is read again when
 * the heap has grown, near it, and before it refuses a request, so a process that
 * does none of these makes no system call for it; and ten times a second at the most.
 * Without the option, and where there was none, it is not: a sandbox may end a process that
 * opens files by then.
 */
#define REREAD_NS 100000000ull

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
	 * limit_is_auto, which page_limit_follow() writes before it.
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

/* What the files said at the start, in pages; 0: not known. */
static size_t pages_at_start;

void page_limit_reread(void)
{
	if (unlikely(__atomic_load_n(&limit_is_auto, __ATOMIC_RELAXED)))
		reread();
}

usual size_t page_limit_follow(bool is_auto)
{
	size_t pages = group_limit();
	bool has_limit = is_auto && pages && pages != SIZE_MAX;

	pages_at_start = pages;
	__atomic_store_n(&limit_is_auto, has_limit, __ATOMIC_RELAXED);
	return has_limit ? pages * PAGE_BYTES : 0;
}

/*
 * ---- the cgroup's limit, where nobody asked for one ----
 *
 * What is beyond it gets the process killed, so near it memory that is free
 * somewhere is worth more than time.  Nothing is refused for it: the group may
 * have swap, and a block need not be written to.  A heap that is small heeds none, so that
 * most processes pay nothing for it.
 */

/* Superblocks from which on it is worth a look. */
#define LOOK_FROM 4

static _Atomic bool group_is_known;

static usual void group_look_first(void)
{
	__atomic_store_n(&reread_at_ns, os_clock_ns(), __ATOMIC_RELAXED);
	group_apply(pages_at_start);
}

void page_group_look(size_t superblocks)
{
	if (likely(superblocks < LOOK_FROM))
		return;
	if (likely(__atomic_load_n(&group_is_known, __ATOMIC_RELAXED)))
		page_limit_reread();
	else if (!__atomic_exchange_n(&group_is_known, true, __ATOMIC_RELAXED))
		group_look_first();
}

/* The part of the limit that is left when it is close. */
#define CLOSE_SHARE 16

bool page_group_is_close(void)
{
	size_t room = page_group_room();

	return room != SIZE_MAX && room < size_read(&group_pages) / CLOSE_SHARE;
}
