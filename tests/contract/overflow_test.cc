/* SPDX-License-Identifier: MIT */
/* Promise: a request that cannot be met gives NULL with ENOMEM, and the process goes on. */
#include <cerrno>
#include <functional>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>

#include "harness.h"

using harness::opaque;

static const size_t too_large[] = {
	SIZE_MAX,	SIZE_MAX - 1,	 SIZE_MAX - 15,		 SIZE_MAX - 4095,
	SIZE_MAX - 4096, SIZE_MAX - 65536, SIZE_MAX - (2u << 20), SIZE_MAX / 2 + 1,
	SIZE_MAX / 2,	SIZE_MAX / 4,	 size_t{1} << 60,	 size_t{1} << 48,
};

static void expect_refused(const std::string &call, const std::function<void *()> &request)
{
	errno = 0;
	void *block = request();
	EXPECT_EQ(block, nullptr) << call;
	EXPECT_EQ(errno, ENOMEM) << call;
}

class Overflow : public testing::TestWithParam<size_t> {
protected:
	size_t n = opaque(GetParam());
	std::string text = "(" + std::to_string(GetParam()) + ")";

	void TearDown() override
	{
		void *block = malloc(100);
		EXPECT_NE(block, nullptr) << "no memory after the refusal";
		free(block);
	}
};

TEST_P(Overflow, Plain)
{
	expect_refused("malloc" + text, [&] { return malloc(n); });
	expect_refused("calloc 1 x " + text, [&] { return calloc(1, n); });
	expect_refused("calloc " + text + " x 1", [&] { return calloc(n, 1); });
	expect_refused("realloc NULL " + text, [&] { return realloc(nullptr, n); });
	expect_refused("reallocarray NULL " + text, [&] { return reallocarray(nullptr, n, 1); });
}

TEST_P(Overflow, Aligned)
{
	for (size_t alignment : {size_t{8}, size_t{64}, size_t{4096}, size_t{1} << 21,
				 size_t{1} << 30}) {
		std::string call = " " + std::to_string(alignment) + " " + text;
		expect_refused("aligned_alloc" + call, [&] { return aligned_alloc(alignment, n); });
		expect_refused("memalign" + call, [&] { return memalign(alignment, n); });
	}
	expect_refused("valloc" + text, [&] { return valloc(n); });
	expect_refused("pvalloc" + text, [&] { return pvalloc(n); });
}

INSTANTIATE_TEST_SUITE_P(Requests, Overflow, testing::ValuesIn(too_large));

TEST(OverflowOfProducts, CallocAndReallocarray)
{
	const size_t half = size_t{1} << 32;
	const std::pair<size_t, size_t> products[] = {
		{half, half},		{half + 1, half},      {SIZE_MAX, 2},
		{2, SIZE_MAX},		{SIZE_MAX / 2 + 1, 2}, {SIZE_MAX / 3 + 1, 3},
		{SIZE_MAX, SIZE_MAX},	{size_t{1} << 63, 2},  {(size_t{1} << 60) + 1, 16},
		{SIZE_MAX / 8 + 2, 8},
	};

	for (auto [members, n] : products) {
		std::string call = std::to_string(members) + " x " + std::to_string(n);
		void *block = malloc(40);
		harness::fill(block, 40, members);
		size_t a = opaque(members), b = opaque(n);
		expect_refused("calloc " + call, [&] { return calloc(a, b); });
		expect_refused("reallocarray " + call, [&] { return reallocarray(block, a, b); });
		EXPECT_TRUE(harness::intact(block, 40, members));
		free(block);
	}
}
