/* SPDX-License-Identifier: MIT */
/*
 * The numbers of a cache: the pages of a slab, the length of the CPUs' lists,
 * the room of the barns.
 */
#include "slab/account.h"

/* Objects per slab that make fetching one worth its cost. */
#define SLAB_OBJECTS_MIN 32
#define SLAB_OBJECTS_MIN_LARGE 16
/*
 * A slab may lose a sixteenth at its end, an eighth if need be.  Option min_order has
 * the same bound: 131,072 objects of 8 bytes, for as many slab_iterator has bits.
 */
#define SLAB_ORDER_MAX 8
/*
 * Neighbours in memory are what the processor fetches ahead, and a page of a slab
 * that nobody has carved costs nothing.  With slabs of one page, which hold
 * enough objects of up to 128 bytes, the nodes of a tree lay a page here and a page
 * there: json 2.4 million misses of the second-level cache and 8 % more cycles than
 * with 32 KiB (1.1 million; 16 KiB: 1.5), strings 18 %, python 12 %; peaks are
 * the same.  64 KiB gain nothing more.
 */
#define SLAB_BYTES_MIN ((size_t)32 << 10)

/*
 * Bytes in a slot's list, and objects: so many of any size, and more of those that take
 * little room.  slab_test, 10,000 of a size, cycles for a malloc and a free: with 64 KiB and
 * 256 objects 8 bytes take 10.1, with 256 KiB and 512 objects 8.9, now 8.4 (functions that
 * do nothing: 7.3); 1 KiB 19.4, 12.4, 11.8; 2 KiB 31.7, 17.3, 15.0.  Of pages, with 512
 * KiB and 64 objects: 4 KiB 23, now 15; 16 KiB 30, now 17 (docs/performance.md).
 */
#define LIST_BYTES ((size_t)512 << 10)
#define LIST_BYTES_SMALL ((size_t)64 << 10)
#define LIST_BYTES_LARGE ((size_t)2 << 20)
#define LIST_OBJECTS_MIN 16
#define LIST_OBJECTS_MAX 512
#define LIST_OBJECTS_MAX_SMALL 2048
#define LIST_OBJECTS_MAX_LARGE 128
#define LIST_OBJECTS_SWAPPED 64
/* Beyond so many CPUs they share what as many have, down to a quarter each. */
#define LIST_CPUS 8
#define LIST_SHARES_MAX 4
/* Above this, a list of LIST_OBJECTS_MIN would hold too many bytes. */
#define LIST_MIN_UP_TO ((size_t)32 << 10)
/* Chains that a barn has room for at the least: two per CPU. */
#define BARN_ROOM_MIN 256

static uint32_t node_count = 1;	/* const after start */
/* Lowered once, to the quota; so a barn's room is enough for ever. */
static uint32_t cpu_count = 1;

void slab_init(uint32_t nr_nodes, const struct os_cpus *cpus)
{
	node_count = nr_nodes;
	cpu_count = cpus->allowed;
}

/*
 * The quota bounds what barns hold.  Its files are read once, by a heap that is
 * not small any more, so that most processes never do.
 */
#define LOOK_FROM 4		/* superblocks */

static _Atomic bool quota_is_known;
static uint32_t *published_quota;

void slab_publish_quota(uint32_t *word)
{
	published_quota = word;
}

static cold void barns_bound(void)
{
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		for (uint32_t n = 0; n < node_count; n++) {
			struct cache_node *node = c->nodes[n];

			lock_acquire(&node->lock);
			node->barn.nr_max = barn_nr_max(c);
			node->barn.credit = (uint32_t)min_size(
				node->barn.credit, node->barn.nr_max);
			lock_release(&node->lock);
		}
	}
}

void slab_quota_look(void)
{
	uint32_t quota;

	if (likely(superblock_nr_used() < LOOK_FROM ||
		   __atomic_load_n(&quota_is_known, __ATOMIC_RELAXED)))
		return;
	if (__atomic_exchange_n(&quota_is_known, true, __ATOMIC_RELAXED))
		return;
	quota = os_cpu_quota();
	if (published_quota)
		__atomic_store_n(published_quota, quota, __ATOMIC_RELAXED);
	if (!quota || quota >= cpu_count)
		return;
	__atomic_store_n(&cpu_count, quota, __ATOMIC_RELAXED);
	barns_bound();
}

uint32_t slab_nr_nodes(void)
{
	return node_count;
}

uint32_t barn_nr_room(void)
{
	return 2 * cpu_count > BARN_ROOM_MIN ? 2 * cpu_count : BARN_ROOM_MIN;
}

uint32_t barn_first_credit(void)
{
	return 2 * cpu_count;
}

uint32_t barn_nr_max(const struct slub_cache *cache)
{
	/* 0: who walks over the caches stands on one that is being cleared. */
	size_t bytes = cache->size * (size_t)cache->capacity;
	size_t n = max_size(2 * cpu_count, BARN_BYTES / max_size(bytes, 1));

	return (uint32_t)min_size(n, barn_nr_room());
}

/*
 * The smallest slab that holds enough objects and loses little.  The loss is
 * address space and page-table room rather than memory: what lies behind the
 * last object is never touched.
 */
static uint32_t choose_order(uint32_t size)
{
	size_t least = size >= PAGE_BYTES ? SLAB_OBJECTS_MIN_LARGE :
					    SLAB_OBJECTS_MIN;
	size_t pages = round_up(max_size(least * size, SLAB_BYTES_MIN),
				PAGE_BYTES) / PAGE_BYTES;
	size_t first = max_size(order_of(pages), option_value(OPTION_min_order));

	for (uint32_t fraction = 16; fraction >= 4; fraction /= 2) {
		for (uint32_t order = (uint32_t)first; order <= SLAB_ORDER_MAX;
		     order++) {
			size_t bytes = PAGE_BYTES << order;

			if (bytes / size && bytes % size <= bytes / fraction)
				return order;
		}
	}
	return SLAB_ORDER_MAX;
}

static size_t objects_max(size_t size, bool in_object)
{
	size_t n = max_size(LIST_OBJECTS_MAX, LIST_BYTES_SMALL / size);

	return in_object ? min_size(n, LIST_OBJECTS_MAX_SMALL) :
			   LIST_OBJECTS_MAX_LARGE;
}

static size_t choose_capacity(const struct slub_cache *cache, bool in_object)
{
	size_t shares = max_size(cpu_count / LIST_CPUS, 1);
	size_t bytes = (in_object ? LIST_BYTES : LIST_BYTES_LARGE) /
		       min_size(shares, LIST_SHARES_MAX);
	size_t least = cache->size <= LIST_MIN_UP_TO ? LIST_OBJECTS_MIN : 2;

	return min_size(max_size(bytes / cache->size, least),
			objects_max(cache->size, in_object));
}

/*
 * Where lists grow because they change places.  Of 512 live blocks of up to 4 KiB
 * the largest classes have 32 and more, which go up and down by 20.
 */
static size_t choose_capacity_most(const struct slub_cache *cache,
				   bool in_object, size_t capacity)
{
	if (!in_object || cache->size > PAGE_BYTES)
		return capacity;
	return max_size(capacity, LIST_OBJECTS_SWAPPED);
}

/* What lies in a CPU's list can be had from outside, and links are plain. */
static bool lists_can_be_settled(void)
{
	return percpu_backend == BACKEND_RSEQ && percpu_can_stop &&
	       !SLUB_CONFIG_HARDENED;
}

/*
 * Long lists cost memory times the number of classes and of CPUs.  So they are
 * short at first, and grow with the heap, by this much for each superblock, or
 * where the program is busy with one size: this many refills in a row.
 */
#define FIRST_BYTES ((size_t)8 << 10)
#define FIRST_BYTES_LARGE ((size_t)64 << 10)
#define FIRST_OBJECTS 8
#define FIRST_OBJECTS_LARGE 2
#define STREAK 4
#define STREAK_LARGE 64

/* Estimates: whose refill was the last one, and how many in a row. */
static struct slub_cache *_Atomic streak_cache;
static _Atomic uint32_t streak_length;

static uint32_t streak_count(struct slub_cache *cache)
{
	uint32_t n = 0;

	if (__atomic_load_n(&streak_cache, __ATOMIC_RELAXED) == cache)
		n = __atomic_load_n(&streak_length, __ATOMIC_RELAXED) + 1;
	else
		__atomic_store_n(&streak_cache, cache, __ATOMIC_RELAXED);
	__atomic_store_n(&streak_length, n, __ATOMIC_RELAXED);
	return n;
}

void capacity_grow(struct slub_cache *cache)
{
	bool in_object = link_is_in_object(cache->link);
	uint32_t enough = in_object ? STREAK : STREAK_LARGE;
	int32_t n = capacity_now(cache);

	if (n >= cache->capacity)
		return;
	n = 2 * n < cache->capacity ? 2 * n : cache->capacity;
	if (streak_count(cache) < enough &&
	    (size_t)n * cache->size > superblock_nr_used() * FIRST_BYTES)
		return;
	__atomic_store_n(&cache->capacity_now, n, __ATOMIC_RELAXED);
}

/*
 * Chains that go to the barn and come back say that lists are too short for a program
 * whose objects come and go.  Longer ones hold no more in all, where what is left in the
 * barn would fill what they get longer by.  `call_latency`, 512 live blocks of up to 4 KiB:
 * 5 % of the calls of its largest classes left the lists and 2,270 chains of each came
 * back, 1 % and 150 now; slow calls of all classes 2.9 % -> 1.5 %.
 */
void capacity_grow_settled(struct slub_cache *cache,
			   const struct cache_node *node)
{
	int32_t n = capacity_now(cache), more = cache->capacity - n;
	uint32_t left = __atomic_load_n(&node->barn.nr, __ATOMIC_RELAXED) *
			list_given(n);

	if (more > n)
		more = n;
	if (more > 0 && left >= (uint32_t)more * percpu_areas_end())
		__atomic_store_n(&cache->capacity_now, n + more,
				 __ATOMIC_RELAXED);
}

/*
 * Where a CPU's two lists change places all the time, objects come and go by more than
 * one holds, and by less than both.  A main list as long as both holds the same objects
 * without that.  So many times in a row, and nothing that went to the barn or the slabs
 * or came from there: what is passed on to other CPUs is to get there.  Up to 64
 * objects, as the lists of a queue's both ends would only hold more (`queue
 * --producers=3` at its peak: 4.1 MiB before, 4.3, and 5.2 if up to 64 KiB).  `call_latency`
 * by two threads: of 4 million pairs 22,300 found the main list empty and 1,800 both;
 * 900 and 120 since.
 */
#define SWAPS_IN_A_ROW 8

void capacity_grow_swapped(struct slub_cache *cache)
{
	uint8_t swaps = __atomic_load_n(&cache->swaps, __ATOMIC_RELAXED) + 1;
	int32_t n = capacity_now(cache);
	int32_t more = (cache->capacity_most < LIST_OBJECTS_SWAPPED ?
			cache->capacity_most : LIST_OBJECTS_SWAPPED) - n;

	swaps %= SWAPS_IN_A_ROW;
	__atomic_store_n(&cache->swaps, swaps, __ATOMIC_RELAXED);
	if (more > n)
		more = n;
	if (!swaps && more > 0)
		__atomic_store_n(&cache->capacity_now, n + more,
				 __ATOMIC_RELAXED);
}

/* What the lists of a new cache may hold. */
static int32_t capacity_first(const struct slub_cache *cache, bool in_object)
{
	size_t n = in_object ?
		   max_size(FIRST_BYTES / cache->size, FIRST_OBJECTS) :
		   max_size(FIRST_BYTES_LARGE / cache->size,
			    FIRST_OBJECTS_LARGE);

	return (int32_t)min_size(n, (size_t)cache->capacity);
}

/* Pages of a slab, objects in it, and where their owners are. */
static void choose_slab(struct slub_cache *cache, bool in_object)
{
	bool has_owners = cache->is_accounted && in_object && !cache->debug;
	uint32_t bytes = cache->size + (has_owners ? OWNER_BYTES : 0);
	uint32_t order = choose_order(bytes);
	uint8_t path = ACCOUNT_SLOW;

	/* What the reserve has are blocks of 32 KiB. */
	if (cache->is_reserve && order > 3)
		order = 3;
	__atomic_store_n(&cache->order, order, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->objects,
			 (uint32_t)((PAGE_BYTES << order) / bytes),
			 __ATOMIC_RELAXED);
	cache->slab_mask = (PAGE_BYTES << cache->order) - 1;
	cache->owners = (PAGE_BYTES << cache->order) -
			cache->objects * OWNER_BYTES;
	/* Exact up to the size of a slab, for sizes below a page. */
	cache->owner_reciprocal = !has_owners ? 0 :
		((1ull << 32) + cache->size - 1) / cache->size;
	if (cache->is_accounted && !cache->debug && !cache->is_reserve &&
	    !cache->is_sampled && lists_can_be_settled())
		path = !has_owners ? ACCOUNT_PAGED :
		       cache->link ? ACCOUNT_LINK : ACCOUNT_WORD;
	__atomic_store_n(&cache->account_path, path, __ATOMIC_RELAXED);
	cache->frees_inline = path == ACCOUNT_WORD;
}

void cache_choose_geometry(struct slub_cache *cache, uint32_t sheaf_length)
{
	bool in_object = link_is_in_object(cache->link);
	size_t n = sheaf_length ? sheaf_length :
				  choose_capacity(cache, in_object);

	choose_slab(cache, in_object);
	cache->capacity = (int32_t)n;
	cache->capacity_most = (int32_t)n;
	if (!sheaf_length) {
		cache->capacity_most =
			(int32_t)choose_capacity_most(cache, in_object, n);
		n = (size_t)capacity_first(cache, in_object);
	}
	__atomic_store_n(&cache->capacity_now, (int32_t)n, __ATOMIC_RELAXED);
	cache->carve_batch = (uint32_t)cache->capacity;
	if (in_object)
		cache->carve_batch = (uint32_t)min_size(
			cache->carve_batch, max_size(4 * PAGE_BYTES / cache->size, 8));
	cache->min_partial = (uint32_t)max_size(
		4 * PAGE_BYTES / (PAGE_BYTES << cache->order), 1);
	if (cache->is_reserve)
		cache->min_partial = 0;
}
