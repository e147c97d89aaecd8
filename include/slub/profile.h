/* SPDX-License-Identifier: MIT */
/*
 * The heap profile: which call stacks have allocated how much, and how much of
 * it is in use, from a sample of the allocations.
 *
 * Each byte that malloc() and its relatives hand out is a sample point with
 * the same probability, one in 512 KiB by default; an allocation with a point
 * in it is sampled, with its call stack, until it is freed.  The numbers are
 * scaled to all allocations, without bias.  docs/operate/profile.md tells how
 * it works, how exact it is, and how the file looks; slub-profile(1) turns the
 * file into pprof's format.
 *
 * The same without a change to the program: SLUB_PROFILE_FILE=heap.%p
 */
#ifndef SLUB_INCLUDE_PROFILE_H
#define SLUB_INCLUDE_PROFILE_H

#include <stddef.h>

#include <slub/compiler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The mean distance of sample points in bytes: the usual one, the largest. */
#define SLUB_PROFILE_BYTES_DEFAULT (SLUB_SIZE(512) << 10)
#define SLUB_PROFILE_BYTES_MAX (SLUB_SIZE(1) << 36)

/*
 * slub_profile_start - sample allocations from now on.
 *
 * @bytes: the mean distance of sample points, 1 to SLUB_PROFILE_BYTES_MAX; 0:
 * as SLUB_PROFILE says, else 512 KiB.  1 samples nearly everything.
 * The profile begins empty; what was allocated before is not in it.  A profile
 * that is on already is begun anew.
 * Returns 0; -EINVAL: @bytes is too large; -ENOMEM: no memory for the profile,
 * or the library could not start; -ENOSPC: no per-CPU slots are left; -EBUSY:
 * another thread starts or stops just now; -EDEADLK: called by a signal handler
 * that interrupted the allocator.
 * Context: any thread.  Cost: some microseconds; afterwards see docs/operate/profile.md.
 * From: MallocExtension::StartAllocationProfiling(), Go's runtime.MemProfileRate.
 */
SLUB_API int slub_profile_start(size_t bytes);

/*
 * slub_profile_stop - sample no more.
 *
 * The profile stays, and what it knows of is still watched being freed, until
 * the next start.  Returns 0, also when it was not on; -EBUSY, -EDEADLK as above.
 * Context: any thread.  Cost: empties the lists of all CPUs, as malloc_trim() does.
 */
SLUB_API int slub_profile_stop(void);

/*
 * slub_profile_write - write the profile as it is now.
 *
 * @path: a file that is made or overwritten; %p is the process's number.
 * Returns 0; -EINVAL: @path is NULL, or there was never a profile; -ENOMEM;
 * -EDEADLK as above; -ENAMETOOLONG: a name with %p in it is of more than 511 bytes;
 * or what the system says of the file (-ENOENT, -EACCES, -ENOSPC and so on).
 * Context: any thread; reads /proc/self/maps.  The program goes on meanwhile.
 */
SLUB_API int slub_profile_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
