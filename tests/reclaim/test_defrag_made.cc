/* SPDX-License-Identifier: MIT */
/*
 * isolate may tell from an object with a constructor whether it may move: so it is shown none
 * that another thread is just constructing.
 */
#include <slub/defrag.h>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "movable.h"

namespace {

const uint64_t MADE = 0x6564616d;
const size_t MANY = 10000;	/* some slab was full long before */

struct Made {
	uint64_t mark;		/* the constructor's */
	char rest[1000];
};

/* A slab's last object is not constructed before it is told to go on. */
struct Halt {
	size_t stride = 0, slab_bytes = 0;	/* 0: not armed */
	std::atomic<bool> is_inside{ false }, go_on{ false };

	bool is_last(const void *memory) const
	{
		size_t at = (uintptr_t)memory & (slab_bytes - 1);

		return slab_bytes && at + 2 * stride > slab_bytes;
	}
} halt;

std::atomic<size_t> nr_shown, nr_raw;

void construct(void *memory)
{
	if (halt.is_last(memory)) {
		halt.is_inside = true;
		while (!halt.go_on)
			std::this_thread::yield();
	}
	static_cast<Made *>(memory)->mark = MADE;
}

void isolate(slub_cache *, void **objects, size_t n, void *) noexcept
{
	for (size_t i = 0; i < n; i++) {
		nr_shown++;
		nr_raw += static_cast<Made *>(objects[i])->mark != MADE;
		objects[i] = nullptr;
	}
}

int migrate(slub_cache *, void *, void *, void *) noexcept
{
	return SLUB_MIGRATE_FAILED;
}

struct Objects : std::vector<void *> {
	slub_cache *cache = slub_cache_create("made", sizeof(Made), 0, 0, construct);

	void add() { push_back(slub_cache_alloc(cache)); }
	/* All but @keep of those that share the slab of @object. */
	void drop(const void *object, size_t slab_bytes, size_t keep)
	{
		for (void *&o : *this) {
			if (((uintptr_t)o ^ (uintptr_t)object) >= slab_bytes)
				continue;
			if (keep) {
				keep--;
				continue;
			}
			slub_cache_free(cache, o);
			o = nullptr;
		}
	}
};

TEST(Defrag, IsolateIsShownConstructedObjectsOnly)
{
	Objects objects;
	slub_cache *cache = objects.cache;

	ASSERT_EQ(slub_cache_setup_mobility(cache, isolate, migrate, nullptr), 0);
	objects.add();
	/* How many fit a slab says how large that is. */
	size_t stride = slub_cache_stride(cache), bytes = stats_of(cache).objects * stride;
	size_t slab_bytes = 4096;
	while (slab_bytes < bytes)
		slab_bytes *= 2;
	/* One slab that takes what the next one has. */
	while (((uintptr_t)objects[0] ^ (uintptr_t)objects.back()) < slab_bytes)
		objects.add();
	void *old = objects[0], *fresh = objects.back();
	halt.stride = stride;
	halt.slab_bytes = slab_bytes;

	std::thread maker([&] {
		while (!halt.is_inside && objects.size() < MANY)
			objects.add();
		halt.is_inside = true;
	});
	while (!halt.is_inside)
		std::this_thread::yield();
	/* It is in its last allocation, and does not touch the vector. */
	ASSERT_LT(objects.size(), MANY);
	objects.drop(old, slab_bytes, bytes / stride * 2 / 3);
	objects.drop(fresh, slab_bytes, 0);
	EXPECT_GE(slub_cache_defrag(cache, 100), 0);
	EXPECT_EQ(nr_raw, 0u);
	halt.go_on = true;
	maker.join();
	/* Now it is one like any other. */
	EXPECT_GE(slub_cache_defrag(cache, 100), 0);
	EXPECT_EQ(nr_raw, 0u);
	EXPECT_GT(nr_shown, 0u);
	for (void *o : objects)
		slub_cache_free(cache, o);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} /* namespace */
