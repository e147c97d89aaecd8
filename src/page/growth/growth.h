/* SPDX-License-Identifier: MIT */
/*
 * What happens before the heap grows, and where a limit is near.  What the core asks is in
 * base/features.h.
 */
#ifndef SLUB_GROWTH_H
#define SLUB_GROWTH_H

#include "page/page.h"

/* growth.c */
/*
 * Asks the layers above to free something before the system is asked
 * for more.  The hook is called with no lock held, and not from within itself,
 * and is told how many bytes are wanted; it returns true if it freed something.
 * SLUB_RECLAIM_RATE says how often a second.
 */
void page_set_growth_hook(bool (*hook)(size_t bytes));
/*
 * The same for when the limit of the process or of its cgroup is near: @bytes
 * became resident since it was called.  True: as much was given back.
 */
void page_set_tight_hook(bool (*hook)(size_t bytes));

/* group_limit.c */
/* Is less than a sixteenth of what the cgroup allows left? */
bool page_group_is_close(void);

#endif
