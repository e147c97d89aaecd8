/* SPDX-License-Identifier: MIT */
/*
 * Freed large blocks of the hardened build that are open still: a program that allocates and
 * frees a block of the same size again and again makes no system call for it.
 *
 * A use after free of such a block is not stopped.  So there are few: READY_MAX blocks and
 * READY_BYTES in the process, between their fences, and none of a size that was not freed
 * READY_AFTER times.  A block that nobody wants in time is closed, and its size has to come as
 * often anew.  The first bytes of each are filled (fence.c), and looked at when it leaves.
 *
 * A request gets one of READY_LEAST or more, at random, but not the one that was freed last: with
 * fewer it goes the way of all blocks.  So four of a size are ready in a loop of one block, and
 * one of three is taken.
 *
 * Locks: ready_lock.
 */
#include "features/hardened/ready.h"

#include "core/base/hash.h"

#include <string.h>

#define READY_MAX 32
#define READY_BYTES ((size_t)4 << 20)
#define READY_PAGES (READY_BYTES / PAGE_BYTES)
#define READY_AFTER 32
#define READY_LEAST 4

struct ready {
	char *base;
	uint32_t pages, own;
};

static struct lock ready_lock fork_writes = LOCK_INIT;

/* under ready_lock */
static struct ready ready[READY_MAX + 1];	/* the oldest first; one is about to leave */
static uint32_t nr_ready;
static uint8_t nr_freed[KEPT_CLASSES];
static uint64_t random_state;
static _Atomic size_t ready_pages;		/* read without it, too */

size_t ready_nr_pages(void)
{
	return size_read(&ready_pages);
}

/* Takes number @i out; under the lock. */
static void *take(uint32_t i)
{
	void *base = ready[i].base;

	size_add(&ready_pages, -(size_t)ready[i].pages);
	nr_ready--;
	memmove(&ready[i], &ready[i + 1], (nr_ready - i) * sizeof(*ready));
	return base;
}

bool ready_wants(size_t pages)
{
	bool wants = false;
	uint8_t *n;

	if (!is_kept_size(pages) || pages * READY_LEAST > READY_PAGES)
		return false;
	lock_acquire(&ready_lock);
	n = &nr_freed[kept_class(pages)];
	if (*n >= READY_AFTER)
		wants = true;
	else
		++*n;
	lock_release(&ready_lock);
	return wants;
}

/* The oldest, if there is no room for all; nobody wanted it in time.  Under the lock. */
static void *take_over(void)
{
	if (nr_ready <= READY_MAX && ready_nr_pages() <= READY_PAGES)
		return NULL;
	nr_freed[kept_class(ready[0].pages)] = 0;
	return take(0);
}

void *ready_put(void *base, size_t own)
{
	struct ready new = { base, page_of(base)->count, (uint32_t)own };
	void *other;

	lock_acquire(&ready_lock);
	ready[nr_ready++] = new;
	size_add(&ready_pages, new.pages);
	other = take_over();
	lock_release(&ready_lock);
	return other;
}

void *ready_over(void)
{
	void *base;

	lock_acquire(&ready_lock);
	base = take_over();
	lock_release(&ready_lock);
	return base;
}

void *ready_any(void)
{
	void *base = NULL;

	lock_acquire(&ready_lock);
	if (nr_ready)
		base = take(0);
	lock_release(&ready_lock);
	return base;
}

/* One of the @n that fit, but for the last: which of them by age. */
static uint32_t draw(uint32_t n)
{
	if (unlikely(!random_state))
		random_state = os_random_word(0) ^ os_clock_ns();
	return (uint32_t)((random_next(&random_state) >> 32) * (n - 1) >> 32);
}

static bool fits(const struct ready *r, size_t pages, size_t own, uint32_t node)
{
	return r->pages == pages && (!own || r->own == own) && page_node(page_of(r->base)) == node;
}

/* Under the lock; @own 0: any. */
static void *take_fitting(size_t pages, size_t own, uint32_t node)
{
	uint32_t n = 0, nth;

	for (uint32_t i = 0; i < nr_ready; i++)
		n += fits(&ready[i], pages, own, node);
	if (n < READY_LEAST)
		return NULL;
	nth = draw(n);
	for (uint32_t i = 0; i < nr_ready; i++) {
		if (fits(&ready[i], pages, own, node) && !nth--)
			return take(i);
	}
	return NULL;
}

void *ready_take(size_t pages, size_t own, uint32_t node)
{
	void *base;

	if (!is_kept_size(pages) || !ready_nr_pages())
		return NULL;
	pages = kept_class_pages(kept_class(pages));
	lock_acquire(&ready_lock);
	base = take_fitting(pages, own, node);
	if (!base)
		base = take_fitting(pages, 0, node);
	lock_release(&ready_lock);
	return base;
}

usual void ready_fork(enum fork_step step)
{
	lock_fork(&ready_lock, step);
}
