/* SPDX-License-Identifier: MIT */
/* Pages of a slab that nothing keeps, though other objects of the slab are in use. */
#ifndef SLUB_TOOL_SPARE_H
#define SLUB_TOOL_SPARE_H

#include "heap.h"
#include "resident.h"

struct spare;

struct spare *spare_new(void);
void spare_free(struct spare *spare);
/*
 * Bytes of them with memory behind them, of the slab @piece; 0 where the library gives no such
 * page back.  Without @resident all have memory that are not known as holes.
 */
uint64_t spare_bytes(struct spare *spare, const struct snapshot *snapshot,
		     const struct piece *piece, struct resident *resident);

#endif
