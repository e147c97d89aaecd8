// SPDX-License-Identifier: MIT
#include "tenant.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include <rocksdb/table.h>
#include <slub/malloc.h>

#include "memtable.h"

namespace slub_rocksdb {

using rocksdb::Slice;
using rocksdb::Status;

namespace {

constexpr size_t kUnit = 4096;			// what a shrinker counts in
constexpr size_t kLeastCache = 1 << 20;
constexpr size_t kOverdraft = 64 << 10;		// a step beyond the limit
constexpr int64_t kAskAgainNs = 1000000;
constexpr unsigned kGrowth = 8;			// after a shortage: an eighth of what is inserted
constexpr unsigned kStep = 64;			// the cache grows by that part at a time

int64_t now()
{
	return std::chrono::steady_clock::now().time_since_epoch().count();
}

// Blocks of one tenant's cache, from slabs that hold nothing else, charged to its group.
class BlockAllocator : public rocksdb::MemoryAllocator {
public:
	BlockAllocator(const std::string &name, const slub::group &group)
		: bucket_(name, SLUB_CACHE_ACCOUNT)
	{
		bucket_.set_group(group);
	}
	const char *Name() const override { return "slub_rocksdb::BlockAllocator"; }
	void *Allocate(size_t size) override { return bucket_.allocate(size); }
	void Deallocate(void *block) override { bucket_.deallocate(block); }
	size_t UsableSize(void *block, size_t) const override
	{
		return slub_usable_size(block);
	}
	size_t Bytes() const { return bucket_.stats().live_bytes; }

private:
	slub::bucket bucket_;
};

rocksdb::LRUCacheOptions Lru(const TenantOptions &options,
			     const std::shared_ptr<rocksdb::MemoryAllocator> &allocator)
{
	rocksdb::LRUCacheOptions lru = options.cache;

	if (!lru.capacity)
		lru.capacity = std::min(options.limit, size_t(1) << 40);
	lru.memory_allocator = allocator;
	lru.strict_capacity_limit = false;	// it is the tenant that refuses
	return lru;
}

} // namespace

Status Tenant::Open(const TenantOptions &options, std::shared_ptr<Tenant> *tenant)
{
	tenant->reset();
	if (options.limit < kLeastCache)
		return Status::InvalidArgument("tenant " + options.name,
					       "a limit of " + std::to_string(options.limit) +
						       " bytes is below the least, " +
						       std::to_string(kLeastCache));
	try {
		slub::group group(options.name.c_str());
		auto allocator = std::make_shared<BlockAllocator>(options.name, group);

		group.set_limit(SLUB_GROUP_MAX, options.limit);
		*tenant = std::make_shared<Tenant>(options, std::move(allocator),
						   std::move(group));
	} catch (const std::exception &error) {
		return Status::InvalidArgument("tenant " + options.name, error.what());
	}
	return Status::OK();
}

Tenant::Tenant(const TenantOptions &options, std::shared_ptr<rocksdb::MemoryAllocator> allocator,
	       slub::group group)
	: ForwardCache(rocksdb::NewLRUCache(Lru(options, allocator)), allocator),
	  name_(options.name), limit_(options.limit), allowed_(options.limit),
	  most_(inner_->GetCapacity()), capacity_(most_.load()), group_(std::move(group)),
	  shrinker_(
		  group_, name_.c_str(), [this] { return Idle(); },
		  [this](size_t units) { return Shrink(units); })
{
	group_.set_handler(OnMaximum, this);
}

Tenant::~Tenant()
{
	group_.set_handler(nullptr, nullptr);
}

Status Tenant::Adopt(rocksdb::ColumnFamilyOptions *options)
{
	size_t memtables = options->write_buffer_size * size_t(options->max_write_buffer_number);
	auto *table = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();

	if (!table)
		return Status::InvalidArgument("tenant " + name_, "tables are not block-based");
	if (limit_ != SLUB_GROUP_NO_LIMIT && memtables + kLeastCache > limit_)
		return Status::InvalidArgument(
			"tenant " + name_,
			"a limit of " + std::to_string(limit_) + " bytes is below the least, " +
				std::to_string(memtables + kLeastCache) +
				": write_buffer_size * max_write_buffer_number, and a cache");

	rocksdb::BlockBasedTableOptions mine = *table;

	mine.no_block_cache = false;
	mine.block_cache = shared_from_this();
	options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(mine));
	options->memtable_factory = std::make_shared<TenantMemTables>(
		mine.block_cache, group_.handle(), options->memtable_factory);
	return Status::OK();
}

// ---- the limit ----

// In the middle of somebody's malloc, and nothing is left to take from the cache.  RocksDB cannot
// take no for an answer there: it gets its bytes, and the tenant's requests are refused instead.
bool Tenant::OnMaximum(slub_group *group, size_t bytes, void *arg) noexcept
{
	Tenant *tenant = static_cast<Tenant *>(arg);
	size_t step = bytes + kOverdraft;
	size_t allowed = tenant->allowed_.fetch_add(step) + step;
	size_t over = allowed - tenant->limit_, peak = tenant->peak_overdrawn_;

	while (over > peak && !tenant->peak_overdrawn_.compare_exchange_weak(peak, over))
		continue;
	slub_group_limit_set(group, SLUB_GROUP_MAX, allowed);
	tenant->is_over_ = true;
	return true;
}

// Is the tenant below its limit again?  That may take memory from its cache.
bool Tenant::IsBack()
{
	int64_t time = now();

	if (!is_over_)
		return true;
	if (time < ask_again_)
		return false;
	is_over_ = false;
	if (slub_group_limit_set(group_.handle(), SLUB_GROUP_MAX, limit_) == 0) {
		allowed_ = limit_;
		return true;
	}
	is_over_ = true;
	ask_again_ = time + kAskAgainNs;
	return false;
}

Status Tenant::Refused()
{
	refused_++;
	return Status::MemoryLimit("tenant " + name_,
				   "has all of its " + std::to_string(limit_) + " bytes");
}

Status Tenant::Admit()
{
	return IsBack() ? Status::OK() : Refused();
}

// Only a request of the tenant itself is refused: an error in a flush stops the whole database.
bool Tenant::MayInsert()
{
	bool is_own = slub_group_current() == group_.handle();

	// The handle that the cache allocates with a lock held, when Shrink() cannot help: it
	// finds the room that this makes.
	if (is_own)
		slub_free(slub_malloc(160));
	return !is_own || IsBack();
}

Status Tenant::Refuse(const Slice &key, void *value, DeleterFn deleter, Handle **handle)
{
	if (handle) {
		*handle = nullptr;
		return Refused();
	}
	// As if it had been inserted, and evicted at once.
	if (deleter)
		deleter(key, value);
	return Status::OK();
}

Status Tenant::Insert(const Slice &key, void *value, size_t charge, DeleterFn deleter,
		      Handle **handle, Priority priority)
{
	if (!MayInsert())
		return Refuse(key, value, deleter, handle);
	Grow(charge);
	return ForwardCache::Insert(key, value, charge, deleter, handle, priority);
}

Status Tenant::Insert(const Slice &key, void *value, const CacheItemHelper *helper, size_t charge,
		      Handle **handle, Priority priority)
{
	if (!MayInsert())
		return Refuse(key, value, helper ? helper->del_cb : nullptr, handle);
	Grow(charge);
	return ForwardCache::Insert(key, value, helper, charge, handle, priority);
}

// ---- the capacity ----

void Tenant::SetCapacity(size_t capacity)
{
	std::lock_guard<std::mutex> lock(resizing_);

	most_ = capacity_ = capacity;
	ForwardCache::SetCapacity(capacity);
}

// After a shortage the cache takes memory again, slowly: if there is none it is asked again.
void Tenant::Grow(size_t charge)
{
	size_t capacity = capacity_.load(std::memory_order_relaxed);

	if (capacity >= most_.load(std::memory_order_relaxed))
		return;
	size_t earned = earned_.fetch_add(charge / kGrowth, std::memory_order_relaxed);

	if (earned < std::max(capacity / kStep, kOverdraft))
		return;
	std::unique_lock<std::mutex> lock(resizing_, std::try_to_lock);

	if (!lock)
		return;
	capacity_ = std::min(most_.load(), capacity_ + earned_.exchange(0));
	ForwardCache::SetCapacity(capacity_);
}

// The shrinker's functions run in the middle of any thread's malloc().  A thread that is inside a
// cache may hold a lock of a shard, and leaves all caches alone; so nobody waits here for one that
// waits for him.
size_t Tenant::Idle() const
{
	if (Inside::now())
		return 0;
	size_t usage = GetUsage(), pinned = GetPinnedUsage();

	return usage > pinned ? (usage - pinned) / kUnit : 0;
}

size_t Tenant::Shrink(size_t units)
{
	if (Inside::now())
		return SLUB_SHRINK_STOP;
	// Who holds it is inside the cache, and waits for nobody who might wait for it.
	std::lock_guard<std::mutex> lock(resizing_);
	size_t before = GetUsage();
	size_t bytes = std::min(before, units * kUnit);

	capacity_ = std::min(capacity_.load(), before - bytes);
	earned_ = 0;
	ForwardCache::SetCapacity(capacity_);
	size_t after = GetUsage();
	size_t freed = before > after ? before - after : 0;

	shrunk_ += freed;
	return freed / kUnit;
}

TenantUsage Tenant::Usage()
{
	TenantUsage usage = {};

	usage.charged = group_.stats().usage;
	usage.blocks = static_cast<const BlockAllocator *>(memory_allocator())->Bytes();
	usage.cache = GetUsage();
	usage.pinned = GetPinnedUsage();
	usage.limit = limit_;
	usage.overdrawn = usage.charged > limit_ ? usage.charged - limit_ : 0;
	usage.peak_overdrawn = peak_overdrawn_;
	usage.refused = refused_;
	usage.shrunk = shrunk_;
	return usage;
}

} // namespace slub_rocksdb
