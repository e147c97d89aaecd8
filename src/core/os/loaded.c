/* SPDX-License-Identifier: MIT */
/* Loaded objects, and their tables of names. */
#define _GNU_SOURCE
#include "core/os/loaded.h"

#include <string.h>

#include "core/base/compiler.h"
#include "core/base/hash.h"

/* A C library may leave the addresses as they are in the file. */
static const void *address_of(const struct object *object, ElfW(Addr) value)
{
	return (const void *)(value < object->base ? object->base + value :
						     value);
}

bool object_read(struct object *object, const struct dl_phdr_info *info)
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
		else if (d->d_tag == DT_VERSYM)
			object->versions = at;
		else if (d->d_tag == DT_GNU_HASH)
			object->gnu_hash = at;
		else if (d->d_tag == DT_HASH)
			object->hash = at;
	}
	return object->symbols && object->strings && (object->gnu_hash || object->hash);
}

cold bool object_holds(const struct dl_phdr_info *info, const void *place)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD &&
		    (uintptr_t)place - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			return true;
	}
	return false;
}

/* One for old programs alone: prog@VERSION, where prog@@VERSION is for new ones. */
#define VERSION_IS_HIDDEN 0x8000

static bool symbol_is(const struct object *object, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &object->symbols[i];
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_OBJECT) &&
	       !(object->versions && object->versions[i] & VERSION_IS_HIDDEN) &&
	       strcmp(object->strings + symbol->st_name, name) == 0;
}

/* Its number, or 0. */
static uint32_t find_by_gnu_hash(const struct object *object, const char *name)
{
	uint32_t nr_buckets = object->gnu_hash[0], first = object->gnu_hash[1];
	const uint32_t *buckets = object->gnu_hash + 4 +
				  object->gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = buckets + nr_buckets;
	uint32_t hash = hash_gnu(name), i;

	i = nr_buckets ? buckets[hash % nr_buckets] : 0;
	if (i < first || !i)
		return 0;
	/* The lowest bit ends a chain. */
	do {
		if ((chain[i - first] | 1) == (hash | 1) && symbol_is(object, i, name))
			return i;
	} while (!(chain[i++ - first] & 1));
	return 0;
}

/* Few objects have no other table: all names are looked at, without a hash. */
static cold uint32_t find_by_number(const struct object *object, const char *name)
{
	uint32_t nr = object->hash[1];

	for (uint32_t i = 1; i < nr; i++)
		if (symbol_is(object, i, name))
			return i;
	return 0;
}

void *object_symbol(const struct object *object, const char *name)
{
	uint32_t i = object->gnu_hash ? find_by_gnu_hash(object, name) :
					find_by_number(object, name);

	return i ? (void *)(object->base + object->symbols[i].st_value) : NULL;
}

struct search {
	const char *name;
	const void *behind;	/* NULL: its object was there */
	void *found;
};

static int look_in(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct search *search = arg;
	struct object object;

	(void)bytes;
	if (search->behind) {
		if (object_holds(info, search->behind))
			search->behind = NULL;
		return 0;
	}
	if (object_read(&object, info))
		search->found = object_symbol(&object, search->name);
	return search->found != NULL;
}

void *loaded_symbol(const char *name, const void *behind)
{
	struct search search = { .name = name, .behind = behind };

	dl_iterate_phdr(look_in, &search);
	return search.found;
}
