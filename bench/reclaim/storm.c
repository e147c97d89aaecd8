/* SPDX-License-Identifier: MIT */
/*
 * A storm of register and unregister while others walk: what the kernel's SRCU version was taken
 * back for (-88 %).  A cycle is a small mount: memory, a shrinker, a mark, and all of it back.
 *
 *   ours     unregister waits for callbacks of the same shrinker only
 *   srcu     unregister waits for a grace period of all walks
 *   rwlock   register and unregister take the lock that walks read-lock
 *
 * The same storm runs beside three kinds of companions, so that what a walk costs it can be told
 * from what any neighbour costs that uses the machine's memory:
 *
 *   alone    threads that spin in registers
 *   apart    forked processes that walk over their own copy of all this: they share caches and
 *            memory bandwidth with the storm, and not one byte
 *   walks    threads that walk
 *
 * Times are of the storm's thread on its CPU, and its waits count as well: see struct cost.
 *
 * Usage: reclaim_storm [--ms N] [--rounds N] [--walkers N]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum kind { OURS, SRCU, RWLOCK, KINDS };
static const char *const names[KINDS] = { "ours", "srcu", "rwlock" };

static uint64_t ns = 500000000;
static int rounds = 5, walkers = 1;
static struct slub_srcu domain = SLUB_SRCU_INIT;
static uint32_t stop;

/* The superblock and the root inode of a small file system. */
struct mount {
	struct slub_shrinker shrinker;
	char super_block[2048];
	char root[1024];
};

static size_t nothing(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	return SLUB_SHRINK_EMPTY;
}

static void mount_and_unmount(enum kind kind)
{
	struct mount *mount = malloc(sizeof(*mount));

	memset(mount, 0, sizeof(*mount));
	mount->shrinker.count = nothing;
	mount->shrinker.scan = nothing;
	mount->shrinker.flags = SLUB_SHRINKER_GROUP_AWARE;
	if (kind == RWLOCK)
		locked_begin_write();
	slub_shrinker_create(&mount->shrinker);
	if (kind == RWLOCK)
		locked_end_write();
	slub_shrinker_mark(&mount->shrinker, machine_group(3999), 0);
	memset(mount->super_block, 1, sizeof(mount->super_block));
	memset(mount->root, 1, sizeof(mount->root));
	if (kind == RWLOCK)
		locked_begin_write();
	slub_shrinker_destroy(&mount->shrinker);
	if (kind == RWLOCK)
		locked_end_write();
	if (kind == SRCU)
		slub_srcu_synchronize(&domain);
	free(mount);
}

struct walk_args {
	enum kind kind;
	uint32_t cpu;
	uint64_t walks;
};

static void *walk_thread(void *arg)
{
	struct walk_args *args = arg;

	pin(args->cpu);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int index = 0;

		if (args->kind == SRCU)
			index = slub_srcu_read_lock(&domain);
		if (args->kind == RWLOCK)
			locked_walk(SLUB_SHRINK_PRIORITY_MAX);
		else
			shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, NULL);
		if (args->kind == SRCU)
			slub_srcu_read_unlock(&domain, index);
		args->walks++;
	}
	return NULL;
}

/* Something else that uses a CPU, so that both storms have as much of the machine. */
static void *spin_thread(void *arg)
{
	struct walk_args *args = arg;

	pin(args->cpu);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (volatile int i = 0; i < 1000; i++)
			continue;
		args->walks++;
	}
	return NULL;
}

enum company { ALONE, APART, WALKS, COMPANIES };

struct companions {
	struct walk_args args[64];
	pthread_t threads[64];
	pid_t children[64];
};

static void companions_start(struct companions *c, enum kind kind, enum company company)
{
	stop = 0;
	for (int i = 0; i < walkers; i++) {
		c->args[i] = (struct walk_args){ kind, (uint32_t)i + 1, 0 };
		if (company == APART) {
			c->children[i] = fork();
			if (c->children[i] == 0)
				walk_thread(&c->args[i]);
			continue;
		}
		pthread_create(&c->threads[i], NULL, company == WALKS ? walk_thread : spin_thread,
			       &c->args[i]);
	}
	/* They run by now. */
	while (company == WALKS && !__atomic_load_n(&c->args[0].walks, __ATOMIC_RELAXED))
		sched_yield();
}

static void companions_stop(struct companions *c, enum company company)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < walkers; i++) {
		if (company == APART) {
			kill(c->children[i], SIGKILL);
			waitpid(c->children[i], NULL, 0);
		} else {
			pthread_join(c->threads[i], NULL);
		}
	}
}

/*
 * What the storm has used: its time on the CPU, and the time that it slept of its own will.  Time
 * in which the machine ran somebody else instead is not the storm's.
 */
struct cost {
	uint64_t cpu, wall;
	long sleeps;
};

static struct cost cost_now(void)
{
	struct timespec cpu;
	struct rusage usage;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	getrusage(RUSAGE_THREAD, &usage);
	return (struct cost){ (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec,
			      now_ns(), usage.ru_nvcsw };
}

/* Cycles a second. */
static double storm(enum kind kind, enum company company)
{
	static struct companions companions;
	struct cost start, end;
	bool slept;
	long done = 0;

	companions_start(&companions, kind, company);
	pin(0);
	start = cost_now();
	do {
		for (int i = 0; i < 16; i++)
			mount_and_unmount(kind);
		done += 16;
		end.wall = now_ns();
	} while (end.wall - start.wall < ns);
	end = cost_now();
	companions_stop(&companions, company);
	/* One that waits by sleeping or yielding for others is measured by the wall. */
	slept = end.sleeps - start.sleeps > done / 1000;
	return (double)done * 1e9 / (double)(slept ? end.wall - start.wall : end.cpu - start.cpu);
}

static void measure(enum kind kind)
{
	double rate[COMPANIES][ROUNDS_MAX], to_alone[ROUNDS_MAX], to_apart[ROUNDS_MAX];

	for (int i = 0; i < rounds; i++) {
		for (int c = 0; c < COMPANIES; c++)
			rate[c][i] = storm(kind, (enum company)c);
		to_alone[i] = rate[WALKS][i] / rate[ALONE][i];
		to_apart[i] = rate[WALKS][i] / rate[APART][i];
	}
	printf("%-8s %10.0f %10.0f %10.0f %12.3f %12.3f\n", names[kind],
	       median(rate[ALONE], rounds), median(rate[APART], rounds),
	       median(rate[WALKS], rounds), median(to_alone, rounds), median(to_apart, rounds));
}

int main(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--ms"))
			ns = (uint64_t)atol(argv[i + 1]) * 1000000;
		else if (!strcmp(argv[i], "--rounds") && atoi(argv[i + 1]) <= ROUNDS_MAX)
			rounds = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--walkers") && atoi(argv[i + 1]) <= 64)
			walkers = atoi(argv[i + 1]);
	}
	machine_make(4000, 3000);
	printf("%d walkers, medians of %d rounds, interleaved; cycles a second\n", walkers, rounds);
	printf("%-8s %10s %10s %10s %12s %12s\n", "", "alone", "apart", "walks", "walks/alone",
	       "walks/apart");
	for (int kind = 0; kind < KINDS; kind++)
		measure((enum kind)kind);
	return 0;
}
