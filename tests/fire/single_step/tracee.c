/* SPDX-License-Identifier: MIT */
/*
 * The tracee of single_step: rounds of work that take every list operation of
 * the library, each round checked and ended by a breakpoint instruction, at
 * which the tracer takes over.
 */
#include "single_step/cpu.h"
#include "single_step/step.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define CHILD_SECONDS 20

struct object {
	void *start;
	size_t size;
	uint64_t id;
};

static struct step_shared *shared;
static uint64_t next_id = 1;
static unsigned int most = STEP_BULK;	/* objects of a size at once */
static cpu_set_t allowed;

/* C++ operators and C23's functions, where the malloc in use has them. */
extern void *_Znwm(size_t) __attribute__((weak));
extern void *_Znam(size_t) __attribute__((weak));
extern void *_ZnwmSt11align_val_t(size_t, size_t) __attribute__((weak));
extern void *_ZnwmRKSt9nothrow_t(size_t, const void *) __attribute__((weak));
extern void *_ZnamRKSt9nothrow_t(size_t, const void *) __attribute__((weak));
extern void _ZdlPv(void *) __attribute__((weak));
extern void _ZdaPv(void *) __attribute__((weak));
extern void _ZdlPvm(void *, size_t) __attribute__((weak));
extern void _ZdaPvm(void *, size_t) __attribute__((weak));
extern void free_sized(void *, size_t) __attribute__((weak));
extern void cfree(void *) __attribute__((weak));

/* In the program that links the library, api_work.c. */
extern void step_api_start(void) __attribute__((weak));
extern void step_api_round(unsigned int round) __attribute__((weak));
extern void step_api_handler(void) __attribute__((weak));
extern void step_api_rival(void) __attribute__((weak));

static const size_t sizes[] = {
	8, 16, 24, 48, 64, 100, 200, 500, 1024, 2000, 4096, 8192, 12000,
	16384, 32768, 65536, 131072, 300000,
};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct object keep(void *start, size_t size)
{
	struct object made = { start, size, next_id++ };

	if (!start)
		fire_fail("%zu bytes: %s", size, strerror(errno));
	fire_stamp(start, size, made.id);
	atomic_fetch_add_explicit(&shared->objects, 1, memory_order_relaxed);
	return made;
}

static void check(struct object *object)
{
	fire_unstamp(object->start, object->size, object->id, "tracee");
}

static void drop(struct object *object)
{
	check(object);
	free(object->start);
}

/* More than one chain of each size: main, spare and barn come into it. */
static void bulk(size_t size, unsigned int count)
{
	static struct object objects[STEP_BULK];

	for (unsigned int i = 0; i < count; i++)
		objects[i] = keep(malloc(size), size);
	for (unsigned int i = 0; i < count; i++)
		drop(&objects[i]);
}

/*
 * Each free is of another slab than the one before: past the lists of the CPU, to the local lists
 * of slabs, of which most become whole.  Half come again first.
 */
static void scattered(size_t size, unsigned int count)
{
	static struct object objects[STEP_BULK];
	/* Prime, and more than a slab has. */
	const unsigned int stride = 179;

	for (unsigned int i = 0; i < count; i++)
		objects[i] = keep(malloc(size), size);
	for (unsigned int i = 0; i < count / 2; i++)
		drop(&objects[i * stride % count]);
	for (unsigned int i = 0; i < count / 2; i++)
		objects[i * stride % count] = keep(malloc(size), size);
	for (unsigned int i = 0; i < count; i++)
		drop(&objects[i * stride % count]);
}

static void few_of_each(void)
{
	struct object objects[3 * SIZES];

	for (unsigned int i = 0; i < 3 * SIZES; i++)
		objects[i] = keep(malloc(sizes[i % SIZES]), sizes[i % SIZES]);
	for (unsigned int i = 0; i < 3 * SIZES; i++)
		drop(&objects[i]);
}

static void the_other_calls(size_t size)
{
	struct object one = keep(calloc(1, size), size);
	void *aligned;

	check(&one);
	one = keep(realloc(one.start, size * 2), size * 2);
	check(&one);
	one = keep(realloc(one.start, size), size);
	check(&one);
	one = keep(reallocarray(one.start, 3, size), 3 * size);
	drop(&one);
	one = keep(memalign(64, size), size);
	drop(&one);
	one = keep(aligned_alloc(256, size), size);
	drop(&one);
	/* Classes of a page or more have a sequence of their own. */
	one = keep(aligned_alloc(4096, 5000), 5000);
	drop(&one);
	if (posix_memalign(&aligned, 512, size))
		fire_fail("posix_memalign");
	one = keep(aligned, size);
	drop(&one);
	if (free_sized) {
		one = keep(malloc(size), size);
		check(&one);
		free_sized(one.start, size);
	}
}

static void the_operators(size_t size)
{
	static const char nothrow;
	struct object one;

	if (!_Znwm || !_ZdlPv)
		return;
	one = keep(_Znwm(size), size);
	check(&one);
	_ZdlPv(one.start);
	one = keep(_Znam(size), size);
	check(&one);
	_ZdaPv(one.start);
	one = keep(_Znwm(size), size);
	check(&one);
	_ZdlPvm(one.start, size);
	one = keep(_Znam(size), size);
	check(&one);
	_ZdaPvm(one.start, size);
	one = keep(_ZnwmRKSt9nothrow_t(size, &nothrow), size);
	check(&one);
	_ZdlPv(one.start);
	one = keep(_ZnamRKSt9nothrow_t(size, &nothrow), size);
	check(&one);
	_ZdaPv(one.start);
	one = keep(_ZnwmSt11align_val_t(size, 64), size);
	drop(&one);
}

static void on_malloc_signal(int signal)
{
	void *objects[40];

	(void)signal;
	for (unsigned int i = 0; i < 40; i++) {
		objects[i] = malloc(sizes[i % 12]);
		if (!objects[i])
			fire_fail("malloc in a signal handler: NULL");
		memset(objects[i], 0xee, sizes[i % 12]);
	}
	for (unsigned int i = 0; i < 40; i++)
		free(objects[i]);
	if (step_api_handler)
		step_api_handler();
	atomic_fetch_add(&shared->handled, 1);
}

static void fork_once(const char *where)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		fire_fail("fork %s: %s", where, strerror(errno));
	if (!child) {
		for (unsigned int i = 0; i < 200; i++) {
			void *one = malloc(sizes[i % SIZES]);

			memset(one, 0xff, sizes[i % SIZES]);
			free(one);
		}
		malloc_trim(0);
		_exit(0);
	}
	status = fire_wait(child, CHILD_SECONDS);
	if (status)
		fire_fail("fork %s: the child %s, status %#x", where,
			  status == -1 ? "hung" : "failed", status);
	atomic_fetch_add(&shared->forked, 1);
}

static void on_fork_signal(int signal)
{
	(void)signal;
	fork_once("in a handler");
	atomic_fetch_add(&shared->handled, 1);
}

static void rival_allocates(int cpu)
{
	static void *objects[STEP_BULK];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (unsigned int i = 0; i < most; i++) {
		objects[i] = malloc(sizes[i % 13]);
		if (!objects[i])
			fire_fail("rival: malloc gave NULL");
		memset(objects[i], 0xcc, sizes[i % 13]);
	}
	for (unsigned int i = 0; i < most; i++)
		free(objects[i]);
	if (step_api_rival)
		step_api_rival();
}

static void *rival(void *unused)
{
	while (!sem_wait(&shared->asked) || errno == EINTR) {
		switch (shared->task) {
		case RIVAL_ALLOCATE:
			rival_allocates(shared->cpu);
			break;
		case RIVAL_TRIM:
			malloc_trim(0);
			break;
		case RIVAL_FORK:
			fork_once("by another thread");
			break;
		case RIVAL_END:
			return unused;
		}
		sem_post(&shared->done);
	}
	return unused;
}

/* Puts the main thread on the n-th CPU it may use. */
static void go_to(unsigned int n)
{
	unsigned int at = n % CPU_COUNT(&allowed);
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && at-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Slabs with an object each: their other pages go back to the system. */
static void sparse(void)
{
	enum { OBJECTS = 160, BYTES = 1000, APART = 40 };
	void *objects[OBJECTS];

	for (int i = 0; i < OBJECTS; i++)
		objects[i] = malloc(BYTES);
	for (int i = 0; i < OBJECTS; i++)
		if (i % APART)
			free(objects[i]);
	malloc_trim(0);
	for (int i = 0; i < OBJECTS; i += APART)
		free(objects[i]);
}

/* vfork() closes the fast paths to its thread: the next free() opens its own. */
static void after_vfork(size_t size)
{
	struct object one = keep(malloc(size), size);
	pid_t pid = vfork();

	if (!pid)
		_exit(0);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		fire_fail("vfork: %s", strerror(errno));
	drop(&one);
}

/* One round works all sizes a little and some of them in bulk. */
static void one_round(unsigned int round)
{
	go_to(round);
	few_of_each();
	the_other_calls(sizes[round % 10]);
	the_operators(sizes[round % 10]);
	after_vfork(sizes[round % 10]);
	if (step_api_round)
		step_api_round(round);
	bulk(sizes[round % 11], most);
	bulk(sizes[10 + round % 4], 100);
	scattered(200, most);
	sparse();
	few_of_each();
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

int step_tracee(int shared_fd)
{
	struct sigaction malloc_action = { .sa_handler = on_malloc_signal };
	struct sigaction fork_action = { .sa_handler = on_fork_signal };
	pthread_t thread;

	if (fire_opt("bulk", STEP_BULK) < most)
		most = fire_opt("bulk", STEP_BULK);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED,
		      shared_fd, 0);
	if (shared == MAP_FAILED)
		fire_fail("mmap: %s", strerror(errno));
	sched_getaffinity(0, sizeof(allowed), &allowed);
	sigaction(STEP_SIGNAL_MALLOC, &malloc_action, NULL);
	sigaction(STEP_SIGNAL_FORK, &fork_action, NULL);
	if (step_api_start)
		step_api_start();
	if (pthread_create(&thread, NULL, rival, NULL))
		fire_fail("pthread_create: %s", strerror(errno));
	for (;;) {
		one_round(shared->rounds);
		malloc_trim(0);
		atomic_store(&shared->outstanding, mallinfo2().uordblks);
		atomic_fetch_add(&shared->rounds, 1);
		__asm__ volatile(STEP_TRAP ::: "memory");
	}
}
