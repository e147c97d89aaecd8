/* SPDX-License-Identifier: MIT */
/* The kernel's names of whole pages, vmalloc and kmemleak; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_PAGE_H
#define SLUB_INCLUDE_KERNEL_PAGE_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* Those of the library; the system's may be larger. */
#ifndef PAGE_SHIFT
#define PAGE_SHIFT 12
#endif
#ifndef PAGE_SIZE
#define PAGE_SIZE (1ul << PAGE_SHIFT)
#endif

/* 2^@order pages, aligned to as much.  0: no memory. */
static inline unsigned long __get_free_pages(gfp_t gfp, unsigned int order)
{
	size_t bytes = (size_t)PAGE_SIZE << order;
	void *p;

	do {
		p = slub_aligned_alloc(bytes, bytes);
	} while (slub_kernel_again(p, gfp));
	if (p && gfp & __GFP_ZERO)
		memset(p, 0, bytes);
	return (unsigned long)(uintptr_t)p;
}

static inline void free_pages(unsigned long address, unsigned int order)
{
	(void)order;
	slub_free((void *)(uintptr_t)address);
}

#define __get_free_page(gfp) __get_free_pages(gfp, 0)
#define get_zeroed_page(gfp) __get_free_pages((gfp) | __GFP_ZERO, 0)
#define free_page(address) free_pages(address, 0)

/* There is one kind of address; but these begin at a page. */
static inline void *slub_kernel_vmalloc(size_t bytes, gfp_t gfp)
{
	size_t room = size_add(bytes, PAGE_SIZE - 1) & ~((size_t)PAGE_SIZE - 1);
	void *p = bytes ? slub_aligned_alloc(PAGE_SIZE, room) : NULL;

	if (p && gfp & __GFP_ZERO)
		memset(p, 0, room);
	return p;
}

static inline void *vmalloc(unsigned long bytes)
{
	return slub_kernel_vmalloc(bytes, GFP_KERNEL);
}

static inline void *vzalloc(unsigned long bytes)
{
	return slub_kernel_vmalloc(bytes, GFP_KERNEL | __GFP_ZERO);
}

static inline void vfree(const void *p)
{
	slub_free((void *)(uintptr_t)p);
}

/*
 * What is told to kmemleak.  `slub leaks` needs none of it, and finds what
 * kmemleak_not_leak() means to hide.
 */
#define kmemleak_update_trace(p) ((void)(p))
#define kmemleak_not_leak(p) ((void)(p))
#define kmemleak_ignore(p) ((void)(p))
#define kmemleak_erase(p) ((void)(p))

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
