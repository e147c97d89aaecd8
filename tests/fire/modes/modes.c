/* SPDX-License-Identifier: MIT */
#include "modes/modes.h"
#include "modes/own_section.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHARED 512

struct object {
	void *start;
	size_t size;
	uint64_t id;
};

static struct object shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- a critical section of the program's own: a counter per CPU ---- */

static struct own_counter counters[OWN_CPUS];
static atomic_ullong counted;

static void count_one(void)
{
	if (!__rseq_size)
		return;
	own_section(counters);
	atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed);
}

void modes_check_own(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < OWN_CPUS; i++)
		sum += counters[i].count;
	printf("own critical section: %llu calls, counted %llu\n",
	       (unsigned long long)counted, (unsigned long long)sum);
	if (sum != counted)
		fire_fail("the program's own sequence lost its place");
}

/* ---- work ---- */

static struct object make(uint64_t *rng)
{
	struct object made = { .size = fire_size(rng), .id = fire_rng(rng) };

	made.start = malloc(made.size);
	if (!made.start)
		fire_fail("%zu bytes: %s", made.size, strerror(errno));
	fire_stamp(made.start, made.size, made.id);
	return made;
}

static void unmake(struct object *object, const char *where)
{
	fire_unstamp(object->start, object->size, object->id, where);
	free(object->start);
	object->start = NULL;
}

static void exchange(uint64_t *rng, struct object *object)
{
	struct object *place = &shared[fire_below(rng, SHARED)];
	struct object before;

	pthread_mutex_lock(&shared_lock);
	before = *place;
	*place = *object;
	pthread_mutex_unlock(&shared_lock);
	*object = before;
}

static void steps(uint64_t *rng, uint64_t ops, bool own, bool alone)
{
	struct object held[128] = { { 0 } };

	while (ops--) {
		struct object *one = &held[fire_below(rng, 128)];

		if (own)
			count_one();
		if (!one->start)
			*one = make(rng);
		else if (!alone && fire_below(rng, 4) == 0)
			exchange(rng, one);
		else
			unmake(one, "own object");
		if (own)
			count_one();
	}
	for (int i = 0; i < 128; i++)
		if (held[i].start)
			unmake(&held[i], "own object");
}

void modes_work(uint64_t *rng, uint64_t ops, bool own)
{
	steps(rng, ops, own, false);
}

void modes_work_alone(uint64_t *rng, uint64_t ops)
{
	steps(rng, ops, false, true);
}

void modes_drain(void)
{
	for (int i = 0; i < SHARED; i++)
		if (shared[i].start)
			unmake(&shared[i], "object of another thread");
}
