/* SPDX-License-Identifier: MIT */
/*
 * Addresses are mapped anew when they are free, so that their next owner finds nothing of what the
 * last one left on them: mprotect(), mlock(), mbind(), MADV_DONTFORK, MADV_WIPEONFORK, advice on
 * huge pages, a userfaultfd.  No call tells the library of any of these.
 *
 * The C library forgives a program that leaves such a thing, for it unmaps a large block at its
 * free: from 128 KiB on at first, then above the largest that was so freed (mallopt(3),
 * M_MMAP_THRESHOLD).  The same here: a block that is larger than those bounds when it is handed
 * out is marked, and mapped anew at its free, which raises them.  So a loop pays once.  Two
 * differences: a block below 1 MiB counts if its address was asked for by the page, as a program
 * that speaks to the kernel of its block does; and no size is unmapped each time that was not
 * asked for so.
 *
 * Idle memory that goes back is mapped anew too, in pieces of 128 KiB and more.  The memory goes
 * first, under a lock that page faults can share.  In a virtual machine (Linux 6.18) 128 KiB take
 * 11.5 us without and 16.5 with, 2 MiB 146 and 149; the mappings merge with those around them.
 *
 * They do not in a forked child, for what it has from its parent: there a bounded number is.
 */
#include "core/page/page_internal.h"

#include <errno.h>

#define RENEW_MIN ((size_t)128 << 10)
/* glibc's bound for what it may keep; of sizes that are asked for by the page. */
#define ALWAYS_BYTES ((size_t)32 << 20)
/* Two mappings each. */
#define INHERITED_MAX 1024

static _Atomic size_t freed_bytes = RENEW_MIN;	/* so large a block was mapped anew */
/*
 * A kernel that has refused it is not asked for each piece: it may be short for long, and a
 * purge has many.
 */
#define WAITS_AFTER_REFUSAL 64

static _Atomic uint32_t nr_waits;	/* an estimate */
static _Atomic bool locks_mappings fork_writes;	/* mlockall(MCL_FUTURE), as far as is known */

/* In a forked child: how far the heap went then, and how much below may be mapped anew. */
static _Atomic uintptr_t inherited_end fork_writes;
static _Atomic uint32_t inherited_left fork_writes;

/* A page that is locked for itself, or all pages that there are and will be? */
static cold bool is_locked_for_good(void)
{
	if (!__atomic_load_n(&locks_mappings, __ATOMIC_RELAXED) &&
	    os_locks_mappings())
		__atomic_store_n(&locks_mappings, true, __ATOMIC_RELAXED);
	return __atomic_load_n(&locks_mappings, __ATOMIC_RELAXED);
}

static bool may_renew(const char *start, size_t bytes)
{
	size_t unit = os_page_size();
	uint32_t left;

	if (bytes < RENEW_MIN || ((uintptr_t)start | bytes) % unit)
		return false;
	if (likely((uintptr_t)start >=
		   __atomic_load_n(&inherited_end, __ATOMIC_RELAXED)))
		return true;
	/* Two threads may take the last one twice. */
	left = __atomic_load_n(&inherited_left, __ATOMIC_RELAXED);
	if (left)
		__atomic_store_n(&inherited_left, left - 1, __ATOMIC_RELAXED);
	return left;
}

/* What the library itself has asked for there. */
static void renew_advise(char *start, size_t bytes, uint32_t node)
{
	enum option_huge huge = (enum option_huge)option_value(OPTION_huge);

	if (huge == HUGE_NEVER || huge == HUGE_ALWAYS)
		os_huge(start, bytes, huge == HUGE_ALWAYS);
	if (nr_zones > 1)
		os_node_bind(start, bytes, node);
}

static bool is_too_soon(void)
{
	uint32_t waits = __atomic_load_n(&nr_waits, __ATOMIC_RELAXED);

	if (unlikely(waits))
		__atomic_store_n(&nr_waits, waits - 1, __ATOMIC_RELAXED);
	return waits;
}

enum renewal renew(char *start, size_t bytes, uint32_t node)
{
	int err = os_purge(start, bytes), refusal;

	/* EINVAL: some of it is locked. */
	if (unlikely(err) && (err != -EINVAL || is_locked_for_good()))
		return RENEW_DIRTY;
	if (!may_renew(start, bytes) || is_too_soon())
		return err ? RENEW_DIRTY : RENEW_CLEAN;
	refusal = os_map_anew(start, bytes);
	if (likely(!refusal)) {
		renew_advise(start, bytes, node);
		return RENEW_CLEAN;
	}
	__atomic_store_n(&nr_waits, WAITS_AFTER_REFUSAL, __ATOMIC_RELAXED);
	if (refusal == -EFAULT)
		return RENEW_LOST;
	return err ? RENEW_DIRTY : RENEW_CLEAN;
}

static size_t freed_so_far(void)
{
	return size_read(&freed_bytes);
}

void renew_mark(void *ptr, size_t pages, size_t align)
{
	size_t bytes = pages * PAGE_BYTES;
	bool is_paged = align >= PAGE_BYTES;
	struct page *page = page_of(ptr);

	if ((bytes > freed_so_far() && (is_paged || bytes >= SUPERBLOCK_BYTES / 2)) ||
	    (is_paged && bytes > ALWAYS_BYTES))
		page_flags_write(page, page_flags_read(page) | PAGE_ANEW);
}

void renew_note(size_t pages)
{
	/* A lost update costs one more block that is mapped anew. */
	if (pages * PAGE_BYTES > freed_so_far())
		size_write(&freed_bytes, pages * PAGE_BYTES);
}

void renew_fork_finish(bool in_child)
{
	if (!in_child)
		return;
	__atomic_store_n(&inherited_end, heap_start + pagemap_committed(),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&inherited_left, INHERITED_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&locks_mappings, false, __ATOMIC_RELAXED);
}

/* ---- what one call may spend: purge.h ---- */

void purge_begin(struct purge *purge, bool is_bounded)
{
	*purge = (struct purge){ .calls = is_bounded ? PURGE_CALLS : UINT32_MAX,
				 .now = purge_clock_ns(), .piece = is_bounded ? 1 : UINT32_MAX };
	purge->until = is_bounded ? purge->now + PURGE_NS : UINT64_MAX;
}

bool purge_may(const struct purge *purge)
{
	return purge->calls && purge->now < purge->until;
}

/* Bytes that went back at the most, by the time that it took. */
static size_t touched_most(size_t bytes, uint64_t ns)
{
	uint64_t pages = ns / PAGE_NS;

	return pages < bytes / PAGE_BYTES ? pages * PAGE_BYTES : bytes;
}

/* What a call that began at purge->now has done to @bytes. */
static int renew_called(struct purge *purge, size_t bytes, int err)
{
	uint64_t before = purge->now;

	purge->now = purge_clock_ns();
	purge->calls -= purge->calls != 0;
	if (purge->piece != UINT32_MAX)
		purge->piece = purge->now - before >= PIECE_NS ? 1 :
			       purge->piece < PIECE_MAX ? purge->piece * 2 : PIECE_MAX;
	if (err)
		purge->nr_refused++;
	else
		purge->touched += touched_most(bytes, purge->now - before);
	return err;
}

void purge_tick(struct purge *purge)
{
	purge->now = purge_clock_ns();
}

int purge_range(struct purge *purge, void *start, size_t bytes)
{
	return renew_called(purge, bytes, os_purge(start, bytes));
}

enum renewal purge_renew(struct purge *purge, char *start, size_t bytes, size_t dirty,
			 uint32_t node)
{
	enum renewal renewal = renew(start, bytes, node);

	/* The memory goes by one call, and what was left on the addresses by another. */
	purge->calls -= purge->calls > 1;
	renew_called(purge, dirty, renewal == RENEW_DIRTY);
	return renewal;
}
