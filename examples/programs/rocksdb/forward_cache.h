// SPDX-License-Identifier: MIT
// A RocksDB cache that hands every call on to another one.
//
// RocksDB 7 has no such class in its headers.  While a call is inside the other cache, this
// thread may hold a lock of one of its shards, and inside() says so: a shrinker that finds it set
// must leave every cache alone (tenant.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/cache.h>

namespace slub_rocksdb {

class Inside {
public:
	Inside() noexcept { depth()++; }
	~Inside() { depth()--; }
	Inside(const Inside &) = delete;
	Inside &operator=(const Inside &) = delete;
	static bool now() noexcept { return depth() != 0; }

private:
	static int &depth() noexcept
	{
		static thread_local int depth;
		return depth;
	}
};

class ForwardCache : public rocksdb::Cache {
protected:
	template <class Call> static auto call(Call &&call)
	{
		Inside inside;

		return call();
	}

	std::shared_ptr<rocksdb::Cache> inner_;

public:
	using Slice = rocksdb::Slice;
	using Status = rocksdb::Status;

	ForwardCache(std::shared_ptr<rocksdb::Cache> inner,
		     std::shared_ptr<rocksdb::MemoryAllocator> allocator)
		: Cache(std::move(allocator)), inner_(std::move(inner))
	{
	}

	const char *Name() const override { return inner_->Name(); }

	Status Insert(const Slice &key, void *value, size_t charge, DeleterFn deleter,
		      Handle **handle, Priority priority) override
	{
		return call([&] {
			return inner_->Insert(key, value, charge, deleter, handle, priority);
		});
	}
	Status Insert(const Slice &key, void *value, const CacheItemHelper *helper, size_t charge,
		      Handle **handle, Priority priority) override
	{
		return call([&] {
			return inner_->Insert(key, value, helper, charge, handle, priority);
		});
	}
	Handle *Lookup(const Slice &key, rocksdb::Statistics *stats) override
	{
		return call([&] { return inner_->Lookup(key, stats); });
	}
	Handle *Lookup(const Slice &key, const CacheItemHelper *helper,
		       const CreateCallback &create, Priority priority, bool wait,
		       rocksdb::Statistics *stats) override
	{
		return call([&] {
			return inner_->Lookup(key, helper, create, priority, wait, stats);
		});
	}
	bool Ref(Handle *handle) override
	{
		return call([&] { return inner_->Ref(handle); });
	}
	bool Release(Handle *handle, bool erase) override
	{
		return call([&] { return inner_->Release(handle, erase); });
	}
	bool Release(Handle *handle, bool useful, bool erase) override
	{
		return call([&] { return inner_->Release(handle, useful, erase); });
	}
	void *Value(Handle *handle) override { return inner_->Value(handle); }
	void Erase(const Slice &key) override
	{
		call([&] { inner_->Erase(key); });
	}
	uint64_t NewId() override { return inner_->NewId(); }
	void SetCapacity(size_t capacity) override
	{
		call([&] { inner_->SetCapacity(capacity); });
	}
	void SetStrictCapacityLimit(bool strict) override
	{
		call([&] { inner_->SetStrictCapacityLimit(strict); });
	}
	bool HasStrictCapacityLimit() const override { return inner_->HasStrictCapacityLimit(); }
	size_t GetCapacity() const override { return inner_->GetCapacity(); }
	size_t GetUsage() const override
	{
		return call([&] { return inner_->GetUsage(); });
	}
	size_t GetUsage(Handle *handle) const override { return inner_->GetUsage(handle); }
	size_t GetOccupancyCount() const override
	{
		return call([&] { return inner_->GetOccupancyCount(); });
	}
	size_t GetTableAddressCount() const override
	{
		return call([&] { return inner_->GetTableAddressCount(); });
	}
	size_t GetPinnedUsage() const override
	{
		return call([&] { return inner_->GetPinnedUsage(); });
	}
	size_t GetCharge(Handle *handle) const override { return inner_->GetCharge(handle); }
	DeleterFn GetDeleter(Handle *handle) const override { return inner_->GetDeleter(handle); }
	void DisownData() override { inner_->DisownData(); }
	void ApplyToAllEntries(
		const std::function<void(const Slice &, void *, size_t, DeleterFn)> &callback,
		const ApplyToAllEntriesOptions &options) override
	{
		call([&] { inner_->ApplyToAllEntries(callback, options); });
	}
	void EraseUnRefEntries() override
	{
		call([&] { inner_->EraseUnRefEntries(); });
	}
	std::string GetPrintableOptions() const override
	{
		return call([&] { return inner_->GetPrintableOptions(); });
	}
	bool IsReady(Handle *handle) override
	{
		return call([&] { return inner_->IsReady(handle); });
	}
	void Wait(Handle *handle) override
	{
		call([&] { inner_->Wait(handle); });
	}
	void WaitAll(std::vector<Handle *> &handles) override
	{
		call([&] { inner_->WaitAll(handles); });
	}
};

} // namespace slub_rocksdb
