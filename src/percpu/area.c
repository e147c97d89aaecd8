/* SPDX-License-Identifier: MIT */
/*
 * The areas, the tables that name them, and the choice of the backend.
 *
 * Locks: area_lock protects the making of areas and stopped CPUs.
 */
#include "percpu/percpu.h"

#include "percpu/percpu_internal.h"

/*
 * Never written, all zero: every head is NULL, every room 0, not live.  It
 * costs no memory, for only its zero page is ever read.
 */
static const char dummy_area[AREA_BYTES] align_to(4096)
	zeros_in(".bss_dummy_area");

/*
 * The first is what a thread that may not run the fast path indexes (AREA-1).  All are
 * filled before any sequence runs, a page each on most machines: percpu_start().
 */
struct dummy_table percpu_dummy align_to(4096) rarely_touched;
struct cpu_table percpu_table align_to(4096) rarely_touched;
void **slub_map_bases align_to(64);
/* Of no CPU: what a thread remembers that has not made a slow call yet. */
const struct slot percpu_no_area = {
	.spare.unused = AREA_NUMBER_NONE,
};

enum backend percpu_backend;
bool percpu_registers rarely_touched;
enum cpu_number percpu_cpu_number;
bool percpu_can_stop;

struct lock area_lock align_to(64) = LOCK_INIT;

/*
 * In a place (os/place.c); only areas that are made are mapped.  Before the first lies the shared
 * area, and right before that the collection area, so that one call maps both.  Const after start.
 */
struct percpu_areas percpu_areas;
static char *shared_area;
static char *collect_area;
/*
 * Written under area_lock; a bit for each area.  There is memory for copies first, which is all
 * that a CPU needs which others write for; lists and its entries in the tables are made when it
 * runs.
 */
static uint32_t copies_end;
static uint64_t area_mapped[AREAS_MAX / 64];

/*
 * Set once at start; until then the fast path does not get as far as to use
 * them (malloc/fast.c).
 */
int64_t slub_seq_offsets align_to(64);
uintptr_t percpu_hint_offset;

/* Bytes per CPU for slub_percpu_alloc(), unless SLUB_PERCPU_BYTES says. */
#define BYTES_BY_DEFAULT (((size_t)32 << 20) - AREA_BYTES)
#define AREA_ALIGN ((size_t)32 << 10)
_Static_assert(AREA_BYTES == 65536, "whole pages of any system");

/* Of every area. */
static size_t committed_bytes;

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

/* The entries that a CPU number in use can reach. */
static uint32_t table_entries(uint32_t possible)
{
	uint32_t page_worth = (4096 - TABLE_GAP) / sizeof(void *);

	/* One page of each is touched anyway: fill it, against a later surprise. */
	if (possible < page_worth)
		possible = page_worth;
	return possible < AREAS_MAX ? possible : AREAS_MAX;
}

/* Option cpus, or what the system says; asked when somebody wants to know. */
static uint32_t cpus_expected(void)
{
	static uint32_t known;	/* 0: not yet */
	uint32_t cpus = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (unlikely(!cpus)) {
		cpus = (uint32_t)option_value(OPTION_cpus);
		if (!cpus)
			cpus = os_cpus_possible();
		__atomic_store_n(&known, cpus, __ATOMIC_RELAXED);
	}
	return cpus;
}

/*
 * Places so far apart that room need not be thought about, mapped as far as it is used; or as
 * small as somebody asks for.
 */
static size_t choose_stride(void)
{
	size_t bytes = option_value(OPTION_percpu_bytes);

	if (!bytes)
		bytes = BYTES_BY_DEFAULT;
	return AREA_BYTES + round_up(bytes, area_align());
}

static char *find_place(void)
{
	char *place;

	percpu_areas.stride = choose_stride();
	place = os_place((AREAS_MAX + 2) * percpu_areas.stride);
	if (place)
		return place;
	/* Few address bits, or much was asked for. */
	percpu_areas.stride = AREA_BYTES + area_align();
	return os_place((AREAS_MAX + 2) * percpu_areas.stride);
}

int percpu_init(void)
{
	char *place = percpu_areas.start ? NULL : find_place();

	if (percpu_areas.start)
		return 0;
	if (!place)
		return -12;	/* ENOMEM */
	percpu_map_front_set(NULL);
	collect_area = place;
	shared_area = place + AREA_BYTES;
	percpu_areas.start = place + 2 * percpu_areas.stride;
	/* What the statistics of caches take is there from the start. */
	committed_bytes = AREA_BYTES + area_align();
	if (os_map_at(collect_area, AREA_BYTES + committed_bytes)) {
		percpu_areas.start = shared_area = NULL;
		return -12;
	}
	if (percpu_alloc_init(percpu_areas.stride)) {
		percpu_exit();
		return -12;
	}
	return 0;
}

/* The lock: fork holds it, and the shared area's own with it. */
cold void percpu_exit(void)
{
	lock_acquire(&area_lock);
	if (percpu_areas.start) {
		os_unreserve(collect_area, AREA_BYTES + committed_bytes);
		percpu_alloc_exit();
	}
	percpu_areas.start = shared_area = collect_area = NULL;
	lock_release(&area_lock);
}

char *percpu_shared_area(void)
{
	return shared_area;
}

size_t percpu_committed(void)
{
	return __atomic_load_n(&committed_bytes, __ATOMIC_ACQUIRE);
}

SLUB_EXPORT unsigned int slub_percpu_cpus(void)
{
	return percpu_backend == BACKEND_THREAD ? AREAS_MAX :
						  cpus_expected();
}

struct slot *percpu_collect_area(void)
{
	return (struct slot *)collect_area;
}

void percpu_map_front_set(void *memory)
{
	slub_map_bases = memory ? (void **)((char *)memory + TABLE_GAP) :
				  slub_cpu_base;
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
	bool can_rseq = ARCH_HAS_RSEQ && rseq->available;

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

static void choose_cpu_number(const struct os_rseq *rseq)
{
	switch (percpu_backend) {
	case BACKEND_RSEQ:
		percpu_cpu_number = rseq->has_mm_cid ? CPU_NUMBER_MM_CID :
						       CPU_NUMBER_CPU_ID;
		break;
	case BACKEND_THREAD:
		percpu_cpu_number = CPU_NUMBER_THREAD;
		break;
	default:
		percpu_cpu_number = CPU_NUMBER_GETCPU;
	}
}

static void offsets_set(intptr_t rseq, intptr_t cid)
{
	slub_seq_offsets = (int64_t)((uint64_t)cid << 32 | (uint32_t)rseq);
}

void percpu_start(const struct os_cpus *cpus)
{
	struct os_rseq rseq;

	os_rseq_read(&rseq);
	choose_backend(&rseq);
	choose_cpu_number(&rseq);
	percpu_registers = percpu_backend == BACKEND_RSEQ && rseq.is_ours;
	percpu_can_stop = os_membarrier_register() && !SLUB_CONFIG_PLAIN_C;
	if (percpu_backend == BACKEND_RSEQ) {
		fill_tables(table_entries(cpus->possible));
		offsets_set((intptr_t)rseq.offset, (intptr_t)rseq.offset +
			    (rseq.has_mm_cid ? RSEQ_MM_CID : RSEQ_CPU_ID));
	} else {
		/* Sequences stay on the dummy area and fail at once. */
		fill_tables(AREAS_MAX);
		offsets_set(scratch_offset(), scratch_offset() + RSEQ_MM_CID);
		percpu_hint_offset = RSEQ_CPU_ID + (rseq.available ?
				     rseq.offset : (uintptr_t)scratch_offset());
	}
	compiler_barrier();
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
	os_unreserve(shared_area + from, to - from);
}

int percpu_commit(size_t bytes)
{
	size_t from = committed_bytes;
	int err;

	if (bytes <= from)
		return 0;
	err = area_commit(shared_area, from, bytes);
	if (err)
		return err;
	for (uint32_t cid = 0; cid < copies_end; cid++) {
		char *area = percpu_copies(cid);

		err = area ? area_commit(area, from, bytes) : 0;
		if (err) {
			areas_withdraw(cid, from, bytes);
			return err;
		}
	}
	__atomic_store_n(&committed_bytes, bytes, __ATOMIC_RELEASE);
	return 0;
}

/* Under the lock.  Nothing is written: of this area no page is in memory yet. */
static bool area_map(uint32_t cid)
{
	char *area = area_at(cid);

	if (area_bit_is_set(area_mapped, cid))
		return true;
	if (area_commit(area, 0, committed_bytes))
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

void percpu_area_make(uint32_t cid)
{
	char *area = area_at(cid);

	if (cid >= AREAS_MAX)
		return;
	lock_acquire(&area_lock);
	if (!area_bit_is_set(percpu_areas.made, cid) && area_map(cid)) {
		*(uint32_t *)(area + AREA_LIVE) = 1;
		/*
		 * A thread remembers the area it finds, and 0 would be the number of CPU 0:
		 * its threads would work here beside this CPU's.
		 */
		*(uint32_t *)(area + AREA_NUMBER) = AREA_NUMBER_NONE;
		bit_set(percpu_areas.made, &percpu_areas.end, cid);
		inject(INJECT_area);
		percpu_base_set(cid, area);
	}
	lock_release(&area_lock);
}

/* The same for a thread that remembers the area: its number says whether it may be used. */
static void number_set(uint32_t cid, bool is_stopped)
{
	char *own = percpu_area(cid);

	/* release: as for the entry */
	if (own && percpu_backend == BACKEND_RSEQ)
		__atomic_store_n((uint32_t *)(own + AREA_NUMBER),
				 is_stopped ? AREA_NUMBER_NONE : cid,
				 __ATOMIC_RELEASE);
}

/*
 * In both tables; the copy is read by sequences only.  Between the two stores malloc()
 * and free() see different areas on this CPU, the one the dummy: it stops, or begins, a
 * moment sooner than the other.
 */
void percpu_base_set(uint32_t cid, char *area)
{
	void *base = area ? (void *)area : (void *)dummy_area;

	/*
	 * release: what was done to the area comes first.  Pairs with the
	 * dependent loads base -> area of the sequences.
	 */
	__atomic_store_n(&slub_cpu_base[cid], base, __ATOMIC_RELEASE);
	if (percpu_backend == BACKEND_RSEQ)
		__atomic_store_n(&slub_map_bases[cid], base, __ATOMIC_RELEASE);
	inject(INJECT_number);
	number_set(cid, !area);
	/*
	 * Programs index by CPU number whatever the library was built for.
	 * Only where there are sequences: backend thread indexes by thread.
	 */
	if (SLUB_CONFIG_SMP || percpu_backend != BACKEND_RSEQ)
		return;
	for (uint32_t i = 1; i < AREAS_MAX; i++)
		__atomic_store_n(&slub_cpu_base[i], base, __ATOMIC_RELEASE);
}
