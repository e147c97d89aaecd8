/* SPDX-License-Identifier: MIT */
/* The kernel's names of per-CPU memory; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_PERCPU_H
#define SLUB_INCLUDE_KERNEL_PERCPU_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/*
 * A pointer to per-CPU memory is the offset, in the disguise of a pointer to its
 * type: members are named as ever, &p->member, and nothing may be read through
 * it but by the macros below.
 */
#define __percpu

/*
 * In words of eight bytes, for the operations on smaller types work on the word
 * around them; slub_percpu_alloc() itself packs to four bytes.
 */
static inline uintptr_t slub_kernel_alloc_percpu(size_t size, size_t align)
{
	return slub_percpu_alloc((size + 7) & ~(size_t)7,
				 align < 8 ? 8 : align);
}

#define __alloc_percpu(size, align)					\
	((void *)slub_kernel_alloc_percpu(size, align))
#define __alloc_percpu_gfp(size, align, gfp) __alloc_percpu(size, align)
#define alloc_percpu(type)						\
	((__typeof__(type) *)slub_kernel_alloc_percpu(			\
		sizeof(type), __alignof__(type)))
#define alloc_percpu_gfp(type, gfp) alloc_percpu(type)
#define free_percpu(p) ((void)slub_percpu_free((uintptr_t)(p)))
#define per_cpu_ptr(p, cpu)						\
	((__typeof__(p))slub_percpu_ptr((uintptr_t)(p), (unsigned int)(cpu)))
#define num_possible_cpus() slub_percpu_cpus()
#define nr_cpu_ids slub_percpu_cpus()
/* Every CPU whose copy is not all zero, and the copy that threads share. */
#define for_each_possible_cpu(cpu)					\
	for ((cpu) = slub_percpu_next(-1); (int)(cpu) >= 0;		\
	     (cpu) = slub_percpu_next((int)(cpu)))
#define for_each_online_cpu(cpu) for_each_possible_cpu(cpu)

enum slub_kernel_op {
	SLUB_KERNEL_ADD,
	SLUB_KERNEL_AND,
	SLUB_KERNEL_OR,
	SLUB_KERNEL_SET,
	SLUB_KERNEL_SET_IF,
};

/* A value of 1, 2, 4 or 8 bytes within a word of eight. */
struct slub_kernel_part {
	uintptr_t word;
	unsigned int shift;
	uint64_t mask;		/* of the value, not shifted */
};

static inline struct slub_kernel_part slub_kernel_part(uintptr_t offset,
							size_t size)
{
	struct slub_kernel_part part = {
		offset & ~(uintptr_t)7, (unsigned int)(offset & 7) * 8,
		size >= 8 ? ~(uint64_t)0 :
			    ((uint64_t)1 << (size & 7) * 8) - 1,
	};

	return part;
}

static inline uint64_t slub_kernel_read(uintptr_t offset, size_t size)
{
	struct slub_kernel_part part = slub_kernel_part(offset, size);

	return (uint64_t)slub_percpu_read(part.word) >> part.shift & part.mask;
}

static inline uint64_t slub_kernel_apply(enum slub_kernel_op op,
					 uint64_t now, uint64_t n)
{
	switch (op) {
	case SLUB_KERNEL_ADD:
		return now + n;
	case SLUB_KERNEL_AND:
		return now & n;
	case SLUB_KERNEL_OR:
		return now | n;
	default:
		return n;
	}
}

/* Changes a value of this CPU; returns what it was.  @old: for SET_IF only. */
static inline uint64_t slub_kernel_update(uintptr_t offset, size_t size,
					  enum slub_kernel_op op, uint64_t n,
					  uint64_t old)
{
	struct slub_kernel_part part = slub_kernel_part(offset, size);
	uint64_t word = (uint64_t)slub_percpu_read(part.word);

	for (;;) {
		uint64_t now = word >> part.shift & part.mask, to, found;

		if (op == SLUB_KERNEL_SET_IF && now != (old & part.mask))
			return now;
		to = slub_kernel_apply(op, now, n) & part.mask;
		to = (word & ~(part.mask << part.shift)) | to << part.shift;
		found = (uint64_t)slub_percpu_cmpxchg(
			part.word, (int64_t)word, (int64_t)to);
		if (found == word)
			return now;
		word = found;
	}
}

static inline void slub_kernel_add(uintptr_t offset, size_t size, int64_t n)
{
	if (size == 8)
		slub_percpu_add(offset, n);
	else if (size == 4)
		slub_percpu_add32(offset, (int32_t)n);
	else
		slub_kernel_update(offset, size, SLUB_KERNEL_ADD, (uint64_t)n,
				   0);
}

static inline uint64_t slub_kernel_add_return(uintptr_t offset, size_t size,
					      int64_t n)
{
	if (size == 8)
		return (uint64_t)slub_percpu_add_return(offset, n);
	return slub_kernel_update(offset, size, SLUB_KERNEL_ADD, (uint64_t)n,
				  0) + (uint64_t)n;
}

#define SLUB_KERNEL_VALUE(v, value) ((__typeof__(v))(uintptr_t)(value))
#define SLUB_KERNEL_BITS(n) ((uint64_t)(uintptr_t)(n))

/* @v: an lvalue of 1, 2, 4 or 8 bytes, as in this_cpu_inc(stats->packets). */
#define this_cpu_add(v, n)						\
	slub_kernel_add((uintptr_t)&(v), sizeof(v), (int64_t)(n))
#define this_cpu_sub(v, n) this_cpu_add(v, -(int64_t)(n))
#define this_cpu_inc(v) this_cpu_add(v, 1)
#define this_cpu_dec(v) this_cpu_add(v, -1)
#define this_cpu_read(v)						\
	SLUB_KERNEL_VALUE(v, slub_kernel_read((uintptr_t)&(v), sizeof(v)))
#define this_cpu_add_return(v, n)					\
	SLUB_KERNEL_VALUE(v, slub_kernel_add_return(			\
		(uintptr_t)&(v), sizeof(v), (int64_t)(n)))
#define this_cpu_sub_return(v, n) this_cpu_add_return(v, -(int64_t)(n))
#define this_cpu_inc_return(v) this_cpu_add_return(v, 1)
#define this_cpu_dec_return(v) this_cpu_add_return(v, -1)
#define SLUB_KERNEL_UPDATE(v, op, n, old)				\
	slub_kernel_update((uintptr_t)&(v), sizeof(v), op,		\
			   SLUB_KERNEL_BITS(n), SLUB_KERNEL_BITS(old))
#define this_cpu_write(v, n) \
	((void)SLUB_KERNEL_UPDATE(v, SLUB_KERNEL_SET, n, 0))
#define this_cpu_and(v, n) ((void)SLUB_KERNEL_UPDATE(v, SLUB_KERNEL_AND, n, 0))
#define this_cpu_or(v, n) ((void)SLUB_KERNEL_UPDATE(v, SLUB_KERNEL_OR, n, 0))
#define this_cpu_xchg(v, n) \
	SLUB_KERNEL_VALUE(v, SLUB_KERNEL_UPDATE(v, SLUB_KERNEL_SET, n, 0))
#define this_cpu_cmpxchg(v, old, n)					\
	SLUB_KERNEL_VALUE(v,						\
			  SLUB_KERNEL_UPDATE(v, SLUB_KERNEL_SET_IF, n, old))

/* The kernel's variants for callers that cannot be preempted: the same. */
#define raw_cpu_add this_cpu_add
#define raw_cpu_sub this_cpu_sub
#define raw_cpu_inc this_cpu_inc
#define raw_cpu_dec this_cpu_dec
#define raw_cpu_read this_cpu_read
#define raw_cpu_write this_cpu_write
#define raw_cpu_add_return this_cpu_add_return
#define raw_cpu_xchg this_cpu_xchg
#define raw_cpu_cmpxchg this_cpu_cmpxchg
#define __this_cpu_add this_cpu_add
#define __this_cpu_sub this_cpu_sub
#define __this_cpu_inc this_cpu_inc
#define __this_cpu_dec this_cpu_dec
#define __this_cpu_read this_cpu_read
#define __this_cpu_write this_cpu_write
#define __this_cpu_add_return this_cpu_add_return
#define __this_cpu_xchg this_cpu_xchg
#define __this_cpu_cmpxchg this_cpu_cmpxchg

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
