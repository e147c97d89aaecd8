/* SPDX-License-Identifier: MIT */
/*
 * One crime, and one place where it is found: what texts_test.py reads the messages of.
 *
 *   texts CRIME WHERE
 *
 * WHERE says what the program does after its crime: allocate, free, give memory back, end, or
 * allocate in a signal handler.  A crime that is a call is found at once, wherever else one looks.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <sys/mman.h>

namespace {

constexpr size_t SIZE = 64, MANY = 200;

char *volatile blocks[MANY];
char *volatile block, *volatile other;
size_t volatile told;

void *hide(void *p)
{
	void *volatile kept = p;

	return kept;
}

struct crime {
	const char *name;
	void (*commit)();
};

const crime crimes[] = {
	{"double-free", [] { free(block); free(hide(block)); }},
	{"inside", [] { free(hide(block + 16)); }},
	{"stack", [] { alignas(16) char here[SIZE]; free(hide(here)); }},
	{"image", [] { free(hide((void *)&blocks)); }},
	{"wild", [] { free(reinterpret_cast<void *>(0x1234567890)); }},
	{"foreign", [] {
		 free(static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) + 64);
	 }},
	{"over-1", [] { block[SIZE] ^= 1; }},
	{"over-many", [] { memset(hide(block), 'x', SIZE + 40); }},
	{"under", [] { block[-1] ^= 1; }},
	{"after-free", [] { free(block); block[0] ^= 1; }},
	{"after-free-all", [] { free(block); memset(hide(block), 'x', SIZE); }},
	{"realloc-freed", [] { free(block); other = (char *)realloc(hide(block), 2 * SIZE); }},
	{"asked-freed", [] { free(block); malloc_usable_size(hide(block)); }},
	{"sized", [] { operator delete(hide(operator new(SIZE)), told); }},
	{"kind", [] { operator delete(hide(block)); }},
	{"none", [] { free(block); }},
};

void allocate()
{
	for (char *volatile &each : blocks)
		each = (char *)malloc(SIZE);
}

void look(const char *where)
{
	if (!strcmp(where, "malloc"))
		allocate();
	else if (!strcmp(where, "trim"))
		malloc_trim(0);
	else if (!strcmp(where, "free"))
		for (char *each : blocks)
			free(each);
	else if (!strcmp(where, "handler")) {
		signal(SIGUSR1, [](int) { allocate(); });
		raise(SIGUSR1);
	}
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	told = 2 * SIZE;
	allocate();
	block = blocks[MANY / 2];
	for (const crime &each : crimes) {
		if (strcmp(each.name, argv[1]))
			continue;
		/* The overrun block is freed with the others. */
		bool is_freed = strncmp(each.name, "over", 4) && strcmp(each.name, "under");

		blocks[MANY / 2] = is_freed ? nullptr : block;
		each.commit();
		look(argv[2]);
		return 0;
	}
	return 2;
}
