/* SPDX-License-Identifier: MIT */
/*
 * Promise: every form of C++'s operator new and delete is the library's, keeps the alignment
 * asked for, calls the new-handler until memory comes, and else throws or gives nullptr.
 */
#include <cstdint>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <vector>

#include "harness.h"

using harness::opaque;

static const size_t impossible = size_t{1} << 60;
static int handler_calls;

static bool is_aligned(const void *address, size_t alignment)
{
	return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

TEST(Operators, PlainArrayAndSized)
{
	for (size_t n : harness::sizes()) {
		void *one = ::operator new(n);
		void *many = ::operator new[](n);
		harness::fill(one, n, n);
		harness::fill(many, n, ~n);
		EXPECT_TRUE(is_aligned(one, 16));
		EXPECT_GE(malloc_usable_size(one), n);
		EXPECT_TRUE(harness::intact(one, n, n));
		EXPECT_TRUE(harness::intact(many, n, ~n));
		if (n % 2) {
			::operator delete(one);
			::operator delete[](many);
		} else {
			::operator delete(one, n);
			::operator delete[](many, n);
		}
	}
}

TEST(Operators, Aligned)
{
	for (size_t alignment = 1; alignment <= 1u << 22; alignment *= 2) {
		auto wanted = std::align_val_t(alignment);
		for (size_t n : {0, 1, 65, 3000, 100000}) {
			void *one = ::operator new(n, wanted);
			void *many = ::operator new[](n, wanted);
			void *soft = ::operator new(n, wanted, std::nothrow);
			void *softs = ::operator new[](n, wanted, std::nothrow);
			for (void *block : {one, many, soft, softs}) {
				ASSERT_NE(block, nullptr);
				EXPECT_TRUE(is_aligned(block, alignment));
				EXPECT_GE(malloc_usable_size(block), n);
			}
			::operator delete(one, wanted);
			::operator delete[](many, n, wanted);
			::operator delete(soft, n, wanted);
			::operator delete[](softs, wanted, std::nothrow);
		}
	}
}

TEST(Operators, Nothrow)
{
	for (size_t n : {0, 1, 100, 5000, 1 << 20}) {
		void *one = ::operator new(n, std::nothrow);
		void *many = ::operator new[](n, std::nothrow);
		ASSERT_NE(one, nullptr);
		ASSERT_NE(many, nullptr);
		::operator delete(one, std::nothrow);
		::operator delete[](many, std::nothrow);
	}
}

TEST(Operators, ZeroBytesAreDistinct)
{
	void *first = ::operator new(opaque(size_t{0}));
	void *second = ::operator new(opaque(size_t{0}));

	EXPECT_NE(first, nullptr);
	EXPECT_NE(first, second);
	::operator delete(first);
	::operator delete(second, size_t{0});
}

TEST(Operators, DeleteOfNull)
{
	void *null = opaque(nullptr);

	::operator delete(null);
	::operator delete[](null);
	::operator delete(null, size_t{8});
	::operator delete(null, std::align_val_t(64));
	::operator delete(null, std::nothrow);
}

TEST(Operators, FreeAndDeleteMix)
{
	free(::operator new(100));
	::operator delete(malloc(100));
	void *block = realloc(::operator new[](100), 10000);
	EXPECT_NE(block, nullptr);
	::operator delete[](block);
}

TEST(Operators, FailureThrows)
{
	const auto line = std::align_val_t(64);

	EXPECT_THROW((void)::operator new(opaque(impossible)), std::bad_alloc);
	EXPECT_THROW((void)::operator new[](opaque(impossible)), std::bad_alloc);
	EXPECT_THROW((void)::operator new(opaque(impossible), line), std::bad_alloc);
	EXPECT_THROW((void)::operator new[](opaque(impossible), line), std::bad_alloc);
	EXPECT_THROW((void)::operator new(opaque(SIZE_MAX)), std::bad_alloc);
	EXPECT_THROW((void)::operator new(opaque(SIZE_MAX), line), std::bad_alloc);
	EXPECT_THROW((void)::operator new(8, std::align_val_t(opaque(size_t{1} << 62))),
		     std::bad_alloc);
}

TEST(Operators, NothrowFailureGivesNull)
{
	const auto line = std::align_val_t(64);

	EXPECT_EQ(::operator new(opaque(impossible), std::nothrow), nullptr);
	EXPECT_EQ(::operator new[](opaque(impossible), std::nothrow), nullptr);
	EXPECT_EQ(::operator new(opaque(impossible), line, std::nothrow), nullptr);
	EXPECT_EQ(::operator new[](opaque(impossible), line, std::nothrow), nullptr);
}

struct GaveUp {};

static void give_up_at_third_call()
{
	if (++handler_calls == 3)
		throw GaveUp();
}

static void remove_itself()
{
	if (++handler_calls == 3)
		std::set_new_handler(nullptr);
}

static void throw_bad_alloc()
{
	handler_calls++;
	throw std::bad_alloc();
}

class NewHandler : public testing::Test {
protected:
	void SetUp() override { handler_calls = 0; }
	void TearDown() override { std::set_new_handler(nullptr); }
};

TEST_F(NewHandler, CalledUntilItThrows)
{
	std::set_new_handler(give_up_at_third_call);
	EXPECT_THROW((void)::operator new(opaque(impossible)), GaveUp);
	EXPECT_EQ(handler_calls, 3);
	handler_calls = 0;
	EXPECT_THROW((void)::operator new[](opaque(impossible), std::align_val_t(64)), GaveUp);
	EXPECT_EQ(handler_calls, 3);
}

TEST_F(NewHandler, CalledUntilItIsRemoved)
{
	std::set_new_handler(remove_itself);
	EXPECT_THROW((void)::operator new(opaque(impossible)), std::bad_alloc);
	EXPECT_EQ(handler_calls, 3);
}

TEST_F(NewHandler, NothrowCallsItAndSwallowsItsException)
{
	std::set_new_handler(throw_bad_alloc);
	EXPECT_EQ(::operator new(opaque(impossible), std::nothrow), nullptr);
	EXPECT_EQ(handler_calls, 1);
	EXPECT_EQ(::operator new[](opaque(impossible), std::align_val_t(64), std::nothrow),
		  nullptr);
	EXPECT_EQ(handler_calls, 2);
}

TEST_F(NewHandler, NotCalledOnSuccess)
{
	std::set_new_handler(throw_bad_alloc);
	::operator delete(::operator new(100));
	EXPECT_EQ(handler_calls, 0);
}

TEST_F(NewHandler, CalledWhenAlignmentIsImpossible)
{
	std::set_new_handler(remove_itself);
	EXPECT_THROW((void)::operator new(8, std::align_val_t(opaque(size_t{1} << 62))),
		     std::bad_alloc);
	EXPECT_EQ(handler_calls, 3);
}
