/* SPDX-License-Identifier: MIT */
/*
 * C++ names by the C++ library's own decoder.  It is loaded when the first such
 * name is met: so the command starts without it, and does without it where it
 * is not installed, which is hardly where C++ programs run.
 */
#include "demangle.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Of <cxxabi.h>: the result is malloc's; status is 0 if there is one. */
typedef char *demangler(const char *name, char *buf, size_t *size, int *status);

#if SLUB_TOOL_STATIC	/* which loads no library */
static demangler *find_demangler(void)
{
	return NULL;
}
#else
static demangler *find_demangler(void)
{
	static const char *const libraries[] = {
		"libstdc++.so.6", "libc++abi.so.1",
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
		demangler *found = NULL;

		if (library)
			*(void **)&found = dlsym(library, "__cxa_demangle");
		if (found)
			return found;
	}
	return NULL;
}
#endif

char *demangle(const char *name)
{
	static demangler *call;
	static bool looked;
	int status = -1;
	char *plain;

	if (strncmp(name, "_Z", 2))
		return NULL;
	if (!looked)
		call = find_demangler();
	looked = true;
	plain = call ? call(name, NULL, NULL, &status) : NULL;
	return status ? NULL : plain;
}
