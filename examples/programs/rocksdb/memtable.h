// SPDX-License-Identifier: MIT
// Memtables whose memory is charged to a group, whichever thread of a write group inserts.
#pragma once

#include <memory>
#include <unordered_set>
#include <utility>

#include <rocksdb/cache.h>
#include <rocksdb/memtablerep.h>
#include <slub/group.h>

namespace slub_rocksdb {

class InGroup {
public:
	explicit InGroup(slub_group *group) noexcept
		: group_(slub_group_enter(group) ? nullptr : group)
	{
	}
	~InGroup()
	{
		if (group_)
			slub_group_leave(group_);
	}
	InGroup(const InGroup &) = delete;
	InGroup &operator=(const InGroup &) = delete;

private:
	slub_group *group_;
};

// Hands everything on to another one.  Only keys and hints take memory of the arena.
class TenantMemTable : public rocksdb::MemTableRep {
public:
	TenantMemTable(rocksdb::MemTableRep *inner, rocksdb::Allocator *allocator,
		       slub_group *group)
		: MemTableRep(allocator), inner_(inner), group_(group)
	{
	}

	rocksdb::KeyHandle Allocate(const size_t length, char **buffer) override
	{
		InGroup in(group_);

		return inner_->Allocate(length, buffer);
	}
	void Insert(rocksdb::KeyHandle key) override { inner_->Insert(key); }
	bool InsertKey(rocksdb::KeyHandle key) override { return inner_->InsertKey(key); }
	void InsertWithHint(rocksdb::KeyHandle key, void **hint) override
	{
		InGroup in(group_);

		inner_->InsertWithHint(key, hint);
	}
	bool InsertKeyWithHint(rocksdb::KeyHandle key, void **hint) override
	{
		InGroup in(group_);

		return inner_->InsertKeyWithHint(key, hint);
	}
	void InsertWithHintConcurrently(rocksdb::KeyHandle key, void **hint) override
	{
		inner_->InsertWithHintConcurrently(key, hint);
	}
	bool InsertKeyWithHintConcurrently(rocksdb::KeyHandle key, void **hint) override
	{
		return inner_->InsertKeyWithHintConcurrently(key, hint);
	}
	void InsertConcurrently(rocksdb::KeyHandle key) override
	{
		inner_->InsertConcurrently(key);
	}
	bool InsertKeyConcurrently(rocksdb::KeyHandle key) override
	{
		return inner_->InsertKeyConcurrently(key);
	}
	bool Contains(const char *key) const override { return inner_->Contains(key); }
	void MarkReadOnly() override { inner_->MarkReadOnly(); }
	void MarkFlushed() override { inner_->MarkFlushed(); }
	void Get(const rocksdb::LookupKey &key, void *arg,
		 bool (*visit)(void *arg, const char *entry)) override
	{
		inner_->Get(key, arg, visit);
	}
	uint64_t ApproximateNumEntries(const rocksdb::Slice &from,
				       const rocksdb::Slice &to) override
	{
		return inner_->ApproximateNumEntries(from, to);
	}
	void UniqueRandomSample(const uint64_t entries, const uint64_t wanted,
				std::unordered_set<const char *> *sample) override
	{
		inner_->UniqueRandomSample(entries, wanted, sample);
	}
	size_t ApproximateMemoryUsage() override { return inner_->ApproximateMemoryUsage(); }
	Iterator *GetIterator(rocksdb::Arena *arena) override { return inner_->GetIterator(arena); }
	Iterator *GetDynamicPrefixIterator(rocksdb::Arena *arena) override
	{
		return inner_->GetDynamicPrefixIterator(arena);
	}
	bool IsMergeOperatorSupported() const override
	{
		return inner_->IsMergeOperatorSupported();
	}
	bool IsSnapshotSupported() const override { return inner_->IsSnapshotSupported(); }

private:
	std::unique_ptr<rocksdb::MemTableRep> inner_;
	slub_group *group_;
};

class TenantMemTables : public rocksdb::MemTableRepFactory {
public:
	// @tenant keeps @group alive.
	TenantMemTables(std::shared_ptr<rocksdb::Cache> tenant, slub_group *group,
			std::shared_ptr<rocksdb::MemTableRepFactory> inner)
		: tenant_(std::move(tenant)), group_(group), inner_(std::move(inner))
	{
	}

	const char *Name() const override { return inner_->Name(); }
	using MemTableRepFactory::CreateMemTableRep;
	rocksdb::MemTableRep *CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator &compare,
						rocksdb::Allocator *allocator,
						const rocksdb::SliceTransform *transform,
						rocksdb::Logger *logger) override
	{
		InGroup in(group_);

		return new TenantMemTable(
			inner_->CreateMemTableRep(compare, allocator, transform, logger),
			allocator, group_);
	}
	bool IsInsertConcurrentlySupported() const override
	{
		return inner_->IsInsertConcurrentlySupported();
	}
	bool CanHandleDuplicatedKey() const override { return inner_->CanHandleDuplicatedKey(); }

private:
	std::shared_ptr<rocksdb::Cache> tenant_;
	slub_group *group_;
	std::shared_ptr<rocksdb::MemTableRepFactory> inner_;
};

} // namespace slub_rocksdb
