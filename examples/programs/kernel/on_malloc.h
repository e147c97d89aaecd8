/* SPDX-License-Identifier: MIT */
/* slub/kernel.h's names, as far as the files of steps use them, on malloc: what is compared. */
#ifndef KERNEL_ON_MALLOC_H
#define KERNEL_ON_MALLOC_H

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ul << PAGE_SHIFT)

typedef unsigned int gfp_t;
#define GFP_KERNEL 0u

struct kmem_cache {
	size_t size;
};

static inline struct kmem_cache *kmem_cache_of_size(size_t size)
{
	struct kmem_cache *s = malloc(sizeof(*s));

	if (s)
		s->size = size;
	return s;
}

#define KMEM_CACHE(type, flags) kmem_cache_of_size(sizeof(struct type))
#define kmem_cache_zalloc(s, gfp) calloc(1, (s)->size)
#define kmem_cache_free(s, p) ((void)(s), free(p))
#define kmem_cache_destroy(s) free(s)
#define kmalloc_array(nr, size, gfp) reallocarray(NULL, nr, size)
#define kzalloc(size, gfp) calloc(1, size)
#define krealloc(p, size, gfp) realloc(p, size)
#define kfree(p) free(p)
#define kmemleak_update_trace(p) ((void)(p))

#endif
