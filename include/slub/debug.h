/* SPDX-License-Identifier: MIT */
/*
 * Debugging of caches: the kernel's slab_debug, in a running program.
 *
 * A cache is watched by letters: F consistency checks, Z red zones, P poison,
 * U last user, T trace, A failures on purpose (slub/cache.h, SLUB_CACHE_RED_ZONE and
 * so on).  What is found is reported in the kernel's form, counted, repaired,
 * and the program goes on; slub-debug(7) tells how to read a report, and what
 * the environment (SLUB_DEBUG and its relatives) can set.
 *
 * A cache that is not watched pays nothing for this.
 */
#ifndef SLUB_INCLUDE_DEBUG_H
#define SLUB_INCLUDE_DEBUG_H

#include <slub/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * slub_debug - watch caches from now on, or no more.
 *
 * @setting: as SLUB_DEBUG: "FZPU,malloc-64,conn*", "-,malloc-64", "FZ" for all
 * caches; caches that it does not name stay as they are.  A cache that several
 * share (SLUB_MERGE) has the names of all.  New objects of a cache are watched;
 * those from before stay valid and are not.
 * Returns how many caches were changed, or -EINVAL for a setting that has a
 * letter that is none, -ENOMEM, -EBUSY while another thread does the same, -EDEADLK in
 * a signal handler that interrupted the allocator.
 * Context: any thread, not from a signal handler; stops each CPU for a moment.
 * From: slab_debug=, and the files of /sys/kernel/slab that were writable up
 * to Linux 5.8.
 */
SLUB_API int slub_debug(const char *setting);

/*
 * slub_cache_debug - the same for one cache; @flags: its letters, 0 for none.
 *
 * Returns 0, or -EINVAL for a flag that is no letter or a cache that is not
 * live, -E2BIG for objects too large to be watched, -ENOMEM, -EBUSY, -EDEADLK.
 * Context: as slub_debug().
 */
SLUB_API int slub_cache_debug(struct slub_cache *cache, unsigned long flags);
#ifdef SLUB_CHECK_FLAGS
#define slub_cache_debug(cache, flags)					\
	slub_cache_debug(cache, SLUB_CACHE_FLAGS(flags))
#endif

/*
 * slub_cache_validate - look at every watched object of @cache now.
 *
 * Checks freelists, counters, the zones of all objects, the poison of free
 * ones and the padding, reports and repairs.  Returns how many bugs were found,
 * or -EINVAL for a cache that is not watched, -EDEADLK in a signal handler that
 * interrupted the allocator.
 * Context: any thread, not from a signal handler.  Cost: reads all memory of
 * the cache, a slab at a time under a lock.
 * From: validate_slab_cache(), /sys/kernel/slab/NAME/validate.
 */
SLUB_API long slub_cache_validate(struct slub_cache *cache);

/*
 * slub_validate_all - look at every watched object of all caches now.
 *
 * Returns how many bugs were found, 0 also if no cache is watched.  Errors:
 * -EDEADLK as slub_cache_validate().
 * Context and cost: as slub_cache_validate(), for each cache that is watched.
 */
SLUB_API long slub_validate_all(void);

/*
 * slub_cache_errors - how many lines the reports about @cache had so far.
 *
 * Returns the number of lines "BUG" and "FIX", counted also where nobody reads
 * them.  Errors: none; 0 if that is no cache.  Context: anywhere.
 * From: slub_kunit's slab_errors.
 */
SLUB_API unsigned long slub_cache_errors(struct slub_cache *cache);

/* Objects that were allocated, or freed, by the same callers. */
struct slub_trace {
	const struct slub_cache *cache;
	size_t count;			/* objects */
	size_t bytes;			/* that were asked for */
	size_t waste;			/* that rounding up added */
	uint64_t age_min_ns;
	uint64_t age_max_ns;
	uint64_t age_sum_ns;		/* divide by count */
	uint32_t thread_min;		/* thread IDs */
	uint32_t thread_max;
	uint64_t cpus[4];		/* a bit for each of the first 256 */
	const uintptr_t *frames;	/* return addresses, the innermost first */
	uint32_t nr_frames;
	uint32_t reserved[5];		/* 0 */
};

/*
 * slub_cache_alloc_traces, slub_cache_free_traces - visit the call stacks of objects in use.
 *
 * Calls @visit for each call stack that allocated objects that are still in use,
 * most objects first, until it returns non-zero; with free_traces, for each call
 * stack that freed the objects that lay in their places before.  An object that was freed
 * deferred (slub/rcu.h) is in use no more, whoever reads it still.  The trace is valid during
 * the call.  @cache NULL: of all caches, each with its own traces.
 * Returns what @visit returned, or 0; -EINVAL if the cache is not watched with
 * letter U; -ENOMEM; -EDEADLK in a signal handler that interrupted the allocator.
 * Context: any thread, not from a signal handler; @visit is called without locks.
 * From: /sys/kernel/debug/slab/NAME/alloc_traces, free_traces.
 */
SLUB_API int
slub_cache_alloc_traces(struct slub_cache *cache,
			int (*visit)(const struct slub_trace *, void *arg),
			void *arg);
SLUB_API int
slub_cache_free_traces(struct slub_cache *cache,
		       int (*visit)(const struct slub_trace *, void *arg),
		       void *arg);

/*
 * slub_leaks_write - write the traces of all that is allocated as text.
 *
 * @path: "stderr" or a file that is appended to; %p is the PID.  With
 * SLUB_DEBUG_LEAKS=PATH in the environment this happens at exit.
 * Returns the number of traces, or -ENOMEM; 0 when no cache is watched with U.
 * -ENAMETOOLONG: a name with %p in it is of more than 511 bytes.
 * Context: any thread, not from a signal handler; writes the file.
 */
SLUB_API long slub_leaks_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
