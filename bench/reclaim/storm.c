/* SPDX-License-Identifier: MIT */
/*
 * A storm of register and unregister while others walk: what the kernel's SRCU version was taken
 * back for (-88 %).  A cycle is a small mount: memory, a shrinker, a mark, and all of it back.
 *
 *   ours     unregister waits for callbacks of the same shrinker only
 *   srcu     unregister waits for a grace period of all walks
 *   rwlock   register and unregister take the lock that walks read-lock
 *
 * Usage: reclaim_storm [--ms N] [--rounds N] [--walkers N]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	slub_shrinker_register(&mount->shrinker);
	if (kind == RWLOCK)
		locked_end_write();
	slub_shrinker_mark(&mount->shrinker, machine_group(3999), 0);
	memset(mount->super_block, 1, sizeof(mount->super_block));
	memset(mount->root, 1, sizeof(mount->root));
	if (kind == RWLOCK)
		locked_begin_write();
	slub_shrinker_unregister(&mount->shrinker);
	if (kind == RWLOCK)
		locked_end_write();
	if (kind == SRCU)
		slub_srcu_synchronize(&domain);
	free(mount);
}

struct walk_args {
	enum kind kind;
	uint64_t walks;
};

static void *walk_thread(void *arg)
{
	struct walk_args *args = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int index = 0;

		if (args->kind == SRCU)
			index = slub_srcu_read_lock(&domain);
		if (args->kind == RWLOCK)
			locked_walk(SLUB_PRIORITY_MAX);
		else
			shrinkers_run(SLUB_PRIORITY_MAX, NULL);
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

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (volatile int i = 0; i < 1000; i++)
			continue;
		args->walks++;
	}
	return NULL;
}

static double storm(enum kind kind, bool walks)
{
	struct walk_args args[64] = { { kind, 0 } };
	pthread_t threads[64];
	uint64_t start, end;
	long done = 0;

	stop = 0;
	for (int i = 0; i < walkers; i++) {
		args[i].kind = kind;
		pthread_create(&threads[i], NULL, walks ? walk_thread : spin_thread, &args[i]);
	}
	/* They run by now. */
	while (walks && !__atomic_load_n(&args[0].walks, __ATOMIC_RELAXED))
		sched_yield();
	start = now_ns();
	do {
		for (int i = 0; i < 16; i++)
			mount_and_unmount(kind);
		done += 16;
		end = now_ns();
	} while (end - start < ns);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < walkers; i++)
		pthread_join(threads[i], NULL);
	return (double)done * 1e9 / (double)(end - start);
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
	printf("%d walkers, medians of %d rounds, interleaved\n", walkers, rounds);
	printf("%-8s %16s %16s %8s\n", "", "no walk, cycles/s", "walks, cycles/s", "ratio");
	for (int kind = 0; kind < KINDS; kind++) {
		double quiet[ROUNDS_MAX], busy[ROUNDS_MAX], ratio[ROUNDS_MAX];

		for (int i = 0; i < rounds; i++) {
			quiet[i] = storm((enum kind)kind, false);
			busy[i] = storm((enum kind)kind, true);
			ratio[i] = busy[i] / quiet[i];
		}
		printf("%-8s %16.0f %16.0f %8.3f\n", names[kind], median(quiet, rounds),
		       median(busy, rounds), median(ratio, rounds));
	}
	printf("no walk: the other threads spin, so both have as much of the machine\n");
	return 0;
}
