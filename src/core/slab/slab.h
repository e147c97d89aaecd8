/* SPDX-License-Identifier: MIT */
/*
 * slab: caches of objects of one size.
 *
 * Words
 *   object   what a cache hands out
 *   slab     a block of pages holding objects of one cache
 *   carve    to take the next objects that were never used out of a slab; an
 *            object that was not carved has touched no memory
 *   chain    objects linked through their link word; it belongs to the thread that
 *            has the pointer to the first
 *   slot     a cache's two chains on one CPU: main and spare
 *   barn     a CPU's store of full chains
 *   partial  slabs of a node with free or uncarved objects, not being carved
 *
 * The life of an object:
 *
 *   slab --carve, refill--> chain --put--> slot --pop--> user
 *    ^                        |  ^           |             |
 *    |                      barn (full chains)            push
 *    +------- flush ----------+  +--- take --+<------------+
 *
 * A slab's state word changes as one with its freelist:
 *
 *   63       62       61 .............. 30 29 ............... 0
 * +--------+--------+---------------------+--------------------+
 * | frozen | listed |  objects (capacity) |  inuse             |
 * +--------+--------+---------------------+--------------------+
 *
 *   inuse    carved objects that are not on the slab's freelist
 *   frozen   the slab is its node's carving slab
 *   listed   the slab is on its node's partial list
 *
 * Invariants
 *   SLAB-1  listed and frozen change under the node's lock, and never both set;
 *   SLAB-2  neither set: the freelist is empty and all objects are carved
 *           ("full"), but for the moments in which a holder of the node's
 *           lock moves the slab;
 *   SLAB-3  an object is on one list at most: its slab's freelist, a slot's
 *           chain, a barn's chain;
 *   SLAB-4  a slab goes back to the page layer only when inuse is 0 and it has
 *           been taken off the list.
 */
#ifndef SLUB_SLAB_H
#define SLUB_SLAB_H

#include "core/page/page.h"

#define SLUB_LIBRARY 1
#include <slub/cache.h>
#include <slub/defrag.h>
#include <slub/rcu.h>

#define BARN_CHAINS 32
#define BARN_FIRST_CREDIT 1
#define BARN_ENTRY_SHIFT 48	/* core/slab/barn.c */

/* Of a CPU and a cache: full chains, from the oldest on. */
struct barn {
	struct lock lock;
	uint32_t oldest;	/* numbers that only grow */
	uint32_t newest;	/* one past it */
	uint32_t unused;
	uint64_t chains[BARN_CHAINS];
};

struct cache_node {
	struct lock lock;
	uint32_t node;		/* const */
	struct cache_node *next_made;	/* const: all there ever were, for fork */
	/* under lock */
	struct page *carve;
	struct list partial;
	size_t nr_partial;	/* read without the lock too, as a guess */
	/* atomic: threads that construct carved objects, not yet linked */
	uint32_t nr_constructing;
	/* statistics; written under lock, as whole words, read without */
	size_t nr_slabs;
	size_t nr_objects;	/* capacity of all slabs */
	size_t nr_carved;
	size_t nr_slabs_peak;
	uint32_t local;		/* per-CPU offset of a struct local_slabs; 0: none */
	/* atomic, as guesses: what moving goes by, idle/move.c */
	uint32_t average;	/* 64 times */
	uint32_t asked;
	uint32_t nr_unmoved;
} align_to(64);

enum cache_state {
	CACHE_NOT_MADE,
	CACHE_LIVE,
	CACHE_DEAD,
};

/* Counted per CPU, 4 bytes each, in slow paths only. */
enum cache_stat {
#define COUNTED(number, stat, name, meaning) STAT_##stat = number,
#include "core/slab/stat.def"
	STAT_NR = 0
#define COUNTED(number, stat, name, meaning) + 1
#include "core/slab/stat.def"
};

/* Of an owner, at the end of a slab: features/groups/owned.h. */
#define OWNER_BYTES 4

/* How lists keep the charges of accounted objects, features/groups/owned.h. */
enum account_path {
	ACCOUNT_SLOW,		/* they do not, or there are none */
	ACCOUNT_PAGED,		/* links and owners in the descriptors */
	ACCOUNT_SLAB,		/* links in the objects, owners at the end of their slab */
};

/* The shadows that hang from a cache: features/shadow/shadow.h. */
enum shadow_place {
	SHADOW_RESERVE,		/* objects in memory of the reserve */
	SHADOW_SAMPLED,		/* objects that the heap profile follows */
	SHADOWS_ROOTED,		/* up to here: their objects are the cache's */
	SHADOW_ACCOUNTED = SHADOWS_ROOTED, /* malloc's objects with owners */
	SHADOW_PLACES,
};

/* A program's variable: struct slub_cache of slub/cache.h; features/typed/front.c. */
struct cache_front {
	uint32_t slot;
	uint32_t inline_slot;
	uintptr_t link;
	const struct slub_cache_args *args;	/* never NULL */
	uint32_t free_slot;
	uint32_t account_slot;
	uint64_t slab_mask;
	uint64_t owner_reciprocal;
	uint64_t owners;
	uint32_t entry;
	uint32_t plain_slot;
	struct slub_cache *cache;	/* atomic; NULL: not made yet */
	uint64_t is_inline;
	struct start_check start;
	uint32_t kept_slot;
	uint32_t reserved_word;
	uint64_t reserved[2];
};

/* One of the names of a cache; core/names.c. */
struct cache_named {
	struct cache_named *next;	/* of the same hash */
	const char *name;
	struct slub_cache *cache;
	uint32_t hash;
};

struct slub_cache {
	/* The public part, see slub/cache.h; 0 unless the cache is live. */
	uint32_t slot;		/* the page map's entry: of a near slot, its offset */
	uint32_t inline_slot;	/* where programs pop themselves */
	uintptr_t link;		/* of a free object, see object_link() */
	const struct slub_cache_args *args;	/* NULL here; a front has some */
	uint32_t free_slot;	/* where programs push; otherwise like inline_slot */
	/* Where programs pop objects with owners; 0 while they must not. */
	uint32_t account_slot;
	/*
	 * const after create.  Members with a star, and slot, are stored atomically:
	 * walks read them even while the cache ends, or becomes another one.
	 */
	uint64_t slab_mask;		/* bytes of a slab, less 1 */
	uint64_t owner_reciprocal;	/* 2^32 / size; 0: slabs have no owners */
	uint64_t owners;		/* offset of the owners in a slab */
	/* For programs: of a cache that cache_begins_keyed(), slot; else none. */
	uint32_t entry;
	uint32_t plain_slot;		/* its list, if it has no check words; else 0 */
	uint64_t start_magic;		/* 2^64 / size + 1: cache_is_at_object() */
	uint64_t start_end;		/* bytes of a slab that objects take */
	struct start_check start;	/* the same for programs */
	uint32_t kept_slot;	/* its list, if check words lie elsewhere; else 0 */
	uint32_t list_slot;	/* * offset of the slot in use */
	uint32_t size;		/* * bytes from one object to the next */
	uint32_t object_size;	/* * bytes the user may use */
	uint32_t order;		/* * */
	/* ---- is it plain?  slow paths ask, then call a feature (core/base/features.h) ---- */
	/* * Objects have owners, in slabs of this cache or of its twins. */
	bool is_accounted;
	/* ACCOUNT_SLAB, and the link is the first word, so free() pushes to its list */
	bool frees_inline;
	/* The map would name its list for free() to push to, but it is far: core/arch/slot.h */
	bool frees_far;
	uint8_t account_path;		/* * enum account_path */
	bool has_local;		/* slabs have local lists, core/slab/local.h */
	bool has_keys;		/* free objects have a key, core/slab/key.h */
	uint8_t suspects;	/* atomic, an estimate: core/slab/suspect.c */
	bool is_reserve;	/* features/reserve/reserved.c */
	bool is_sampled;	/* features/profile/sample.h */
	/* * malloc's own or a shadow: programs cannot destroy it; never merged */
	bool is_internal;
	const struct debug_layout *debug;	/* * NULL: off; features/debug/debug.h */
	struct slub_cache *twin;		/* atomic; features/watch/watch.h */
	/* * of a shadow: the cache that its objects belong to; else NULL */
	struct slub_cache *root;
	/* ---- const after create: what slabs and lists are made by ---- */
	uint32_t align;
	uint32_t objects;	/* * per slab */
	int32_t capacity;	/* the most objects of a chain that is passed on */
	uint32_t min_partial;
	uint32_t carve_batch;
	uint32_t flags;		/* enum slub_cache_flag */
	uint32_t stats;		/* per-CPU offset of enum cache_stat words */
	uint32_t barn;		/* per-CPU offset of a struct barn; 0: none */
	void (*ctor)(void *object);
	const char *name;
	struct slub_cache *next;	/* atomic; cache_next() */
	struct slub_cache **link_back;	/* what leads to it in the list; under cache_lock */
	struct cache_named named;	/* its own name; under cache_lock */
	/* ---- the state of its lists: atomic, estimates ---- */
	_Atomic int32_t capacity_now;	/* the present bound of a chain, slab_internal.h */
	/*
	 * By how much requests are smaller than the size, in 256ths of a byte, plus 1;
	 * 0: not known.  core/slab/alloc.c
	 */
	uint32_t slack;
	uint32_t in_barns;	/* objects in barns */
	uint32_t is_wanted;	/* 1: a list was found empty since barn_is_at_rest() asked */
	/* What full lists of it take on a CPU; 0: none was found empty yet */
	_Atomic size_t list_bytes;
	/* Chains that barns may take, and that they refused; barn.c */
	uint32_t barn_credit;
	uint32_t barn_refused;
	/* objects that come back before slab_left_look(); an estimate */
	uint32_t left_in;
	_Atomic size_t left_most;
	/* Whole free pages of its slabs that are in use, estimates: features/idle/sparse.c */
	_Atomic size_t sparse_pages;	/* those that are worth a look */
	_Atomic size_t sparse_seen;	/* those that a look did not find */
	_Atomic size_t sparse_purged;	/* of free objects, without memory */
	_Atomic size_t sparse_left;	/* slabs to look at in this round */
	_Atomic size_t sparse_promised;	/* pages at its beginning, less those found */
	_Atomic uint64_t sparse_moved_ns;	/* when objects were last seen to come or go */
	_Atomic uint32_t sparse_moved;		/* how many had, then */
	_Atomic uint32_t sparse_pause_ns;	/* between such times, of late */
	/* ---- under cache_lock ---- */
	uint32_t state;		/* enum cache_state; read without the lock */
	uint32_t users;		/* calls of slub_cache_create() that returned it */
	/* How often it is pinned, and shut; core/slab/pin.c */
	uint32_t movers;
	uint32_t closers;
	/* ---- what features keep of it ---- */
	struct slub_cache *shadows[SHADOW_PLACES];	/* atomic; cache_shadow() */
	uint32_t sample_slot;		/* atomic */
	/* The place whose owner pays for its objects; 0: the thread's group pays */
	uint32_t place;
	bool is_unguarded;		/* none of its objects has guard pages */
	uint8_t letters;		/* of a watched cache: F Z P U T A, from bit 0 */
	bool has_sheaf_length;	/* its user has set the length of lists */
	bool is_copied;		/* the front has copies of the inline members */
	bool is_left;		/* by an unloaded plugin: its name is free */
	/* How its objects are moved; NULL: they are not.  features/movable/defrag.c */
	slub_isolate_fn *isolate;
	slub_migrate_fn *migrate;
	void *mobility_arg;
	uint32_t useroffset;
	uint32_t usersize;
	struct cache_alias *aliases;	/* features/typed/alias.c; under cache_lock */
	/* The program's variable that stands for it, or NULL; features/typed/front.c */
	struct cache_front *front;
	struct slub_cache **place_of;	/* cache_create_at(): what names it; else NULL */
	char name_space[SLUB_CACHE_NAME_MAX + 1];
	/* Of dead ones, under cache_lock: features/typed/create.c; of a root: shadow.c's hang() */
	struct slub_cache *next_dead;
	struct cache_node *nodes[OS_NODES_MAX];
};

_Static_assert(offsetof(struct slub_cache, slot) == 0 &&
	       offsetof(struct slub_cache, inline_slot) == 4 &&
	       offsetof(struct slub_cache, link) == 8 &&
	       offsetof(struct slub_cache, args) == 16 &&
	       offsetof(struct slub_cache, free_slot) == 24 &&
	       offsetof(struct slub_cache, account_slot) == 28 &&
	       offsetof(struct slub_cache, slab_mask) == 32 &&
	       offsetof(struct slub_cache, owner_reciprocal) == 40 &&
	       offsetof(struct slub_cache, owners) == 48 &&
	       offsetof(struct slub_cache, entry) == 56 &&
	       offsetof(struct slub_cache, plain_slot) == 60 &&
	       offsetof(struct slub_cache, start) == 80 &&
	       offsetof(struct slub_cache, kept_slot) == 88, "slub/cache.h");
_Static_assert(offsetof(struct cache_front, args) == 16 &&
	       offsetof(struct cache_front, owners) == 48 &&
	       offsetof(struct cache_front, entry) == 56 &&
	       offsetof(struct cache_front, plain_slot) == 60 &&
	       offsetof(struct cache_front, start) == 80 &&
	       offsetof(struct cache_front, kept_slot) == 88 &&
	       sizeof(struct cache_front) == 112, "slub/cache.h");

static inline struct slub_cache *cache_public(struct slub_cache *cache)
{
	struct cache_front *front;

	front = cache ? __atomic_load_n(&cache->front, __ATOMIC_RELAXED) : NULL;
	return front ? (struct slub_cache *)front : cache;
}

static inline void stat_add_many(const struct slub_cache *cache,
				 enum cache_stat s, uint32_t n)
{
	if (likely(cache->stats)) {
		scale_area(cache->stats + 4 * s);
		slub_percpu_add32(cache->stats + 4 * s, (int32_t)n);
	}
}

static inline void stat_add(const struct slub_cache *cache, enum cache_stat s)
{
	stat_add_many(cache, s, 1);
}

static inline bool cache_is_live(const struct slub_cache *cache)
{
	return __atomic_load_n(&cache->state, __ATOMIC_ACQUIRE) == CACHE_LIVE;
}

static inline bool cache_is_dead(const struct slub_cache *cache)
{
	return __atomic_load_n(&cache->state, __ATOMIC_ACQUIRE) == CACHE_DEAD;
}

/* Copies @name, cut to what a cache has room for. */
void cache_name_set(struct slub_cache *cache, const char *name);
/* cache.c */
/*
 * Makes a cache of the library's own, of objects of @size bytes (a multiple of
 * 16); it is never destroyed.  Returns 0 or -errno.
 */
int cache_create(struct slub_cache *cache, const char *name, uint32_t size);
/* The same, and the last @tail bytes of an object are not its user's. */
int cache_create_tailed(struct slub_cache *cache, const char *name,
			uint32_t size, uint32_t tail);
/* A start has failed: all caches and their nodes are nowhere any more. */
void caches_forget(void);
/* Sampling is on, or no longer: where programs pop and push in each cache, or one. */
void cache_inline_slot_set(struct slub_cache *cache);
void cache_inline_slots_set(void);
/* Takes a cache without slabs out of the list; its slots are free again. */
void cache_unmake(struct slub_cache *cache);
extern uintptr_t local_bias SLUB_INTERNAL;
extern struct slub_cache *cache_slot_owner[SLOT_NUMBERS] SLUB_INTERNAL;

/* The cache whose slot has that number; NULL: none. */
static inline struct slub_cache *cache_numbered(uint32_t number)
{
	/* acquire: pairs with slots_publish() and sample_slot_set() */
	return __atomic_load_n(&cache_slot_owner[number], __ATOMIC_ACQUIRE);
}

/* The same: @slot is its offset, or an entry of the page map. */
static inline struct slub_cache *cache_of_slot(uint32_t slot)
{
	return cache_numbered(slot_number(slot));
}

static inline struct slub_cache *cache_of_entry(uint32_t entry)
{
	return cache_numbered(entry_number(entry));
}

/*
 * Does an object begin at @ptr, which lies in a slab of @cache?  A multiple of the size
 * times 2^64 / size has no fraction to speak of.  Watched caches have other places.
 */
static always_inline bool cache_is_at_object(const struct slub_cache *cache,
					     const void *ptr)
{
	uint64_t at = (uintptr_t)ptr & cache->slab_mask;

	return at * cache->start_magic < cache->start_magic &&
	       at < cache->start_end;
}

/* The cache of the object at @ptr, NULL if it lies in no slab. */
static inline struct slub_cache *cache_of(const void *ptr)
{
	return cache_of_entry(pagemap_get(ptr));
}

/*
 * The name of @cache, that a walk has found.  False: it is not live, or a lock is
 * held; then @name is left alone.
 */
bool cache_name_copy(const struct slub_cache *cache,
		     char name[SLUB_CACHE_NAME_MAX + 1]);

struct slub_cache *cache_first(void);

/*
 * Malloc sets it, for it makes its caches when they are first needed.  The function makes all of
 * them, for a caller that names one.  False: there is no memory, or a handler asks in the middle.
 */
extern bool (*cache_make_others)(void) SLUB_INTERNAL;

static inline bool caches_are_made(void)
{
	return !cache_make_others || cache_make_others();
}

/*
 * The one behind @cache in the list, which may have left it.  One that came back to
 * it as another cache leads to the head of the list as it was then.
 */
static inline struct slub_cache *cache_next(const struct slub_cache *cache)
{
	/* acquire: pairs with cache_publish() and unlist() */
	return __atomic_load_n(&cache->next, __ATOMIC_ACQUIRE);
}

void slab_init(uint32_t nr_nodes);

/* alloc.c, free.c: the slow paths, which try the fast one first */
void *cache_alloc(struct slub_cache *cache);
/* The same, and the object need have @bytes only: for debugging. */
void *cache_alloc_sized(struct slub_cache *cache, size_t bytes);
/*
 * The same for one that reads as zero and has no memory behind it yet; the links of @cache lie
 * elsewhere.  NULL: there is none, or the memory that there is goes first.
 */
void *cache_alloc_fresh(struct slub_cache *cache, size_t bytes);
/* Bytes of @object that its user may use; it is an object of @cache. */
size_t cache_object_bytes(const struct slub_cache *cache, const void *object);
void cache_free(struct slub_cache *cache, void *object);
/* Frees what signal handlers could not; with no lock held. */
cold void cache_free_all_postponed(void);
extern void *cache_postponed SLUB_INTERNAL;	/* atomic; NULL: nothing */
static inline void cache_free_postponed(void)
{
	if (unlikely(__atomic_load_n(&cache_postponed, __ATOMIC_RELAXED) != NULL))
		cache_free_all_postponed();
}
/*
 * Was it refused on purpose (letter A), so that nothing is to be tried again, nor the reserve?
 * cache_refused() is asked once, where the request ends; until then all of its tries fail.
 */
static inline bool cache_is_refused(void)
{
	return slub_thread.flags & THREAD_REFUSED;
}

static inline bool cache_refused(void)
{
	bool refused = cache_is_refused();

	slub_thread.flags &= (uint16_t)~THREAD_REFUSED;
	return refused;
}
/* cache.c */
/* Calls @visit with @arg for each slab, from the lowest address up. */
void slab_for_each(void (*visit)(struct slub_cache *cache, struct page *slab,
				 void *arg),
		   void *arg);
/*
 * The same for so many bytes of the heap from *@at on, NULL for its beginning.  True:
 * there is more, from *@at on.
 */
bool slab_walk_on(char **at, size_t bytes,
		  void (*visit)(struct slub_cache *cache, struct page *slab,
				void *arg),
		  void *arg);

/*
 * Sees to it that @cache has no free objects but in its slabs; false: a CPU
 * could not be stopped, or others shrink all the time.
 */
bool cache_flush(struct slub_cache *cache);
/* The same by a thread that has shut it (pin.c). */
bool cache_flush_shut(struct slub_cache *cache);
/* The same at once: 0, -EAGAIN while others shrink, -EIO if a CPU could not be stopped. */
int cache_flush_now(struct slub_cache *cache);
/* Frees its empty slabs; true: others have free objects, too. */
bool cache_shrink_nodes(struct slub_cache *cache);
bool cache_has_slabs(const struct slub_cache *cache);

/* shrink.c */
/* Empties the lists of every CPU and every barn; frees empty slabs. */
void slab_shrink_all(void);
/* Gives memory back if a burst of frees left much of it idle. */
void slab_reclaim_if_needed(void);
/* The same for a thread that comes by because its fast path was closed. */
void slab_visit(enum page_visit visit);

void slab_fork_prepare(void);
void slab_fork_finish(bool in_child);

/*
 * Of a full list its CPU keeps a part, what was freed last.  Given away whole, the
 * next two allocations would have to fetch it back, and two frees after that find
 * it full again: a program whose objects come and go at random did that with one
 * call in twelve where lists are short.
 */
#define KEPT_SHARE 4
#define KEPT_MAX 16

static inline int32_t list_kept(int32_t capacity)
{
	int32_t n = capacity / KEPT_SHARE;

	return n < KEPT_MAX ? n : KEPT_MAX;
}

/* ... and this many objects are in the chain that it gives away. */
static inline uint32_t list_given(int32_t capacity)
{
	return (uint32_t)(capacity - list_kept(capacity));
}

#endif
