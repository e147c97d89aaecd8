/* SPDX-License-Identifier: MIT */
/*
 * scale-timed WORK CPUS STEPS: a loop of work.c on as many CPUs of this machine, a thread on each,
 * under any malloc.  Prints the nanoseconds of a thread's CPU time for each call, in the median of
 * the threads: threads that disturb each other spend more of it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "scale.h"

uint32_t nr_threads;

static const struct work *work;
static uint64_t nr_steps;
static pthread_barrier_t all;
static double spent_ns[CPUS_MAX];
/* Those this process may use. */
static uint32_t cpus[CPU_SETSIZE], nr_cpus;

void *own_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	return memory;
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void steps_do(struct thread *thread)
{
	for (uint64_t i = 0; i < nr_steps; i++) {
		struct step step;

		work->next(thread, &step);
		if (step.kind == STEP_FREE) {
			free(objects[step.place]);
			objects[step.place] = NULL;
			continue;
		}
		objects[step.place] = malloc(step.bytes);
		*(volatile char *)objects[step.place] = 1;
	}
}

static void *run(void *number)
{
	struct thread thread = { .number = (uint32_t)(uintptr_t)number };
	cpu_set_t set;
	double began;

	CPU_ZERO(&set);
	CPU_SET(cpus[thread.number], &set);
	sched_setaffinity(0, sizeof(set), &set);
	thread.seed = (thread.number + 1) * 0x9e3779b97f4a7c15u;
	steps_do(&thread);
	pthread_barrier_wait(&all);
	began = now_ns();
	steps_do(&thread);
	spent_ns[thread.number] = now_ns() - began;
	pthread_barrier_wait(&all);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void cpus_read(void)
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[nr_cpus++] = cpu;
	}
}

int main(int argc, char **argv)
{
	static pthread_t threads[CPUS_MAX];

	cpus_read();
	work = argc == 4 ? work_find(argv[1]) : NULL;
	nr_threads = work ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	nr_steps = work ? strtoull(argv[3], NULL, 10) : 0;
	if (!nr_threads || nr_threads > nr_cpus || nr_threads > CPUS_MAX || !nr_steps ||
	    work->shares || work->nr_threads || !work->begin(nr_threads)) {
		dprintf(2, "scale-timed WORK CPUS STEPS: a loop without shared objects, and no "
			"more than %u CPUs\n", nr_cpus);
		return 2;
	}
	pthread_barrier_init(&all, NULL, nr_threads);
	for (uintptr_t i = 0; i < nr_threads; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (uint32_t i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	qsort(spent_ns, nr_threads, sizeof(*spent_ns), compare);
	printf("%.2f\n", spent_ns[nr_threads / 2] / (double)nr_steps);
	return 0;
}
