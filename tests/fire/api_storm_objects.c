/* SPDX-License-Identifier: MIT */
/*
 * api_storm: the rarer ways to get an object and to be rid of it; objects that move, that are
 * charged to groups, that are put aside, that are in pools and lists which all threads share.
 */
#include "api_storm.h"

#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>

#include <slub/qmempool.h>

/* ---- the C library's names ---- */

static void check_zero(const void *object, size_t size, const char *what)
{
	const char *bytes = object;

	if (!object && is_refused(what))
		return;
	if (bytes[0] || memcmp(bytes, bytes + 1, size - 1))
		fire_fail("%s: not all zero", what);
}

static void take_family(struct thread *t)
{
	size_t size = sizeof(struct head) + 8 + below(t, 5000), align = 16ul << below(t, 9);
	void *ptr = NULL, *old;

	switch (below(t, 6)) {
	case 0:
		ptr = calloc(1, size);
		check_zero(ptr, size, "calloc");
		break;
	case 1:
		ptr = memalign(align, size);
		break;
	case 2:
		is_refused_err(-posix_memalign(&ptr, align, size), "posix_memalign");
		break;
	case 3:
		ptr = pvalloc(size);
		break;
	case 4:
		ptr = aligned_alloc(align, size);
		break;
	case 5:
		old = malloc(10);
		ptr = reallocarray(old, 2, (size + 1) / 2);
		if (!ptr)
			free(old);
		break;
	}
	if (!ptr && is_refusing())
		return;
	if (malloc_usable_size(ptr) < size)
		fire_fail("%zu bytes usable of %zu", malloc_usable_size(ptr), size);
	object_keep(t, object_mark(t, ptr, size, NULL));
}

/* ---- the cache that all share ---- */

static void take_flags(struct thread *t)
{
	unsigned int flags = (below(t, 2) ? SLUB_ALLOC_ZERO : 0) |
		(below(t, 2) ? SLUB_ALLOC_RESERVE : 0) |
		(below(t, 2) ? SLUB_ALLOC_NO_RESERVE : 0);
	size_t size = slub_cache_size(shared);
	void *object;

	if (below(t, 2))
		object = slub_cache_alloc_node(shared, flags, below(t, 2) ? 0 : SLUB_NODE_ANY);
	else
		object = slub_cache_alloc_flags(shared, flags);
	if (!object && is_refused("slub_cache_alloc_node"))
		return;
	if (flags & SLUB_ALLOC_ZERO)
		check_zero(object, size, "SLUB_ALLOC_ZERO");
	if (slub_cache_of(object) != shared || slub_cache_stride(shared) < size ||
	    strcmp(slub_cache_name(shared), "storm-shared") || !slub_copy_allowed(object, size))
		fire_fail("an object of the shared cache is not known as such");
	object_keep(t, object_mark(t, object, size, shared));
	object = slub_cache_zalloc(shared);
	check_zero(object, size, "slub_cache_zalloc");
	slub_free(object);
}

static void take_prefill(struct thread *t)
{
	struct slub_prefill aside = { 0 };
	size_t size = slub_cache_size(shared), nr = below(t, 70), taken = below(t, nr + 1);

	if (is_refused_err(slub_cache_prefill(shared, &aside, nr), "slub_cache_prefill"))
		return;
	while (taken--) {
		struct head *head = object_mark(t, slub_prefill_alloc(&aside), size, shared);

		if (below(t, 2))
			object_keep(t, head);
		else
			object_free(head);
	}
	slub_prefill_return(&aside);
}

static void take_mixed(struct thread *t)
{
	void *some[20];
	size_t nr = below(t, 20);

	for (size_t i = 0; i < nr; i++) {
		size_t place = below(t, STORM_OBJECTS);

		some[i] = t->objects[place];
		t->objects[place] = NULL;
		if (some[i])
			object_check(some[i]);
	}
	slub_cache_free_bulk(NULL, nr, some);
}

static void take_sparse(struct thread *t)
{
	size_t place = below(t, STORM_OBJECTS);
	struct head *head = t->objects[place], *moved;

	if (!head || !slub_object_is_sparse(head))
		return;
	moved = slub_object_move(head);
	if (!moved)
		return;
	t->objects[place] = moved;
	object_check(moved);
	object_mark(t, moved, moved->size, moved->cache);
}

/* ---- objects that the library moves ---- */

enum { PLACES = 512, NOWHERE = PLACES };

/* Constructed: a free one is nowhere. */
struct nomad {
	_Atomic uint64_t place;
	uint64_t number[12];
};

static struct {
	atomic_bool taken;	/* nobody waits for it, so a child does not either */
	struct nomad *nomad;
} places[PLACES];

static struct slub_cache *nomads;

static void nomad_construct(void *object)
{
	atomic_store(&((struct nomad *)object)->place, (uint64_t)NOWHERE);
}

static bool place_take(size_t place)
{
	return !atomic_exchange(&places[place].taken, true);
}

static void place_leave(size_t place)
{
	atomic_store(&places[place].taken, false);
}

static void nomads_isolate(struct slub_cache *cache, void **objects, size_t nr, void *arg)
{
	(void)cache, (void)arg;
	for (size_t i = 0; i < nr; i++) {
		size_t place = atomic_load(&((struct nomad *)objects[i])->place);

		if (place >= PLACES || !place_take(place)) {
			objects[i] = NULL;
		} else if (places[place].nomad != objects[i]) {
			place_leave(place);
			objects[i] = NULL;
		}
	}
	if (nr % 4 == 0)
		free(malloc(nr));
}

static int nomad_migrate(struct slub_cache *cache, void *from, void *to, void *arg)
{
	struct nomad *old = from, *new = to;
	size_t place = atomic_load(&old->place);
	int result = (int)(old->number[0] % 4);

	(void)cache, (void)arg;
	if (places[place].nomad != old)
		fire_fail("what is to be moved is not where it was");
	if (atomic_load(&new->place) != NOWHERE)
		fire_fail("a new place is not a free object");
	if (result != SLUB_MIGRATE_FAILED) {
		memcpy(new->number, old->number, sizeof(new->number));
		atomic_store(&new->place, place);
		atomic_store(&old->place, (uint64_t)NOWHERE);
		places[place].nomad = new;
		if (result == SLUB_MIGRATED_FREE_LATER)
			slub_free_deferred(old);
		else
			result = SLUB_MIGRATED;
	}
	place_leave(place);
	return result;
}

static void nomad_drop(size_t place)
{
	struct nomad *nomad = places[place].nomad;

	if (!nomad)
		return;
	for (int i = 0; i < 12; i++)
		if (nomad->number[i] != nomad->number[0])
			fire_fail("a moved object has changed");
	if (atomic_load(&nomad->place) != place)
		fire_fail("an object is at another place");
	places[place].nomad = NULL;
	atomic_store(&nomad->place, (uint64_t)NOWHERE);
	slub_cache_free(nomads, nomad);
}

static void nomad_settle(struct thread *t, size_t place)
{
	struct nomad *nomad = slub_cache_alloc(nomads);

	if (!nomad && is_refused("a nomad"))
		return;
	for (int i = 0; i < 12; i++)
		nomad->number[i] = t->random;
	if (atomic_exchange(&nomad->place, place) != NOWHERE)
		fire_fail("a free object was at a place");
	places[place].nomad = nomad;
}

static void take_nomads(struct thread *t)
{
	long moved = 0;

	for (size_t i = below(t, 100); i; i--) {
		size_t place = below(t, PLACES);

		if (!place_take(place))
			continue;
		if (places[place].nomad)
			nomad_drop(place);
		else
			nomad_settle(t, place);
		place_leave(place);
	}
	if (!below(t, 10))
		moved = slub_cache_defrag(nomads, 100);
	/* Or somebody else has taken the functions away for a moment, or does. */
	if (moved < 0)
		check_is(moved, -EOPNOTSUPP, -EBUSY, "slub_cache_defrag");
	if (!below(t, 20)) {
		check_is(slub_cache_setup_mobility(nomads, NULL, NULL, NULL), 0, 0,
			 "no more moves");
		check_is(slub_cache_setup_mobility(nomads, nomads_isolate, nomad_migrate, NULL), 0,
			 0, "slub_cache_setup_mobility");
	}
}

/* ---- pools, queues and lists, of which all share some ---- */

static void take_pool(struct thread *t)
{
	void *some[12];
	size_t nr = below(t, 12);

	if (!t->pool)
		t->pool = below(t, 2) ? slub_mempool_create_malloc(4, 100) :
					slub_mempool_create_slab(4, shared);
	if (!t->pool && is_refused("slub_mempool_create"))
		return;
	for (size_t i = 0; i < nr; i++)
		if (!(some[i] = slub_mempool_alloc(t->pool, 0)) && is_refused("a pool"))
			nr = i;
	is_refused_err(slub_mempool_resize(t->pool, 1 + below(t, 20)), "slub_mempool_resize");
	for (size_t i = 0; i < nr; i++)
		slub_mempool_free(t->pool, some[i]);
	if (!below(t, 8)) {
		check_is(slub_mempool_destroy(t->pool), 0, 0, "slub_mempool_destroy");
		t->pool = NULL;
	}
}

static struct slub_mempool *pool;
static struct slub_qmempool *queue;
static uintptr_t list;
static atomic_long listed;

static void *element_new(unsigned int flags, void *data)
{
	static _Thread_local unsigned int turn;

	(void)flags, (void)data;
	return pool && ++turn % 3 ? NULL : malloc(120);
}

static void element_free(void *element, void *data)
{
	(void)data;
	free(element);
}

/* Nobody has an element while he waits for another one. */
static void take_shared_pool(struct thread *t)
{
	struct slub_mempool_stats stats;
	void *some[3];
	void *element;

	/* In a child the elements of other threads are lost. */
	element = slub_mempool_alloc(pool, t->is_child ? 0 : SLUB_POOL_WAIT);
	if (!element && !t->is_child)
		fire_fail("nothing from a pool that is waited for");
	if (element) {
		fire_stamp(element, 120, t->random);
		fire_unstamp(element, 120, t->random, "pool");
	}
	slub_mempool_free(pool, element);
	if (below(t, 2) && slub_mempool_alloc_bulk(pool, 0, 3, some))
		slub_mempool_free_bulk(pool, 3, some);
	element = slub_mempool_alloc_reserved(pool);
	slub_mempool_free(pool, element);
	if (!below(t, 30))
		slub_mempool_resize(pool, 3 + below(t, 10));
	check_is(slub_mempool_stats(pool, &stats), 0, 0, "slub_mempool_stats");
	if (stats.refused)
		fire_fail("a pool refused what is its own");
}

static void take_queue(struct thread *t)
{
	struct slub_qmempool *own = below(t, 8) ? NULL :
				    slub_qmempool_create(16, 32, 8, shared, 0);
	struct slub_qmempool *from = own ? own : queue;
	struct head *head = slub_qmempool_alloc(from, 0);

	if (!object_mark(t, head, slub_cache_size(shared), shared))
		goto out;
	object_check(head);
	if (below(t, 2))
		slub_qmempool_free(from, head);
	else
		object_keep(t, object_mark(t, head, slub_cache_size(shared), shared));
out:
	if (own)
		check_is(slub_qmempool_destroy(own), 0, 0, "slub_qmempool_destroy");
}

static void take_list(struct thread *t)
{
	void *next, *chain = NULL;

	for (size_t i = below(t, 20); i; i--) {
		void *object = malloc(64);

		if (!object && is_refused("what is to be listed"))
			break;
		atomic_fetch_add(&listed, 1);
		if (!slub_percpu_push(list, object, 40)) {
			free(object);
			atomic_fetch_sub(&listed, 1);
		}
	}
	for (size_t i = below(t, 20); i; i--) {
		void *object = slub_percpu_pop(list);

		if (!object)
			break;
		free(object);
		atomic_fetch_sub(&listed, 1);
	}
	if (!below(t, 20))
		chain = slub_percpu_list_drain(list);
	for (; chain; chain = next) {
		next = *(void **)chain;
		free(chain);
		atomic_fetch_sub(&listed, 1);
	}
}

/* ---- objects with owners ---- */

static struct slub_cache *accounted;
static struct slub_bucket *bucket;

static void take_accounted(struct thread *t)
{
	bool inside = t->group && !slub_group_enter(t->group);
	size_t size = slub_cache_size(accounted);

	for (size_t i = below(t, 30); i; i--) {
		object_keep(t, object_mark(t, slub_cache_alloc(accounted), size, accounted));
		if (below(t, 2))
			take_free(t);
	}
	if (!below(t, 10))
		check_is(slub_cache_group_set(accounted, below(t, 2) ? t->group : NULL), 0, 0,
			 "slub_cache_group_set");
	if (!below(t, 10))
		check_is(slub_bucket_group_set(bucket, below(t, 2) ? t->group : NULL), 0, 0,
			 "slub_bucket_group_set");
	if (inside)
		check_is(slub_group_leave(t->group), 0, 0, "slub_group_leave");
}

static void take_shared_bucket(struct thread *t)
{
	size_t size = sizeof(struct head) + 8 + below(t, 3000);
	struct slub_bucket_stats stats;
	struct head *head;
	void *block;

	block = slub_bucket_calloc(bucket, 1, size);
	check_zero(block, size, "slub_bucket_calloc");
	if (block) {
		head = object_mark(t, block, size, NULL);
		size += below(t, 3000);
		block = slub_bucket_realloc(bucket, head, size);
		object_keep(t, object_resize(t, head, block, size));
	}
	block = slub_bucket_aligned_alloc(bucket, 1ul << (3 + below(t, 9)), size);
	slub_bucket_free(bucket, object_mark(t, block, size, NULL));
	if (!below(t, 30))
		check_is(slub_bucket_stats(bucket, &stats), 0, -EAGAIN, "slub_bucket_stats");
}

/* Caches of one shape, which SLUB_MERGE=1 makes one. */
static void take_alike(struct thread *t)
{
	static atomic_uint serial;
	char name[SLUB_CACHE_NAME_MAX + 1];
	struct slub_cache *cache;
	struct head *some[8];
	size_t nr = below(t, 9);

	snprintf(name, sizeof(name), "alike-%u", atomic_fetch_add(&serial, 1));
	cache = slub_cache_create(name, 328 - 8 * below(t, 2), 0, 0, NULL);
	if (!cache && is_refused("a cache like another"))
		return;
	for (size_t i = 0; i < nr; i++)
		some[i] = object_mark(t, slub_cache_alloc(cache), slub_cache_size(cache), cache);
	slub_cache_alias(cache, (unsigned int)below(t, 3), name);
	while (nr)
		object_free(some[--nr]);
	/* Where memory is refused it may take some attempts. */
	while (!is_destroyed(t, slub_cache_destroy(cache), "destroying one like another") &&
	       is_refusing() && !t->is_child)
		sched_yield();
}

const struct step object_steps[] = {
	{ "family", take_family, 40 },	{ "flags", take_flags, 30 },
	{ "prefill", take_prefill, 20 }, { "mixed", take_mixed, 15 },
	{ "sparse", take_sparse, 60 },	{ "nomads", take_nomads, 20 },
	{ "shared_pool", take_shared_pool, 30 }, { "queue", take_queue, 10 },
	{ "list", take_list, 20 },	{ "accounted", take_accounted, 20 },
	{ "shared_bucket", take_shared_bucket, 20 }, { "alike", take_alike, 8 },
	{ "pool", take_pool, 30 },
	{ NULL, NULL, 0 },
};

void objects_start(void)
{
	nomads = slub_cache_create("storm-nomads", sizeof(struct nomad), 0, SLUB_CACHE_NO_MERGE,
				   nomad_construct);
	accounted = slub_cache_create("storm-accounted", 150, 0, SLUB_CACHE_ACCOUNT |
			SLUB_CACHE_NO_MERGE,
				      NULL);
	bucket = slub_bucket_create("storm-bucket", SLUB_CACHE_ACCOUNT);
	pool = slub_mempool_create(3, element_new, element_free, NULL);
	queue = slub_qmempool_create(32, 64, 16, shared, 0);
	list = slub_percpu_alloc(sizeof(struct slub_percpu_list), SLUB_PERCPU_LIST_ALIGN);
	slub_cache_setup_mobility(nomads, nomads_isolate, nomad_migrate, NULL);
	if (!nomads || !accounted || !bucket || !pool || !queue || !list)
		fire_fail("no things for all, errno %d", errno);
}

void objects_end(void)
{
	void *next, *chain = slub_percpu_list_drain(list);

	for (; chain; chain = next) {
		next = *(void **)chain;
		free(chain);
		atomic_fetch_sub(&listed, 1);
	}
	check_is(atomic_load(&listed), 0, 0, "objects in a list of the CPUs");
	check_is(slub_percpu_free(list), 0, 0, "slub_percpu_free");
	for (size_t place = 0; place < PLACES; place++)
		nomad_drop(place);
	check_is(slub_cache_destroy(nomads), 0, 0, "destroying the nomads' cache");
	check_is(slub_cache_destroy(accounted), 0, 0, "destroying the accounted cache");
	check_is(slub_bucket_destroy(bucket), 0, 0, "destroying the bucket for all");
	check_is(slub_mempool_destroy(pool), 0, 0, "destroying the pool for all");
	pool = NULL;
	check_is(slub_qmempool_destroy(queue), 0, 0, "destroying the queue for all");
}
