/* SPDX-License-Identifier: MIT */
/*
 * A module as the kernel has them: a hash table of sessions with a cache of its
 * own, statistics per CPU, readers under RCU and a pool of requests.  All its
 * memory calls are the kernel's; what is not memory (a lock, a list) is plain C.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <slub/kernel.h>

#include "kernel_module.h"

struct session {
	struct session *next;
	uint32_t key;
	char *name;
	struct rcu_head rcu;
};

struct request {
	uint32_t key;
	uint64_t payload[30];
};

static struct kmem_cache *session_cache;
static struct kmem_cache *request_cache;
static mempool_t *request_pool;
static struct session_stats __percpu *stats;
static struct session **table;
static unsigned int table_size;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static struct session **bucket_of(uint32_t key)
{
	return &table[key * 2654435761u % table_size];
}

int session_init(unsigned int buckets)
{
	table_size = buckets;
	session_cache = KMEM_CACHE(session, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
	if (!session_cache)
		return -ENOMEM;
	request_cache = kmem_cache_create("session_request", sizeof(struct request), 0,
					  SLAB_RECLAIM_ACCOUNT, NULL);
	if (!request_cache)
		goto no_request_cache;
	request_pool = mempool_create(4, mempool_alloc_slab, mempool_free_slab, request_cache);
	if (!request_pool)
		goto no_pool;
	stats = alloc_percpu(struct session_stats);
	if (!stats)
		goto no_stats;
	table = kvcalloc(buckets, sizeof(*table), GFP_KERNEL);
	if (table)
		return 0;
	free_percpu(stats);
no_stats:
	mempool_destroy(request_pool);
no_pool:
	kmem_cache_destroy(request_cache);
no_request_cache:
	kmem_cache_destroy(session_cache);
	return -ENOMEM;
}

int session_insert(uint32_t key, const char *name)
{
	struct session *s = kmem_cache_zalloc(session_cache, GFP_KERNEL);

	if (!s)
		return -ENOMEM;
	s->key = key;
	s->name = kstrdup(name, GFP_KERNEL);
	if (!s->name) {
		kmem_cache_free(session_cache, s);
		return -ENOMEM;
	}
	pthread_mutex_lock(&table_lock);
	s->next = *bucket_of(key);
	rcu_assign_pointer(*bucket_of(key), s);
	pthread_mutex_unlock(&table_lock);
	this_cpu_inc(stats->inserts);
	this_cpu_add(stats->bytes, strlen(name));
	return 0;
}

int session_lookup(uint32_t key, char *name, unsigned int size)
{
	struct session *s;
	int ret = -ENOENT;

	rcu_read_lock();
	for (s = rcu_dereference(*bucket_of(key)); s; s = rcu_dereference(s->next)) {
		if (s->key != key)
			continue;
		strncpy(name, s->name, size - 1);
		name[size - 1] = 0;
		ret = 0;
		break;
	}
	rcu_read_unlock();
	if (ret)
		this_cpu_inc(stats->misses);
	else
		this_cpu_inc(stats->hits);
	return ret;
}

int session_remove(uint32_t key)
{
	struct session **link, *s;

	pthread_mutex_lock(&table_lock);
	for (link = bucket_of(key); *link && (*link)->key != key; link = &(*link)->next)
		;
	s = *link;
	if (s)
		rcu_assign_pointer(*link, s->next);
	pthread_mutex_unlock(&table_lock);
	if (!s)
		return -ENOENT;
	kvfree_rcu_mightsleep(s->name);
	kfree_rcu(s, rcu);
	return 0;
}

int session_submit(uint32_t key)
{
	struct request *r = mempool_alloc(request_pool, GFP_NOIO);
	int ret;

	if (!r)
		return -ENOMEM;
	memset(r->payload, (int)key, sizeof(r->payload));
	r->key = key;
	ret = (int)(r->payload[29] & 0xff);
	mempool_free(r, request_pool);
	return ret;
}

void session_read_stats(struct session_stats *sum)
{
	int cpu;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct session_stats *one = per_cpu_ptr(stats, cpu);

		sum->inserts += one->inserts;
		sum->hits += one->hits;
		sum->misses += one->misses;
		sum->bytes += one->bytes;
	}
}

/* 0 if nothing of the module is left. */
int session_exit(void)
{
	unsigned int i;

	for (i = 0; i < table_size; i++) {
		struct session *s = table[i], *next;

		for (; s; s = next) {
			next = s->next;
			kfree(s->name);
			kmem_cache_free(session_cache, s);
		}
	}
	kvfree(table);
	free_percpu(stats);
	mempool_destroy(request_pool);
	rcu_barrier();
	return slub_cache_destroy(request_cache) | slub_cache_destroy(session_cache);
}
