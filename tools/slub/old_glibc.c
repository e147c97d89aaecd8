/* SPDX-License-Identifier: MIT */
/*
 * What the command calls of glibc under another version than 2.28 has (core/base/old_glibc.h,
 * cmake/glibc.cmake).
 */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/stat.h>

#include "core/base/old_glibc.h"
#include "core/os/loaded.h"

/* What stat() and its kin were before 2.33: the number says which structure. */
#if defined(__x86_64__)
#define OLD_STAT_VERSION 1
#else
#define OLD_STAT_VERSION 0
#endif

OLD_NAME(int, __xstat, int version, const char *path, struct stat *status);
OLD_NAME(int, __lxstat, int version, const char *path, struct stat *status);
OLD_NAME(int, __fxstat, int version, int fd, struct stat *status);

IN_PLACE_OF(int, stat, const char *path, struct stat *status)
{
	return old___xstat(OLD_STAT_VERSION, path, status);
}

IN_PLACE_OF(int, lstat, const char *path, struct stat *status)
{
	return old___lxstat(OLD_STAT_VERSION, path, status);
}

IN_PLACE_OF(int, fstat, int fd, struct stat *status)
{
	return old___fxstat(OLD_STAT_VERSION, fd, status);
}

/* Before 2.34 libdw brings the library that has both; without it no name is demangled. */
IN_PLACE_OF(void *, dlopen, const char *path, int flags)
{
	__typeof__(&dlopen) found = (__typeof__(&dlopen))loaded_symbol("dlopen", NULL);

	return found ? found(path, flags) : NULL;
}

IN_PLACE_OF(void *, dlsym, void *object, const char *name)
{
	__typeof__(&dlsym) found = (__typeof__(&dlsym))loaded_symbol("dlsym", NULL);

	return found ? found(object, name) : NULL;
}

/* ---- the start ---- */

typedef int main_function(int argc, char **argv, char **environment);
typedef void init_function(int argc, char **argv, char **environment);

OLD_NAME(int, __libc_start_main, main_function *program, int argc, char **argv,
	 init_function *init, void (*fini)(void), void (*loader_fini)(void), void *stack_end);

extern init_function *__init_array_start[] __attribute__((visibility("hidden")));
extern init_function *__init_array_end[] __attribute__((visibility("hidden")));

/* What the program brought along before 2.34, where the C library calls it by itself. */
static void call_constructors(int argc, char **argv, char **environment)
{
	for (init_function **each = __init_array_start; each < __init_array_end; each++)
		(*each)(argc, argv, environment);
}

/* Called by the compiler's start file, which has no constructors to give since 2.34. */
IN_PLACE_OF(int, __libc_start_main, main_function *program, int argc, char **argv,
	    init_function *init, void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
	return old___libc_start_main(program, argc, argv, init ? init : call_constructors,
				     fini, loader_fini, stack_end);
}
