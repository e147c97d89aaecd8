/* SPDX-License-Identifier: MIT */
/* The kernel's names of caches, kmalloc and private buckets; part of slub/kernel.h. */
#ifndef SLUB_INCLUDE_KERNEL_SLAB_H
#define SLUB_INCLUDE_KERNEL_SLAB_H

#ifndef SLUB_INCLUDE_KERNEL_H
#error "include <slub/kernel.h>"
#endif

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* ---- caches ---- */

#define kmem_cache slub_cache

typedef unsigned int slab_flags_t;

#define SLAB_HWCACHE_ALIGN	((slab_flags_t)SLUB_CACHE_HWCACHE_ALIGN)
#define SLAB_PANIC		((slab_flags_t)SLUB_CACHE_PANIC)
#define SLAB_TYPESAFE_BY_RCU	((slab_flags_t)SLUB_CACHE_TYPESAFE_BY_RCU)
#define SLAB_ACCOUNT		((slab_flags_t)SLUB_CACHE_ACCOUNT)
#define SLAB_RECLAIM_ACCOUNT	((slab_flags_t)SLUB_CACHE_RECLAIM_ACCOUNT)
#define SLAB_TEMPORARY		SLAB_RECLAIM_ACCOUNT
#define SLAB_NO_MERGE		((slab_flags_t)SLUB_CACHE_NO_MERGE)
#define SLAB_CONSISTENCY_CHECKS	((slab_flags_t)SLUB_CACHE_CONSISTENCY_CHECKS)
#define SLAB_RED_ZONE		((slab_flags_t)SLUB_CACHE_RED_ZONE)
#define SLAB_POISON		((slab_flags_t)SLUB_CACHE_POISON)
#define SLAB_STORE_USER		((slab_flags_t)SLUB_CACHE_STORE_USER)
#define SLAB_TRACE		((slab_flags_t)SLUB_CACHE_TRACE)
#define SLAB_FAILSLAB		((slab_flags_t)SLUB_CACHE_FAILSLAB)
/* What has no meaning here. */
#define SLAB_CACHE_DMA		((slab_flags_t)0)
#define SLAB_CACHE_DMA32	((slab_flags_t)0)
#define SLAB_DEBUG_OBJECTS	((slab_flags_t)0)
#define SLAB_NOLEAKTRACE	((slab_flags_t)0)
#define SLAB_KASAN		((slab_flags_t)0)
#define SLAB_MEM_SPREAD		((slab_flags_t)0)
#define SLAB_NO_USER_FLAGS	((slab_flags_t)0)

#define ARCH_KMALLOC_MINALIGN	16
#define KMALLOC_MAX_SIZE	((size_t)PTRDIFF_MAX)
#define KMALLOC_MAX_CACHE_SIZE	((size_t)32 << 10)
#define ZERO_OR_NULL_PTR(p)	(!(p))
#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE		SLUB_NODE_ANY
#endif

struct kmem_cache_args {
	unsigned int align;
	unsigned int useroffset;
	unsigned int usersize;
	unsigned int freeptr_offset;
	bool use_freeptr_offset;
	void (*ctor)(void *object);
	unsigned int sheaf_capacity;
};

static inline struct kmem_cache *
slub_kernel_cache_create_args(const char *name, unsigned int size,
			      struct kmem_cache_args *a, slab_flags_t flags)
{
	struct slub_cache_args args;

	memset(&args, 0, sizeof(args));
	args.name = name;
	args.size = size;
	args.flags = flags;
	if (a) {
		args.align = a->align;
		args.ctor = a->ctor;
		args.useroffset = a->useroffset;
		args.usersize = a->usersize;
		args.free_pointer_offset = a->freeptr_offset;
		args.has_free_pointer_offset = a->use_freeptr_offset;
		args.sheaf_length = a->sheaf_capacity;
	}
	return slub_cache_create_args(&args);
}

static inline struct kmem_cache *
slub_kernel_cache_create(const char *name, unsigned int size,
			 unsigned int align, slab_flags_t flags,
			 void (*ctor)(void *))
{
	return slub_cache_create(name, size, align, flags, ctor);
}

static inline struct kmem_cache *
slub_kernel_cache_create_default(const char *name, unsigned int size,
				 void *none, slab_flags_t flags)
{
	(void)none;
	return slub_cache_create(name, size, 0, flags, NULL);
}

/* Five arguments with an alignment, or four with a struct kmem_cache_args. */
#ifdef __cplusplus
#define kmem_cache_create slub_kernel_cache_create
#else
#define kmem_cache_create(name, size, args, ...)			\
	_Generic((args),						\
		struct kmem_cache_args *: slub_kernel_cache_create_args, \
		void *: slub_kernel_cache_create_default,		\
		default: slub_kernel_cache_create)			\
		(name, size, args, __VA_ARGS__)
#endif

static inline struct kmem_cache *
kmem_cache_create_usercopy(const char *name, unsigned int size,
			   unsigned int align, slab_flags_t flags,
			   unsigned int useroffset, unsigned int usersize,
			   void (*ctor)(void *))
{
	struct kmem_cache_args args;

	memset(&args, 0, sizeof(args));
	args.align = align;
	args.useroffset = useroffset;
	args.usersize = usersize;
	args.ctor = ctor;
	return slub_kernel_cache_create_args(name, size, &args, flags);
}

#define KMEM_CACHE(type, flags)						\
	slub_kernel_cache_create(#type, sizeof(struct type),		\
				 __alignof__(struct type), (flags), NULL)

static inline void kmem_cache_destroy(struct kmem_cache *s)
{
	slub_cache_destroy(s);
}

static inline int kmem_cache_shrink(struct kmem_cache *s)
{
	return slub_cache_shrink(s);
}

static inline unsigned int kmem_cache_size(struct kmem_cache *s)
{
	return (unsigned int)slub_cache_size(s);
}

static inline void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfp)
{
	unsigned int flags = gfp & SLUB_KERNEL_ALLOC_FLAGS;
	void *p;

	do {
		p = flags ? slub_cache_alloc_flags(s, flags) :
			    slub_cache_alloc(s);
	} while (slub_kernel_again(p, gfp));
	return p;
}

static inline void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t gfp,
					  int node)
{
	void *p;

	do {
		p = slub_cache_alloc_node(s, gfp & SLUB_KERNEL_ALLOC_FLAGS,
					  node);
	} while (slub_kernel_again(p, gfp));
	return p;
}

static inline void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t gfp)
{
	return kmem_cache_alloc(s, gfp | __GFP_ZERO);
}

static inline void kmem_cache_free(struct kmem_cache *s, void *object)
{
	slub_cache_free(s, object);
}

static inline int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t gfp,
					size_t nr, void **objects)
{
	size_t n;

	do {
		n = slub_cache_alloc_bulk(s, gfp & SLUB_KERNEL_ALLOC_FLAGS, nr,
					  objects);
	} while (slub_kernel_again(n == nr ? &n : NULL, gfp));
	return (int)n;
}

static inline void kmem_cache_free_bulk(struct kmem_cache *s, size_t nr,
					void **objects)
{
	slub_cache_free_bulk(s, nr, objects);
}

/* ---- kmalloc ---- */

/* How much the block has room for; discouraged, as in the kernel. */
static inline size_t ksize(const void *p)
{
	return malloc_usable_size((void *)(uintptr_t)p);
}

/*
 * Zero from byte @from of a block to the end of its room.  The compiler takes a
 * block to end at what malloc() was asked for, and with _FORTIFY_SOURCE the program
 * would be ended here: so it must not see whose block it is.
 */
static inline void slub_kernel_zero(const void *p, size_t from)
{
	char *block = (char *)(uintptr_t)p;
	size_t room = ksize(p);

	__asm__ __volatile__("" : "+r"(block));
	if (from < room)
		memset(block + from, 0, room - from);
}

static inline void *slub_kernel_malloc_once(size_t size, gfp_t gfp)
{
	void *p = gfp & __GFP_ZERO ? calloc(1, size) : malloc(size);

	/* krealloc() may let it grow into its room. */
	if (p && gfp & __GFP_ZERO)
		slub_kernel_zero(p, size);
	return p;
}

static inline void *slub_kernel_malloc(size_t size, gfp_t gfp)
{
	void *p;

	if (!(gfp & __GFP_MEMALLOC) || slub_reserve_enter())
		return slub_kernel_malloc_once(size, gfp);
	p = slub_kernel_malloc_once(size, gfp);
	slub_reserve_leave();
	return p;
}

static inline void *kmalloc(size_t size, gfp_t gfp)
{
	void *p;

	do {
		p = slub_kernel_malloc(size, gfp);
	} while (slub_kernel_again(p, gfp));
	return p;
}

static inline void *kzalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp | __GFP_ZERO);
}

static inline void *kmalloc_array(size_t nr, size_t size, gfp_t gfp)
{
	size_t bytes;

	if (__builtin_mul_overflow(nr, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return kmalloc(bytes, gfp);
}

static inline void *kcalloc(size_t nr, size_t size, gfp_t gfp)
{
	return kmalloc_array(nr, size, gfp | __GFP_ZERO);
}

/* Memory comes from the node the thread runs on. */
static inline void *kmalloc_node(size_t size, gfp_t gfp, int node)
{
	(void)node;
	return kmalloc(size, gfp);
}

static inline void *kzalloc_node(size_t size, gfp_t gfp, int node)
{
	return kmalloc_node(size, gfp | __GFP_ZERO, node);
}

static inline void *kmalloc_array_node(size_t nr, size_t size, gfp_t gfp, int node)
{
	(void)node;
	return kmalloc_array(nr, size, gfp);
}

static inline void *kcalloc_node(size_t nr, size_t size, gfp_t gfp, int node)
{
	return kmalloc_array_node(nr, size, gfp | __GFP_ZERO, node);
}

static inline void kfree(const void *p)
{
	slub_free((void *)(uintptr_t)p);
}

static inline void kfree_sensitive(const void *p)
{
	if (p) {
		slub_kernel_zero(p, 0);
		/* It is read, as far as the compiler knows. */
		__asm__ __volatile__("" : : "r"(p) : "memory");
	}
	kfree(p);
}

static inline void kfree_bulk(size_t nr, void **objects)
{
	slub_cache_free_bulk(NULL, nr, objects);
}

/*
 * With __GFP_ZERO what the block grows by is zero, if all calls for it had the flag,
 * from the first on.
 */
static inline void *krealloc(const void *p, size_t size, gfp_t gfp)
{
	size_t old = p ? ksize(p) : 0;
	void *to;

	if (!size) {
		kfree(p);
		return NULL;
	}
	if (!p)
		return kmalloc(size, gfp);
	do {
		to = realloc((void *)(uintptr_t)p, size);
	} while (slub_kernel_again(to, gfp));
	if (to && gfp & __GFP_ZERO)
		slub_kernel_zero(to, size < old ? size : old);
	return to;
}

static inline void *krealloc_array(void *p, size_t nr, size_t size, gfp_t gfp)
{
	size_t bytes;

	if (__builtin_mul_overflow(nr, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return krealloc(p, bytes, gfp);
}

/* There is one kind of address, so the kv* calls are the k* calls. */
#define kvmalloc kmalloc
#define kvzalloc kzalloc
#define kvcalloc kcalloc
#define kvmalloc_array kmalloc_array
#define kvmalloc_node kmalloc_node
#define kvzalloc_node kzalloc_node
#define kvrealloc krealloc
#define kvfree kfree
#define kvfree_sensitive(p, bytes) kfree_sensitive(p)

#define kmalloc_obj(type, gfp) ((__typeof__(type) *)kmalloc(sizeof(type), gfp))
#define kzalloc_obj(type, gfp) ((__typeof__(type) *)kzalloc(sizeof(type), gfp))

/* ---- private buckets ---- */

typedef struct slub_bucket kmem_buckets;

/* The window for copies to user space and the constructor have no meaning. */
static inline kmem_buckets *
kmem_buckets_create(const char *name, slab_flags_t flags,
		    unsigned int useroffset, unsigned int usersize,
		    void (*ctor)(void *))
{
	(void)useroffset, (void)usersize, (void)ctor;
	return slub_bucket_create(name, flags);
}

static inline void *kmem_buckets_alloc(kmem_buckets *b, size_t size, gfp_t gfp)
{
	void *p;

	do {
		p = gfp & __GFP_ZERO ? slub_bucket_calloc(b, 1, size) :
				       slub_bucket_alloc(b, size);
	} while (slub_kernel_again(p, gfp));
	return p;
}

#define kmem_buckets_valloc kmem_buckets_alloc

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
