/* SPDX-License-Identifier: MIT */
/* Opens a plugin for itself alone, and lets it commit what the command line says. */
#include <dlfcn.h>
#include <stdio.h>
#ifdef WITH_LIBRARY
#include <string>

/* So that the C++ library is there from the start. */
std::string text_of(int n) { return std::string((size_t)n, 'x'); }
#endif

int main(int argc, char **argv)
{
	void *plugin = argc > 2 ? dlopen(argv[1], RTLD_LOCAL | RTLD_NOW) : NULL;
	int (*commit)(const char *) = NULL;

	if (plugin)
		*(void **)&commit = dlsym(plugin, "commit");
	if (!commit) {
		fprintf(stderr, "%s\n", dlerror());
		return 100;
	}
	return commit(argv[2]);
}
