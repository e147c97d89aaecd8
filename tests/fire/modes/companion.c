/* SPDX-License-Identifier: MIT */
/*
 * A library preloaded into a program that knows nothing of it, to run it in
 * mode E, F or G (FIRE_COMPANION_MODE):
 *
 *	E  each use of a mutex and each sched_yield() runs a critical section of
 *	   this library's own, which stays the thread's current one
 *	F  a thread ends its registration for rseq before it runs anything else,
 *	   as if raw clone() had made it; the first thread keeps its own
 *	G  getauxval() knows nothing of rseq, as before Linux 6.3: who looks there
 *	   for mm_cid finds that there is none
 */
#include "modes/own_section.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIGNATURE RSEQ_SIG

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

static struct own_counter counters[OWN_CPUS];
static char mode;

__attribute__((constructor)) static void choose(void)
{
	const char *wanted = getenv("FIRE_COMPANION_MODE");

	mode = wanted ? wanted[0] : 0;
}

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	return found;
}

static void live_section(void)
{
	/* A thread of raw clone() has none; its cpu_id is not a CPU's. */
	if (mode == 'E' && __rseq_size && (int)own_rseq()->cpu_id >= 0)
		own_section(counters);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t *);

	if (!real)
		real = next("pthread_mutex_lock");
	live_section();
	return real(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t *);
	int result;

	if (!real)
		real = next("pthread_mutex_unlock");
	result = real(mutex);
	live_section();
	return result;
}

int sched_yield(void)
{
	live_section();
	return (int)syscall(SYS_sched_yield);
}

/* -- mode G --------------------------------------------------------------- */

/* Called before anything here is initialised, by ld.so and by libraries. */
unsigned long getauxval(unsigned long type)
{
	static unsigned long vector[128];
	const char *wanted = getenv("FIRE_COMPANION_MODE");

	if (type == AT_RSEQ_FEATURE_SIZE && wanted && wanted[0] == 'G') {
		errno = ENOENT;
		return 0;
	}
	if (!vector[0]) {
		int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/auxv",
					O_RDONLY);

		if (syscall(SYS_read, file, vector, sizeof(vector)) <= 0)
			abort();
		syscall(SYS_close, file);
	}
	for (int i = 0; vector[i]; i += 2)
		if (vector[i] == type)
			return vector[i + 1];
	errno = ENOENT;
	return 0;
}

/* -- mode F --------------------------------------------------------------- */

struct start {
	void *(*function)(void *);
	void *argument;
};

static void unregister(void)
{
	unsigned long sizes[] = { 32, __rseq_size,
				  getauxval(AT_RSEQ_FEATURE_SIZE) };

	if (!__rseq_size)
		return;
	for (int i = 0; i < 3; i++)
		if (!syscall(SYS_rseq, own_rseq(), sizes[i],
			     RSEQ_FLAG_UNREGISTER, SIGNATURE))
			return;
	fprintf(stderr, "mode F: rseq: %s\n", strerror(errno));
	abort();
}

static void *begin(void *argument)
{
	struct start start = *(struct start *)argument;

	unregister();
	free(argument);
	return start.function(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
		   void *(*function)(void *), void *argument)
{
	static int (*real)(pthread_t *, const pthread_attr_t *,
			   void *(*)(void *), void *);
	struct start *start;
	int result;

	if (!real)
		real = next("pthread_create");
	if (mode != 'F')
		return real(thread, attributes, function, argument);
	start = malloc(sizeof(*start));
	if (!start)
		return EAGAIN;
	*start = (struct start){ function, argument };
	result = real(thread, attributes, begin, start);
	if (result)
		free(start);
	return result;
}
