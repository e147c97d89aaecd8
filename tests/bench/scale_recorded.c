/* SPDX-License-Identifier: MIT */
/* A program to be recorded: each of two threads frees what the other one has allocated. */
#include <pthread.h>
#include <stdlib.h>

#define OBJECTS 100

static void *objects[2][OBJECTS];
static pthread_barrier_t made;

static void *run(void *number)
{
	void **own = objects[number != NULL], **other = objects[number == NULL];

	for (int i = 0; i < OBJECTS; i++)
		own[i] = malloc((size_t)i + 1);
	for (int i = 0; i < OBJECTS; i += 2)
		own[i] = realloc(own[i], (size_t)i + 1000);
	pthread_barrier_wait(&made);
	for (int i = 0; i < OBJECTS; i++)
		free(other[i]);
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&made, NULL, 2);
	for (size_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
