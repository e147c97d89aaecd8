/* SPDX-License-Identifier: MIT */
/*
 * Promise: a program that replaces some forms of operator new and delete gets the others made of
 * its own, as the standard says: each block is freed by who allocated it.
 */
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

#include "harness.h"

using harness::opaque;

/* Each block of the program has a head in front, and its own operator delete wants it. */
struct Head {
	uint64_t magic, number;
};

static const uint64_t plain = 0x5eed0fab10c45eedu;
static int made, ended, wrong;

static void *make(size_t n)
{
	auto *head = static_cast<Head *>(malloc(sizeof(Head) + n));

	if (!head)
		return nullptr;
	head->magic = plain;
	made++;
	return head + 1;
}

void *operator new(size_t n)
{
	void *block = n > PTRDIFF_MAX / 2 ? nullptr : make(n);

	if (!block)
		throw std::bad_alloc();
	return block;
}

/* As older programs do, which leave the form with the size to the library. */
#pragma GCC diagnostic ignored "-Wsized-deallocation"
void operator delete(void *block) noexcept
{
	auto *head = static_cast<Head *>(block) - 1;

	if (!block)
		return;
	if (head->magic != plain) {
		wrong++;
		return;
	}
	head->magic = 0;
	ended++;
	free(head);
}

class Replaced : public testing::Test {
protected:
	/* What @body makes and ends, and that nothing of it is the library's. */
	template <typename Body> void expect_own(int blocks, Body body)
	{
		int made_before = made, ended_before = ended, wrong_before = wrong;

		body();
		made_before = made - made_before;
		ended_before = ended - ended_before;
		EXPECT_EQ(made_before, blocks);
		EXPECT_EQ(ended_before, blocks);
		EXPECT_EQ(wrong, wrong_before);
	}
};

TEST_F(Replaced, OneAndMany)
{
	expect_own(2, [] {
		::operator delete(opaque(::operator new(100)));
		::operator delete[](opaque(::operator new[](100)));
	});
}

TEST_F(Replaced, Sized)
{
	expect_own(4, [] {
		::operator delete(opaque(::operator new(100)), size_t{100});
		::operator delete[](opaque(::operator new[](100)), size_t{100});
		::operator delete(opaque(::operator new(100000)), size_t{100000});
		::operator delete[](opaque(::operator new[](100000)), size_t{100000});
	});
}

TEST_F(Replaced, Nothrow)
{
	expect_own(4, [] {
		::operator delete(opaque(::operator new(100, std::nothrow)), std::nothrow);
		::operator delete[](opaque(::operator new[](100, std::nothrow)), std::nothrow);
		::operator delete(opaque(::operator new(100, std::nothrow)));
		::operator delete[](opaque(::operator new[](100, std::nothrow)));
	});
	EXPECT_EQ(::operator new(opaque(SIZE_MAX), std::nothrow), nullptr);
	EXPECT_EQ(::operator new[](opaque(SIZE_MAX), std::nothrow), nullptr);
	EXPECT_THROW((void)::operator new[](opaque(SIZE_MAX)), std::bad_alloc);
}

/* These are not replaced, nor made of what is: they stay the library's, with each other. */
TEST_F(Replaced, AlignedAreNot)
{
	auto line = std::align_val_t(64);

	expect_own(0, [=] {
		::operator delete(opaque(::operator new(100, line)), line);
		::operator delete[](opaque(::operator new[](100, line)), size_t{100}, line);
		::operator delete(opaque(::operator new(100, line, std::nothrow)), line,
				  std::nothrow);
	});
}
