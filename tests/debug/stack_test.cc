// SPDX-License-Identifier: MIT
// Call stacks are read where the program has a stack of its own making, and nowhere else.
#include <fstream>
#include <gtest/gtest.h>
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

} // namespace
#endif
