/* SPDX-License-Identifier: MIT */
/* What looks like misuse, beside the keys of slab/core/key.h. */
#ifndef SLUB_SUSPECT_H
#define SLUB_SUSPECT_H

#include "slab/slab.h"

/*
 * Is @object, where one of @cache may begin, one that was never handed out?  Of one that
 * is allocated the answer is always no.
 */
bool suspect_is_uncarved(const struct slub_cache *cache, const void *object);
/*
 * At exit: looks through this CPU's lists of malloc's classes, for what a short program
 * has freed wrongly and no flush has come to.
 */
void suspect_lists(void);

#endif
