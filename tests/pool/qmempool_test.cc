/* SPDX-License-Identifier: MIT */
/* Promise: slub/qmempool.h. */
#include <gtest/gtest.h>
#include <cerrno>
#include <set>
#include <thread>
#include <vector>

#include <slub/qmempool.h>

#include "harness.h"

namespace {

struct Packet {
	uint64_t state[32];
};

class Qmempool : public testing::Test {
protected:
	void SetUp() override
	{
		slub_cache_args args = {};

		args.name = "packets";
		args.size = sizeof(Packet);
		args.sheaf_length = 32;
		args.flags = SLUB_CACHE_NO_MERGE;
		cache = slub_cache_create_args(&args);
		ASSERT_NE(cache, nullptr);
	}
	void TearDown() override { EXPECT_EQ(slub_cache_destroy(cache), 0); }

	slub_cache *cache;
};

SLUB_CACHE_DEFINE_STATIC(static_packets, Packet, 0, nullptr);

TEST_F(Qmempool, NPatternReturnsDistinctObjectsOfTheCache)
{
	slub_qmempool *pool = slub_qmempool_create(32, 256, 64, cache, 0);
	void *objects[256];

	ASSERT_NE(pool, nullptr);
	for (int round = 0; round < 100; round++) {
		for (void *&object : objects) {
			object = slub_qmempool_alloc(pool, 0);
			ASSERT_NE(object, nullptr);
			EXPECT_EQ(slub_cache_of(object), cache);
			harness::fill(object, sizeof(Packet), (uintptr_t)object);
		}
		EXPECT_EQ(std::set<void *>(objects, objects + 256).size(), 256u);
		for (void *object : objects) {
			EXPECT_TRUE(harness::intact(object, sizeof(Packet), (uintptr_t)object));
			slub_qmempool_free(pool, object);
		}
	}
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
}

TEST_F(Qmempool, PreallocatedObjectsAreThere)
{
	struct slub_cache_stats before = {}, after = {};
	slub_qmempool *pool = slub_qmempool_create(32, 256, 256, cache, 0);
	std::vector<void *> objects;

	slub_cache_stats(cache, &before);
	EXPECT_GE(before.objects, 256u);
	for (int i = 0; i < 256; i++)
		objects.push_back(slub_qmempool_alloc(pool, 0));
	slub_cache_stats(cache, &after);
	EXPECT_EQ(after.slab_alloc, before.slab_alloc) << "no slab is needed";
	for (void *object : objects)
		slub_qmempool_free(pool, object);
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
}

/* The shared queue: what comes and goes all the time does so in whole lists, without the slabs. */
TEST_F(Qmempool, SharedQueueTakesInWhatIsWantedAgain)
{
	slub_qmempool *pool = slub_qmempool_create(32, 256, 0, cache, 0);
	struct slub_cache_stats first = {}, stats = {};
	std::vector<void *> objects;

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 256 + 64; i++)
			objects.push_back(slub_qmempool_alloc(pool, 0));
		for (void *object : objects)
			slub_qmempool_free(pool, object);
		objects.clear();
		if (round == 25)
			slub_cache_stats(cache, &first);
	}
	slub_cache_stats(cache, &stats);
	EXPECT_EQ(stats.free_flush, first.free_flush) << "all lists find a place by now";
	EXPECT_GT(stats.free_barn + stats.free_spare, 0u);
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
}

TEST_F(Qmempool, ProducerAndConsumer)
{
	constexpr int packets = 200000;
	slub_qmempool *pool = slub_qmempool_create(64, 1024, 0, cache, 0);
	std::vector<std::atomic<Packet *>> ring(256);
	uint64_t sum = 0;

	std::thread consumer([&] {
		for (int i = 0; i < packets; i++) {
			Packet *packet;

			while (!(packet = ring[i % 256].exchange(nullptr)))
				sched_yield();
			sum += packet->state[0];
			slub_qmempool_free(pool, packet);
		}
	});
	for (int i = 0; i < packets; i++) {
		auto *packet = static_cast<Packet *>(slub_qmempool_alloc(pool, 0));
		Packet *none = nullptr;

		packet->state[0] = (uint64_t)i;
		while (!ring[i % 256].compare_exchange_weak(none, packet)) {
			none = nullptr;
			sched_yield();
		}
	}
	consumer.join();
	EXPECT_EQ(sum, (uint64_t)packets * (packets - 1) / 2);
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
}

TEST_F(Qmempool, FlagsAndMixedFrees)
{
	slub_qmempool *pool = slub_qmempool_create(16, 32, 0, cache, SLUB_ALLOC_RESERVE);
	void *object = slub_qmempool_alloc(pool, SLUB_ALLOC_ZERO);

	EXPECT_EQ(harness::first_nonzero(object, sizeof(Packet)), sizeof(Packet));
	slub_cache_free(cache, object);
	object = slub_cache_alloc(cache);
	slub_qmempool_free(pool, object);
	slub_qmempool_free(pool, nullptr);
	errno = 0;
	EXPECT_EQ(slub_qmempool_alloc(pool, 1u << 30), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
}

TEST_F(Qmempool, ObjectsOutliveThePool)
{
	slub_qmempool *pool = slub_qmempool_create(16, 32, 0, cache, 0);
	void *object = slub_qmempool_alloc(pool, 0);

	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	slub_cache_free(cache, object);
}

TEST_F(Qmempool, ForeignObjectIsFound)
{
	slub_qmempool *pool = slub_qmempool_create(16, 32, 0, cache, 0);
	slub_cache *other = slub_cache_create("not-packets", sizeof(Packet), 0,
						       SLUB_CACHE_NO_MERGE, nullptr);
	struct slub_cache_stats stats = {};
	int here;

	slub_qmempool_free(pool, slub_cache_alloc(other));
	slub_qmempool_free(pool, &here);
	slub_cache_stats(other, &stats);
	EXPECT_EQ(stats.wrong_cache, 1u);
	EXPECT_EQ(slub_cache_destroy(other), 0);
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
}

TEST_F(Qmempool, BadArguments)
{
	struct {
		unsigned localq, sharedq, prealloc;
	} bad[] = {
		{ 0, 32, 0 }, { 8, 32, 0 }, { 24, 32, 0 }, { 8192, 32, 0 }, { 16, 0, 0 },
		{ 16, 16, 0 }, { 16, 48, 0 }, { 16, 1u << 21, 0 }, { 16, 32, 33 },
	};

	for (auto &b : bad) {
		errno = 0;
		EXPECT_EQ(slub_qmempool_create(b.localq, b.sharedq, b.prealloc, cache, 0), nullptr)
			<< b.localq << " " << b.sharedq << " " << b.prealloc;
		EXPECT_EQ(errno, EINVAL);
	}
	errno = 0;
	EXPECT_EQ(slub_qmempool_create(16, 32, 0, nullptr, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(slub_qmempool_create(16, 32, 0, cache, 1u << 30), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(slub_qmempool_destroy(nullptr), 0);

	slub_qmempool *pool = slub_qmempool_create(16, 32, 0, cache, 0);
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	EXPECT_EQ(slub_qmempool_destroy(pool), -EINVAL);
}

TEST(QmempoolStatic, MakesTheCacheOfAVariable)
{
	slub_qmempool *pool = slub_qmempool_create(16, 32, 32, &static_packets, 0);

	ASSERT_NE(pool, nullptr);
	EXPECT_STREQ(slub_cache_name(&static_packets), "static_packets");
	slub_qmempool_free(pool, slub_qmempool_alloc(pool, 0));
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	EXPECT_EQ(slub_cache_destroy(&static_packets), 0);
}

void construct(void *object) { static_cast<Packet *>(object)->state[0] = 42; }

TEST(QmempoolConstructed, ObjectsStayConstructed)
{
	slub_cache *cache = slub_cache_create("constructed", sizeof(Packet), 0, 0, construct);
	slub_qmempool *pool = slub_qmempool_create(32, 128, 100, cache, 0);

	for (int round = 0; round < 3; round++) {
		std::vector<Packet *> packets;

		for (int i = 0; i < 300; i++) {
			packets.push_back((Packet *)slub_qmempool_alloc(pool, 0));
			EXPECT_EQ(packets.back()->state[0], 42u);
		}
		for (Packet *packet : packets)
			slub_qmempool_free(pool, packet);
	}
	EXPECT_EQ(slub_qmempool_destroy(pool), 0);
	EXPECT_EQ(slub_cache_destroy(cache), 0);
}

} /* namespace */
