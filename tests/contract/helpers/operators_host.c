/* SPDX-License-Identifier: MIT */
/* A C program that opens a C++ plugin for itself alone, and runs what it has. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*try)(int asks);
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_LOCAL | RTLD_NOW) : NULL;

	*(void **)&try = plugin ? dlsym(plugin, "try_operators") : NULL;
	if (!try) {
		fprintf(stderr, "%s\n", dlerror());
		return 100;
	}
	return try(1);
}
