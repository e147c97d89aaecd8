/* SPDX-License-Identifier: MIT */
/* Freed blocks between fences that are open still, for a request of their size: ready.c. */
#ifndef SLUB_READY_H
#define SLUB_READY_H

#include "core/page/page_internal.h"

/*
 * A block of @pages, with its fences, is freed: is its size freed so often that it is to be ready
 * for a while?
 */
bool ready_wants(size_t pages);
/*
 * So it is; its owner has filled it.  @own: pages between its fences.  Returns one that there is
 * no room for, to be closed; NULL: there is room for all.
 */
void *ready_put(void *base, size_t own);
/* One more that there is no room for. */
void *ready_over(void);
/*
 * One of as many pages, with its fences, as a block of @pages would get, of @node; if possible
 * with @own between them.  NULL: there is none.
 */
void *ready_take(size_t pages, size_t own, uint32_t node);
/* Any of them, or NULL. */
void *ready_any(void);
/* Pages in them, with their fences. */
size_t ready_nr_pages(void);
void ready_fork(enum fork_step step);

#endif
