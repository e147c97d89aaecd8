/* SPDX-License-Identifier: MIT */
/*
 * Typed caches: many objects of one kind, from slabs of their own.
 *
 * A cache knows the size, the alignment and, if you give it one, the
 * constructor of its objects.  Allocating and freeing go through a list of
 * the CPU the thread is on, inline in your program; behind it stand the
 * CPU's barn of full lists, the slabs, and the page allocator.
 *
 *   SLUB_CACHE_DEFINE_STATIC(connections, struct connection, 0, NULL);
 *
 *   struct connection *c = slub_cache_alloc(&connections);
 *   ...
 *   slub_cache_free(&connections, c);
 *
 * or, with a cache made at run time, slub_cache_create().
 *
 * A shared object that contains the inline functions must never be unloaded
 * (link it with -Wl,-z,nodelete, or compile it with -DSLUB_NO_INLINE): the
 * kernel may still look at the descriptor of its last sequence.
 *
 * Objects may also be freed by free() and slub_free(): the page that an object
 * lies in names its cache.  By slub_free() only where malloc and free are not this
 * library's, under a sanitizer say.
 *
 * From: the kernel's kmem_cache_*().
 */
#ifndef SLUB_INCLUDE_CACHE_H
#define SLUB_INCLUDE_CACHE_H

#include <slub/flags.h>
#include <slub/arch/lists.h>

#ifdef __cplusplus
SLUB_C_BEGIN
extern "C" {
#endif

/* The largest object a cache can have, and the longest name. */
#define SLUB_CACHE_SIZE_MAX (SLUB_SIZE(256) << 10)
#define SLUB_CACHE_NAME_MAX 47

/* For slub_cache_alloc_node(): no node is preferred. */
#define SLUB_NODE_ANY (-1)

/* All that can be said about a cache; what is zero is not asked for. */
struct slub_cache_args {
	const char *name;	/* copied */
	size_t size;
	size_t align;		/* a power of two up to 4096; 0: 8 bytes */
	unsigned long flags;	/* enum slub_cache_flag */
	void (*ctor)(void *object);
	/*
	 * Where a free object may keep its link, if has_free_pointer_offset:
	 * a word of the object that neither the constructor nor a TYPESAFE
	 * reader cares about, so that the object need not grow by one.  A
	 * multiple of 8 below 4096.  Nothing checks such a link; of objects of
	 * 8 bytes that would take 8 bytes more.
	 */
	size_t free_pointer_offset;
	bool has_free_pointer_offset;
	/* The part that slub_copy_allowed() lets be copied; 0, 0: all. */
	size_t useroffset;
	size_t usersize;
	/*
	 * Objects that a CPU's list (a sheaf) may get by frees; 0: by their size.
	 * One that was empty gets all that is free on a slab, which may be more.
	 */
	unsigned int sheaf_length;
	uint64_t reserved[4];	/* 0 */
};

#ifndef SLUB_LIBRARY
/*
 * A cache.  The first words are what the inline functions read.  It may stand in your
 * program (SLUB_CACHE_DEFINE): then it stands for a structure of the library's.
 */
struct slub_cache {
	uint32_t slot;		/* what the page map says of its pages */
	uint32_t inline_slot;	/* its list, an offset in every CPU's area, if free objects
				 * begin with link and check word; 0: allocations are not inline */
	uintptr_t link;		/* where in an object the link is */
	const struct slub_cache_args *args;
	uint32_t free_slot;	/* the list that is freed to */
	uint32_t account_slot;	/* its list, if allocations look at owners;
				 * else 0: nothing is there */
	uint64_t slab_mask;	/* where the owner of an object is */
	uint64_t owner_reciprocal;
	uint64_t owners;
	uint32_t entry;		/* slot, if free objects begin with both; else none */
	uint32_t plain_slot;	/* its list, if they have no check words; else 0 */
	struct slub_cache *cache;	/* of a variable: the library's structure */
	uint64_t is_inline;		/* of a variable: SLUB_CACHE_INLINE */
	/* An object begins where (its address & mask) * magic is below magic. */
	uint32_t start_mask;
	uint32_t start_magic;
	uint32_t kept_slot;	/* its list, if both lie behind what an object keeps; else 0 */
	uint32_t reserved_word;
	uint64_t reserved[2];
};

/* Does the file that defines a cache have inline functions, to read its first words? */
#ifdef SLUB_HAVE_SEQUENCES
#define SLUB_CACHE_INLINE 1
#else
#define SLUB_CACHE_INLINE 0
#endif
#else
struct slub_cache;
#endif

/*
 * SLUB_CACHE_DEFINE, SLUB_CACHE_DEFINE_STATIC - define a cache as a variable.
 *
 * Of objects of type @type; with _STATIC, for one file (static before
 * SLUB_CACHE_DEFINE would miss the second of the two variables).
 * It is made by its first allocation; where its list lies is read from the
 * variable, whose address the linker knows, so there is no pointer to load.
 * @flags: enum slub_cache_flag; @ctor: void (*)(void *) or NULL.
 *
 * A plugin (compiled with -DSLUB_NO_INLINE) should destroy its caches before it is
 * unloaded.  A cache that it leaves stays with its objects, and is the plugin's again
 * when it is loaded anew, if it has no constructor.
 *
 * Errors: if the cache cannot be made, slub_cache_alloc() returns NULL with the
 * errno of slub_cache_create().
 * Context: at file scope, a semicolon behind it.
 */
#define SLUB_CACHE_DEFINE(variable, type, flags_, ctor_)		\
	const struct slub_cache_args variable##_args = {		\
		#variable, sizeof(type), __alignof__(type), (flags_),	\
		(ctor_), 0, false, 0, 0, 0, { 0 } };				\
	struct slub_cache variable =					\
		{ 0, 0, 0, &variable##_args, 0, 0, 0, 0, 0, 0, 0, 0,	\
		  SLUB_CACHE_INLINE, 0, 0, 0, 0, { 0 } }
#define SLUB_CACHE_DEFINE_STATIC(variable, type, flags_, ctor_)	\
	static const struct slub_cache_args variable##_args = {		\
		#variable, sizeof(type), __alignof__(type), (flags_),	\
		(ctor_), 0, false, 0, 0, 0, { 0 } };				\
	static struct slub_cache variable =				\
		{ 0, 0, 0, &variable##_args, 0, 0, 0, 0, 0, 0, 0, 0,	\
		  SLUB_CACHE_INLINE, 0, 0, 0, 0, { 0 } }

/*
 * slub_cache_create - make a cache of objects of @size bytes.
 *
 * @name: 1 to SLUB_CACHE_NAME_MAX printable characters without blanks, not yet
 * in use; copied.  @align: a power of two up to 4096, 0 for 8.  @flags: enum
 * slub_cache_flag.  @ctor: called once for each object when its memory is first
 * used, before it is handed out for the first time, and not again when it is
 * freed and allocated anew: a free object stays constructed.  It is called
 * without locks and may allocate from other caches.  NULL: none.
 *
 * Returns the cache, which the caller owns until slub_cache_destroy(), or NULL
 * with errno set:
 *   EDEADLK called by a signal handler that interrupted the allocator;
 *   EINVAL  name missing, empty, too long or not printable; size 0 or above
 *           SLUB_CACHE_SIZE_MAX; align not a power of two or above 4096; an
 *           unknown flag; offsets that do not lie in the object, or a
 *           free_pointer_offset that is no multiple of 8 below 4096;
 *   EEXIST  there is a cache of that name, or one that has it as an alias;
 *   ENOSPC  the areas have no slot left: there are some 16,000 caches, or 8,000 if their
 *           objects get guard pages or are debugged (SLUB_GUARD, SLUB_DEBUG);
 *   ENOMEM  no memory.
 * With SLUB_CACHE_PANIC it does not return NULL but reports and aborts.
 *
 * With SLUB_MERGE=1 in the environment, a cache without constructor, debugging
 * and SLUB_CACHE_NO_MERGE may be another one that has room for its objects: then
 * its pointer is returned, and it takes as many slub_cache_destroy().  The name
 * becomes an alias of it: slub_cache_alias().
 *
 * Context: any thread, not from a signal handler; takes locks; may sleep.
 * From: kmem_cache_create().
 */
SLUB_API struct slub_cache *slub_cache_create(const char *name, size_t size,
					      size_t align,
					      unsigned long flags,
					      void (*ctor)(void *));
#ifdef SLUB_CHECK_FLAGS
#define slub_cache_create(name, size, align, flags, ctor)		\
	slub_cache_create(name, size, align, SLUB_CACHE_FLAGS(flags), ctor)
#endif

/*
 * slub_cache_create_args - the same, with everything that can be said.
 *
 * Returns and errors: as slub_cache_create(), EINVAL also for @args NULL.
 * Context: as slub_cache_create().  From: kmem_cache_create_usercopy() and struct
 * kmem_cache_args.
 */
SLUB_API struct slub_cache *
slub_cache_create_args(const struct slub_cache_args *args);

/*
 * slub_cache_destroy - give a cache and all its memory back.
 *
 * Waits for deferred frees, and for a slub_cache_defrag() of another thread,
 * which then ends with its batch.  NULL is allowed.  Returns 0, or, with the cache
 * unchanged and in use as before:
 *   -EBUSY   objects are still allocated; each is named on stderr if messages
 *            are on (SLUB_VERBOSE=1), slub_cache_for_each_object() finds them;
 *   -EDEADLK called by a function that moves its objects (slub/defrag.h), in a visit of
 *            it by slub_cache_for_each(), inside slub_read_lock(), where it would wait
 *            for its caller, or by a handler that interrupted the allocator;
 *   -EINVAL  not a cache, destroyed already, or one of malloc's own;
 *   -EAGAIN  the lists of another CPU could not be emptied (no membarrier); or another
 *            thread, which empties the lists of all caches, had it in hand for a second.
 * After 0 the pointer means nothing: slub_cache_alloc() on it returns NULL with
 * EINVAL as long as no new cache has taken its place.  A variable of
 * SLUB_CACHE_DEFINE remains one: its next allocation makes the cache anew.
 * Context: any thread, not from a signal handler; may sleep, but never because objects are
 * allocated.  Cost: each CPU is stopped once; others that make or destroy caches do not
 * wait meanwhile.  From: kmem_cache_destroy().
 */
SLUB_API int slub_cache_destroy(struct slub_cache *cache);

/*
 * slub_cache_shrink - give back what the cache holds and nobody uses.
 *
 * Empties its lists on every CPU and its barns, and frees all empty slabs.
 * Returns 0, or 1 if slabs with free objects remain.
 * Errors: none; 0 also if that is no cache.
 * Context and cost: as slub_cache_destroy(); a reader waits for none, and what it keeps stays.
 * From: kmem_cache_shrink().
 */
SLUB_API int slub_cache_shrink(struct slub_cache *cache);

/*
 * slub_cache_alloc_flags, slub_cache_alloc_node, slub_cache_zalloc - allocate.
 *
 * @flags: enum slub_alloc_flag; @node: a NUMA node, or SLUB_NODE_ANY.  Memory of
 * a node is preferred, not insisted on.
 * Returns an object, aligned as the cache was made, which the caller owns; its
 * bytes are what the constructor or the last user left, but for the first 16, if it has
 * no constructor.  NULL with errno set:
 *   ENOMEM  no memory;
 *   EINVAL  SLUB_ALLOC_ZERO in a cache with a constructor, an unknown flag or node, a
 *           cache that was destroyed.
 * Context: any thread and, if it interrupted nothing of this library, a signal
 * handler (else NULL); does not sleep but for a lock.
 * From: kmem_cache_alloc(), kmem_cache_alloc_node(), kmem_cache_zalloc().
 */
SLUB_API void *slub_cache_alloc_flags(struct slub_cache *cache,
				      unsigned int flags);
SLUB_API void *slub_cache_alloc_node(struct slub_cache *cache,
				     unsigned int flags, int node);
SLUB_API void *slub_cache_zalloc(struct slub_cache *cache);
#ifdef SLUB_CHECK_FLAGS
#define slub_cache_alloc_flags(cache, flags)				\
	slub_cache_alloc_flags(cache, SLUB_ALLOC_FLAGS(flags))
#define slub_cache_alloc_node(cache, flags, node)			\
	slub_cache_alloc_node(cache, SLUB_ALLOC_FLAGS(flags), node)
#endif

/*
 * slub_cache_alloc_bulk - allocate @nr objects at once.
 *
 * Writes them to @objects, which the caller owns then.  Returns @nr, or 0 with
 * errno set and nothing allocated.
 * Errors and context: as slub_cache_alloc_flags().
 * Cost: one sequence per 64 objects.  With slub_cache_free_bulk() 1.7 ns per object in
 * calls for 16; 2.5 by inline single calls.
 * From: kmem_cache_alloc_bulk().
 */
SLUB_API size_t slub_cache_alloc_bulk(struct slub_cache *cache,
				      unsigned int flags, size_t nr,
				      void **objects);
#ifdef SLUB_CHECK_FLAGS
#define slub_cache_alloc_bulk(cache, flags, nr, objects)		\
	slub_cache_alloc_bulk(cache, SLUB_ALLOC_FLAGS(flags), nr, objects)
#endif

/*
 * slub_cache_free_bulk - free @nr objects at once.
 *
 * @cache: whose they are, or NULL for objects of any caches, malloc's included.
 * NULL pointers among @objects are skipped.  An object of another cache is
 * treated as by slub_cache_free().  @objects itself is left as it is.
 * Context: as slub_cache_free().  Cost: objects of one cache in a row are freed
 * together.  From: kmem_cache_free_bulk().
 */
SLUB_API void slub_cache_free_bulk(struct slub_cache *cache, size_t nr,
				   void **objects);

/* Objects put aside for one user: a sheaf of its own. */
struct slub_prefill {
	struct slub_cache *cache;
	void *head;
	size_t nr;
	uint64_t reserved;	/* 0 */
};

/* A prefill that is empty. */
#define SLUB_PREFILL_INIT { NULL, NULL, 0, 0 }

/*
 * slub_cache_prefill, slub_prefill_alloc, slub_prefill_return - put objects aside.
 *
 * slub_cache_prefill() puts @nr objects aside, for allocations that cannot fail.
 * @prefill is the caller's, on the stack or wherever, all zero at first.  Call
 * it again on the same @prefill to fill it up to @nr.  slub_prefill_alloc() then
 * takes one object off it; slub_prefill_return() frees the rest.
 *
 * Returns: slub_cache_prefill() 0 or a negative error number,
 * slub_prefill_alloc() an object that the caller owns, NULL (and errno as it was)
 * only when all are used.
 * Errors:
 *   -ENOMEM  no memory: nothing is put aside, not even what was before;
 *   -EINVAL  no cache, or @prefill has objects of another one.
 * Context: as slub_cache_alloc_flags(); one thread at a time may use a prefill.
 * From: kmem_cache_prefill_sheaf(), kmem_cache_alloc_from_sheaf(),
 * kmem_cache_return_sheaf().
 */
SLUB_API int slub_cache_prefill(struct slub_cache *cache,
				struct slub_prefill *prefill, size_t nr);
SLUB_API void *slub_prefill_alloc(struct slub_prefill *prefill);
SLUB_API void slub_prefill_return(struct slub_prefill *prefill);

/*
 * slub_free - free any object of this library: malloc's or a cache's.
 *
 * NULL is allowed; a pointer that is not ours is left alone.
 * Context: anywhere, as free().  Cost: as free().
 * From: kfree(), which takes objects of every cache.
 */
SLUB_API void slub_free(void *object);

/*
 * slub_cache_of - the cache of an object.
 *
 * Returns it, malloc's own included; NULL when @object is in no slab of this
 * library.  It is the owner's, and may end: see slub_cache_destroy().
 * Errors: none.  Context: anywhere.  Cost: a few loads.  From: virt_to_cache().
 */
SLUB_API struct slub_cache *slub_cache_of(const void *object);

/*
 * slub_cache_name, slub_cache_size, slub_cache_stride - what a cache is like.
 *
 * Returns its name, which lives as long as the cache; the bytes an object of it
 * has for its user; the bytes from one object to the next.
 * Errors: none; @cache must be a cache.  Context: anywhere.
 * From: kmem_cache_size(), slabinfo's object_size and slab_size.
 */
SLUB_API const char *slub_cache_name(const struct slub_cache *cache);
SLUB_API size_t slub_cache_size(const struct slub_cache *cache);
SLUB_API size_t slub_cache_stride(const struct slub_cache *cache);

/*
 * slub_cache_find - the cache of that name, or one that has it as an alias.
 *
 * malloc's own are found too, as "malloc-64" and so on, once they have been used.
 * Returns it; it is its owner's, and may end: see slub_cache_destroy().  NULL with errno
 * set:
 *   ENOENT  there is none;
 *   EINVAL  @name is NULL;
 *   EDEADLK called by a signal handler that interrupted the allocator;
 *   ENOMEM  the library could not start.
 * Context: any thread; takes a lock.  Cost: a look at each cache.
 */
SLUB_API struct slub_cache *slub_cache_find(const char *name);

/*
 * slub_cache_for_each - call @visit for each cache, malloc's own included.
 *
 * Until it returns non-zero.  The cache is held meanwhile: a slub_cache_destroy() of
 * another thread waits, and one that @visit calls on it answers -EDEADLK.  What is made
 * or destroyed meanwhile may be missed.
 * Returns what @visit returned last, else 0; -EINVAL: @visit is NULL; -EDEADLK and -ENOMEM as
 * slub_cache_find().
 * Context: any thread; @visit is called without locks and may allocate; it has to return.
 * From: slab_caches, which /proc/slabinfo shows.
 */
SLUB_API int slub_cache_for_each(int (*visit)(struct slub_cache *cache, void *arg),
				 void *arg);

/*
 * slub_cache_alias - the further names of a cache that several users share (SLUB_MERGE).
 *
 * Writes the @n-th of them to @name, from 0 on in the order in which they came.  The name
 * that the cache was made with is not among them: slub_cache_name() says it.  Any
 * slub_cache_destroy() of a shared cache frees the name that came last.
 * Returns true; false, and leaves @name alone, when there are not so many, or
 * @cache is not a cache.
 * Errors: none but that.  Context: any thread, not from a signal handler (false);
 * takes a lock.
 * From: slab_kset's links, which slabinfo -a shows.
 */
SLUB_API bool slub_cache_alias(const struct slub_cache *cache, unsigned int n,
			       char name[SLUB_CACHE_NAME_MAX + 1]);

/*
 * slub_cache_for_each_object - call @visit for each allocated object.
 *
 * Empties the cache's lists first, so that free objects are known as such;
 * what is allocated or freed meanwhile may be missed or seen.  Stops when
 * @visit returns non-zero.  @visit is called without locks.
 *
 * Returns what @visit returned last, else 0, also when that is no cache.
 * Errors: -EAGAIN, when lists could not be emptied; nothing was visited then.
 * Context: as slub_cache_destroy(); inside slub_read_lock() it waits for no reader, and
 * visits what was freed deferred and is kept by that section.  Cost: a walk over all slabs.
 */
SLUB_API int slub_cache_for_each_object(struct slub_cache *cache,
					int (*visit)(void *object, void *arg),
					void *arg);

/*
 * slub_copy_allowed - do @bytes from @ptr on lie in the part of one object that
 * may be copied (slub_cache_args.useroffset)?
 *
 * Returns true if they do, and for memory that is in no cache.  Errors: none.
 * Context: anywhere.  From: __check_heap_object(), hardened usercopy.
 */
SLUB_API bool slub_copy_allowed(const void *ptr, size_t bytes);

/* Counts since the cache was made; slow paths only, the fast path counts
 * nothing. */
struct slub_cache_stats {
	uint64_t objects;	/* room in all slabs */
	uint64_t slabs;
	uint64_t alloc_spare;	/* lists taken from: the CPU's spare */
	uint64_t alloc_barn;	/*   the barn */
	uint64_t alloc_refill;	/*   slabs */
	uint64_t free_spare;	/* lists put into the CPU's spare */
	uint64_t free_barn;
	uint64_t free_flush;	/* lists given back to slabs */
	uint64_t slab_alloc;
	uint64_t slab_free;
	uint64_t wrong_cache;	/* frees through another cache */
	uint64_t double_free;	/* frees that were found to be the second */
	uint64_t objects_out;	/* objects taken from slabs */
	uint64_t objects_back;	/* objects given back to slabs */
	uint64_t wrong_size;	/* sized frees with a size that cannot be, seen */
	uint64_t objects_moved;	/* to other slabs: slub/defrag.h */
	uint64_t objects_stayed; /* asked for, and could not be moved */
	uint64_t alloc_direct;	/* objects handed out past the CPUs' lists */
	uint64_t free_direct;	/* objects given back past them */
	uint64_t free_add_partial; /* slabs that a free put on a partial list */
	uint64_t free_remove_partial; /* empty ones that it took off */
	uint64_t alloc_node_mismatch; /* a node was asked for, and had none */
	uint64_t cmpxchg_double_fail; /* a slab had changed meanwhile */
	uint64_t alloc_refill_fail; /* of alloc_refill: there was no memory */
	uint64_t lists_emptied;	/* given back to slabs, but for free_flush */
	uint64_t sheaf_prefill_fast; /* slub_cache_prefill(): from the CPU's list */
	uint64_t sheaf_prefill_slow; /* from behind it */
	uint64_t sheaf_prefill_oversize; /* more than a list may hold */
	uint64_t sheaf_return_fast; /* slub_prefill_return(): to the CPU's list */
	uint64_t sheaf_return_slow; /* past it */
	uint64_t free_rcu_sheaf; /* deferred frees, counted once no reader is left */
	uint64_t free_rcu_sheaf_fail; /* that had to wait alone, for want of memory */
	uint64_t reserved[5];	/* 0: room for counts to come */
};

/*
 * slub_cache_stats - read the counts of @cache into *@stats.
 *
 * Returns 0, or -EINVAL for no cache.  Context: anywhere; a cache miss per CPU.
 */
SLUB_API int slub_cache_stats(struct slub_cache *cache,
			      struct slub_cache_stats *stats);

/*
 * slub_cache_alloc - allocate an object.
 *
 * Returns, errors and context: as slub_cache_alloc_flags() without flags.
 * Cost: 30 instructions inline, no atomic one, when this CPU has a free object;
 * 47 with SLUB_CACHE_ACCOUNT; a call more where the thread has come to another CPU, or
 * the object was another group's.
 * From: kmem_cache_alloc().
 */
SLUB_API void *slub_cache_alloc(struct slub_cache *cache);

/*
 * slub_cache_free - free @object, which slub_cache_alloc() on @cache returned.
 *
 * NULL is allowed.  Found, counted (slub_cache_stats()) and reported if messages
 * are on: an object of another cache, which is freed to the cache it belongs
 * to; a pointer that is in no slab, which is left alone.  A second free is found, counted and
 * treated as that of a block of malloc, and so is a pointer inside an object; of objects with a
 * free_pointer_offset, or a constructor or TYPESAFE_BY_RCU and an alignment without room for a word
 * more, only the second free of two in a row, others by debugging (SLUB_CACHE_CONSISTENCY_CHECKS).
 * Context: anywhere.  Cost: 42 instructions inline, no atomic one.
 * From: kmem_cache_free().
 */
SLUB_API void slub_cache_free(struct slub_cache *cache, void *object);

/*
 * slub_cache_claim - charge @object, just taken off @cache's list, to this thread's group.
 *
 * For the inline functions.  Returns, errors and context: as slub_cache_alloc().
 */
SLUB_API void *slub_cache_claim(struct slub_cache *cache, void *object);

/*
 * slub_cache_free_aborted - free @object, whose push the kernel has interrupted.
 *
 * For the inline functions.  The push may have made @object look free, and it may have been free.
 * Errors and context: as slub_cache_free().
 */
SLUB_API void slub_cache_free_aborted(struct slub_cache *cache, void *object);

#ifndef SLUB_LIBRARY
#ifdef SLUB_HAVE_SEQUENCES
/*
 * slub_cache_alloc_owned - the part of slub_cache_alloc() for caches with
 * SLUB_CACHE_ACCOUNT: an object whose charge is kept is this thread's at once.
 *
 * @self: this thread's entrance, which it has.
 * Returns, errors and context: as slub_cache_alloc().
 */
SLUB_INLINE void *slub_cache_alloc_owned(struct slub_cache *cache,
					 const struct slub_percpu_self *self)
{
	const uint32_t *owners;
	uintptr_t t, at;
	void *object;

	SLUB_SEQ_POP_KEY_HERE(*self, object, cache->account_slot, t);
	__builtin_memset((char *)object + sizeof(uintptr_t), 0, sizeof(uintptr_t));
	at = (uintptr_t)object & cache->slab_mask;
	owners = (const uint32_t *)((uintptr_t)object - at + cache->owners);
	if (__builtin_expect(owners[at * cache->owner_reciprocal >> 32] !=
			     slub_percpu_self.owner, 0))
		return slub_cache_claim(cache, object);
	return object;
failed:
aborted:
	return (slub_cache_alloc)(cache);
}

SLUB_INLINE void *slub_cache_alloc_fast(struct slub_cache *cache)
{
	if (slub_percpu_may_run()) {
		const struct slub_percpu_self self = slub_percpu_entrance();
		void *object = slub_cache_try_pop(&self, &cache->inline_slot);

		if (__builtin_expect(object != NULL, 1))
			return object;
		if (cache->plain_slot) {
			object = slub_cache_try_pop_plain(&self, &cache->plain_slot,
							  &cache->link);
			if (object)
				return object;
		} else if (cache->kept_slot) {
			object = slub_cache_try_pop_kept(&self, &cache->kept_slot, &cache->link);
			if (object)
				return object;
		} else if (cache->account_slot) {
			return slub_cache_alloc_owned(cache, &self);
		}
	}
	return (slub_cache_alloc)(cache);
}
#define slub_cache_alloc(...) slub_cache_alloc_fast(__VA_ARGS__)

SLUB_INLINE void slub_cache_free_fast(struct slub_cache *cache, void *object)
{
	enum slub_push push = SLUB_PUSH_FAILED;

	switch (slub_cache_try_push(object, &cache->entry, &cache->free_slot,
				    &cache->start_mask)) {
	case SLUB_PUSH_DONE:
		return;
	case SLUB_PUSH_ABORTED:
		slub_cache_free_aborted(cache, object);
		return;
	case SLUB_PUSH_FAILED:
		break;
	}
	if (cache->plain_slot) {
		if (!slub_cache_try_push_plain(object, &cache->slot, &cache->plain_slot,
					       &cache->link, &cache->start_mask))
			(slub_cache_free)(cache, object);
		return;
	}
	if (cache->kept_slot)
		push = slub_cache_try_push_kept(object, &cache->slot, &cache->kept_slot,
						&cache->link, &cache->start_mask);
	if (push == SLUB_PUSH_ABORTED)
		slub_cache_free_aborted(cache, object);
	else if (push == SLUB_PUSH_FAILED)
		(slub_cache_free)(cache, object);
}
#define slub_cache_free(...) slub_cache_free_fast(__VA_ARGS__)
#endif
#endif /* SLUB_LIBRARY */

#ifdef __cplusplus
}
SLUB_C_END
#endif

#endif
