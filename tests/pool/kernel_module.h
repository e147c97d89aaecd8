/* SPDX-License-Identifier: MIT */
/* What kernel_module.c offers: a table of sessions, as a driver might have one. */
#ifndef SLUB_TESTS_POOL_KERNEL_MODULE_H
#define SLUB_TESTS_POOL_KERNEL_MODULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct session_stats {
	uint64_t inserts;
	uint64_t hits;
	uint64_t misses;
	uint64_t bytes;
};

int session_init(unsigned int buckets);
int session_exit(void);
int session_insert(uint32_t key, const char *name);
/* Copies the name; 0, or -ENOENT. */
int session_lookup(uint32_t key, char *name, unsigned int size);
int session_remove(uint32_t key);
void session_read_stats(struct session_stats *sum);

/* Writes a record through the pool of requests. */
int session_submit(uint32_t key);

/* kernel_names.c: 0, or the line of the check that failed. */
int check_percpu(void);
int check_kmalloc(void);
int check_sizes(void);
int check_strings(void);
int check_pages(void);
int check_caches(void);
int check_pools(void);
int check_rcu(void);
int check_nofail(void);

#ifdef __cplusplus
}
#endif

#endif
