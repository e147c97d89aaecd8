/* SPDX-License-Identifier: MIT */
#include <slub/cache.h>
#include <slub/reserve.h>

#include "snippet.h"

SLUB_CACHE_DEFINE_STATIC(entries, char[128], 0, NULL);

int main(void)
{
	expect(slub_reserve_set(256 << 10) == 0);
	expect(slub_reserve_bytes() >= 256 << 10);

	/* This thread writes pages out so that others get memory: it must not wait. */
	unsigned int saved = slub_reserve_enter();
	void *entry = slub_cache_alloc(&entries);

	slub_reserve_leave(saved);
	expect(entry);
	slub_cache_free(&entries, entry);

	/* Or this allocation alone. */
	entry = slub_cache_alloc_flags(&entries, SLUB_RESERVE);
	expect(entry);
	slub_cache_free(&entries, entry);
	expect(slub_reserve_set(0) == 0);
	return 0;
}
