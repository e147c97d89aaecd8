// SPDX-License-Identifier: MIT
// Says whether the library named in argv[1] provides malloc and the rest: exit status 0 or 1.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>

// A function as this program's own calls are bound: dlsym() would take any symbol version.
struct Bound {
	const char *name;
	void *address;
};

static bool comes_from(const Bound &bound, const char *library)
{
	Dl_info info;

	if (!dladdr(bound.address, &info) || !info.dli_fname) {
		fprintf(stderr, "%s is nobody's\n", bound.name);
		return false;
	}
	if (strcmp(info.dli_fname, library) != 0) {
		fprintf(stderr, "%s comes from %s\n", bound.name, info.dli_fname);
		return false;
	}
	return true;
}

// TCMalloc says so itself; without a rseq area of its own it falls back to caches per thread.
static bool per_cpu_if_tcmalloc()
{
	using Question = int (*)();
	void *address = dlsym(RTLD_DEFAULT, "MallocExtension_Internal_GetPerCpuCachesActive");

	free(malloc(1));
	if (!address || reinterpret_cast<Question>(address)())
		return true;
	fprintf(stderr, "TCMalloc runs without its per-CPU caches\n");
	return false;
}

int main(int argc, char **argv)
{
	const Bound functions[] = {
		{ "malloc", reinterpret_cast<void *>(malloc) },
		{ "free", reinterpret_cast<void *>(free) },
		{ "calloc", reinterpret_cast<void *>(calloc) },
		{ "realloc", reinterpret_cast<void *>(realloc) },
		{ "posix_memalign", reinterpret_cast<void *>(posix_memalign) },
		{ "aligned_alloc", reinterpret_cast<void *>(aligned_alloc) },
	};

	if (argc != 2) {
		fprintf(stderr, "usage: probe LIBRARY\n");
		return 2;
	}
	for (const Bound &function : functions)
		if (!comes_from(function, argv[1]))
			return 1;
	if (!per_cpu_if_tcmalloc())
		return 1;

	// A short exercise: a library that loads and then fails is no peer either.
	for (size_t size = 1; size < 4u << 20; size = size * 3 / 2 + 1) {
		char *block = static_cast<char *>(malloc(size));
		char *object = new char[size];

		memset(block, 1, size);
		memset(object, 2, size);
		block = static_cast<char *>(realloc(block, size * 2));
		if (!block || block[size - 1] != 1 || malloc_usable_size(block) < size * 2) {
			fprintf(stderr, "realloc of %zu bytes is wrong\n", size);
			return 1;
		}
		free(block);
		delete[] object;
	}
	return 0;
}
