/* SPDX-License-Identifier: MIT */
/*
 * The areas, the tables that name them, and the choice of the backend.
 *
 * Locks: area_lock protects the making of areas and stopped CPUs.
 */
#include <errno.h>
#include <string.h>

#include "core/percpu/percpu.h"

#include "core/percpu/percpu_internal.h"

/*
 * Never written, all zero: every head is NULL, every room 0, not live.  It
 * costs no memory, for only its zero page is ever read.
 */
static const char dummy_area[AREA_FAR_END] align_to(4096)
	zeros_in(".bss_dummy_area");

/*
 * The first is what a thread that may not run the fast path indexes (AREA-1).  All are
 * filled before any sequence runs, a page each on most machines: percpu_start().
 */
struct dummy_table percpu_dummy align_to(4096) rarely_touched;
struct cpu_table percpu_table align_to(4096) rarely_touched;
struct free_front slub_free_front align_to(64);
/* Of no CPU: what a thread remembers that has not made a slow call yet. */
const struct slot percpu_no_area = {
	.spare.unused = AREA_NUMBER_NONE,
};

enum backend percpu_backend;
bool percpu_registers rarely_touched;
enum cpu_number percpu_cpu_number;
bool percpu_can_stop;

struct lock area_lock fork_writes = LOCK_INIT;

/*
 * In a place (core/os/place.c); only areas that are made are mapped.  Before the first lies the
 * shared area, and right before that the collection area, so that one call maps both.  Const
 * after start.
 */
struct percpu_areas percpu_areas;
/*
 * Written under area_lock.  A CPU that does not run, and that others write for, has memory for
 * copies only; its lists and its entries in the tables are made when it runs.
 */
static uint32_t copies_end;
static uint64_t area_mapped[AREAS_MAX / 64];

/*
 * Set once at start; until then the fast path does not get as far as to use
 * them (core/malloc/fast.c).
 */
int64_t slub_seq_offsets align_to(64);
uintptr_t percpu_hint_offset;

/* Bytes per CPU for slub_percpu_alloc(), unless SLUB_PERCPU_BYTES says. */
#define BYTES_BY_DEFAULT (((size_t)32 << 20) - AREA_FAR_END)
#define AREA_ALIGN ((size_t)32 << 10)
/* Entries of a table in its first page. */
#define PAGE_WORTH ((4096 - TABLE_GAP) / sizeof(void *))
_Static_assert(AREA_BYTES % 65536 == 0 && AREA_FAR % 65536 == 0 &&
	       AREA_FAR_END % 65536 == 0, "whole pages of any system");

/* Of every area: what is mapped, from the start of each part on.  Read without the lock too. */
static const size_t part_start[AREA_PARTS] = { 0, AREA_FAR, AREA_FAR_END };
static size_t part_end[AREA_PARTS];

/* Of every area: where the memory of programs ends. */
static size_t area_end;

/* What each is a multiple of: what is mapped begins with a page of the system. */
static size_t area_align(void)
{
	return max_size(AREA_ALIGN, os_page_size());
}

/* Where this thread's scratch area lies from the thread pointer. */
static intptr_t scratch_offset(void)
{
	return (intptr_t)slub_thread.scratch -
	       (intptr_t)__builtin_thread_pointer();
}

/* Programs get @bytes in a row of each area: before the far slots, or behind them. */
static void area_end_set(size_t bytes)
{
	bytes = round_up(bytes, area_align());
	area_end = (bytes <= AREA_FAR - AREA_BYTES ? AREA_BYTES : AREA_FAR_END) + bytes;
	percpu_areas.stride = max_size(area_end, AREA_FAR_END);
}

/*
 * Places so far apart that room need not be thought about, mapped as far as it is used; or as
 * small as somebody asks for.
 */
static char *areas_find_place(void)
{
	size_t bytes = option_value(OPTION_percpu_bytes);
	char *place;

	area_end_set(bytes ? bytes : BYTES_BY_DEFAULT);
	place = os_place((AREAS_MAX + 2) * percpu_areas.stride);
	if (place)
		return place;
	/* Few address bits, or much was asked for. */
	area_end_set(area_align());
	return os_place((AREAS_MAX + 2) * percpu_areas.stride);
}

/* Once a process, before anything is freed: a start that failed may be tried again. */
static cold void key_draw(void)
{
	if (KEYS && !slub_key)
		/* odd: LOCAL-6; the last four bits of check words tell no more than that */
		slub_key = os_drawn_word() << (64 - KEY_TOP_SHIFT) >> (64 - KEY_TOP_SHIFT) |
			   (uintptr_t)KEY_TOP << KEY_TOP_SHIFT | 1;
}

int percpu_init(void)
{
	char *place;

	if (percpu_areas.start)
		return 0;
	key_draw();
	place = areas_find_place();
	if (!place)
		return -ENOMEM;
	percpu_map_front_set(NULL);
	percpu_areas.collect = (struct slot *)place;
	percpu_areas.shared = place + AREA_BYTES;
	percpu_areas.start = place + 2 * percpu_areas.stride;
	/* What the statistics of caches take is there from the start. */
	part_end[PART_FIRST] = AREA_BYTES + area_align();
	if (os_map_at(place, AREA_BYTES + part_end[PART_FIRST])) {
		percpu_areas.start = percpu_areas.shared = NULL;
		return -ENOMEM;
	}
	if (percpu_alloc_init(area_end)) {
		percpu_exit();
		return -ENOMEM;
	}
	return 0;
}

static cold void area_part_drop(char *area, int part)
{
	if (part_end[part] > part_start[part])
		os_unreserve(area + part_start[part], part_end[part] - part_start[part]);
}

/* The lock: fork holds it, and the shared area's own with it. */
cold void percpu_exit(void)
{
	lock_acquire(&area_lock);
	if (percpu_areas.start) {
		os_unreserve(percpu_areas.collect, AREA_BYTES + part_end[PART_FIRST]);
		for (int p = PART_FAR; p < AREA_PARTS; p++)
			area_part_drop(percpu_areas.shared, p);
		memset(part_end, 0, sizeof(part_end));
		percpu_alloc_exit();
	}
	percpu_areas.start = percpu_areas.shared = NULL;
	percpu_areas.collect = NULL;
	lock_release(&area_lock);
}

size_t percpu_part_end(enum area_part part)
{
	/* acquire: pairs with percpu_commit(); what lies before the end is mapped */
	return max_size(__atomic_load_n(&part_end[part], __ATOMIC_ACQUIRE), part_start[part]);
}

size_t percpu_committed(void)
{
	size_t end = percpu_part_end(PART_MORE);

	return end > AREA_FAR_END ? end : percpu_part_end(PART_FIRST);
}

cold bool percpu_is_committed(uintptr_t offset)
{
	enum area_part part = offset < AREA_FAR ? PART_FIRST :
			      offset < AREA_FAR_END ? PART_FAR : PART_MORE;

	return offset < percpu_part_end(part);
}

SLUB_EXPORT unsigned int slub_percpu_cpus(void)
{
	static uint32_t expected;	/* 0: nobody has asked yet */
	uint32_t cpus = __atomic_load_n(&expected, __ATOMIC_RELAXED);

	if (percpu_backend == BACKEND_THREAD)
		return AREAS_MAX;
	if (unlikely(!cpus)) {
		cpus = (uint32_t)option_value(OPTION_test_cpus);
		if (!cpus)
			cpus = os_cpus_possible();
		__atomic_store_n(&expected, cpus, __ATOMIC_RELAXED);
	}
	return cpus;
}

void percpu_map_front_set(void *memory)
{
	slub_map_bases = memory ? (void **)((char *)memory + TABLE_GAP) :
				  slub_cpu_base;
}

void percpu_starts_set(uint32_t slot, size_t size, size_t slab_bytes)
{
	if (!KEYS || slub_map_bases == slub_cpu_base || slot >= AREA_NEAR_BYTES)
		return;
	slub_assert(size * slab_bytes <= UINT32_MAX);
	((struct start_slot *)((char *)slub_map_bases + START_CHECKS + slot))->check =
		start_check_of(size, slab_bytes);
}

static void fill_table(void **base, uint32_t entries)
{
	for (void **entry = base - TABLE_NONE; entry < base + entries; entry++)
		*entry = (void *)dummy_area;
}

static void fill_tables(uint32_t entries)
{
	fill_table(slub_dummy_base, entries);
	fill_table(slub_cpu_base, entries);
	if (percpu_backend == BACKEND_RSEQ)
		fill_table(slub_map_bases, entries);
}

static void choose_backend(const struct os_rseq *rseq)
{
	enum option_fastpath wanted =
		(enum option_fastpath)option_value(OPTION_fastpath);
	/* Programs know the area by the CPU number in it (include/slub/arch/x86_64.h). */
	bool can_rseq = ARCH_HAS_RSEQ && rseq->available && rseq->offset % 32 == 0;

	switch (wanted) {
	case FASTPATH_TID:
		if (!ARCH_HAS_DOUBLE_WORD)
			log_message("option fastpath: this build exchanges no two "
				    "words at once; using 'lock' for 'tid'");
		percpu_backend = ARCH_HAS_DOUBLE_WORD ? BACKEND_TID : BACKEND_LOCK;
		break;
	case FASTPATH_LOCK:
		percpu_backend = BACKEND_LOCK;
		break;
	case FASTPATH_THREAD:
		percpu_backend = BACKEND_THREAD;
		break;
	case FASTPATH_RSEQ:
	case FASTPATH_AUTO:
		if (wanted == FASTPATH_RSEQ && !can_rseq)
			log_message("option fastpath: no registered rseq area "
				    "in this process; using 'thread'");
		percpu_backend = can_rseq ? BACKEND_RSEQ : BACKEND_THREAD;
	}
}

void percpu_start(const struct os_cpus *cpus)
{
	uint32_t entries = AREAS_MAX;
	intptr_t at, cid;
	struct os_rseq rseq;

	os_rseq_read(&rseq);
	choose_backend(&rseq);
	percpu_cpu_number = percpu_backend == BACKEND_THREAD ? CPU_NUMBER_THREAD :
			    percpu_backend != BACKEND_RSEQ ? CPU_NUMBER_GETCPU :
			    rseq.has_mm_cid ? CPU_NUMBER_MM_CID : CPU_NUMBER_CPU_ID;
	percpu_registers = percpu_backend == BACKEND_RSEQ && rseq.is_ours;
	percpu_can_stop = os_membarrier_register() && !SLUB_CONFIG_PLAIN_C;
	/* Without rseq sequences stay on the dummy area and fail at once. */
	at = scratch_offset();
	cid = at + RSEQ_MM_CID;
	percpu_hint_offset = RSEQ_CPU_ID + (rseq.available ? rseq.offset : (uintptr_t)at);
	if (percpu_backend == BACKEND_RSEQ) {
		at = (intptr_t)rseq.offset;
		cid = at + (rseq.has_mm_cid ? RSEQ_MM_CID : RSEQ_CPU_ID);
		/* One page of each is touched anyway: fill it, against a later surprise. */
		entries = (uint32_t)min_size(max_size(cpus->possible, PAGE_WORTH),
					     AREAS_MAX);
	}
	fill_tables(entries);
	slub_seq_offsets = (int64_t)((uint64_t)cid << 32 | (uint32_t)at);
	compiler_barrier();
	/* The kernel was asked about this thread, and a sandbox may not let it be asked again. */
	if (percpu_backend == BACKEND_RSEQ && !percpu_registers)
		percpu_thread_open();
}

/*
 * Under the lock; @end is one past the highest that is set.  release: what the bit says of
 * the area has been done.  Pairs with area_bit_is_set(), and with readers of the end.
 */
static void bit_set(uint64_t *map, uint32_t *end, uint32_t cid)
{
	if (*end <= cid)
		__atomic_store_n(end, cid + 1, __ATOMIC_RELEASE);
	__atomic_fetch_or(&map[cid / 64], 1ull << cid % 64, __ATOMIC_RELEASE);
}

char *percpu_copies(uint32_t cid)
{
	return cid < AREAS_MAX && area_bit_is_set(area_mapped, cid) ? area_at(cid) : NULL;
}

uint32_t percpu_copies_end(void)
{
	return __atomic_load_n(&copies_end, __ATOMIC_ACQUIRE);
}

/* Makes [@from, @to) of an area usable. */
static int area_commit(char *area, size_t from, size_t to)
{
	int err = os_map_at(area + from, to - from);

	if (!err && option_value(OPTION_huge) == HUGE_ALWAYS)
		os_huge(area + from, to - from, true);
	return err;
}

/* The opposite, of every area below @end. */
static cold void areas_withdraw(uint32_t end, size_t from, size_t to)
{
	for (uint32_t cid = 0; cid < end; cid++) {
		char *area = percpu_copies(cid);

		if (area)
			os_unreserve(area + from, to - from);
	}
	os_unreserve(percpu_areas.shared + from, to - from);
}

cold int percpu_commit(enum area_part part, size_t end)
{
	size_t from = percpu_part_end(part);
	int err;

	if (end <= from)
		return 0;
	err = area_commit(percpu_areas.shared, from, end);
	if (err)
		return err;
	for (uint32_t cid = 0; cid < copies_end; cid++) {
		char *area = percpu_copies(cid);

		err = area ? area_commit(area, from, end) : 0;
		if (err) {
			areas_withdraw(cid, from, end);
			return err;
		}
	}
	__atomic_store_n(&part_end[part], end, __ATOMIC_RELEASE);
	return 0;
}

/* What is behind the first part, or nothing at all. */
static cold int more_commit(char *area)
{
	int err = 0;

	for (int p = PART_FAR; p < AREA_PARTS && !err; p++) {
		if (part_end[p] > part_start[p])
			err = area_commit(area, part_start[p], part_end[p]);
		for (int before = p; err && before; before--)
			area_part_drop(area, before - 1);
	}
	return err;
}

/* All that every area has. */
static int parts_commit(char *area)
{
	int err = area_commit(area, 0, part_end[PART_FIRST]);

	return err ? err : more_commit(area);
}

/* Under the lock.  Nothing is written: of this area no page is in memory yet. */
static bool area_map(uint32_t cid)
{
	char *area = area_at(cid);

	if (area_bit_is_set(area_mapped, cid))
		return true;
	if (parts_commit(area))
		return false;
	bit_set(area_mapped, &copies_end, cid);
	return true;
}

char *percpu_copies_make(uint32_t cid)
{
	if (cid >= AREAS_MAX)
		return NULL;
	lock_acquire(&area_lock);
	area_map(cid);
	lock_release(&area_lock);
	return percpu_copies(cid);
}

/* Every access finds that there is none: a kernel that refused it is not asked at each. */
#define WAITS_AFTER_REFUSAL 64

/* Under the lock. */
static bool area_map_at_times(uint32_t cid)
{
	static uint32_t waits;

	if (unlikely(waits) && !area_bit_is_set(area_mapped, cid)) {
		waits--;
		return false;
	}
	if (area_map(cid))
		return true;
	waits = WAITS_AFTER_REFUSAL;
	return false;
}

void percpu_area_make(uint32_t cid)
{
	char *area = area_at(cid);

	if (cid >= AREAS_MAX)
		return;
	lock_acquire(&area_lock);
	if (!area_bit_is_set(percpu_areas.made, cid) && area_map_at_times(cid)) {
		*(uint32_t *)(area + AREA_LIVE) = 1;
		/*
		 * A thread remembers the area it finds, and 0 would be the number of CPU 0:
		 * its threads would work here beside this CPU's.
		 */
		*(uint32_t *)(area + AREA_NUMBER) = AREA_NUMBER_NONE;
		if (KEYS && percpu_backend == BACKEND_RSEQ)
			*(uintptr_t *)(area + AREA_KEY) = slub_key;
		bit_set(percpu_areas.made, &percpu_areas.end, cid);
		inject(INJECT_area);
		percpu_base_set(cid, area);
	}
	lock_release(&area_lock);
}

/*
 * In both tables; the copy is read by sequences only.  Between the two stores malloc()
 * and free() see different areas on this CPU, the one the dummy: it stops, or begins, a
 * moment sooner than the other.
 */
void percpu_base_set(uint32_t cid, char *area)
{
	void *base = area ? (void *)area : (void *)dummy_area;
	char *own = percpu_area(cid);

	/*
	 * release: what was done to the area comes first.  Pairs with the
	 * dependent loads base -> area of the sequences.
	 */
	__atomic_store_n(&slub_cpu_base[cid], base, __ATOMIC_RELEASE);
	if (percpu_backend == BACKEND_RSEQ)
		__atomic_store_n(&slub_map_bases[cid], base, __ATOMIC_RELEASE);
	inject(INJECT_number);
	/* The same for a thread that remembers the area: its number says whether it may be used. */
	if (own && percpu_backend == BACKEND_RSEQ)
		__atomic_store_n((uint32_t *)(own + AREA_NUMBER),
				 area ? cid : AREA_NUMBER_NONE, __ATOMIC_RELEASE);
	/*
	 * Programs index by CPU number whatever the library was built for.
	 * Only where there are sequences: backend thread indexes by thread.
	 */
	if (SLUB_CONFIG_SMP || percpu_backend != BACKEND_RSEQ)
		return;
	for (uint32_t i = 1; i < AREAS_MAX; i++)
		__atomic_store_n(&slub_cpu_base[i], base, __ATOMIC_RELEASE);
}
