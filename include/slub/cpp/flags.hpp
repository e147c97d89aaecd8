/* SPDX-License-Identifier: MIT */
/* For slub/flags.h: flags of one kind do not compile where those of another are wanted. */
#ifndef SLUB_INCLUDE_CPP_FLAGS_HPP
#define SLUB_INCLUDE_CPP_FLAGS_HPP

#include <stddef.h>

struct slub_bucket;
struct slub_cache;
struct slub_mempool;
struct slub_qmempool;

/* A program may include the C headers inside extern "C". */
extern "C++" {
constexpr slub_cache_flag operator|(slub_cache_flag a, slub_cache_flag b)
{
	return static_cast<slub_cache_flag>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr slub_alloc_flag operator|(slub_alloc_flag a, slub_alloc_flag b)
{
	return static_cast<slub_alloc_flag>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr slub_pool_flag operator|(slub_pool_flag a, slub_pool_flag b)
{
	return static_cast<slub_pool_flag>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
void operator|(slub_cache_flag, slub_alloc_flag) = delete;
void operator|(slub_cache_flag, slub_pool_flag) = delete;
void operator|(slub_alloc_flag, slub_cache_flag) = delete;
void operator|(slub_alloc_flag, slub_pool_flag) = delete;
void operator|(slub_pool_flag, slub_cache_flag) = delete;
void operator|(slub_pool_flag, slub_alloc_flag) = delete;

slub_cache *slub_cache_create(const char *, size_t, size_t, slub_alloc_flag, void (*)(void *)) =
		delete;
slub_cache *slub_cache_create(const char *, size_t, size_t, slub_pool_flag, void (*)(void *)) =
		delete;
slub_bucket *slub_bucket_create(const char *, slub_alloc_flag) = delete;
slub_bucket *slub_bucket_create(const char *, slub_pool_flag) = delete;
int slub_cache_debug(slub_cache *, slub_alloc_flag) = delete;
int slub_cache_debug(slub_cache *, slub_pool_flag) = delete;
void *slub_cache_alloc_flags(slub_cache *, slub_cache_flag) = delete;
void *slub_cache_alloc_flags(slub_cache *, slub_pool_flag) = delete;
void *slub_cache_alloc_node(slub_cache *, slub_cache_flag, int) = delete;
void *slub_cache_alloc_node(slub_cache *, slub_pool_flag, int) = delete;
size_t slub_cache_alloc_bulk(slub_cache *, slub_cache_flag, size_t, void **) = delete;
size_t slub_cache_alloc_bulk(slub_cache *, slub_pool_flag, size_t, void **) = delete;
slub_qmempool *slub_qmempool_create(unsigned int, unsigned int, unsigned int,
				    slub_cache *, slub_cache_flag) = delete;
slub_qmempool *slub_qmempool_create(unsigned int, unsigned int, unsigned int,
				    slub_cache *, slub_pool_flag) = delete;
void *slub_qmempool_alloc(slub_qmempool *, slub_cache_flag) = delete;
void *slub_qmempool_alloc(slub_qmempool *, slub_pool_flag) = delete;
void *slub_mempool_alloc(slub_mempool *, slub_cache_flag) = delete;
void *slub_mempool_alloc(slub_mempool *, slub_alloc_flag) = delete;
size_t slub_mempool_alloc_bulk(slub_mempool *, slub_cache_flag, size_t, void **) = delete;
size_t slub_mempool_alloc_bulk(slub_mempool *, slub_alloc_flag, size_t, void **) = delete;
}

#endif
