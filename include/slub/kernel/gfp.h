/* SPDX-License-Identifier: MIT */
/* The kernel's gfp flags; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_GFP_H
#define SLUB_INCLUDE_KERNEL_GFP_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef unsigned int gfp_t;

/* Those with a meaning have the library's values: translating is masking. */
#define __GFP_ZERO		((gfp_t)SLUB_ZERO)
#define __GFP_MEMALLOC		((gfp_t)SLUB_RESERVE)
#define __GFP_NOMEMALLOC	((gfp_t)SLUB_NO_RESERVE)
#define __GFP_DIRECT_RECLAIM	((gfp_t)SLUB_POOL_WAIT)
#define __GFP_NOFAIL		((gfp_t)1 << 16)
#define __GFP_KSWAPD_RECLAIM	((gfp_t)1 << 17)
#define __GFP_HIGH		((gfp_t)1 << 18)
#define __GFP_IO		((gfp_t)1 << 19)
#define __GFP_FS		((gfp_t)1 << 20)
#define __GFP_NOWARN		((gfp_t)1 << 21)
#define __GFP_NORETRY		((gfp_t)1 << 22)
#define __GFP_RETRY_MAYFAIL	((gfp_t)1 << 23)
#define __GFP_ACCOUNT		((gfp_t)1 << 24)
#define __GFP_THISNODE		((gfp_t)1 << 25)
#define __GFP_HARDWALL		((gfp_t)1 << 26)
#define __GFP_RECLAIMABLE	((gfp_t)1 << 27)
#define __GFP_COMP		((gfp_t)1 << 28)
#define __GFP_RECLAIM		(__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define GFP_ATOMIC		(__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_NOWAIT		(__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)
#define GFP_KERNEL		(__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_KERNEL_ACCOUNT	(GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_NOIO		__GFP_RECLAIM
#define GFP_NOFS		(__GFP_RECLAIM | __GFP_IO)
#define GFP_USER		(GFP_KERNEL | __GFP_HARDWALL)

#define SLUB_KERNEL_ALLOC_FLAGS \
	(__GFP_ZERO | __GFP_MEMALLOC | __GFP_NOMEMALLOC)
#define SLUB_KERNEL_POOL_FLAGS \
	(__GFP_MEMALLOC | __GFP_NOMEMALLOC | __GFP_DIRECT_RECLAIM)

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
#endif

#endif
