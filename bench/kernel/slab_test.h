/* SPDX-License-Identifier: MIT */
/* The two halves of slab_test. */
#ifndef ORIG_SLAB_TEST_H
#define ORIG_SLAB_TEST_H

#include "orig.h"

enum { OBJECTS = 10000, SINGLE_MAX = 16384, CONCURRENT_MAX = 4096 };

/* Room for OBJECTS pointers, one table per CPU. */
void *slab_test_table(unsigned int cpu);
void slab_test_concurrent(void);

#endif
