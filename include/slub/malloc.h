/* SPDX-License-Identifier: MIT */
/*
 * malloc under names of the library's own.
 *
 * A program that is linked with libslub, or runs with it preloaded, has it as its malloc()
 * and needs none of these.  They are for one that has another malloc, and wants some of its
 * memory from here: it defines a malloc() of its own, or it loaded libslub.so by
 * dlopen(RTLD_LOCAL) and found the functions by dlsym().
 *
 * What slub_malloc() and its relatives return is freed by slub_free(), and a block of another
 * malloc is never given to these: realloc() and free() of that other one do not know it.
 * Where libslub is the malloc the two families are one.
 *
 * The compiler knows nothing of these.  Of malloc() it takes for granted that no variable
 * of the program changes in it, and that is not so where a shrinker or a group's handler
 * runs (SHARED DATA in slub/shrinker.h).
 */
#ifndef SLUB_INCLUDE_MALLOC_H
#define SLUB_INCLUDE_MALLOC_H

#include <stddef.h>

#include <slub/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * slub_malloc, slub_calloc - a block of @bytes, or of @nr times @bytes that are zero.
 *
 * Returns a block, aligned to 16 bytes (one of less than 16 bytes to 8), which the caller
 * owns until slub_free(); of 0 bytes one of its own too.  NULL with errno set:
 *   ENOMEM  no memory; the product is too large; a limit of a group is in the way.
 * Context: any thread, signal handlers included.  Cost: as malloc(), and a jump.
 */
SLUB_API void *slub_malloc(size_t bytes);
SLUB_API void *slub_calloc(size_t nr, size_t bytes);

/*
 * slub_realloc - the block at @block with room for @bytes, where it is or elsewhere.
 *
 * @block: from slub_malloc() and its relatives, or NULL for a new one.
 * Returns the block, which replaces @block, with the contents up to the smaller size; NULL for 0
 * @bytes, when @block was freed.  NULL with errno set and @block as it was:
 *   ENOMEM  no memory, or @block is not a block of this library's that is allocated.
 * Context and cost: as realloc().
 */
SLUB_API void *slub_realloc(void *block, size_t bytes);

/*
 * slub_aligned_alloc - a block of @bytes at a multiple of @align, a power of two.
 *
 * Returns a block as slub_malloc().  NULL with errno set:
 *   EINVAL  @align is not a power of two;
 *   ENOMEM  no memory.
 * Context and cost: as aligned_alloc().
 */
SLUB_API void *slub_aligned_alloc(size_t align, size_t bytes);

/*
 * slub_usable_size - how many bytes of @block its owner may use.
 *
 * Returns bytes, at least as many as were asked for; 0 for NULL.  A pointer to no block is
 * misuse: it ends the process, or 0 is returned (SLUB_ON_ERROR).  Errors: none.  Context: any
 * thread.  Cost: a few loads.
 */
SLUB_API size_t slub_usable_size(const void *block);

/*
 * slub_good_size - the largest size that costs no more than one of @bytes.
 *
 * A program that can use more, such as a vector that grows, asks for this much instead.
 * Returns bytes, at least @bytes: what slub_usable_size() says of a block for @bytes, but in
 * the hardened build, where a block has what was asked for.  0: no block can be so large.
 * Errors: none but that.  Context: any thread.  Cost: some shifts.
 * From: kmalloc_size_roundup(); jemalloc's nallocx().
 */
SLUB_API size_t slub_good_size(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
