/* SPDX-License-Identifier: MIT */
#include <slub/bucket.h>

#include "snippet.h"

int main(void)
{
	struct slub_bucket *tenant = slub_bucket_create("tenant7", 0);
	struct slub_bucket_stats stats;

	expect(tenant);
	char *text = slub_bucket_alloc(tenant, 100);
	int *table = slub_bucket_calloc(tenant, 1000, sizeof(*table));

	expect(text && table && table[999] == 0);
	text = slub_bucket_realloc(tenant, text, 300);
	expect(text);

	expect(slub_bucket_stats(tenant, &stats) == 0);
	expect(stats.live_blocks == 2);		/* what this tenant has, and nobody else */

	slub_bucket_free(tenant, text);
	free(table);				/* does as well */
	expect(slub_bucket_destroy(tenant) == 0);
	return 0;
}
