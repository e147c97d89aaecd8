/* SPDX-License-Identifier: MIT */
/* The API's target: typed caches, and objects that are put aside. */
#include "api.h"

enum { NR_PREFILLS = 3, BULK_MAX = 40, CTOR_BYTES = 16, CTOR_BYTE = 0xc5 };

struct cache caches[NR_CACHES];
static struct slub_prefill prefills[NR_PREFILLS];
static const char *const names[NR_CACHES] = {
	"fuzz-0", "fuzz-1", "fuzz-2", "fuzz-3", "fuzz-4", "fuzz-5",
};

SLUB_CACHE_DEFINE_STATIC(defined, struct { char bytes[72]; }, 0, NULL);

static void construct(void *object)
{
	memset(object, CTOR_BYTE, CTOR_BYTES);
}

static struct cache *cache_any(struct input *in)
{
	return &caches[take_below(in, NR_CACHES)];
}

static unsigned int index_of(const struct cache *cache)
{
	return (unsigned int)(cache - caches);
}

/* ---- make and destroy ---- */

static size_t take_size(struct input *in)
{
	switch (take_below(in, 8)) {
	case 0 ... 3:
		return take_byte(in) + CTOR_BYTES;
	case 4 ... 6:
		return take_number(in, 2) % 9000 + CTOR_BYTES;
	default:
		return take_number(in, 3) % SLUB_CACHE_SIZE_MAX + 1;
	}
}

static bool has_place(const struct slub_cache_args *args)
{
	return !args->has_free_pointer_offset ||
	       (args->free_pointer_offset % 8 == 0 &&
		args->free_pointer_offset + 8 <= args->size &&
		args->free_pointer_offset < 4096);
}

static void take_args(struct input *in, struct slub_cache_args *args)
{
	static const unsigned long flags[] = {
		0, SLUB_CACHE_HWCACHE_ALIGN, SLUB_CACHE_TYPESAFE_BY_RCU, SLUB_CACHE_ACCOUNT,
		SLUB_CACHE_RECLAIM_ACCOUNT, SLUB_CACHE_CONSISTENCY_CHECKS, SLUB_CACHE_RED_ZONE,
				SLUB_CACHE_POISON,
		SLUB_CACHE_STORE_USER,
	};

	args->size = take_size(in);
	args->align = (size_t)1 << take_below(in, 13);
	args->flags = SLUB_CACHE_NO_MERGE | flags[take_below(in, 9)] | flags[take_below(in, 9)];
	args->sheaf_length = take_below(in, 4) ? 0 : take_byte(in);
	if (take_below(in, 4) == 0 && args->size >= CTOR_BYTES)
		args->ctor = construct;
	if (take_below(in, 8) == 0) {
		args->has_free_pointer_offset = true;
		args->free_pointer_offset = take_number(in, 2) % (args->size + 8);
		/* Where the constructor does not care. */
		if (args->ctor)
			args->free_pointer_offset |= CTOR_BYTES;
	}
	if (take_below(in, 8) == 0) {
		args->useroffset = take_byte(in);
		args->usersize = take_byte(in);
	}
}

/* One wrong thing, and what it is refused with. */
static void create_wrongly(struct input *in, struct slub_cache_args args)
{
	int error = EINVAL;

	switch (take_below(in, 7)) {
	case 0:
		args.name = "";
		break;
	case 1:
		args.name = "a blank";
		break;
	case 2:
		args.size = 0;
		break;
	case 3:
		args.size = SLUB_CACHE_SIZE_MAX + 1 + take_byte(in);
		break;
	case 4:
		args.align = 3 + 2 * take_byte(in);
		break;
	case 5:
		args.flags |= 1ul << (20 + take_below(in, 40));
		break;
	default:
		for (unsigned int i = 0; i < NR_CACHES; i++) {
			if (!caches[i].cache)
				continue;
			args.name = names[i];
			error = EEXIST;
		}
		if (error == EINVAL)
			args.align = 8192;
		break;
	}
	expect(!slub_cache_create_args(&args) && errno == error);
}

static void call_create(struct input *in)
{
	struct cache *cache = cache_any(in);
	struct slub_cache_args args = { .name = names[index_of(cache)] };
	bool is_possible;

	take_args(in, &args);
	is_possible = has_place(&args) && args.useroffset + args.usersize <= args.size;
	if (is_possible && take_below(in, 16) == 0) {
		create_wrongly(in, args);
		return;
	}
	if (cache->cache)
		return;
	*cache = (struct cache){ slub_cache_create_args(&args), args.size, args.ctor, false };
	expect(is_possible ? !!cache->cache : !cache->cache && errno == EINVAL);
	if (!cache->cache)
		return;
	expect(slub_cache_size(cache->cache) == args.size);
	expect(slub_cache_stride(cache->cache) >= args.size);
	expect(!strcmp(slub_cache_name(cache->cache), args.name));
}

/* Objects of it that the program has, here and in prefills. */
static size_t nr_live(const struct cache *cache)
{
	size_t nr = 0;

	for (int i = 0; i < NR_OBJECTS; i++)
		nr += objects[i].ptr && slub_cache_of(objects[i].ptr) == cache->cache;
	for (int i = 0; i < NR_PREFILLS; i++)
		nr += prefills[i].cache == cache->cache ? prefills[i].nr : 0;
	return nr;
}

static void call_destroy(struct input *in)
{
	struct cache *cache = cache_any(in);
	struct slub_cache *gone = cache->cache;
	int error;

	if (!gone)
		return;
	/* The elements of a pool are objects too. */
	error = slub_cache_destroy(gone);
	expect(error == -EBUSY || (error == -EDEADLK && readers) ||
	       (!error && !readers && !nr_live(cache)));
	if (error)
		return;
	*cache = (struct cache){ NULL, 0, false, false };
	for (int i = 0; i < NR_PREFILLS; i++)
		if (prefills[i].cache == gone)
			prefills[i] = (struct slub_prefill){ NULL, NULL, 0 };
	expect(slub_cache_destroy(gone) == -EINVAL);
	expect(!slub_cache_alloc(gone) && errno == EINVAL);
	expect(!slub_cache_shrink(gone));
	expect(slub_cache_validate(gone) == -EINVAL);
}

/* ---- objects ---- */

static void *alloc_by(const struct cache *cache, unsigned int way)
{
	void *object;

	switch (way % 8) {
	case 0 ... 3:
		return slub_cache_alloc(cache->cache);
	case 4:
		return (slub_cache_alloc)(cache->cache);
	case 5:
		return slub_cache_alloc_node(cache->cache, 0, way & 64 ? 0 : SLUB_NODE_ANY);
	case 6:
		return slub_cache_alloc_flags(cache->cache,
					      way & 64 ? SLUB_ALLOC_NO_RESERVE :
							SLUB_ALLOC_RESERVE);
	default:
		object = slub_cache_zalloc(cache->cache);
		if (cache->is_constructed) {
			expect(!object && errno == EINVAL);
			return slub_cache_alloc(cache->cache);
		}
		for (size_t i = 0; object && i < cache->size; i++)
			expect(!((char *)object)[i]);
		return object;
	}
}

static void call_alloc(struct input *in)
{
	struct cache *cache = cache_any(in);
	struct object *object = object_any(in);
	unsigned int way = take_byte(in);

	object_free(object, way / 8);
	if (!cache->cache || live_bytes + cache->size > LIVE_BYTES_MAX)
		return;
	errno = 0;
	object_enter(object, alloc_by(cache, way), cache->size, HOME_CACHE, index_of(cache));
	if (is_refused(object->ptr))
		return;
	expect(slub_cache_of(object->ptr) == cache->cache);
}

static void call_bulk(struct input *in)
{
	struct cache *cache = cache_any(in);
	void *some[BULK_MAX];
	size_t nr = take_below(in, BULK_MAX + 1), done, at = 0;
	bool stay = take_below(in, 2);

	if (!cache->cache || live_bytes + nr * cache->size > LIVE_BYTES_MAX)
		return;
	errno = 0;
	done = slub_cache_alloc_bulk(cache->cache, 0, nr, some);
	if (done != nr) {
		expect(!done);
		is_refused(NULL);
		return;
	}
	for (int i = 0; stay && i < NR_OBJECTS && at < nr; i++)
		if (!objects[i].ptr)
			object_enter(&objects[i], some[at++], cache->size, HOME_CACHE,
				     index_of(cache));
	slub_cache_free_bulk(take_below(in, 2) ? cache->cache : NULL, nr - at, some + at);
}

/* Objects of any home but a pool's. */
static void call_free_bulk(struct input *in)
{
	struct cache *cache = cache_any(in);
	void *some[BULK_MAX];
	size_t nr = take_below(in, BULK_MAX), used = 0;

	for (size_t i = 0; i < nr; i++) {
		struct object *object = object_any(in);

		if (object->home != HOME_POOL)
			some[used++] = object_take(object);
	}
	slub_cache_free_bulk(take_below(in, 2) ? cache->cache : NULL, used, some);
}

static void call_prefill(struct input *in)
{
	struct slub_prefill *prefill = &prefills[take_below(in, NR_PREFILLS)];
	struct cache *cache = cache_any(in);
	struct object *object = object_any(in);
	size_t nr = take_byte(in), had = prefill->nr;
	int error;

	if (take_below(in, 4) == 0)
		slub_prefill_return(prefill);
	if (take_below(in, 2) && cache->cache && nr * cache->size < LIVE_BYTES_MAX / 4) {
		bool is_other = prefill->nr && prefill->cache != cache->cache;

		errno = 0;
		had = prefill->nr;
		error = slub_cache_prefill(cache->cache, prefill, nr);
		expect(!is_other || error == -EINVAL);
		if (!error)
			expect(prefill->nr >= nr && prefill->nr >= had);
		if (error == -ENOMEM)
			expect(groups_may_refuse() && !prefill->nr);
		return;
	}
	object_free(object, 0);
	had = prefill->nr;
	for (unsigned int i = 0; had && i < NR_CACHES; i++) {
		if (caches[i].cache != prefill->cache ||
		    live_bytes + caches[i].size > LIVE_BYTES_MAX)
			continue;
		object_enter(object, slub_prefill_alloc(prefill), caches[i].size, HOME_CACHE, i);
		expect(object->ptr && prefill->nr == had - 1);
		return;
	}
	expect(had || !slub_prefill_alloc(prefill));
}

/* ---- looks ---- */

static int visit(void *object, void *arg)
{
	expect(object);
	++*(size_t *)arg;
	return 0;
}

static void call_look(struct input *in)
{
	struct cache *cache = cache_any(in);
	struct slub_cache_stats stats;
	size_t nr = 0;

	if (!cache->cache)
		return;
	switch (take_below(in, 5)) {
	case 0:
		expect(!slub_cache_for_each_object(cache->cache, visit, &nr));
		expect(nr >= nr_live(cache));
		break;
	case 1:
		expect(slub_cache_shrink(cache->cache) <= 1);
		break;
	case 2:
		expect(slub_cache_validate(cache->cache) <= 0);
		break;
	case 3:
		expect(!slub_cache_stats(cache->cache, &stats));
		expect(stats.objects >= nr_live(cache) && !stats.double_free);
		break;
	default:
		slub_cache_debug(cache->cache, (unsigned long)take_below(in, 16) << 8);
		break;
	}
}

/* ---- objects that move ---- */

static struct object *object_at(const void *ptr)
{
	for (int i = 0; i < NR_OBJECTS; i++)
		if (objects[i].ptr == ptr && objects[i].home == HOME_CACHE)
			return &objects[i];
	return NULL;
}

static void isolate(struct slub_cache *cache, void **some, size_t nr, void *arg)
{
	(void)cache, (void)arg;
	for (size_t i = 0; i < nr; i++)
		if (!object_at(some[i]))
			some[i] = NULL;
}

static int migrate(struct slub_cache *cache, void *from, void *to, void *arg)
{
	struct object *object = object_at(from);
	size_t size = slub_cache_size(cache);

	(void)arg;
	expect(object);
	object_check(object);
	/* Refused at times, by what the object happens to be. */
	if (object->seed % 8 == 0)
		return SLUB_MIGRATE_FAILED;
	memcpy(to, from, size);
	object->ptr = to;
	if (caches[object->owner].is_constructed)
		memset(from, CTOR_BYTE, CTOR_BYTES);
	return SLUB_MIGRATED;
}

static void call_defrag(struct input *in)
{
	struct cache *cache = cache_any(in);
	unsigned int fill = take_below(in, 128);
	long done;

	if (!cache->cache)
		return;
	if (take_below(in, 3) == 0) {
		cache->moves = take_below(in, 4);
		expect(!slub_cache_setup_mobility(cache->cache, cache->moves ? isolate : NULL,
						  cache->moves ? migrate : NULL, NULL));
	}
	done = slub_cache_defrag(cache->cache, fill);
	expect(fill > 100 ? done == -EINVAL : cache->moves ? done >= 0 : done == -EOPNOTSUPP);
	if (take_below(in, 4) == 0)
		expect(slub_defrag_all(100) >= 0);
}

static void call_defined(void)
{
	void *object;

	errno = 0;
	object = slub_cache_alloc(&defined);
	if (is_refused(object))
		return;
	memset(object, 1, 72);
	slub_cache_free(&defined, object);
}

void caches_call(struct input *in)
{
	switch (take_below(in, 24)) {
	case 0 ... 3:
		call_create(in);
		break;
	case 4:
		call_destroy(in);
		break;
	case 5 ... 12:
		call_alloc(in);
		break;
	case 13 ... 14:
		call_bulk(in);
		break;
	case 15:
		call_free_bulk(in);
		break;
	case 16 ... 18:
		call_prefill(in);
		break;
	case 19 ... 20:
		call_look(in);
		break;
	case 21 ... 22:
		call_defrag(in);
		break;
	default:
		call_defined();
		break;
	}
}

void caches_end(void)
{
	for (int i = 0; i < NR_PREFILLS; i++) {
		slub_prefill_return(&prefills[i]);
		prefills[i] = (struct slub_prefill){ NULL, NULL, 0 };
	}
	for (int i = 0; i < NR_CACHES; i++) {
		expect(!slub_cache_destroy(caches[i].cache));
		caches[i] = (struct cache){ NULL, 0, false, false };
	}
	expect(slub_cache_destroy(&defined) != -EBUSY);
}
