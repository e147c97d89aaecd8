/* SPDX-License-Identifier: MIT */
/* Meetings of guards, moves, readers, forks, reserves and the pressure thread. */
#include "pairs.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "features/debug/mailbox.h"

/* ---- at a limit the reserve has memory for whatever a thread needs ---- */

static void reserve_gives(struct cell *cell)
{
	static const size_t sizes[] = {
		1, 100, 3840, 3841, 8000, 30000, 33000, LARGE, 500000,
	};
	void *block = NULL;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		block = malloc(sizes[i]);
		if (!block)
			cell_fail(cell, "malloc(%zu): NULL, %zu bytes in the reserve", sizes[i],
				  slub_reserve_bytes());
		memset(block, 1, sizes[i]);
		free(block);
		block = calloc(1, sizes[i]);
		if (!block)
			cell_fail(cell, "calloc(%zu): NULL", sizes[i]);
		free(block);
	}
	for (size_t align = 8; align <= 65536; align *= 2) {
		if (posix_memalign(&block, align, 1000))
			cell_fail(cell, "posix_memalign(%zu): no memory", align);
		free(block);
	}
}

/* Takes all there is, in ever smaller pieces. */
static size_t exhaust(void **some, size_t max)
{
	size_t nr = 0;

	for (size_t piece = 1 << 20; piece >= 64; piece /= 2)
		while (nr < max && (some[nr] = malloc(piece)))
			nr++;
	return nr;
}

void meet_reserve_x_limit(struct cell *cell)
{
	enum { PIECES = 60000 };
	static void *some[PIECES];
	struct slub_value value = { 0 };
	char text[32];
	size_t nr;

	cell_expect(cell, slub_reserve_set(2 << 20), "slub_reserve_set", 0);
	cell_expect(cell, slub_value_read("heap.slab_bytes", &value), "slab_bytes", 0);
	snprintf(text, sizeof(text), "%zu", (size_t)value.number + (8 << 20));
	cell_expect(cell, slub_option_set("limit", text), "slub_option_set", 0);
	nr = exhaust(some, PIECES);
	if (nr == PIECES)
		cell_fail(cell, "no limit");
	cell_expect(cell, slub_reserve_enter(), "slub_reserve_enter", 0);
	reserve_gives(cell);
	cell_expect(cell, slub_reserve_leave(), "slub_reserve_leave", 0);
	while (nr)
		free(some[--nr]);
	cell_expect(cell, slub_option_set("limit", "0"), "slub_option_set", 0);
	if (slub_reserve_bytes() != 2 << 20)
		cell_fail(cell, "%zu bytes in a reserve of 2 MiB", slub_reserve_bytes());
	cell_expect(cell, slub_reserve_set(0), "slub_reserve_set", 0);
}

/* ---- guards ---- */

static void guard(struct cell *cell, const char *every)
{
	cell_expect(cell, command_ask(cell, MAILBOX_GUARD, every), "slub guard", 0);
}

void meet_typesafe_x_guard(struct cell *cell)
{
	enum { SIZE = 100, OTHERS = 30 };
	struct slub_cache *cache = slub_cache_create("meeting", SIZE, 0,
						     SLUB_CACHE_TYPESAFE_BY_RCU, NULL);
	volatile char *object;
	int reader;

	guard(cell, "1");
	object = slub_cache_alloc(cache);
	memset((void *)object, 0x5a, SIZE);
	reader = slub_read_lock();
	slub_cache_free(cache, (void *)object);
	for (int i = 0; i < OTHERS; i++) {
		char *other = slub_cache_alloc(cache);

		memset(other, 0x11, SIZE);
		if (object < other + SIZE && other < object + SIZE)
			cell_fail(cell, "a guarded place has a younger object");
		/* A reader may look, and lock. */
		if (object[SIZE / 2] != 0x5a)
			cell_fail(cell, "a guarded object was written to after its free");
		slub_cache_free(cache, other);
	}
	slub_read_unlock(reader);
	guard(cell, "0");
	cell_expect(cell, slub_cache_destroy(cache), "slub_cache_destroy", 0);
}

void meet_guard_x_profile(struct cell *cell)
{
	enum { OBJECTS = 40 };
	struct block *some[OBJECTS];

	guard(cell, "1");
	cell_expect(cell, slub_profile_start(1), "slub_profile_start", 0);
	for (int i = 0; i < OBJECTS; i++)
		some[i] = block_take(cell, NULL, 100 + 900 * (size_t)i);
	for (int i = 0; i < OBJECTS; i++) {
		struct block *block = some[i];

		/* By turns one that ends before the profile and the guard, and after both. */
		if (i % 2)
			block_give(cell, block, NULL);
	}
	cell_expect(cell, slub_profile_write("/dev/null"), "slub_profile_write", 0);
	cell_expect(cell, slub_profile_stop(), "slub_profile_stop", 0);
	guard(cell, "0");
	blocks_check(cell);
	blocks_give_all(cell, NULL, NULL);
	cell_expect(cell, slub_profile_write("/dev/null"), "slub_profile_write", 0);
}

static volatile bool enough;

static void *alloc_typed(void *arg)
{
	struct slub_cache *cache = arg;

	while (!enough) {
		void *object = slub_cache_alloc(cache), *volatile block = malloc(150);

		slub_cache_free(cache, object);
		free(block);
	}
	return NULL;
}

/* Watched, so that each allocation tosses a coin. */
void meet_guard_x_thread(struct cell *cell)
{
	enum { THREADS = 3, TURNS = 60 };
	struct slub_cache *cache = slub_cache_create("meeting", 150, 0,
						     SLUB_CACHE_CONSISTENCY_CHECKS, NULL);
	pthread_t threads[THREADS];

	enough = false;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, alloc_typed, cache))
			cell_fail(cell, "no thread");
	for (int i = 0; i < TURNS; i++) {
		guard(cell, i % 2 ? "1" : "2");
		sched_yield();
		guard(cell, "0");
	}
	enough = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cell_expect(cell, slub_cache_destroy(cache), "slub_cache_destroy", 0);
}

/* ---- an object moves while a reader looks at it ---- */

enum { MOVED = 300, NUMBERS = 16 };

static uint64_t (*moved[MOVED])[NUMBERS];

static void moved_construct(void *object)
{
	memset(object, 0, sizeof(*moved[0]));
}

static void moved_isolate(struct slub_cache *cache, void **objects, size_t nr, void *arg)
{
	(void)cache, (void)arg;
	for (size_t i = 0; i < nr; i++) {
		uint64_t place = *(uint64_t *)objects[i];

		if (!place || moved[place - 1] != objects[i])
			objects[i] = NULL;
	}
}

/* The old place stays as it is, as long as somebody may look. */
static int moved_migrate(struct slub_cache *cache, void *from, void *to, void *arg)
{
	uint64_t place = *(uint64_t *)from;

	(void)cache, (void)arg;
	memcpy(to, from, sizeof(*moved[0]));
	moved[place - 1] = to;
	slub_free_deferred(from);
	return SLUB_MIGRATED_FREE_LATER;
}

void meet_movable_x_reader(struct cell *cell)
{
	struct slub_cache *cache = slub_cache_create("meeting", sizeof(*moved[0]), 0, 0,
						     moved_construct);
	uint64_t (*seen[MOVED])[NUMBERS];
	int reader;

	cell_expect(cell, slub_cache_setup_mobility(cache, moved_isolate, moved_migrate, NULL),
		    "slub_cache_setup_mobility", 0);
	for (int i = 0; i < MOVED; i++) {
		moved[i] = slub_cache_alloc(cache);
		for (int k = 0; k < NUMBERS; k++)
			(*moved[i])[k] = (uint64_t)i + 1;
	}
	for (int i = 0; i < MOVED; i++) {
		if (i % 8) {
			moved_construct(moved[i]);
			slub_cache_free(cache, moved[i]);
			moved[i] = NULL;
		}
		seen[i] = moved[i];
	}
	reader = slub_read_lock();
	if (slub_cache_defrag(cache, 100) < 0)
		cell_fail(cell, "slub_cache_defrag");
	slub_cache_defrag(cache, 100);
	for (int i = 0; i < MOVED; i += 8)
		for (int k = 0; k < NUMBERS; k++)
			if ((*seen[i])[k] != (uint64_t)i + 1 || (*moved[i])[k] != (uint64_t)i + 1)
				cell_fail(cell, "an object or its old place has changed");
	slub_read_unlock(reader);
	for (int i = 0; i < MOVED; i += 8)
		slub_cache_free(cache, moved[i]);
	cell_expect(cell, slub_cache_destroy(cache), "slub_cache_destroy", 0);
}

/* ---- a child of a thread inside a section leaves it, and can wait for others ---- */

static void leave_in_child(struct cell *cell, int outer, int inner)
{
	struct slub_cache *cache = slub_cache_create("child", 80, 0, 0, NULL);

	cell->is_child = true;
	cell_watch(cell);
	slub_read_unlock(inner);
	slub_read_unlock(outer);
	slub_free_deferred(slub_cache_alloc(cache));
	slub_deferred_barrier();
	if (slub_deferred_pending())
		cell_fail(cell, "%zu pending in a child", slub_deferred_pending());
	cell_expect(cell, slub_cache_destroy(cache), "slub_cache_destroy", 0);
	_exit(0);
}

void meet_fork_x_reader(struct cell *cell)
{
	void *held = malloc(100);
	int outer, inner, status = 0;
	pid_t child;

	memset(held, 7, 100);
	outer = slub_read_lock();
	slub_free_deferred(held);
	inner = slub_read_lock();
	child = fork();
	if (!child)
		leave_in_child(cell, outer, inner);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (child < 0 || status)
		cell_fail(cell, "child %d: status %#x", (int)child, status);
	slub_read_unlock(inner);
	if (((volatile char *)held)[99] != 7)
		cell_fail(cell, "what a reader looks at has changed");
	slub_read_unlock(outer);
}

/* ---- a shrinker of the pressure thread stops that thread ---- */

static volatile int answered;	/* 1: not yet */
static pthread_t starter;

static size_t stops_count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	return 1000;
}

static size_t stops_scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	if (answered == 1 && !pthread_equal(pthread_self(), starter))
		answered = slub_pressure_stop_thread();
	return SLUB_SHRINK_STOP;
}

void meet_shrinker_x_pressure(struct cell *cell)
{
	static struct slub_shrinker shrinker;
	struct timespec moment = { 0, 1000000 };

	starter = pthread_self();
	answered = 1;
	shrinker = (struct slub_shrinker)SLUB_SHRINKER_INIT("stops", stops_count, stops_scan);
	pressure_source(cell);
	cell_expect(cell, slub_shrinker_create(&shrinker), "slub_shrinker_create", 0);
	cell_expect(cell, slub_pressure_start_thread(), "slub_pressure_start_thread", 0);
	while (answered == 1) {
		pressure_event(cell);
		nanosleep(&moment, NULL);
	}
	if (answered != -EDEADLK)
		cell_fail(cell, "slub_pressure_stop_thread() in that thread: %d", answered);
	cell_expect(cell, slub_pressure_start_thread(), "a second thread", -EEXIST);
	cell_expect(cell, slub_pressure_stop_thread(), "slub_pressure_stop_thread", 0);
	if (slub_pressure_stop_thread() != -ESRCH)
		cell_fail(cell, "there is another pressure thread");
	cell_expect(cell, slub_shrinker_destroy(&shrinker), "slub_shrinker_destroy", 0);
}
