/* SPDX-License-Identifier: MIT */
/*
 * Promise: a request is refused for its size where the kernel would refuse the program a mapping of
 * that size (vm.overcommit_memory), and an ordinary one is not.
 */
#include <cerrno>
#include <cstdio>
#include <functional>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "harness.h"

using harness::opaque;

namespace {

const size_t MiB = size_t{1} << 20;

int overcommit()
{
	FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
	int mode = -1;

	if (file && fscanf(file, "%d", &mode) != 1)
		mode = -1;
	if (file)
		fclose(file);
	return mode;
}

/* What the kernel answers is what counts, in any mode and on any machine. */
bool kernel_maps(size_t bytes)
{
	void *got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);

	return got != MAP_FAILED && !munmap(got, bytes);
}

size_t all_memory()
{
	struct sysinfo info;

	sysinfo(&info);
	return (info.totalram + info.totalswap) * size_t{info.mem_unit};
}

struct request {
	const char *name;
	std::function<void *(size_t)> make;
};

void *by_posix_memalign(size_t bytes)
{
	void *got = nullptr;

	return posix_memalign(&got, 64, bytes) ? nullptr : got;
}

/* From a block that is there, and stays where the request is refused. */
void *by_realloc(size_t bytes, size_t from)
{
	auto *block = static_cast<char *>(malloc(from));

	block[0] = block[from - 1] = 'x';
	auto *got = static_cast<char *>(realloc(block, bytes));
	if (!got) {
		int saved = errno;
		EXPECT_EQ(block[0], 'x');
		EXPECT_EQ(block[from - 1], 'x');
		free(block);
		errno = saved;
	}
	return got;
}

const request requests[] = {
	{"malloc", [](size_t n) { return malloc(n); }},
	{"calloc", [](size_t n) { return calloc(n / 8, 8); }},
	{"realloc of nothing", [](size_t n) { return realloc(nullptr, n); }},
	{"realloc of 100 bytes", [](size_t n) { return by_realloc(n, 100); }},
	{"realloc of 200 KiB", [](size_t n) { return by_realloc(n, 200 << 10); }},
	{"realloc of 5 MiB", [](size_t n) { return by_realloc(n, 5 * MiB); }},
	{"reallocarray", [](size_t n) { return reallocarray(nullptr, n / 8, 8); }},
	{"aligned_alloc", [](size_t n) { return aligned_alloc(4096, n); }},
	{"aligned to 4 MiB", [](size_t n) { return aligned_alloc(4 * MiB, n); }},
	{"memalign", [](size_t n) { return memalign(64, n); }},
	{"posix_memalign", by_posix_memalign},
	{"valloc", [](size_t n) { return valloc(n); }},
	{"pvalloc", [](size_t n) { return pvalloc(n); }},
	{"operator new", [](size_t n) { return operator new(n, std::nothrow); }},
};

void expect_as_kernel(size_t bytes)
{
	bool is_mapped = kernel_maps(bytes);

	for (const request &one : requests) {
		errno = 0;
		void *got = one.make(opaque(bytes));
		EXPECT_EQ(got != nullptr, is_mapped) << one.name << " " << bytes;
		if (!got) {
			EXPECT_EQ(errno, ENOMEM) << one.name << " " << bytes;
		}
		free(got);
		/* Or calloc() would have to clear what the last one had. */
		malloc_trim(0);
	}
}

class Overcommit : public testing::Test {
protected:
	void SetUp() override
	{
		if (overcommit() != 0 && overcommit() != 1)
			GTEST_SKIP() << "vm.overcommit_memory is not 0 or 1: what can be had is a "
					"matter of what other processes have";
	}
};

} /* namespace */

TEST_F(Overcommit, AsTheKernelWould)
{
	for (size_t bytes : {all_memory() / 4, all_memory() / 2, all_memory() / 16 * 15,
			     all_memory() + 64 * MiB, all_memory() * 2})
		expect_as_kernel(bytes);
}

/* What was once had and freed is addresses, no memory: it makes no difference. */
TEST_F(Overcommit, AddressesThatAreThere)
{
	size_t part = all_memory() / 2;
	void *blocks[3];

	for (void *&block : blocks)
		block = malloc(part);
	for (void *block : blocks)
		free(block);
	malloc_trim(0);
	expect_as_kernel(all_memory() + 64 * MiB);
}

/* Each request for itself, as each mapping is: several that fit are had, as under glibc. */
TEST_F(Overcommit, SeveralThatFit)
{
	void *first = malloc(opaque(all_memory() / 4 * 3));
	void *second = malloc(opaque(all_memory() / 4 * 3));

	EXPECT_NE(first, nullptr);
	EXPECT_NE(second, nullptr);
	free(first);
	free(second);
}
