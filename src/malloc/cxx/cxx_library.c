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
#include <link.h>
#include <string.h>

#include "base/hash.h"
#include "malloc/cxx/cxx.h"

/* What the dynamic section of a loaded object says. */
struct object {
	uintptr_t base;
	const ElfW(Dyn) *dynamic;
	const ElfW(Sym) *symbols;
	const char *strings;
	const uint32_t *hash;	/* DT_GNU_HASH */
};

/* A C library may leave the addresses as they are in the file. */
static const void *address_of(const struct object *object, ElfW(Addr) value)
{
	return (const void *)(value < object->base ? object->base + value :
						     value);
}

/* false: nothing can be looked up in it. */
static bool object_read(struct object *object, const struct dl_phdr_info *info)
{
	*object = (struct object){ .base = info->dlpi_addr };
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object->dynamic = (const ElfW(Dyn) *)(object->base +
						info->dlpi_phdr[i].p_vaddr);
	if (!object->dynamic)
		return false;
	for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
		const void *at = address_of(object, d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			object->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			object->strings = at;
		else if (d->d_tag == DT_GNU_HASH)
			object->hash = at;
	}
	return object->symbols && object->strings && object->hash;
}

static bool object_holds(const struct dl_phdr_info *info, const void *place)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD &&
		    (uintptr_t)place - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			return true;
	}
	return false;
}

/* The function @name that the object defines, or NULL. */
static void *object_function(const struct object *object, const char *name)
{
	uint32_t nr_buckets = object->hash[0], first = object->hash[1];
	const uint32_t *buckets = object->hash + 4 +
				  object->hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = buckets + nr_buckets;
	uint32_t hash = hash_gnu(name), i;

	i = nr_buckets ? buckets[hash % nr_buckets] : 0;
	if (i < first || !i)
		return NULL;
	/* The lowest bit ends a chain. */
	do {
		const ElfW(Sym) *symbol = &object->symbols[i];

		if ((chain[i - first] | 1) == (hash | 1) &&
		    symbol->st_shndx != SHN_UNDEF &&
		    ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
		    strcmp(object->strings + symbol->st_name, name) == 0)
			return (void *)(object->base + symbol->st_value);
	} while (!(chain[i++ - first] & 1));
	return NULL;
}

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
	    !object_function(&object, "_ZSt15get_new_handlerv"))
		return 0;
	function = object_function(&object, search->name);
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
