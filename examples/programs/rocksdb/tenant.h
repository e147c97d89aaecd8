// SPDX-License-Identifier: MIT
// RocksDB on libslub: tenants with a limit each, and block caches that give memory back.
//
//   std::shared_ptr<slub_rocksdb::Tenant> tenant;
//   status = slub_rocksdb::Tenant::Open({"tenant-7", 64 << 20}, &tenant);
//   status = tenant->Adopt(&column_family_options);      // before the column family is opened
//   ...
//   slub_rocksdb::Tenant::Scope scope(tenant.get());     // this thread works for the tenant
//   status = scope.status();                             // MemoryLimit: it has all it may have
//   if (status.ok())
//           status = db->Get(options, column_family, key, &value);
//
// A tenant is a block cache and a memory group.  Charged to the group are the blocks of the
// cache and the memtables of adopted column families, whichever thread allocates them, and what
// a thread inside a Scope allocates with libslub's malloc.
//
// At the limit the tenant's own cache is made smaller.  When that does not suffice, because blocks
// are pinned or the rest is memtables, RocksDB gets what it asks for nevertheless, since it cannot
// go on without; the tenant's next requests are answered with Status::MemoryLimit until it is back
// below its limit.  RocksDB's own threads, flushes and compactions, are never refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <rocksdb/cache.h>
#include <rocksdb/memory_allocator.h>
#include <rocksdb/options.h>
#include <slub/slub.hpp>

#include "forward_cache.h"

namespace slub_rocksdb {

struct TenantOptions {
	std::string name;			// 1 to 41 printable characters, one tenant's
	size_t limit = SLUB_GROUP_NO_LIMIT;	// bytes
	// Its capacity is the most that the cache may hold; 0: as much as the limit.
	rocksdb::LRUCacheOptions cache;
};

struct TenantUsage {
	size_t charged;		// to the group, exact; the rest of these are part of it
	size_t blocks;		// of the block cache, as allocated
	size_t cache;		// RocksDB's own number for the same, its estimate of handles included
	size_t pinned;		// of that, what is in use
	size_t limit;
	size_t overdrawn;	// beyond the limit now
	size_t peak_overdrawn;
	uint64_t refused;	// requests answered with Status::MemoryLimit
	uint64_t shrunk;	// bytes that the cache gave back when it was asked
};

class Tenant : public ForwardCache, public std::enable_shared_from_this<Tenant> {
public:
	// InvalidArgument: a bad or taken name, a limit or capacity that leaves no room.
	static Status Open(const TenantOptions &options, std::shared_ptr<Tenant> *tenant);
	Tenant(const TenantOptions &options, std::shared_ptr<rocksdb::MemoryAllocator> allocator,
	       slub::group group);
	~Tenant() override;

	// The column family's blocks and memtables are this tenant's.  InvalidArgument: its
	// memtables alone may come to more than the limit; or its tables are not block-based.
	Status Adopt(rocksdb::ColumnFamilyOptions *options);

	// MemoryLimit: it is beyond its limit, and its cache has nothing more to give.
	Status Admit();
	TenantUsage Usage();
	slub_group *group() const noexcept { return group_.handle(); }

	class Scope {
	public:
		explicit Scope(Tenant *tenant)
			: group_(tenant->group()), status_(tenant->Admit())
		{
			if (slub_group_enter(group_))
				group_ = nullptr;
		}
		~Scope()
		{
			if (group_)
				slub_group_leave(group_);
		}
		Scope(const Scope &) = delete;
		Scope &operator=(const Scope &) = delete;
		const Status &status() const { return status_; }

	private:
		slub_group *group_;
		Status status_;
	};

	const char *Name() const override { return "slub_rocksdb::Tenant"; }
	using ForwardCache::Insert;
	Status Insert(const Slice &key, void *value, size_t charge, DeleterFn deleter,
		      Handle **handle, Priority priority) override;
	Status Insert(const Slice &key, void *value, const CacheItemHelper *helper, size_t charge,
		      Handle **handle, Priority priority) override;
	// The most that it may hold; GetCapacity() says what it may hold just now.
	void SetCapacity(size_t capacity) override;

private:
	static bool OnMaximum(slub_group *group, size_t bytes, void *tenant) noexcept;
	bool IsBack();
	bool MayInsert();
	Status Refuse(const Slice &key, void *value, DeleterFn deleter, Handle **handle);
	Status Refused();
	void Grow(size_t charge);
	size_t Idle() const;
	size_t Shrink(size_t units);

	const std::string name_;
	const size_t limit_;
	std::atomic<size_t> allowed_;		// the limit, and what was overdrawn
	std::atomic<bool> is_over_{ false };
	std::atomic<int64_t> ask_again_{ 0 };	// when to look again whether it is back, ns
	std::atomic<size_t> peak_overdrawn_{ 0 };
	std::atomic<uint64_t> refused_{ 0 };
	std::atomic<uint64_t> shrunk_{ 0 };

	std::mutex resizing_;			// of the two that follow; no callback asks for it inside a cache
	std::atomic<size_t> most_;		// capacity as the program set it
	std::atomic<size_t> capacity_;		// as it is
	std::atomic<size_t> earned_{ 0 };	// what it may grow by

	slub::group group_;
	slub::shrinker shrinker_;		// destroyed first: nobody is in Shrink() afterwards
};

} // namespace slub_rocksdb
