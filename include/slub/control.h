/* SPDX-License-Identifier: MIT */
/*
 * Control while the program runs: options and values by their names.
 *
 * An option is what SLUB_NAME=VALUE sets at the start (libslub(7), `slub options`); here
 * its name is without SLUB_, in letters of either case, and its value is the same text.
 * Some may be changed later:
 *
 *   retain         free memory that stays resident, from then on as if it had been given
 *   limit          most memory in use; what is in use beyond a lower one stays
 *   reclaim_rate   how often a second shrinkers are asked
 *   verbose        messages
 *   on_error, debug_fail
 *                  what follows upon misuse, and which allocations letter A fails
 *   attach         whether other processes are answered
 *
 * A mode counts at the start, for the sizes of slabs follow from it; of what else it
 * stands for, retain may change.
 *
 * `slub set PID NAME VALUE` does the same from outside, and `slub shrink PID --node N` what
 * slub_node_shrink() does, but for free pages on slabs in use.  Letters (slub_debug()), the
 * profile (slub_profile_start()) and the pressure thread (slub_pressure_start_thread()) have
 * functions of their own.
 */
#ifndef SLUB_INCLUDE_CONTROL_H
#define SLUB_INCLUDE_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include <slub/compiler.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * slub_option_get - what an option is, as text.
 *
 * @value: room for @size bytes, which gets the value with a NUL behind it: a number
 * without a suffix, "auto", one of the option's words, or a text, empty if none was
 * given.
 * Returns 0; -ENOENT: there is no such option; -ERANGE: @size is too small, and
 * *@value unchanged; -EINVAL: @name or @value is NULL; -ENOMEM: the library could not
 * start.
 * Context: any thread.  Cost: a search through about forty names.
 */
SLUB_API int slub_option_get(const char *name, char *value, size_t size);

/*
 * slub_option_set - change an option that may change while the program runs.
 *
 * @value: as in the environment, such as "64M".
 * Returns 0, or with nothing changed -ENOENT: there is no such option; -EPERM: it counts
 * at the start only; -EINVAL: it cannot have that value, or @name or @value is NULL;
 * -EBUSY: another thread sets an option just now; -EDEADLK: called by a signal handler
 * that interrupted the allocator; -ENOMEM: the library could not start.
 * Context: any thread.  Cost: a search; with a lower retain or limit, also giving
 * free memory back.
 */
SLUB_API int slub_option_set(const char *name, const char *value);

/* What a value is. */
enum slub_value_kind {
	SLUB_VALUE_BYTES,	/* a number of bytes */
	SLUB_VALUE_NUMBER,	/* another number, at the moment */
	SLUB_VALUE_COUNTER,	/* since the start; a word of 32 bits that begins anew */
};

struct slub_value {
	uint64_t number;
	uint32_t kind;		/* enum slub_value_kind */
	uint32_t reserved;	/* 0 */
};

/*
 * slub_value_read - a number of the heap or of a cache, by its name.
 *
 * @name: as `slub stats --json` calls it.  Of the heap:
 *
 *   heap.committed_bytes, heap.slab_bytes, heap.active_bytes, heap.large_bytes,
 *   heap.large_blocks, heap.idle_bytes, heap.refused_bytes, heap.moved_runs,
 *   heap.deferred_bytes, heap.deferred_objects, objects.used, objects.used_bytes,
 *   objects.cached, objects.cached_bytes, objects.free, objects.free_bytes
 *
 * and of the cache NAME "caches.NAME." and one of
 *
 *   slab_size, object_size, align, objs_per_slab, order, sheaf_capacity,
 *   sheaf_capacity_now, objects_in_barns, min_partial, carve_batch, flags, debug,
 *   usersize, useroffset, node_slabs, node_partial, node_objects, node_carved,
 *   node_slabs_peak
 *
 *   slabs, partial, empty, cpu_slabs, total_objects, objects, objects_cached,
 *   objects_carved, objects_partial, aliases, bytes, slack_bytes
 *
 * or of the counters
 *
 *   alloc_slowpath, free_slowpath, free_rcu_sheaf, free_rcu_sheaf_fail,
 *   free_add_partial, free_remove_partial, alloc_slab, free_slab, alloc_node_mismatch,
 *   cmpxchg_double_fail, sheaf_alloc, sheaf_free, sheaf_refill, sheaf_flush, barn_get,
 *   barn_get_fail, barn_put, barn_put_fail, sheaf_prefill_fast, sheaf_prefill_slow,
 *   sheaf_prefill_oversize, sheaf_return_fast, sheaf_return_slow, alloc_from_spare,
 *   alloc_refill, alloc_refill_fail, alloc_direct, free_to_spare, free_flush,
 *   free_direct, lists_emptied, objects_out, objects_back, objects_moved,
 *   objects_stayed, wrong_cache, double_free, wrong_size
 *
 * slub-stats(1) says what they mean.  Numbers that are always 0 are left out.
 * Into *@value.  Nothing is locked and nothing allocated: on a heap that changes the
 * numbers are estimates, as those of mallinfo2().
 * Returns 0; -ENOENT: there is no such value, or no such cache; -EINVAL: @name or
 * @value is NULL; -EDEADLK: called by a signal handler that interrupted the allocator;
 * -ENOMEM: the library could not start.
 * Context: any thread.  Cost: for those of the heap, and of the second list, a walk over
 * the heap, about a millisecond per GiB; else a look at each CPU's counters.
 */
SLUB_API int slub_value_read(const char *name, struct slub_value *value);

/*
 * slub_value_for_each - all values there are, with their names.
 *
 * Calls @visit for each value of the heap and of each cache, until it returns
 * non-zero.  The name is valid during the call.
 * Returns what @visit returned last, or 0; -EINVAL: @visit is NULL; -EDEADLK and -ENOMEM
 * as slub_value_read(), the latter also if a table of the caches cannot be mapped.
 * Context: any thread; @visit is called without locks and may allocate.  Cost: a walk over
 * the heap, whose values come first; then another, and about eighty calls for each cache.
 */
SLUB_API int
slub_value_for_each(int (*visit)(const char *name, const struct slub_value *value,
				 void *arg),
		    void *arg);

/*
 * slub_stats_json - all of the above, and more, as the JSON object of `slub stats --json`.
 *
 * @text: room for @size bytes, which gets the object with a NUL behind it, cut short where
 * there is less room; NULL and 0: only to ask.  A constructor has no name in it
 * ("ctor_name" is null), since nothing here looks into files.
 * Returns how many bytes the whole object has, without the NUL; the heap may have changed
 * by the next call, so ask with a little more room.  -EINVAL: @text is NULL and @size is not 0;
 * -EDEADLK and -ENOMEM as slub_value_for_each().
 * Context: any thread.  Nothing is allocated but a mapping for the time of the call.  Cost:
 * two walks over the heap, and about 4 KiB of text for each cache.
 */
SLUB_API long slub_stats_json(char *text, size_t size);

/*
 * slub_node_shrink - give back what lies free in the memory of a NUMA node.
 *
 * @node: from 0 on, or SLUB_NODE_ANY (slub/cache.h) for all.  Empties the lists of all CPUs,
 * for a list knows no node; then the free pages of @node go back to the system, also those
 * on slabs in use whose objects are all free.  Those of other nodes stay as they are.  So do
 * free pages that the library has bound to no node, for a process with a memory policy of
 * its own: SLUB_NODE_ANY has them too.
 * Returns how many bytes went back, as an estimate where other threads allocate meanwhile;
 * -EINVAL: there is no such node; -EDEADLK: called by a signal handler that interrupted the
 * allocator; -ENOMEM: the library could not start.
 * Context: any thread.  Cost: stops each CPU for a moment, a look at each slab with free
 * objects, and a system call for each piece that goes back.
 */
SLUB_API long slub_node_shrink(int node);

#ifdef __cplusplus
}
#endif

#endif
