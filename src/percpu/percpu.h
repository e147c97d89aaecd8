/* SPDX-License-Identifier: MIT */
/*
 * percpu: an area of slots for each CPU, and the lists in them.
 *
 *   area     one CPU's slots; all areas have the same size, and a slot has the
 *            same offset in each
 *   base     slub_cpu_base[cid], the area of CPU number cid, or the dummy area
 *            while there is none or the CPU is stopped
 *   backend  how a list operation is protected (SLUB_FASTPATH)
 *
 * Invariants:
 *   AREA-1  a base entry names the CPU's own area or the dummy area;
 *   AREA-2  the dummy area is all zero and never written;
 *   AREA-3  who works on an area from outside has stopped its CPU and holds
 *           area_lock (backends rseq and thread), or uses the same atomic
 *           operations as everybody (tid), or holds the area's lock (lock).
 */
#ifndef SLUB_PERCPU_H
#define SLUB_PERCPU_H

#include "os/os.h"

enum backend {
	BACKEND_NONE,
	BACKEND_RSEQ,
	BACKEND_THREAD,
	BACKEND_TID,
	BACKEND_LOCK,
};

enum cpu_number {
	CPU_NUMBER_NONE,
	CPU_NUMBER_MM_CID,
	CPU_NUMBER_CPU_ID,
	CPU_NUMBER_THREAD,
	CPU_NUMBER_GETCPU,
};

/* CPU numbers a table can hold; the kernel's own limit on x86-64. */
#define AREAS_MAX 8192
/* Bytes of an area: what a 16-bit slot offset can reach. */
#define AREA_BYTES 65536

/* const after start */
extern enum backend percpu_backend;
extern enum cpu_number percpu_cpu_number;
extern bool percpu_can_stop;	/* another CPU's area can be drained */
extern uint32_t percpu_nr_areas;

extern struct lock area_lock;

/* area.c */
/*
 * Prepares the tables; @areas is committed part by part, at most @nr areas.
 * @collect is one more area, see percpu_collect().
 */
void percpu_init(char *areas, uint32_t nr, char *collect);
/* Chooses the backend; the fast path may run from here on. */
void percpu_start(const struct os_cpus *cpus);
/* The area of CPU number @cid if it has been made, else NULL. */
char *percpu_area(uint32_t cid);
/* One past the highest CPU number that has an area. */
uint32_t percpu_areas_end(void);
uint32_t percpu_alloc_slots(uint32_t nr);
uint32_t percpu_slots_end(void);

/*
 * Called in every slow path, with no lock held: gives this thread its
 * registration or number, and its CPU an area.  After it, a list operation
 * fails only for a reason that lies in the list.
 */
void percpu_enter(void);

/* list.c: the operations, on the area of the CPU the caller is on */
void *percpu_pop(uint32_t slot, uintptr_t bias);
bool percpu_push(uint32_t slot, void *object, uintptr_t bias);
/* @half is a slot's offset, plus SLOT_SPARE for the spare list. */
void *percpu_take(uint32_t half, int32_t room);
bool percpu_put(uint32_t half, void *chain, int32_t room);

/* collect.c: emptying the lists of any CPU */
/*
 * Moves the lists of CPU number @cid into the collection area and returns it;
 * NULL where there is nothing to do or it cannot be done.  Between
 * percpu_collect_begin(), which fails while another thread is at it, and
 * percpu_collect_end().
 */
bool percpu_collect_begin(void);
struct slot *percpu_collect(uint32_t cid);
void percpu_collect_end(void);

/* thread.c */
void percpu_thread_init(void);
/*
 * Around the making of a child that shares this thread's TLS: keeps both off
 * the fast path; what has to be restored goes to @saved.
 */
void percpu_share(uintptr_t saved[2]) SLUB_INTERNAL;
void percpu_unshare(const uintptr_t saved[2]);
void percpu_fork_prepare(void);
void percpu_fork_finish(bool in_child);

#endif
