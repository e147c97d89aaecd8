/* SPDX-License-Identifier: MIT */
/*
 * malloc for threads in groups (slub/group.h).
 *
 * Such a thread has no malloc_limit (core/base/thread.h), so its requests leave the fast path at
 * the first comparison.  Each class has a second cache, "malloc-cg-SIZE", made when it is first
 * needed, whose objects have owners (features/groups/owned.h); a large block has its owner in its
 * descriptor.
 *
 * A block is charged with the bytes that the program may use: the size of the class, or the
 * pages of a large block.  The charge comes first, so a request beyond a maximum takes no
 * memory and makes no shrinker give any.
 */
#include "core/malloc/malloc.h"
#include "features/groups/owned.h"
#include "features/watch/watch.h"
#include "features/profile/sample.h"
#include "features/shadow/shadow.h"

#include <errno.h>

#define INDEX_END (CLASS_SIZE_MAX / CLASS_STEP + 1)
#define WORD_INDEX_END (CLASS_SIZE_WORD / CLASS_STEP + 1)

/*
 * Like malloc_slot, by size_index(): the cache for a size, and its slot.  NULL and slot 0,
 * which is always empty, stand for a cache that is not made yet, or has no fast path.
 */
static struct slub_cache *account_caches[INDEX_END] rarely_touched;
static uint32_t account_slots[INDEX_END] rarely_touched;

/*
 * What account_malloc() needs to know of a class below a page, in half a cache line.
 * The owner of the object that begins `at` bytes into its slab lies at
 *
 *	object + owners + (at * step >> 32)
 *
 * where `step` is (4 - size) / size in parts of 2^32, rounded up.  That is exact: `at`
 * is the object's number times the size, and the rounding error of a whole slab is
 * below one byte.  The formula needs neither the start of the slab nor the object's
 * number, which saves 4 instructions.
 */
static struct account_class {
	uint64_t slab_mask;
	int64_t step;
	int64_t owners;
	uint32_t bytes;		/* object_size */
	uint32_t slot;		/* 0: not to be used; written last */
} account_classes[WORD_INDEX_END] rarely_touched;

/* ---- the classes ---- */

/* A class has one cache for ever, so a second thread writes the same values again. */
static void size_fill(size_t i, struct slub_cache *cache)
{
	uint32_t slot = cache ? cache->list_slot : 0;
	struct account_class *class;

	__atomic_store_n(&account_caches[i], cache, __ATOMIC_RELEASE);
	if (i >= WORD_INDEX_END) {
		__atomic_store_n(&account_slots[i], slot, __ATOMIC_RELEASE);
		return;
	}
	class = &account_classes[i];
	if (cache) {
		uint64_t step = ((uint64_t)(cache->size - OWNER_BYTES) << 32) /
				cache->size;

		__atomic_store_n(&class->slab_mask, cache->slab_mask,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&class->step, -(int64_t)step, __ATOMIC_RELAXED);
		__atomic_store_n(&class->owners, (int64_t)cache->owners,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&class->bytes, cache->object_size,
				 __ATOMIC_RELAXED);
	}
	/* release: a thread that pops there finds the other members */
	__atomic_store_n(&class->slot, slot, __ATOMIC_RELEASE);
}

/* Without fast classes while blocks are sampled, and where lists keep no charges. */
static void sizes_fill(bool samples)
{
	for (size_t i = 0; i < INDEX_END; i++) {
		struct slub_cache *c = cache_shadow(
			sizeclass_cache(i ? i * CLASS_STEP - CLASS_TAIL : 0),
			SHADOW_ACCOUNTED);
		uint8_t path = i < WORD_INDEX_END ? ACCOUNT_SLAB :
						    ACCOUNT_PAGED;

		if (c && (samples || c->account_path != path))
			c = NULL;
		size_fill(i, c);
	}
}

void account_sizes_fill(void)
{
	bool samples;

	/* Another thread may switch meanwhile, and fill before this one has. */
	do {
		samples = sample_is_on_at_all();
		sizes_fill(samples);
	} while (samples != sample_is_on_at_all());
}

/* A class of its own: its objects are not those of the class that it stands for. */
static bool shape(struct slub_cache *shadow, const struct slub_cache *cache)
{
	struct text name = { shadow->name_space, SLUB_CACHE_NAME_MAX, 0 };

	text_printf(&name, "malloc-cg-%u", cache->object_size);
	shadow->flags = SLUB_CACHE_ACCOUNT;
	cache_root_set(shadow, NULL);
	cache_accounted_set(shadow, true);
	shadow->has_keys = KEYS && link_is_in_object(shadow->link);
	return true;
}

static void made(struct slub_cache *shadow)
{
	debug_cache_made(shadow);
	account_sizes_fill();
}

static const struct shadow_kind accounted_kind = {
	.place = SHADOW_ACCOUNTED,
	.shape = shape,
	.made = made,
};

struct slub_cache *sizeclass_accounted(struct slub_cache *cache)
{
	struct slub_cache *accounted = cache_shadow(cache, SHADOW_ACCOUNTED);

	if (likely(accounted))
		return accounted;
	return slub_thread.locks_held ? NULL :
					shadow_get(cache, &accounted_kind);
}

/* ---- alloc ---- */

/* The charge for a request of @bytes. */
static size_t charge_of(size_t bytes, size_t align)
{
	if (max_size(bytes, align) > CLASS_BYTES_MAX || align > PAGE_BYTES)
		return large_bytes_for(bytes);
	return sizeclass_bytes(sizeclass_number(sizeclass_fitting(bytes, align)));
}

/* False: the block cannot have an owner. */
static bool set_owner(void *ptr, uint32_t owner)
{
	uint32_t entry = pagemap_get(ptr);
	struct slub_cache *cache;

	if (entry == MAP_LARGE) {
		large_set_owner(ptr, owner);
		return true;
	}
	cache = entry < MAP_SPECIAL_END ? NULL : cache_of_entry(entry);
	if (!cache || !cache->is_accounted)
		return false;
	account_take(cache, ptr, owner);
	return true;
}

void *account_alloc(size_t bytes, size_t align, bool *is_zero)
{
	uint32_t owner = group_current();
	size_t charge = charge_of(bytes, align);
	void *ptr;

	*is_zero = false;
	/* Such a request would become the peak, and overflow the counters. */
	if (unlikely(!large_is_possible(bytes, align)))
		return NULL;
	if (!likely(group_charge_fast(charge)) && group_charge(owner, charge))
		return NULL;
	ptr = slow_alloc_uncharged(bytes, align, is_zero);
	if (!ptr || unlikely(!set_owner(ptr, owner)))
		group_uncharge(owner, charge);
	return ptr;
}

bool account_large(void *ptr)
{
	uint32_t owner = group_current();
	size_t bytes = large_bytes(ptr);

	if (likely(group_charge_fast(bytes)) || group_charge_try(owner, bytes)) {
		large_set_owner(ptr, owner);
		return true;
	}
	large_free(ptr);
	return false;
}

static void *refuse(void)
{
	errno = ENOMEM;
	return NULL;
}

/* acquire: pairs with the release in size_fill() */
static inline struct slub_cache *class_of(size_t bytes)
{
	return __atomic_load_n(&account_caches[size_index(bytes)], __ATOMIC_ACQUIRE);
}

/*
 * The list is empty, or the sequence was aborted.  Mostly the spare list has a chain,
 * and the thread's stock has the charge.
 */
static __attribute__((__noinline__)) void *alloc_rest(size_t bytes)
{
	struct slub_cache *cache = class_of(bytes);
	uint32_t owner = group_current();
	void *object;

	if (unlikely(!cache || !group_charge_fast(cache->object_size)))
		return slow_alloc(bytes);
	object = cache_alloc_sized(cache, bytes);
	account_end(cache, object, owner);
	return likely(object) ? object : slow_alloc(bytes);
}

/* @object, for @bytes, is still charged to another owner. */
static __attribute__((__noinline__)) void *
claim(size_t bytes, void *object, uint32_t *where)
{
	struct slub_cache *cache = class_of(bytes);
	uint32_t owner = group_current();

	if (unlikely(!cache))	/* the class was switched off a moment ago */
		cache = cache_of(object);
	if (likely(account_hand_over(cache, where, owner)))
		return object;
	object = account_claim(cache, object, owner);
	return object ? object : refuse();
}

/* Where threads change groups, neighbours in a list mostly have the same old owner. */
static __attribute__((__noinline__)) void *
take_over(size_t bytes, void *object, uint32_t *where, uint32_t owner,
	  size_t charge)
{
	if (unlikely(!group_hand_over_run(*where, charge)))
		return claim(bytes, object, where);
	*where = owner;
	return object;
}

/*
 * Classes of a page or more.  Only @bytes lives across the sequence; one more value
 * would need a stack frame.
 */
static __attribute__((__noinline__)) void *alloc_paged(size_t bytes)
{
	uint32_t *where, owner;
	void *object;

	/* Outside of groups the library may not have started, and must run no sequence. */
	if (unlikely(bytes > CLASS_BYTES_MAX || !group_current()))
		return slow_alloc(bytes);
	object = account_pop_paged(account_slots[size_index(bytes)], &where);
	if (unlikely(!object))
		return alloc_rest(bytes);
	owner = group_current();
	if (unlikely(*where != (owner | OWNER_FREE)))
		return claim(bytes, object, where);
	*where = owner;
	return object;
}

SLUB_HOT void *account_malloc(size_t bytes)
{
	const struct account_class *class;
	uint32_t *where, owner = group_current();
	void *object;
	int64_t at;

	if (unlikely(bytes > CLASS_WORD_MAX))
		return alloc_paged(bytes);
	if (unlikely(!owner))
		return slow_alloc(bytes);
	class = &account_classes[size_index(bytes)];
	/* In one register: its parts would need two, and so a stack frame. */
	__asm__("" : "+r"(class));
	object = account_pop_fast(class->slot, KEYS);
	if (unlikely(!object))
		return alloc_rest(bytes);
	if (KEYS)
		link_clear_keyed(object);
	at = (int64_t)((uintptr_t)object & class->slab_mask);
	at = (at * class->step >> 32) + class->owners;
	__asm__("" : "+r"(at));
	where = (uint32_t *)((char *)object + at);
	if (likely(*where == owner))
		return object;
	return take_over(bytes, object, where, owner, class->bytes);
}

static __attribute__((__noinline__)) void
free_rest(void *ptr, struct slub_cache *cache)
{
	int kept = errno;

	if (!account_free_rest(cache, ptr)) {
		if (cache_has_keys(cache))
			key_clear(ptr);
		slow_free(ptr);
	}
	errno = kept;
}

SLUB_HOT void account_free_object(void *ptr, struct slub_cache *cache)
{
	if (cache->frees_inline && cache_has_keys(cache) &&
	    unlikely(!free_is_plain(cache, ptr))) {
		slow_free(ptr);
		return;
	}
	if (likely(cache->frees_inline)) {
		if (!account_free_fast(cache, ptr, 0, cache_is_keyed(cache)))
			free_rest(ptr, cache);
	} else if (cache->account_path != ACCOUNT_PAGED ||
		   !account_free_paged(cache, ptr)) {
		free_rest(ptr, cache);
	}
}
