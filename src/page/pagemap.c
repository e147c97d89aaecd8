/* SPDX-License-Identifier: MIT */
/*
 * The reserved range: its parts, how much of it is committed, and the map from
 * page to slot.
 *
 * Locks: superblock_lock protects the commit (pagemap_commit).
 */
#include "page/page.h"

#define METADATA_ALIGN ((size_t)65536)	/* any system's page size */
#define META_BYTES ((size_t)8 << 20)
#define DESCRIPTORS_FIRST (2 * METADATA_ALIGN)
#define HEAP_BYTES_MIN ((size_t)8 << 20)
#define HEAP_BYTES_MAX ((size_t)1 << 42)

uintptr_t pagemap_base;
size_t pagemap_limit;
uintptr_t descriptor_bias;
uintptr_t page_link_bias;
uintptr_t heap_start;
size_t heap_reserved_bytes;
size_t range_reserved_bytes;

static size_t committed_bytes;	/* of the heap; read without the lock too */
static char *descriptors;
static size_t descriptor_committed;
static char *links;
static size_t links_committed;
static size_t map_committed;
static uint64_t *published_bytes;

/* Sizes of the parts, each a multiple of METADATA_ALIGN. */
struct parts {
	size_t map;		/* and what is in front of it */
	size_t meta;
	size_t descriptors;
	size_t links;		/* of pages */
	size_t heap;
	size_t total;
};

/*
 * Four times the memory: what is freed in one size and wanted in another may
 * sit at another address.  With a limit on the address space, half of what is
 * allowed, for libraries and stacks need some too.
 */
static size_t choose_heap_bytes(const struct os_limits *limits)
{
	size_t bytes = option_value(OPTION_reserve);

	if (!bytes)
		bytes = round_up_power_of_two(limits->memory_bytes) * 4;
	if (limits->address_bytes != SIZE_MAX)
		bytes = min_size(bytes, limits->address_bytes / 2);
	bytes = max_size(min_size(bytes, HEAP_BYTES_MAX), HEAP_BYTES_MIN);
	return round_down(bytes, SUPERBLOCK_BYTES);
}

static void size_parts(struct parts *parts, size_t heap, bool is_tight)
{
	size_t pages = heap / PAGE_BYTES;
	size_t front, entries;

	parts->heap = heap;
	parts->meta = is_tight ? META_BYTES / 8 : META_BYTES;
	parts->descriptors = round_up(pages * sizeof(struct page),
				      METADATA_ALIGN);
	parts->links = round_up(pages * sizeof(void *), METADATA_ALIGN);
	front = parts->meta + parts->descriptors + parts->links +
		SUPERBLOCK_BYTES;
	/* The map also has entries for itself and the other parts. */
	entries = (front + heap) / PAGE_BYTES;
	entries += entries / 1024 + 65536;
	parts->map = MAP_FRONT_BYTES + round_up(entries * 2, METADATA_ALIGN);
	parts->total = parts->map + front + heap;
}

static char *reserve(struct parts *parts, const struct os_limits *limits)
{
	size_t heap = choose_heap_bytes(limits);
	char *range;

	for (;;) {
		size_parts(parts, heap, heap < (size_t)1 << 32);
		range = os_reserve(parts->total);
		if (range || heap <= HEAP_BYTES_MIN)
			return range;
		heap = round_down(max_size(heap / 2, HEAP_BYTES_MIN),
				  SUPERBLOCK_BYTES);
	}
}

/* Commits [*@done, @wanted) of a part that starts at @start. */
static int grow_part(char *start, size_t *done, size_t wanted)
{
	int err;

	wanted = round_up(wanted, METADATA_ALIGN);
	if (wanted <= *done)
		return 0;
	err = os_commit(start + *done, wanted - *done);
	if (!err)
		*done = wanted;
	return err;
}

int pagemap_commit(size_t bytes)
{
	size_t pages = (heap_start + bytes - pagemap_base) >> PAGE_SHIFT;
	size_t heap = committed_bytes;
	int err;

	if (bytes > heap_reserved_bytes)
		return -12;	/* ENOMEM */
	err = grow_part((char *)pagemap_base - MAP_FRONT_BYTES, &map_committed,
			MAP_FRONT_BYTES + pages * 2);
	if (!err)
		err = grow_part(descriptors, &descriptor_committed,
				bytes / PAGE_BYTES * sizeof(struct page));
	if (!err)
		err = grow_part(links, &links_committed,
				bytes / PAGE_BYTES * sizeof(void *));
	if (!err)
		err = grow_part((char *)heap_start, &heap, bytes);
	if (err)
		return err;
	__atomic_store_n(&committed_bytes, heap, __ATOMIC_RELAXED);
	if (published_bytes)
		__atomic_store_n(published_bytes, heap, __ATOMIC_RELAXED);
	/* release: the map is readable before anyone looks there */
	__atomic_store_n(&pagemap_limit, pages, __ATOMIC_RELEASE);
	return 0;
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
	struct parts parts;
	char *range = reserve(&parts, limits);

	if (!range)
		return -12;
	/* A start that failed further on is tried again: with a range of its own. */
	committed_bytes = 0;
	map_committed = 0;
	links_committed = 0;
	pagemap_limit = 0;
	descriptors = range + parts.map + parts.meta;
	pagemap_base = (uintptr_t)range + MAP_FRONT_BYTES;
	percpu_map_front_set(range);
	links = descriptors + parts.descriptors;
	heap_start = round_up((uintptr_t)links + parts.links, SUPERBLOCK_BYTES);
	heap_reserved_bytes = parts.heap;
	range_reserved_bytes = parts.total - MAP_FRONT_BYTES;
	descriptor_bias = (uintptr_t)descriptors -
			  (heap_start >> PAGE_SHIFT) * sizeof(struct page);
	page_link_bias = (uintptr_t)links -
			 (heap_start >> PAGE_SHIFT) * sizeof(void *);
	/* In one call, for they adjoin: descriptors for what the heap begins with. */
	descriptor_committed = min_size(DESCRIPTORS_FIRST, parts.descriptors);
	if (os_commit(range + parts.map, parts.meta + descriptor_committed) ||
	    pagemap_commit(0)) {
		/* The next start begins anew. */
		percpu_map_front_set(NULL);
		os_unreserve(range, parts.total);
		return -12;
	}
	meta_init(range + parts.map, parts.meta);
	return 0;
}

void pagemap_set(const void *addr, size_t pages, uint32_t entry)
{
	uint16_t *map = (uint16_t *)pagemap_base + pagemap_index(addr);

	for (size_t i = 0; i < pages; i++)
		__atomic_store_n(&map[i], (uint16_t)entry, __ATOMIC_RELAXED);
}
