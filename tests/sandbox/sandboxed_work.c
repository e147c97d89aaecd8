/* SPDX-License-Identifier: MIT */
/*
 * The work: each kind of call of malloc's, sizes of all classes and none, a heap that grows to
 * some 100 MiB, is freed in random order and grows again; large blocks; threads that free what
 * others have allocated; children.  What is wrong ends the process.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandboxed.h"

#define BLOCKS 120000
#define BYTES_MOST 3000
#define ROUNDS 3

/* Of the numbers above, a part: letters make each step slower. */
static size_t part = 1;

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void stop_if(int wrong)
{
	if (wrong)
		_exit(9);
}

struct block {
	unsigned char *start;
	size_t bytes;
};

static void block_make(struct block *block, uint64_t *random)
{
	size_t bytes = next_random(random) % BYTES_MOST;

	switch (next_random(random) % 16) {
	case 0:
		block->start = calloc(1, bytes);
		break;
	case 1:
		block->start = memalign(64, bytes);
		break;
	case 2:
		block->start = realloc(malloc(bytes / 2), bytes + 1);
		bytes++;
		break;
	case 3:
		bytes = 0;
		/* fall through */
	default:
		block->start = malloc(bytes);
	}
	stop_if(!block->start);
	block->bytes = bytes;
	if (bytes) {
		block->start[0] = (unsigned char)bytes;
		block->start[bytes - 1] = (unsigned char)bytes;
	}
}

static void block_free(struct block *block)
{
	if (block->start && block->bytes)
		stop_if(block->start[0] != (unsigned char)block->bytes ||
			block->start[block->bytes - 1] != (unsigned char)block->bytes);
	free(block->start);
	block->start = NULL;
}

static void shuffle(struct block *blocks, size_t nr, uint64_t *random)
{
	for (size_t i = nr; i > 1; i--) {
		size_t j = next_random(random) % i;
		struct block kept = blocks[i - 1];

		blocks[i - 1] = blocks[j];
		blocks[j] = kept;
	}
}

/* Grows, loses half of it, changes what stays, loses all; in random order. */
static void work_small(struct block *blocks, size_t nr, uint64_t *random)
{
	for (size_t i = 0; i < nr; i++)
		block_make(&blocks[i], random);
	shuffle(blocks, nr, random);
	for (size_t i = 0; i < nr; i += 2)
		block_free(&blocks[i]);
	for (size_t i = 0; i < nr; i += 4)
		block_make(&blocks[i], random);
	shuffle(blocks, nr, random);
	for (size_t i = 0; i < nr; i++)
		block_free(&blocks[i]);
}

/* One size a time: caches that the program has left. */
static void work_sizes(struct block *blocks, size_t nr, uint64_t *random)
{
	for (size_t bytes = 16; bytes <= 2048; bytes *= 2) {
		size_t most = nr * 16 / bytes + 1000;

		most = most < nr ? most : nr;
		for (size_t i = 0; i < most; i++) {
			blocks[i] = (struct block){ malloc(bytes), bytes };
			stop_if(!blocks[i].start);
			memset(blocks[i].start, (int)(unsigned char)bytes, bytes);
		}
		shuffle(blocks, most, random);
		for (size_t i = 0; i < most; i++)
			block_free(&blocks[i]);
	}
}

static void work_large(void)
{
	unsigned char *kept[8];

	for (int i = 0; i < 8; i++) {
		size_t bytes = (size_t)(i + 1) << 20;

		kept[i] = malloc(bytes);
		stop_if(!kept[i]);
		memset(kept[i], i, bytes);
		kept[i] = realloc(kept[i], bytes * 2 + 4096);
		stop_if(!kept[i] || kept[i][bytes - 1] != i);
		kept[i] = realloc(kept[i], bytes / 2);
		stop_if(!kept[i] || kept[i][bytes / 2 - 1] != i);
	}
	for (int i = 0; i < 8; i++)
		free(kept[i]);
	for (int i = 0; i < 40; i++) {
		unsigned char *zeros = calloc(3, 1 << 20);

		stop_if(!zeros || zeros[1234567]);
		zeros[1234567] = 1;
		free(zeros);
	}
	/* No machine has as much: a refusal. */
	free(malloc((size_t)1 << 46));
}

void work_alone(void)
{
	static struct block blocks[BLOCKS];
	const char *given = getenv("SANDBOXED_PART");
	uint64_t random = 1;

	part = given ? (size_t)atoi(given) : 1;
	for (int round = 0; round < ROUNDS; round++) {
		work_small(blocks, BLOCKS / part, &random);
		work_sizes(blocks, BLOCKS / part, &random);
		work_large();
	}
}

/* ---- threads ---- */

#define THREADS 8
#define EACH 20000

static struct block exchange[THREADS][EACH];
static pthread_barrier_t all_made;

/* Frees what the next one has made. */
static void *work_thread(void *arg)
{
	size_t self = (size_t)arg;
	uint64_t random = self + 7;

	for (size_t i = 0; i < EACH / part; i++)
		block_make(&exchange[self][i], &random);
	pthread_barrier_wait(&all_made);
	for (size_t i = 0; i < EACH / part; i++)
		block_free(&exchange[(self + 1) % THREADS][i]);
	pthread_barrier_wait(&all_made);
	work_small(exchange[self], EACH / part, &random);
	return NULL;
}

static void work_threads(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&all_made, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		stop_if(pthread_create(&threads[i], NULL, work_thread, (void *)i));
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&all_made);
}

static void work_child(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		uint64_t random = 99;

		work_small(exchange[0], EACH / part, &random);
		work_large();
		_exit(0);
	}
	waitpid(child, &status, 0);
	/* A call that the filter kills ends this process as it ended the child. */
	if (WIFSIGNALED(status))
		kill(getpid(), WTERMSIG(status));
	stop_if(status);
}

/* ---- the library's own interface, where it is there ---- */

struct slub_cache;
struct slub_cache *slub_cache_create(const char *name, size_t size, size_t align,
				     unsigned int flags, void (*ctor)(void *))
	__attribute__((weak));
void *slub_cache_alloc(struct slub_cache *cache) __attribute__((weak));
void slub_cache_free(struct slub_cache *cache, void *object) __attribute__((weak));

static struct slub_cache *cache;

/* A program makes its caches before it shuts itself in. */
void work_prepare(void)
{
	if (!slub_cache_create || !slub_cache_alloc || !slub_cache_free)
		return;
	cache = slub_cache_create("sandboxed", 200, 8, 0, NULL);
	stop_if(!cache);
}

static void work_cache(void)
{
	static void *objects[EACH];

	if (!cache)
		return;
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < EACH / part; i++)
			stop_if(!(objects[i] = slub_cache_alloc(cache)));
		for (size_t i = 0; i < EACH / part; i++)
			slub_cache_free(cache, objects[(i * 7919L) % EACH]);
	}
}

void work_all(void)
{
	work_threads();
	work_child();
	work_cache();
	work_threads();
}
