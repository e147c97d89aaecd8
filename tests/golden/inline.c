/* SPDX-License-Identifier: MIT */
/*
 * What the inline functions of slub/cache.h and slub/percpu.h become in a program; golden.py
 * looks at their disassembly.
 */
#include <slub/cache.h>

struct thing {
	uint64_t words[8];
};

SLUB_CACHE_DEFINE_STATIC(things, struct thing, 0, NULL);
SLUB_CACHE_DEFINE_STATIC(owned_things, struct thing, SLUB_CACHE_ACCOUNT, NULL);

uintptr_t counter;

#define SEEN __attribute__((__noinline__, __noclone__, __visibility__("default"), __used__))

SEEN void *inline_cache_alloc(void)
{
	return slub_cache_alloc(&things);
}

/* What slub_cache_alloc() goes on with where nothing is in the plain list. */
SEEN void *inline_cache_alloc_owned(const struct slub_percpu_self *self)
{
	return slub_cache_alloc_owned(&owned_things, self);
}

SEEN void inline_cache_free(void *thing)
{
	slub_cache_free(&things, thing);
}

SEEN void inline_percpu_add(uintptr_t offset)
{
	slub_percpu_add(offset, 1);
}

int main(void)
{
	void *thing = inline_cache_alloc();

	inline_cache_free(thing);
	slub_cache_free(&owned_things, inline_cache_alloc_owned(&slub_percpu_self));
	counter = slub_percpu_alloc(8, 8);
	inline_percpu_add(counter);
	return !thing || slub_percpu_sum(counter) != 1;
}
