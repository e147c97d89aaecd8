/* SPDX-License-Identifier: MIT */
/*
 * A day of a server in nine seconds: a thousand threads that mostly wait, a load that rises
 * and falls, a burst that ends.  Prints the name of each hour as it begins; whoever started
 * it looks at its memory meanwhile.  The work is the same each time.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	WAITING = 1000,		/* threads with a few objects each */
	THEIRS = 40,
	WORKERS = 4,
	SESSIONS = 240000,	/* about 200 MiB */
	KEPT = SESSIONS / 20,	/* the newest, when the load has fallen */
	NODES = 2500000,	/* of the burst: about 200 MiB */
	TRICKLE = 20000,
};

struct node {
	struct node *next;
	char text[];
};

static void *session[SESSIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t evening = PTHREAD_COND_INITIALIZER;
static int is_evening;

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Seven in ten are small, one in twenty is several KiB. */
static size_t random_size(uint64_t *state)
{
	uint64_t r = random_next(state), kind = r % 20;

	r >>= 32;
	if (kind < 14)
		return 32 + r % 224;
	return kind < 19 ? 256 + r % 1792 : 2048 + r % 14336;
}

static void *object(size_t bytes)
{
	void *made = malloc(bytes);

	if (!made) {
		fputs("day: no memory\n", stderr);
		exit(1);
	}
	return memset(made, 1, bytes);
}

static void hour(const char *name)
{
	printf("%s\n", name);
	fflush(stdout);
}

/* Some requests, so that the program is not quite silent. */
static void rest(double seconds)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	uint64_t state = 99;

	for (int i = 0; i < (int)(seconds * 50); i++) {
		for (int n = 0; n < TRICKLE / 50; n++)
			free(object(random_size(&state)));
		nanosleep(&pause, NULL);
	}
}

static void *wait_for_evening(void *arg)
{
	uint64_t state = (uintptr_t)arg + 1;
	void *mine[THEIRS];

	for (int i = 0; i < THEIRS; i++)
		mine[i] = object(random_size(&state) % 512 + 16);
	pthread_mutex_lock(&lock);
	while (!is_evening)
		pthread_cond_wait(&evening, &lock);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < THEIRS; i++)
		free(mine[i]);
	return NULL;
}

static void *serve(void *arg)
{
	uint64_t state = (uintptr_t)arg + 7;

	for (size_t i = (uintptr_t)arg; i < SESSIONS; i += WORKERS) {
		session[i] = object(random_size(&state));
		for (int n = 0; n < 3; n++)	/* what a request needs besides */
			free(object(random_size(&state)));
	}
	return NULL;
}

/* The oldest sessions expire first. */
static void *expire(void *arg)
{
	for (size_t i = (uintptr_t)arg; i < SESSIONS - KEPT; i += WORKERS) {
		free(session[i]);
		session[i] = NULL;
	}
	return NULL;
}

static void by_workers(void *(*work)(void *))
{
	pthread_t id[WORKERS];

	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&id[i], NULL, work, (void *)i);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(id[i], NULL);
}

static void burst(void)
{
	struct node *all = NULL;
	uint64_t state = 5;

	for (int i = 0; i < NODES; i++) {
		struct node *node = object(sizeof(*node) + random_next(&state) % 128);

		node->next = all;
		all = node;
	}
	while (all) {
		struct node *node = all;

		all = node->next;
		free(node);
	}
}

int main(void)
{
	static pthread_t waiting[WAITING];
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	hour("threads");
	for (uintptr_t i = 0; i < WAITING; i++)
		if (pthread_create(&waiting[i], &small, wait_for_evening, (void *)i)) {
			fputs("day: a thread cannot be made\n", stderr);
			return 1;
		}
	rest(1);
	hour("load");
	by_workers(serve);
	rest(0.3);
	hour("falls");
	by_workers(expire);
	rest(3);
	hour("burst");
	burst();
	hour("over");
	rest(3);
	hour("evening");
	getchar();		/* whoever looks at it is done */
	pthread_mutex_lock(&lock);
	is_evening = 1;
	pthread_cond_broadcast(&evening);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WAITING; i++)
		pthread_join(waiting[i], NULL);
	for (int i = 0; i < SESSIONS; i++)
		free(session[i]);
	return 0;
}
