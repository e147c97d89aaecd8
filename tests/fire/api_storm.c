/* SPDX-License-Identifier: MIT */
/*
 * Threads that call everything at once: each step is a call chosen at random of the whole public
 * interface, on things of the thread's own (caches, buckets, pools, groups, shrinkers, per-CPU
 * memory, objects with a stamp over all of them) and on what all share (a cache and malloc's
 * classes, through boxes that objects change hands in; debugging on and off; shrinking,
 * validating, profiling; forks; threads that end).  What must not happen: a call that never ends,
 * a stamp that changed, an error that the header does not name, an object that cannot be freed.
 * The rarer calls are in api_storm_objects.c and api_storm_others.c.
 *
 * --ops=N      steps in all           --threads=N  that take them
 * --without=A,B   leaves calls out; --only=A,B  leaves out all others
 */
#include "api_storm.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
	THREADS_MAX = 64,
	OBJECTS = STORM_OBJECTS,
	BOXES = 64,
	SIZE_MAX_TESTED = 9000,
	HUNG_SECONDS = STORM_HUNG_SECONDS,
};

static struct thread threads[THREADS_MAX];
static _Atomic(struct head *) boxes[BOXES];
static atomic_long steps_left;
struct slub_cache *shared;
static struct slub_srcu domain;
static pthread_t ids[THREADS_MAX];
static unsigned int nr_threads;
static atomic_bool all_are_there;

uint64_t below(struct thread *t, uint64_t bound)
{
	return fire_below(&t->random, bound);
}

/* ---- objects ---- */

void check_is(long got, long one, long other, const char *what)
{
	if (got != one && got != other)
		fire_fail("%s: %ld", what, got);
}

/*
 * In a child what others had in hand is lost to it.  Backend thread leaves alone, after a
 * second, who was interrupted in the middle of a list by a handler that waits for a lock.
 */
bool is_destroyed(const struct thread *t, int err, const char *what)
{
	if (err == -EBUSY && t->is_child)
		return false;
	if (err == -EAGAIN && !strcmp(fire_backend_name(fire_backend()), "thread"))
		return false;
	check_is(err, 0, 0, what);
	return true;
}

struct head *object_mark(struct thread *t, void *ptr, size_t size, struct slub_cache *cache)
{
	struct head *head = ptr;

	if (!head)
		fire_fail("no memory for %zu bytes, errno %d", size, errno);
	head->size = size;
	head->id = ((uint64_t)(t - threads) << 48) + t->next_id++;
	head->cache = cache;
	fire_stamp(head + 1, size - sizeof(*head), head->id);
	return head;
}

void object_check(struct head *head)
{
	fire_unstamp(head + 1, head->size - sizeof(*head), head->id, "object");
}

void object_free(struct head *head)
{
	if (!head)
		return;
	object_check(head);
	if (head->cache)
		slub_cache_free(head->cache, head);
	else
		free(head);
}

void object_keep(struct thread *t, struct head *head)
{
	size_t place = below(t, OBJECTS);

	object_free(t->objects[place]);
	t->objects[place] = head;
}

void take_malloc(struct thread *t)
{
	size_t size = sizeof(struct head) + 8 + below(t, below(t, 8) ? 600 : SIZE_MAX_TESTED);

	object_keep(t, object_mark(t, malloc(size), size, NULL));
}

static void take_large(struct thread *t)
{
	size_t size = 40000 + below(t, 300000);

	object_keep(t, object_mark(t, malloc(size), size, NULL));
}

static void take_shared(struct thread *t)
{
	size_t size = slub_cache_size(shared);

	object_keep(t, object_mark(t, slub_cache_alloc(shared), size, shared));
}

static void take_realloc(struct thread *t)
{
	struct head *head = t->objects[below(t, OBJECTS)];
	size_t size = sizeof(*head) + 8 + below(t, SIZE_MAX_TESTED);
	size_t place = 0;

	if (!head || head->cache)
		return;
	while (t->objects[place] != head)
		place++;
	object_check(head);
	t->objects[place] = object_mark(t, realloc(head, size), size, NULL);
}

static void take_box(struct thread *t)
{
	size_t place = below(t, OBJECTS);

	t->objects[place] = atomic_exchange(&boxes[below(t, BOXES)], t->objects[place]);
}

void take_free(struct thread *t)
{
	size_t place = below(t, OBJECTS);

	object_free(t->objects[place]);
	t->objects[place] = NULL;
}

static void take_deferred(struct thread *t)
{
	size_t place = below(t, OBJECTS);
	int index = slub_srcu_read_lock(&slub_rcu_domain);

	if (t->objects[place]) {
		object_check(t->objects[place]);
		slub_free_deferred(t->objects[place]);
	}
	t->objects[place] = NULL;
	slub_srcu_read_unlock(&slub_rcu_domain, index);
	if (!below(t, 200))
		slub_deferred_barrier();
}

/* ---- things of the thread's own ---- */


static void construct(void *object)
{
	memset(object, 0, 16);
}

static void take_cache(struct thread *t)
{
	static const unsigned long flags[] = {
		0, SLUB_NO_MERGE, SLUB_HWCACHE_ALIGN, SLUB_TYPESAFE_BY_RCU, SLUB_ACCOUNT,
		SLUB_POISON | SLUB_RED_ZONE, SLUB_STORE_USER | SLUB_CONSISTENCY_CHECKS,
	};
	char name[SLUB_CACHE_NAME_MAX + 1];
	void *some[40];
	size_t size, nr = below(t, 40);

	if (!t->cache) {
		size = sizeof(struct head) + 8 + below(t, below(t, 4) ? 500 : 9000);
		/* Of merged caches a destroy frees the name that came last, whosever. */
		snprintf(name, sizeof(name), "own-%s-%lu", t->name,
			 (unsigned long)t->next_id++);
		t->cache = slub_cache_create(name, size, 0, flags[below(t, 7)],
					     below(t, 4) ? NULL : construct);
		if (!t->cache)
			fire_fail("no cache, errno %d", errno);
	}
	size = slub_cache_size(t->cache);
	if (slub_cache_alloc_bulk(t->cache, 0, nr, some) != nr)
		fire_fail("no bulk, errno %d", errno);
	for (size_t i = 0; i < nr; i++)
		object_mark(t, some[i], size, t->cache);
	for (size_t i = 0; i < nr; i++)
		object_check(some[i]);
	slub_cache_free_bulk(t->cache, nr, some);
	if (!below(t, 4)) {
		if (is_destroyed(t, slub_cache_destroy(t->cache), "slub_cache_destroy"))
			t->cache = NULL;
	}
}

static void take_bucket(struct thread *t)
{
	size_t size = 1 + below(t, 3000);
	char *block;

	if (!t->bucket)
		t->bucket = slub_bucket_create(t->name, 0);
	if (!t->bucket)
		fire_fail("no bucket, errno %d", errno);
	block = slub_bucket_alloc(t->bucket, size);
	if (!block)
		fire_fail("no block of a bucket, errno %d", errno);
	fire_stamp(block, size, size);
	fire_unstamp(block, size, size, "bucket");
	slub_bucket_free(t->bucket, block);
	if (!below(t, 8)) {
		if (is_destroyed(t, slub_bucket_destroy(t->bucket), "slub_bucket_destroy"))
			t->bucket = NULL;
	}
}

static void take_group(struct thread *t)
{
	struct slub_group_stats stats;

	if (!t->group) {
		t->group = slub_group_create(t->name, NULL);
		if (!t->group)
			fire_fail("no group, errno %d", errno);
		return;
	}
	check_is(slub_group_enter(t->group), 0, 0, "slub_group_enter");
	for (size_t i = below(t, 20); i; i--)
		take_malloc(t);
	check_is(slub_group_stats_read(t->group, &stats), 0, 0, "slub_group_stats_read");
	check_is(slub_group_leave(t->group), 0, 0, "slub_group_leave");
	if (!below(t, 8)) {
		check_is(slub_group_delete(t->group), 0, 0, "slub_group_delete");
		t->group = NULL;
	}
}

static size_t shrinker_count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	free(malloc(100));
	(void)shrinker, (void)control;
	return 10;
}

static size_t shrinker_scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker;
	return control->nr_to_scan / 2;
}

static void take_shrinker(struct thread *t)
{
	if (t->shrinker.count) {
		check_is(slub_shrinker_unregister(&t->shrinker), 0, 0, "slub_shrinker_unregister");
		memset(&t->shrinker, 0, sizeof(t->shrinker));
		return;
	}
	t->shrinker.name = t->name;
	t->shrinker.count = shrinker_count;
	t->shrinker.scan = shrinker_scan;
	t->shrinker.seeks = SLUB_DEFAULT_SEEKS;
	check_is(slub_shrinker_register(&t->shrinker), 0, 0, "slub_shrinker_register");
}

static void take_percpu(struct thread *t)
{
	if (!t->word) {
		t->word = slub_percpu_alloc(8 << below(t, 4), 8);
		t->word_sum = 0;
		/* Where areas are small (SLUB_PERCPU=static) caches' counters fill them. */
		if (!t->word && errno == ENOSPC)
			return;
		if (!t->word)
			fire_fail("no per-CPU memory, errno %d", errno);
	}
	for (size_t i = below(t, 50); i; i--) {
		slub_percpu_add(t->word, (int64_t)i);
		t->word_sum += (int64_t)i;
	}
	if (slub_percpu_sum(t->word) != t->word_sum)
		fire_fail("per-CPU sum %ld, not %ld", (long)slub_percpu_sum(t->word),
			  (long)t->word_sum);
	if (!below(t, 8)) {
		check_is(slub_percpu_free(t->word), 0, 0, "slub_percpu_free");
		t->word = 0;
	}
}

static void take_srcu(struct thread *t)
{
	int index = slub_srcu_read_lock(&domain);

	take_malloc(t);
	slub_srcu_read_unlock(&domain, index);
	if (!below(t, 16))
		slub_srcu_synchronize(&domain);
}

/* ---- what concerns all ---- */

static void take_shrink(struct thread *t)
{
	switch (below(t, 5)) {
	case 0:
		slub_shrink((int)below(t, SLUB_PRIORITY_MAX + 1));
		break;
	case 1:
		slub_shrink_all();
		break;
	case 2:
		check_is(slub_cache_shrink(shared), 0, 1, "slub_cache_shrink");
		break;
	case 3:
		malloc_trim(0);
		break;
	case 4:
		slub_defrag_all(100);
		break;
	}
}

static void take_debug(struct thread *t)
{
	static const char *const settings[] = {
		"FZPU,malloc-64", "-,malloc-64", "F,malloc-1024*", "-,malloc-1024*", "ZP,storm*",
		"-,storm*", "U,malloc-96", "-,*",
	};
	int changed = slub_debug(settings[below(t, 8)]);

	if (changed < 0 && changed != -EBUSY)
		fire_fail("slub_debug: %d", changed);
}

static void take_validate(struct thread *t)
{
	long bugs = below(t, 4) ? slub_cache_validate(shared) : slub_validate_all();

	if (bugs > 0)
		fire_fail("%ld bugs in what nobody damaged", bugs);
}

static int visit(void *object, void *arg)
{
	(void)object;
	return ++*(size_t *)arg > 100000;
}

static void take_look(struct thread *t)
{
	struct slub_cache_stats stats;
	size_t seen = 0;

	if (below(t, 2))
		check_is(slub_cache_for_each_object(shared, visit, &seen), 0, -EAGAIN,
			 "slub_cache_for_each_object");
	else
		check_is(slub_cache_stats(shared, &stats), 0, 0, "slub_cache_stats");
}

static void take_profile(struct thread *t)
{
	int err = below(t, 2) ? slub_profile_start(4096) : slub_profile_stop();

	if (err && err != -EBUSY && err != -EALREADY && err != -EINVAL)
		fire_fail("profile: %d", err);
}

static void take_any(struct thread *t);

/* Other threads may have been in the middle of anything. */
static void be_child(struct thread *t)
{
	t->is_child = true;
	for (int i = 0; i < 30; i++) {
		take_malloc(t);
		take_shared(t);
		take_free(t);
	}
	for (int i = 0; i < 20; i++)
		take_any(t);
	_exit(0);
}

static void take_fork(struct thread *t)
{
	pid_t child;

	if (t->is_child)
		return;
	child = fork();
	if (child < 0)
		fire_fail("fork: errno %d", errno);
	if (child == 0)
		be_child(t);
	check_is(fire_wait(child, HUNG_SECONDS), 0, 0, "the child's status");
}

static void *short_life(void *arg)
{
	struct thread *t = arg;

	take_malloc(t);
	take_shared(t);
	take_box(t);
	return NULL;
}

static void take_thread(struct thread *t)
{
	pthread_t other;

	/* It uses this thread's things, which waits meanwhile. */
	if (pthread_create(&other, NULL, short_life, t) || pthread_join(other, NULL))
		fire_fail("no thread");
}

static const struct step steps[] = {
	{ "malloc", take_malloc, 200 },	{ "large", take_large, 10 },
	{ "shared", take_shared, 200 },	{ "realloc", take_realloc, 60 },
	{ "box", take_box, 100 },	{ "free", take_free, 100 },
	{ "deferred", take_deferred, 40 }, { "cache", take_cache, 40 },
	{ "bucket", take_bucket, 30 },
	{ "group", take_group, 30 },	{ "shrinker", take_shrinker, 20 },
	{ "percpu", take_percpu, 40 },	{ "srcu", take_srcu, 20 },
	{ "shrink", take_shrink, 4 },	{ "debug", take_debug, 3 },
	{ "validate", take_validate, 3 }, { "look", take_look, 5 },
	{ "profile", take_profile, 3 },	{ "fork", take_fork, 2 },
	{ "thread", take_thread, 4 },	{ NULL, NULL, 0 },
};

/* All steps that are wanted, of each part. */
enum { STEPS_MAX = 64 };

static struct step wanted[STEPS_MAX];
static unsigned int nr_wanted, weights;

static bool is_listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
		if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

static void choose_from(const struct step *step)
{
	const char *only = fire_opt_str("only", ""), *without = fire_opt_str("without", "");

	for (; step->name; step++) {
		if ((*only && !is_listed(only, step->name)) || is_listed(without, step->name))
			continue;
		if (nr_wanted == STEPS_MAX)
			fire_fail("more than %d steps", STEPS_MAX);
		wanted[nr_wanted++] = *step;
		weights += step->weight;
	}
}

static void choose_steps(void)
{
	choose_from(steps);
	choose_from(object_steps);
	choose_from(other_steps);
	if (!weights)
		fire_fail("--only and --without leave nothing");
}

static void take_any(struct thread *t)
{
	uint64_t which = below(t, weights);
	const struct step *step = wanted;

	while (which >= step->weight)
		which -= step++->weight;
	t->does = step->name;
	step->take(t);
}

pthread_t thread_id(struct thread *t)
{
	return ids[t - threads];
}

struct thread *thread_any(struct thread *t)
{
	return &threads[below(t, nr_threads)];
}

static void *run(void *arg)
{
	struct thread *t = arg;

	while (!atomic_load(&all_are_there))
		sched_yield();
	for (long n; (n = atomic_fetch_sub(&steps_left, 1)) > 0;) {
		take_any(t);
		if (n % 256 == 0)
			fire_watchdog(HUNG_SECONDS);
	}
	t->does = "end";
	return NULL;
}

/* ---- the end: all of it can be given back ---- */

static void thread_drop(struct thread *t)
{
	for (int i = 0; i < OBJECTS; i++)
		object_free(t->objects[i]);
	check_is(slub_cache_destroy(t->cache), 0, 0, "the last slub_cache_destroy");
	if (t->bucket)
		check_is(slub_bucket_destroy(t->bucket), 0, 0, "the last slub_bucket_destroy");
	check_is(slub_mempool_destroy(t->pool), 0, 0, "the last slub_mempool_destroy");
	if (t->shrinker.count)
		take_shrinker(t);
	free(t->busy);
	if (t->word)
		check_is(slub_percpu_free(t->word), 0, 0, "the last slub_percpu_free");
}

/* When no object is left, no group has anything. */
static void group_drop(struct thread *t)
{
	struct slub_group_stats stats;

	if (!t->group)
		return;
	check_is(slub_group_stats_read(t->group, &stats), 0, 0, "slub_group_stats_read");
	if (stats.usage)
		fire_fail("%s still has %zu bytes", t->name, (size_t)stats.usage);
	check_is(slub_group_delete(t->group), 0, 0, "the last slub_group_delete");
}

int main(int argc, char **argv)
{
	unsigned int nr;
	uint64_t seed;

	fire_start(argc, argv, "ops threads seed only without");
	fire_require_library();
	nr = (unsigned int)fire_opt("threads", 6);
	if (!nr || nr > THREADS_MAX)
		fire_fail("--threads=%u: 1 to %d", nr, THREADS_MAX);
	atomic_store(&steps_left, (long)fire_count("ops", 400000));
	seed = fire_seed();
	choose_steps();
	fire_watchdog(HUNG_SECONDS);
	shared = slub_cache_create("storm-shared", 200, 0, SLUB_NO_MERGE, NULL);
	if (!shared || slub_srcu_init(&domain))
		fire_fail("no cache for all, errno %d", errno);
	objects_start();
	others_start();
	nr_threads = nr;
	for (unsigned int i = 0; i < nr; i++) {
		threads[i].random = fire_rng_state(seed + i);
		snprintf(threads[i].name, sizeof(threads[i].name), "storm-%u", i);
		if (pthread_create(&ids[i], NULL, run, &threads[i]))
			fire_fail("no thread");
	}
	atomic_store(&all_are_there, true);
	for (unsigned int i = 0; i < nr; i++)
		pthread_join(ids[i], NULL);
	/* Its lists could not be emptied while it is preempted in the middle of them. */
	slub_pressure_stop_thread();
	for (int i = 0; i < BOXES; i++)
		object_free(atomic_exchange(&boxes[i], NULL));
	for (unsigned int i = 0; i < nr; i++)
		thread_drop(&threads[i]);
	slub_debug("-,*");
	objects_end();
	slub_deferred_barrier();
	others_end();
	for (unsigned int i = 0; i < nr; i++)
		group_drop(&threads[i]);
	check_is(slub_cache_destroy(shared), 0, 0, "destroying the shared cache");
	slub_srcu_destroy(&domain);
	printf("%u threads, backend %s\n", nr, fire_backend_name(fire_backend()));
	return 0;
}
