/* SPDX-License-Identifier: MIT */
#ifndef BENCH_NOTHING_H
#define BENCH_NOTHING_H

#include <stddef.h>

void *nothing_malloc(size_t size);
void nothing_free(void *ptr);

#endif
