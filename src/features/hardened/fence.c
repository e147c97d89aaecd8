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
 * The descriptor of base has what was asked for, too, and in both are the pages of the fence
 * before it, as an order.  The pad is up to 16 bytes of FENCE_PAD, as far as the page goes.
 *
 * A block that is freed waits in a queue until others of so many bytes (option
 * large_quarantine) came behind it, or memory is refused to any request.  It keeps its memory
 * meanwhile.  Then large.c keeps it, closed as it is, for the next request of its class: that
 * opens what it asked for.  Blocks of a size that is freed again and again stay open for a while
 * before they are closed: ready.c.
 *
 * Fences are guard pages where the kernel has them (Linux 6.13): no mapping of their own, which
 * a fork would copy (1,000 blocks of 40,000 bytes: 1.2 times the default build's fork with them,
 * 7 times with mappings), and which a process may have 65,530 of.  Otherwise each is a mapping.
 * What else is closed is a mapping always, for guard pages lose what was in them.  So at most
 * FENCED_MAX blocks have any such, and none where the kernel refuses it.  On base:
 *
 *   PAGE_GUARDED                the fences are guard pages, what is between them is open
 *   PAGE_GUARDED, PAGE_FENCED   the same, and what is between them is closed
 *   PAGE_FENCED                 all that is closed is so by mappings
 *
 * Locks: fence_lock.
 */
#include "core/os/start_only.h"
#include "features/hardened/fence.h"
#include "features/hardened/ready.h"

#include <errno.h>
#include <string.h>

#define WAITING_MAX 256
#define FENCED_MAX 8192
#define FENCE_PAD 0xb5
#define PAD_MAX 16
/* So few pages are closed as guard pages: each is a call's work. */
#define GUARDED_MAX 64
/* Of base, where no order is as high: the program asked for it by the page. */
#define BASE_PAGED 0x8000u

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

/* What is open of a block: @own pages behind the first @front. */
struct window {
	size_t front, own;
};

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

static void flags_add(void *base, uint32_t flags)
{
	page_flags_write(page_of(base), page_flags_read(page_of(base)) | flags);
}

/* It has no closed mapping any more. */
static void unfenced(void *base)
{
	page_flags_write(page_of(base), page_flags_read(page_of(base)) & ~PAGE_FENCED);
	__atomic_fetch_sub(&nr_fenced, 1, __ATOMIC_RELAXED);
}

bool fence_open(void *base, size_t pages)
{
	uint32_t flags = page_flags_read(page_of(base));

	if (flags & PAGE_FENCED) {
		if (os_protect(base, pages * PAGE_BYTES, true))
			return false;
		unfenced(base);
	}
	if (flags & PAGE_GUARDED && os_guard(base, pages * PAGE_BYTES, true))
		return false;
	page_flags_write(page_of(base), 0);
	return true;
}

/*
 * Guard pages around a window of @base; all of it is open.  False: there are none.  A page that
 * the kernel has closed and does not open again counts as a fence: the next use of @base opens
 * all of it, or leaves it out.
 */
static bool guard_around(char *base, struct window window)
{
	size_t open = window.front + window.own, behind = page_of(base)->count - open;
	char *end = base + open * PAGE_BYTES;
	int err;

	if (window.front + behind > GUARDED_MAX)
		return false;
	err = os_guard(base, window.front * PAGE_BYTES, false);
	if (err == -EINVAL)	/* it has no such pages */
		return false;
	if (!err && !os_guard(end, behind * PAGE_BYTES, false))
		return true;
	err = os_guard(base, window.front * PAGE_BYTES, true);
	return os_guard(end, behind * PAGE_BYTES, true) || err;
}

/* The fences of a window of @base; all of it is open. */
static void close_around(char *base, struct window window)
{
	size_t open = window.front + window.own;

	if (guard_around(base, window)) {
		flags_add(base, PAGE_GUARDED);
		return;
	}
	if (!may_fence())
		return;
	close_pages(base, window.front);
	close_pages(base + open * PAGE_BYTES, page_of(base)->count - open);
	flags_add(base, PAGE_FENCED);
}

/* The last page of a window moves, and the fence behind it; false: it cannot. */
static bool fence_move(char *base, size_t front, size_t old, size_t own)
{
	uint32_t flags = page_flags_read(page_of(base));
	char *from = base + (front + min_size(old, own)) * PAGE_BYTES;
	size_t bytes = (max_size(old, own) - min_size(old, own)) * PAGE_BYTES;

	if (!bytes)
		return true;
	if (flags & PAGE_GUARDED)
		return !os_guard(from, bytes, own > old);
	return !(flags & PAGE_FENCED) || !os_protect(from, bytes, own > old);
}

/*
 * @base was kept, perhaps closed, with the window @was: makes it @window.  False: the kernel
 * does not open that.
 */
static bool fence_reopen(char *base, struct window was, struct window window)
{
	uint32_t flags = page_flags_read(page_of(base));
	char *start = base + was.front * PAGE_BYTES;
	size_t pages = page_of(base)->count;

	if (flags & PAGE_GUARDED) {
		if (flags & PAGE_FENCED) {
			if (os_protect(start, was.own * PAGE_BYTES, true))
				return false;
			unfenced(base);
		}
		if (was.front == window.front)
			return fence_move(base, was.front, was.own, window.own);
	} else if (flags & PAGE_FENCED) {
		if (was.front != window.front || was.own > window.own)
			close_pages(base, pages);
		return !os_protect(base + window.front * PAGE_BYTES, window.own * PAGE_BYTES, true);
	}
	if (!fence_open(base, pages))
		return false;
	page_flags_write(page_of(base), flags & ~(PAGE_FENCED | PAGE_GUARDED));
	close_around(base, window);
	return true;
}

/* Nobody is to touch what is between the fences.  False: it stays open. */
static bool close_own(char *ptr, char *base, size_t own)
{
	if (page_flags_read(page_of(base)) & PAGE_FENCED) {
		close_pages(ptr, own);
		return true;
	}
	if (!(page_flags_read(page_of(base)) & PAGE_GUARDED) || !may_fence())
		return false;
	flags_add(base, PAGE_FENCED);
	if (!os_protect(ptr, own * PAGE_BYTES, false))
		return true;
	unfenced(base);
	return false;
}

/* Back to where large.c has it from.  What the kernel does not open is lost. */
static void give(void *base)
{
	struct page *page = page_of(base);
	uint32_t flags = page_flags_read(page);
	size_t pages = page->count;

	page_flags_write(page, flags & PAGE_CLOSED_MASK);
	if (!(flags & (PAGE_RUN | PAGE_ANEW)) &&
	    quick_free(base, pages, flags >> 16 & 0xff))
		return;
	if (fence_open(base, pages))
		large_give(base, pages, flags & ~PAGE_CLOSED_MASK);
}

/* ---- the queue ---- */

size_t fence_nr_pages(void)
{
	return size_read(&waiting_pages) + ready_nr_pages();
}

/* The oldest, if there are @pages or more in all; else NULL. */
static void *take_oldest(size_t pages)
{
	void *base = NULL;

	lock_acquire(&fence_lock);
	if (nr_waiting && (size_read(&waiting_pages) >= pages ||
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

	while ((base = ready_any()) || (base = take_oldest(0))) {
		give(base);
		had = true;
	}
	return had;
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

static size_t quarantine_pages(void)
{
	return option_value(OPTION_large_quarantine) / PAGE_BYTES;
}

/* @base, which is closed, comes back when others of so many bytes were freed. */
static void wait(void *base)
{
	size_t most = quarantine_pages(), pages = page_of(base)->count;
	void *other;

	while ((other = take_oldest(most > pages ? most - pages + 1 : 0)))
		give(other);
	if (!wait_in_line(base))
		give(base);
}

/* ---- blocks that are ready ---- */

void (*fence_found)(const void *ptr) start_only;

/* As of small objects: option free_fill. */
static size_t fill_bytes(size_t own)
{
	return min_size(own * PAGE_BYTES, option_value(OPTION_free_fill));
}

/* Was @ptr written to since it was filled? */
static bool is_filled(const char *ptr, size_t own)
{
	size_t bytes = fill_bytes(own), at = 0;
	uint64_t all = 0;

	for (; at + sizeof(all) <= bytes; at += sizeof(all))
		all |= *(const uint64_t *)(ptr + at);
	for (; at < bytes; at++)
		all |= (unsigned char)ptr[at];
	return likely(!all);
}

/*
 * The window of @base, which was ready, if it is as its free has left it.  If not, that is
 * reported, and nobody gets the block again; it stays closed.
 */
static bool window_of_ready(char *base, struct window *window)
{
	char *ptr;

	window->front = (size_t)1 << page_order(page_of(base));
	ptr = base + window->front * PAGE_BYTES;
	window->own = page_of(ptr)->count;
	if (is_filled(ptr, window->own))
		return true;
	close_own(ptr, base, window->own);
	if (fence_found)
		fence_found(ptr);
	return false;
}

/* @base is to be ready no more. */
static cold void retire(char *base)
{
	struct window window;

	if (!window_of_ready(base, &window))
		return;
	if (close_own(base + window.front * PAGE_BYTES, base, window.own))
		wait(base);
	else
		give(base);
}

/* False: it is the caller's. */
static bool make_ready(char *ptr, char *base, size_t own)
{
	uint32_t flags = page_flags_read(page_of(base));
	void *other;

	if (flags & (PAGE_RUN | PAGE_ANEW | BASE_PAGED) || !ready_wants(page_of(base)->count))
		return false;
	memset(ptr, 0, fill_bytes(own));
	for (other = ready_put(base, own); unlikely(other); other = ready_over())
		retire(other);
	return true;
}

/* ---- blocks ---- */

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

/* The block in @window of @base, whose fences are there. */
static void *hand_out(char *base, struct window window, size_t bytes, bool is_paged)
{
	uint32_t flags = page_flags_read(page_of(base)), order = order_of(window.front) << 8;
	char *ptr = base + window.front * PAGE_BYTES;

	flags &= ~0xffffu;
	large_entry_set(base, MAP_NONE);
	page_flags_write(page_of(base), flags | order | (is_paged ? BASE_PAGED : 0));
	large_mark(ptr, window.own, flags >> 16 & 0xff, flags & PAGE_RUN);
	page_flags_write(page_of(ptr), (flags & ~PAGE_CLOSED_MASK) | TYPE_LARGE | order);
	large_ask(ptr, bytes);
	return ptr;
}

/* The block within @base, which large.c has just given. */
static void *fence_put(char *base, size_t bytes, size_t align)
{
	struct window window = { front_pages(align), own_pages(bytes) }, was;
	uint32_t flags = page_flags_read(page_of(base));

	if (!(flags & (PAGE_FENCED | PAGE_GUARDED))) {
		close_around(base, window);
		return hand_out(base, window, bytes, align >= PAGE_BYTES);
	}
	was.front = (size_t)1 << (page_flags_order(flags) & ~(BASE_PAGED >> 8));
	was.own = page_of(base + was.front * PAGE_BYTES)->count;
	if (!fence_reopen(base, was, window)) {
		/* That takes more mappings than there may be, and all of it none. */
		if (!fence_open(base, page_of(base)->count)) {
			large_entry_set(base, MAP_NONE);
			give(base);
			return NULL;
		}
		page_flags_write(page_of(base), flags & ~PAGE_CLOSED_MASK);
	}
	return hand_out(base, window, bytes, align >= PAGE_BYTES);
}

/* One that is ready, for a request that wants no certain alignment. */
static void *take_ready(size_t bytes)
{
	struct window window = { 1, own_pages(bytes) }, was;
	size_t pages = all_bytes(bytes, 1) / PAGE_BYTES;
	char *base;

	while ((base = ready_take(pages, window.own, os_node_current()))) {
		if (!window_of_ready(base, &was))
			continue;
		if (likely(fence_move(base, was.front, was.own, window.own)))
			return hand_out(base, window, bytes, false);
		retire(base);
		return NULL;
	}
	return NULL;
}

void *fence_alloc(size_t bytes, size_t align, bool *is_zero)
{
	size_t all = all_bytes(bytes, align);
	char *base;
	void *ptr = align < PAGE_BYTES ? take_ready(bytes) : NULL;

	if (ptr) {
		*is_zero = false;
		slab_tell(NULL);
		return ptr;
	}
	base = large_take(all, align, is_zero);
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
	char *base = (char *)ptr - (PAGE_BYTES << page_flags_order(flags));
	struct page *page = page_of(base);

	/* A block that cannot be closed would only keep memory. */
	if (!(page_flags_read(page) & (PAGE_FENCED | PAGE_GUARDED)) ||
	    page->count > quarantine_pages() / 2) {
		give(base);
		return;
	}
	if (make_ready(ptr, base, own))
		return;
	if (close_own(ptr, base, own))
		wait(base);
	else
		give(base);
}

/* ---- resize ---- */

/* Where it is, as far as its block goes; NULL: the caller has to copy. */
void *fence_resize(void *ptr, size_t bytes)
{
	struct page *page = page_of(ptr), *base = base_of(ptr);
	size_t front = front_bytes(ptr) / PAGE_BYTES, old = page->count;
	size_t own = round_up(bytes, PAGE_BYTES) / PAGE_BYTES;

	if (own != old) {
		/* Its owner was charged with the pages that it has. */
		if (*page_owner(page) || own < old / 2 || front + own + 1 > base->count ||
		    !fence_move(page_address(base), front, old, own))
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
	ready_fork(FORK_BEGINS);
}

usual void page_features_fork_finish(bool in_child)
{
	lock_fork(&fence_lock, fork_end(in_child));
	ready_fork(fork_end(in_child));
}
