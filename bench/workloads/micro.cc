// SPDX-License-Identifier: MIT
// The single calls, measured by Google Benchmark: what each entry point costs at some sizes, alone
// and with two threads. `--benchmark_format=json` is what the driver reads.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <vector>

namespace {

void malloc_free(benchmark::State &state)
{
	const size_t size = static_cast<size_t>(state.range(0));

	for (auto _ : state) {
		void *object = malloc(size);

		benchmark::DoNotOptimize(object);
		free(object);
	}
}

void calloc_free(benchmark::State &state)
{
	const size_t size = static_cast<size_t>(state.range(0));

	for (auto _ : state) {
		void *object = calloc(1, size);

		benchmark::DoNotOptimize(object);
		free(object);
	}
}

void aligned_alloc_free(benchmark::State &state)
{
	const size_t size = static_cast<size_t>(state.range(0));

	for (auto _ : state) {
		void *object = aligned_alloc(64, size);

		benchmark::DoNotOptimize(object);
		free(object);
	}
}

void new_delete(benchmark::State &state)
{
	const size_t size = static_cast<size_t>(state.range(0));

	for (auto _ : state) {
		void *object = ::operator new(size);

		benchmark::DoNotOptimize(object);
		::operator delete(object, size);
	}
}

// Grows within what a size class leaves free, and back: most calls need not move anything.
void realloc_in_place(benchmark::State &state)
{
	const size_t size = static_cast<size_t>(state.range(0));
	void *object = malloc(size);
	size_t at = 0;

	for (auto _ : state) {
		object = realloc(object, size - (at++ & 1));
		benchmark::DoNotOptimize(object);
	}
	free(object);
}

void pattern_256(benchmark::State &state)
{
	const size_t size = static_cast<size_t>(state.range(0));
	void *object[256];

	for (auto _ : state) {
		for (void *&one : object)
			one = malloc(size);
		benchmark::DoNotOptimize(object);
		for (void *one : object)
			free(one);
	}
	state.SetItemsProcessed(state.iterations() * 256);
}

} // namespace

BENCHMARK(malloc_free)->Arg(16)->Arg(256)->Arg(4096)->Arg(65536);
BENCHMARK(malloc_free)->Arg(64)->Threads(2)->UseRealTime();
BENCHMARK(new_delete)->Arg(64);
BENCHMARK(calloc_free)->Arg(64)->Arg(4096);
BENCHMARK(aligned_alloc_free)->Arg(64)->Arg(4096);
BENCHMARK(realloc_in_place)->Arg(64)->Arg(100000);
BENCHMARK(pattern_256)->Arg(64)->Arg(1024);

int main(int argc, char **argv)
{
	Dl_info info;

	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 1;
	if (dladdr(reinterpret_cast<void *>(malloc), &info) && info.dli_fname)
		benchmark::AddCustomContext("malloc", info.dli_fname);
	benchmark::RunSpecifiedBenchmarks();
	return 0;
}
