/* SPDX-License-Identifier: MIT */
/*
 * What happens before the heap grows, and where a limit is near.  What the core asks is in
 * core/base/features.h.
 *
 * Tests: tests/unit/page/test_growth.cc, tests/unit/page/test_limit.cc,
 * tests/unit/page/test_resize.cc.
 * Page: docs/internals/reclaim.md.
 */
#ifndef SLUB_GROWTH_H
#define SLUB_GROWTH_H

#include "core/page/page.h"

/* growth.c */
/*
 * Asks the layers above to free something before the system is asked
 * for more, or when it refused.  The hook is called with no lock held, and not from within
 * itself, and is told how many bytes are wanted, and why; it returns true if it freed
 * something.  SLUB_RECLAIM_RATE says how often a second.
 */
typedef bool growth_hook_fn(size_t bytes, enum growth_cause cause);
void page_set_growth_hook(growth_hook_fn *hook);
/*
 * The same for when the limit of the process or of its cgroup is near: @bytes
 * became resident since it was called.  True: as much was given back.
 */
void page_set_tight_hook(growth_hook_fn *hook);
/* Is less than a quarter of the limit of the process or of its cgroup left? */
bool page_limit_is_near(void);

/* group_limit.c */
/* Is less than a sixteenth of what the cgroup allows left? */
bool page_group_is_close(void);

#endif
