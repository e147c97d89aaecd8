/* SPDX-License-Identifier: MIT */
/* Buckets (slub/bucket.h): what src/slub.c calls around fork. */
#ifndef SLUB_BUCKET_H
#define SLUB_BUCKET_H

#include "malloc/malloc.h"

#include <slub/bucket.h>

void bucket_fork_prepare(void);
void bucket_fork_finish(bool in_child);

#endif
