/* SPDX-License-Identifier: MIT */
/*
 * Large blocks of the hardened build: between pages that nobody may touch, and untouchable
 * for a while after they were freed.
 *
 *   base              ptr                       asked
 *   +-----------------+--------------------------+---------+------------------+
 *   | fence: a page,  | what was asked for, in whole pages | fence: a page at |
 *   | or the alignment|                          |  pad    | the least        |
 *   +-----------------+--------------------------+---------+------------------+
 *                     |<-- own pages, in the descriptor -->|
 *   |<-- the block as large.c has it: pages in the descriptor of base ------->|
 *
 * The descriptor of base has what was asked for, too; that of ptr has the pages of the fence
 * before it, as an order.  The pad is up to 16 bytes of FENCE_PAD, as far as the page goes.
 *
 * A block that is freed waits in a queue until others of so many bytes (option
 * large_quarantine) came behind it, or memory is refused to any request.  It keeps its memory
 * meanwhile.  Then large.c keeps it, closed as it is, for the next request of its class: that
 * opens what it asked for.
 *
 * Each fence is a mapping of its own to the kernel, and a process may have 65,530 mappings.
 * So at most FENCED_MAX blocks have a fence, and none where the kernel refuses it.
 *
 * Locks: fence_lock.
 */
#include "page/hardened/fence.h"
#include "page/page_internal.h"

#include <string.h>

#define WAITING_MAX 256
#define FENCED_MAX 8192
#define FENCE_PAD 0xb5
#define PAD_MAX 16

static struct lock fence_lock fork_writes = LOCK_INIT;

/* under fence_lock: a ring; the pages are read without it */
static void *waiting[WAITING_MAX];
static uint32_t oldest, nr_waiting;
static _Atomic size_t waiting_pages;

static _Atomic uint32_t nr_fenced;

static size_t front_bytes(const void *ptr)
{
	return PAGE_BYTES << page_order(page_of(ptr));
}

static struct page *base_of(const void *ptr)
{
	return page_of((const char *)ptr - front_bytes(ptr));
}

/* ---- what was asked for ---- */

/* The two highest bits are the call's. */
#define CALL_BITS (3ull << 62)

/* In place of a slab's. */
static uint64_t asked_word(const void *ptr)
{
	return __atomic_load_n(&base_of(ptr)->holes, __ATOMIC_RELAXED);
}

size_t large_asked(const void *ptr)
{
	return asked_word(ptr) & ~CALL_BITS;
}

uint64_t large_call(const void *ptr)
{
	return asked_word(ptr) & CALL_BITS;
}

void large_call_add(void *ptr, uint64_t call)
{
	__atomic_store_n(&base_of(ptr)->holes, asked_word(ptr) ^ call,
			 __ATOMIC_RELAXED);
}

/* The pad of @ptr, and how long it is. */
static char *pad_of(const void *ptr, size_t asked, size_t *bytes)
{
	*bytes = min_size(large_bytes(ptr) - asked, PAD_MAX);
	return (char *)ptr + asked;
}

void large_ask(void *ptr, size_t asked)
{
	size_t bytes;
	char *pad = pad_of(ptr, asked, &bytes);

	__atomic_store_n(&base_of(ptr)->holes, asked, __ATOMIC_RELAXED);
	memset(pad, FENCE_PAD, bytes);
}

bool large_pad_is_right(const void *ptr)
{
	size_t bytes;
	const char *pad = pad_of(ptr, large_asked(ptr), &bytes);

	for (size_t i = 0; i < bytes; i++) {
		if ((unsigned char)pad[i] != FENCE_PAD)
			return false;
	}
	return true;
}

/* ---- fences ---- */

static void close_pages(char *start, size_t pages)
{
	os_protect(start, pages * PAGE_BYTES, false);
}

/* True: there is room for one more, which is counted. */
static bool may_fence(void)
{
	if (__atomic_add_fetch(&nr_fenced, 1, __ATOMIC_RELAXED) <= FENCED_MAX)
		return true;
	__atomic_fetch_sub(&nr_fenced, 1, __ATOMIC_RELAXED);
	return false;
}

bool fence_open(void *base, size_t pages)
{
	struct page *page = page_of(base);

	if (!(page_flags_read(page) & PAGE_FENCED))
		return true;
	page_flags_write(page, 0);
	__atomic_fetch_sub(&nr_fenced, 1, __ATOMIC_RELAXED);
	return !os_protect(base, pages * PAGE_BYTES, true);
}

/* Back to where large.c has it from.  What the kernel does not open is lost. */
static void give(void *base)
{
	struct page *page = page_of(base);
	uint32_t flags = page_flags_read(page);
	size_t pages = page->count;

	page_flags_write(page, flags & PAGE_FENCED);
	if (!(flags & (PAGE_RUN | PAGE_ANEW)) &&
	    quick_free(base, pages, flags >> 16 & 0xff))
		return;
	if (fence_open(base, pages))
		large_give(base, pages, flags);
}

/* ---- the queue ---- */

size_t fence_nr_pages(void)
{
	return size_read(&waiting_pages);
}

/* The oldest, if there are @pages or more in all; else NULL. */
static void *take_oldest(size_t pages)
{
	void *base = NULL;

	lock_acquire(&fence_lock);
	if (nr_waiting && (fence_nr_pages() >= pages ||
			   nr_waiting == WAITING_MAX)) {
		base = waiting[oldest];
		oldest = (oldest + 1) % WAITING_MAX;
		nr_waiting--;
		size_add(&waiting_pages, -(size_t)page_of(base)->count);
	}
	lock_release(&fence_lock);
	return base;
}

bool fence_flush(void)
{
	bool had = false;
	void *base;

	while ((base = take_oldest(0))) {
		give(base);
		had = true;
	}
	return had;
}

/* ---- blocks ---- */

/* Its fences, where there may be one more; @base is open. */
static uint32_t close_around(char *base, size_t front, size_t own)
{
	size_t open = front + own;

	if (!may_fence())
		return 0;
	close_pages(base, front);
	close_pages(base + open * PAGE_BYTES, page_of(base)->count - open);
	return PAGE_FENCED;
}

static size_t front_pages(size_t align)
{
	return max_size(align, PAGE_BYTES) / PAGE_BYTES;
}

static size_t own_pages(size_t bytes)
{
	return max_size(round_up(bytes, PAGE_BYTES), PAGE_BYTES) / PAGE_BYTES;
}

/* With its fences. */
static size_t all_bytes(size_t bytes, size_t align)
{
	return (front_pages(align) + own_pages(bytes) + 1) * PAGE_BYTES;
}

/* The block within @base, which large.c has just given. */
static void *fence_put(char *base, size_t bytes, size_t align)
{
	size_t front = front_pages(align), own = own_pages(bytes);
	char *ptr = base + front * PAGE_BYTES;
	uint32_t flags;

	flags = page_flags_read(page_of(base)) & ~0xffffu;
	large_entry_set(base, MAP_NONE);
	/* One that was kept closed has its fences. */
	if (flags & PAGE_FENCED && os_protect(ptr, own * PAGE_BYTES, true)) {
		/* That takes more mappings than there may be, and all of it none. */
		if (os_protect(base, page_of(base)->count * PAGE_BYTES, true)) {
			page_flags_write(page_of(base), flags);
			give(base);
			return NULL;
		}
		__atomic_fetch_sub(&nr_fenced, 1, __ATOMIC_RELAXED);
		flags &= ~PAGE_FENCED;
	}
	large_mark(ptr, own, flags >> 16 & 0xff, flags & PAGE_RUN);
	page_flags_write(page_of(ptr), (flags & ~PAGE_FENCED) | TYPE_LARGE |
				       order_of(front) << 8);
	if (!(flags & PAGE_FENCED))
		flags |= close_around(base, front, own);
	page_flags_write(page_of(base), flags);
	large_ask(ptr, bytes);
	return ptr;
}

static bool wait_in_line(void *base)
{
	bool done = false;

	lock_acquire(&fence_lock);
	if (nr_waiting < WAITING_MAX) {
		waiting[(oldest + nr_waiting++) % WAITING_MAX] = base;
		size_add(&waiting_pages, page_of(base)->count);
		done = true;
	}
	lock_release(&fence_lock);
	return done;
}

void *fence_alloc(size_t bytes, size_t align, bool *is_zero)
{
	size_t all = all_bytes(bytes, align);
	char *base = large_take(all, align, is_zero);

	if (!base && fence_flush())
		base = large_take(all, align, is_zero);
	return base ? fence_put(base, bytes, align) : NULL;
}

void *fence_alloc_reserve(size_t bytes, size_t align)
{
	/* Its sum must not wrap around. */
	char *base = max_size(bytes, align) <= heap_reserved_bytes ?
		     reserve_take_large(all_bytes(bytes, align), align) : NULL;

	return base ? fence_put(base, bytes, align) : NULL;
}

void fence_free(void *ptr, size_t own, uint32_t flags)
{
	size_t most = option_value(OPTION_large_quarantine) / PAGE_BYTES;
	char *base = (char *)ptr - (PAGE_BYTES << page_flags_order(flags));
	struct page *page = page_of(base);
	void *other;

	/* A block that cannot be closed would only keep memory. */
	if (!(page_flags_read(page) & PAGE_FENCED) || page->count > most / 2) {
		give(base);
		return;
	}
	close_pages(ptr, own);
	while ((other = take_oldest(most - page->count + 1)))
		give(other);
	if (!wait_in_line(base))
		give(base);
}

/* ---- resize ---- */

/* Where it is, as far as its block goes; NULL: the caller has to copy. */
void *fence_resize(void *ptr, size_t bytes)
{
	struct page *page = page_of(ptr), *base = base_of(ptr);
	size_t front = front_bytes(ptr) / PAGE_BYTES, old = page->count;
	size_t own = round_up(bytes, PAGE_BYTES) / PAGE_BYTES;
	char *end = (char *)ptr + min_size(own, old) * PAGE_BYTES;

	if (own != old) {
		/* Its owner was charged with the pages that it has. */
		if (*page_owner(page) || own < old / 2 ||
		    front + own + 1 > base->count)
			return NULL;
		if (page_flags_read(base) & PAGE_FENCED &&
		    os_protect(end, (max_size(own, old) - min_size(own, old)) *
				    PAGE_BYTES, own > old))
			return NULL;
		__atomic_store_n(&page->count, (uint32_t)own,
				 __ATOMIC_RELAXED);
	}
	large_ask(ptr, bytes);
	return ptr;
}

/* ---- fork ---- */

usual void page_features_fork_prepare(void)
{
	lock_fork(&fence_lock, FORK_BEGINS);
}

usual void page_features_fork_finish(bool in_child)
{
	lock_fork(&fence_lock, fork_end(in_child));
}
