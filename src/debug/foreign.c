/* SPDX-License-Identifier: MIT */
/*
 * A pointer that this library has not handed out: what lies there?
 *
 * Nobody's block lies where nothing is mapped or can be read, on a stack, in a program or
 * library (its variables too), or in this library's own range.  Elsewhere there may be
 * one that was allocated before this library came (by the dynamic linker, or from the C
 * library's heap), or by another allocator in the process: that is not known to be wrong.
 */
#include <elf.h>
#include <string.h>

#include "debug/debug.h"
#include "debug/maps.h"
#include "debug/misuse.h"

/* No mapping is there: mmap_min_addr, and what no address of a program has. */
#define NULL_BYTES ((uintptr_t)64 << 10)
#if defined(__x86_64__)
#define ADDRESS_BITS 47
#elif defined(__aarch64__)
#define ADDRESS_BITS 52
#else
#define ADDRESS_BITS 63
#endif
/* Pointers that may be another allocator's: then it costs too much to look again. */
#define LOOKS_MAX 1000

struct search {
	uintptr_t address;
	uintptr_t image;	/* where the ELF file last seen begins */
	bool is_found;
	const char *where;
};

/* Does @address lie in what the program headers at @base ask for, variables included? */
static bool image_has(uintptr_t base, uintptr_t address)
{
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	uintptr_t bias = 0;
	bool is_first = true;

	if (!base || !maps_peek(base, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG))
		return false;
	for (uint32_t i = 0; i < head.e_phnum; i++) {
		if (!maps_peek(base + head.e_phoff + i * sizeof(segment),
			       &segment, sizeof(segment)))
			return false;
		if (segment.p_type != PT_LOAD)
			continue;
		if (is_first)
			bias = base - round_down(segment.p_vaddr, PAGE_BYTES);
		is_first = false;
		if (address - (bias + segment.p_vaddr) < segment.p_memsz)
			return true;
	}
	return false;
}

/* start-end perms offset device inode name */
static bool is_the_one(const char *line, void *arg)
{
	struct search *search = arg;
	const char *name = strpbrk(line, "/[");
	uintptr_t start = maps_hex(&line), end;
	bool is_readable;

	line += *line == '-';
	end = maps_hex(&line);
	is_readable = *line && line[1] == 'r';
	if (name && *name == '/' && strlen(line) > 6) {
		line += 6;
		if (!maps_hex(&line))
			search->image = start;
	}
	if (search->address < start || search->address >= end)
		return true;
	search->is_found = true;
	if (!is_readable)
		search->where = "where nobody may read";
	if (image_has(search->image, search->address))
		search->where = "in a program or library";
	else if (name && strcmp(name, "[stack]") == 0)
		search->where = "on a stack";
	else if (name && strncmp(name, "[v", 2) == 0)
		search->where = "in the kernel's page";
	return false;
}

static const char *where_is(const void *ptr)
{
	static _Atomic uint32_t nr_looks;
	struct search search = { (uintptr_t)ptr, 0, false, NULL };

	if ((uintptr_t)ptr < NULL_BYTES || (uintptr_t)ptr >> ADDRESS_BITS)
		return "no address";
	if (pagemap_owns(ptr))
		return "in the heap";
	if (stack_has(ptr))
		return "on a stack";
	if (__atomic_load_n(&nr_looks, __ATOMIC_RELAXED) >= LOOKS_MAX ||
	    !maps_read(is_the_one, &search))
		return NULL;
	if (!search.is_found)
		return "where nothing is mapped";
	if (!search.where)
		__atomic_fetch_add(&nr_looks, 1, __ATOMIC_RELAXED);
	return search.where;
}

bool foreign_found(const char *call, const void *ptr)
{
	const char *where;

	/* A large block is one, though no cache's. */
	if (!SLUB_CONFIG_CHECKS || (pagemap_get(ptr) == MAP_LARGE &&
				    !((uintptr_t)ptr % PAGE_BYTES)))
		return false;
	where = where_is(ptr);
	if (where)
		misuse_found(pagemap_get(ptr) == MAP_LARGE ? MISUSE_INSIDE :
							     MISUSE_NO_BLOCK,
			     call, ptr, where);
	return where;
}
