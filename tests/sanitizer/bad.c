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
#include <slub/debug.h>
#include <slub/malloc.h>
#include <slub/mempool.h>

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

#define SCATTERED 10000

/* In no order, so that objects go to the lists of their slabs where the library has such. */
static int use_scattered_after_free(void)
{
	static struct node *all[SCATTERED];
	struct node *volatile one;

	for (int i = 0; i < SCATTERED; i++) {
		all[i] = slub_malloc(sizeof(struct node));
		all[i]->a = i;
	}
	one = all[SCATTERED / 2];
	for (long i = 0, n = 0; i < SCATTERED; i++, n = (n + 12347) % SCATTERED) {
		if (i % 16 || all[n] == one)
			slub_free(all[n]);
	}
	return (int)one->a;
}

static int use_unwatched_after_free(void)
{
	struct node *volatile node;

	if (slub_cache_debug(&nodes, 0))
		return 0;
	node = slub_cache_alloc(&nodes);
	node->a = 1;
	slub_cache_free(&nodes, node);
	return (int)node->a;
}

static int use_after_destroy(void)
{
	struct slub_cache *cache = slub_cache_create("short", 100, 0, 0, NULL);
	int *volatile object = slub_cache_alloc(cache);

	object[3] = 1;
	slub_cache_free(cache, object);
	return slub_cache_destroy(cache) ? 0 : object[3];
}

/* The element fills the reserve, so nothing is freed. */
static int use_element(struct slub_mempool *pool)
{
	int *volatile element = slub_mempool_alloc_reserved(pool);

	element[3] = 1;
	slub_mempool_free(pool, element);
	return element[3];
}

static int use_element_after_free(void)
{
	return use_element(slub_mempool_create_malloc(4, 64));
}

static int use_object_after_free(void)
{
	return use_element(slub_mempool_create_slab(4, &nodes));
}

/* Behind what was asked for lies more of the same object, or of the same page. */
static int write_behind_small(void)
{
	char *volatile block = slub_malloc(60);

	block[61] = 1;
	return 0;
}

static int write_behind_large(void)
{
	char *volatile block = slub_malloc(100000);

	block[100001] = 1;
	return 0;
}

static int write_behind_moved(void)
{
	char *volatile block = slub_realloc(slub_malloc(60), 130);

	block[131] = 1;
	return 0;
}

static int write_behind_aligned(void)
{
	char *volatile block = slub_aligned_alloc(256, 100);

	block[101] = 1;
	return 0;
}

/* It stays where it is. */
static int write_behind_bucket(void)
{
	struct slub_bucket *bucket = slub_bucket_create("behind", 0);
	char *volatile block = slub_bucket_realloc(bucket, slub_bucket_alloc(bucket, 125), 100);

	block[101] = 1;
	return 0;
}

static int write_behind_element(void)
{
	struct slub_mempool *pool = slub_mempool_create_malloc(4, 60);
	char *volatile element = slub_mempool_alloc_reserved(pool);

	slub_mempool_free(pool, element);
	element = slub_mempool_alloc_reserved(pool);
	element[61] = 1;
	return 0;
}

/* The next block in the same place has what was asked for again. */
static int write_behind_again(void)
{
	char *volatile block = NULL;

	for (int i = 0; i < 1000; i++) {
		block = slub_malloc(60);
		slub_usable_size(block);
		slub_free(block);
	}
	block = slub_malloc(60);
	block[61] = 1;
	return 0;
}

/* It was put aside, and is not in use. */
static int use_aside_after_free(void)
{
	struct slub_prefill prefill = SLUB_PREFILL_INIT;
	struct node *volatile node = slub_cache_alloc(&nodes);

	node->a = 1;
	slub_cache_free(&nodes, node);
	if (slub_cache_prefill(&nodes, &prefill, 1))
		return 0;
	return (int)node->a;
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

static struct node *scattered[SCATTERED];

static void *write_run(void *unused)
{
	for (int i = 0; i < SCATTERED; i += 16)
		scattered[i]->c = i;
	return unused;
}

static void *free_run(void *unused)
{
	for (long i = 0, n = 0; i < SCATTERED; i++, n = (n + 12347) % SCATTERED)
		slub_free(scattered[n]);
	return unused;
}

/* One thread writes to what the other frees, whoever comes first. */
static int race_with_free(void)
{
	pthread_t a, b;

	for (int i = 0; i < SCATTERED; i++)
		scattered[i] = slub_calloc(1, sizeof(struct node));
	pthread_create(&a, NULL, write_run, NULL);
	pthread_create(&b, NULL, free_run, NULL);
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
	{ "use-scattered-after-free", use_scattered_after_free },
	{ "use-unwatched-after-free", use_unwatched_after_free },
	{ "use-after-destroy", use_after_destroy },
	{ "use-element-after-free", use_element_after_free },
	{ "use-object-after-free", use_object_after_free },
	{ "use-aside-after-free", use_aside_after_free },
	{ "write-behind-small", write_behind_small },
	{ "write-behind-large", write_behind_large },
	{ "write-behind-moved", write_behind_moved },
	{ "write-behind-aligned", write_behind_aligned },
	{ "write-behind-bucket", write_behind_bucket },
	{ "write-behind-element", write_behind_element },
	{ "write-behind-again", write_behind_again },
	{ "use-malloc-after-free", use_malloc_after_free },
	{ "uninitialised", use_uninitialised },
	{ "malloc-uninitialised", use_malloc_uninitialised },
	{ "leak", leak },
	{ "race", race },
	{ "race-with-free", race_with_free },
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
