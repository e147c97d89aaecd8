/* SPDX-License-Identifier: MIT */
/*
 * What per-CPU objects were before cpu_alloc: for each object an array of pointers, indexed by
 * CPU, each to a block of its own. (allocpercpu; here on malloc.)
 */
#ifndef ORIG_POINTER_ARRAY_H
#define ORIG_POINTER_ARRAY_H

#include "orig.h"

#include <malloc.h>
#include <sched.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

struct pointer_array {
	void *object[1];	/* one per CPU */
};

/* Room for @cpus, of which the first @used have an object. */
static inline struct pointer_array *pointer_array_create_sparse(unsigned int cpus,
								unsigned int used, size_t size)
{
	struct pointer_array *array = bench_malloc(cpus * sizeof(void *));

	memset(array, 0, cpus * sizeof(void *));
	for (unsigned int cpu = 0; cpu < used; cpu++) {
		array->object[cpu] = bench_malloc(size);
		memset(array->object[cpu], 0, size);
	}
	return array;
}

static inline struct pointer_array *pointer_array_create(unsigned int cpus, size_t size)
{
	return pointer_array_create_sparse(cpus, cpus, size);
}

static inline void pointer_array_destroy(struct pointer_array *array, unsigned int cpus)
{
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		free(array->object[cpu]);
	free(array);
}

/* What malloc gave for it. */
static inline size_t pointer_array_bytes(struct pointer_array *array, unsigned int cpus)
{
	size_t bytes = malloc_usable_size(array);

	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		bytes += malloc_usable_size(array->object[cpu]);
	return bytes;
}

/* smp_processor_id(): a load where the kernel keeps it in the thread's rseq area. */
static inline unsigned int pointer_array_cpu(void)
{
#ifdef RSEQ_SIG
	const struct rseq *rseq =
		(const void *)((const char *)__builtin_thread_pointer() + __rseq_offset);

	if (__rseq_size)
		return *(const volatile uint32_t *)&rseq->cpu_id_start;
#endif
	return (unsigned int)sched_getcpu();
}

#endif
