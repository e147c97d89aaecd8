/* SPDX-License-Identifier: MIT */
/*
 * What libslub.so calls of glibc under another version than 2.28 has, in the place of the newer
 * name: core/base/old_glibc.h says why, cmake/glibc.cmake how.  None is called by a malloc or free
 * that finds an object.  Only for the shared library: whoever links libslub.a chooses the C library
 * with it.
 *
 * Before 2.34 threads and the loader's functions are in libpthread.so.0 and libdl.so.2.  A program
 * need not have these, and the library does not ask for them, for each start would pay: it finds
 * the functions in what is loaded.
 *
 * - The constructor looks for all of them, later calls read what it found: the search takes a lock
 *   of the loader, which a callback of the program's may hold.
 * - A plugin may bring threads later, in a library that stays.  So those are looked for again: by
 *   the first slow call of a thread that holds no lock (core/percpu/thread.c), and by
 *   slub_pressure_start_thread().
 * - Without libdl.so.2 the program opens nothing, so dlsym() would search what the loader lists.
 *   What is opened for the C library itself may bring libdl.so.2 and take it away again: it is not
 *   looked for any more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "core/base/compiler.h"
#include "core/base/old_glibc.h"
#include "core/os/loaded.h"
#include "core/os/start_only.h"

enum {
	OLD_dlsym,
	OLD_dladdr,
	OLD_OF_LOADER,
	OLD_pthread_key_create = OLD_OF_LOADER,
	OLD_pthread_setspecific,
	OLD_pthread_create,
	OLD_pthread_join,
	OLD_ALL
};

#define NAME_BYTES 20
static const char names[OLD_ALL][NAME_BYTES] = {
	[OLD_dlsym] = "dlsym",
	[OLD_dladdr] = "dladdr",
	[OLD_pthread_key_create] = "pthread_key_create",
	[OLD_pthread_setspecific] = "pthread_setspecific",
	[OLD_pthread_create] = "pthread_create",
	[OLD_pthread_join] = "pthread_join",
};

static void *found[OLD_ALL] start_only;
/* By a later call. */
static void *found_later[OLD_ALL];
/* The constructor has looked. */
static bool is_looked_for start_only;

static usual __attribute__((__noinline__)) void *function_of(unsigned int nr)
{
	void *function = found[nr];

	if (!function)
		function = __atomic_load_n(&found_later[nr], __ATOMIC_RELAXED);
	if (function || (nr < OLD_OF_LOADER && is_looked_for))
		return function;
	function = loaded_symbol(names[nr], NULL);
	__atomic_store_n(&found_later[nr], function, __ATOMIC_RELAXED);
	return function;
}

/*
 * Behind the library's own, which starts the runtime of a sanitizer: that one stands before
 * dl_iterate_phdr().
 */
__attribute__((constructor(102))) static usual void look_for_all(void)
{
	for (unsigned int nr = 0; nr < OLD_ALL; nr++)
		found[nr] = function_of(nr);
	is_looked_for = true;
}

/* The function that goes by @name, or NULL. */
#define FOUND(name) ((__typeof__(&name))function_of(OLD_##name))

/* ---- the loader's ---- */

/* For RTLD_NEXT the caller is this library, which alone calls it. */
usual IN_PLACE_OF(void *, dlsym, void *object, const char *name)
{
	__typeof__(&dlsym) found_dlsym = FOUND(dlsym);

	if (found_dlsym)
		return found_dlsym(object, name);
	return loaded_symbol(name, object == RTLD_NEXT ? (const void *)names : NULL);
}

struct place {
	const void *address;
	Dl_info *info;
};

static int look_for_place(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const struct place *place = arg;

	(void)bytes;
	if (!object_holds(info, place->address))
		return 0;
	*place->info = (Dl_info){ .dli_fname = info->dlpi_name,
				  .dli_fbase = (void *)info->dlpi_addr };
	return 1;
}

/* No caller reads more than the object's name and place. */
IN_PLACE_OF(int, dladdr, const void *address, Dl_info *info)
{
	__typeof__(&dladdr) found_dladdr = FOUND(dladdr);
	struct place place = { address, info };

	if (found_dladdr)
		return found_dladdr(address, info);
	return dl_iterate_phdr(look_for_place, &place);
}

/* ---- threads: ENOSYS where no library for them is loaded ---- */

usual IN_PLACE_OF(int, pthread_key_create, pthread_key_t *key, void (*destructor)(void *))
{
	__typeof__(&pthread_key_create) create = FOUND(pthread_key_create);

	return create ? create(key, destructor) : ENOSYS;
}

IN_PLACE_OF(int, pthread_setspecific, pthread_key_t key, const void *value)
{
	__typeof__(&pthread_setspecific) set = FOUND(pthread_setspecific);

	return set ? set(key, value) : ENOSYS;
}

IN_PLACE_OF(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
	    void *(*function)(void *), void *arg)
{
	__typeof__(&pthread_create) create = FOUND(pthread_create);

	return create ? create(thread, attributes, function, arg) : ENOSYS;
}

IN_PLACE_OF(int, pthread_join, pthread_t thread, void **result)
{
	__typeof__(&pthread_join) join = FOUND(pthread_join);

	return join ? join(thread, result) : ENOSYS;
}

/*
 * Of 2.32.  The library looks for it by name (core/os/tcb.c); this stands in the place of the
 * reference that a static program has, for even a weak one asks for the version.
 */
extern char __wrap___libc_single_threaded __attribute__((visibility("hidden")));
char __wrap___libc_single_threaded;
