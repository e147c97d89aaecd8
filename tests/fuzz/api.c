/* SPDX-License-Identifier: MIT */
/*
 * Random programs of calls of the library's own interface against a model: typed caches and
 * their bulk calls, objects that are put aside, that move, that are freed when readers have
 * left; groups, shrinkers, pools, buckets, per-CPU memory; debugging on and off.  Calls that the
 * headers refuse must be refused in their words.  When an input has ended, all of it can be
 * given back.
 */
#include "api.h"

enum { CALLS_MAX = 1000, STAMPED = 64, CONSTRUCTED = 16, CTOR_BYTE = 0xc5 };

struct object objects[NR_OBJECTS];
size_t live_bytes;
static unsigned int next_seed;
int readers;	/* sections of slub_rcu_domain that are open */
static int reader_index[4];

/* ---- objects ---- */

struct object *object_any(struct input *in)
{
	return &objects[take_below(in, NR_OBJECTS)];
}

static unsigned char stamp(const struct object *object, size_t at)
{
	return (unsigned char)(at * 131 + (at >> 8) * 17 + object->seed);
}

/* The @i-th place that is looked at: of a large one both ends and some between. */
static size_t place(const struct object *object, size_t i)
{
	if (object->size <= 1024 || i < STAMPED)
		return i;
	if (i < 2 * STAMPED)
		return object->size - 1 - (i - STAMPED);
	return object->size / STAMPED * (i - 2 * STAMPED) + object->size / 128;
}

static size_t nr_places(const struct object *object)
{
	return object->size <= 1024 ? object->size : 3 * STAMPED;
}

static bool is_constructed(const struct object *object)
{
	return object->home == HOME_CACHE && caches[object->owner].is_constructed;
}

void object_check(const struct object *object)
{
	for (size_t i = 0; object->ptr && i < nr_places(object); i++) {
		size_t at = place(object, i);

		if (object->ptr[at] != stamp(object, at))
			broken("object of %zu bytes at %p: byte %zu changed", object->size,
			       (void *)object->ptr, at);
	}
}

void object_enter(struct object *object, void *ptr, size_t size, enum home home,
		  unsigned int owner)
{
	*object = (struct object){ ptr, size, home, owner, next_seed++ };
	if (!ptr)
		return;
	expect((uintptr_t)ptr % 8 == 0);
	for (int i = 0; i < NR_OBJECTS; i++) {
		const struct object *other = &objects[i];

		if (other != object && other->ptr && other->ptr < object->ptr + size &&
		    object->ptr < other->ptr + other->size)
			broken("objects of %zu and %zu bytes overlap at %p", size, other->size,
			       ptr);
	}
	for (size_t i = 0; is_constructed(object) && i < CONSTRUCTED; i++)
		expect(object->ptr[i] == CTOR_BYTE);
	live_bytes += size;
	for (size_t i = 0; i < nr_places(object); i++) {
		size_t at = place(object, i);

		object->ptr[at] = stamp(object, at);
	}
}

void *object_take(struct object *object)
{
	void *ptr = object->ptr;

	object_check(object);
	if (ptr && is_constructed(object))
		memset(ptr, CTOR_BYTE, CONSTRUCTED);
	if (ptr)
		live_bytes -= object->size;
	object->ptr = NULL;
	return ptr;
}

bool is_refused(const void *ptr)
{
	if (ptr)
		return false;
	if (errno != ENOMEM || !groups_may_refuse())
		broken("refused with errno %d, %zu bytes live", errno, live_bytes);
	return true;
}

/* What any object may be freed by. */
static void free_by(void *ptr, unsigned int way)
{
	switch (way % 5) {
	case 0:
		tested_free(ptr);
		break;
	case 1:
		slub_free(ptr);
		break;
	case 2:
		slub_cache_free_bulk(NULL, 1, &ptr);
		break;
	case 3:
		slub_free_deferred(ptr);
		break;
	default:
		expect(tested_realloc(ptr, 0) == NULL || !ptr);
		break;
	}
}

static void cache_free(unsigned int index, void *ptr, unsigned int way)
{
	struct slub_cache *cache = caches[index].cache;

	switch (way % 8) {
	case 0 ... 3:
		slub_cache_free(cache, ptr);
		break;
	case 4:
		(slub_cache_free)(cache, ptr);
		break;
	case 5:
		slub_cache_free_bulk(cache, 1, &ptr);
		break;
	default:
		free_by(ptr, way / 8);
		break;
	}
}

void object_free(struct object *object, unsigned int way)
{
	void *ptr = object_take(object);
	int before = errno = 4711;

	if (!ptr)
		return;
	switch (object->home) {
	case HOME_MALLOC:
		free_by(ptr, way);
		break;
	case HOME_CACHE:
		cache_free(object->owner, ptr, way);
		break;
	case HOME_BUCKET:
		bucket_free(object->owner, ptr, way);
		break;
	case HOME_POOL:
		pool_free(object->owner, ptr);
		break;
	}
	expect(errno == before);
}

/* ---- what concerns all ---- */

static void call_malloc(struct input *in)
{
	struct object *object = object_any(in);
	size_t size = take_number(in, 1 + take_below(in, 2)) + 1;

	if (take_below(in, 8) == 0)
		size <<= 5;
	object_free(object, take_byte(in));
	if (live_bytes + size <= LIVE_BYTES_MAX) {
		errno = 0;
		object_enter(object, tested_malloc(size), size, HOME_MALLOC, 0);
		is_refused(object->ptr);
	}
}

/* A section that is open would be waited for by its own thread. */
static void call_readers(struct input *in)
{
	switch (take_below(in, 4)) {
	case 0 ... 1:
		if (readers < 4)
			reader_index[readers++] = slub_srcu_read_lock(&slub_rcu_domain);
		break;
	case 2:
		if (readers)
			slub_srcu_read_unlock(&slub_rcu_domain, reader_index[--readers]);
		break;
	default:
		if (!readers)
			slub_deferred_barrier();
		break;
	}
}

static void call_debug(struct input *in)
{
	static const char *const settings[] = {
		"FZPU,malloc-64", "-,malloc-64", "F,fuzz*", "-,fuzz*", "ZP,fuzz*", "U,malloc-96",
		"-", "x,fuzz*", "FZPU", ";;,", "-,*",
	};
	const char *setting = settings[take_below(in, 11)];
	int changed = slub_debug(setting);

	expect(changed >= 0 || changed == -EBUSY || (*setting == 'x' && changed == -EINVAL));
	expect(!slub_validate_all());
}

static void call_whole(struct input *in)
{
	switch (take_below(in, 8)) {
	case 0:
		tested_malloc_trim(take_number(in, 3));
		break;
	case 1:
		call_debug(in);
		break;
	case 2:
		expect(!slub_reserve_set(take_number(in, 2) << 5));
		break;
	case 3:
		slub_reserve_enter();
		slub_reserve_leave();
		break;
	default:
		call_readers(in);
		break;
	}
}

static void call_move(struct input *in)
{
	struct object *object = object_any(in);
	void *moved;

	if (!object->ptr || object->home == HOME_POOL || !slub_object_is_sparse(object->ptr))
		return;
	moved = slub_object_move(object->ptr);
	if (moved)
		object->ptr = moved;
	object_check(object);
}

static void call(struct input *in)
{
	switch (take_below(in, 32)) {
	case 0 ... 3:
		call_malloc(in);
		break;
	case 4 ... 8:
		object_free(object_any(in), take_byte(in));
		break;
	case 9:
		call_move(in);
		break;
	case 10 ... 11:
		call_whole(in);
		break;
	case 12 ... 20:
		caches_call(in);
		break;
	case 21 ... 25:
		groups_call(in);
		break;
	default:
		pools_call(in);
		break;
	}
}

static void end(void)
{
	while (readers)
		slub_srcu_read_unlock(&slub_rcu_domain, reader_index[--readers]);
	for (int i = 0; i < NR_OBJECTS; i++)
		object_free(&objects[i], 0);
	expect(!live_bytes);
	slub_debug("-,*");
	slub_deferred_barrier();
	expect(!slub_deferred_pending());
	pools_end();
	caches_end();
	groups_end();
	expect(!slub_reserve_set(0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	for (int i = 0; in.left && i < CALLS_MAX; i++)
		call(&in);
	end();
	return 0;
}
