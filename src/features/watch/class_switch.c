/* SPDX-License-Identifier: MIT */
/* Sampling and guarding of malloc's classes are switched here, while the program runs. */
#include <errno.h>

#include "core/malloc/malloc.h"
#include "core/base/line.h"
#include "features/guard/guard.h"
#include "features/profile/sample.h"

/* To switch sampling: pools and slots are made by one; it may empty all lists. */
static struct line switching;

/* What another thread was switching in the parent is done, or not begun, as it stands. */
usual void class_switch_fork_child(void)
{
	if (!line_is_left(&switching))
		return;
	sizeclass_slots_fill();
	account_sizes_fill();
	if (!slub_thread.locks_held)
		cache_inline_slots_set();
}

static int sample_switch_to(enum sample_use use, bool on)
{
	int err;

	/* Switched off it was on before. */
	if (!sizeclass_make_all())
		return -ENOSPC;
	err = sample_caches_prepare(sizeclass_cache(0), CLASS_NR);
	if (err)
		return err;
	sample_switch_on(use, on);
	sample_caches_switch();
	sizeclass_slots_fill();
	account_sizes_fill();
	return 0;
}

cold int sizeclass_sample(bool on, bool may_wait)
{
	int err;

	if (may_wait ? !line_wait(&switching, LINE_PATIENCE) : !line_try(&switching))
		return -EBUSY;
	err = sample_switch_to(SAMPLE_PROFILE, on);
	/* What was drawn for the sample slots counts no more. */
	if (!err && !on && may_wait)
		slab_shrink_all();
	line_end(&switching);
	return err;
}

cold int sizeclass_guard(uint64_t every)
{
	/* As the profile's, for a program that is to be sampled alike each time. */
	uint64_t seed = option_value(OPTION_test_profile_seed);
	int err = 0;

	if (!line_try(&switching))
		return -EBUSY;
	if (!every)
		guard_say_every(0);
	else
		err = guard_open(every);
	if (!err && every)
		sample_set_guard(every, seed ? seed : os_clock_ns() ^ os_random_word(0));
	if (!err)
		err = sample_switch_to(SAMPLE_GUARD, every);
	line_end(&switching);
	return err;
}

usual void sizeclass_guard_by_option(void)
{
	size_t every = option_value(OPTION_guard);

	guard_switch = sizeclass_guard;
	if (every && sizeclass_guard(every))
		log_message("option guard: nothing is guarded, for want of "
			    "memory");
}
