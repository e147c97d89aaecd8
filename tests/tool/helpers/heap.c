/* SPDX-License-Identifier: MIT */
/*
 * A heap of a known population: 3,000 objects of 100 bytes of which every third is freed, two of
 * 20,000 bytes, and three large blocks of 1 MiB.  Then it waits for the end of its input, or
 * allocates and frees from two threads until then: blocks of all sizes, or (spin) a few of one
 * size, so that the threads make no system calls.  With "holes" every fourth page of some slabs
 * is in use, by objects of 500 bytes, and what lies between them goes back to the system.
 *
 * usage: heap wait|busy|spin|holes
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NR_SMALL 3000
#define NR_BUSY	 500
#define NR_HOLES 4000

static void *small[NR_SMALL];
static void *middle[2];
static void *large[3];

/* For gdb. */
void *volatile used_object, *volatile freed_object, *volatile large_block;

static volatile int stop;
static int nr_spinning;	/* threads that make system calls no more */

static void *work(void *seed)
{
	static __thread void *mine[NR_BUSY];
	unsigned int n = *(unsigned int *)seed;

	while (!stop) {
		n = n * 1103515245 + 12345;
		free(mine[n / 8 % NR_BUSY]);
		mine[n / 8 % NR_BUSY] = malloc(n / 65536 % 40000);
	}
	for (int i = 0; i < NR_BUSY; i++)
		free(mine[i]);
	return NULL;
}

static void spin_once(void)
{
	void *mine[10];

	for (int i = 0; i < 10; i++)
		mine[i] = malloc(100);
	for (int i = 0; i < 10; i++)
		free(mine[i]);
}

static void *spin(void *unused)
{
	for (int i = 0; i < 1000; i++)
		spin_once();
	__atomic_fetch_add(&nr_spinning, 1, __ATOMIC_RELAXED);
	while (!stop)
		spin_once();
	return unused;
}

static void populate(void)
{
	for (int i = 0; i < NR_SMALL; i++)
		small[i] = malloc(100);
	for (int i = 0; i < NR_SMALL; i += 3)
		free(small[i]);
	for (int i = 0; i < 2; i++)
		middle[i] = malloc(20000);
	for (int i = 0; i < 3; i++)
		large[i] = malloc(1 << 20);
	used_object = small[1];
	freed_object = small[NR_SMALL - 3];
	large_block = large[0];
}

static void make_holes(void)
{
	static void *objects[NR_HOLES];

	for (int i = 0; i < NR_HOLES; i++)
		objects[i] = malloc(500);
	used_object = freed_object = NULL;
	for (int i = 0; i < NR_HOLES; i++) {
		unsigned long at = (unsigned long)objects[i];

		if (at / 4096 % 4 != 2) {
			/* One in the middle of its page, of a slab that is full. */
			if (at % 4096 > 1024 && at % 4096 < 2048 && i < NR_HOLES / 2)
				freed_object = objects[i];
			free(objects[i]);
		} else if (i < NR_HOLES / 2) {
			used_object = objects[i];
		}
	}
	malloc_trim(0);
}

int main(int argc, char **argv)
{
	unsigned int seeds[] = { 1, 2 };
	pthread_t threads[2];
	int spins = argc == 2 && !strcmp(argv[1], "spin");
	int busy = spins || (argc == 2 && !strcmp(argv[1], "busy"));
	char byte;

	populate();
	if (argc == 2 && !strcmp(argv[1], "holes"))
		make_holes();
	for (int i = 0; busy && i < 2; i++)
		pthread_create(&threads[i], NULL, spins ? spin : work, &seeds[i]);
	while (spins && __atomic_load_n(&nr_spinning, __ATOMIC_RELAXED) < 2)
		usleep(1000);
	if (write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	stop = 1;
	for (int i = 0; busy && i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
