/* SPDX-License-Identifier: MIT */
/*
 * Who has which cache line: caches without end, kept coherent as processors do it.  A line that
 * another CPU has written since is fetched from there, and one that others have read is taken
 * from them before a write; both are transfers.
 */
#include <stdio.h>
#include <string.h>

#include "core/page/page.h"
#include "core/percpu/percpu.h"

#include "scale.h"

#define LINE_BYTES 64
#define LINES_MAX ((size_t)1 << 23)
#define SITES_MAX ((size_t)1 << 15)
#define LOCKS_MAX ((size_t)1 << 14)
#define WORDS (LINE_BYTES / sizeof(uint64_t))
/* Of a word that several CPUs have written. */
#define WRITER_MANY UINT16_MAX

struct line {
	uintptr_t number;		/* address / LINE_BYTES; 0: of none */
	uint64_t holders[CPUS_MAX / 64];
	double asked_ns, free_ns;	/* when the last transfer began to wait, and ended */
	uint16_t owner;			/* 1 + the CPU that wrote it last */
	uint16_t writers[WORDS];	/* 1 + the CPU that wrote the word */
};

/* What was counted at a place of the code, called in one way. */
struct site {
	uintptr_t pcs[FRAMES_KEPT];	/* the place, and what it returns to */
	uintptr_t address;		/* the last that it was about; 0: of no memory */
	double counts[EVENT_NR];
};

struct held {
	uintptr_t lock;
	double asked_ns, free_ns;
	uint32_t owner;			/* 1 + the CPU that had it last */
};

const char *const event_names[EVENT_NR] = {
	"operations", "rmw", "rmw_shared", "store_shared", "transfer", "transfer_object",
	"transfer_program", "lock", "lock_moved", "lock_wait", "barrier", "stop", "madvise",
	"map", "call", "wait_ns", "remote_ns", "ns",
};

bool shadow_is_on;
uintptr_t shadow_frames[FRAMES_MAX];
uint32_t shadow_depth;

static struct line *lines;
static struct site *sites;
static struct held *locks;
static double totals[EVENT_NR];
static uintptr_t address_now;		/* of the access in hand */
/* Memory that each thread has for itself: this one stands for all of them. */
static uintptr_t stack_low, stack_high, storage_low, storage_high;

#define STORAGE_BEFORE 8192
#define STORAGE_BEHIND 4096
#define STACK_BYTES ((uintptr_t)8 << 20)

void shadow_init(void)
{
	uintptr_t self = (uintptr_t)__builtin_thread_pointer();
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	lines = own_memory(LINES_MAX * sizeof(*lines));
	sites = own_memory(SITES_MAX * sizeof(*sites));
	locks = own_memory(LOCKS_MAX * sizeof(*locks));
	storage_low = self - STORAGE_BEFORE;
	storage_high = self + STORAGE_BEHIND;
	stack_low = here - STACK_BYTES;
	stack_high = here + STACK_BYTES;
}

static size_t hash(uintptr_t key, size_t end)
{
	return (key * 0x9e3779b97f4a7c15u >> 20) % end;
}

/* Neighbours lie near each other here, too. */
#define NEIGHBOURS 64

static struct line *line_of(uintptr_t number)
{
	size_t at = hash(number / NEIGHBOURS, LINES_MAX / NEIGHBOURS) * NEIGHBOURS +
		    number % NEIGHBOURS;

	while (lines[at].number && lines[at].number != number)
		at = (at + 1) % LINES_MAX;
	lines[at].number = number;
	return &lines[at];
}

/* ---- places of the code ---- */

static struct site *site_of(uintptr_t pc)
{
	uintptr_t pcs[FRAMES_KEPT] = { pc }, key = pc;
	size_t at;

	for (uint32_t i = 1; i < FRAMES_KEPT && i <= shadow_depth; i++) {
		pcs[i] = shadow_frames[(shadow_depth - i) % FRAMES_MAX];
		key = key * 31 + pcs[i];
	}
	for (at = hash(key, SITES_MAX); sites[at].pcs[0]; at = (at + 1) % SITES_MAX) {
		if (memcmp(sites[at].pcs, pcs, sizeof(pcs)) == 0)
			return &sites[at];
	}
	memcpy(sites[at].pcs, pcs, sizeof(pcs));
	return &sites[at];
}

void shadow_count(enum event event, double n, uintptr_t pc)
{
	if (!shadow_is_on)
		return;
	totals[event] += n;
	if (pc) {
		struct site *site = site_of(pc);

		site->counts[event] += n;
		site->address = address_now;
	}
}

void shadow_spend(double ns, uintptr_t pc)
{
	if (!shadow_is_on)
		return;
	*machine_clock() += ns;
	shadow_count(EVENT_REMOTE_NS, ns, pc);
}

void shadow_reset(void)
{
	memset(totals, 0, sizeof(totals));
	memset(sites, 0, SITES_MAX * sizeof(*sites));
}

double shadow_total(enum event event)
{
	return totals[event];
}

static bool is_within(uintptr_t address, const void *start, const void *end)
{
	return address >= (uintptr_t)start && address < (uintptr_t)end;
}

/* What lies at @address, in a word; of variables the address, which the program's symbols name. */
static void address_print(uintptr_t address)
{
	const char *heap = (const char *)heap_start, *heap_end = heap + heap_reserved_bytes;
	const char *areas_end = area_at(machine.nr_cpus);

	if (!address)
		printf(" -");
	else if (is_within(address, heap, heap_end))
		printf(" heap");
	else if (is_within(address, page_of(heap), page_of(heap_end)))
		printf(" descriptor+%zu",
		       (address - (uintptr_t)page_of(heap)) % sizeof(struct page));
	else if (is_within(address, percpu_areas.start, areas_end))
		printf(" area+%zu",
		       (address - (uintptr_t)percpu_areas.start) % percpu_areas.stride);
	else if (pagemap_owns((const void *)address))
		printf(" table");
	else
		printf(" %#lx", (unsigned long)address);
}

void shadow_sites_print(void)
{
	for (size_t at = 0; at < SITES_MAX; at++) {
		const struct site *site = &sites[at];

		if (!site->pcs[0])
			continue;
		printf("site");
		for (int i = 0; i < FRAMES_KEPT; i++)
			printf(" %lx", (unsigned long)site->pcs[i]);
		address_print(site->address);
		for (int i = 0; i < EVENT_NR; i++)
			printf(" %.1f", site->counts[i]);
		printf("\n");
	}
}

/* ---- lines ---- */

static bool line_is_held(const struct line *line, uint32_t cpu)
{
	return line->holders[cpu / 64] >> cpu % 64 & 1;
}

static bool line_is_held_by_others(const struct line *line, uint32_t cpu)
{
	for (uint32_t i = 0; i < CPUS_MAX / 64; i++) {
		uint64_t own = i == cpu / 64 ? 1ull << cpu % 64 : 0;

		if (line->holders[i] & ~own)
			return true;
	}
	return false;
}

static bool is_in_heap(uintptr_t address)
{
	return address - heap_start < heap_reserved_bytes;
}

/* The line comes from another CPU, after all who asked for it before. */
static void line_fetch(struct line *line, uintptr_t address, uintptr_t pc)
{
	bool is_far = line->owner && machine_node(line->owner - 1u) != machine_node(machine.cpu);
	double *clock = machine_clock(), asked = *clock, wait = 0;

	if (asked >= line->asked_ns && asked < line->free_ns)
		wait = line->free_ns - asked;
	shadow_spend(wait + (is_far ? NS_TRANSFER_FAR : NS_TRANSFER), pc);
	if (asked >= line->asked_ns)
		line->asked_ns = asked;
	if (line->free_ns < *clock)
		line->free_ns = *clock;
	if (wait > 0)
		shadow_count(EVENT_WAIT_NS, wait, pc);
	shadow_count(!pc ? EVENT_TRANSFER_PROGRAM :
		     is_in_heap(address) ? EVENT_TRANSFER_OBJECT : EVENT_TRANSFER, 1, pc);
}

static void line_access(uintptr_t address, enum access access, uintptr_t pc)
{
	struct line *line = line_of(address / LINE_BYTES);
	uint32_t cpu = machine.cpu;
	bool writes = access != ACCESS_READ;

	if (writes ? line_is_held_by_others(line, cpu) :
		     line->owner && !line_is_held(line, cpu))
		line_fetch(line, address, pc);
	if (writes) {
		memset(line->holders, 0, sizeof(line->holders));
		line->owner = (uint16_t)(cpu + 1);
	}
	line->holders[cpu / 64] |= 1ull << cpu % 64;
}

/* Has another CPU written the word, too? */
static bool word_is_shared(uintptr_t address)
{
	uint16_t *writer = &line_of(address / LINE_BYTES)->writers[address / 8 % WORDS];

	if (!*writer)
		*writer = (uint16_t)(machine.cpu + 1);
	else if (*writer != machine.cpu + 1)
		*writer = WRITER_MANY;
	return *writer == WRITER_MANY;
}

void shadow_access(uintptr_t address, size_t bytes, enum access access, uintptr_t pc)
{
	uintptr_t last = address + bytes - 1;

	if (!shadow_is_on || (address >= stack_low && address < stack_high) ||
	    (address >= storage_low && address < storage_high))
		return;
	address_now = address;
	*machine_clock() += access == ACCESS_RMW ? NS_RMW : NS_ACCESS;
	line_access(address, access, pc);
	for (uintptr_t at = address / LINE_BYTES + 1; at <= last / LINE_BYTES; at++)
		line_access(at * LINE_BYTES, access, pc);
	if (access == ACCESS_RMW)
		shadow_count(EVENT_RMW, 1, pc);
	if (access != ACCESS_READ && !is_in_heap(address) && word_is_shared(address))
		shadow_count(access == ACCESS_RMW ? EVENT_RMW_SHARED : EVENT_STORE_SHARED, 1, pc);
	address_now = 0;
}

/* Larger ones the program is taken to write to by and by. */
#define OBJECT_BYTES_MAX 256

void shadow_object(const void *object, size_t bytes)
{
	uintptr_t at = (uintptr_t)object;
	uintptr_t end = at + (bytes < OBJECT_BYTES_MAX ? bytes : OBJECT_BYTES_MAX);

	if (!shadow_is_on)
		return;
	for (at -= at % LINE_BYTES; at < end; at += LINE_BYTES)
		line_access(at, ACCESS_WRITE, 0);
}

/* ---- locks ---- */

static struct held *lock_of(uintptr_t lock)
{
	size_t at = hash(lock, LOCKS_MAX);

	while (locks[at].lock && locks[at].lock != lock)
		at = (at + 1) % LOCKS_MAX;
	locks[at].lock = lock;
	return &locks[at];
}

/*
 * It is free, for the operation that had it last is over.  By the clocks that may not be so: who
 * comes after the last one began to wait, and before that one let go, waits until then.  One that
 * comes earlier than the last one came would have had it before, and does not wait.
 */
void lock_take(uintptr_t lock, uintptr_t pc)
{
	double *clock = machine_clock(), asked = *clock;
	struct held *held;

	if (!shadow_is_on)
		return;
	held = lock_of(lock);
	address_now = lock;
	shadow_count(EVENT_LOCK, 1, pc);
	if (held->owner && held->owner != machine.cpu + 1)
		shadow_count(EVENT_LOCK_MOVED, 1, pc);
	if (asked >= held->asked_ns && asked < held->free_ns) {
		shadow_count(EVENT_LOCK_WAIT, 1, pc);
		shadow_count(EVENT_WAIT_NS, held->free_ns - asked, pc);
		shadow_spend(held->free_ns - asked, pc);
	}
	if (asked >= held->asked_ns)
		held->asked_ns = asked;
	held->owner = machine.cpu + 1;
	address_now = 0;
}

void lock_give(uintptr_t lock)
{
	struct held *held;

	if (!shadow_is_on)
		return;
	held = lock_of(lock);
	if (held->free_ns < *machine_clock())
		held->free_ns = *machine_clock();
}
