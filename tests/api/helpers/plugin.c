/* SPDX-License-Identifier: MIT */
/*
 * A plugin with a cache of its own, and no inline functions, so that it may be unloaded.
 * With DESTROY it destroys the cache then, else it leaves it behind; SIZE is an object's.
 */
#include <errno.h>
#include <slub/slub.h>

struct thing {
	char bytes[SIZE];
};

static void construct(void *object)
{
	((struct thing *)object)->bytes[0] = 1;
}

SLUB_CACHE_DEFINE_STATIC(plugin_things, struct thing, SLUB_CACHE_NO_MERGE, CTOR);

#ifdef DESTROY
__attribute__((destructor)) static void end(void)
{
	while (slub_cache_destroy(&plugin_things) == -EBUSY)
		;
}
#endif

struct slub_cache *plugin_cache(void)
{
	return &plugin_things;
}

void *plugin_alloc(void)
{
	(void)construct;
	return slub_cache_alloc(&plugin_things);
}

void plugin_free(void *object)
{
	slub_cache_free(&plugin_things, object);
}
