/* SPDX-License-Identifier: MIT */
/*
 * The loops that are measured.  Each has as much to do on each CPU, however many there are, so
 * what it costs per operation is what should stay as it is.
 */
#include <string.h>

#include "scale.h"

void **objects;

uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static uint32_t random_below(struct thread *thread, uint32_t end)
{
	return (uint32_t)(random_next(&thread->seed) >> 33) % end;
}

/* Objects of each thread, for those that have some. */
#define OBJECTS 4096

static bool begin(uint32_t threads)
{
	objects = own_memory((size_t)threads * OBJECTS * sizeof(*objects));
	return objects;
}

static void step_set(struct step *step, enum step_kind kind, uint32_t place, size_t bytes)
{
	step->kind = kind;
	step->place = place;
	step->bytes = bytes;
}

/* @nr allocations, then their frees; state[0]: how many of both were made. */
static void rounds(struct thread *thread, struct step *step, uint32_t nr, size_t bytes)
{
	uint32_t i = (uint32_t)(thread->state[0]++ % (2 * nr));

	step_set(step, i < nr ? STEP_ALLOC : STEP_FREE, thread->number * OBJECTS + i % nr, bytes);
}

static void pair(struct thread *thread, struct step *step)
{
	rounds(thread, step, 1, 64);
}

static void bursts(struct thread *thread, struct step *step)
{
	rounds(thread, step, 100, 512);
}

/* A random one of @nr objects is replaced; @owner: whose. */
static void replace(struct thread *thread, struct step *step, uint32_t owner, uint32_t nr,
		    size_t least, uint32_t more)
{
	uint64_t *place = &thread->state[1];	/* + 1: free there, and now to be filled */

	if (!*place) {
		*place = 1 + owner * OBJECTS + random_below(thread, nr);
		if (objects[*place - 1]) {
			step_set(step, STEP_FREE, (uint32_t)*place - 1, 0);
			return;
		}
	}
	step_set(step, STEP_ALLOC, (uint32_t)*place - 1, least + random_below(thread, more));
	*place = 0;
}

static void mixed(struct thread *thread, struct step *step)
{
	replace(thread, step, thread->number, 500, 16, 2032);
}

static void small(struct thread *thread, struct step *step)
{
	replace(thread, step, thread->number, OBJECTS, 16, 240);
}

static void buffers(struct thread *thread, struct step *step)
{
	replace(thread, step, thread->number, 8, 40000, 360000);
}

/* larson: who has done so much takes over what another one has left. */
#define SERVER_STEPS 2000

static void server(struct thread *thread, struct step *step)
{
	uint32_t heir = (uint32_t)(thread->steps / SERVER_STEPS);

	replace(thread, step, (thread->number + heir) % nr_threads, 500, 16, 1000);
}

/*
 * xmalloc: batches of objects go to the next thread, which frees them.  state[2]: batches that
 * were sent, state[3]: received.  A batch has its places for itself until it was freed.
 */
#define BATCH 120
#define BATCHES (OBJECTS / BATCH)

static uint64_t *sent, *freed;	/* batches, of each thread */

static bool passing_begin(uint32_t threads)
{
	sent = own_memory(threads * sizeof(*sent));
	freed = own_memory(threads * sizeof(*freed));
	return sent && freed && begin(threads);
}

static void passing(struct thread *thread, struct step *step)
{
	uint32_t self = thread->number, from = (self + nr_threads - 1) % nr_threads;
	uint64_t *made = &thread->state[0], *gone = &thread->state[1];
	bool receives = sent[from] > freed[from];

	/* A batch that was begun is finished first. */
	if (*gone % BATCH || (receives && *made % BATCH == 0)) {
		uint32_t i = (uint32_t)(*gone / BATCH % BATCHES * BATCH + *gone % BATCH);

		step_set(step, STEP_FREE, from * OBJECTS + i, 0);
		++*gone;
		if (*gone % BATCH == 0)
			freed[from]++;
		return;
	}
	if (sent[self] - freed[self] == BATCHES) {
		step->kind = STEP_NOTHING;
		return;
	}
	step_set(step, STEP_ALLOC,
		 self * OBJECTS + (uint32_t)(*made / BATCH % BATCHES * BATCH + *made % BATCH),
		 16 + random_below(thread, 496));
	++*made;
	if (*made % BATCH == 0)
		sent[self]++;
}

/* A heap is built up and dropped in no order: state[0] is the step, and the places are shuffled. */
static void dropped(struct thread *thread, struct step *step)
{
	uint32_t i = (uint32_t)(thread->state[0]++ % (2 * OBJECTS));
	/* An odd factor permutes what is a power of two. */
	uint32_t shuffled = i * 2654435761u % OBJECTS;

	step_set(step, i < OBJECTS ? STEP_ALLOC : STEP_FREE,
		 thread->number * OBJECTS + (i < OBJECTS ? i : shuffled),
		 16 + random_below(thread, 1008));
}

/* Four threads that are on any CPU, as under a kernel without mm_cid. */
#define WANDERERS 4
#define WANDER_STEPS 200

const struct work works[] = {
	{ "pair", 0, 0, false, begin, NULL, pair },
	{ "bursts", 0, 0, false, begin, NULL, bursts },
	{ "mixed", 0, 0, false, begin, NULL, mixed },
	{ "small", 0, 0, false, begin, NULL, small },
	{ "server", 0, 0, true, begin, NULL, server },
	{ "passing", 0, 0, true, passing_begin, NULL, passing },
	{ "dropped", 0, 0, false, begin, NULL, dropped },
	{ "buffers", 0, 0, false, begin, NULL, buffers },
	{ "wandering", WANDERERS, WANDER_STEPS, false, begin, NULL, mixed },
	{ NULL, 0, 0, false, NULL, NULL, NULL },
};

const struct work *work_find(const char *name)
{
	for (const struct work *work = works; work->name; work++) {
		if (strcmp(work->name, name) == 0)
			return work;
	}
	return NULL;
}
