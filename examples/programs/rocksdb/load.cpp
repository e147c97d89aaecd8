// SPDX-License-Identifier: MIT
// Two tenants of one database, a column family each: one that is measured, and a hostile one.
//
//   load make FOLDER ROWS                           rows of 1,000 bytes in each
//   load run FOLDER CACHES HOSTILE SECONDS MIB
//
// CACHES  shared  one block cache of 2 * MIB, RocksDB's own
//         own     one of MIB for each, RocksDB's own
//         slub    a tenant with a limit of MIB for each
// HOSTILE none    is idle
//         scan    reads all of its rows, in order
//         pin     opens iterators over its rows, and keeps them
//         write   overwrites its rows
//         shrink  nothing, but memory is said to be short all the time
//
// The measured tenant reads an eighth of its rows again and again, at most 5,000 a second.
// Prints one line of JSON.  Exit codes: 2 usage, 3 what RocksDB said, 4 a wrong answer.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

#include "tenant.h"

namespace {

using rocksdb::Slice;
using rocksdb::Status;
using slub_rocksdb::Tenant;
using Clock = std::chrono::steady_clock;

constexpr size_t kRow = 1000;
constexpr uint64_t kHot = 8;			// the measured tenant reads this part of its rows
constexpr auto kPace = std::chrono::microseconds(200);
constexpr uint64_t kScan = 100;			// rows of a request of a scan
constexpr size_t kWriteBuffer = 2 << 20;
constexpr int kWriteBuffers = 2;

[[noreturn]] void Fail(int code, const std::string &what)
{
	std::fprintf(stderr, "load: %s\n", what.c_str());
	_exit(code);
}

void Check(const Status &status)
{
	if (!status.ok())
		Fail(3, status.ToString());
}

std::string Key(uint64_t row)
{
	char key[17];

	std::snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(row));
	return key;
}

std::string Value(uint64_t row)
{
	std::string value(kRow, '\0');
	uint64_t word = row * 0xbf58476d1ce4e5b9ull + 1;

	for (size_t at = 0; at + 8 <= kRow; at += 8) {
		std::memcpy(&value[at], &word, 8);
		word = word * 6364136223846793005ull + 1442695040888963407ull;
	}
	return value;
}

struct Numbers {
	uint64_t done = 0, refused = 0;
	std::string words;			// of the first refusal
	std::vector<float> microseconds;
};

class Load {
public:
	void Make(const char *folder, uint64_t rows)
	{
		Open(folder, "own", 64);
		for (auto *family : families_) {
			for (uint64_t row = 0; row < rows; row++)
				Check(db_->Put({}, family, Key(row), Value(row)));
			Check(db_->Flush({}, family));
			Check(db_->CompactRange({}, family, nullptr, nullptr));
		}
		Check(db_->Put({}, "rows", std::to_string(rows)));
		Close();
	}

	void Run(const char *folder, const std::string &caches, const std::string &hostile,
		 double seconds, size_t mib)
	{
		std::string text;

		Open(folder, caches, mib);
		Check(db_->Get({}, "rows", &text));
		rows_ = std::stoull(text);
		Warm();

		std::thread other([&] { Hostile(hostile); });
		auto end = Clock::now() + std::chrono::microseconds(int64_t(seconds * 1e6));

		Measured(end);
		stop_ = true;
		other.join();
		Print(caches, hostile, seconds);
		iterators_.clear();
		Close();
		if (tenants_[0])
			PrintLeft();
		std::puts("}");
	}

private:
	void Open(const char *folder, const std::string &caches, size_t mib)
	{
		std::vector<rocksdb::ColumnFamilyDescriptor> wanted = { { "default", {} } };
		std::vector<rocksdb::ColumnFamilyHandle *> handles;
		rocksdb::DBOptions options;

		options.create_if_missing = options.create_missing_column_families = true;
		options.statistics = rocksdb::CreateDBStatistics();
		options.statistics->set_stats_level(rocksdb::kExceptTimers);
		for (int i = 0; i < 2; i++) {
			rocksdb::ColumnFamilyOptions family;

			SetUp(&family, caches, i, mib);
			wanted.emplace_back(names_[i], family);
		}
		// A miss is a read of the disk, not of the kernel's copy; not every file system can.
		options.use_direct_reads = true;
		Status status = rocksdb::DB::Open(options, folder, wanted, &handles, &db_);

		is_direct_ = status.ok();
		if (!is_direct_) {
			options.use_direct_reads = false;
			status = rocksdb::DB::Open(options, folder, wanted, &handles, &db_);
		}
		Check(status);
		default_ = handles[0];
		families_ = { handles[1], handles[2] };
	}

	void SetUp(rocksdb::ColumnFamilyOptions *family, const std::string &caches, int i,
		   size_t mib)
	{
		rocksdb::BlockBasedTableOptions table;

		family->compression = rocksdb::kNoCompression;
		family->write_buffer_size = kWriteBuffer;
		family->max_write_buffer_number = kWriteBuffers;
		table.cache_index_and_filter_blocks = true;
		table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
		if (caches == "shared" && i == 1)
			table.block_cache = caches_[0];
		else if (caches != "slub")
			table.block_cache =
				rocksdb::NewLRUCache(mib << (caches == "shared" ? 21 : 20));
		caches_[i] = table.block_cache;
		family->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
		if (caches != "slub")
			return;

		slub_rocksdb::TenantOptions tenant;

		tenant.name = names_[i];
		tenant.limit = mib << 20;
		Check(Tenant::Open(tenant, &tenants_[i]));
		Check(tenants_[i]->Adopt(family));
		caches_[i] = tenants_[i];
	}

	void Close()
	{
		for (auto *family : families_)
			Check(db_->DestroyColumnFamilyHandle(family));
		Check(db_->DestroyColumnFamilyHandle(default_));
		Check(db_->Close());
		delete db_;
		// What is left of the tenants is theirs alone.
		for (auto &cache : caches_)
			cache.reset();
	}

	// A request of a tenant; without tenants it is only counted.
	template <class Request> void Serve(int i, Numbers *numbers, Request &&request)
	{
		Status status;

		if (tenants_[i]) {
			Tenant::Scope scope(tenants_[i].get());

			status = scope.status().ok() ? request() : scope.status();
		} else {
			status = request();
		}
		numbers->done++;
		if (status.IsMemoryLimit()) {
			if (!numbers->refused++)
				numbers->words = status.ToString();
			usleep(1000);
		} else {
			Check(status);
		}
	}

	Status Read(int i, uint64_t row, rocksdb::PinnableSlice *value)
	{
		value->Reset();
		Status status = db_->Get({}, families_[i], Key(row), value);

		if (status.ok() && value->ToString() != Value(row))
			Fail(4, std::string(names_[i]) + ": a wrong value");
		return status;
	}

	void Warm()
	{
		Numbers ignored;
		rocksdb::PinnableSlice value;

		for (uint64_t row = 0; row < rows_ / kHot; row++)
			Serve(0, &ignored, [&] { return Read(0, row, &value); });
	}

	void Measured(Clock::time_point end)
	{
		std::mt19937_64 random(1);
		Numbers *numbers = &numbers_[0];
		rocksdb::PinnableSlice value;

		while (Clock::now() < end) {
			uint64_t row = random() % (rows_ / kHot);
			auto begin = Clock::now();

			Serve(0, numbers, [&] { return Read(0, row, &value); });
			std::chrono::duration<float, std::micro> took = Clock::now() - begin;
			numbers->microseconds.push_back(took.count());
			std::this_thread::sleep_until(begin + kPace);
		}
	}

	void Hostile(const std::string &kind)
	{
		std::mt19937_64 random(2);
		Numbers *numbers = &numbers_[1];

		while (!stop_ && kind != "none") {
			uint64_t row = random() % rows_;

			if (kind == "shrink") {
				slub_shrink(0);
				usleep(1000);
			} else if (kind == "scan") {
				Serve(1, numbers, [&] { return Scan(); });
			} else if (kind == "pin") {
				Serve(1, numbers, [&] { return Pin(row); });
			} else {
				Serve(1, numbers, [&] {
					return db_->Put({}, families_[1], Key(row), Value(row));
				});
			}
		}
	}

	Status Scan()
	{
		rocksdb::ReadOptions options;

		options.readahead_size = 1 << 20;
		std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, families_[1]));

		at->Seek(Key(scanned_));
		for (uint64_t row = 0; row < kScan && at->Valid(); row++)
			at->Next();
		scanned_ = at->Valid() ? scanned_ + kScan : 0;
		return at->status();
	}

	// An iterator that nobody closes keeps its block.
	Status Pin(uint64_t row)
	{
		std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, families_[1]));
		Status status;

		at->Seek(Key(row));
		status = at->status();
		if (status.ok())
			iterators_.push_back(std::move(at));
		return status;
	}

	static float Percentile(std::vector<float> *sorted, double part)
	{
		return sorted->empty() ? 0 : (*sorted)[size_t(part * double(sorted->size() - 1))];
	}

	uint64_t Property(int i, const char *name)
	{
		uint64_t value = 0;

		db_->GetIntProperty(families_[i], name, &value);
		return value;
	}

	void Print(const std::string &caches, const std::string &hostile, double seconds)
	{
		std::vector<float> *times = &numbers_[0].microseconds;
		struct rusage usage;

		std::sort(times->begin(), times->end());
		getrusage(RUSAGE_SELF, &usage);
		std::printf("{\"caches\": \"%s\", \"hostile\": \"%s\", \"direct\": %d, "
			    "\"per_second\": %.0f, "
			    "\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, "
			    "\"rss_mib\": %.1f, \"tenants\": [",
			    caches.c_str(), hostile.c_str(), is_direct_, double(numbers_[0].done) / seconds,
			    double(Percentile(times, .5)), double(Percentile(times, .99)),
			    double(Percentile(times, .999)), double(usage.ru_maxrss) / 1024);
		for (int i = 0; i < 2; i++)
			PrintTenant(i);
		std::printf("]");
	}

	void PrintTenant(int i)
	{
		const Numbers &n = numbers_[i];

		std::printf("%s{\"name\": \"%s\", \"requests\": %llu, \"refused\": %llu, "
			    "\"words\": \"%s\", \"cache\": %zu, \"pinned\": %zu, "
			    "\"memtables\": %llu",
			    i ? ", " : "", names_[i], static_cast<unsigned long long>(n.done),
			    static_cast<unsigned long long>(n.refused), n.words.c_str(),
			    caches_[i]->GetUsage(), caches_[i]->GetPinnedUsage(),
			    static_cast<unsigned long long>(
				    Property(i, "rocksdb.size-all-mem-tables")));
		if (tenants_[i]) {
			slub_rocksdb::TenantUsage usage = tenants_[i]->Usage();

			std::printf(", \"charged\": %zu, \"blocks\": %zu, \"limit\": %zu, "
				    "\"peak_overdrawn\": %zu, \"shrunk\": %llu",
				    usage.charged, usage.blocks, usage.limit, usage.peak_overdrawn,
				    static_cast<unsigned long long>(usage.shrunk));
		}
		std::printf("}");
	}

	void PrintLeft()
	{
		for (auto &tenant : tenants_)
			tenant->EraseUnRefEntries();
		slub_rocksdb::TenantUsage one = tenants_[0]->Usage(), two = tenants_[1]->Usage();

		std::printf(", \"left\": [%zu, %zu], \"left_blocks\": [%zu, %zu]", one.charged,
			    two.charged, one.blocks, two.blocks);
	}

	const char *const names_[2] = { "measured", "hostile" };
	std::shared_ptr<Tenant> tenants_[2];
	std::shared_ptr<rocksdb::Cache> caches_[2];
	rocksdb::DB *db_ = nullptr;
	rocksdb::ColumnFamilyHandle *default_ = nullptr;
	std::vector<rocksdb::ColumnFamilyHandle *> families_;
	std::vector<std::unique_ptr<rocksdb::Iterator>> iterators_;
	Numbers numbers_[2];
	uint64_t rows_ = 0, scanned_ = 0;
	bool is_direct_ = false;
	std::atomic<bool> stop_{ false };
};

} // namespace

int main(int argc, char **argv)
{
	std::string mode = argc > 1 ? argv[1] : "";

	if (mode == "make" && argc == 4)
		Load().Make(argv[2], std::strtoull(argv[3], nullptr, 10));
	else if (mode == "run" && argc == 7)
		Load().Run(argv[2], argv[3], argv[4], std::atof(argv[5]),
			   std::strtoull(argv[6], nullptr, 10));
	else
		Fail(2, "usage: load make FOLDER ROWS | load run FOLDER CACHES HOSTILE SECONDS MIB");
	return 0;
}
