/* SPDX-License-Identifier: MIT */
#include <slub/slub.h>

#include "snippet.h"

struct connection {
	int fd;
};

SLUB_CACHE_DEFINE_STATIC(connections, struct connection, 0, NULL);

int main(void)
{
	struct connection *c = slub_cache_alloc(&connections); /* inline, no atomic instruction */
	slub_cache_free(&connections, c);                      /* another cache's goes to its own */

	expect(c);
	expect(slub_cache_destroy(&connections) == 0);

	uintptr_t requests = slub_percpu_alloc(sizeof(int64_t), sizeof(int64_t));
	slub_percpu_add(requests, 1);                          /* this CPU's copy */
	printf("%lld\n", (long long)slub_percpu_sum(requests));

	expect(slub_percpu_sum(requests) == 1);
	return 0;
}
