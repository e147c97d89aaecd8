/* SPDX-License-Identifier: MIT */
/*
 * A library to be preloaded that writes down what a program asks malloc for, in which thread and
 * in which order: SCALE_TRACE names the file, SCALE_STEPS how many calls of each thread (20,000),
 * SCALE_RECORDS how many in all (4,000,000).  glibc's malloc does the work.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t nr, size_t bytes);
extern void *__libc_realloc(void *object, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *object);

static struct record_head *head;
static struct record *records;
static uint64_t steps_max = 20000, threads_wanted;

#define YIELD_STEPS 32
/* A thread that is waited for may wait for one that waits here. */
#define WAITS_MAX 2000

/* 1 + the thread's number; of those beyond all numbers nothing is written. */
static __thread uint64_t self __attribute__((tls_model("initial-exec")));
static __thread uint64_t steps __attribute__((tls_model("initial-exec")));

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* A child goes on without. */
static void stop(void)
{
	head = NULL;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("SCALE_TRACE");
	uint64_t nr = number("SCALE_RECORDS", 4000000);
	size_t bytes = sizeof(*head) + nr * sizeof(*records);
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	void *file;

	/* What it starts is not recorded into the same file. */
	unsetenv("SCALE_TRACE");
	unsetenv("LD_PRELOAD");
	if (fd < 0)
		return;
	file = ftruncate(fd, (off_t)bytes) ? MAP_FAILED :
	       mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	pthread_atfork(NULL, NULL, stop);
	steps_max = number("SCALE_STEPS", steps_max);
	threads_wanted = number("SCALE_THREADS", 0);
	records = (struct record *)((struct record_head *)file + 1);
	((struct record_head *)file)->magic = RECORD_MAGIC;
	((struct record_head *)file)->nr_max = nr;
	__atomic_store_n(&head, file, __ATOMIC_RELEASE);
}

/* The process's first thread starts the others. */
static void wait_for_others(struct record_head *to)
{
	if (self < 2)
		return;
	for (int i = 0; i < WAITS_MAX; i++) {
		if (__atomic_load_n(&to->nr_threads, __ATOMIC_RELAXED) > threads_wanted)
			return;
		usleep(100);
	}
}

static void note(enum record_kind kind, const void *address, size_t bytes)
{
	struct record_head *to = __atomic_load_n(&head, __ATOMIC_ACQUIRE);
	uint64_t at;

	if (!to || !address || steps >= steps_max)
		return;
	if (!self)
		self = 1 + __atomic_fetch_add(&to->nr_threads, 1, __ATOMIC_RELAXED);
	else if (steps == 1)
		wait_for_others(to);
	if (self > RECORD_THREADS)
		return;
	at = __atomic_fetch_add(&to->nr, 1, __ATOMIC_RELAXED);
	if (at >= to->nr_max)
		return;
	steps += kind != RECORD_RESIZED;
	records[at].address = (uintptr_t)address;
	records[at].bytes = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
	records[at].thread = (uint16_t)(self - 1);
	__atomic_store_n(&records[at].kind, (uint16_t)kind, __ATOMIC_RELEASE);
	if (steps % YIELD_STEPS == 0)
		sched_yield();
}

void *malloc(size_t bytes)
{
	void *object = __libc_malloc(bytes);

	note(RECORD_ALLOC, object, bytes);
	return object;
}

void free(void *object)
{
	note(RECORD_FREE, object, 0);
	__libc_free(object);
}

void *calloc(size_t nr, size_t bytes)
{
	void *object = __libc_calloc(nr, bytes);

	note(RECORD_ALLOC, object, nr * bytes);
	return object;
}

void *realloc(void *object, size_t bytes)
{
	void *moved;

	note(RECORD_RESIZE, object, bytes);
	moved = __libc_realloc(object, bytes);
	note(object ? RECORD_RESIZED : RECORD_ALLOC, moved, bytes);
	return moved;
}

void *memalign(size_t align, size_t bytes)
{
	void *object = __libc_memalign(align, bytes);

	note(RECORD_ALLOC, object, bytes);
	return object;
}

void *aligned_alloc(size_t align, size_t bytes)
{
	return memalign(align, bytes);
}

int posix_memalign(void **object, size_t align, size_t bytes)
{
	void *found;

	if (align < sizeof(void *) || (align & (align - 1)))
		return EINVAL;
	found = memalign(align, bytes);
	if (found)
		*object = found;
	return found ? 0 : ENOMEM;
}
