/* SPDX-License-Identifier: MIT */
/*
 * malloc in a group: see account.h.
 *
 * What is charged is what the program may use (malloc_usable_size(), without
 * debugging): the size of the class, or the pages of a large block.  The charge
 * comes first, so a request beyond a maximum takes no memory and asks nobody
 * else for any.
 */
#include "malloc/account.h"
#include "slab/debug.h"
#include "slab/sample.h"

#include <errno.h>

/* As malloc_slot: the cache for a size; NULL: not made yet, or slow. */
static struct slub_cache *account_class[CLASS_BYTES_MAX / CLASS_STEP + 1] rarely_touched;

/* ---- the classes ---- */

/* Times that another thread's switch is waited for. */
#define SWITCH_TRIES 1000

static bool class_init(struct slub_cache *cache, const struct slub_cache *model)
{
	struct text name = { cache->name_space, SLUB_CACHE_NAME_MAX, 0 };

	text_printf(&name, "malloc-cg-%u", model->object_size);
	cache->name = cache->name_space;
	cache->size = model->size;
	cache->object_size = model->object_size;
	cache->align = model->align;
	cache->link = model->link;
	cache->flags = SLUB_ACCOUNT;
	cache->is_internal = true;
	cache->is_accounted = true;
	return cache_publish(cache, 0) == 0;
}

/* While blocks are sampled, and where lists keep no charges, none are found. */
static void sizes_fill(bool samples)
{
	for (size_t i = 0; i < ARRAY_SIZE(account_class); i++) {
		struct slub_cache *c = __atomic_load_n(
			&sizeclass_cache(i * CLASS_STEP)->accounted,
			__ATOMIC_ACQUIRE);
		uint8_t path = i * CLASS_STEP <= CLASS_WORD_MAX ?
				       ACCOUNT_WORD : ACCOUNT_PAGED;

		if (c && (samples || c->account_path != path))
			c = NULL;
		__atomic_store_n(&account_class[i], c, __ATOMIC_RELEASE);
	}
}

void account_sizes_fill(void)
{
	bool samples;

	/* Others may switch meanwhile, and fill before this one has. */
	do {
		samples = sample_is_on_at_all();
		sizes_fill(samples);
	} while (samples != sample_is_on_at_all());
}

/* Two threads may race for it. */
static cold struct slub_cache *class_make(struct slub_cache *model)
{
	struct slub_cache *cache = cache_struct_alloc(), *none = NULL;

	if (!cache)
		return NULL;
	if (!class_init(cache, model)) {
		cache_struct_free(cache);
		return NULL;
	}
	if (!__atomic_compare_exchange_n(&model->accounted, &none, cache, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		cache_drop_shadow(cache);
		return none;
	}
	for (unsigned int i = 0;
	     debug_cache_made(cache) == -EBUSY && i < SWITCH_TRIES; i++)
		sys_wait(i);
	account_sizes_fill();
	return cache;
}

struct slub_cache *sizeclass_accounted(struct slub_cache *cache)
{
	struct slub_cache *accounted = __atomic_load_n(&cache->accounted,
						       __ATOMIC_ACQUIRE);

	if (likely(accounted))
		return accounted;
	return slub_thread.locks_held ? NULL : class_make(cache);
}

/* ---- alloc ---- */

/* What a block of @bytes is charged with. */
static size_t charge_of(size_t bytes, size_t align)
{
	if (max_size(bytes, align) > CLASS_BYTES_MAX || align > PAGE_BYTES)
		return account_large_bytes(bytes);
	return align <= MALLOC_ALIGN ?
		       sizeclass_cache(bytes)->object_size :
		       sizeclass_aligned(bytes, align)->object_size;
}

/* False: it is a block that cannot have an owner. */
static bool set_owner(void *ptr, uint32_t owner)
{
	uint32_t entry = pagemap_get(ptr);
	struct slub_cache *cache;

	if (entry == MAP_LARGE) {
		large_set_owner(ptr, owner);
		return true;
	}
	cache = entry < MAP_SPECIAL_END ? NULL : cache_of_slot(entry);
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

static struct slub_cache *account_cache(size_t bytes)
{
	return account_class[(bytes + CLASS_STEP - 1) / CLASS_STEP];
}

/*
 * The list is empty, or the sequence was aborted.  Mostly there is a chain behind it,
 * and the charge is in the thread's stock.
 */
static __attribute__((__noinline__)) void *alloc_rest(size_t bytes)
{
	struct slub_cache *cache = account_cache(bytes);
	uint32_t owner = group_current();
	void *object;

	if (unlikely(!group_charge_fast(cache->object_size)))
		return slow_alloc(bytes);
	object = cache_alloc_sized(cache, bytes);
	account_end(cache, object, owner);
	return likely(object) ? object : slow_alloc(bytes);
}

static cold void *claim_slowly(struct slub_cache *cache, void *object,
			       uint32_t owner)
{
	object = account_claim(cache, object, owner);
	return object ? object : refuse();
}

/* It is somebody else's, as yet. */
static __attribute__((__noinline__)) void *
claim(struct slub_cache *cache, void *object, uint32_t owner, uint32_t *where)
{
	if (likely(account_hand_over(cache, where, owner)))
		return object;
	return claim_slowly(cache, object, owner);
}

/*
 * Classes of a page or more.  It keeps nothing over the sequence but @bytes, or it
 * would need a stack frame.
 */
static __attribute__((__noinline__)) void *alloc_paged(size_t bytes)
{
	uint32_t *where, owner;
	void *object;

	if (unlikely(bytes > CLASS_BYTES_MAX || !group_current() ||
		     !account_cache(bytes)))
		return slow_alloc(bytes);
	object = account_pop_paged(account_cache(bytes), &where);
	if (unlikely(!object))
		return alloc_rest(bytes);
	owner = group_current();
	if (unlikely(*where != (owner | OWNER_FREE)))
		return claim(account_cache(bytes), object, owner, where);
	*where = owner;
	return object;
}

SLUB_HOT void *slow_alloc_beyond(size_t bytes)
{
	uint32_t owner = group_current();
	struct slub_cache *cache;
	uint32_t *where;
	void *object;

	if (unlikely(bytes > CLASS_WORD_MAX))
		return alloc_paged(bytes);
	cache = account_cache(bytes);
	if (unlikely(!owner || !cache))
		return slow_alloc(bytes);
	object = account_pop_fast(cache);
	if (unlikely(!object))
		return alloc_rest(bytes);
	where = slab_owner(cache, object);
	if (likely(*where == owner))
		return object;
	return claim(cache, object, owner, where);
}

static __attribute__((__noinline__)) void
free_rest(void *ptr, struct slub_cache *cache)
{
	if (!account_free_rest(cache, ptr))
		slow_free(ptr);
}

SLUB_HOT void account_free_object(void *ptr, struct slub_cache *cache)
{
	if (likely(cache->account_path == ACCOUNT_WORD)) {
		if (!account_free_fast(cache, ptr, true))
			free_rest(ptr, cache);
	} else if (cache->account_path == ACCOUNT_SLOW) {
		slow_free(ptr);
	} else {
		free_rest(ptr, cache);
	}
}
