// SPDX-License-Identifier: MIT
// Call stacks are whole in a program without frame pointers: through functions of each kind of
// frame, through the C library, through signal handlers, and in threads.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <pthread.h>
#include <vector>

#include "harness.h"
#include <slub/debug.h>

#if defined(__x86_64__)
extern "C" int _dl_find_object(void *, void *) __attribute__((weak));

namespace {

void *block;
std::vector<uintptr_t> frames;

// An address in each function on the way, the innermost last.
uintptr_t way[64];
size_t nr_way;

#define NOTE_HERE() (way[nr_way++] = (uintptr_t)__builtin_return_address(0))

__attribute__((noinline)) void allocate()
{
	NOTE_HERE();
	block = harness::opaque(malloc(1234));
	__asm__ volatile("");
}

/* A frame whose size nobody knows: the compiler takes the frame pointer for it. */
__attribute__((noinline)) int with_array(size_t n)
{
	volatile char *bytes = (volatile char *)__builtin_alloca(n * 16);

	NOTE_HERE();
	bytes[0] = 1;
	allocate();
	return bytes[0];
}

/* One that is aligned: so the old stack pointer lies in a register of its own. */
__attribute__((noinline)) int with_alignment(size_t n)
{
	alignas(256) volatile char bytes[256];

	NOTE_HERE();
	bytes[n] = 2;
	return with_array(n) + bytes[n];
}

/* Registers that are saved, and a large frame. */
__attribute__((noinline)) int with_registers(int a, int b, int c, int d, int e, int f)
{
	volatile char bytes[10000];
	int sum;

	NOTE_HERE();
	bytes[a] = 3;
	sum = with_alignment(10);
	return sum + a * b + c * d + e * f + bytes[a];
}

__attribute__((noinline)) int recursive(int n)
{
	NOTE_HERE();
	return (n ? recursive(n - 1) : with_registers(1, 2, 3, 4, 5, 6)) + n;
}

int compare(const void *a, const void *b)
{
	if (!block)
		recursive(5);
	return *(const int *)a - *(const int *)b;
}

void sort_two()
{
	int two[] = { 2, 1 };

	qsort(two, 2, sizeof(*two), compare);
	__asm__ volatile("");
}

int take_frames(const struct slub_trace *trace, void *)
{
	frames.assign(trace->frames, trace->frames + trace->nr_frames);
	return 0;
}

/* The stack of the one block of its size that @act has allocated. */
void watch(void (*act)())
{
	block = nullptr;
	frames.clear();
	nr_way = 0;
	ASSERT_GE(slub_debug("U,malloc-1280"), 1);
	act();
	ASSERT_NE(block, nullptr);
	slub_cache_alloc_traces(slub_cache_of(block), take_frames, nullptr);
	free(block);
	EXPECT_GE(slub_debug("-,malloc-1280"), 1);
}

/* Each return address that the functions saw is there, in the order of the calls. */
void expect_way()
{
	size_t at = 0;

	for (size_t n = nr_way; n--;) {
		auto found = std::find(frames.begin() + (long)at, frames.end(), way[n]);

		ASSERT_NE(found, frames.end()) << "call " << n << " of " << nr_way;
		at = (size_t)(found - frames.begin()) + 1;
	}
	EXPECT_EQ(nr_way, 9u);
	EXPECT_LT(at, frames.size()) << "and its callers";
}

struct unwind : testing::Test {
	void SetUp() override
	{
		if (!_dl_find_object)
			GTEST_SKIP() << "a C library without _dl_find_object(): glibc 2.35 has it";
	}
};

TEST_F(unwind, each_kind_of_frame)
{
	watch([] { recursive(4); __asm__ volatile(""); });
	/* 5 of the recursion, 3 with frames of their own, and the last one. */
	expect_way();
}

TEST_F(unwind, through_the_c_library)
{
	watch([] {
		sort_two();
		nr_way--;	/* one more of the recursion */
		std::copy(way + 1, way + 10, way);
	});
	expect_way();
}

TEST_F(unwind, through_a_signal_handler)
{
	watch([] {
		signal(SIGUSR1, [](int) { recursive(4); __asm__ volatile(""); });
		raise(SIGUSR1);
		signal(SIGUSR1, SIG_DFL);
	});
	expect_way();
	/* The handler, what the kernel returns to, the C library's raise(), and the test. */
	uintptr_t outermost = way[0];
	auto handler = std::find(frames.begin(), frames.end(), outermost);
	EXPECT_GE(frames.end() - handler, 6);
}

TEST_F(unwind, in_a_thread)
{
	watch([] {
		pthread_t thread;

		pthread_create(&thread, nullptr, [](void *) -> void * {
			recursive(4);
			return nullptr;
		}, nullptr);
		pthread_join(thread, nullptr);
	});
	expect_way();
	/* Up to where a thread begins, and no further. */
	EXPECT_LE(frames.size(), nr_way + 4);
}

TEST_F(unwind, a_deep_stack)
{
	watch([] { recursive(40); __asm__ volatile(""); });
	EXPECT_GE(frames.size(), 45u);
}

} // namespace
#endif
