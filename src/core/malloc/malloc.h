/* SPDX-License-Identifier: MIT */
/*
 * malloc: the C and C++ allocation functions on top of the caches.
 *
 *   0 .. 32 KiB    72 size classes, each a cache; in the hardened build the last 8
 *                  bytes of an object are its tail (features/hardened/hardened.h)
 *   above          large blocks of whole pages
 *   in a handler   that interrupted the holder of a lock: the CPU's lists, and
 *                  when they are empty mappings (outside/emergency.c)
 *
 * A call goes through fast.c, slow.c, then sizeclass.c or the page layer.  The files of this folder
 * are the core's (cmake/core.cmake), those of its subfolders features.
 */
#ifndef SLUB_MALLOC_H
#define SLUB_MALLOC_H

#include "features/hardened/hardened.h"
#include "core/slab/key.h"
#include "core/slab/slab.h"

/* What malloc() promises for any size, as the C library does. */
#define MALLOC_ALIGN 16

/* sizeclass.c */
#define CLASS_STEP 16
/* The largest class, and the largest that is smaller than a page. */
#define CLASS_SIZE_MAX ((size_t)32 << 10)
#define CLASS_SIZE_WORD (PAGE_BYTES / 16 * 15)
/* What of an object is not the program's, and so the largest requests of the two. */
#define CLASS_TAIL (SLUB_CONFIG_HARDENED ? TAIL_BYTES : (size_t)0)
#define CLASS_BYTES_MAX (CLASS_SIZE_MAX - CLASS_TAIL)
#define CLASS_WORD_MAX (CLASS_SIZE_WORD - CLASS_TAIL)
#define CLASS_NR 72
/*
 * The fast path takes fewer bytes, or, in the hardened build, where 1 was subtracted first: a
 * request of 0 bytes is beyond it then, too.
 */
#define MALLOC_LIMIT_LESS (SLUB_CONFIG_HARDENED ? (size_t)1 : (size_t)0)
#define MALLOC_LIMIT (CLASS_WORD_MAX + 1 - MALLOC_LIMIT_LESS)
/* Sizes from here on have no lists; 0 until the start is done. */
extern size_t malloc_paged_limit SLUB_INTERNAL;

/* Where tables have what is for @bytes. */
static always_inline size_t size_index(size_t bytes)
{
	return (bytes + CLASS_TAIL + CLASS_STEP - 1) / CLASS_STEP;
}

/* What to ask for to get @bytes of a class whose objects are aligned to @align. */
static always_inline size_t bytes_aligned(size_t bytes, size_t align)
{
	return round_up(bytes + CLASS_TAIL + !(bytes + CLASS_TAIL), align) -
	       CLASS_TAIL;
}

/* How far the map reaches, for a thread's free_limit, in pages. */
#define MAP_FRONT_PAGES (MAP_FRONT_BYTES >> PAGE_SHIFT)
static inline size_t free_limit_of(size_t page)
{
	return MAP_FRONT_PAGES + page;
}

static inline size_t fast_free_limit(void)
{
	return free_limit_of(__atomic_load_n(&pagemap_limit, __ATOMIC_ACQUIRE));
}

void fast_paths_open_now(void);
/*
 * Opens the fast paths to this thread, where it has an entrance and the library has
 * started: free()'s, also when the map has grown, and in no group malloc()'s.
 */
static inline void fast_paths_open(void)
{
	if (unlikely(slub_thread.free_limit != fast_free_limit() ||
		     !(slub_thread.malloc_limit || group_current())))
		fast_paths_open_now();
}

/* The first slot of the classes of a page or more, and how many bytes of them. */
extern uint32_t malloc_paged_slots SLUB_INTERNAL;
extern uint32_t malloc_paged_slots_bytes SLUB_INTERNAL;
/* The slot of the list for a size, by size_index(). */
extern uint16_t malloc_slot[CLASS_SIZE_MAX / CLASS_STEP + 1] SLUB_INTERNAL;
int sizeclass_init(void);
/* A start has failed: the classes are as new. */
void sizeclass_exit(void);
/* watch/class_switch.c */
/*
 * Turns sampling (features/profile/sample.h) on or off; 0, -ENOSPC, or -EBUSY: in a handler, or
 * @may_wait is false and another thread switches.  With @may_wait, off empties the lists.
 */
int sizeclass_sample(bool on, bool may_wait);
/* One allocation in @every is guarded (features/guard/guard.h), 0: none; 0 or -errno. */
int sizeclass_guard(uint64_t every);
void sizeclass_guard_by_option(void);
/* In a forked child, with no lock held but those of a thread that a handler interrupted. */
void class_switch_fork_child(void);
/* Makes those that are not made yet; false: no memory, or a handler asks. */
bool sizeclass_make_all(void);
/* sizeclass.c: where the fast path finds the lists, also while it runs. */
void sizeclass_slots_fill(void);
/* Opens the fast path. */
void malloc_open(void);
/*
 * The cache for @bytes <= CLASS_BYTES_MAX, aligned to @align <= PAGE_BYTES, which is made if it
 * is not there; a larger one, if it cannot be made; NULL: this thread holds a lock.
 */
struct slub_cache *sizeclass_get(size_t bytes, size_t align);
/* The same cache, which may not be made yet. */
struct slub_cache *sizeclass_fitting(size_t bytes, size_t align);
struct slub_cache *sizeclass_cache(size_t bytes);
static inline uint32_t sizeclass_number(const struct slub_cache *cache)
{
	return (uint32_t)(cache - sizeclass_cache(0));
}
/* What an object of the class with @number has for its user. */
uint32_t sizeclass_bytes(uint32_t number);

/* slow.c: without errno; NULL: no memory */
void *slow_alloc(size_t bytes);
/* The same from this library, also where a sanitizer's runtime owns malloc(). */
void *slow_alloc_own(size_t bytes);
/*
 * As slow_alloc() for calloc(), of a class of a page or more: one that is known to read as zero.
 * NULL: there is none such.
 */
void *slow_alloc_fresh(size_t bytes);
/* As slow_alloc(), aligned to @align, a power of two. */
void *alloc_aligned(size_t bytes, size_t align);
/* The same from behind the lists; *@is_zero: known to read as zero. */
void *slow_alloc_aligned(size_t bytes, size_t align, bool *is_zero);
/* The same without a group's leave; the library has started. */
void *slow_alloc_uncharged(size_t bytes, size_t align, bool *is_zero);
void slow_free(void *ptr);
/* Frees what handlers have put off; without locks. */
void frees_finish(void);
/* Usable bytes of a block, 0 for a foreign pointer and NULL. */
size_t block_bytes(const void *ptr);
/*
 * Does a block of @have bytes do for @bytes?  One that gets shorter stays unless
 * half of it or more would lie idle, or three eighths that are a page or more;
 * what the smallest classes could save is not worth a copy.  Not less than a third:
 * so much has one that is to grow on (size_with_room()).
 */
static inline bool size_is_worth_keeping(size_t have, size_t bytes)
{
	size_t half = have / 2;

	return bytes <= have && (bytes >= half || have <= 128) &&
	       have - bytes < max_size(half - half / 4, PAGE_BYTES);
}

/*
 * realloc() from @have to @bytes by a copy: is that one of many small steps?  What
 * doubles has a policy of its own, and below REALLOC_ROOM_MIN a copy costs less
 * than the room would.  What has superblocks of its own needs none: it grows in
 * place or by mremap.
 */
#define REALLOC_ROOM_MIN 512
static inline bool size_grows_on(size_t have, size_t bytes)
{
	return bytes > have && bytes - have <= have / 4 &&
	       bytes >= REALLOC_ROOM_MIN && bytes < SUPERBLOCK_BYTES / 2;
}

/*
 * What is asked for then: the next of 1, 1.5, 2, 3, 4, 6...  Every fourth class is
 * one, so a text that grows passes a quarter of them, and leaves what it had in
 * fewer lists.
 */
static inline size_t size_with_room(size_t bytes)
{
	size_t step = (size_t)1 << (62 - __builtin_clzl(bytes));

	return (bytes + step) & -step;
}

/* In place or by moving pages; NULL: the caller has to copy. */
void *slow_resize(void *ptr, size_t bytes);
/* Is @ptr a large block that slow_resize() would leave as it is? */
bool block_stays(void *ptr, size_t bytes);
bool ptr_is_foreign(const void *ptr);
/* Is @ptr, given to @call, a block that is allocated?  False: what it is was said. */
bool ptr_is_block(const void *ptr, const char *call);
/* Is it of a cache that is debugged, or between guard pages? */
bool ptr_is_watched(const void *ptr);

/* outside/emergency.c; handler_alloc() is in core/base/features.h */
/* False: @ptr is no block of a handler. */
bool emergency_free(void *ptr);
/* 0: it is none. */
size_t emergency_bytes(const void *ptr);

/* slow.c: free() that is told a size and an alignment, and always looks. */
void free_aligned_told(void *ptr, size_t told, size_t align);

/* fast.c's functions under names of our own, for the other entries */
void *fast_alloc(size_t bytes);
/* As fast_alloc(), never a block of a runtime's that owns malloc(). */
static inline void *own_alloc(size_t bytes)
{
	return likely(!sanitizer.owns_malloc) ? fast_alloc(bytes) :
		      hardened_sealed(slow_alloc_own(bytes), bytes);
}
/* The first of the list for @bytes alone; NULL if that is empty or anything is unusual. */
void *fast_pop(size_t bytes);
void fast_free(void *ptr);
/* The same; the size is looked at if the fast path has to be left. */
void fast_free_sized(void *ptr, size_t told);
/* Hardened build: the same for a block that must be of @call, a TAIL_CALL(). */
void fast_free_called(void *ptr, uint64_t call);
void fast_free_sized_called(void *ptr, size_t told, uint64_t call);

/* group/account.c */
/* Fills its tables anew, after sampling was switched on or off. */
void account_sizes_fill(void);

/* bucket/bucket.c */
void bucket_fork(enum fork_step step);

/* src/core/slub.c: */
/* Take every lock, and let go of them in parent and child. */
void slub_fork_prepare(void);
void slub_fork_finish(bool in_child);

#endif
