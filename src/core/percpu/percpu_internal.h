/* SPDX-License-Identifier: MIT */
/* What the files of percpu share with each other only. */
#ifndef SLUB_PERCPU_INTERNAL_H
#define SLUB_PERCPU_INTERNAL_H

#include "core/percpu/percpu.h"

/* @operation_ again and again, while it is @aborted_; then @result_ of `found`, or 0. */
#define RSEQ_OPERATION(type_, name_, arguments_, found_, operation_, aborted_, result_)	\
static type_ list_##name_##_rseq arguments_				\
{									\
	for (int i = 0; i < ABORTS_MAX; i++) {				\
		found_ found;						\
									\
		if (inject_fails(INJECT_abort))				\
			continue;					\
		found = operation_;					\
		if (likely(found != aborted_))				\
			return result_;					\
	}								\
	return 0;							\
}

/* The dummy table, with what a table has before its first entry. */
struct dummy_table {
	void *none[TABLE_NONE];
	void *base[AREAS_MAX];
};
extern struct dummy_table percpu_dummy;
#define slub_dummy_base (percpu_dummy.base)

extern const struct slot percpu_no_area;

/* Keeps this thread off all sequences, until something gives it its table back. */
void percpu_leave(void);
/* This thread is registered with the kernel: sequences may run in it. */
void percpu_thread_open(void);
/* The library registers each thread with the kernel, for the C library does not. */
extern bool percpu_registers;
/* Makes the area of CPU number @cid and names it in the table. */
void percpu_area_make(uint32_t cid);
/* Makes percpu_copies() of it; NULL: there is no memory, or no such CPU. */
char *percpu_copies_make(uint32_t cid);
/* Points CPU number @cid at @area; NULL: at the dummy area. */
void percpu_base_set(uint32_t cid, char *area);
/* allocator.c: memory of programs ends at @area_end. */
int percpu_alloc_init(size_t area_end);
void percpu_alloc_exit(void);
/* An area has memory from the start of each part on, as far as it is needed; core/arch/slot.h. */
enum area_part {
	PART_FIRST,		/* near slots, and what programs get first */
	PART_FAR,		/* far slots */
	PART_MORE,		/* what else programs get */
	AREA_PARTS,
};
/* area.c, under area_lock: makes @part of every area usable up to @end.  0 or -errno. */
int percpu_commit(enum area_part part, size_t end);
size_t percpu_part_end(enum area_part part);
/* tid.c: percpu_pop() and its like under that backend */
void *list_pop_tid(uint32_t slot, uintptr_t link);
bool list_push_tid(uint32_t slot, void *object, uintptr_t link);
void *list_take_tid(uint32_t half, int64_t room);
bool list_put_tid(uint32_t half, void *chain, int64_t room);
bool percpu_tid_push(uint32_t list, void *object, int32_t least);
/* What lies in any CPU's @area. */
void percpu_tid_collect(char *area, struct collection *collection);

/* Backends thread and lock: the caller's area, its own until it leaves; NULL: there is none. */
void *percpu_area_enter(void);
void percpu_area_leave(void *area);

/*
 * Backends tid and lock: where a thread finds its CPU number, from the thread
 * pointer; a number beyond all areas where the kernel keeps none for it.
 */
extern uintptr_t percpu_hint_offset SLUB_INTERNAL;

/* The CPU number of the caller for the backends tid and lock: a hint only. */
static always_inline uint32_t percpu_cpu_read(void)
{
	uint32_t cpu;

	if (!SLUB_CONFIG_SMP)
		return 0;
	cpu = *(volatile uint32_t *)((char *)__builtin_thread_pointer() +
				     percpu_hint_offset);
	return likely(cpu < AREAS_MAX) ? cpu : os_cpu_current() % AREAS_MAX;
}

/* The same, or for backend thread the thread's own number. */
static inline uint32_t percpu_cpu_hint(void)
{
	if (percpu_backend == BACKEND_THREAD)
		return slub_thread.number ? slub_thread.number - 1 : AREAS_MAX;
	return percpu_cpu_read();
}

/* Backend rseq: the number of the CPU this thread is on, for the moment. */
uint32_t percpu_cid(void);
/* In a forked child only the calling thread has a number. */
void percpu_numbers_after_fork(void);
/* In a forked child: a key that another thread was making is still to be made. */
void percpu_key_after_fork(void);

/*
 * An area's slot 0 keeps what belongs to the area as a whole in the spare's
 * head word, which no sequence takes for a list: the lock (backend lock), the
 * address of the owner's busy word (backend thread) or the key (backend rseq).
 */
static inline struct lock *area_own_lock(char *area)
{
	return (struct lock *)(area + SLOT_SPARE);
}

static inline _Atomic uint32_t **area_owner_busy(char *area)
{
	return (_Atomic uint32_t **)(area + SLOT_SPARE);
}

#endif
