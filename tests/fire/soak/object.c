/* SPDX-License-Identifier: MIT */
/*
 * soak: one object from allocation to free.  All of it is stamped with words that only this
 * object has, and looked at before it is freed; what is found instead is said in the message.
 */
#include "soak.h"

#include <malloc.h>

#define FACTOR 0x9e3779b97f4a7c15ull
#define STEP 0xd1342543de82ef95ull
#define CONSTRUCTED 0x636f6e7374727563ull
#define SERIAL_BITS 40

enum { SIZES = 256, KINDS = 64 };

static const struct {
	const char *name;
	size_t size, align;
	unsigned long flags;
} shapes[SOAK_CACHES] = {
	{ "soak-24", 24, 0, SLUB_CACHE_NO_MERGE },
	{ "soak-64", 64, 0, SLUB_CACHE_HWCACHE_ALIGN | SLUB_CACHE_NO_MERGE },
	{ "soak-96", 96, 0, SLUB_CACHE_ACCOUNT | SLUB_CACHE_NO_MERGE },
	{ "soak-48", 48, 0, SLUB_CACHE_NO_MERGE },
	{ "soak-328", 328, 0, SLUB_CACHE_TYPESAFE_BY_RCU | SLUB_CACHE_NO_MERGE },
	{ "soak-1100", 1100, 128, SLUB_CACHE_NO_MERGE },
};

struct slub_cache *soak_caches[SOAK_CACHES];
struct slub_bucket *soak_bucket;
static uint16_t sizes[SIZES];
static uint8_t kinds[KINDS];

/* ---- stamps ---- */

static inline uint64_t first_word(uint64_t id)
{
	return id * FACTOR;
}

/*
 * The last eight bytes of a stamp of @size bytes that are no whole words, between the words
 * @before and @after: they overlap with what the words have written or checked.
 */
static inline uint64_t last_bytes(uint64_t before, uint64_t after, size_t size)
{
	unsigned int bits = size % 8 * 8;

	return before >> bits | after << (64 - bits);
}

void object_stamp(const struct object *object)
{
	uint64_t word = first_word(object->id), *words = object->start;
	size_t size = object->size, count = size / 8;

	for (size_t i = 0; i < count; i++, word += STEP)
		words[i] = word;
	if (size % 8) {
		word = last_bytes(word - STEP, word, size);
		memcpy((char *)object->start + size - 8, &word, 8);
	}
}

/* Offset of the first byte that is not the stamp's, or @size. */
static size_t stamp_differs(const struct object *object, size_t size)
{
	uint64_t word = first_word(object->id), differs = 0, last;
	const uint64_t *words = object->start;
	size_t count = size / 8;

	for (size_t i = 0; i < count; i++, word += STEP)
		differs |= words[i] ^ word;
	if (size % 8) {
		memcpy(&last, (char *)object->start + size - 8, 8);
		differs |= last ^ last_bytes(word - STEP, word, size);
	}
	if (!differs)
		return size;
	word = first_word(object->id);
	for (size_t i = 0; i < count; i++, word += STEP)
		if (words[i] != word)
			return i * 8;
	return count * 8;
}

/* x with x * FACTOR = 1: each step doubles the bits that are right. */
static uint64_t factor_inverse(void)
{
	uint64_t x = FACTOR;

	for (int i = 0; i < 6; i++)
		x *= 2 - FACTOR * x;
	return x;
}

/* 0: there is no such owner. */
static unsigned long long owner_of(uint64_t id)
{
	return id >> SERIAL_BITS <= 2 * SOAK_THREADS ? id >> SERIAL_BITS : 0;
}

static unsigned long long serial_of(uint64_t id)
{
	return id & ((1ull << SERIAL_BITS) - 1);
}

/* Says which object's word was found, if it is any's. */
static void word_explain(uint64_t word, size_t index, char *text, size_t room)
{
	uint64_t id = (word - index * STEP) * factor_inverse();

	if (owner_of(id))
		snprintf(text, room, "the stamp of owner %llu's object %llu", owner_of(id),
			 serial_of(id));
	else if (owner_of(~id))
		snprintf(text, room, "what was written when owner %llu's object %llu was freed",
			 owner_of(~id), serial_of(~id));
	else
		snprintf(text, room, "no stamp");
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = { "malloc", "calloc", "memalign", "a bucket" };

	return kind < SOAK_CACHE ? names[kind] : shapes[kind - SOAK_CACHE].name;
}

static void damaged(const struct owner *owner, const struct object *object, size_t offset,
		    const char *where)
{
	uint64_t found = 0;
	char text[100];

	memcpy(&found, (char *)object->start + offset,
	       object->size - offset < 8 ? object->size - offset : 8);
	word_explain(found, offset / 8, text, sizeof(text));
	fire_fail("%s, looked at by owner %llu: object %llu of owner %llu, %p, %u bytes from %s: "
		  "byte %zu has %#llx, %s", where, (unsigned long long)owner->number,
		  serial_of(object->id), owner_of(object->id), object->start, object->size,
		  kind_name(object->kind), offset, (unsigned long long)found, text);
}

void object_check(struct owner *owner, const struct object *object, const char *where)
{
	size_t offset = stamp_differs(object, object->size);

	if (offset != object->size)
		damaged(owner, object, offset, where);
	soak_count(&owner->bytes, object->size);
}

/* ---- places ---- */

struct object object_take(struct object *place)
{
	struct object object = *place;

	place->start = NULL;
	soak_fence();
	return object;
}

void object_put(struct object *place, const struct object *object)
{
	place->id = object->id;
	place->size = object->size;
	place->kind = object->kind;
	soak_fence();
	place->start = object->start;
}

uint64_t object_id(struct owner *owner)
{
	return owner->number << SERIAL_BITS | owner->next_serial++;
}

/* ---- allocation ---- */

/*
 * A group's limit may be in the way: the thread's group's, or that of the accounted cache or the
 * bucket; and a handler may have interrupted the library.
 */
bool object_refused(struct owner *owner, const void *got, uint32_t kind)
{
	bool has_group;

	if (got)
		return false;
	has_group = slub_group_current() || kind == SOAK_BUCKET || kind == SOAK_ACCOUNTED;
	if (!(has_group && errno == ENOMEM) && !(owner->in_handler && kind >= SOAK_BUCKET))
		fire_fail("owner %llu gets nothing from %s: %s",
			  (unsigned long long)owner->number, kind_name(kind), strerror(errno));
	soak_count(&owner->refused, 1);
	return true;
}

static void check_all(const struct object *object, uint64_t value, const char *what)
{
	const uint64_t *words = object->start;
	size_t count = object->size / 8;
	uint64_t differs = 0;

	for (size_t i = 0; i < count; i++)
		differs |= words[i] ^ value;
	if (differs || memcmp(words + count, &value, object->size % 8))
		fire_fail("%s: %u bytes at %p", what, object->size, object->start);
}

static void check_aligned(const struct object *object, size_t align)
{
	if ((uintptr_t)object->start % align)
		fire_fail("%s: %u bytes at %p, which is not aligned to %zu",
			  kind_name(object->kind), object->size, object->start, align);
}

static void construct(void *object)
{
	uint64_t *words = object;

	for (size_t i = 0; i < shapes[SOAK_CONSTRUCTED - SOAK_CACHE].size / 8; i++)
		words[i] = CONSTRUCTED;
}

static void make_by_kind(struct object *made, uint64_t bits)
{
	struct slub_cache *cache;
	size_t align;

	switch (made->kind) {
	case SOAK_MALLOC:
		made->start = malloc(made->size);
		return;
	case SOAK_CALLOC:
		made->start = calloc(1, made->size);
		if (made->start)
			check_all(made, 0, "calloc: not all zero");
		return;
	case SOAK_ALIGNED:
		align = (size_t)16 << (bits & 7);
		made->start = memalign(align, made->size);
		check_aligned(made, align);
		return;
	case SOAK_BUCKET:
		made->start = slub_bucket_alloc(soak_bucket, made->size);
		return;
	default:
		cache = soak_caches[made->kind - SOAK_CACHE];
		made->size = (uint32_t)shapes[made->kind - SOAK_CACHE].size;
		made->start = slub_cache_alloc(cache);
		if (made->kind == SOAK_CONSTRUCTED && made->start)
			check_all(made, CONSTRUCTED, "an object that is not as constructed");
	}
}

/* The size that the lower 46 of @bits ask for: mostly small, at times a block of its own. */
static uint32_t size_of(uint64_t bits)
{
	uint32_t rare = bits >> 30 & 0xffff;

	if (rare >= 48)
		return sizes[bits & (SIZES - 1)];
	if (rare)
		return 2048 + (uint32_t)(bits >> 8 & 0x3fff);
	return 32768 + (uint32_t)(bits >> 8 & 0x7ffff);
}

void object_make(struct owner *owner, struct object *place, uint64_t bits)
{
	struct object made = { .size = size_of(bits), .kind = kinds[bits >> 58] };

	make_by_kind(&made, bits >> 50);
	if (object_refused(owner, made.start, made.kind))
		return;
	check_aligned(&made, 8);
	made.id = object_id(owner);
	object_stamp(&made);
	object_put(place, &made);
}

/* Looks at all of it; what lies there afterwards is a stamp of nothing. */
void object_scrub(struct owner *owner, const struct object *object, const char *where)
{
	object_check(owner, object, where);
	if (object->kind == SOAK_CONSTRUCTED)
		construct(object->start);
	else
		*(uint64_t *)object->start = first_word(~object->id);
	soak_count(&owner->pairs, 1);
}

void object_free(struct owner *owner, struct object *place, const char *where)
{
	struct object object = object_take(place);

	object_scrub(owner, &object, where);
	if (object.kind < SOAK_BUCKET)
		free(object.start);
	else if (object.kind == SOAK_BUCKET)
		slub_bucket_free(soak_bucket, object.start);
	else
		slub_cache_free(soak_caches[object.kind - SOAK_CACHE], object.start);
}

/* ---- start and end ---- */

static void tables_fill(uint64_t seed)
{
	uint64_t rng = fire_rng_state(seed);

	for (int i = 0; i < SIZES; i++)
		sizes[i] = (uint16_t)(i < 236 ? 8 + fire_below(&rng, 121) :
				      i < 252 ? 129 + fire_below(&rng, 384) :
						513 + fire_below(&rng, 1536));
	for (int i = 0; i < KINDS; i++)
		kinds[i] = i < 38 ? SOAK_MALLOC : i < 43 ? SOAK_CALLOC : i < 44 ? SOAK_ALIGNED :
			   i < 47 ? SOAK_BUCKET : SOAK_CACHE + (i - 47) % 5;
	kinds[KINDS - 1] = SOAK_CACHE + 5;
}

void objects_start(uint64_t seed)
{
	tables_fill(seed);
	for (int i = 0; i < SOAK_CACHES; i++) {
		soak_caches[i] = slub_cache_create(shapes[i].name, shapes[i].size,
						   shapes[i].align, shapes[i].flags,
						   SOAK_CACHE + i == SOAK_CONSTRUCTED ?
							   construct : NULL);
		if (!soak_caches[i])
			fire_fail("%s: %s", shapes[i].name, strerror(errno));
	}
	soak_bucket = slub_bucket_create("soak-sizes", SLUB_CACHE_ACCOUNT);
	if (!soak_bucket)
		fire_fail("bucket: %s", strerror(errno));
}

/* No report about any cache, and none has an object left. */
void objects_end(void)
{
	long bugs = slub_validate_all();
	int err;

	if (bugs)
		fire_fail("%ld bugs in caches at the end", bugs);
	for (size_t size = 8; size <= 32768; size += size < 128 ? 8 : size / 8) {
		void *object = malloc(size);
		struct slub_cache *cache = slub_cache_of(object);

		if (!cache || slub_cache_errors(cache))
			fire_fail("malloc(%zu): reports about its cache", size);
		free(object);
	}
	for (int i = 0; i < SOAK_CACHES; i++) {
		if (slub_cache_errors(soak_caches[i]))
			fire_fail("%s: reports", shapes[i].name);
		err = slub_cache_destroy(soak_caches[i]);
		if (err)
			fire_fail("destroying %s: %s", shapes[i].name, strerror(-err));
	}
	err = slub_bucket_destroy(soak_bucket);
	if (err)
		fire_fail("destroying the bucket: %s", strerror(-err));
}
