/* SPDX-License-Identifier: MIT */
/*
 * Programs with a fault each, which a sanitizer has to report.  The object is a typed cache's, or
 * a block of the program's own malloc().
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slub/bucket.h>
#include <slub/cache.h>
#include <slub/malloc.h>

struct node {
	long a, b, c, d;
};

SLUB_CACHE_DEFINE_STATIC(nodes, struct node, 0, NULL);

static volatile int sink;

static int use_after_free(void)
{
	struct node *volatile node = slub_cache_alloc(&nodes);

	node->a = 1;
	slub_cache_free(&nodes, node);
	return (int)node->a;
}

static int use_block_after_free(void)
{
	char *volatile block = slub_malloc(100000);

	block[0] = 1;
	slub_free(block);
	return block[50000];
}

static int use_malloc_after_free(void)
{
	char *volatile block = malloc(100);

	block[0] = 1;
	free(block);
	return block[0];
}

static int use_uninitialised(void)
{
	struct node *volatile node = slub_cache_alloc(&nodes);

	return node->c ? 1 : 2;
}

static int use_malloc_uninitialised(void)
{
	char *volatile block = malloc(100);

	return block[7] ? 1 : 2;
}

static int leak(void)
{
	char *volatile block = malloc(1234);

	block[0] = 1;
	block = NULL;
	return 0;
}

static struct node *raced;

static void *race_run(void *unused)
{
	for (int i = 0; i < 1000; i++)
		raced->b++;
	return unused;
}

static int race(void)
{
	pthread_t a, b;

	raced = slub_cache_zalloc(&nodes);
	pthread_create(&a, NULL, race_run, NULL);
	pthread_create(&b, NULL, race_run, NULL);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	return 0;
}

static int overflow(void)
{
	struct node *volatile node = slub_cache_zalloc(&nodes);
	volatile int largest = 2147483647;

	node->a = largest + (int)(node->a + 1);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} faults[] = {
	{ "use-after-free", use_after_free },
	{ "use-block-after-free", use_block_after_free },
	{ "use-malloc-after-free", use_malloc_after_free },
	{ "uninitialised", use_uninitialised },
	{ "malloc-uninitialised", use_malloc_uninitialised },
	{ "leak", leak },
	{ "race", race },
	{ "overflow", overflow },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(faults) / sizeof(*faults); i++) {
		if (strcmp(argv[1], faults[i].name) == 0)
			sink = faults[i].run();
	}
	if (sink == 1)
		puts("read");
	return 0;
}
