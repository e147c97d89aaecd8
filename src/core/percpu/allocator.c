/* SPDX-License-Identifier: MIT */
/*
 * The allocator of per-CPU memory: which offsets are taken.
 *
 * All areas have the same layout, so one pair of bitmaps serves them all, a bit per unit of four
 * bytes: `used`, and `first`, set on the first unit of each allocation, which shows where the
 * one before ends.  core/arch/slot.h draws an area.
 *
 * Locks: area_lock.
 */
#include "core/percpu/percpu.h"

#include <errno.h>

#include "core/percpu/percpu_internal.h"

#define UNIT 4
#define ALIGN_MAX 4096
/* Memory is committed in steps that double, from this on. */
#define COMMIT_MIN ((size_t)32 << 10)

/* const after start */
static uint64_t *used;
static uint64_t *first;
static size_t area_units;	/* up to the end of what programs get */

/* under area_lock */
/* hint[n]: where to look first for up to 2^n units or that alignment. */
#define HINTS 32
static size_t hint[HINTS];
static size_t general_bytes;	/* allocated, slots apart */
static size_t touched_units;	/* above it, every area is still zero */
uint32_t percpu_slots_now = SLOT_BYTES;
uint32_t percpu_far_slots_now = AREA_FAR;
static uint32_t far_hint = AREA_FAR;	/* no far slot before it is free */

static size_t bitmap_bytes(size_t units)
{
	return round_up(units / 8, 65536);
}

static size_t maps_bytes(void)
{
	return 2 * bitmap_bytes(max_size(area_units, AREA_FAR_END / UNIT));
}

int percpu_alloc_init(size_t area_end)
{
	char *maps;

	area_units = area_end / UNIT;
	maps = os_map(maps_bytes());

	if (!maps) {
		area_units = 0;
		return -ENOMEM;
	}
	used = (uint64_t *)maps;
	first = (uint64_t *)(maps + maps_bytes() / 2);
	/* A page that is read before it is written faults twice. */
	*used = *first = 0;
	touched_units = AREA_BYTES / UNIT;
	for (int i = 0; i < HINTS; i++)
		hint[i] = AREA_BYTES / UNIT;
	return 0;
}

/* Under the lock. */
cold void percpu_alloc_exit(void)
{
	if (area_units)
		os_unreserve(used, maps_bytes());
	area_units = 0;
	general_bytes = 0;
	percpu_slots_now = SLOT_BYTES;
	percpu_far_slots_now = far_hint = AREA_FAR;
}

/* ---- bits ---- */

/* The first unit in [@from, @to) whose bit in @map is @value; @to: none. */
static size_t find_bit(const uint64_t *map, bool value, size_t from, size_t to)
{
	uint64_t flip = value ? 0 : ~0ull;

	while (from < to) {
		uint64_t word = (map[from / 64] ^ flip) >> from % 64;

		if (word) {
			from += (size_t)__builtin_ctzl(word);
			return from < to ? from : to;
		}
		from = (from / 64 + 1) * 64;
	}
	return to;
}

/*
 * Where the allocation ends whose first unit is @unit: at the first of the next one, or at a
 * unit that is free.  Both maps are read together, no further than that: behind it may lie all
 * that was allocated later.
 */
static size_t find_end(size_t unit)
{
	size_t at = unit + 1;

	while (at < area_units) {
		uint64_t ends = (first[at / 64] | ~used[at / 64]) >> at % 64;

		if (ends)
			return min_size(at + (size_t)__builtin_ctzl(ends), area_units);
		at = (at / 64 + 1) * 64;
	}
	return area_units;
}

static void set_bits(uint64_t *map, bool value, size_t from, size_t n)
{
	while (n) {
		size_t count = min_size(64 - from % 64, n);
		uint64_t mask = (count == 64 ? ~0ull : (1ull << count) - 1)
				<< from % 64;

		if (value)
			map[from / 64] |= mask;
		else
			map[from / 64] &= ~mask;
		from += count;
		n -= count;
	}
}

/* @n free units in [@from, @to), aligned to @align units; @to: none. */
static size_t find_room(size_t n, size_t align, size_t from, size_t to)
{
	while (from < to) {
		size_t taken;

		from = round_up(find_bit(used, false, from, to), align);
		if (from + n > to)
			return to;
		taken = find_bit(used, true, from, from + n);
		if (taken == from + n)
			return from;
		from = taken;
	}
	return to;
}

static void units_take(size_t unit, size_t n)
{
	set_bits(used, true, unit, n);
	set_bits(first, true, unit, 1);
}

/* ---- slots ---- */

#define SLOT_UNITS (SLOT_BYTES / UNIT)

/* Under the lock. */
static void slots_end_raise(uint32_t *end, size_t unit)
{
	if (*end < unit * UNIT)
		__atomic_store_n(end, unit * UNIT, __ATOMIC_RELAXED);
}

uint32_t percpu_alloc_slots_below(uint32_t nr, uint32_t end)
{
	size_t n = nr * SLOT_UNITS, unit;

	lock_acquire(&area_lock);
	unit = find_room(n, SLOT_UNITS, SLOT_UNITS, end / UNIT);
	if (unit < end / UNIT) {
		units_take(unit, n);
		slots_end_raise(&percpu_slots_now, unit + n);
	}
	lock_release(&area_lock);
	return unit < end / UNIT ? (uint32_t)(unit * UNIT) : 0;
}

/* Far slots are mapped in steps that double, as far as there are any. */
static cold int far_commit(size_t end)
{
	size_t bytes = percpu_part_end(PART_FAR);

	while (bytes < end)
		bytes += max_size(bytes - AREA_FAR, COMMIT_MIN * 2);
	return percpu_commit(PART_FAR, min_size(bytes, AREA_FAR_END));
}

cold int percpu_alloc_far_slot(uint32_t *slot)
{
	size_t end = (AREA_FAR + FAR_SLOTS * SLOT_BYTES) / UNIT, unit;
	int err = 0;

	lock_acquire(&area_lock);
	unit = find_room(SLOT_UNITS, SLOT_UNITS, far_hint / UNIT, end);
	if (unit == end)
		err = -ENOSPC;
	else if (far_commit((unit + SLOT_UNITS) * UNIT))
		err = -ENOMEM;
	if (!err) {
		units_take(unit, SLOT_UNITS);
		far_hint = (uint32_t)((unit + SLOT_UNITS) * UNIT);
		slots_end_raise(&percpu_far_slots_now, unit + SLOT_UNITS);
		*slot = (uint32_t)(unit * UNIT);
	}
	lock_release(&area_lock);
	return err;
}

/*
 * By words: a collector may be there, and others glance at heads.  Read first: a page
 * that its CPU has never written to has no memory, and needs none.
 */
static void zero_words(char *at, size_t bytes)
{
	uint32_t *word = (uint32_t *)at;

	for (size_t i = 0; i < bytes / sizeof(*word); i++) {
		if (__atomic_load_n(&word[i], __ATOMIC_RELAXED))
			__atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
	}
}

static void zero(uintptr_t offset, size_t bytes)
{
	for (uint32_t cid = 0; cid < percpu_copies_end(); cid++) {
		char *area = percpu_copies(cid);

		if (area)
			zero_words(area + offset, bytes);
	}
	zero_words(percpu_shared_area() + offset, bytes);
}

void percpu_free_slots(uint32_t slot, uint32_t nr)
{
	/* Their room: the next owner begins with none. */
	zero(slot, nr * SLOT_BYTES);
	lock_acquire(&area_lock);
	set_bits(first, false, slot / UNIT, 1);
	set_bits(used, false, slot / UNIT, nr * SLOT_UNITS);
	if (slot_is_far(slot))
		far_hint = (uint32_t)min_size(far_hint, slot);
	lock_release(&area_lock);
}

/* ---- everything else ---- */

/* Makes sure that what ends at @end can be used in every area. */
static cold int units_commit(size_t end)
{
	enum area_part part = end <= AREA_FAR ? PART_FIRST : PART_MORE;
	size_t most = min_size(area_units * UNIT, part == PART_FIRST ? AREA_FAR : SIZE_MAX);
	size_t bytes = percpu_part_end(part);
	/* What doubles is what programs have. */
	size_t gap = part == PART_FIRST ? AREA_BYTES : AREA_FAR_END - (AREA_FAR - AREA_BYTES);

	if (end <= bytes)
		return 0;
	while (bytes < end)
		bytes += max_size(bytes - gap, COMMIT_MIN);
	return percpu_commit(part, min_size(bytes, most));
}

/* @n free units, aligned to @align, from @from on: before the far slots or behind them. */
static size_t find_general(size_t n, size_t align, size_t from)
{
	size_t end = min_size(AREA_FAR / UNIT, area_units), unit;

	if (from < end) {
		unit = find_room(n, align, from, end);
		if (unit < end)
			return unit;
	}
	return find_room(n, align, max_size(from, AREA_FAR_END / UNIT), area_units);
}

/* Under the lock; read without it. */
static void general_bytes_add(size_t bytes)
{
	__atomic_store_n(&general_bytes, general_bytes + bytes,
			 __ATOMIC_RELAXED);
}

/* Under the lock: 0, or an errno. */
static int take_room(size_t n, size_t align, size_t *out)
{
	unsigned int h = order_of(max_size(n, align));
	size_t unit;

	if (n > area_units)
		return ENOSPC;
	unit = find_general(n, align, hint[h]);
	/* A hint may have passed by what was too small for others. */
	if (unit == area_units)
		unit = find_general(n, align, AREA_BYTES / UNIT);
	if (unit == area_units)
		return ENOSPC;
	if (units_commit((unit + n) * UNIT))
		return ENOMEM;
	units_take(unit, n);
	hint[h] = unit + n;
	general_bytes_add(n * UNIT);
	*out = unit;
	return 0;
}

uintptr_t percpu_alloc(size_t size, size_t align)
{
	size_t n = round_up(size, UNIT) / UNIT, dirty, unit = 0;
	int err;

	lock_acquire(&area_lock);
	err = take_room(n, max_size(align / UNIT, 1), &unit);
	dirty = touched_units;
	if (!err && touched_units < unit + n)
		touched_units = unit + n;
	lock_release(&area_lock);
	if (err) {
		errno = err;
		return 0;
	}
	if (unit < dirty)
		zero(unit * UNIT, n * UNIT);
	return unit * UNIT;
}

SLUB_EXPORT uintptr_t slub_percpu_alloc(size_t size, size_t align)
{
	if (!size || !align || align & (align - 1) || align > ALIGN_MAX ||
	    size > PTRDIFF_MAX) {
		errno = EINVAL;
		return 0;
	}
	if (slub_thread.locks_held || !slub_start()) {
		errno = slub_thread.locks_held ? EDEADLK : ENOMEM;
		return 0;
	}
	return percpu_alloc(size, align);
}

SLUB_EXPORT cold int slub_percpu_free(uintptr_t offset)
{
	size_t unit = offset / UNIT, n;
	bool found;

	if (!offset)
		return 0;
	if (offset % UNIT || offset_is_slots(offset) || unit >= area_units)
		return -EINVAL;
	lock_acquire(&area_lock);
	found = find_bit(first, true, unit, unit + 1) == unit;
	if (found) {
		n = find_end(unit) - unit;
		set_bits(first, false, unit, 1);
		set_bits(used, false, unit, n);
		general_bytes_add(-(n * UNIT));
		for (int i = 0; i < HINTS; i++)
			hint[i] = min_size(hint[i], unit);
	}
	lock_release(&area_lock);
	return found ? 0 : -EINVAL;
}

SLUB_EXPORT size_t slub_percpu_bytes(void)
{
	return __atomic_load_n(&general_bytes, __ATOMIC_RELAXED);
}
