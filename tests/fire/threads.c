/* SPDX-License-Identifier: MIT */
/*
 * Threads that end at random instants: by return, pthread_exit, cancellation
 * and with destructors of thread-specific data that allocate and free.  Each
 * takes over objects that others left and leaves its own behind.
 *
 *	threads --count=10000 --at-once=32
 *
 * --abrupt=0: all end by return, with one turn of destructors.  The sanitizers
 * want that: one marks stacks that such an end leaves marked, another takes its
 * own state apart in a late turn.
 */
#include "fire.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

#define POOL 4096
#define MAX_AT_ONCE 1024
#define KEYS 3

struct object {
	void *start;
	size_t size;
	uint64_t id;
};

/* What the ended threads left; whoever comes next frees some of it. */
static struct object pool[POOL];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t keys[KEYS];
static bool abrupt;	/* ends by pthread_exit and cancellation too */
static atomic_ullong allocated, freed, destroyed, cancelled;

static struct object make(uint64_t *rng)
{
	struct object made = { .size = fire_size(rng), .id = fire_rng(rng) };

	made.start = malloc(made.size);
	if (!made.start)
		fire_fail("%zu bytes: %s", made.size, strerror(errno));
	fire_stamp(made.start, made.size, made.id);
	atomic_fetch_add(&allocated, 1);
	return made;
}

static void unmake(struct object *object)
{
	fire_unstamp(object->start, object->size, object->id,
		     "object of an ended thread");
	free(object->start);
	object->start = NULL;
	atomic_fetch_add(&freed, 1);
}

/* Puts one object into the pool and takes out, frees, what was there. */
static void leave(struct object object, uint64_t *rng)
{
	unsigned int at = fire_below(rng, POOL);
	struct object before;

	pthread_mutex_lock(&pool_lock);
	before = pool[at];
	pool[at] = object;
	pthread_mutex_unlock(&pool_lock);
	if (before.start)
		unmake(&before);
}

/* Runs while the thread ends, up to PTHREAD_DESTRUCTOR_ITERATIONS times. */
static void destroy(void *value)
{
	uint64_t rng = fire_rng_state((uintptr_t)value);

	atomic_fetch_add(&destroyed, 1);
	free(value);
	for (int i = 0; i < 4; i++)
		leave(make(&rng), &rng);
	if (abrupt && fire_below(&rng, 2))
		pthread_setspecific(keys[0], malloc(40));
}

static void *live(void *argument)
{
	uint64_t rng = fire_rng_state((uintptr_t)argument);
	uint64_t steps = fire_below(&rng, 200);
	uint64_t end = abrupt ? fire_below(&rng, 3) : 2;
	const struct timespec pause = { .tv_nsec = 1000 };

	for (int i = 0; i < KEYS; i++)
		if (fire_below(&rng, 2))
			pthread_setspecific(keys[i], malloc(24 + i));
	for (uint64_t i = 0; i < steps; i++) {
		leave(make(&rng), &rng);
		if (i % 16 == 15)
			pthread_testcancel();
	}
	if (end == 0)
		pthread_exit(argument);
	while (end == 1) {	/* waits for the cancellation, mostly */
		leave(make(&rng), &rng);
		nanosleep(&pause, NULL);
		if (!fire_below(&rng, 64))
			break;
	}
	return argument;
}

static void end(pthread_t thread, uint64_t *rng)
{
	void *value;

	if (abrupt && fire_below(rng, 2))
		pthread_cancel(thread);
	if (pthread_join(thread, &value))
		fire_fail("pthread_join");
	if (value == PTHREAD_CANCELED)
		atomic_fetch_add(&cancelled, 1);
}

/* Keeps `at_once` threads alive; ends a random one, starts another. */
static void turn_over(unsigned long count, unsigned int at_once, uint64_t *rng)
{
	static pthread_t alive[MAX_AT_ONCE];
	unsigned long started = 0;

	while (started < count) {
		unsigned int at = started < at_once ?
			started : fire_below(rng, at_once);

		if (started >= at_once)
			end(alive[at], rng);
		if (pthread_create(&alive[at], NULL, live,
				   (void *)(uintptr_t)fire_rng(rng)))
			fire_fail("pthread_create: %s", strerror(errno));
		started++;
	}
	for (unsigned int i = 0; i < at_once; i++)
		end(alive[i], rng);
}

int main(int argc, char **argv)
{
	unsigned long count;
	unsigned int at_once;
	uint64_t rng;

	fire_start(argc, argv, "count at-once abrupt limit");
	fire_require_library();
	at_once = fire_opt("at-once", 32);
	count = fire_count("count", 10000);
	if (!at_once || at_once > MAX_AT_ONCE)
		fire_fail("--at-once: 1 to %d are wanted", MAX_AT_ONCE);
	abrupt = fire_opt("abrupt", 1);
	if (count < at_once)
		count = at_once;
	fire_watchdog(fire_opt("limit", 600));
	rng = fire_seed();
	for (int i = 0; i < KEYS; i++)
		if (pthread_key_create(&keys[i], destroy))
			fire_fail("pthread_key_create");
	turn_over(count, at_once, &rng);
	for (unsigned int i = 0; i < POOL; i++)
		if (pool[i].start)
			unmake(&pool[i]);
	printf("threads %lu cancelled %llu destructors %llu objects %llu\n",
	       count, (unsigned long long)cancelled,
	       (unsigned long long)destroyed, (unsigned long long)allocated);
	if (allocated != freed)
		fire_fail("%llu objects made, %llu freed",
			  (unsigned long long)allocated,
			  (unsigned long long)freed);
	if (!destroyed || (abrupt && !cancelled))
		fire_fail("no destructor ran, or no thread was cancelled");
	return 0;
}
