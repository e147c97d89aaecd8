/* SPDX-License-Identifier: MIT */
/*
 * libslub's shrinkers, as many groups of libslub's, and its walk, which takes no lock: alone, and
 * as slub_shrink() does it, which empties the lists of all CPUs before.
 */
#include "registry.h"

#include "features/reclaim/reclaim_internal.h"

#include <slub/group.h>
#include <slub/shrinker.h>

struct mount {
	struct slub_shrinker shrinker;
	struct slub_group *group;
	size_t pages;
};

static struct mount *mounts, one_more;
static unsigned int nr_mounts;
static __thread unsigned int asked;

static size_t count(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	const struct mount *mount = (const struct mount *)shrinker;

	if (mount->group != control->group)
		return 0;
	asked++;
	return mount->pages;
}

static size_t scan(struct slub_shrinker *shrinker, struct slub_shrink_control *control)
{
	(void)shrinker;
	return control->nr_to_scan;
}

static void add(struct mount *mount, struct slub_group *group, size_t pages)
{
	*mount = (struct mount){
		.shrinker = { .name = "mount", .count = count, .scan = scan,
			      .seeks = SLUB_SHRINKER_SEEKS,
			      .flags = SLUB_SHRINKER_GROUP_AWARE },
		.group = group, .pages = pages,
	};
	if (slub_shrinker_create(&mount->shrinker))
		bench_fatal("a shrinker cannot be registered");
	if (pages && slub_shrinker_mark(&mount->shrinker, group, 0))
		bench_fatal("a shrinker cannot be marked");
}

static void create(unsigned int groups, unsigned int active)
{
	nr_mounts = groups;
	mounts = bench_map(groups * sizeof(*mounts));
	for (unsigned int i = 0; i < groups; i++) {
		struct slub_group *group = slub_group_create("tenant", NULL);

		if (!group)
			bench_fatal("group %u cannot be made", i);
		add(&mounts[i], group, i < active ? FILE_PAGES : 0);
	}
}

static void destroy(void)
{
	for (unsigned int i = 0; i < nr_mounts; i++) {
		slub_shrinker_destroy(&mounts[i].shrinker);
		slub_group_destroy(mounts[i].group);
	}
	bench_unmap(mounts, nr_mounts * sizeof(*mounts));
}

static unsigned int pass(void)
{
	asked = 0;
	shrinkers_run(SLUB_SHRINK_PRIORITY_MAX, NULL);
	return asked;
}

static unsigned int whole_pass(void)
{
	asked = 0;
	slub_shrink(SLUB_SHRINK_PRIORITY_MAX);
	return asked;
}

static void mount(void)
{
	add(&one_more, NULL, 0);
}

static void unmount(void)
{
	slub_shrinker_destroy(&one_more.shrinker);
}

const struct orig_registry registry_slub = {
	"lock-free", "lock-free", create, destroy, pass, mount, unmount,
};
const struct orig_registry registry_slub_whole = {
	"slub_shrink()", "slub_shrink", create, destroy, whole_pass, mount, unmount,
};
