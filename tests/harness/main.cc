/* SPDX-License-Identifier: MIT */
/*
 * Starts every test program and refuses to run it on an allocator that is not libslub: a test
 * that passed on the C library's malloc would prove nothing.  To try the tests on another
 * allocator, set TEST_ALLOCATOR=any.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "harness.h"
#include "features/inspect/abi.h"

static const char *defining_file(const char *symbol)
{
	void *address = dlsym(RTLD_DEFAULT, symbol);
	Dl_info info = {};

	if (!address || !dladdr(address, &info) || !info.dli_fname)
		return "(nowhere)";
	return info.dli_fname;
}

static bool library_in_use()
{
	for (const char *symbol : {"malloc", "free", "realloc", "aligned_alloc", "_Znwm"}) {
		const char *file = defining_file(symbol);

		if (harness::is_library(file))
			continue;
		fprintf(stderr, "%s comes from %s, not from libslub.so\n", symbol, file);
		return false;
	}
	auto *state = static_cast<struct slub_abi *>(dlsym(RTLD_DEFAULT, SLUB_ABI_SYMBOL));
	if (!state || strcmp(state->magic, SLUB_ABI_MAGIC) != 0 || state->ready != 1) {
		fprintf(stderr, "%s is missing or not ready\n", SLUB_ABI_SYMBOL);
		return false;
	}
	return true;
}

/* A test program may define this to act as its own helper process; -1: it has nothing to do. */
extern "C" int act_instead(int argc, char **argv) __attribute__((weak));

int main(int argc, char **argv)
{
	const char *wanted = getenv("TEST_ALLOCATOR");

	if (!(wanted && strcmp(wanted, "any") == 0) && !library_in_use())
		return 3;
	int acted = act_instead ? act_instead(argc, argv) : -1;
	if (acted >= 0)
		return acted;
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
