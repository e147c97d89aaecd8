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
	__attribute__((section(".bss.dummy_area,\"aw\",@nobits#")));

/* What a thread that may not run the fast path indexes (AREA-1). */
void *slub_dummy_base[AREAS_MAX] = { (void *)dummy_area };
void *slub_cpu_base[AREAS_MAX];

enum backend percpu_backend;
enum cpu_number percpu_cpu_number;
bool percpu_can_stop;
uint32_t percpu_nr_areas;

struct lock area_lock = LOCK_INIT;

/* const after start */
static char *areas_start;
static char *collect_area;
/* under area_lock; read without it, for an area is never taken back */
static _Atomic uint32_t areas_end;
static uint8_t area_made[AREAS_MAX];
/* under area_lock; slot 0 is nobody's */
static uint32_t next_slot = SLOT_BYTES;

/*
 * Set once at start; until then the fast path does not get as far as to use
 * them (malloc/fast.c).
 */
uintptr_t slub_rseq_offset;
uintptr_t slub_cid_offset;

/* Where this thread's scratch area lies from the thread pointer. */
static uintptr_t scratch_offset(void)
{
	return (uintptr_t)slub_thread.scratch -
	       (uintptr_t)__builtin_thread_pointer();
}

/* The entries that a CPU number in use can reach. */
static uint32_t table_entries(uint32_t possible)
{
	uint32_t page_worth = 4096 / sizeof(void *);

	/* One page is touched anyway: fill it, against a later surprise. */
	if (possible < page_worth)
		possible = page_worth;
	return possible < AREAS_MAX ? possible : AREAS_MAX;
}

void percpu_init(char *areas, uint32_t nr, char *collect)
{
	areas_start = areas;
	percpu_nr_areas = nr;
	collect_area = collect;
}

char *percpu_collect_area(void)
{
	return collect_area;
}

static void fill_tables(uint32_t entries)
{
	for (uint32_t i = 0; i < entries; i++) {
		slub_dummy_base[i] = (void *)dummy_area;
		slub_cpu_base[i] = (void *)dummy_area;
	}
}

static void choose_backend(const struct os_rseq *rseq)
{
	enum option_fastpath wanted =
		(enum option_fastpath)option_value(OPTION_fastpath);
	bool can_rseq = ARCH_HAS_RSEQ && rseq->available;

	switch (wanted) {
	case FASTPATH_TID:
		percpu_backend = BACKEND_TID;
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

void percpu_start(const struct os_cpus *cpus)
{
	struct os_rseq rseq;

	os_rseq_read(&rseq);
	choose_backend(&rseq);
	choose_cpu_number(&rseq);
	percpu_can_stop = os_membarrier_register() && !SLUB_CONFIG_PLAIN_C;
	if (percpu_backend == BACKEND_RSEQ) {
		fill_tables(table_entries(cpus->possible));
		slub_cid_offset = rseq.offset + (rseq.has_mm_cid ?
						 RSEQ_MM_CID : RSEQ_CPU_ID);
		slub_rseq_offset = rseq.offset;
	} else {
		/* The fast path stays on the dummy area and fails at once. */
		fill_tables(AREAS_MAX);
		slub_rseq_offset = scratch_offset();
		slub_cid_offset = slub_rseq_offset + RSEQ_MM_CID;
	}
	compiler_barrier();
}

char *percpu_area(uint32_t cid)
{
	if (cid >= percpu_nr_areas ||
	    !__atomic_load_n(&area_made[cid], __ATOMIC_ACQUIRE))
		return NULL;
	return areas_start + (size_t)cid * AREA_BYTES;
}

uint32_t percpu_areas_end(void)
{
	return areas_end;
}

void percpu_area_make(uint32_t cid)
{
	char *area = areas_start + (size_t)cid * AREA_BYTES;

	if (cid >= percpu_nr_areas)
		return;
	lock_acquire(&area_lock);
	if (!area_made[cid] && os_commit(area, AREA_BYTES) == 0) {
		*(uint32_t *)(area + AREA_LIVE) = 1;
		if (areas_end <= cid)
			areas_end = cid + 1;
		/* release: pairs with the acquire in percpu_area() */
		__atomic_store_n(&area_made[cid], 1, __ATOMIC_RELEASE);
		percpu_base_set(cid, area);
	}
	lock_release(&area_lock);
}

void percpu_base_set(uint32_t cid, char *area)
{
	/*
	 * release: what was done to the area comes first.  Pairs with the
	 * dependent loads base -> area of the sequences.
	 */
	__atomic_store_n(&slub_cpu_base[cid],
			 area ? (void *)area : (void *)dummy_area,
			 __ATOMIC_RELEASE);
}

uint32_t percpu_alloc_slots(uint32_t nr)
{
	uint32_t slot = 0;

	lock_acquire(&area_lock);
	if (next_slot + nr * SLOT_BYTES <= AREA_BYTES) {
		slot = next_slot;
		next_slot += nr * SLOT_BYTES;
	}
	lock_release(&area_lock);
	return slot;
}

uint32_t percpu_slots_end(void)
{
	return __atomic_load_n(&next_slot, __ATOMIC_RELAXED);
}
