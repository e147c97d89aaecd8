/* SPDX-License-Identifier: MIT */
/*
 * For programs built with a sanitizer, whose runtime has a malloc of its own:
 * they call the library under other names, which objcopy gave it.  Included
 * before everything else.
 */
#ifndef SLUB_TESTS_FIRE_PREFIXED_H
#define SLUB_TESTS_FIRE_PREFIXED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <stdlib.h>

void *fire_malloc(size_t bytes);
void *fire_calloc(size_t n, size_t bytes);
void *fire_realloc(void *object, size_t bytes);
void fire_free(void *object);
void *fire_memalign(size_t align, size_t bytes);
int fire_malloc_trim(size_t pad);

#define malloc fire_malloc
#define calloc fire_calloc
#define realloc fire_realloc
#define free fire_free
#define memalign fire_memalign
#define malloc_trim fire_malloc_trim

#endif
