// SPDX-License-Identifier: MIT
// The tenants of examples/programs/rocksdb by their methods alone: limits that are wrong, a tenant
// that never frees, memory that is short in a callback and in several threads at once.
#include <stdlib.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <slub/malloc.h>

#include "memtable.h"
#include "tenant.h"

namespace {

using rocksdb::Cache;
using rocksdb::Slice;
using rocksdb::Status;
using slub_rocksdb::Tenant;
using slub_rocksdb::TenantOptions;

constexpr size_t kBlock = 4096;

struct Block {
	rocksdb::MemoryAllocator *from;
	char *bytes;
};

void Delete(const Slice &, void *value)
{
	Block *block = static_cast<Block *>(value);

	block->from->Deallocate(block->bytes);
	delete block;
}

// As RocksDB reads a block: memory of the cache's allocator, then Insert().
Status Add(Tenant *tenant, const std::string &key, Cache::Handle **handle)
{
	rocksdb::MemoryAllocator *from = tenant->memory_allocator();
	Block *block = new Block{ from, static_cast<char *>(from->Allocate(kBlock)) };
	size_t charge = from->UsableSize(block->bytes, kBlock);

	block->bytes[0] = key.back();
	Status status = static_cast<Cache *>(tenant)->Insert(key, block, charge, Delete, handle);

	if (!status.ok())
		Delete(key, block);
	return status;
}

std::shared_ptr<Tenant> Open(const char *name, size_t limit, size_t capacity = 0)
{
	TenantOptions options;
	std::shared_ptr<Tenant> tenant;

	options.name = name;
	options.limit = limit;
	options.cache.capacity = capacity;
	Status status = Tenant::Open(options, &tenant);
	EXPECT_TRUE(status.ok()) << status.ToString();
	return tenant;
}

TEST(tenant, limits_that_are_wrong)
{
	TenantOptions options;
	std::shared_ptr<Tenant> tenant;

	options.name = "small";
	options.limit = 1000;
	Status status = Tenant::Open(options, &tenant);
	EXPECT_TRUE(status.IsInvalidArgument());
	EXPECT_NE(status.ToString().find("below the least, 1048576"), std::string::npos);
	EXPECT_EQ(tenant, nullptr);

	options.limit = 4 << 20;
	EXPECT_TRUE(Tenant::Open(options, &tenant).ok());
	rocksdb::ColumnFamilyOptions family;
	auto own = family.table_factory;
	family.write_buffer_size = 2 << 20;
	family.max_write_buffer_number = 2;
	status = tenant->Adopt(&family);
	EXPECT_TRUE(status.IsInvalidArgument());
	EXPECT_NE(status.ToString().find("write_buffer_size"), std::string::npos);
	EXPECT_EQ(family.table_factory, own) << "it stayed";
	family.write_buffer_size = 1 << 20;
	EXPECT_TRUE(tenant->Adopt(&family).ok());
	EXPECT_NE(family.table_factory, own);

	std::shared_ptr<Tenant> second;
	for (const char *name : { "small", "two words", "" }) {
		options.name = name;
		EXPECT_TRUE(Tenant::Open(options, &second).IsInvalidArgument()) << name;
		EXPECT_EQ(second, nullptr);
	}
}

TEST(tenant, is_charged_for_its_blocks_and_nothing_else)
{
	auto one = Open("one", 8 << 20), two = Open("two", 8 << 20);

	for (int i = 0; i < 500; i++)
		ASSERT_TRUE(Add(one.get(), "key" + std::to_string(i), nullptr).ok());
	size_t each = slub_good_size(kBlock);
	EXPECT_EQ(one->Usage().charged, 500 * each);
	EXPECT_EQ(one->Usage().blocks, 500 * each);
	EXPECT_GE(one->Usage().cache, 500 * each);
	EXPECT_EQ(two->Usage().charged, 0u);
	one->EraseUnRefEntries();
	EXPECT_EQ(one->Usage().charged, 0u);
	EXPECT_EQ(one->Usage().refused, 0u);
}

// No thread is in a Scope here, as when one thread of a write group inserts for all.
TEST(tenant, its_memtables_are_charged_whoever_writes)
{
	auto tenant = Open("writes", 8 << 20);
	rocksdb::ColumnFamilyOptions family;
	rocksdb::DBOptions database;
	std::string folder = testing::TempDir() + "/slub-tenant-XXXXXX";
	rocksdb::DB *db = nullptr;

	family.write_buffer_size = 2 << 20;
	database.create_if_missing = true;
	ASSERT_TRUE(tenant->Adopt(&family).ok());
	ASSERT_NE(mkdtemp(folder.data()), nullptr);
	rocksdb::Options options(database, family);
	ASSERT_TRUE(rocksdb::DB::Open(options, folder, &db).ok());
	size_t before = tenant->Usage().charged;
	for (int i = 0; i < 1000; i++)
		ASSERT_TRUE(db->Put({}, "key" + std::to_string(i), std::string(1000, 'v')).ok());
	EXPECT_GE(tenant->Usage().charged, before + 1000000);
	EXPECT_LE(tenant->Usage().charged, before + (2 << 20));
	EXPECT_TRUE(db->Close().ok());
	delete db;
	EXPECT_LE(tenant->Usage().charged, before);
	EXPECT_TRUE(rocksdb::DestroyDB(folder, options).ok());
}

// The cache may hold more than the limit: it is made smaller, and the tenant is not refused.
TEST(tenant, its_cache_lives_within_its_limit)
{
	auto tenant = Open("within", 4 << 20, 64 << 20);

	for (int i = 0; i < 20000; i++) {
		Tenant::Scope scope(tenant.get());

		ASSERT_TRUE(scope.status().ok()) << i;
		ASSERT_TRUE(Add(tenant.get(), "key" + std::to_string(i), nullptr).ok()) << i;
	}
	slub_rocksdb::TenantUsage usage = tenant->Usage();
	EXPECT_LE(usage.charged, 4u << 20);
	EXPECT_GE(usage.blocks, 2u << 20);
	EXPECT_GT(usage.shrunk, 0u);
	EXPECT_EQ(usage.refused, 0u);
	EXPECT_LE(usage.peak_overdrawn, 1u << 20);
}

TEST(tenant, that_never_frees_is_refused_in_the_words_of_rocksdb)
{
	auto tenant = Open("never", 2 << 20), other = Open("aside", 2 << 20);
	std::vector<Cache::Handle *> pinned;
	Status status;

	for (int i = 0; i < 2000 && status.ok(); i++) {
		Tenant::Scope scope(tenant.get());
		Cache::Handle *handle = nullptr;

		status = scope.status();
		if (status.ok())
			status = Add(tenant.get(), "key" + std::to_string(i), &handle);
		if (status.ok())
			pinned.push_back(handle);
		else
			EXPECT_EQ(handle, nullptr);
	}
	EXPECT_TRUE(status.IsMemoryLimit()) << status.ToString();
	EXPECT_NE(status.ToString().find("tenant never"), std::string::npos);
	EXPECT_LE(tenant->Usage().charged, (2u << 20) + (64 << 10));
	EXPECT_GT(pinned.size(), 300u);
	// Others are as they were, and a flush, which is in no group, is not refused.
	EXPECT_TRUE(other->Admit().ok());
	Cache::Handle *handle = nullptr;
	EXPECT_TRUE(Add(tenant.get(), "of a flush", &handle).ok());
	tenant->Release(handle, true);

	for (Cache::Handle *of : pinned)
		tenant->Release(of, false);
	std::this_thread::sleep_for(std::chrono::milliseconds(5));
	EXPECT_TRUE(tenant->Admit().ok());
	EXPECT_LE(tenant->Usage().charged, 2u << 20);
}

TEST(tenant, its_cache_comes_back_after_a_shortage)
{
	auto tenant = Open("back", SLUB_GROUP_NO_LIMIT, 4 << 20);
	auto add = [&](int from, int to) {
		for (int i = from; i < to; i++)
			ASSERT_TRUE(Add(tenant.get(), "key" + std::to_string(i), nullptr).ok());
	};

	add(0, 900);
	size_t full = tenant->GetUsage();
	slub_shrink_all();
	EXPECT_LT(tenant->GetUsage(), full / 8);
	EXPECT_LT(tenant->GetCapacity(), full / 8);
	add(1000, 12000);
	EXPECT_EQ(tenant->GetCapacity(), 4u << 20);
	EXPECT_GT(tenant->GetUsage(), full * 3 / 4);
}

// With a lock of the cache held: whoever is asked there must not want another.
TEST(tenant, memory_is_short_while_the_cache_calls_back)
{
	auto tenant = Open("inside", 8 << 20);
	int seen = 0;

	for (int i = 0; i < 100; i++)
		ASSERT_TRUE(Add(tenant.get(), "key" + std::to_string(i), nullptr).ok());
	static_cast<Cache *>(tenant.get())->ApplyToAllEntries(
		[&](const Slice &, void *, size_t, Cache::DeleterFn) {
			slub_shrink(0);
			seen++;
		},
		{});
	EXPECT_EQ(seen, 100);
	EXPECT_EQ(tenant->Usage().shrunk, 0u);
	slub_shrink_all();
	EXPECT_GT(tenant->Usage().shrunk, 0u);
}

TEST(tenant, memory_is_short_in_all_threads_at_once)
{
	std::shared_ptr<Tenant> tenants[] = { Open("short-0", 2 << 20), Open("short-1", 2 << 20) };
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (int t = 0; t < 2; t++)
		threads.emplace_back([&] {
			while (!stop)
				slub_shrink(2);
		});
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			Tenant *tenant = tenants[t % 2].get();

			for (int i = 0; i < 4000; i++) {
				Tenant::Scope scope(tenant);
				std::string key = "key" + std::to_string(i * 7919 % 3000);
				Cache::Handle *handle =
					static_cast<Cache *>(tenant)->Lookup(key);

				if (!handle && !Add(tenant, key, &handle).ok())
					continue;
				auto *block = static_cast<Block *>(tenant->Value(handle));
				EXPECT_EQ(block->bytes[0], key.back());
				tenant->Release(handle, false);
			}
		});
	for (size_t t = 2; t < threads.size(); t++)
		threads[t].join();
	stop = true;
	threads[0].join();
	threads[1].join();
	for (auto &tenant : tenants) {
		tenant->EraseUnRefEntries();
		EXPECT_EQ(tenant->Usage().blocks, 0u);
		EXPECT_EQ(tenant->Usage().pinned, tenant->Usage().cache);
	}
}

} // namespace

int main(int argc, char **argv)
{
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
