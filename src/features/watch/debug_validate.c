/* SPDX-License-Identifier: MIT */
/* What programs call (slub/debug.h): switching, validating, counting. */
#include <errno.h>
#include <string.h>

#include "features/watch/watch.h"
#include "features/guard/guard.h"
#include "features/typed/typed.h"

#include <slub/debug.h>

/* ---- the switch ---- */

SLUB_EXPORT int slub_cache_debug(struct slub_cache *cache, unsigned long flags)
{
	if (!cache || flags & ~(unsigned long)DEBUG_LETTERS)
		return -EINVAL;
	cache = cache_usable(cache);
	if (!cache)
		return -EINVAL;
	return cache_debug_switch(cache, (uint32_t)flags, SWITCH_FLUSHES);
}

/* What @setting says of @cache, by its @name or an alias; UINT32_MAX: nothing. */
static uint32_t letters_told(const char *setting, const struct slub_cache *cache,
			     char name[SLUB_CACHE_NAME_MAX + 1])
{
	uint32_t flags = UINT32_MAX;
	bool found = debug_letters_named(setting, name, &flags);

	for (unsigned int n = 0; !found && slub_cache_alias(cache, n, name); n++)
		found = debug_letters_named(setting, name, &flags);
	return flags;
}

int cache_debug_by(struct slub_cache *cache, const char *setting,
		   enum switch_patience patience)
{
	char name[SLUB_CACHE_NAME_MAX + 1];
	uint32_t flags;
	int err;

	if (cache_is_twin(cache) || !cache_name_copy(cache, name))
		return 0;
	flags = letters_told(setting, cache, name);
	if (flags == UINT32_MAX)
		return 0;
	err = cache_debug_switch(cache, flags, patience);
	if (err == -EINVAL)	/* destroyed meanwhile */
		return 0;
	return err ? err : 1;
}

SLUB_EXPORT int slub_debug(const char *setting)
{
	int nr = 0;

	if (!setting || !debug_letters_valid(setting))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!slub_start() || !caches_are_made())
		return -ENOMEM;
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		int ret = cache_debug_by(c, setting, SWITCH_FLUSHES);

		if (ret < 0)
			return ret;
		nr += ret;
	}
	return nr;
}

/* ---- validate ---- */

struct validation {
	struct debug_case found;
	const void *frame;
	long bugs;
};

static void validate_slab(struct slub_cache *twin, struct page *slab,
			  void *arg)
{
	struct validation *v = arg;

	case_begin(&v->found, twin, v->frame);
	watched_validate(&v->found, twin, slab);
}

static void validate_after(struct slub_cache *twin, void *arg)
{
	struct validation *v = arg;

	v->bugs += v->found.bugs;
	case_end(&v->found, twin);
}

/* What a walk shows to @visit_slab; returns the bugs it reported. */
static long look_at(const struct slub_cache *cache, const void *frame,
		    void (*visit_slab)(struct slub_cache *, struct page *, void *))
{
	struct validation v = { .frame = frame };
	struct watched_visit visit = {
		visit_slab, validate_after, &v, cache, NULL,
	};

	watched_for_each(&visit);
	return v.bugs;
}

bool debug_validate_some(char **at, long *bugs, const char *pattern)
{
	struct validation v = { .frame = __builtin_frame_address(0) };
	struct watched_visit visit = {
		validate_slab, validate_after, &v, NULL, pattern,
	};
	bool more = watched_for_some(&visit, at);

	*bugs += v.bugs;
	return more;
}

SLUB_EXPORT long slub_cache_validate(struct slub_cache *cache)
{
	cache = cache_asked(cache);
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!cache || !watch_next(cache, NULL))
		return -EINVAL;
	return look_at(cache, __builtin_frame_address(0), validate_slab);
}

SLUB_EXPORT long slub_validate_all(void)
{
	if (slub_thread.locks_held)
		return -EDEADLK;
	if (!watch_first())
		return 0;
	return look_at(NULL, __builtin_frame_address(0), validate_slab);
}

SLUB_EXPORT unsigned long slub_cache_errors(struct slub_cache *cache)
{
	unsigned long n = 0;

	cache = cache_asked(cache);
	for (struct watch *w = watch_next(cache, NULL); w && cache; w = watch_next(cache, w))
		n += __atomic_load_n(&w->errors, __ATOMIC_RELAXED);
	return n;
}

/* ---- destroy ---- */

static void left_slab(struct slub_cache *twin, struct page *slab, void *arg)
{
	struct validation *v = arg;
	struct free_marks marks;

	case_begin(&v->found, twin, v->frame);
	case_slab(&v->found, twin, slab);
	watched_mark_free(twin, slab, &marks);
	for (uint32_t i = 0; i < twin->objects; i++) {
		char *object = watched_object(twin, slab, i);

		if (mark_is_set(&marks, i))
			continue;
		/* One bug a slab; its other objects are named only. */
		if (!v->found.bugs)
			report_bug(&v->found, object, "Objects remaining on "
				   "slub_cache_destroy()");
		else
			report_also(&v->found, object);
	}
	if (v->found.bugs)
		report_fix(&v->found, "Cache kept, with its objects");
}

void debug_report_left(struct slub_cache *cache)
{
	look_at(cache, __builtin_frame_address(0), left_slab);
	if (cache_twin(cache))
		guard_report_left(cache, cache_twin(cache));
}

/* ---- start and exit ---- */

usual void debug_start(void)
{
	const char *setting = option_text(OPTION_debug);

	if (!setting && likely(!sanitizer.is_there))
		return;
	if (setting) {
		debug_letters_complain(setting);
		guard_watch(debug_letters_for(setting, "malloc-large", 0));
	}
	for (struct slub_cache *c = cache_first(); c; c = cache_next(c)) {
		if (!c->debug && cache_is_live(c))
			debug_cache_made(c);
	}
}

usual void debug_finish(void)
{
	const char *leaks = option_text(OPTION_debug_leaks);

	guard_finish();
	if (!watch_first())
		return;
	/* What was written to freed memory and never allocated again. */
	slub_validate_all();
	/* What a child inherited is no leak of its own. */
	if (leaks && os_output_is_ours(leaks))
		slub_leaks_write(leaks);
	report_total();
}
