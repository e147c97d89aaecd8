/* SPDX-License-Identifier: MIT */
/*
 * The case of the kernel's shrinker patches, and the registries to run it on: 4,000 groups, a file
 * system mounted for each, with its own shrinker; a file in 3,000 of them. A pass asks each group
 * for shrinkers with something there, and each of these how much it could free.
 */
#ifndef ORIG_REGISTRY_H
#define ORIG_REGISTRY_H

#include "orig.h"

struct orig_registry {
	const char *name, *row;
	/* Groups 0 to @groups - 1, a shrinker each; those of the first @active have objects. */
	void (*create)(unsigned int groups, unsigned int active);
	void (*destroy)(void);
	/* One pass over all groups. Returns how many shrinkers were asked. */
	unsigned int (*pass)(void);
	/* A file system comes and goes; its shrinker has nothing. One thread at a time. */
	void (*mount)(void);
	void (*unmount)(void);
};

/* As the kernel had it until 6.6: under a read-write lock, tried and not waited for. */
extern const struct orig_registry registry_locked;
/* libslub's: the walk, and the call of which it is a part. */
extern const struct orig_registry registry_slub;
extern const struct orig_registry registry_slub_whole;

/* What a file of 1 MiB in memory is to its shrinker. */
enum { FILE_PAGES = 256 };

#endif
