/* SPDX-License-Identifier: MIT */
/*
 * Promise: what a program may rely on of malloc holds as compilers build programs, which may know
 * malloc, put calloc() for malloc() and memset(), and leave calls out.  The tests of
 * tests/contract hold without that: they are built so that each call is made.
 *
 * In C and in C++, by users_test.py.
 */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>
#endif

#define EXPECT(condition)							\
	do {									\
		if (!(condition)) {						\
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			nr_failures++;						\
		}								\
	} while (0)

static int nr_failures;

/* A number that no compiler knows. */
static size_t of_run_time(size_t n)
{
	static volatile size_t hidden;

	hidden = n;
	return hidden;
}

static int is_all(const unsigned char *block, size_t bytes, unsigned char value)
{
	for (size_t i = 0; i < bytes; i++) {
		if (block[i] != value)
			return 0;
	}
	return 1;
}

static const size_t sizes[] = { 1, 8, 15, 16, 24, 100, 512, 4096, 5000, 32768, 40000, 1 << 20 };
#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void blocks_are_apart(void)
{
	unsigned char *blocks[NR_SIZES];

	for (size_t i = 0; i < NR_SIZES; i++) {
		blocks[i] = (unsigned char *)malloc(sizes[i]);
		EXPECT(blocks[i] && (uintptr_t)blocks[i] % (sizes[i] < 16 ? 8 : 16) == 0);
		memset(blocks[i], (int)i + 1, sizes[i]);
	}
	for (size_t i = 0; i < NR_SIZES; i++) {
		EXPECT(is_all(blocks[i], sizes[i], (unsigned char)(i + 1)));
		free(blocks[i]);
	}
}

static void calloc_zeroes(void)
{
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < NR_SIZES; i++) {
			unsigned char *block = (unsigned char *)calloc(1, sizes[i]);

			EXPECT(block && is_all(block, sizes[i], 0));
			memset(block, 0xa5, malloc_usable_size(block));
			free(block);
		}
		/* A compiler makes one call of the first two. */
		for (size_t i = 0; i < NR_SIZES; i++) {
			unsigned char *block = (unsigned char *)malloc(sizes[i]);

			memset(block, 0, sizes[i]);
			EXPECT(block && is_all(block, sizes[i], 0));
			memset(block, 0x5a, sizes[i]);
			free(block);
		}
	}
}

static void realloc_keeps(void)
{
	unsigned char *block = (unsigned char *)malloc(1);
	size_t bytes = 1;

	block[0] = 7;
	for (size_t i = 0; i < NR_SIZES; i++) {
		block = (unsigned char *)realloc(block, sizes[i]);
		EXPECT(block && is_all(block, bytes, 7));
		bytes = sizes[i];
		memset(block, 7, bytes);
	}
	for (size_t i = NR_SIZES; i-- > 0; ) {
		block = (unsigned char *)realloc(block, sizes[i]);
		EXPECT(block && is_all(block, sizes[i], 7));
	}
	free(block);
}

static void alignment(void)
{
	for (size_t align = 16; align <= 65536; align *= 2) {
		void *a = aligned_alloc(align, align), *b = memalign(align, 100), *c = NULL;

		EXPECT(a && (uintptr_t)a % align == 0);
		EXPECT(b && (uintptr_t)b % align == 0);
		EXPECT(posix_memalign(&c, align, 5000) == 0 && (uintptr_t)c % align == 0);
		free(a);
		free(b);
		free(c);
	}
}

/*
 * errno is not set before: clang takes for granted that malloc() leaves it alone, and answers an
 * `errno = 0` from before, whatever malloc it is.
 */
__attribute__((__noinline__)) static int refusal_of_malloc(size_t bytes)
{
	void *volatile block = malloc(bytes);

	return block ? 0 : errno;
}

__attribute__((__noinline__)) static int refusal_of_calloc(size_t nr, size_t bytes)
{
	void *volatile block = calloc(nr, bytes);

	return block ? 0 : errno;
}

static void refusals(void)
{
	void *volatile block = reallocarray(NULL, of_run_time(SIZE_MAX / 2), 3);

	EXPECT(!block);
	EXPECT(refusal_of_malloc(of_run_time(PTRDIFF_MAX) + 1) == ENOMEM);
	EXPECT(refusal_of_calloc(of_run_time(SIZE_MAX / 2), 3) == ENOMEM);
}

static void nothing(void)
{
	void *volatile a = malloc(of_run_time(0));
	void *volatile b = malloc(of_run_time(0));

	EXPECT(a && b && a != b);
	free(a);
	free(b);
	free(NULL);
	errno = 5;
	free(malloc(of_run_time(100)));
	EXPECT(errno == 5);
}

static void all_that_is_usable(void)
{
	for (size_t i = 0; i < NR_SIZES; i++) {
		unsigned char *block = (unsigned char *)malloc(sizes[i]);
		size_t room = malloc_usable_size(block);

		EXPECT(room >= sizes[i]);
		memset(block, 1, room);
		EXPECT(is_all(block, room, 1));
		free(block);
	}
}

#ifdef __cplusplus
struct alignas(128) wide {
	char bytes[200];
};

static void operators(void)
{
	std::map<int, std::string> names;
	std::vector<std::unique_ptr<wide>> all;

	for (int i = 0; i < 1000; i++) {
		names[i] = "a name that is too long for the string itself " + std::to_string(i);
		all.push_back(std::make_unique<wide>());
		EXPECT(reinterpret_cast<uintptr_t>(all.back().get()) % 128 == 0);
	}
	for (int i = 0; i < 1000; i += 2)
		names.erase(i);
	EXPECT(names.size() == 500 && names[999].substr(46) == "999");

	bool is_thrown = false;

	try {
		char *volatile block = new char[of_run_time(PTRDIFF_MAX / 2)];

		delete[] block;
	} catch (const std::bad_alloc &) {
		is_thrown = true;
	}
	EXPECT(is_thrown);
	char *volatile none = new (std::nothrow) char[of_run_time(PTRDIFF_MAX / 2)];

	EXPECT(!none);
}
#else
static void operators(void)
{
}
#endif

int main(void)
{
	blocks_are_apart();
	calloc_zeroes();
	realloc_keeps();
	alignment();
	refusals();
	nothing();
	all_that_is_usable();
	operators();
	return nr_failures != 0;
}
