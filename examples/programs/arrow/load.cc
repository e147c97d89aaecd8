/* SPDX-License-Identifier: MIT */
/*
 * Arrow at work on a memory pool: a table is read from Parquet, filtered, sorted, written as
 * Parquet, read again and summed by groups, by Arrow's own code and on its own threads.
 *
 *   load POOL ROWS ROUNDS THREADS [LIMIT_MIB]
 *
 * POOL: system, jemalloc, mimalloc, or slub, where it is compiled with LOAD_SLUB.  THREADS
 * tenants each do ROUNDS queries, with a pool of their own, if it is slub; LIMIT_MIB is what
 * the first of them may have.  A query without memory is counted and given up.  Prints JSON.
 */
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <arrow/acero/api.h>
#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/csv/api.h>
#include <arrow/io/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <sys/resource.h>

#ifdef LOAD_SLUB
#include <slub/cpp/arrow.hpp>
#endif

namespace cp = arrow::compute;

namespace {

struct tenant {
	std::string name;
#ifdef LOAD_SLUB
	/* In this order: the pool ends first. */
	std::optional<slub::group> group;
	std::optional<slub::bucket> bucket;
	std::optional<slub::arrow_pool> own;
#endif
	arrow::MemoryPool *pool = nullptr;
	long done = 0, refused = 0;
	std::uint64_t sum = 0;
	std::string error;	/* the first refusal */
};

std::string make_text(long rows)
{
	std::string text = "id,tenant,amount,name\n";
	std::uint64_t chance = 88172645463325252ull;

	for (long i = 0; i < rows; i++) {
		chance ^= chance << 13;
		chance ^= chance >> 7;
		chance ^= chance << 17;
		text += std::to_string(i) + "," + std::to_string(chance % 1000) + "," +
			std::to_string(double(chance % 100000) / 100) + ",name-" +
			std::to_string(chance % 5000) + "\n";
	}
	return text;
}

using bytes_result = arrow::Result<std::shared_ptr<arrow::Buffer>>;
using table_result = arrow::Result<std::shared_ptr<arrow::Table>>;

bytes_result write(const arrow::Table &table, arrow::MemoryPool *pool)
{
	ARROW_ASSIGN_OR_RAISE(auto out, arrow::io::BufferOutputStream::Create(4096, pool));
	ARROW_RETURN_NOT_OK(parquet::arrow::WriteTable(table, pool, out, 64 << 10));
	return out->Finish();
}

table_result read(const std::shared_ptr<arrow::Buffer> &bytes, arrow::MemoryPool *pool)
{
	parquet::arrow::FileReaderBuilder builder;

	ARROW_RETURN_NOT_OK(builder.Open(std::make_shared<arrow::io::BufferReader>(bytes)));
	ARROW_ASSIGN_OR_RAISE(auto reader, builder.memory_pool(pool)->Build());
	return reader->ReadTable();
}

/* What is asked about, in Arrow's own memory, for all tenants. */
bytes_result prepare(long rows)
{
	arrow::MemoryPool *pool = arrow::default_memory_pool();
	auto input = std::make_shared<arrow::io::BufferReader>(
		arrow::Buffer::FromString(make_text(rows)));

	ARROW_ASSIGN_OR_RAISE(auto reader, arrow::csv::TableReader::Make(
		arrow::io::IOContext(pool), input, arrow::csv::ReadOptions::Defaults(),
		arrow::csv::ParseOptions::Defaults(), arrow::csv::ConvertOptions::Defaults()));
	ARROW_ASSIGN_OR_RAISE(auto table, reader->Read());
	return write(*table, pool);
}

arrow::Result<std::uint64_t> query(const std::shared_ptr<arrow::Buffer> &file,
				   arrow::MemoryPool *pool)
{
	cp::ExecContext context(pool);

	ARROW_ASSIGN_OR_RAISE(auto table, read(file, pool));
	ARROW_ASSIGN_OR_RAISE(auto few, cp::CallFunction("less",
		{ table->GetColumnByName("tenant"), arrow::Datum(std::int64_t(600)) }, &context));
	ARROW_ASSIGN_OR_RAISE(auto kept, cp::Filter(arrow::Datum(table), few,
						    cp::FilterOptions::Defaults(), &context));
	ARROW_ASSIGN_OR_RAISE(auto order, cp::SortIndices(kept,
		cp::SortOptions({ cp::SortKey("amount"), cp::SortKey("name") }), &context));
	ARROW_ASSIGN_OR_RAISE(auto sorted, cp::Take(kept, arrow::Datum(order),
						    cp::TakeOptions::Defaults(), &context));
	ARROW_ASSIGN_OR_RAISE(auto written, write(*sorted.table(), pool));
	ARROW_ASSIGN_OR_RAISE(auto back, read(written, pool));
	auto source = arrow::acero::Declaration("table_source",
		arrow::acero::TableSourceNodeOptions(back));
	auto groups = arrow::acero::Declaration("aggregate", { source },
		arrow::acero::AggregateNodeOptions(
			{ { "hash_sum", nullptr, "amount", "sum" } }, { "name" }));
	ARROW_ASSIGN_OR_RAISE(auto result, arrow::acero::DeclarationToTable(groups, true, pool));
	ARROW_ASSIGN_OR_RAISE(auto sum, cp::Sum(arrow::Datum(back->GetColumnByName("id")),
		cp::ScalarAggregateOptions::Defaults(), &context));
	return std::uint64_t(sum.scalar_as<arrow::Int64Scalar>().value) * 1000003 +
	       std::uint64_t(result->num_rows());
}

void work(tenant &t, const std::shared_ptr<arrow::Buffer> &file, long rounds)
{
	for (long i = 0; i < rounds; i++) {
		auto result = query(file, t.pool);

		if (result.ok()) {
			t.done++;
			t.sum = *result;
		} else if (result.status().IsOutOfMemory()) {
			if (!t.refused++)
				t.error = result.status().message();
		} else {
			std::fprintf(stderr, "load: %s\n", result.status().ToString().c_str());
			std::exit(3);
		}
	}
}

void give_pool(tenant &t, const std::string &kind, long limit_mib)
{
	arrow::Status status;

	if (kind == "system") {
		t.pool = arrow::system_memory_pool();
	} else if (kind == "jemalloc") {
		status = arrow::jemalloc_memory_pool(&t.pool);
	} else if (kind == "mimalloc") {
		status = arrow::mimalloc_memory_pool(&t.pool);
#ifdef LOAD_SLUB
	} else if (kind == "slub") {
		t.group.emplace(t.name.c_str());
		if (limit_mib)
			t.group->set_limit(SLUB_GROUP_MAX, std::size_t(limit_mib) << 20);
		t.bucket.emplace(t.name, SLUB_CACHE_ACCOUNT);
		t.bucket->set_group(*t.group);
		t.pool = &t.own.emplace(*t.bucket);
#endif
	}
	if (!t.pool) {
		std::fprintf(stderr, "load: there is no pool %s here (%s)\n", kind.c_str(),
			     status.ToString().c_str());
		std::exit(2);
	}
	static_cast<void>(limit_mib);
}

long status_kib(const char *what)
{
	std::FILE *file = std::fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	while (file && std::fgets(line, sizeof(line), file)) {
		if (!std::strncmp(line, what, std::strlen(what)))
			kib = std::atol(line + std::strlen(what) + 1);
	}
	if (file)
		std::fclose(file);
	return kib;
}

/* What a tenant had, in the words of Arrow, and of the library. */
void print_tenant(const tenant &t)
{
	std::printf("{\"name\": \"%s\", \"done\": %ld, \"refused\": %ld, \"sum\": \"%lx\", "
		    "\"error\": \"%s\", \"bytes\": %ld, \"peak\": %ld", t.name.c_str(), t.done,
		    t.refused, static_cast<unsigned long>(t.sum), t.error.c_str(),
		    long(t.pool->bytes_allocated()), long(t.pool->max_memory()));
#ifdef LOAD_SLUB
	if (t.group) {
		slub::group_stats charged = t.group->stats();

		std::printf(", \"charged\": %zu, \"charged_peak\": %zu", charged.usage,
			    charged.peak);
	}
#endif
	std::printf("}");
}

void run(std::vector<tenant> &tenants, const std::shared_ptr<arrow::Buffer> &file, long rounds)
{
	std::vector<std::thread> threads;
	auto start = std::chrono::steady_clock::now();
	struct rusage usage;
	const char *comma = "";

	for (tenant &t : tenants)
		threads.emplace_back([&] { work(t, file, rounds); });
	for (std::thread &thread : threads)
		thread.join();
	std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
	getrusage(RUSAGE_SELF, &usage);
	tenants[0].pool->ReleaseUnused();
	std::printf("{\"seconds\": %.3f, \"cpu_seconds\": %.3f, \"peak_mib\": %ld, "
		    "\"after_mib\": %ld, \"tenants\": [", seconds.count(),
		    double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			    double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
		    status_kib("VmHWM") / 1024, status_kib("VmRSS") / 1024);
	for (const tenant &t : tenants) {
		std::printf("%s", comma);
		print_tenant(t);
		comma = ", ";
	}
	std::printf("]}\n");
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 5) {
		std::fprintf(stderr, "usage: load POOL ROWS ROUNDS THREADS [LIMIT_MIB]\n");
		return 2;
	}
	std::vector<tenant> tenants(std::size_t(std::max(1, std::atoi(argv[4]))));
	bytes_result file = cp::Initialize().ok() ? prepare(std::atol(argv[2]))
						  : arrow::Status::NotImplemented("compute");

	if (!file.ok()) {
		std::fprintf(stderr, "load: %s\n", file.status().ToString().c_str());
		return 3;
	}
	for (std::size_t i = 0; i < tenants.size(); i++) {
		tenants[i].name = "tenant" + std::to_string(i);
		give_pool(tenants[i], argv[1], i == 0 && argc > 5 ? std::atol(argv[5]) : 0);
	}
	run(tenants, *file, std::atol(argv[3]));
	return 0;
}
