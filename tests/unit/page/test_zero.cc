/* SPDX-License-Identifier: MIT */
/* core/page/zero.c: zeros are written for programs that fill blocks; else the kernel gives them. */
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "clock.h"
#include "harness.h"
#include "start.h"
#include "walk.h"

namespace {

const size_t block_bytes = 200 << 10;
/* For a block; a call takes 1,000, and 200 for each page. */
const uint64_t write_ns = 20000;
unsigned nr_calls;
bool is_refused;

} /* namespace */

/* By the linker's --wrap: what it takes grows with what it finds. */
extern "C" int __real_os_purge(void *, size_t);

extern "C" int __wrap_os_purge(void *start, size_t bytes)
{
	nr_calls++;
	if (is_refused)
		return -EINVAL;
	now_ns -= write_ns - 1000 - 200 * resident_pages(start, bytes);
	return __real_os_purge(start, bytes);
}

namespace {

/* For the page faults since it was asked last. */
uint64_t faults_ns()
{
	static long before;
	struct rusage usage;
	long now, faults;

	getrusage(RUSAGE_SELF, &usage);
	now = usage.ru_minflt;
	faults = now - before;
	before = now;
	return (uint64_t)faults * 2000;
}

class zero : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		start::once([] { start::page(1024 * 1024 * 1024ul, 16 << 20); });
	}
	void SetUp() override
	{
		clock_step_ns = write_ns;
		is_refused = false;
		/* Nothing is to go back but by calloc. */
		page_retain_changed();
	}
	/* As calloc() and free(), of a block that a program writes @pages pages of. */
	static void use(size_t pages)
	{
		bool is_zero;
		auto *ptr = (char *)large_alloc(block_bytes, 16, &is_zero);

		ASSERT_NE(ptr, nullptr);
		if (!is_zero)
			large_zero(ptr, block_bytes);
		ASSERT_EQ(harness::first_nonzero(ptr, block_bytes), block_bytes);
		/* That read each page, which the kernel takes for touched. */
		__real_os_purge(ptr, block_bytes);
		memset(ptr, 1, pages * PAGE_BYTES);
		large_free(ptr);
	}
	/* Calls that a hundred such blocks make. */
	static unsigned calls(size_t pages)
	{
		for (int i = 0; i < 600; i++)
			use(pages);
		nr_calls = 0;
		for (int i = 0; i < 100; i++)
			use(pages);
		return nr_calls;
	}
};

/*
 * The first of all: it is not there yet, and to write to it takes a page fault for each page.  That
 * is no cost of writing; a program that fills its blocks has them written all the same.
 */
TEST_F(zero, a_first_block_that_went_back_says_nothing)
{
	faults_ns();
	clock_more_ns = faults_ns;
	use(0);
	use(0);
	clock_more_ns = nullptr;
	EXPECT_LE(calls(block_bytes / PAGE_BYTES), 5u);
}

TEST_F(zero, a_program_of_sparse_blocks_has_them_from_the_kernel)
{
	EXPECT_GE(calls(1), 95u);
}

TEST_F(zero, one_that_fills_them_has_them_written)
{
	EXPECT_LE(calls(block_bytes / PAGE_BYTES), 5u);
}

TEST_F(zero, what_it_does_now_is_what_counts)
{
	for (int round = 0; round < 2; round++) {
		EXPECT_LE(calls(block_bytes / PAGE_BYTES), 5u);
		EXPECT_GE(calls(1), 95u);
	}
}

TEST_F(zero, what_the_kernel_refuses_is_written)
{
	calls(1);
	is_refused = true;
	use(1);
	use(block_bytes / PAGE_BYTES);
}

} /* namespace */
