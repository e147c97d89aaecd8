/* SPDX-License-Identifier: MIT */
#include <slub/shrinker.h>

#include "snippet.h"

static void *idle[1000];
static size_t nr_idle;

static size_t count(struct slub_shrinker *shrinker,
		    struct slub_shrink_control *control)
{
	(void)shrinker, (void)control;
	return __atomic_load_n(&nr_idle, __ATOMIC_RELAXED);
}

static size_t scan(struct slub_shrinker *shrinker,
		   struct slub_shrink_control *control)
{
	size_t freed = 0;

	(void)shrinker;
	while (freed < control->nr_to_scan && nr_idle) {
		free(idle[--nr_idle]);		/* a program with threads locks here */
		freed++;
	}
	return freed;
}

static struct slub_shrinker shrinker =
	SLUB_SHRINKER_INIT("idle buffers", count, scan);

int main(void)
{
	while (nr_idle < 1000)
		idle[nr_idle++] = malloc(4096);
	expect(slub_shrinker_create(&shrinker) == 0);
	/* From now on it is asked when memory is short; or by hand: */
	expect(slub_shrink_all() > 0);
	expect(nr_idle < 1000);
	expect(slub_shrinker_destroy(&shrinker) == 0);
	while (nr_idle)
		free(idle[--nr_idle]);
	return 0;
}
