// SPDX-License-Identifier: MIT
// Call stacks are read where the program has a stack of its own making, and nowhere else.
#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>

#include "harness.h"
#include <slub/debug.h>

#if defined(__x86_64__)
namespace {

const size_t BYTES = 16384;
ucontext_t outside, inside;
char *above;

// malloc() for a caller that was compiled without frame pointers: rbp is anything.
extern "C" void *malloc_with(size_t n, void *rbp);
__asm__(".text\n"
	"malloc_with:\n"
	"	push	%rbp\n"
	"	mov	%rsi, %rbp\n"
	"	call	malloc@plt\n"
	"	pop	%rbp\n"
	"	ret\n");

void coroutine()
{
	free(harness::opaque(malloc(64)));
	swapcontext(&inside, &outside);
	free(harness::opaque(malloc_with(64, above + 256)));
	swapcontext(&inside, &outside);
}

// The first of the readable mappings in a row that @address lies in.
uintptr_t row_start(uintptr_t address)
{
	std::ifstream maps("/proc/self/maps");
	uintptr_t start, end, row = 0, row_end = 0;
	std::string line;
	char readable;

	while (std::getline(maps, line)) {
		if (sscanf(line.c_str(), "%lx-%lx %c", &start, &end, &readable) != 3 ||
		    readable != 'r')
			continue;
		if (start != row_end)
			row = start;
		row_end = end;
		if (address >= start && address < end)
			return row;
	}
	return 0;
}

char *map_at(uintptr_t address)
{
	return (char *)mmap((void *)address, BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

// Small mappings are put into the hole below the first thread's control block.
TEST(Stack, of_a_coroutine_when_its_neighbour_goes)
{
	uintptr_t row = row_start((uintptr_t)__builtin_thread_pointer());

	above = map_at(row - BYTES);
	char *stack = map_at(row - 2 * BYTES);
	if (!row || above == MAP_FAILED || stack == MAP_FAILED)
		GTEST_SKIP() << "something else lies there";
	ASSERT_EQ(slub_debug("U,malloc-64"), 1);
	ASSERT_EQ(getcontext(&inside), 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = BYTES;
	inside.uc_link = &outside;
	makecontext(&inside, coroutine, 0);
	ASSERT_EQ(swapcontext(&outside, &inside), 0);
	ASSERT_EQ(munmap(above, BYTES), 0);
	ASSERT_EQ(swapcontext(&outside, &inside), 0);
	EXPECT_EQ(slub_debug("-,malloc-64"), 1);
}

const size_t OWN_BYTES = 256 << 10;

// A thread on a stack of the program's, without a guard page; two coroutines' lie right below it,
// and the nearer one goes.
void *on_an_own_stack(void *arg)
{
	char *memory = (char *)arg;

	free(harness::opaque(malloc(64)));
	above = memory + BYTES;
	getcontext(&inside);
	inside.uc_stack.ss_sp = memory;
	inside.uc_stack.ss_size = BYTES;
	inside.uc_link = &outside;
	makecontext(&inside, coroutine, 0);
	swapcontext(&outside, &inside);
	munmap(above, BYTES);
	swapcontext(&outside, &inside);
	// Up to its end, and what is behind that is not mapped.
	free(harness::opaque(malloc_with(64, memory + 2 * BYTES + OWN_BYTES - 16)));
	return nullptr;
}

TEST(Stack, of_a_coroutine_below_a_stack_without_guard)
{
	size_t all = 2 * BYTES + OWN_BYTES;
	char *memory = (char *)mmap(nullptr, all + BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	ASSERT_NE(memory, MAP_FAILED);
	ASSERT_EQ(munmap(memory + all, BYTES), 0);
	ASSERT_EQ(slub_debug("U,malloc-64"), 1);
	pthread_attr_init(&attributes);
	ASSERT_EQ(pthread_attr_setguardsize(&attributes, 0), 0);
	ASSERT_EQ(pthread_attr_setstack(&attributes, memory + 2 * BYTES, OWN_BYTES), 0);
	ASSERT_EQ(pthread_create(&thread, &attributes, on_an_own_stack, memory), 0);
	pthread_join(thread, nullptr);
	EXPECT_EQ(slub_debug("-,malloc-64"), 1);
	munmap(memory, all);
}

void *with_deep_stack(void *arg)
{
	if (!(*(int *)arg)--)
		return malloc(64);
	return harness::opaque(with_deep_stack(arg));
}

int most_frames(const struct slub_trace *trace, void *arg)
{
	*(uint32_t *)arg = std::max(*(uint32_t *)arg, trace->nr_frames);
	return 0;
}

// A stack that the C library made, with and without a guard page: each is known to its end.
TEST(Stack, of_a_thread_is_read_whole)
{
	for (size_t guard : { (size_t)0, (size_t)4096, (size_t)65536 }) {
		pthread_attr_t attributes;
		pthread_t thread;
		uint32_t nr = 0;
		void *block;
		int deep = 8;

		pthread_attr_init(&attributes);
		ASSERT_EQ(pthread_attr_setguardsize(&attributes, guard), 0);
		ASSERT_EQ(slub_debug("U,malloc-64"), 1);
		ASSERT_EQ(pthread_create(&thread, &attributes, with_deep_stack, &deep), 0);
		pthread_join(thread, &block);
		slub_cache_alloc_traces(slub_cache_of(block), most_frames, &nr);
		EXPECT_GE(nr, 8u) << guard;
		free(block);
		EXPECT_EQ(slub_debug("-,malloc-64"), 1);
	}
}

} // namespace
#endif
