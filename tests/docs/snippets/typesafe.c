/* SPDX-License-Identifier: MIT */
#include <slub/cache.h>
#include <slub/rcu.h>

#include "snippet.h"

struct flow {
	uint32_t key;		/* 0 while it is free */
	uint32_t references;
};

/* Once per object: a reader may look at it before and after it is somebody's. */
static void flow_init(void *object)
{
	memset(object, 0, sizeof(struct flow));
}

static struct flow *table[16];

static bool flow_get(struct flow *flow)
{
	uint32_t n = __atomic_load_n(&flow->references, __ATOMIC_RELAXED);

	while (n && !__atomic_compare_exchange_n(&flow->references, &n, n + 1, true,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		;
	return n;
}

static void flow_put(struct slub_cache *cache, struct flow *flow)
{
	if (__atomic_sub_fetch(&flow->references, 1, __ATOMIC_RELEASE) == 0)
		slub_cache_free(cache, flow);		/* may be reused at once */
}

/* It may be freed and become another flow while we look: so look twice. */
static struct flow *flow_find(struct slub_cache *cache, uint32_t key)
{
	int section = slub_read_lock();
	struct flow *flow = __atomic_load_n(&table[key % 16], __ATOMIC_ACQUIRE);

	if (flow && !flow_get(flow))
		flow = NULL;
	if (flow && __atomic_load_n(&flow->key, __ATOMIC_RELAXED) != key) {
		flow_put(cache, flow);
		flow = NULL;
	}
	slub_read_unlock(section);
	return flow;
}

int main(void)
{
	struct slub_cache_args args = {
		.name = "flow",
		.size = sizeof(struct flow),
		.flags = SLUB_CACHE_TYPESAFE_BY_RCU,
		.ctor = flow_init,
	};
	struct slub_cache *cache = slub_cache_create_args(&args);
	struct flow *flow = cache ? slub_cache_alloc(cache) : NULL;

	expect(flow);
	__atomic_store_n(&flow->key, 7, __ATOMIC_RELAXED);
	__atomic_store_n(&flow->references, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&table[7], flow, __ATOMIC_RELEASE);

	expect(flow_find(cache, 7) == flow);
	expect(flow_find(cache, 8) == NULL);
	flow_put(cache, flow);

	__atomic_store_n(&table[7], NULL, __ATOMIC_RELEASE);
	flow_put(cache, flow);
	expect(flow_find(cache, 7) == NULL);
	expect(slub_cache_destroy(cache) == 0);
	return 0;
}
