/* SPDX-License-Identifier: MIT */
/*
 * What stays resident after a burst, some time after the last call: beside what is alive, and
 * beside the pages on which something is alive, which no allocator can give back.
 *
 * The shapes whose names begin with "over" are bursts over a heap that stays: a quarter as many
 * bytes of blocks of the same sizes, made before. In "four" each of four threads has its own
 * part of the burst; they have ended when the wait begins, or wait themselves ("alive").
 *
 *   live     usable bytes of the blocks that are kept
 *   pinned   bytes of the pages that a kept block touches
 *   rest     RSS after each wait, less RSS before the burst
 *
 * A trickle is so many pairs of malloc and free a second while it waits: a server that is not
 * quite silent.
 *
 * For any allocator, by LD_PRELOAD.  One shape a run: bursts leave tables behind.
 *
 * Usage: idle_return [--shape NAME] [--wait MS[,MS]...] [--trickle N] [--mib N]; without a shape:
 * their names
 */
#include "bench.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define PAGE 4096u

enum order { IN_ORDER, REVERSE, RANDOM };
/* Who frees; FOUR and FOUR_ALIVE allocate, too. */
enum who { MAIN, OTHERS, FOUR, FOUR_ALIVE };

struct shape {
	const char *name;
	size_t least, most;	/* sizes, spread evenly over their logarithm */
	unsigned int keep_one_in;	/* 0: none */
	unsigned int run;	/* so many neighbours are kept, or freed, together */
	enum order order;
	enum who who;
	int is_over;		/* a heap that stays */
};

static const struct shape shapes[] = {
	{ "freed", 208, 208, 0, 1, IN_ORDER, MAIN, 0 },
	{ "freed-random", 208, 208, 0, 1, RANDOM, MAIN, 0 },
	{ "freed-mixed", 16, 32768, 0, 1, RANDOM, MAIN, 0 },
	{ "freed-large", 65536, 4194304, 0, 1, RANDOM, MAIN, 0 },
	{ "freed-by-others", 16, 8192, 0, 1, RANDOM, OTHERS, 0 },
	{ "tenth", 208, 208, 10, 1, IN_ORDER, MAIN, 0 },
	{ "tenth-mixed", 16, 32768, 10, 1, RANDOM, MAIN, 0 },
	{ "tenth-in-runs", 208, 208, 10, 4000, IN_ORDER, MAIN, 0 },
	{ "half-in-runs", 16, 2048, 2, 4000, RANDOM, MAIN, 0 },
	{ "half-large", 65536, 4194304, 2, 1, RANDOM, MAIN, 0 },
	{ "over-in", 64, 1024, 0, 1, IN_ORDER, MAIN, 1 },
	{ "over-reverse", 64, 1024, 0, 1, REVERSE, MAIN, 1 },
	{ "over-random", 64, 1024, 0, 1, RANDOM, MAIN, 1 },
	{ "over-four", 64, 1024, 0, 1, IN_ORDER, FOUR, 1 },
	{ "over-four-random", 64, 1024, 0, 1, RANDOM, FOUR, 1 },
	{ "over-alive", 64, 1024, 0, 1, IN_ORDER, FOUR_ALIVE, 1 },
	{ "over-alive-rev", 64, 1024, 0, 1, REVERSE, FOUR_ALIVE, 1 },
	{ "over-alive-rand", 64, 1024, 0, 1, RANDOM, FOUR_ALIVE, 1 },
	{ "over-tenth", 64, 1024, 10, 1, RANDOM, MAIN, 1 },
};

#define THREADS 4
#define OVER_SHARE 4
#define RESTS_MAX 8

struct block {
	char *start;
	size_t bytes;
	int kept;
};

static size_t random_size(const struct shape *shape, struct bench_random *state)
{
	size_t base = shape->least;

	while (base < shape->most && bench_random(state) % 3)
		base *= 2;
	if (base >= shape->most)
		return shape->most;
	return base + bench_random(state) % base;
}

/* From outside the heap, and resident. */
static void *table(size_t bytes)
{
	return memset(bench_map(bytes), 1, bytes);
}

static size_t resident(void)
{
	return (size_t)bench_memory(0).rss;
}

struct part {
	const struct shape *shape;
	struct block *blocks;
	size_t nr;
	size_t bytes;
	struct bench_random random;
};

/* Sizes of @part's blocks, as far as its table goes; how many make its bytes. */
static size_t choose(struct part *part)
{
	struct bench_random random = part->random;
	size_t nr = 0;

	for (size_t left = part->bytes; left; nr++) {
		size_t size = random_size(part->shape, &random);

		if (part->blocks)
			part->blocks[nr].bytes = size;
		left -= size < left ? size : left;
	}
	return nr;
}

static void fill(struct part *part)
{
	for (size_t i = 0; i < part->nr; i++) {
		struct block *block = &part->blocks[i];

		block->start = malloc(block->bytes);
		memset(block->start, 1, block->bytes);
		block->bytes = malloc_usable_size(block->start);
		block->kept = part->shape->keep_one_in &&
			      i / part->shape->run % part->shape->keep_one_in == 0;
	}
}

static void turn(struct part *part)
{
	struct block *blocks = part->blocks;
	struct bench_random random = { 2463534242u };

	for (size_t i = part->nr; part->shape->order != IN_ORDER && i-- > 1;) {
		size_t j = part->shape->order == RANDOM ? bench_random(&random) % (i + 1) :
							  part->nr - 1 - i;
		struct block other = blocks[i];

		if (part->shape->order == REVERSE && i <= j)
			break;
		blocks[i] = blocks[j];
		blocks[j] = other;
	}
}

static void release(struct part *part)
{
	for (size_t i = 0; i < part->nr; i++) {
		if (!part->blocks[i].kept)
			free(part->blocks[i].start);
	}
}

static pthread_barrier_t barrier;
static size_t peak;

static void *thread_main(void *arg)
{
	struct part *part = arg;
	enum who who = part->shape->who;

	if (who != OTHERS) {
		fill(part);
		turn(part);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);	/* the peak is read */
	}
	release(part);
	if (who == FOUR_ALIVE) {
		pthread_barrier_wait(&barrier);
		pause();
	}
	return NULL;
}

static void run_threads(struct part *all)
{
	struct part parts[THREADS];
	pthread_t threads[THREADS];
	enum who who = all->shape->who;

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (size_t i = 0; i < THREADS; i++) {
		size_t from = all->nr * i / THREADS;

		parts[i] = *all;
		parts[i].blocks += from;
		parts[i].nr = all->nr * (i + 1) / THREADS - from;
		pthread_create(&threads[i], NULL, thread_main, &parts[i]);
	}
	if (who != OTHERS) {
		pthread_barrier_wait(&barrier);
		peak = resident();
		pthread_barrier_wait(&barrier);
	}
	if (who == FOUR_ALIVE)
		pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < THREADS && who != FOUR_ALIVE; i++)
		pthread_join(threads[i], NULL);
}

static void burst(struct part *part)
{
	if (part->shape->who == MAIN || part->shape->who == OTHERS) {
		fill(part);
		turn(part);
		peak = resident();
	}
	if (part->shape->who == MAIN)
		release(part);
	else
		run_threads(part);
}

static int compare(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

/* Bytes of pages that kept blocks touch; @pages has room for all. */
static size_t pinned_bytes(const struct block *blocks, size_t nr, uintptr_t *pages)
{
	size_t n = 0, different = 0;

	for (size_t i = 0; i < nr; i++) {
		uintptr_t first = (uintptr_t)blocks[i].start / PAGE;
		uintptr_t last = ((uintptr_t)blocks[i].start + blocks[i].bytes - 1) / PAGE;

		for (; blocks[i].kept && first <= last; first++)
			pages[n++] = first;
	}
	qsort(pages, n, sizeof(*pages), compare);
	for (size_t i = 0; i < n; i++)
		different += i == 0 || pages[i] != pages[i - 1];
	return different * PAGE;
}

static void wait_ms(unsigned int ms, unsigned int trickle)
{
	static struct bench_random random = { 88172645463325252u };
	unsigned long pairs = (unsigned long)trickle * ms / 1000;

	for (unsigned long i = 0; i < pairs; i++) {
		void *volatile one = malloc(16 + bench_random(&random) % 2048);

		usleep(1000000 / trickle);
		free(one);
	}
	if (!trickle)
		usleep(ms * 1000);
}

/* RSS after each of the times in @waits, counted from now; how many there are. */
static size_t rest(const char *waits, unsigned int trickle, size_t *rests)
{
	unsigned int waited = 0;
	size_t nr = 0;

	for (char *end; *waits && nr < RESTS_MAX; waits = *end ? end + 1 : end) {
		unsigned int until = (unsigned int)strtoul(waits, &end, 10);

		if (end == waits)
			break;
		wait_ms(until > waited ? until - waited : 0, trickle);
		waited = until > waited ? until : waited;
		rests[nr++] = resident();
	}
	return nr;
}

static void measure(const struct shape *shape, size_t bytes, const char *waits,
		    unsigned int trickle)
{
	struct shape stays = *shape;
	struct part part = { shape, NULL, 0, bytes, { 88172645463325252u } };
	struct part over = { &stays, NULL, 0, bytes / OVER_SHARE, { 1181783497276652981u } };
	size_t before, live = 0, pinned, nr, nr_rests, rests[RESTS_MAX];
	struct block *blocks;
	uintptr_t *pages;

	stays.keep_one_in = 1;
	part.nr = choose(&part);
	over.nr = shape->is_over ? choose(&over) : 0;
	nr = part.nr + over.nr;
	blocks = table((nr + 1) * sizeof(*blocks));
	pages = table((2 * nr + (bytes + over.bytes) / PAGE + 1024) * sizeof(*pages));
	over.blocks = blocks;
	part.blocks = blocks + over.nr;
	choose(&part);
	if (over.nr)
		choose(&over);
	before = resident();

	fill(&over);
	burst(&part);
	nr_rests = rest(waits, trickle, rests);
	for (size_t i = 0; i < nr; i++)
		live += blocks[i].kept ? blocks[i].bytes : 0;
	pinned = pinned_bytes(blocks, nr, pages);
	printf("%s %zu %zu %zu", shape->name, peak - before, live, pinned);
	for (size_t i = 0; i < nr_rests; i++)
		printf(" %zu", rests[i] > before ? rests[i] - before : 0);
	putchar('\n');
}

int main(int argc, char **argv)
{
	const char *name, *waits;
	unsigned int trickle;
	size_t mib;

	bench_begin("idle_return", argc, argv);
	name = bench_string("shape", NULL);
	waits = bench_string("wait", "1000");
	trickle = (unsigned int)bench_number("trickle", 0);
	mib = (size_t)bench_number("mib", 256);
	bench_options_done();
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (!name)
			puts(shapes[i].name);
		else if (!strcmp(name, shapes[i].name))
			return measure(&shapes[i], mib << 20, waits, trickle), 0;
	}
	if (name)
		bench_fatal("there is no shape %s", name);
	return 0;
}
