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
	expect(slub_reserve_enter() == 0);
	void *entry = slub_cache_alloc(&entries);

	expect(slub_reserve_leave() == 0);
	expect(entry);
	slub_cache_free(&entries, entry);

	/* Or this allocation alone. */
	entry = slub_cache_alloc_flags(&entries, SLUB_ALLOC_RESERVE);
	expect(entry);
	slub_cache_free(&entries, entry);
	expect(slub_reserve_set(0) == 0);
	return 0;
}
