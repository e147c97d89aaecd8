/* SPDX-License-Identifier: MIT */
/*
 * The range: its parts, how much of each is mapped, and the map from page to slot.
 *
 * Nothing is reserved.  Each part has a place (core/os/place.c) and is mapped as it grows, so
 * what the process is charged for is what the heap has grown to.
 *
 * ---- growth ----
 *
 * The heap grows under a lock of its own, for that takes up to four system calls, and what is
 * there already can be taken and given back meanwhile.  Whoever has grow_lock owns what lies
 * behind growth_mapped: addresses, states, and the parts of the range.  It maps, writes the
 * states, and moves that number on (a release).  Nobody looks at a state behind the number, so
 * nobody sees a half-made superblock.  Where a mapping is refused the number stays, and what has
 * been mapped of the tables is kept for the next try.  What is mapped becomes free under
 * superblock_lock, by the next thread that looks for a superblock (an acquire): the one that grew
 * the heap looks anew, and grows it once more if another was quicker.  A thread that waited for
 * grow_lock looks anew first, for the growth of another may do.
 *
 * ---- open and closed ----
 *
 * What the heap grows by is closed (PROT_NONE) at first.  It is opened from its low end on, as
 * blocks are handed out there: a write far behind a block of a small heap ends the program, as it
 * does behind the C library's.  The first superblock is opened in pieces, since small programs need
 * no more than two or three of them.  Others are opened whole, for the kernel backs a superblock
 * with a huge page where all of it is open; and a share of the heap at a time, so that
 * a large one grows by few calls.
 *
 *   OPEN-1  Whoever hands memory of the heap out opens it first (heap_open()).  A free block or
 *           superblock may be closed: nobody touches it.
 *   OPEN-2  What lies below heap_opened, and is the heap's, is open for good: behind a wall
 *           it goes on where the wall ends, once all in front of it is open.
 *
 * The page map covers an address before the number does: its entry is MAP_NONE, as it was.
 * Fork takes both locks, so a child finds what is mapped and what is known of it alike.
 *
 * Locks: grow_lock protects the growth.
 */
#include "core/page/superblock_growth.h"

#include <errno.h>
#include <string.h>

#define METADATA_ALIGN ((size_t)65536)	/* any system's page size */
/*
 * More than the barns of every cache there can be, on eight nodes with 8,192 CPUs, and
 * it costs nothing.
 */
#define META_BYTES ((size_t)4 << 30)
#define HEAP_BYTES_MIN ((size_t)8 << 20)
#define HEAP_BYTES_MAX ((size_t)1 << 42)
/* How many superblocks are committed at a time. */
#define GROW_MIN 4
#define GROW_MAX 32
/* How much of the first one is opened at a time; twice what the C library adds to its heap. */
#define OPEN_BYTES ((size_t)256 << 10)
/* Of the rest: a share of what is open, if that is some superblocks. */
#define OPEN_SHARE 8

uintptr_t pagemap_base;
size_t pagemap_limit;
uintptr_t descriptor_bias;
uintptr_t page_link_bias;
uintptr_t heap_start;
size_t heap_reserved_bytes;
size_t range_reserved_bytes;

/* What grows upwards from its start. */
struct part {
	char *start;
	size_t bytes;		/* mapped */
};

static struct part descriptors;
static struct part links;
static struct part map;		/* and what is in front of it */
static size_t committed_bytes;	/* of the heap; read without the lock too */
static uint64_t *published_bytes;

_Atomic uintptr_t heap_opened;

struct lock grow_lock fork_writes = LOCK_INIT;
/* Read without the lock too. */
_Atomic size_t growth_mapped;
_Atomic uint64_t growth_refill;

/* Sizes of the parts, each a multiple of METADATA_ALIGN. */
struct sizes {
	size_t descriptors;
	size_t links;		/* of pages */
	size_t map;		/* and what is in front of it */
	size_t heap;
	size_t total;
};

/*
 * Four times the memory: what is freed in one size and wanted in another may
 * sit at another address.
 */
static size_t choose_heap_bytes(const struct os_limits *limits)
{
	size_t bytes = option_value(OPTION_address_space);

	if (!bytes)
		bytes = round_up_power_of_two(limits->memory_bytes) * 4;
	bytes = max_size(min_size(bytes, HEAP_BYTES_MAX), HEAP_BYTES_MIN);
	return round_down(bytes, SUPERBLOCK_BYTES);
}

static void size_parts(struct sizes *sizes, size_t heap)
{
	size_t pages = heap / PAGE_BYTES;
	/* The map also has entries for itself, and up to where the heap is aligned. */
	size_t entries = (SUPERBLOCK_BYTES + heap) / PAGE_BYTES;

	entries += entries / 1024 + 65536;
	sizes->heap = heap;
	sizes->descriptors = round_up(pages * sizeof(struct page),
				      METADATA_ALIGN);
	sizes->links = round_up(pages * sizeof(void *), METADATA_ALIGN);
	sizes->map = MAP_FRONT_BYTES + round_up(entries * 2, METADATA_ALIGN);
	sizes->total = sizes->descriptors + sizes->links + META_BYTES +
		       sizes->map + SUPERBLOCK_BYTES + heap;
}

static char *heap_find_place(struct sizes *sizes, const struct os_limits *limits)
{
	size_t heap = choose_heap_bytes(limits);
	char *place;

	for (;;) {
		size_parts(sizes, heap);
		place = os_place(sizes->total);
		if (place || heap <= HEAP_BYTES_MIN)
			return place;
		heap = round_down(max_size(heap / 2, HEAP_BYTES_MIN),
				  SUPERBLOCK_BYTES);
	}
}

static int part_grow(struct part *part, size_t wanted)
{
	int err;

	wanted = round_up(wanted, METADATA_ALIGN);
	if (wanted <= part->bytes)
		return 0;
	err = os_map_at(part->start + part->bytes, wanted - part->bytes);
	if (!err)
		part->bytes = wanted;
	return err;
}

static cold void heap_part_drop(struct part *part)
{
	if (part->bytes)
		os_unreserve(part->start, part->bytes);
	part->bytes = 0;
}

/*
 * What RLIMIT_AS leaves to the heap, which gives back memory but no addresses: stacks,
 * libraries and files of the program's need some too.
 */
#define REST_BYTES ((size_t)64 << 20)
#define REST_SHARE 8

static size_t most(void)
{
	size_t limit = os_address_limit();

	if (limit == SIZE_MAX)
		return heap_reserved_bytes;
	limit -= max_size(min_size(limit / 2, REST_BYTES), limit / REST_SHARE);
	return min_size(limit, heap_reserved_bytes);
}

/* The limit may have been raised. */
bool pagemap_allows(size_t bytes)
{
	if (bytes <= most())
		return true;
	if (bytes > heap_reserved_bytes)
		return false;
	os_address_limit_ask();
	return bytes <= most();
}

/*
 * A process may set a limit for itself after the start.  To ask for it each time that the heap
 * grows is a call that a sandbox may end the process for, so the kernel is asked for the addresses
 * instead: those of the growth, and as many more as most() leaves of any limit that it would
 * refuse this growth for.  Only a process without them is asked for its limit.
 * -EAGAIN: it has none, and yet there is no room; less may be had.
 */
static int new_limit_refuses(size_t before, size_t bytes)
{
	size_t rest = max_size(REST_BYTES, bytes / (REST_SHARE - 1));

	if (os_address_limit() != SIZE_MAX || os_has_room(bytes - before + rest))
		return 0;
	os_address_limit_ask();
	return bytes <= most() ? -EAGAIN : -ENOMEM;
}

static size_t pages_to(size_t heap)
{
	return (heap_start + heap - pagemap_base) >> PAGE_SHIFT;
}

/* What there has to be for a heap of @bytes. */
static int tables_grow(size_t bytes)
{
	size_t pages = bytes / PAGE_BYTES;
	int err = part_grow(&map, MAP_FRONT_BYTES + pages_to(bytes) * 2);

	if (!err)
		err = part_grow(&descriptors, pages * sizeof(struct page));
	return err ? err : part_grow(&links, pages * sizeof(void *));
}

/* The map is mapped before anyone looks there. */
static void committed_set(size_t bytes)
{
	__atomic_store_n(&committed_bytes, bytes, __ATOMIC_RELAXED);
	if (published_bytes)
		__atomic_store_n(published_bytes, bytes, __ATOMIC_RELAXED);
	/* release: the map comes first */
	__atomic_store_n(&pagemap_limit, pages_to(bytes), __ATOMIC_RELEASE);
}

static int commit(size_t bytes, bool is_less)
{
	size_t before = committed_bytes;
	int err;

	if (bytes <= before)
		return 0;
	if (!pagemap_allows(bytes))
		return -ENOMEM;
	err = is_less ? 0 : new_limit_refuses(before, bytes);
	if (err)
		return err;
	err = tables_grow(bytes);
	/* The tables cannot pass, as the heap can. */
	if (err)
		return err == -EEXIST ? -EADDRINUSE : -ENOMEM;
	err = os_map_closed_at((char *)heap_start + before, bytes - before);
	if (!err)
		committed_set(bytes);
	return err;
}

/* ---- open and closed ---- */

/* What is to be open so that it is up to @end, which lies in what is committed. */
static uintptr_t open_target(uintptr_t end)
{
	uintptr_t first = heap_start + SUPERBLOCK_BYTES;
	size_t share = (heap_opened - heap_start) / OPEN_SHARE;

	if (end <= first && option_value(OPTION_huge) != HUGE_ALWAYS)
		return round_up(end, OPEN_BYTES);
	end = round_up(end, SUPERBLOCK_BYTES) + round_down(share, SUPERBLOCK_BYTES);
	return min_size(end, heap_start + committed_bytes);
}

/* A filter that comes late may refuse the call; it must allow the heap's mappings. */
static int open_range(uintptr_t start, uintptr_t end)
{
	int err = os_protect((void *)start, end - start, true);

	return err && err != -ENOMEM ? os_map_anew((void *)start, end - start) : err;
}

/* Under grow_lock.  The last time was refused, also for no more than was needed. */
static bool is_short;

/* Under grow_lock; a call of the system where it refused before, two at the most. */
static bool open_to(uintptr_t end)
{
	uintptr_t opened = heap_opened, least, target;

	if (end <= opened)
		return true;
	least = round_up(end, METADATA_ALIGN);
	target = is_short ? least : open_target(end);
	is_short = open_range(opened, target);
	/* RLIMIT_DATA may leave less. */
	if (is_short && target > least) {
		target = least;
		is_short = open_range(opened, target);
	}
	if (is_short)
		return false;
	/* release: pairs with the acquire in heap_open() */
	__atomic_store_n(&heap_opened, target, __ATOMIC_RELEASE);
	return true;
}

cold bool heap_open_to(const void *end)
{
	bool is_open;

	lock_acquire(&grow_lock);
	is_open = open_to((uintptr_t)end);
	lock_release(&grow_lock);
	return is_open;
}

/* What the program has mapped between the committed part and @from is not for us to open. */
static bool open_behind(char *from)
{
	if (!open_to(heap_start + committed_bytes))
		return false;
	__atomic_store_n(&heap_opened, (uintptr_t)from, __ATOMIC_RELEASE);
	return true;
}

int pagemap_commit(size_t bytes)
{
	return commit(bytes, false);
}

cold int pagemap_commit_less(size_t bytes)
{
	return commit(bytes, true);
}

/* First the heap, which may be tried at several places, then the tables up to there. */
cold int pagemap_commit_behind(size_t from, size_t bytes)
{
	char *start = (char *)heap_start + from;
	int err = pagemap_allows(bytes) ? os_map_closed_at(start, bytes - from) : -ENOMEM;

	if (err)
		return err == -EEXIST ? err : -ENOMEM;
	err = tables_grow(bytes);
	if (!err && !open_behind(start))
		err = -ENOMEM;
	if (!err) {
		committed_set(bytes);
		return 0;
	}
	os_unreserve(start, bytes - from);
	return err == -EEXIST ? -EADDRINUSE : -ENOMEM;
}

bool pagemap_owns(const void *addr)
{
	uintptr_t start = (uintptr_t)descriptors.start;

	return (uintptr_t)addr - start <
	       heap_start + heap_reserved_bytes - start;
}

size_t pagemap_committed(void)
{
	return __atomic_load_n(&committed_bytes, __ATOMIC_RELAXED);
}

void pagemap_publish(uint64_t *word)
{
	*word = pagemap_committed();
	published_bytes = word;
}

int pagemap_init(const struct os_limits *limits)
{
	struct sizes sizes;
	char *place = heap_find_place(&sizes, limits);

	if (!place)
		return -ENOMEM;
	descriptors.start = place;
	links.start = place + sizes.descriptors;
	map.start = links.start + sizes.links + META_BYTES;
	pagemap_base = (uintptr_t)map.start + MAP_FRONT_BYTES;
	heap_start = round_up((uintptr_t)map.start + sizes.map, SUPERBLOCK_BYTES);
	heap_reserved_bytes = sizes.heap;
	range_reserved_bytes = heap_start + sizes.heap - pagemap_base;
	descriptor_bias = (uintptr_t)descriptors.start -
			  (heap_start >> PAGE_SHIFT) * sizeof(struct page);
	page_link_bias = (uintptr_t)links.start -
			 (heap_start >> PAGE_SHIFT) * sizeof(void *);
	meta_init(map.start, META_BYTES);
	if (tables_grow(0)) {
		pagemap_exit();
		return -ENOMEM;
	}
	committed_set(0);
	heap_opened = heap_start;
	percpu_map_front_set(map.start);
	return 0;
}

cold void pagemap_exit(void)
{
	percpu_map_front_set(NULL);
	pagemap_limit = 0;
	if (committed_bytes)
		os_unreserve((void *)heap_start, committed_bytes);
	committed_bytes = 0;
	heap_part_drop(&map);
	heap_part_drop(&descriptors);
	heap_part_drop(&links);
	meta_exit();
}

void pagemap_set(const void *addr, size_t pages, uint32_t entry)
{
	uint16_t *map = (uint16_t *)pagemap_base + pagemap_index(addr);

	for (size_t i = 0; i < pages; i++)
		__atomic_store_n(&map[i], (uint16_t)entry, __ATOMIC_RELAXED);
}

/* ---- growth ---- */

void growth_init(void)
{
	growth_mapped = growth_refill = 0;
	wall_init();
}

/* What a new mapping of the heap is told. */
static void pagemap_advise(size_t first, size_t n)
{
	if (option_value(OPTION_huge) == HUGE_NEVER)
		os_huge(superblock_address(first), n * SUPERBLOCK_BYTES, false);
}

cold void superblock_go_on(size_t first, size_t n)
{
	size_t end = superblock_nr_mapped();

	pagemap_advise(first, n);
	memset(superblock_states + end, SB_NONE, first - end);
	memset(superblock_states + first, SB_FRESH, n);
	inject(INJECT_publish);
	/* release: pairs with the acquire in settle_growth() */
	__atomic_store_n(&growth_mapped, first + n, __ATOMIC_RELEASE);
	wall_end();
}

cold void superblock_add_strange(size_t first, size_t n)
{
	pagemap_advise(first, n);
	inject(INJECT_publish);
	/* release: pairs with the acquire in settle_growth() */
	__atomic_store_n(&growth_refill, (uint64_t)first << REFILL_SHIFT | n, __ATOMIC_RELEASE);
}

/* @is_less: than what was refused just before. */
static int pagemap_commit_to(size_t target, bool is_less)
{
	size_t end = superblock_nr_mapped();
	int err = is_less ? pagemap_commit_less(target * SUPERBLOCK_BYTES) :
			    pagemap_commit(target * SUPERBLOCK_BYTES);

	if (!err)
		superblock_go_on(end, target - end);
	return err;
}

/* Commits so that @end superblocks are there.  PASSED: look anew where there is room. */
static cold enum growth grow_to(size_t end, struct wall_request *request)
{
	size_t reserved = heap_reserved_bytes / SUPERBLOCK_BYTES;
	size_t now = superblock_nr_mapped();
	size_t step = max_size(min_size(now / 8, GROW_MAX), GROW_MIN);
	size_t target = min_size(max_size(end, now + step), reserved);
	int err = -EAGAIN;

	if (end > reserved)
		return wall_end_of_heap(end - now, request);
	if (unlikely(wall_is_met(request, now)))
		return wall_pass(end - now, request);
	if (!wall_was_met(request))
		err = pagemap_commit_to(target, false);
	if (err && (target > end || err == -EAGAIN))
		err = pagemap_commit_to(end, true);
	if (err == -EEXIST)
		return wall_pass(end - now, request);
	if (err == -EADDRINUSE)
		return wall_refill(end - now, request);
	return err ? REFUSED : GROWN;
}

cold enum growth superblock_grow(size_t end, size_t seen, struct wall_request *request)
{
	enum growth growth = GROWN;

	if (slub_thread.growth >= THREAD_GROWTH_NONE)
		return REFUSED;
	lock_acquire(&grow_lock);
	if (superblock_nr_mapped() == seen)
		growth = grow_to(end, request);
	lock_release(&grow_lock);
	if (growth != GROWN && growth != PASSED && slub_thread.growth)
		slub_thread.growth = growth == WALLED ? THREAD_GROWTH_WALLED :
							THREAD_GROWTH_NONE;
	return growth;
}
