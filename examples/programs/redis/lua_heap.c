/* SPDX-License-Identifier: MIT */
/*
 * Lua's memory in a bucket.  steps puts this file into Redis's src/; libslub.patch calls it.
 *
 * With jemalloc Lua has the C library's malloc.  libslub is that malloc too, so objects of Lua,
 * which the defragmentation cannot move, lay in slabs with Redis's, and kept these from emptying.
 */
#include "server.h"
#include "script_lua.h"

#include <slub/bucket.h>

static void *resize(void *bucket, void *block, size_t old_size, size_t size)
{
	UNUSED(old_size);
	return slub_bucket_realloc(bucket, block, size);
}

/* One bucket for all states of the program; the first one is made by the main thread alone. */
lua_State *luaHeapOpen(void)
{
	static struct slub_bucket *bucket;

	if (!bucket)
		bucket = slub_bucket_create("lua", SLUB_CACHE_PANIC);
	return lua_newstate(resize, bucket);
}
