/* SPDX-License-Identifier: MIT */
/*
 * Flags: what a cache is to be like, and how one allocation is to be made.
 *
 * Each kind has bits and names of its own: SLUB_CACHE_*, SLUB_ALLOC_*, SLUB_POOL_*.  Flags of
 * one kind do not compile where those of another are wanted: in C if they are constants, in
 * C++ if they have their type.  Else they are answered with EINVAL.
 */
#ifndef SLUB_INCLUDE_FLAGS_H
#define SLUB_INCLUDE_FLAGS_H

/* What a cache is to be like: the flags of slub_cache_create(). */
enum slub_cache_flag {
	/* Align objects to 64 bytes, or to a fraction that a small one fills. */
	SLUB_CACHE_HWCACHE_ALIGN = 1 << 0,
	/* Write why and abort() when the cache cannot be made. */
	SLUB_CACHE_PANIC = 1 << 1,
	/*
	 * Memory of a freed object stays an object of this cache, free or
	 * allocated again, until every reader inside slub_read_lock() has left.
	 */
	SLUB_CACHE_TYPESAFE_BY_RCU = 1 << 2,
	/* Objects are charged to groups (group.h). */
	SLUB_CACHE_ACCOUNT = 1 << 3,
	/* Objects that a shrinker can give back; shown as reclaimable. */
	SLUB_CACHE_RECLAIM_ACCOUNT = 1 << 4,
	/* Never share slabs with another cache (SLUB_MERGE). */
	SLUB_CACHE_NO_MERGE = 1 << 5,
	/* Debugging, by the kernel's letters: see slub-debug(7). */
	SLUB_CACHE_CONSISTENCY_CHECKS = 1 << 8,	/* F */
	SLUB_CACHE_RED_ZONE = 1 << 9,			/* Z */
	SLUB_CACHE_POISON = 1 << 10,			/* P */
	SLUB_CACHE_STORE_USER = 1 << 11,		/* U */
	SLUB_CACHE_TRACE = 1 << 12,			/* T */
	SLUB_CACHE_FAILSLAB = 1 << 13,		/* A */
};

/* How one allocation is to be made. */
enum slub_alloc_flag {
	SLUB_ALLOC_ZERO = 1 << 16,	/* all bytes zero; not with a constructor */
	SLUB_ALLOC_RESERVE = 1 << 17,	/* may use the reserve, see reserve.h */
	SLUB_ALLOC_NO_RESERVE = 1 << 18, /* not even if the thread has the right */
};

/* How an element of a pool is to be had: slub_mempool_alloc(). */
enum slub_pool_flag {
	SLUB_POOL_WAIT = 1 << 24,	/* wait for an element; cannot fail */
	SLUB_POOL_RESERVE = 1 << 25,	/* as SLUB_ALLOC_RESERVE */
	SLUB_POOL_NO_RESERVE = 1 << 26,	/* as SLUB_ALLOC_NO_RESERVE */
};

#if defined(__cplusplus)
#include <slub/cpp/flags.hpp>
#elif !defined(SLUB_LIBRARY)
/* Defined where constants are checked: in C, outside the library. */
#define SLUB_CHECK_FLAGS 1
#endif

/*
 * SLUB_CACHE_FLAGS, SLUB_ALLOC_FLAGS, SLUB_POOL_FLAGS - flags, if they are of this kind.
 *
 * For the calls that take flags.  A constant with a bit of another kind does not compile:
 * a structure that gets a member of less than no bits says which kind is wanted.
 * Context: anywhere.
 */
#define SLUB_CACHE_FLAGS(flags)						\
	(SLUB_REFUSE_BITS(flags, 0x3f3f, wants_SLUB_CACHE), (flags))
#define SLUB_ALLOC_FLAGS(flags)						\
	(SLUB_REFUSE_BITS(flags, 7 << 16, wants_SLUB_ALLOC), (flags))
#define SLUB_POOL_FLAGS(flags)						\
	(SLUB_REFUSE_BITS(flags, 7 << 24, wants_SLUB_POOL), (flags))

/*
 * SLUB_REFUSE_BITS - no code; does not compile if @flags is a constant with other bits
 * than those of @all.  For the three above.
 *
 * Context: anywhere.
 */
#define SLUB_REFUSE_BITS(flags, all, name)				\
	((void)sizeof(struct {						\
		int name : (SLUB_CONSTANT_OR_0(flags) & ~(all)) ? -1 : 1; }))

/*
 * SLUB_CONSTANT_OR_0 - @x if it is an integer constant expression, else 0.
 *
 * The type of a conditional with a null pointer is that of its other operand; a pointer is
 * one if it is the constant 0.
 * Context: anywhere.
 */
#define SLUB_CONSTANT_OR_0(x)						\
	(__builtin_choose_expr(__extension__(sizeof(int) ==		\
		sizeof(*(8 ? ((void *)((long)(x) * 0l)) : (int *)8))), (x), 0))

#endif
