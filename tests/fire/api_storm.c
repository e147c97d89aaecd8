/* SPDX-License-Identifier: MIT */
/*
 * Threads that call everything at once: each step is a call chosen at random of the whole public
 * interface, on things of the thread's own (caches, buckets, pools, groups, shrinkers, per-CPU
 * memory, objects with a stamp over all of them) and on what all share (a cache and malloc's
 * classes, through boxes that objects change hands in; debugging on and off; shrinking,
 * validating, profiling; forks; threads that end).  What must not happen: a call that never ends,
 * a stamp that changed, an error that the header does not name, an object that cannot be freed.
 * The rarer calls are in api_storm_own.c, api_storm_objects.c and api_storm_others.c.
 *
 * --ops=N      steps in all           --threads=N  that take them
 * --refuse=nyn   a storm for each letter, of so many steps; y: meanwhile the system refuses
 *              memory at random moments (api_storm_refuse.c), and so may the library
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
	/* What a storm may leave, compared with the one before. */
	OBJECTS_LEFT = 65536,
	HEAP_LEFT = 1 << 20,
	PERCPU_LEFT = 8192,
};

static struct thread threads[THREADS_MAX];
static _Atomic(struct head *) boxes[BOXES];
static atomic_long steps_left;
struct slub_cache *shared;
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

/* What pthread_create() says; glibc's words for want of memory are others. */
bool is_thread(int err)
{
	if (err == EAGAIN && is_refusing())
		err = ENOMEM;
	return !is_refused_err(-err, "pthread_create");
}

/*
 * In a child what others had in hand is lost to it.  Backend thread leaves alone, after a
 * second, who was interrupted in the middle of a list by a handler that waits for a lock.
 */
bool is_destroyed(const struct thread *t, int err, const char *what)
{
	if (err == -EBUSY && t->is_child)
		return false;
	if (err == -EAGAIN && (is_refusing() ||
			       !strcmp(fire_backend_name(fire_backend()), "thread")))
		return false;
	check_is(err, 0, 0, what);
	return true;
}

struct head *object_mark(struct thread *t, void *ptr, size_t size, struct slub_cache *cache)
{
	struct head *head = ptr;

	if (!head && is_refused("an object"))
		return NULL;
	head->size = size;
	head->id = ((uint64_t)(t - threads) << 48) + t->next_id++;
	head->cache = cache;
	fire_stamp(head + 1, size - sizeof(*head), head->id);
	return head;
}

void object_check(struct head *head)
{
	if (!head)
		return;
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

/* What was @head is at @ptr now, which is NULL if it stays as and where it was. */
struct head *object_resize(struct thread *t, struct head *head, void *ptr, size_t size)
{
	struct head *moved = ptr;
	size_t kept;

	if (!ptr && is_refused("realloc"))
		return head;
	kept = ((moved->size < size ? moved->size : size) - sizeof(*moved)) / 8 * 8;
	if (fire_stamp_differs(moved + 1, kept, moved->id) != kept)
		fire_fail("realloc to %zu: content lost", size);
	return object_mark(t, moved, size, NULL);
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
	t->objects[place] = object_resize(t, head, realloc(head, size), size);
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

	object_check(t->objects[place]);
	/* Without memory it waits for readers, and would for itself. */
	if (!is_refusing())
		slub_free_deferred(t->objects[place]);
	slub_srcu_read_unlock(&slub_rcu_domain, index);
	if (is_refusing())
		slub_free_deferred(t->objects[place]);
	t->objects[place] = NULL;
	if (!below(t, 200))
		slub_deferred_barrier();
}

/* ---- what concerns all ---- */

static void take_shrink(struct thread *t)
{
	switch (below(t, 6)) {
	case 0:
		slub_shrink((int)below(t, SLUB_SHRINK_PRIORITY_MAX + 1));
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
	case 5:
		check_is(slub_node_shrink((int)below(t, 2) - 1) < 0, 0, 0, "slub_node_shrink");
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
		is_refused_err(changed, "slub_debug");
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
		is_refused_err(err, "profile");
}

static void take_any(struct thread *t);

/* Other threads may have been in the middle of anything. */
static void be_child(struct thread *t)
{
	t->is_child = true;
	refuse_fork_child();
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
	if (is_thread(pthread_create(&other, NULL, short_life, t)))
		pthread_join(other, NULL);
}

static const struct step steps[] = {
	{ "malloc", take_malloc, 200 },	{ "large", take_large, 10 },
	{ "shared", take_shared, 200 },	{ "realloc", take_realloc, 60 },
	{ "box", take_box, 100 },	{ "free", take_free, 100 },
	{ "deferred", take_deferred, 40 }, { "shrink", take_shrink, 4 },
	{ "debug", take_debug, 3 },	{ "validate", take_validate, 3 },
	{ "look", take_look, 5 },	{ "profile", take_profile, 3 },
	{ "fork", take_fork, 2 },	{ "thread", take_thread, 4 },
	{ NULL, NULL, 0 },
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
	choose_from(own_steps);
	choose_from(object_steps);
	choose_from(other_steps);
	if (strchr(fire_opt_str("refuse", "n"), 'y'))
		choose_from(refuse_steps);
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
	errno = 0;
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

long storm_steps_left(void)
{
	return atomic_load(&steps_left);
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

/* Ends the program where something cannot be made that all need. */
static void storm_start(uint64_t seed)
{
	shared = slub_cache_create("storm-shared", 200, 0, SLUB_CACHE_NO_MERGE, NULL);
	if (!shared || slub_srcu_create(&domain))
		fire_fail("no cache for all, errno %d", errno);
	objects_start();
	others_start();
	memset(threads, 0, sizeof(threads));
	for (unsigned int i = 0; i < nr_threads; i++) {
		threads[i].random = fire_rng_state(seed + i);
		snprintf(threads[i].name, sizeof(threads[i].name), "storm-%u", i);
	}
}

static void storm_end(void)
{
	/* Its lists could not be emptied while it is preempted in the middle of them. */
	slub_pressure_stop_thread();
	for (int i = 0; i < BOXES; i++)
		object_free(atomic_exchange(&boxes[i], NULL));
	for (unsigned int i = 0; i < nr_threads; i++) {
		for (int k = 0; k < OBJECTS; k++)
			object_free(threads[i].objects[k]);
		own_drop(&threads[i]);
	}
	slub_debug("-,*");
	objects_end();
	slub_deferred_barrier();
	others_end();
	for (unsigned int i = 0; i < nr_threads; i++)
		group_drop(&threads[i]);
	check_is(slub_cache_destroy(shared), 0, 0, "destroying the shared cache");
	slub_srcu_destroy(&domain);
}

static void storm(uint64_t seed, bool memory_is_refused)
{
	storm_start(seed);
	atomic_store(&steps_left, (long)fire_count("ops", 400000));
	atomic_store(&all_are_there, false);
	for (unsigned int i = 0; i < nr_threads; i++)
		if (pthread_create(&ids[i], NULL, run, &threads[i]))
			fire_fail("no thread");
	if (memory_is_refused)
		refuse_begin();
	atomic_store(&all_are_there, true);
	for (unsigned int i = 0; i < nr_threads; i++)
		pthread_join(ids[i], NULL);
	refuse_end();
	storm_end();
}

/* What is there after a storm: what the C library keeps, and what was lost. */
struct rest {
	size_t object_bytes;	/* in use */
	size_t heap_bytes;	/* of slabs and large blocks, and free ones kept */
	size_t percpu_bytes;
	size_t mapped_kib;	/* VmData */
	size_t resident_kib;
};

static size_t status_kib(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[200];
	size_t kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			kib = strtoul(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

static struct rest rest(void)
{
	struct mallinfo2 info;
	size_t pending;

	slub_profile_stop();
	slub_reserve_set(0);
	slub_shrink_all();
	slub_deferred_barrier();
	malloc_trim(0);
	info = mallinfo2();
	pending = slub_deferred_pending();
	if (pending)
		fire_fail("%zu deferred frees are pending for ever", pending);
	return (struct rest){
		info.uordblks + info.hblkhd, info.arena + info.hblkhd, slub_percpu_bytes(),
		status_kib("VmData:"), status_kib("VmRSS:"),
	};
}

static void rest_print(const struct rest *rest)
{
	printf("left: %zu bytes of objects, %zu of the heap, %zu of CPUs, %zu KiB mapped, "
	       "%zu KiB resident\n", rest->object_bytes, rest->heap_bytes, rest->percpu_bytes,
	       rest->mapped_kib, rest->resident_kib);
}

/* Lists of other lengths make a little difference, and caches that the library made meanwhile. */
static void rest_check(const struct rest *before, const struct rest *now)
{
	if (now->object_bytes > before->object_bytes + OBJECTS_LEFT ||
	    now->heap_bytes > before->heap_bytes + HEAP_LEFT ||
	    now->percpu_bytes > before->percpu_bytes + PERCPU_LEFT)
		fire_fail("a storm has left something");
}

int main(int argc, char **argv)
{
	struct rest before, now = { 0 };
	const char *storms;
	uint64_t seed;

	fire_start(argc, argv, "ops threads seed only without refuse");
	fire_require_library();
	nr_threads = (unsigned int)fire_opt("threads", 6);
	if (!nr_threads || nr_threads > THREADS_MAX)
		fire_fail("--threads=%u: 1 to %d", nr_threads, THREADS_MAX);
	storms = fire_opt_str("refuse", "n");
	seed = fire_seed();
	choose_steps();
	fire_watchdog(HUNG_SECONDS);
	others_load();
	if (strchr(storms, 'y'))
		refuse_start(seed);
	for (; *storms; storms++) {
		storm(seed++, *storms == 'y');
		before = now;
		now = rest();
		rest_print(&now);
		if (before.heap_bytes)
			rest_check(&before, &now);
	}
	refuse_report();
	printf("%u threads, backend %s\n", nr_threads, fire_backend_name(fire_backend()));
	return 0;
}
