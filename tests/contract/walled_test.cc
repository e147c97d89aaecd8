/* SPDX-License-Identifier: MIT */
/* Promise: where the program has mapped all addresses but a few, malloc finds what is free. */
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

namespace {

const size_t hole_bytes = 64 << 10;

void *map_closed(size_t bytes)
{
	return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Down to the last page: then the program's break cannot move either. */
void map_all_addresses()
{
	sbrk(0);
	for (size_t bytes = size_t{1} << 46; bytes >= hole_bytes / 16; bytes /= 2) {
		while (map_closed(bytes) != MAP_FAILED)
			;
	}
}

void take_all_memory()
{
	for (size_t bytes = 4 << 20; bytes >= 8; bytes /= 2) {
		while (void **block = static_cast<void **>(malloc(bytes)))
			block[0] = block;
	}
}

void expect(bool what, int status)
{
	if (!what)
		_exit(status);
}

/* Not more than 64 KiB, so blocks of each kind come one after the other. */
void use_the_hole()
{
	char *block = static_cast<char *>(malloc(10000));

	expect(block, 2);
	expect(malloc_usable_size(block) >= 10000, 3);
	harness::fill(block, 10000, 1);
	char *longer = static_cast<char *>(realloc(block, 20000));
	expect(longer && harness::intact(longer, 10000, 1), 4);
	free(longer);
	block = static_cast<char *>(calloc(100, 400));
	expect(block && harness::first_nonzero(block, 40000) == 40000, 5);
	free(block);
	block = static_cast<char *>(aligned_alloc(16384, 30000));
	expect(block && reinterpret_cast<uintptr_t>(block) % 16384 == 0, 6);
	memset(block, 1, 30000);
	free(block);
	block = static_cast<char *>(malloc(20));
	expect(block, 7);
	memset(block, 1, 20);
	free(block);
	/* No block of the heap, and no guarded one either. */
	auto *later = reinterpret_cast<void (*)(void *)>(dlsym(RTLD_DEFAULT, "slub_free_deferred"));
	auto *end = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "slub_deferred_barrier"));
	if (later && end) {
		later(malloc(10000));
		expect(!end(), 10);
	}
}

void in_a_hole()
{
	char *hole = static_cast<char *>(map_closed(hole_bytes));

	map_all_addresses();
	take_all_memory();
	errno = 0;
	expect(!malloc(10000) && errno == ENOMEM, 1);
	munmap(hole, hole_bytes);
	for (int i = 0; i < 100; i++)
		use_the_hole();
	/* It went back each time. */
	expect(map_closed(hole_bytes) != MAP_FAILED, 8);
	expect(!malloc(10000), 9);
	_exit(0);
}

} /* namespace */

TEST(Walled, WhatIsFreeIsFound)
{
	if (harness::is_emulated())
		GTEST_SKIP() << "addresses are the emulator's";
	EXPECT_EQ(harness::describe_status(harness::in_child(in_a_hole)), "exit 0");
}
