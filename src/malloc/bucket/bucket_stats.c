/* SPDX-License-Identifier: MIT */
/* What is in a bucket. */
#include "malloc/bucket/bucket_internal.h"

#include <errno.h>
#include <string.h>

int bucket_count(struct slub_bucket *bucket, struct slub_bucket_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	bucket_large_count(bucket, stats);
	stats->live_blocks = stats->large_blocks;
	stats->live_bytes = stats->large_bytes;
	stats->refused = __atomic_load_n(&bucket->nr_refused,
					 __ATOMIC_RELAXED);
	return bucket_classes_count(bucket, stats);
}

SLUB_EXPORT int slub_bucket_stats(struct slub_bucket *bucket,
				  struct slub_bucket_stats *stats)
{
	if (!bucket_is_live(bucket))
		return -EINVAL;
	if (slub_thread.locks_held)
		return -EDEADLK;
	return bucket_count(bucket, stats);
}
