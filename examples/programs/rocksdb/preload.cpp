// SPDX-License-Identifier: MIT
// To be preloaded with libslub.so into a program that uses the shared library of RocksDB: each
// cache whose charges are bytes becomes a tenant without a limit of its own.  So it is asked when
// the process comes near a limit of the control group.  The program is not changed.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "tenant.h"

namespace {

using LruFunction = std::shared_ptr<rocksdb::Cache>(const rocksdb::LRUCacheOptions &);

std::shared_ptr<rocksdb::Cache> RocksDbs(const rocksdb::LRUCacheOptions &options)
{
	static LruFunction *const function = reinterpret_cast<LruFunction *>(
		dlsym(RTLD_NEXT, "_ZN7rocksdb11NewLRUCacheERKNS_15LRUCacheOptionsE"));

	return function(options);
}

} // namespace

namespace rocksdb {

std::shared_ptr<Cache> NewLRUCache(const LRUCacheOptions &options)
{
	static std::atomic<unsigned> count{ 0 };

	// RocksDB's table of open files counts entries; one with an allocator is a tenant's.
	if (options.metadata_charge_policy != kFullChargeCacheMetadata ||
	    options.memory_allocator || options.secondary_cache || !options.capacity)
		return RocksDbs(options);

	slub_rocksdb::TenantOptions tenant;
	std::shared_ptr<slub_rocksdb::Tenant> made;

	tenant.name = "rocksdb-" + std::to_string(++count);
	tenant.cache = options;
	Status status = slub_rocksdb::Tenant::Open(tenant, &made);

	if (status.ok())
		return made;
	std::fprintf(stderr, "slub: %s: RocksDB's own cache instead\n",
		     status.ToString().c_str());
	return RocksDbs(options);
}

std::shared_ptr<Cache> NewLRUCache(size_t capacity, int num_shard_bits, bool strict,
				   double high_pri, std::shared_ptr<MemoryAllocator> allocator,
				   bool adaptive, CacheMetadataChargePolicy policy, double low_pri)
{
	return NewLRUCache(LRUCacheOptions(capacity, num_shard_bits, strict, high_pri,
					   std::move(allocator), adaptive, policy, low_pri));
}

} // namespace rocksdb
