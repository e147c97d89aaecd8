/* SPDX-License-Identifier: MIT */
/*
 * The answer that a cache is in use: features/typed/create.c stops each CPU a fixed number of
 * times for it, and sleeps for nobody who has an object.
 */
#include <atomic>
#include <cerrno>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "typed.h"

namespace {

std::atomic<unsigned> nr_barriers;

int membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
}

} /* namespace */

extern "C" bool os_membarrier_register(void)
{
	return !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
	       !membarrier(1 << 8);	/* of restartable sequences */
}

extern "C" int os_barrier_rseq(void)
{
	nr_barriers++;
	return membarrier(1 << 7);
}

extern "C" int os_barrier(void)
{
	nr_barriers++;
	return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

namespace {

struct busy : typed {};

/* What a deferred barrier of the cache costs comes to it, and that is not many. */
TEST_F(busy, is_answered_after_one_flush)
{
	struct slub_cache *cache = slub_cache_create("busy", 64, 0, 0, nullptr);
	void *object;

	ASSERT_NE(cache, nullptr);
	object = slub_cache_alloc(cache);
	for (int i = 0; i < 3; i++) {
		nr_barriers = 0;
		EXPECT_EQ(slub_cache_destroy(cache), -EBUSY);
		EXPECT_LE(nr_barriers, 4u);
	}
	slub_cache_free(cache, object);
	nr_barriers = 0;
	EXPECT_EQ(slub_cache_destroy(cache), 0);
	EXPECT_LE(nr_barriers, 6u);
}

} /* namespace */
