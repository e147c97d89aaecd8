/* SPDX-License-Identifier: MIT */
/*
 * soak: threads that change something about the process.
 */
#include "soak.h"

#include <malloc.h>
#include <sched.h>

/*
 * What a disturber waits for: so a slow machine, or one that has no time for this program, checks
 * as many pairs for a deed as a fast one.
 */
enum { PAIRS_PER_DEED = 40000 };

/* A deed's turns of 1000. */
static const unsigned int weights[NR_DEEDS] = {
	[DEED_MOVE] = 700, [DEED_TRIM] = 15, [DEED_SHRINK] = 40, [DEED_DEBUG] = 60,
	[DEED_VALIDATE] = 25, [DEED_GROUP] = 110, [DEED_FORK] = 10, [DEED_END] = 20,
	[DEED_LOOK] = 20,
};

_Atomic uint64_t soak_deeds[NR_DEEDS];
atomic_int forks_wanted, ends_wanted;

/* Under the lock, but for threads inside of a group, which may outlive it. */
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slub_group *parent, *groups[SOAK_GROUPS];

static void check_is(long got, long one, long other, const char *what)
{
	if (got != one && got != other)
		fire_fail("%s: %ld", what, got);
}

/* ---- groups ---- */

static struct slub_group *group_new(void)
{
	struct slub_group *group = slub_group_create("soak", parent);

	if (!group)
		fire_fail("slub_group_create: %s", strerror(errno));
	return group;
}

void groups_start(void)
{
	parent = slub_group_create("soak-all", NULL);
	if (!parent)
		fire_fail("slub_group_create: %s", strerror(errno));
	for (int i = 0; i < SOAK_GROUPS; i++)
		groups[i] = group_new();
}

void group_leave(struct owner *owner)
{
	if (!owner->inside)
		return;
	check_is(slub_group_leave(owner->inside), 0, 0, "slub_group_leave");
	owner->inside = NULL;
}

/* A child of fork may find the lock taken for ever: nobody waits for it. */
void group_enter(struct owner *owner)
{
	struct slub_group *group;

	if (pthread_mutex_trylock(&groups_lock))
		return;
	group = groups[fire_below(&owner->rng, SOAK_GROUPS)];
	check_is(slub_group_enter(group), 0, 0, "slub_group_enter");
	owner->inside = group;
	pthread_mutex_unlock(&groups_lock);
}

static void disturb_groups(uint64_t *rng)
{
	struct slub_group **group = &groups[fire_below(rng, SOAK_GROUPS)];
	struct slub_cache *accounted = soak_caches[SOAK_ACCOUNTED - SOAK_CACHE];

	pthread_mutex_lock(&groups_lock);
	switch (fire_below(rng, 5)) {
	case 0:
		check_is(slub_group_destroy(*group), 0, 0, "slub_group_destroy");
		*group = group_new();
		break;
	case 1:
		check_is(slub_group_limit_set(*group, SLUB_GROUP_MAX,
					      (size_t)1 << (16 + fire_below(rng, 8))),
			 0, -EBUSY, "slub_group_limit_set");
		break;
	case 2:
		check_is(slub_group_limit_set(*group, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT),
			 0, 0, "slub_group_limit_set");
		break;
	case 3:
		check_is(slub_cache_group_set(accounted, fire_below(rng, 2) ? *group : NULL),
			 0, 0, "slub_cache_group_set");
		break;
	case 4:
		check_is(slub_bucket_group_set(soak_bucket, fire_below(rng, 2) ? *group : NULL),
			 0, 0, "slub_bucket_group_set");
		break;
	}
	pthread_mutex_unlock(&groups_lock);
}

/* When no object is left nothing is charged to any group. */
void groups_end(void)
{
	struct slub_group_stats stats;

	check_is(slub_cache_group_set(soak_caches[SOAK_ACCOUNTED - SOAK_CACHE], NULL), 0, 0,
		 "slub_cache_group_set");
	check_is(slub_bucket_group_set(soak_bucket, NULL), 0, 0, "slub_bucket_group_set");
	check_is(slub_group_stats(parent, &stats), 0, 0, "slub_group_stats");
	if (stats.usage)
		fire_fail("%zu bytes are charged for nothing", stats.usage);
	for (int i = 0; i < SOAK_GROUPS; i++)
		check_is(slub_group_destroy(groups[i]), 0, 0, "slub_group_destroy");
	check_is(slub_group_destroy(parent), 0, 0, "slub_group_destroy");
}

/* ---- debugging ---- */

/* For a moment: a watched cache is slow. */
static void disturb_debug(uint64_t *rng)
{
	static const struct timespec moment = { .tv_nsec = 300000 };
	static const char *const settings[][2] = {
		{ "FZPU,malloc-64", "-,malloc-64" }, { "F,malloc-1*", "-,malloc-1*" },
		{ "ZP,soak*", "-,soak*" }, { "U,malloc-32,malloc-96", "-,malloc-32,malloc-96" },
	};
	static const unsigned long flags[] = {
		SLUB_CACHE_CONSISTENCY_CHECKS, SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON,
				SLUB_CACHE_STORE_USER,
		SLUB_CACHE_CONSISTENCY_CHECKS | SLUB_CACHE_RED_ZONE | SLUB_CACHE_POISON |
				SLUB_CACHE_STORE_USER,
	};
	uint64_t which = fire_below(rng, 8);
	struct slub_cache *cache = soak_caches[fire_below(rng, SOAK_CACHES)];
	int err;

	if (which < 4) {
		err = slub_debug(settings[which][0]);
		if (err < 0)
			check_is(err, -EBUSY, -EBUSY, "slub_debug");
		nanosleep(&moment, NULL);
		err = slub_debug(settings[which][1]);
		if (err < 0)
			check_is(err, -EBUSY, -EBUSY, "slub_debug");
		return;
	}
	check_is(slub_cache_debug(cache, flags[which - 4]), 0, -EBUSY, "slub_cache_debug");
	nanosleep(&moment, NULL);
	check_is(slub_cache_debug(cache, 0), 0, -EBUSY, "slub_cache_debug");
}

/* When no thread is left that might be busy with the same. */
void debug_end(void)
{
	int err = slub_debug("-,*");

	if (err < 0)
		fire_fail("slub_debug at the end: %s", strerror(-err));
}

static void disturb_validate(uint64_t *rng)
{
	struct slub_cache *cache = soak_caches[fire_below(rng, SOAK_CACHES)];
	long bugs = fire_below(rng, 4) ? slub_cache_validate(cache) : slub_validate_all();

	if (bugs > 0)
		fire_fail("%ld bugs in what nobody damaged", bugs);
}

/* ---- the rest ---- */

static void disturb_cpus(uint64_t *rng)
{
	struct worker *worker = &workers[fire_below(rng, nr_workers)];
	uint64_t mask = fire_rng(rng);
	static _Atomic bool known;
	static cpu_set_t all;
	cpu_set_t some;

	/* The disturbers stay on the CPUs that the process started with. */
	if (!atomic_load(&known)) {
		sched_getaffinity(0, sizeof(all), &all);
		atomic_store(&known, true);
	}
	CPU_ZERO(&some);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && (mask >> (cpu % 64) & 1))
			CPU_SET(cpu, &some);
	/* A thread that has ended meanwhile gives ESRCH. */
	if (CPU_COUNT(&some) && atomic_load(&worker->tid))
		sched_setaffinity(atomic_load(&worker->tid), sizeof(some), &some);
}

static void disturb_shrink(uint64_t *rng)
{
	struct slub_cache *cache = soak_caches[fire_below(rng, SOAK_CACHES)];

	switch (fire_below(rng, 8)) {
	case 0:
		slub_shrink_all();
		break;
	case 1:
		slub_defrag_all(100);
		break;
	case 2:
		slub_deferred_barrier();
		break;
	case 3:
		slub_shrink((int)fire_below(rng, SLUB_SHRINK_PRIORITY_MAX + 1));
		break;
	default:
		check_is(slub_cache_shrink(cache), 0, 1, "slub_cache_shrink");
	}
}

static int visit(void *object, void *arg)
{
	(void)object;
	return ++*(size_t *)arg > 10000;
}

static void look(uint64_t *rng)
{
	struct slub_cache *cache = soak_caches[fire_below(rng, SOAK_CACHES)];
	struct slub_cache_stats stats;
	struct slub_bucket_stats sizes;
	size_t seen = 0;

	switch (fire_below(rng, 3)) {
	case 0:
		slub_cache_for_each_object(cache, visit, &seen);
		break;
	case 1:
		check_is(slub_cache_stats(cache, &stats), 0, 0, "slub_cache_stats");
		break;
	case 2:
		check_is(slub_bucket_stats(soak_bucket, &sizes), 0, -EAGAIN, "slub_bucket_stats");
		break;
	}
}

static void take_deed(enum soak_deed deed, uint64_t *rng)
{
	switch (deed) {
	case DEED_MOVE:
		disturb_cpus(rng);
		break;
	case DEED_TRIM:
		malloc_trim(0);
		break;
	case DEED_SHRINK:
		disturb_shrink(rng);
		break;
	case DEED_DEBUG:
		disturb_debug(rng);
		break;
	case DEED_VALIDATE:
		disturb_validate(rng);
		break;
	case DEED_GROUP:
		disturb_groups(rng);
		break;
	case DEED_FORK:
		atomic_store(&forks_wanted, 1);
		break;
	case DEED_END:
		atomic_store(&ends_wanted, 1);
		break;
	default:
		look(rng);
	}
	/* relaxed: a number to be printed. */
	atomic_fetch_add_explicit(&soak_deeds[deed], 1, memory_order_relaxed);
}

void *disturb(void *seed)
{
	static const struct timespec pause = { .tv_nsec = 1500000 };
	uint64_t rng = fire_rng_state((uintptr_t)seed), next = 0;

	while (!atomic_load(&soak_stop)) {
		unsigned int deed = 0, pick = (unsigned int)fire_below(&rng, 1000);

		while (pick >= weights[deed])
			pick -= weights[deed++];
		take_deed((enum soak_deed)deed, &rng);
		next = soak_pairs() + PAIRS_PER_DEED;
		do
			nanosleep(&pause, NULL);
		while (soak_pairs() < next && !atomic_load(&soak_stop));
	}
	return NULL;
}
