/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include <slub/control.h>
#include <slub/shrinker.h>

#include "snippet.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of the two below */
static void *idle[1000];
static size_t nr_idle;

static size_t count(struct slub_shrinker *shrinker,
		    struct slub_shrink_control *control)
{
	size_t nr = 0;

	(void)shrinker, (void)control;
	if (pthread_mutex_trylock(&lock) == 0) {
		nr = nr_idle;
		pthread_mutex_unlock(&lock);
	}
	return nr;
}

static size_t scan(struct slub_shrinker *shrinker,
		   struct slub_shrink_control *control)
{
	size_t freed = 0;

	(void)shrinker;
	if (pthread_mutex_trylock(&lock))
		return SLUB_SHRINK_STOP;	/* taken, perhaps by this very thread */
	for (; freed < control->nr_to_scan && nr_idle; freed++)
		free(idle[--nr_idle]);
	pthread_mutex_unlock(&lock);
	return freed;
}

static struct slub_shrinker shrinker =
	SLUB_SHRINKER_INIT("idle buffers", count, scan);

static void keep(void *buffer)
{
	pthread_mutex_lock(&lock);
	idle[nr_idle++] = buffer;
	pthread_mutex_unlock(&lock);
}

/* NULL: none is idle. */
static void *take(void)
{
	void *buffer;

	pthread_mutex_lock(&lock);
	buffer = nr_idle ? idle[--nr_idle] : NULL;
	pthread_mutex_unlock(&lock);
	return buffer;
}

static size_t nr_taken(void)
{
	size_t nr = 0;

	for (void *buffer; (buffer = take()); nr++) {
		memset(buffer, 1, 4096);
		free(buffer);
	}
	return nr;
}

int main(void)
{
	expect(slub_shrinker_create(&shrinker) == 0);
	for (int i = 0; i < 1000; i++)
		keep(malloc(4096));
	/* From now on it is asked when memory is short; or by hand: */
	expect(slub_shrink_all() > 0);
	expect(nr_taken() < 1000);

	/* Memory is short: the shrinker is asked in the middle of a malloc(). */
	for (int i = 0; i < 1000; i++)
		keep(malloc(4096));
	expect(slub_option_set("limit", "8M") == 0);
	void *volatile block = malloc(7 << 20);	/* else a compiler may leave it out */
	size_t nr = nr_taken();

	expect(block && nr < 1000);
	free(block);
	expect(slub_shrinker_destroy(&shrinker) == 0);
	return 0;
}
