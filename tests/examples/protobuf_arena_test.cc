/* SPDX-License-Identifier: MIT */
/* Promise: arenas of protobuf have their blocks from a bucket, charged to the thread's group. */
#include <gtest/gtest.h>
#include <google/protobuf/descriptor.pb.h>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <slub/cpp/protobuf.hpp>

static slub::bucket requests("requests", SLUB_CACHE_ACCOUNT);

namespace {

namespace pb = google::protobuf;

using message = pb::FileDescriptorProto;

/* Protobuf's description of its own descriptions. */
std::string described()
{
	message own;

	message::descriptor()->file()->CopyTo(&own);
	return own.SerializeAsString();
}

message *parsed(pb::Arena &arena, const std::string &bytes)
{
	message *made = pb::Arena::CreateMessage<message>(&arena);

	return made->ParseFromString(bytes) ? made : nullptr;
}

TEST(ProtobufArena, IsOfTheBucketAndEndsAsAWhole)
{
	std::string bytes = described();
	{
		pb::Arena arena(slub::arena_options<requests>());
		message *made = parsed(arena, bytes);

		ASSERT_NE(made, nullptr);
		EXPECT_EQ(made->SerializeAsString(), bytes);
		EXPECT_GE(requests.stats().live_bytes, arena.SpaceUsed());
		EXPECT_GT(requests.stats().live_blocks, 2u);
		arena.Reset();
		EXPECT_LE(requests.stats().live_blocks, 1u);
		ASSERT_NE(parsed(arena, bytes), nullptr);
	}
	EXPECT_EQ(requests.stats().live_blocks, 0u);
	EXPECT_EQ(requests.stats().refused, 0u);
}

TEST(ProtobufArena, HasBlocksOfTheSizesAsked)
{
	pb::Arena arena(slub::arena_options<requests>(8192, 16384));

	ASSERT_NE(pb::Arena::CreateMessage<message>(&arena), nullptr);
	EXPECT_EQ(requests.stats().live_bytes, 8192u);
	ASSERT_NE(parsed(arena, described()), nullptr);
	EXPECT_EQ(requests.stats().live_bytes % 8192, 0u);
	EXPECT_EQ(requests.stats().large_blocks, 0u);
}

TEST(ProtobufArena, AtALimitTheRequestEndsAndNothingElse)
{
	slub::group tenant("tenant");
	std::string bytes = described();

	tenant.set_limit(SLUB_GROUP_MAX, 16 << 10);
	{
		slub::group_guard inside(tenant);

		for (int i = 0; i < 100; i++) {
			pb::Arena arena(slub::arena_options<requests>());

			EXPECT_THROW(parsed(arena, bytes), std::bad_alloc);
			EXPECT_GT(tenant.stats().usage, 0u);
		}
		EXPECT_EQ(tenant.stats().usage, 0u);

		pb::Arena again(slub::arena_options<requests>());

		EXPECT_THROW(parsed(again, bytes), std::bad_alloc);
		tenant.set_limit(SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
		message *made = parsed(again, bytes);
		ASSERT_NE(made, nullptr);
		EXPECT_EQ(made->SerializeAsString(), bytes);
	}
	EXPECT_EQ(tenant.stats().usage, 0u);
	EXPECT_GT(tenant.stats().failures, 0u);
	EXPECT_EQ(requests.stats().live_blocks, 0u);
}

TEST(ProtobufArena, OfOneThreadMayEndInAnother)
{
	std::string bytes = described();
	std::vector<std::thread> threads;

	for (int t = 0; t < 3; t++) {
		threads.emplace_back([&] {
			slub::group tenant("tenant");

			for (int i = 0; i < 30; i++) {
				auto *arena = new pb::Arena(slub::arena_options<requests>());

				{
					slub::group_guard inside(tenant);

					EXPECT_NE(parsed(*arena, bytes), nullptr);
				}
				EXPECT_GT(tenant.stats().usage, 0u);
				std::thread([arena] { delete arena; }).join();
				EXPECT_EQ(tenant.stats().usage, 0u);
			}
		});
	}
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(requests.stats().live_blocks, 0u);
}

} // namespace
