/* SPDX-License-Identifier: MIT */
/*
 * Shrinkers under a read-write lock. A walk tries the lock for each group and skips the group when
 * somebody registers; whoever registers waits for the walks that are inside.
 */
#include "registry.h"

#include <pthread.h>

enum { SHRINKERS_MAX = 8192, WORD_BITS = 64, PRIORITY = 12, SEEKS = 2, SCAN_BATCH = 128 };

struct shrinker {
	unsigned long (*count)(struct shrinker *shrinker, unsigned int group);
	unsigned long (*scan)(struct shrinker *shrinker, unsigned int group, unsigned long nr);
	unsigned int group;
	unsigned long pages;
};

struct group {
	uint64_t map[SHRINKERS_MAX / WORD_BITS];	/* who has something here */
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct shrinker *shrinker[SHRINKERS_MAX];
static unsigned int free_id[SHRINKERS_MAX], nr_free;
static unsigned int nr_shrinkers, nr_groups, mounted;
static struct group *group;

static unsigned long count(struct shrinker *shrinker, unsigned int group)
{
	return shrinker->group == group ? shrinker->pages : 0;
}

static unsigned long scan(struct shrinker *shrinker, unsigned int group, unsigned long nr)
{
	(void)shrinker;
	(void)group;
	return nr;
}

static unsigned int add(unsigned int of, unsigned long pages)
{
	struct shrinker *new = bench_malloc(sizeof(*new));
	unsigned int id;

	*new = (struct shrinker){ count, scan, of, pages };
	pthread_rwlock_wrlock(&lock);
	id = nr_free ? free_id[--nr_free] : nr_shrinkers++;
	if (id == SHRINKERS_MAX)
		bench_fatal("more than %d shrinkers", SHRINKERS_MAX);
	shrinker[id] = new;
	if (pages)
		group[of].map[id / WORD_BITS] |= 1ull << id % WORD_BITS;
	pthread_rwlock_unlock(&lock);
	return id;
}

static void take_away(unsigned int id)
{
	struct shrinker *old;

	pthread_rwlock_wrlock(&lock);
	old = shrinker[id];
	shrinker[id] = NULL;
	free_id[nr_free++] = id;
	pthread_rwlock_unlock(&lock);
	free(old);
}

/* The kernel's arithmetic; at this priority little enough is left that nothing is scanned. */
static void shrink(struct shrinker *one, unsigned int of)
{
	unsigned long freeable = one->count(one, of);
	unsigned long total = (freeable >> PRIORITY) * 4 / SEEKS;

	while (total >= SCAN_BATCH)
		total -= one->scan(one, of, SCAN_BATCH);
}

static unsigned int shrink_group(unsigned int of)
{
	unsigned int words = (nr_shrinkers + WORD_BITS - 1) / WORD_BITS, asked = 0;

	if (pthread_rwlock_tryrdlock(&lock))
		return 0;
	for (unsigned int word = 0; word < words; word++) {
		uint64_t set = group[of].map[word];

		for (; set; set &= set - 1, asked++) {
			unsigned int id = word * WORD_BITS + (unsigned int)__builtin_ctzll(set);

			if (shrinker[id])
				shrink(shrinker[id], of);
		}
	}
	pthread_rwlock_unlock(&lock);
	return asked;
}

static unsigned int pass(void)
{
	unsigned int asked = 0;

	for (unsigned int of = 0; of < nr_groups; of++)
		asked += shrink_group(of);
	return asked;
}

static void create(unsigned int groups, unsigned int active)
{
	nr_groups = groups;
	group = bench_map(groups * sizeof(*group));
	for (unsigned int of = 0; of < groups; of++)
		add(of, of < active ? FILE_PAGES : 0);
}

static void destroy(void)
{
	for (unsigned int id = 0; id < nr_shrinkers; id++)
		if (shrinker[id])
			take_away(id);
	nr_shrinkers = nr_free = 0;
	bench_unmap(group, nr_groups * sizeof(*group));
}

static void mount(void)
{
	mounted = add(0, 0);
}

static void unmount(void)
{
	take_away(mounted);
}

const struct orig_registry registry_locked = {
	"read-write lock", "locked", create, destroy, pass, mount, unmount,
};
