/* SPDX-License-Identifier: MIT */
/*
 * Size classes: multiples of 16 up to 128, then eight per doubling, so that
 * rounding up loses at most one part in nine (12.5 % of the request).
 *
 * All are multiples of 16 and lie in page-aligned slabs, so an object is
 * aligned to the largest power of two that divides its class.
 */
#include <errno.h>
#include <string.h>

#include "base/turn.h"
#include "malloc/account.h"
#include "slab/guard/guard.h"
#include "slab/hardened/hardened.h"
#include "slab/shadow/sample.h"

size_t malloc_paged_limit;
uint32_t malloc_paged_slots;
uint32_t malloc_paged_slots_bytes;
uint16_t malloc_slot[CLASS_SIZE_MAX / CLASS_STEP + 1];

static struct slub_cache classes[CLASS_NR];

/* The number of the class for @bytes. */
static uint32_t class_of(size_t bytes)
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

struct slub_cache *sizeclass_cache(size_t bytes)
{
	return &classes[class_of(bytes + CLASS_TAIL)];
}

/*
 * Between two powers of two the classes are the multiples of a step.  If that is less
 * than @align, a multiple of @align is one of them, and otherwise @align divides them all.
 */
struct slub_cache *sizeclass_aligned(size_t bytes, size_t align)
{
	return &classes[class_of(bytes_aligned(bytes, align) + CLASS_TAIL)];
}

_Static_assert(CLASS_SIZE_WORD / CLASS_STEP < TABLE_SIZES, "one for each size");

static void slot_set(size_t index, uint16_t slot)
{
	__atomic_store_n(&malloc_slot[index], slot, __ATOMIC_RELAXED);
	if (index < TABLE_SIZES)
		__atomic_store_n(&percpu_table.slots[index], slot,
				 __ATOMIC_RELAXED);
}

/* Where the fast path finds the lists; also while it runs. */
static void slots_fill(void)
{
	bool samples = sample_is_on_at_all() ||
		       (SLUB_CONFIG_HARDENED && hardened_has_quarantine());
	size_t i = 0;

	for (uint32_t c = 0; c < CLASS_NR; c++) {
		uint32_t slot = samples ? cache_sample_slot(&classes[c]) :
					  classes[c].list_slot;

		for (; i <= class_bytes(c) / CLASS_STEP; i++)
			slot_set(i, (uint16_t)slot);
	}
}

/* To switch sampling: pools and slots are made by one; it may empty all lists. */
static struct turn switching;

/* What another thread was switching in the parent is done, or not begun, as it stands. */
void sizeclass_fork_child(void)
{
	if (!turn_after_fork(&switching))
		return;
	slots_fill();
	account_sizes_fill();
	if (!slub_thread.locks_held)
		cache_inline_slots_set();
}

static int sample_switch_to(enum sample_use use, bool on)
{
	int err = sample_caches_prepare(classes, CLASS_NR);

	if (err)
		return err;
	sample_switch_on(use, on);
	sample_caches_switch();
	slots_fill();
	account_sizes_fill();
	return 0;
}

int sizeclass_sample(bool on)
{
	int err;

	if (!turn_wait(&switching, TURN_TRIES))
		return -EBUSY;
	err = sample_switch_to(SAMPLE_PROFILE, on);
	/* What was drawn for the sample slots counts no more. */
	if (!err && !on)
		slab_shrink_all();
	turn_end(&switching);
	return err;
}

/* As the profile's, for a program that is to be sampled alike each time. */
static uint64_t guard_seed(void)
{
	uint64_t seed = option_value(OPTION_profile_seed);

	return seed ? seed : os_clock_ns() ^ os_random_word(0);
}

static int guard_switch_to(uint64_t every)
{
	int err = every ? guard_open(every) : 0;

	if (err)
		return err;
	if (!every)
		guard_pool.every = guard_pool_large.every = 0;
	else
		sample_set_guard(every, guard_seed());
	return sample_switch_to(SAMPLE_GUARD, every);
}

int sizeclass_guard(uint64_t every)
{
	int err;

	if (!turn_try(&switching))
		return -EBUSY;
	err = guard_switch_to(every);
	turn_end(&switching);
	return err;
}

void sizeclass_guard_by_option(void)
{
	size_t every = option_value(OPTION_guard);

	guard_switch = sizeclass_guard;
	if (every && sizeclass_guard(every))
		log_message("option guard: nothing is guarded, for want of "
			    "memory");
}

/* All of them are written: in one call it is a fault less for each page, and for some two. */
static void classes_populate(void)
{
	uintptr_t from = round_up((uintptr_t)classes, PAGE_BYTES);
	uintptr_t to = (uintptr_t)(classes + CLASS_NR) & ~(uintptr_t)(PAGE_BYTES - 1);

	os_populate((void *)from, to - from);
}

int sizeclass_init(void)
{
	classes_populate();
	for (uint32_t c = 0; c < CLASS_NR; c++) {
		char name[SLUB_CACHE_NAME_MAX + 1] = "";
		struct text text = { name, SLUB_CACHE_NAME_MAX, 0 };
		int err;

		text_printf(&text, "malloc-%u", class_bytes(c));
		err = cache_create_tailed(&classes[c], name, class_bytes(c),
					  CLASS_TAIL);
		if (err)
			return err;
		classes[c].has_keys = KEYS;
	}
	if (SLUB_CONFIG_HARDENED && hardened_has_quarantine() &&
	    sample_caches_prepare(classes, CLASS_NR))
		return -ENOSPC;
	slots_fill();
	/* They were made in the order of their sizes. */
	malloc_paged_slots = classes[class_of(PAGE_BYTES)].slot;
	malloc_paged_slots_bytes = classes[CLASS_NR - 1].list_slot -
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
	/* release: whoever sees the limit sees all that start has set up */
	__atomic_store_n(&malloc_paged_limit, CLASS_BYTES_MAX + 1,
			 __ATOMIC_RELEASE);
}
