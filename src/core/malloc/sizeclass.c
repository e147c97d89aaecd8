/* SPDX-License-Identifier: MIT */
/*
 * Size classes: multiples of 16 up to 128, then eight per doubling.  Beyond 128 bytes
 * an object is at most an eighth larger than the request.
 *
 * Slabs begin with a page, so an object is aligned to the largest power of two that divides
 * its class.
 *
 * A class has its slots from the start, and its cache from the first request on: a program
 * uses a third of the classes.  Until then its list is empty, so the fast paths need not know.
 *
 *   CLASS-1  the thread that has the turn makes a class's cache, once; it stays live.
 *   CLASS-2  the largest class is made at start.  It serves a handler that interrupted the
 *            making of the class that fits, and a request that found no memory for it.
 */
#include <errno.h>
#include <string.h>

#include "core/base/line.h"
#include "core/malloc/malloc.h"
#include "core/slab/switches.h"

size_t malloc_paged_limit;
uint32_t malloc_paged_slots;
uint32_t malloc_paged_slots_bytes;
uint16_t malloc_slot[CLASS_SIZE_MAX / CLASS_STEP + 1];

static struct slub_cache classes[CLASS_NR];

/* The number of the class for @bytes. */
static uint32_t class_number(size_t bytes)
{
	uint32_t shift;

	if (bytes <= 128)
		return bytes ? (uint32_t)((bytes - 1) / 16) : 0;
	/* Eight steps between 2^shift and 2^(shift + 1). */
	shift = ilog2(bytes - 1);
	return 8 + (shift - 7) * 8 +
	       (uint32_t)((bytes - 1) >> (shift - 3) & 7);
}

static uint32_t class_bytes(uint32_t class)
{
	uint32_t shift;

	if (class < 8)
		return (class + 1) * 16;
	shift = 7 + (class - 8) / 8;
	return (1u << shift) + ((class - 8) % 8 + 1) * (1u << (shift - 3));
}

/*
 * The class for @bytes aligned to @align.  Between two powers of two the classes are the
 * multiples of a step.  If the step is less than @align, each multiple of @align is a class;
 * otherwise @align divides every class.
 */
static uint32_t class_fitting(size_t bytes, size_t align)
{
	if (align > MALLOC_ALIGN)
		bytes = bytes_aligned(bytes, align);
	return class_number(bytes + CLASS_TAIL);
}

struct slub_cache *sizeclass_fitting(size_t bytes, size_t align)
{
	return &classes[class_fitting(bytes, align)];
}

struct slub_cache *sizeclass_cache(size_t bytes)
{
	return &classes[class_number(bytes + CLASS_TAIL)];
}

_Static_assert(CLASS_SIZE_WORD / CLASS_STEP < TABLE_SIZES, "one for each size");
_Static_assert(CLASS_NR <= SLOTS_SPARED, "sample_caches_prepare()");

/*
 * Classes of a page or more have two slots, side by side, and the map names the first.
 * Const after start.
 */
static uint32_t first_slot;

static uint32_t class_slot(uint32_t class)
{
	uint32_t words = class_number(PAGE_BYTES);

	return first_slot + SLOT_BYTES *
		(class < words ? class : 2 * class - words);
}

static uint32_t class_list_slot(uint32_t class)
{
	return class_slot(class) +
	       (class < class_number(PAGE_BYTES) ? 0 : SLOT_BYTES);
}

void sizeclass_slots_fill(void)
{
	bool samples = sample_is_on_at_all() ||
		       (SLUB_CONFIG_HARDENED && hardened_has_quarantine());
	size_t i = 0;

	for (uint32_t c = 0; c < CLASS_NR; c++) {
		uint32_t slot = samples ? cache_sample_slot(&classes[c]) :
					  class_list_slot(c);

		for (; i <= class_bytes(c) / CLASS_STEP; i++) {
			__atomic_store_n(&malloc_slot[i], (uint16_t)slot,
					 __ATOMIC_RELAXED);
			if (i < TABLE_SIZES)
				__atomic_store_n(&percpu_table.slots[i],
						 (uint16_t)slot, __ATOMIC_RELAXED);
		}
	}
}

/* ---- making ---- */

static struct line making;

/* Under the turn. */
static usual int sizeclass_create(uint32_t class)
{
	struct slub_cache *cache = &classes[class];
	char name[SLUB_CACHE_NAME_MAX + 1] = "";
	struct text text = { name, SLUB_CACHE_NAME_MAX, 0 };

	text_printf(&text, "malloc-%u", class_bytes(class));
	cache->slot = class_slot(class);
	cache->has_keys = KEYS;
	return cache_create_tailed(cache, name, class_bytes(class), CLASS_TAIL);
}

/* What a thread that needs a class waits for: thousands may, and one of them makes it. */
static bool class_is_live(const void *cache)
{
	return cache_is_live(cache);
}

/*
 * Makes the cache of @class.  False: there is no memory for it, or this thread is a handler
 * that interrupted the holder of a lock, or the making itself.
 *
 * Every program comes here, so the function is not cold: its callers would move with it.
 */
static usual __attribute__((__noinline__)) bool class_make(uint32_t class)
{
	int kept = errno;
	bool is_made;

	if (slub_thread.locks_held)
		return false;
	if (!line_try(&making)) {
		enum line_answer answer = line_stand(&making, LINE_PATIENCE, class_is_live,
						     &classes[class]);

		if (answer != LINE_TAKEN)
			return answer == LINE_OVER;
	}
	is_made = cache_is_live(&classes[class]) || !sizeclass_create(class);
	line_end(&making);
	errno = kept;
	return is_made;
}

/* CLASS-2: the next larger class that is made, as well aligned. */
static cold struct slub_cache *class_instead(uint32_t class, size_t align)
{
	while (++class < CLASS_NR) {
		if (class_bytes(class) % align == 0 &&
		    cache_is_live(&classes[class]))
			return &classes[class];
	}
	return NULL;
}

struct slub_cache *sizeclass_get(size_t bytes, size_t align)
{
	uint32_t class = class_fitting(bytes, align);

	if (likely(cache_is_live(&classes[class])) || class_make(class))
		return &classes[class];
	/* Its list is empty: handler_alloc() has something. */
	if (slub_thread.locks_held)
		return NULL;
	return class_instead(class, align);
}

uint32_t sizeclass_bytes(uint32_t class)
{
	return class_bytes(class) - (uint32_t)CLASS_TAIL;
}

bool sizeclass_make_all(void)
{
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		if (!cache_is_live(&classes[c]) && !class_make(c))
			return false;
	}
	return true;
}

/* ---- start ---- */

int sizeclass_init(void)
{
	uint32_t words = class_number(PAGE_BYTES);

	first_slot = percpu_alloc_slots(2 * CLASS_NR - words);
	if (!first_slot)
		return -ENOSPC;
	cache_make_others = sizeclass_make_all;
	/* Are caches watched, or lists checked?  Then every class is made. */
	if (SLUB_CONFIG_HARDENED || option_text(OPTION_debug) || sanitizer.is_there ?
		    !sizeclass_make_all() : !class_make(CLASS_NR - 1))
		return -ENOMEM;
	if (SLUB_CONFIG_HARDENED && hardened_caches_prepare(classes, CLASS_NR))
		return -ENOSPC;
	sizeclass_slots_fill();
	malloc_paged_slots = class_slot(words);
	malloc_paged_slots_bytes = class_list_slot(CLASS_NR - 1) -
				   malloc_paged_slots;
	return 0;
}

cold void sizeclass_exit(void)
{
	caches_forget();
	memset(classes, 0, sizeof(classes));
}

void malloc_open(void)
{
	/* release: a thread that sees the limit sees all that the start has set up */
	__atomic_store_n(&malloc_paged_limit, CLASS_BYTES_MAX + 1,
			 __ATOMIC_RELEASE);
}
