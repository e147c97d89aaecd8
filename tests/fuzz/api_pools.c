/* SPDX-License-Identifier: MIT */
/* The API's target: mempools, buckets, queued pools, per-CPU memory and lists. */
#include "api.h"

enum { NR_POOLS = 3, NR_BUCKETS = 2, NR_WORDS = 6, RESERVE_MAX = 40, ELEMENT_BYTES = 200 };

struct pool {
	struct slub_mempool *pool;
	size_t size;
	size_t out;
};

struct word {
	uintptr_t offset;
	size_t size;
	int64_t sum;
};

static struct pool pools[NR_POOLS];
static struct slub_bucket *buckets[NR_BUCKETS];
static struct word words[NR_WORDS];
static uintptr_t list;

/* ---- mempools ---- */

static void *element_alloc(unsigned int flags, void *data)
{
	(void)flags;
	/* Fails at times, as memory does. */
	return ++*(unsigned int *)data % 8 == 0 ? NULL : tested_malloc(ELEMENT_BYTES);
}

static void element_free(void *element, void *data)
{
	(void)data;
	tested_free(element);
}

static void call_pool_create(struct input *in)
{
	static unsigned int failing;
	struct pool *pool = &pools[take_below(in, NR_POOLS)];
	struct cache *cache = &caches[take_below(in, NR_CACHES)];
	size_t nr = take_below(in, RESERVE_MAX);

	if (pool->pool)
		return;
	errno = 0;
	switch (take_below(in, 3)) {
	case 0:
		/* Of a cache that cannot end as long as the reserve is there. */
		if (!cache->cache || nr * cache->size > LIVE_BYTES_MAX / 8)
			return;
		*pool = (struct pool){ slub_mempool_create_slab(nr, cache->cache),
				       cache->size, 0 };
		break;
	case 1:
		pool->size = take_number(in, 2) % 5000;
		pool->pool = slub_mempool_create_malloc(nr, pool->size);
		if (!pool->size)
			expect(!pool->pool && errno == EINVAL);
		break;
	default:
		*pool = (struct pool){ slub_mempool_create(nr, element_alloc, element_free,
							   &failing), ELEMENT_BYTES, 0 };
		break;
	}
	if (!nr)
		expect(!pool->pool && errno == EINVAL);
	if (!pool->pool)
		expect(errno == EINVAL || errno == ENOMEM);
}

static void call_pool_change(struct input *in)
{
	struct pool *pool = &pools[take_below(in, NR_POOLS)];
	struct slub_mempool_stats stats;
	size_t nr = take_below(in, RESERVE_MAX);
	int error;

	if (!pool->pool)
		return;
	if (take_below(in, 2)) {
		error = slub_mempool_resize(pool->pool, nr);
		expect(nr ? !error || error == -ENOMEM : error == -EINVAL);
		expect(!slub_mempool_stats(pool->pool, &stats));
		expect(error || stats.min_nr == nr);
		expect(stats.available <= stats.min_nr && !stats.refused);
		return;
	}
	if (pool->out)
		return;
	error = slub_mempool_destroy(pool->pool);
	expect(!error);
	expect(slub_mempool_destroy(pool->pool) == -EINVAL);
	pool->pool = NULL;
}

static void call_pool_alloc(struct input *in)
{
	unsigned int nr = take_below(in, NR_POOLS);
	struct pool *pool = &pools[nr];
	struct object *object = object_any(in);
	void *element;

	object_free(object, 0);
	if (!pool->pool || live_bytes + pool->size > LIVE_BYTES_MAX)
		return;
	errno = 0;
	switch (take_below(in, 4)) {
	case 0:
		element = slub_mempool_alloc_reserved(pool->pool);
		break;
	case 1:
		expect(!(slub_mempool_alloc)(pool->pool, SLUB_ALLOC_ZERO) && errno == EINVAL);
		if (slub_mempool_alloc_bulk(pool->pool, 0, 1, &element) != 1)
			element = NULL;
		break;
	default:
		element = slub_mempool_alloc(pool->pool, 0);
		break;
	}
	if (!element) {
		expect(errno == ENOMEM);
		return;
	}
	pool->out++;
	object_enter(object, element, pool->size, HOME_POOL, nr);
}

void pool_free(unsigned int pool, void *element)
{
	slub_mempool_free(pools[pool].pool, element);
	pools[pool].out--;
}

/* ---- buckets ---- */

static void call_bucket(struct input *in)
{
	static const char *const names[NR_BUCKETS] = { "fuzz-bucket-a", "fuzz-bucket-b" };
	unsigned int nr = take_below(in, NR_BUCKETS);
	struct slub_bucket_stats stats;
	bool is_empty;
	int error;

	if (!buckets[nr]) {
		buckets[nr] = slub_bucket_create(names[nr], take_below(in, 2) ?
				SLUB_CACHE_ACCOUNT : 0);
		expect(buckets[nr]);
		expect(!slub_bucket_create(names[nr], 0) && errno == EEXIST);
		return;
	}
	expect(!slub_bucket_stats(buckets[nr], &stats));
	is_empty = !stats.live_blocks;
	expect(is_empty == !stats.live_bytes && !stats.refused);
	if (take_below(in, 2))
		return;
	error = slub_bucket_destroy(buckets[nr]);
	/* A reader would wait for itself. */
	expect(error == (readers ? -EDEADLK : is_empty ? 0 : -EBUSY));
	if (error)
		return;
	expect(slub_bucket_destroy(buckets[nr]) == -EINVAL);
	buckets[nr] = NULL;
}

static void *bucket_alloc(struct slub_bucket *bucket, unsigned int way, size_t size)
{
	switch (way) {
	case 0:
		return slub_bucket_calloc(bucket, 1, size);
	case 1:
		return slub_bucket_aligned_alloc(bucket, 256, size);
	default:
		return slub_bucket_alloc(bucket, size);
	}
}

static void call_bucket_alloc(struct input *in)
{
	unsigned int nr = take_below(in, NR_BUCKETS);
	struct object *object = object_any(in);
	size_t size = take_number(in, 2) + 1;
	void *ptr;

	if (!buckets[nr] || live_bytes + size > LIVE_BYTES_MAX)
		return;
	errno = 0;
	if (object->ptr && object->home == HOME_BUCKET && object->owner == nr) {
		object_check(object);
		ptr = slub_bucket_realloc(buckets[nr], object->ptr, size);
		if (is_refused(ptr)) {
			object_check(object);
			return;
		}
		live_bytes -= object->size;
		object->ptr = NULL;
	} else {
		object_free(object, 0);
		errno = 0;
		ptr = bucket_alloc(buckets[nr], take_below(in, 4), size);
		if (is_refused(ptr))
			return;
	}
	object_enter(object, ptr, size, HOME_BUCKET, nr);
}

void bucket_free(unsigned int bucket, void *block, unsigned int way)
{
	if (way % 4 == 0)
		slub_free_deferred(block);
	else if (way % 4 == 1)
		tested_free(block);
	else
		slub_bucket_free(buckets[bucket], block);
}

/* ---- per-CPU memory ---- */

static void call_word(struct input *in)
{
	struct word *word = &words[take_below(in, NR_WORDS)];
	int64_t n = (int8_t)take_byte(in);
	int64_t before;

	if (!word->offset) {
		size_t size = take_number(in, 2) % 9000, align = 1u << take_below(in, 14);

		word->offset = slub_percpu_alloc(size, align < 8 ? 8 : align);
		if (!size || align > 4096)
			expect(!word->offset && errno == EINVAL);
		else
			expect(word->offset && word->offset % align == 0);
		word->sum = 0;
		word->size = size;
		return;
	}
	if (take_below(in, 8) == 0) {
		expect(!slub_percpu_free(word->offset));
		expect(slub_percpu_free(word->offset) == -EINVAL);
		word->offset = 0;
		return;
	}
	if (word->size < 8)
		return;
	slub_percpu_add(word->offset, n);
	(slub_percpu_add)(word->offset, n);
	slub_percpu_add_return(word->offset, n);
	word->sum += 3 * n;
	before = slub_percpu_read(word->offset);
	if (slub_percpu_cmpxchg(word->offset, before, before + 5) == before)
		word->sum += 5;
	expect(slub_percpu_sum(word->offset) == word->sum);
}

static void list_drain(void)
{
	void *next, *object = list ? slub_percpu_list_drain(list) : NULL;

	for (; object; object = next) {
		next = *(void **)object;
		tested_free(object);
	}
}

static void call_list(struct input *in)
{
	void *object;

	if (!list)
		list = slub_percpu_alloc(sizeof(struct slub_percpu_list), SLUB_PERCPU_LIST_ALIGN);
	expect(list);
	switch (take_below(in, 4)) {
	case 0 ... 1:
		errno = 0;
		object = tested_malloc(48);
		if (!is_refused(object) && !slub_percpu_push(list, object, take_byte(in)))
			tested_free(object);
		break;
	case 2:
		tested_free(slub_percpu_pop(list));
		break;
	default:
		list_drain();
		break;
	}
}

/* ---- queued pools ---- */

static void call_queued(struct input *in)
{
	struct cache *cache = &caches[take_below(in, NR_CACHES)];
	unsigned int local = take_byte(in), shared = 1u << take_below(in, 12);
	unsigned int aside = take_number(in, 2) % 300;
	struct slub_qmempool *pool;
	void *object;

	if (!cache->cache || aside * cache->size > LIVE_BYTES_MAX / 8)
		return;
	errno = 0;
	pool = slub_qmempool_create(local, shared, aside, cache->cache, 0);
	if (local < 16 || (local & (local - 1)) || shared < 32 || aside > shared)
		expect(!pool && errno == EINVAL);
	if (!pool) {
		expect(errno == EINVAL || groups_may_refuse());
		return;
	}
	object = slub_qmempool_alloc(pool, 0);
	if (!is_refused(object))
		slub_qmempool_free(pool, object);
	expect(!slub_qmempool_destroy(pool));
}

void pools_call(struct input *in)
{
	switch (take_below(in, 16)) {
	case 0 ... 1:
		call_pool_create(in);
		break;
	case 2:
		call_pool_change(in);
		break;
	case 3 ... 6:
		call_pool_alloc(in);
		break;
	case 7:
		call_bucket(in);
		break;
	case 8 ... 10:
		call_bucket_alloc(in);
		break;
	case 11 ... 12:
		call_word(in);
		break;
	case 13:
		call_list(in);
		break;
	default:
		call_queued(in);
		break;
	}
}

void pools_end(void)
{
	for (int i = 0; i < NR_POOLS; i++) {
		expect(!pools[i].out);
		expect(!slub_mempool_destroy(pools[i].pool));
		pools[i].pool = NULL;
	}
	for (int i = 0; i < NR_BUCKETS; i++) {
		expect(!slub_bucket_destroy(buckets[i]));
		buckets[i] = NULL;
	}
	for (int i = 0; i < NR_WORDS; i++) {
		expect(!slub_percpu_free(words[i].offset));
		words[i].offset = 0;
	}
	list_drain();
	expect(!slub_percpu_free(list));
	list = 0;
}
