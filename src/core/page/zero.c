/* SPDX-License-Identifier: MIT */
/*
 * Zeros in a large block that was used before: written, or had from the kernel, which takes the
 * memory and gives zeros at the first touch of each page.
 *
 * Written zeros cost the time of the whole block, and make all of it resident.  The kernel's
 * cost a system call, and a page fault for each page that the program touches.  A program of
 * sparse blocks wants these, and one that fills its blocks the others: each takes many times
 * as long with the wrong ones.  Which program this is the kernel knows: the time of the call
 * that takes a block's memory grows with the pages that were touched.  A page fault costs
 * FAULT_COST times as much as to take the page away, so the call's time says what the
 * program's touches would cost again, and it is compared with the time that writing took.
 *
 * A block that zeros were written to says nothing, for it was touched by that: it is marked.
 * While zeros are written, one block in PROBE_EVERY comes from the kernel, without its mark;
 * when it comes back it tells.
 *
 * A block of more than a superblock always comes from the kernel.  It is made of several, and
 * most of them may be untouched.
 */
#include "core/page/page_internal.h"

#include <string.h>

/* Below it a system call costs more than it saves. */
#define ZERO_BYTES_MIN ((size_t)64 << 10)
/* 200 and 1,250 ns a page in a virtual machine; 60 and 400 on the metal. */
#define FAULT_COST 6
#define PROBE_EVERY 256
/* A thread may stand still in a call, and a block may have pages of another: one tells nothing. */
#define DENSE_AFTER 4

/* What a block's zeros came from the last time; 0: nothing is known. */
enum mark { MARK_WRITTEN = 1, MARK_PROBE };

/* Estimates: a lost update makes one a little older. */
static _Atomic uint64_t write_ns_per_mib;	/* 0: not known yet */
static _Atomic uint32_t nr_written;		/* since the last probe */
static _Atomic uint32_t dense_in_turn;		/* blocks that told so, up to DENSE_AFTER */

/* A large block has no use for its {freelist, counters}. */
static uint64_t *mark_of(void *ptr)
{
	return &page_state(page_of(ptr))->second;
}

static uint64_t write_ns(size_t bytes)
{
	return (__atomic_load_n(&write_ns_per_mib, __ATOMIC_RELAXED) * bytes) >> 20;
}

static void zero_by_writing(void *ptr, size_t bytes)
{
	uint64_t mean = __atomic_load_n(&write_ns_per_mib, __ATOMIC_RELAXED), before, ns;

	/*
	 * The first one counts for long, and it may be the touch of pages that went back: a page
	 * fault for each, which is no cost of writing.
	 */
	if (!mean)
		memset(ptr, 0, bytes);
	before = purge_clock_ns();
	memset(ptr, 0, bytes);
	ns = ((purge_clock_ns() - before) << 20) / bytes;
	/* What was preempted counts as twice the mean. */
	if (mean && ns > mean * 2)
		ns = mean * 2;
	__atomic_store_n(&write_ns_per_mib, mean ? mean - mean / 8 + ns / 8 : ns,
			 __ATOMIC_RELAXED);
	*mark_of(ptr) = MARK_WRITTEN;
}

static void told(bool is_dense)
{
	uint32_t nr = __atomic_load_n(&dense_in_turn, __ATOMIC_RELAXED);

	if (!is_dense)
		nr = 0;
	else if (nr < DENSE_AFTER)
		nr++;
	__atomic_store_n(&dense_in_turn, nr, __ATOMIC_RELAXED);
}

static bool is_dense(void)
{
	return __atomic_load_n(&dense_in_turn, __ATOMIC_RELAXED) == DENSE_AFTER;
}

/* False: the kernel would not. */
static bool zero_by_kernel(char *ptr, size_t bytes, bool is_probe)
{
	uintptr_t unit = os_page_size();
	char *end = ptr + round_down(bytes, unit);
	uint64_t before = purge_clock_ns(), ns;

	if (os_purge(ptr, (size_t)(end - ptr)))
		return false;
	ns = purge_clock_ns() - before;
	memset(end, 0, bytes - (size_t)(end - ptr));
	if (*mark_of(ptr) != MARK_WRITTEN)
		told(ns * FAULT_COST > write_ns(bytes));
	*mark_of(ptr) = is_probe ? MARK_PROBE : 0;
	return true;
}

enum zero { WRITE, PROBE, KERNEL };

static enum zero choose(void *ptr, size_t bytes)
{
	if (bytes > SUPERBLOCK_BYTES)
		return KERNEL;
	if (unlikely(!__atomic_load_n(&write_ns_per_mib, __ATOMIC_RELAXED)))
		return WRITE;
	if (!is_dense() || *mark_of(ptr) == MARK_PROBE)
		return KERNEL;
	return __atomic_fetch_add(&nr_written, 1, __ATOMIC_RELAXED) % PROBE_EVERY ? WRITE :
										 PROBE;
}

void large_zero(void *ptr, size_t bytes)
{
	enum zero zero;

	if (bytes < ZERO_BYTES_MIN || pagemap_get(ptr) != MAP_LARGE) {
		memset(ptr, 0, bytes);
		return;
	}
	zero = choose(ptr, bytes);
	if (zero == WRITE || !zero_by_kernel(ptr, bytes, zero == PROBE))
		zero_by_writing(ptr, bytes);
}
