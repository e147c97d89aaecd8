/* SPDX-License-Identifier: MIT */
/* A library that opens another one by a name that only its own RUNPATH leads to. */
#include <dlfcn.h>

void *opener_open(const char *name, int flags);

void *opener_open(const char *name, int flags)
{
	return dlopen(name, flags);
}
