/* SPDX-License-Identifier: MIT */
/*
 * A cache server whose limit is set too high for the machine that it runs on: an LRU cache of
 * values from malloc, asked for keys of which it could hold all if it had the memory.
 *
 * With libslub preloaded it registers a shrinker, and gives up the values that were used last
 * longest ago when memory is short.  Those lie anywhere, so it also moves what is left on sparse
 * slabs, or a tenth of the values would keep all of the memory (--move 0: it does not).  Another
 * allocator asks nobody.  If malloc returns NULL it gives up values and tries again: that is
 * counted as refused.
 *
 * Every second a line: seconds requests hits entries bytes refused shrunk moved
 *
 * Usage: lru_server --mib N --seconds N [--move 0|1]
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>

#include <slub/defrag.h>
#include <slub/shrinker.h>

/* There if libslub is preloaded. */
#pragma weak slub_shrinker_create
#pragma weak slub_object_is_sparse
#pragma weak slub_object_move

#define BUCKETS (1u << 18)
/* Sizes change so often in a run: what one fills leaves holes that the next does not fit. */
#define PHASES 6
#define RATE 50000		/* requests a second */

struct entry {
	struct entry *next;		/* in the bucket */
	struct entry *newer, *older;
	uint64_t key;
	size_t bytes;
	char *value;
};

static struct entry *buckets[BUCKETS];
static struct entry newest = { .older = &newest, .newer = &newest };	/* a ring */
static size_t nr_entries, nr_bytes;
static uint64_t requests, hits, refused, shrunk, moved;
static int moves = 1;
/* Recursive: the shrinker runs in this thread too, from inside malloc. */
static pthread_mutex_t lock;

static void unhook(struct entry *e)
{
	e->older->newer = e->newer;
	e->newer->older = e->older;
}

static void hook(struct entry *e)
{
	e->older = newest.older;
	e->newer = &newest;
	e->older->newer = e;
	newest.older = e;
}

/* Makes it the next to be given up. */
static void hook_oldest(struct entry *e)
{
	unhook(e);
	e->newer = newest.newer;
	e->older = &newest;
	e->newer->older = e;
	newest.newer = e;
}

static struct entry **place_of(uint64_t key)
{
	struct entry **place = &buckets[(key * 0x9e3779b97f4a7c15u) >> 46];

	while (*place && (*place)->key != key)
		place = &(*place)->next;
	return place;
}

/* False: there is nothing left to give up. */
static int evict(void)
{
	struct entry *e = newest.newer;
	struct entry **place;

	if (e == &newest)
		return 0;
	place = place_of(e->key);
	*place = e->next;
	unhook(e);
	nr_entries--;
	nr_bytes -= e->bytes;
	free(e->value);
	free(e);
	return 1;
}

/* Moves the entry that *@place names, and its value, if that helps to empty a slab. */
static void move_entry(struct entry **place)
{
	struct entry *e = *place, *to;
	char *value = slub_object_is_sparse(e->value) ? slub_object_move(e->value) : NULL;

	if (value) {
		e->value = value;
		moved++;
	}
	to = slub_object_is_sparse(e) ? slub_object_move(e) : NULL;
	if (to) {
		*place = to;
		to->older->newer = to;
		to->newer->older = to;
		moved++;
	}
}

/* Up to @nr objects, of an eighth of all; the next call goes on behind them. */
static uint64_t move_some(uint64_t nr)
{
	static unsigned int cursor;
	uint64_t before = moved;

	for (unsigned int i = 0; i < BUCKETS / 8 && moved - before < nr; i++, cursor++) {
		for (struct entry **place = &buckets[cursor % BUCKETS]; *place;
		     place = &(*place)->next)
			move_entry(place);
	}
	return moved - before;
}

static size_t count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	return __atomic_load_n(&nr_entries, __ATOMIC_RELAXED);
}

static size_t scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	size_t n = 0;

	(void)shrinker;
	if (pthread_mutex_trylock(&lock))
		return SLUB_SHRINK_STOP;
	/* What can be moved together need not go. */
	if (moves)
		n = move_some(control->nr_to_scan);
	for (; n < control->nr_to_scan && evict(); n++)
		shrunk++;
	pthread_mutex_unlock(&lock);
	return n;
}

static struct slub_shrinker shrinker = {
	.name = "lru", .count = count, .scan = scan, .seeks = SLUB_SHRINKER_SEEKS, .batch = 1024,
};

static void *get_memory(size_t bytes)
{
	void *memory;

	while (!(memory = malloc(bytes))) {
		refused++;
		for (int i = 0; i < 100; i++) {
			if (!evict())
				return NULL;
		}
	}
	return memory;
}

/* What of it may be called by the shrinker touches nothing: memory first, then the lists. */
static void insert(uint64_t key, size_t bytes, size_t capacity)
{
	struct entry *e = get_memory(sizeof(*e));
	char *value = e ? get_memory(bytes) : NULL;
	struct entry **place;

	if (!value) {
		free(e);
		return;
	}
	memset(value, (int)key, bytes);
	*e = (struct entry){ .key = key, .bytes = bytes, .value = value };
	place = place_of(key);
	*place = e;
	hook(e);
	nr_entries++;
	nr_bytes += bytes;
	while (nr_bytes > capacity)
		evict();
}

/* A thousand bytes on the average in each phase, and each time others. */
static size_t size_of(uint64_t key, unsigned int phase)
{
	uint64_t random = (key * 0xbf58476d1ce4e5b9u) >> 40;

	switch (phase % 3) {
	case 0:
		return 64 + random % 1872;
	case 1:
		return 800 + random % 400;
	default:
		return random % 4 ? 200 + random % 200 : 2600 + random % 400;
	}
}

static void request(struct bench_random *random, uint64_t nr_keys, unsigned int phase,
		    size_t capacity)
{
	double u = (double)bench_random(random) / (double)(1ull << 32);
	uint64_t key = (uint64_t)((double)nr_keys * u * u);
	struct entry *e = *place_of(key);

	requests++;
	if (!e) {
		insert(key, size_of(key, phase), capacity);
		return;
	}
	hits++;
	if (e->value[e->bytes - 1] != (char)key)
		bench_fatal("a value is not what was stored");
	unhook(e);
	hook(e);
	/* One in twenty has changed at its source. */
	if (bench_random(random) % 20 == 0) {
		hook_oldest(e);
		evict();
		insert(key, size_of(key, phase), capacity);
	}
}

static void serve(double seconds, size_t capacity)
{
	double start = bench_seconds(), next_line = start + 1, t;
	struct bench_random random = { 88172645463325252u };
	uint64_t nr_keys = capacity / 1000;

	while ((t = bench_seconds()) < start + seconds) {
		unsigned int phase = (unsigned int)((t - start) * PHASES / seconds);

		pthread_mutex_lock(&lock);
		while ((double)requests < (t - start) * RATE)
			request(&random, nr_keys, phase, capacity);
		pthread_mutex_unlock(&lock);
		if (t >= next_line) {
			printf("%.1f %llu %llu %zu %zu %llu %llu %llu\n", t - start,
			       (unsigned long long)requests, (unsigned long long)hits, nr_entries,
			       nr_bytes, (unsigned long long)refused, (unsigned long long)shrunk,
			       (unsigned long long)moved);
			fflush(stdout);
			next_line += 1;
		}
		bench_sleep(0.002);
	}
}

int main(int argc, char **argv)
{
	double mib, seconds;
	pthread_mutexattr_t recursive;

	bench_begin("lru_server", argc, argv);
	mib = bench_number("mib", 256);
	seconds = bench_number("seconds", 600);
	moves = (int)bench_number("move", 1);
	bench_options_done();
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &recursive);
	if (slub_shrinker_create && slub_shrinker_create(&shrinker))
		fprintf(stderr, "lru_server: no shrinker\n");
	serve(seconds, (size_t)(mib * BENCH_MIB));
	return 0;
}
