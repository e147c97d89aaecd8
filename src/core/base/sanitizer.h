/* SPDX-License-Identifier: MIT */
/*
 * The runtime of a sanitizer (ASan, TSan, MSan, LSan) in a process with this library, which was
 * built without it.
 *
 * Such a program keeps its own malloc(), the runtime's: what reaches malloc() here goes on to it
 * (features/outside/foreign.h).  What this library hands out by its own names stays here: the
 * addresses are some that the runtime knows (core/os/place.c), each object goes the slow path, as a
 * watched one does (features/watch), and the runtime is told of it:
 *
 *   ASan   a free object is poisoned, so a use after free is reported; and what a block has behind
 *          the size that was asked for, until the program asks for its usable size
 *   MSan   a new object is not initialised; what the library writes for the program is
 *   TSan   a free is a write, and comes before the next allocation of the same memory
 *   LSan   what an object points to is no leak
 *
 * A runtime is found by weak references at the start.  It is told nothing before the
 * constructor, which starts it: until then its shadow may not be there.
 */
#ifndef SLUB_BASE_SANITIZER_H
#define SLUB_BASE_SANITIZER_H

#include "core/base/compiler.h"

/* A build with a sanitizer has its checks compiled in, and its fast paths are to be tested. */
#if defined(__SANITIZE_ADDRESS__) || SLUB_CONFIG_PLAIN_C
#define SLUB_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SLUB_INSTRUMENTED 1
#endif
#endif
#ifndef SLUB_INSTRUMENTED
#define SLUB_INSTRUMENTED 0
#endif

/* Const after start, but for is_told. */
struct sanitizer {
	bool is_there;		/* so objects go the slow path */
	bool owns_malloc;	/* the process has the runtime's malloc, and it can be called */
	bool is_told;		/* the runtime has started */
};

extern struct sanitizer sanitizer SLUB_INTERNAL;

/* What becomes of pages. */
enum sanitizer_slab {
	SANITIZER_SLAB_BEGINS,	/* a constructor may write there */
	SANITIZER_SLAB_READY,	/* of free objects */
	SANITIZER_SLAB_ENDS,
};

/* At the start. */
void sanitizer_find(void);
/* By the constructor: starts the runtime, unless it has; pointers lie in @heap. */
void sanitizer_begin(const void *heap, size_t bytes);

/* Calls below do nothing where there is no runtime. */
cold void sanitizer_tell_out(void *object, size_t bytes, bool is_kept);
cold void sanitizer_tell_back(void *object, size_t bytes, bool is_kept,
			      bool is_readable);
cold void sanitizer_tell_slab(void *slab, size_t bytes, enum sanitizer_slab now);
cold void sanitizer_tell_block(void *block, size_t bytes, bool is_out);
cold void sanitizer_tell_use(void *block, size_t bytes, size_t have);
cold void sanitizer_tell_written(const void *start, size_t bytes);
cold void sanitizer_tell_order(const void *key, bool is_release);

/*
 * @object leaves its list for the program, which may use @bytes.  @is_kept: what is in it stays, a
 * constructor's work or what readers look at.
 */
static inline void sanitizer_out(void *object, size_t bytes, bool is_kept)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_out(object, bytes, is_kept);
}

/* ... and comes back; @is_readable: readers may look at it still. */
static inline void sanitizer_back(void *object, size_t bytes, bool is_kept,
				  bool is_readable)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_back(object, bytes, is_kept, is_readable);
}

/* Of a watched slab all three; of another that it begins. */
static inline void sanitizer_slab(void *slab, size_t bytes, enum sanitizer_slab now)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_slab(slab, bytes, now);
}

/* A large block is handed out, all of it, or comes back. */
static inline void sanitizer_block(void *block, size_t bytes, bool is_out)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_block(block, bytes, is_out);
}

/* The program may use @bytes of the @have that its block has. */
static inline void sanitizer_use(void *block, size_t bytes, size_t have)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_use(block, bytes, have);
}

/* The library has written there for the program. */
static inline void sanitizer_written(const void *start, size_t bytes)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_written(start, bytes);
}

/* What is done before a release of @key comes before what follows an acquire. */
static inline void sanitizer_release(const void *key)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_order(key, true);
}

static inline void sanitizer_acquire(const void *key)
{
	if (unlikely(sanitizer.is_told))
		sanitizer_tell_order(key, false);
}

/* The runtime's malloc and its relatives; only where owns_malloc is set. */
cold void *sanitizer_malloc(size_t bytes);
cold void *sanitizer_calloc(size_t nr, size_t bytes);
cold void *sanitizer_realloc(void *ptr, size_t bytes);
cold void *sanitizer_memalign(size_t align, size_t bytes);
cold void sanitizer_free(void *ptr);
cold size_t sanitizer_usable_size(void *ptr);

#endif
