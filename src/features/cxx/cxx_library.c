/* SPDX-License-Identifier: MIT */
/*
 * The C++ library of a caller.
 *
 * dlsym() does not find one that came with a plugin (RTLD_LOCAL, as C programs and Python open
 * theirs), or was linked statically into it; and a process may have several, each with a
 * new_handler of its own.  So this file searches the loaded objects itself: first the caller's
 * own, then those that it needs, then any other.  The search allocates nothing, for it
 * happens when there is no memory.
 */
#define _GNU_SOURCE
#include <string.h>

#include "core/os/loaded.h"
#include "features/cxx/cxx.h"

/* Is @other, by its name for the linker, one that @object was linked with? */
static bool object_needs(const struct object *object, const struct object *other)
{
	const char *name = NULL;

	for (const ElfW(Dyn) *d = other->dynamic; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_SONAME)
			name = other->strings + d->d_un.d_val;
	if (!name)
		return false;
	for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED &&
		    strcmp(object->strings + d->d_un.d_val, name) == 0)
			return true;
	return false;
}

struct search {
	const char *name;
	const void *caller;
	struct object from;	/* the object that @caller lies in */
	enum { FOUND_NONE, FOUND_ANY, FOUND_NEEDED } found;
	void *function;
};

static int find_caller(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct search *search = arg;

	(void)bytes;
	if (!object_holds(info, search->caller))
		return 0;
	if (!object_read(&search->from, info))
		search->from.dynamic = NULL;
	return 1;
}

/* An allocator has the operators too, but not the handler. */
static int find_function(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct search *search = arg;
	struct object object;
	void *function;

	(void)bytes;
	if (!object_read(&object, info) ||
	    !object_symbol(&object, "_ZSt15get_new_handlerv"))
		return 0;
	function = object_symbol(&object, search->name);
	if (!function)
		return 0;
	if (object.dynamic == search->from.dynamic) {
		search->function = function;
		return 1;
	}
	if (search->found < FOUND_NEEDED && search->from.dynamic &&
	    object_needs(&search->from, &object)) {
		search->found = FOUND_NEEDED;
		search->function = function;
	} else if (search->found < FOUND_ANY) {
		search->found = FOUND_ANY;
		search->function = function;
	}
	return 0;
}

void *cxx_library_function(const char *name, const void *caller)
{
	struct search search = { .name = name, .caller = caller };

	dl_iterate_phdr(find_caller, &search);
	dl_iterate_phdr(find_function, &search);
	return search.function;
}
