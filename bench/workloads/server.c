/* SPDX-License-Identifier: MIT */
/*
 * Imitates a server whose threads come and go, as larson does: each thread works on the objects
 * of its predecessor, replaces --steps of them at random, starts its successor and ends. So most
 * objects are freed by another thread than the one that allocated them, which is no more.
 */
#include "workload.h"

#include <pthread.h>
#include <semaphore.h>

enum { LINES_MAX = 256 };

/* One line of succession. */
struct line {
	struct bench_random random;
	void **object;
	long left;			/* generations */
};

static struct line line[LINES_MAX];
static long live, steps;
static sem_t ended;

static void *generation(void *argument);

static void start(struct line *of)
{
	pthread_attr_t attributes;
	pthread_t id;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&id, &attributes, generation, of))
		bench_fatal("a thread cannot be made");
}

static void *generation(void *argument)
{
	struct line *mine = argument;

	for (long i = 0; i < steps; i++) {
		size_t which = bench_between(&mine->random, 0, (size_t)live - 1);

		free(mine->object[which]);
		mine->object[which] = workload_object(workload_size(&mine->random, 8, 1024));
	}
	if (--mine->left)
		start(mine);
	else
		sem_post(&ended);
	return NULL;
}

int main(int argc, char **argv)
{
	size_t bytes;
	long lines, generations;

	workload_begin("server", argc, argv);
	lines = workload_long("threads", 2, 1, LINES_MAX);
	live = workload_long("live", 1000, 1, 1000000);
	steps = workload_long("steps", 20000, 1, 100000000);
	generations = workload_long("generations", 80, 1, 1000000);
	bench_options_done();

	bytes = (size_t)live * sizeof(void *);
	sem_init(&ended, 0, 0);
	for (int i = 0; i < lines; i++) {
		line[i].random = workload_random(i);
		line[i].object = bench_map(bytes);
		line[i].left = generations;
	}
	workload_start();
	for (int i = 0; i < lines; i++)
		start(&line[i]);
	for (int i = 0; i < lines; i++)
		while (sem_wait(&ended))
			;
	workload_stop((double)lines * (double)generations * (double)steps);
	for (int i = 0; i < lines; i++) {
		for (long j = 0; j < live; j++)
			free(line[i].object[j]);
		bench_unmap(line[i].object, bytes);
	}
	return workload_finish();
}
