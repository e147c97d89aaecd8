/* SPDX-License-Identifier: MIT */
/*
 * The scripted workload of sweep: everything that makes the library call the
 * kernel.  A request ends in success or in NULL with ENOMEM; whatever was
 * allocated keeps its content; and once nothing fails any more, everything
 * works again.
 */
#include "sweep/sweep.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define LIVE 4000

struct object {
	void *start;
	size_t size;
	uint64_t id;
};

static struct object live[LIVE];	/* across everything that fails */
static unsigned int live_count;
static uint64_t next_id = 1;
static bool must_succeed, is_counted;
static unsigned long refused;

static int tell(enum sweep_command command)
{
	return prctl(SWEEP_MAGIC, command, 0, 0, 0);
}

/* Before a request. */
static void ask(void)
{
	if (is_counted)
		tell(SWEEP_REQUEST);
	errno = 0;
}

/* Behind it; errno stays. */
static void *answered(void *start)
{
	int error = errno;

	if (is_counted)
		tell(SWEEP_ANSWER);
	errno = error;
	return start;
}

/* A request that was refused: allowed while calls fail, and with ENOMEM. */
static void refuse(const char *call, size_t size, int error)
{
	if (must_succeed)
		fire_fail("%s(%zu) failed when no call did any more: %s", call,
			  size, strerror(error));
	if (error != ENOMEM)
		fire_fail("%s(%zu): NULL with errno %d (%s), not ENOMEM", call,
			  size, error, strerror(error));
	refused++;
}

static bool keep(struct object *object, void *start, size_t size,
		 const char *call)
{
	if (!start) {
		refuse(call, size, errno);
		object->start = NULL;
		return false;
	}
	*object = (struct object){
		start, size,
		__atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED),
	};
	fire_stamp(start, size, object->id);
	return true;
}

static void drop(struct object *object)
{
	if (!object->start)
		return;
	fire_unstamp(object->start, object->size, object->id, "sweep");
	free(object->start);
	object->start = NULL;
}

static void many(size_t size, unsigned int count)
{
	struct object objects[256];

	for (unsigned int i = 0; i < count; i++) {
		ask();
		keep(&objects[i], answered(malloc(size)), size, "malloc");
	}
	for (unsigned int i = 0; i < count; i++)
		drop(&objects[i]);
}

static void resize(struct object *object, size_t size)
{
	size_t kept = size < object->size ? size : object->size;
	void *moved;

	if (!object->start)
		return;
	ask();
	moved = answered(realloc(object->start, size));
	if (!moved) {
		refuse("realloc", size, errno);
		return;		/* and the old one is still good */
	}
	kept = kept / 8 * 8;
	if (fire_stamp_differs(moved, kept, object->id) != kept)
		fire_fail("realloc to %zu: content lost", size);
	object->start = NULL;
	keep(object, moved, size, "realloc");
}

/* Large blocks; only their first and last page are touched, but for one. */
static void large(void)
{
	struct object one = { 0 }, other = { 0 };
	char *zeroed;
	void *huge;

	ask();
	keep(&one, answered(malloc(200000)), 200000, "malloc");
	for (size_t size = 300000; size < 6000000; size *= 3)
		resize(&one, size);
	ask();
	zeroed = answered(calloc(3, 700000));
	for (size_t i = 0; zeroed && i < 2100000; i++)
		if (zeroed[i])
			fire_fail("calloc: byte %zu is not zero", i);
	keep(&other, zeroed, 2100000, "calloc");
	/* There is something behind it: its pages move. */
	resize(&one, 9000000);
	resize(&one, 150000);
	resize(&one, 2000);
	ask();
	huge = answered(malloc(300 << 20));
	if (huge)
		((char *)huge)[0] = ((char *)huge)[(300 << 20) - 1] = 1;
	else
		refuse("malloc", 300 << 20, errno);
	free(huge);
	drop(&one);
	ask();
	keep(&one, answered(memalign(2 << 20, 100000)), 100000, "memalign");
	drop(&other);
	drop(&one);
}

static void *in_thread(void *size)
{
	many((size_t)size, 200);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[2];
	bool runs[2];

	for (int i = 0; i < 2; i++)
		runs[i] = !pthread_create(&thread[i], NULL, in_thread,
					  (void *)(size_t)(700 + i * 3000));
	for (int i = 0; i < 2; i++)
		if (runs[i])
			pthread_join(thread[i], NULL);
}

static void child(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		fire_fail("fork: %s", strerror(errno));
	if (!pid) {
		many(500, 100);
		many(20000, 10);
		malloc_trim(0);
		_exit(0);
	}
	status = fire_wait(pid, 60);
	if (status)
		fire_fail("a forked child %s, status %#x",
			  status == -1 ? "hung" : "failed", status);
}

/* Objects that live on, of all sizes; the oldest make room. */
static void live_on(uint64_t *rng, unsigned int count)
{
	while (count--) {
		struct object *slot = &live[fire_below(rng, LIVE)];
		size_t size = fire_size(rng) / 2 + 1;

		drop(slot);
		ask();
		live_count += keep(slot, answered(malloc(size)), size, "malloc");
	}
}

static void one_pass(uint64_t *rng)
{
	live_on(rng, 400);
	for (size_t size = 16; size <= 70000; size *= 2)
		many(size + size / 4, size < 5000 ? 100 : 20);
	large();
	threads();
	malloc_trim(0);
	child();
	live_on(rng, 400);
	malloc_trim(0);
}

/* Resident memory: blocks that a failure lost stay in it. */
static size_t resident_kib(void)
{
	size_t pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	if (statm && fscanf(statm, "%*u %zu", &pages) != 1)
		pages = 0;
	if (statm)
		fclose(statm);
	return pages * (size_t)sysconf(_SC_PAGESIZE) >> 10;
}

/* What lived and what passed through has all been freed; a loss is what stays. */
#define RESIDENT_KIB_MAX (32 << 10)

/* After the failures: all of it works, and what was there is there. */
static void aftermath(uint64_t *rng)
{
	must_succeed = true;
	for (int i = 0; i < 3; i++)
		one_pass(rng);
	for (unsigned int i = 0; i < LIVE; i++)
		drop(&live[i]);
	one_pass(rng);
	malloc_trim(0);
	if (resident_kib() > RESIDENT_KIB_MAX)
		fire_fail("%zu KiB stay resident after the failures", resident_kib());
}

int sweep_workload(bool storm, bool counted, uint64_t seed)
{
	uint64_t rng = fire_rng_state(storm ? seed : 1);
	unsigned int passes = 0;

	fire_watchdog(600);
	is_counted = counted;
	tell(SWEEP_BEGIN);
	do {
		one_pass(&rng);
		passes++;
	} while (storm && tell(SWEEP_MORE) == 1);
	tell(SWEEP_END);
	aftermath(&rng);
	if (storm)
		printf("  %u passes, %lu requests refused, %u objects lived, "
		       "%zu KiB resident\n", passes, refused, live_count,
		       resident_kib());
	exit(0);
}
