/* SPDX-License-Identifier: MIT */
/* The kernel's gfp flags; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_GFP_H
#define SLUB_INCLUDE_KERNEL_GFP_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

typedef unsigned int gfp_t;

/* Those with a meaning have the library's values: translating is masking. */
#define __GFP_ZERO		((gfp_t)SLUB_ALLOC_ZERO)
#define __GFP_MEMALLOC		((gfp_t)SLUB_ALLOC_RESERVE)
#define __GFP_NOMEMALLOC	((gfp_t)SLUB_ALLOC_NO_RESERVE)
#define __GFP_DIRECT_RECLAIM	((gfp_t)SLUB_POOL_WAIT)
#define __GFP_NOFAIL		((gfp_t)1 << 0)
#define __GFP_KSWAPD_RECLAIM	((gfp_t)1 << 1)
#define __GFP_HIGH		((gfp_t)1 << 2)
#define __GFP_IO		((gfp_t)1 << 3)
#define __GFP_FS		((gfp_t)1 << 4)
#define __GFP_NOWARN		((gfp_t)1 << 5)
#define __GFP_NORETRY		((gfp_t)1 << 6)
#define __GFP_RETRY_MAYFAIL	((gfp_t)1 << 7)
#define __GFP_ACCOUNT		((gfp_t)1 << 8)
#define __GFP_THISNODE		((gfp_t)1 << 9)
#define __GFP_HARDWALL		((gfp_t)1 << 10)
#define __GFP_RECLAIMABLE	((gfp_t)1 << 11)
#define __GFP_COMP		((gfp_t)1 << 12)
#define __GFP_HIGHMEM		((gfp_t)1 << 13)
#define __GFP_MOVABLE		((gfp_t)1 << 14)
#define __GFP_DMA		((gfp_t)1 << 15)
#define __GFP_DMA32		((gfp_t)1 << 20)
#define __GFP_RECLAIM		(__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define GFP_ATOMIC		(__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_NOWAIT		(__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)
#define GFP_KERNEL		(__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_KERNEL_ACCOUNT	(GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_NOIO		__GFP_RECLAIM
#define GFP_NOFS		(__GFP_RECLAIM | __GFP_IO)
#define GFP_USER		(GFP_KERNEL | __GFP_HARDWALL)
#define GFP_HIGHUSER		(GFP_USER | __GFP_HIGHMEM)
#define GFP_DMA			__GFP_DMA
#define GFP_DMA32		__GFP_DMA32

#define SLUB_KERNEL_ALLOC_FLAGS \
	(__GFP_ZERO | __GFP_MEMALLOC | __GFP_NOMEMALLOC)

/* Flags of slub_mempool_alloc(). */
static inline unsigned int slub_kernel_pool_flags(gfp_t gfp)
{
	unsigned int flags = gfp & __GFP_DIRECT_RECLAIM;

	if (gfp & __GFP_MEMALLOC)
		flags |= (unsigned int)SLUB_POOL_RESERVE;
	if (gfp & __GFP_NOMEMALLOC)
		flags |= (unsigned int)SLUB_POOL_NO_RESERVE;
	return flags;
}

static inline bool gfpflags_allow_blocking(gfp_t gfp)
{
	return !!(gfp & __GFP_DIRECT_RECLAIM);
}

/* Is @p a failure that __GFP_NOFAIL forbids?  Gives others time to free. */
static inline bool slub_kernel_again(const void *p, gfp_t gfp)
{
	return __builtin_expect(!p, 0) && gfp & __GFP_NOFAIL &&
	       sched_yield() == 0;
}

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
