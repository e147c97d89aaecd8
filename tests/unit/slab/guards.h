/* SPDX-License-Identifier: MIT */
/*
 * Guarded objects without malloc: the pools are opened by hand, each test anew, and the kernel
 * refuses what a test wants refused.
 */
#ifndef SLUB_TESTS_UNIT_GUARDS_H
#define SLUB_TESTS_UNIT_GUARDS_H

#include <cstring>
#include <functional>
#include <vector>

#include "typed.h"

extern "C" {
#include "features/misuse/misuse.h"
#include "features/guard/guard_internal.h"
#include "features/watch/watch.h"
}

/* What the kernel is asked for, and what it answers. */
struct kernel {
	struct part {
		char *start;
		size_t bytes;
	};
	bool is_watched;		/* what is asked for is kept here: */
	std::vector<part> committed, withdrawn, unreserved;
	size_t reserve_max = SIZE_MAX;	/* more is refused */
	int commits_refused;		/* so many of the next */
	size_t limit;			/* of address space; 0: the machine's */
	uint64_t chance;		/* the random number; 0: any */
	bool has_threads;
	std::function<long(void *, const void *, size_t)> peek;
};
inline struct kernel kernel;

extern "C" {
inline constexpr size_t PLACE_BYTES = 152, POOL_BYTES = 112;

int __real_os_commit(void *start, size_t bytes);
void *__real_os_reserve(size_t bytes);
void __real_os_unreserve(void *start, size_t bytes);
void __real_os_withdraw(void *start, size_t bytes);
size_t __real_os_address_limit(void);
uint64_t __real_sample_random(void);
long __real_os_peek(void *to, const void *from, size_t bytes);

int __wrap_os_commit(void *start, size_t bytes)
{
	if (kernel.is_watched)
		kernel.committed.push_back({ (char *)start, bytes });
	if (!kernel.commits_refused)
		return __real_os_commit(start, bytes);
	kernel.commits_refused--;
	return -ENOMEM;
}

void *__wrap_os_reserve(size_t bytes)
{
	return bytes <= kernel.reserve_max ? __real_os_reserve(bytes) : nullptr;
}

void __wrap_os_unreserve(void *start, size_t bytes)
{
	if (kernel.is_watched)
		kernel.unreserved.push_back({ (char *)start, bytes });
	__real_os_unreserve(start, bytes);
}

void __wrap_os_withdraw(void *start, size_t bytes)
{
	if (kernel.is_watched)
		kernel.withdrawn.push_back({ (char *)start, bytes });
	__real_os_withdraw(start, bytes);
}

size_t __wrap_os_address_limit(void)
{
	return kernel.limit ? kernel.limit : __real_os_address_limit();
}

uint64_t __wrap_sample_random(void)
{
	return kernel.chance ? kernel.chance : __real_sample_random();
}

bool __wrap_os_is_alone(void) { return !kernel.has_threads; }

long __wrap_os_peek(void *to, const void *from, size_t bytes)
{
	return kernel.peek ? kernel.peek(to, from, bytes) : __real_os_peek(to, from, bytes);
}
}

struct guards : testing::Test {
	static void SetUpTestSuite() { typed::SetUpTestSuite(); }
	void SetUp() override
	{
		kernel = {};
		for (const char *assignment : { "GUARD=0", "GUARD_PLACES=4096", "GUARD_SIDE=any",
						"ON_ERROR=ignore", "DEBUG_REPORT=" })
			set(assignment);
	}
	void TearDown() override
	{
		kernel = {};
		/* No zones, no poison, as at the start. */
		set("GUARD=1");
		guard_watch(SLUB_CACHE_RED_ZONE);
		guard_watches_large = false;
		set("GUARD=0");
		close();
	}
	static void set(const char *assignment)
	{
		static std::vector<std::string *> kept;
		char *environment[2] = {};

		kept.push_back(new std::string(std::string("SLUB_") + assignment));
		environment[0] = kept.back()->data();
		option_read(environment);
	}
	/* As if there never was a place. */
	static void close()
	{
		for (struct guard_pool &pool : guard_pools) {
			if (pool.bytes)
				__real_os_unreserve((void *)pool.base, whole(pool.nr_places, pool));
			pool.base = pool.bytes = pool.places = pool.turns = pool.lost = 0;
			pool.errors = pool.clock_offset_ns = pool.stacks = pool.every = 0;
			pool.page_bytes = pool.place_bytes = pool.nr_places = pool.next = 0;
		}
	}
	/* What @nr places take, and what is known of them. */
	static size_t whole(size_t nr, const struct guard_pool &pool)
	{
		return nr * pool.place_bytes + page + (nr * PLACE_BYTES + page - 1) / page * page;
	}
	static void open(uint32_t nr, uint64_t every = 1)
	{
		set(("GUARD_PLACES=" + std::to_string(nr)).c_str());
		ASSERT_EQ(guard_open(every), 0);
		ASSERT_EQ(objects.nr_places, nr);
	}
	static struct guard_place *place(uint32_t n, struct guard_pool &pool = objects)
	{
		return (struct guard_place *)pool.places + n;
	}
	static struct guard_place *place_of(void *object)
	{
		struct guard_pool *pool = pool_of(object);

		return place(((uintptr_t)object - pool->base) / pool->place_bytes, *pool);
	}
	/* Where place @n begins, and ends. */
	static char *start(uint32_t n, struct guard_pool &pool = objects)
	{
		return (char *)pool.base + (size_t)n * pool.place_bytes + page;
	}
	static char *end(uint32_t n, struct guard_pool &pool = objects)
	{
		return (char *)pool.base + (size_t)(n + 1) * pool.place_bytes;
	}
	static char *get(size_t bytes, struct slub_cache *cache = nullptr, size_t align = 1)
	{
		return (char *)guard_alloc(cache, bytes, align);
	}

	static inline struct guard_pool &objects = guard_pools[GUARD_OBJECTS],
					&large = guard_pools[GUARD_LARGE],
					&empty = guard_pools[GUARD_EMPTY];
	static inline const size_t page = os_page_size();
};

#endif
