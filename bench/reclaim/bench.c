/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "reclaim/group/group.h"

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *values, int nr)
{
	qsort(values, (size_t)nr, sizeof(*values), compare);
	return values[nr / 2];
}

/* ---- the machine ---- */

struct file_system {
	struct slub_shrinker shrinker;
	struct slub_group *group;
	uint32_t number;	/* of the group */
	size_t objects;
};

static struct file_system *systems;
static uint32_t nr_systems;

static size_t fs_count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	struct file_system *fs = (struct file_system *)shrinker;
	size_t objects = __atomic_load_n(&fs->objects, __ATOMIC_RELAXED);

	if (control->group != fs->group || !objects)
		return SLUB_SHRINK_EMPTY;
	return objects;
}

/* Dirty files: nothing can be freed now. */
static size_t fs_scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	return SLUB_SHRINK_STOP;
}

void machine_make(uint32_t nr, uint32_t nr_active)
{
	nr_systems = nr;
	systems = calloc(nr, sizeof(*systems));
	for (uint32_t i = 0; i < nr; i++) {
		struct file_system *fs = &systems[i];

		fs->shrinker.name = "tmpfs";
		fs->shrinker.count = fs_count;
		fs->shrinker.scan = fs_scan;
		fs->shrinker.seeks = SLUB_SHRINKER_SEEKS;
		fs->shrinker.flags = SLUB_SHRINKER_GROUP_AWARE;
		fs->group = slub_group_create("memcg", NULL);
		fs->number = group_number(fs->group);
		if (!fs->group || slub_shrinker_create(&fs->shrinker)) {
			fprintf(stderr, "reclaim bench: no memory for %u groups\n", nr);
			exit(1);
		}
	}
	machine_fill(nr_active, 256);
}

void machine_fill(uint32_t nr_active, size_t objects)
{
	for (uint32_t i = 0; i < nr_active; i++) {
		systems[i].objects = objects;
		if (objects)
			slub_shrinker_mark(&systems[i].shrinker, systems[i].group, 0);
	}
}

struct slub_group *machine_group(uint32_t n)
{
	return systems[n].group;
}

struct slub_shrinker *machine_shrinker(uint32_t n)
{
	return &systems[n].shrinker;
}

/* ---- baselines ---- */

/* Readers count by 2; bit 0: a writer.  A read-trylock is one compare-exchange. */
static uint64_t rw_word align_to(64);

static bool read_trylock(void)
{
	uint64_t word = __atomic_load_n(&rw_word, __ATOMIC_RELAXED);

	while (!(word & 1)) {
		if (__atomic_compare_exchange_n(&rw_word, &word, word + 2, true, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	}
	return false;
}

static void read_unlock(void)
{
	__atomic_fetch_sub(&rw_word, 2, __ATOMIC_RELEASE);
}

void locked_begin_write(void)
{
	uint64_t word = 0;

	while (__atomic_load_n(&rw_word, __ATOMIC_RELAXED) & 1 ||
	       __atomic_fetch_or(&rw_word, 1, __ATOMIC_ACQUIRE) & 1)
		sched_yield();
	/* New readers are kept out; those inside leave. */
	while ((word = __atomic_load_n(&rw_word, __ATOMIC_ACQUIRE)) != 1)
		sched_yield();
}

void locked_end_write(void)
{
	__atomic_fetch_sub(&rw_word, 1, __ATOMIC_RELEASE);
}

static size_t visit(struct walker *walker, uint32_t id, struct slub_group *group,
		    struct map_unit *unit, int priority)
{
	struct slub_shrink_control control = { .group = group, .priority = priority };
	struct slub_shrinker *shrinker =
		(struct slub_shrinker *)(shrinker_table[id] & ~SHRINKER_SEEN);
	size_t freed;

	if (!shrinker)
		return 0;
	walker->inside = shrinker;
	freed = shrink_one(walker, shrinker, &control, &unit->deferred[id % 64]);
	if (freed != SLUB_SHRINK_EMPTY)
		return freed;
	map_unmark(unit, id);
	return 0;
}

static size_t locked_unit(struct walker *walker, struct slub_group *group,
			  struct map_unit *unit, int priority)
{
	uint32_t first = unit->number * 64;
	size_t freed = 0;

	for (uint64_t set = unit->set; set; set &= set - 1)
		freed += visit(walker, first + (uint32_t)__builtin_ctzll(set), group, unit,
			       priority);
	return freed;
}

static size_t locked_group(struct walker *walker, uint32_t n, int priority)
{
	struct map_unit *unit = map_first(systems[n].number, 0);
	size_t freed = 0;

	if (!read_trylock())
		return 0;
	for (; unit; unit = map_next(unit))
		freed += locked_unit(walker, systems[n].group, unit, priority);
	read_unlock();
	return freed;
}

size_t locked_walk(int priority)
{
	struct walker walker = { 0 };
	size_t freed = 0;

	for (uint32_t i = 0; i < nr_systems; i++)
		freed += locked_group(&walker, i, priority);
	return freed;
}

size_t product_walk(int priority)
{
	size_t freed = 0;

	for (uint32_t g = 0; g < nr_systems; g++) {
		for (uint32_t s = 0; s < nr_systems; s++) {
			struct slub_shrink_control control = {
				.group = systems[g].group, .priority = priority
			};
			size_t n = systems[s].shrinker.count(&systems[s].shrinker, &control);

			freed += n == SLUB_SHRINK_EMPTY ? 0 : n;
		}
	}
	return freed;
}

/* ---- threads ---- */

struct crew {
	void (*body)(void *);
	void *arg;
	pthread_barrier_t barrier;
	uint32_t next;
	uint32_t stop;
	uint64_t total;
	uint64_t cpu_ns;
};

static uint64_t cpu_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* As the program was started. */
static cpu_set_t allowed;

__attribute__((constructor)) static void allowed_read(void)
{
	sched_getaffinity(0, sizeof(allowed), &allowed);
}

void pin(uint32_t n)
{
	cpu_set_t one;
	int nr = CPU_COUNT(&allowed), cpu = -1;

	for (uint32_t left = n % (uint32_t)nr + 1; left; left--) {
		do {
			cpu++;
		} while (!CPU_ISSET(cpu, &allowed));
	}
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *crew_member(void *arg)
{
	struct crew *crew = arg;
	uint64_t n = 0, start;

	pin(__atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED));
	pthread_barrier_wait(&crew->barrier);
	start = cpu_time_ns();
	for (; !__atomic_load_n(&crew->stop, __ATOMIC_RELAXED); n++)
		crew->body(crew->arg);
	__atomic_fetch_add(&crew->total, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&crew->cpu_ns, cpu_time_ns() - start, __ATOMIC_RELAXED);
	return NULL;
}

double run_threads(int nr, uint64_t ns, void (*body)(void *), void *arg)
{
	struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	struct crew crew = { .body = body, .arg = arg };
	pthread_t threads[64];

	pthread_barrier_init(&crew.barrier, NULL, (unsigned int)nr + 1);
	for (int i = 0; i < nr; i++)
		pthread_create(&threads[i], NULL, crew_member, &crew);
	pthread_barrier_wait(&crew.barrier);
	nanosleep(&time, NULL);
	__atomic_store_n(&crew.stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&crew.barrier);
	return (double)crew.total * 1e9 / (double)crew.cpu_ns;
}

int instructions_open(void)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_HARDWARE;
	attr.size = sizeof(attr);
	attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	attr.exclude_kernel = 1;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

uint64_t instructions_read(int fd)
{
	uint64_t value = 0;

	if (fd < 0 || read(fd, &value, sizeof(value)) != sizeof(value))
		return 0;
	return value;
}
