/* SPDX-License-Identifier: MIT */
/*
 * A right program that uses what the library has, as one that is built with a sanitizer does:
 * no report, and 0.  Hand-overs between threads go through frees and allocations alone.
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
#include <slub/percpu.h>
#include <slub/rcu.h>

#define THREADS 4
#define ROUNDS 2000
#define HELD 32

struct node {
	long key;
	char *text;		/* malloc's */
	char rest[100];
};

struct made {
	long a, b;
};

static void make(void *object)
{
	struct made *made = object;

	made->a = 1;
	made->b = 2;
}

SLUB_CACHE_DEFINE_STATIC(nodes, struct node, 0, NULL);
SLUB_CACHE_DEFINE_STATIC(made_cache, struct made, 0, make);
SLUB_CACHE_DEFINE_STATIC(safe, struct node, SLUB_CACHE_TYPESAFE_BY_RCU, NULL);

/* Caches that all threads use for the first time at once. */
#define FRESH(n) SLUB_CACHE_DEFINE_STATIC(fresh_##n, struct made, 0, make);
#define FRESH_4(n) FRESH(n##0) FRESH(n##1) FRESH(n##2) FRESH(n##3)
FRESH_4(0) FRESH_4(1) FRESH_4(2) FRESH_4(3)
#undef FRESH
#define FRESH(n) &fresh_##n,
static struct slub_cache *const fresh[] = { FRESH_4(0) FRESH_4(1) FRESH_4(2) FRESH_4(3) };

static struct slub_bucket *bucket;
static struct slub_mempool *pool;
static uintptr_t counter;
static struct node *shared;	/* readers look at it; atomic */

#define CHECK(condition)						\
	do {								\
		if (!(condition)) {					\
			printf("wrong: %s, line %d\n", #condition, __LINE__);	\
			exit(1);					\
		}							\
	} while (0)

static void typed(unsigned int i, struct node **held)
{
	struct node **place = &held[i % HELD], *node = *place;
	struct made *made;

	if (node) {
		CHECK(strlen(node->text) == 1);
		free(node->text);
		slub_cache_free(&nodes, node);
	}
	node = *place = i % 3 ? slub_cache_alloc(&nodes) : slub_cache_zalloc(&nodes);
	CHECK(node && (i % 3 || node->key == 0));
	node->key = i;
	node->text = strdup("x");
	memset(node->rest, (int)i, sizeof(node->rest));
	made = slub_cache_alloc(&made_cache);
	CHECK(made->a == 1 && made->b == 2);
	slub_cache_free(&made_cache, made);
}

static void bulk(void)
{
	void *objects[16];
	struct slub_prefill prefill = SLUB_PREFILL_INIT;

	CHECK(!slub_cache_prefill(&made_cache, &prefill, 8));
	for (struct made *made; prefill.nr > 4; slub_cache_free(&made_cache, made)) {
		made = slub_prefill_alloc(&prefill);
		CHECK(made->a == 1 && made->b == 2);
	}
	slub_prefill_return(&prefill);
	CHECK(slub_cache_alloc_bulk(&nodes, 0, 16, objects) == 16);
	for (int i = 0; i < 16; i++)
		((struct node *)objects[i])->key = i;
	slub_cache_free_bulk(&nodes, 16, objects);
}

static void blocks(unsigned int i)
{
	size_t bytes = 1 + i * 37 % 5000;
	char *block = slub_malloc(bytes), *zero = slub_calloc(3, bytes), *in, *large;

	memset(block, 1, bytes);
	block = slub_realloc(block, bytes * 2);
	CHECK(block[bytes - 1] == 1 && zero[bytes] == 0);
	slub_free(block);
	slub_free(zero);
	in = slub_bucket_calloc(bucket, 1, bytes);
	CHECK(in[bytes - 1] == 0);
	in = slub_bucket_realloc(bucket, in, bytes + 100);
	CHECK(in[bytes - 1] == 0);
	slub_bucket_free(bucket, in);
	if (i % 64)
		return;
	large = slub_bucket_alloc(bucket, 100000);
	memset(large, 2, 100000);
	large = slub_bucket_realloc(bucket, large, 3000000);
	CHECK(large[99999] == 2);
	slub_bucket_free(bucket, large);
	large = slub_aligned_alloc(4096, 70000);
	large[69999] = 1;
	slub_free(large);
}

/* What the library says that a block has, the program may use, and it moves with the block. */
static void usable(unsigned int i)
{
	size_t bytes = 1 + i * 37 % 5000, all, good;
	char *block = slub_malloc(i % 64 ? bytes : 100000 + bytes);
	char *in = slub_bucket_alloc(bucket, bytes);

	all = slub_usable_size(block);
	memset(block, 4, all);
	block = slub_realloc(block, all + 100);
	CHECK(block[all - 1] == 4);
	slub_free(block);
	good = slub_good_size(bytes);
	block = slub_malloc(good);
	memset(block, 5, good);
	slub_free(block);
	all = slub_usable_size(in);
	memset(in, 6, all);
	in = slub_bucket_realloc(bucket, in, all);
	CHECK(in[all - 1] == 6);
	slub_bucket_free(bucket, in);
}

static void pools(void)
{
	char *element = slub_mempool_alloc(pool, 0);

	CHECK(element);
	memset(element, 3, 64);
	slub_mempool_free(pool, element);
}

static void readers(unsigned int i)
{
	int index = slub_read_lock();
	struct node *seen = __atomic_load_n(&shared, __ATOMIC_ACQUIRE), *other;

	CHECK(!seen || seen->key >= 0);
	slub_read_unlock(index);
	if (i % 8)
		return;
	other = slub_cache_alloc(&nodes);
	other->key = i;
	seen = __atomic_exchange_n(&shared, other, __ATOMIC_ACQ_REL);
	if (seen)
		slub_free_deferred(seen);
	other = slub_cache_alloc(&safe);
	other->key = i;
	slub_cache_free(&safe, other);
}

#define PASSED 4000
static struct node *passed[THREADS][PASSED];
static pthread_barrier_t all_have;

/* In no order, what another thread allocated; what is freed so is soon somebody's again. */
static void scattered(long me)
{
	struct node **others = passed[(me + 1) % THREADS];

	for (long i = 0; i < PASSED; i++) {
		passed[me][i] = slub_malloc(sizeof(struct node));
		passed[me][i]->key = i;
	}
	pthread_barrier_wait(&all_have);
	for (long i = 0, n = me; i < PASSED; i++, n = (n + 12347) % PASSED) {
		CHECK(others[n]->key == n);
		slub_free(others[n]);
		if (i % 4)
			continue;
		others[n] = slub_malloc(sizeof(struct node));
		others[n]->key = n;
	}
	for (long i = 0, n = me; i < PASSED; i += 4, n = (n + 4 * 12347) % PASSED)
		slub_free(others[n]);
}

static void first_uses(void)
{
	for (size_t n = 0; n < sizeof(fresh) / sizeof(*fresh); n++) {
		struct made *all[8];

		pthread_barrier_wait(&all_have);
		for (int i = 0; i < 96; i++) {
			struct made *made = all[i % 8] = slub_cache_alloc(fresh[n]);

			CHECK(made->a == 1 && made->b == 2);
			for (int k = 0; i % 8 == 7 && k < 8; k++)
				slub_cache_free(fresh[n], all[k]);
		}
	}
}

static void *run(void *me)
{
	struct node *held[HELD] = { NULL };

	first_uses();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		typed(i, held);
		blocks(i);
		usable(i);
		pools();
		readers(i);
		slub_percpu_add(counter, 1);
		if (i % 16 == 0)
			bulk();
	}
	for (unsigned int i = 0; i < HELD; i++) {
		free(held[i]->text);
		slub_cache_free(&nodes, held[i]);
	}
	scattered((long)me);
	return NULL;
}

int main(void)
{
	struct slub_cache_stats stats;
	struct slub_bucket_stats in_bucket;
	struct slub_cache *extra = slub_cache_create("extra", 200, 0, 0, NULL);
	pthread_t threads[THREADS];
	struct node *kept;
	char *old = malloc(100);

	bucket = slub_bucket_create("bucket", 0);
	pool = slub_mempool_create_malloc(4, 64);
	counter = slub_percpu_alloc(8, 8);
	CHECK(extra && bucket && pool && counter);
	/* Letters go off; that the runtime is told of each object does not. */
	CHECK(!slub_cache_debug(&nodes, 0));
	CHECK(!pthread_barrier_init(&all_have, NULL, THREADS));
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, run, (void *)i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(slub_percpu_sum(counter) == THREADS * ROUNDS);
	slub_deferred_barrier();
	slub_cache_free(&nodes, shared);
	CHECK(!slub_cache_stats(&nodes, &stats) && stats.objects > 0);
	CHECK(!slub_bucket_stats(bucket, &in_bucket) && in_bucket.live_bytes == 0);
	slub_mempool_destroy(pool);
	CHECK(!slub_bucket_destroy(bucket) && !slub_cache_destroy(extra));
	slub_percpu_free(counter);
	old = realloc(old, 1000);
	free(old);
	/* What an object alone points to is no leak. */
	kept = slub_cache_alloc(&safe);
	kept->text = strdup("kept");
	kept = NULL;
	puts("good");
	return 0;
}
