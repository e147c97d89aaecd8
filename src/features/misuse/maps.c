/* SPDX-License-Identifier: MIT */
/* See maps.h. */
#define _GNU_SOURCE
#include "features/misuse/maps.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

uintptr_t hex_read(const char **s)
{
	uintptr_t n = 0;

	for (;; (*s)++) {
		char c = **s;

		if (c >= '0' && c <= '9')
			n = n * 16 + (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n * 16 + (uintptr_t)(c - 'a' + 10);
		else
			return n;
	}
}

/*
 * Is @address of the ELF file whose first byte lies at @base, its variables included?
 * addr2line(1) wants neither the address, but in a program that is not relocated, nor the
 * offset in the file, where a linker has made the two differ: it wants @address - *@bias.
 */
static bool image_has(uintptr_t base, uintptr_t address, uintptr_t *bias)
{
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	uintptr_t at = 0;
	bool is_first = true;

	if (!base || os_peek(&head, (void *)base, sizeof(head)) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG))
		return false;
	for (uint32_t i = 0; i < head.e_phnum; i++) {
		const char *from = (char *)base + head.e_phoff + i * sizeof(segment);

		if (os_peek(&segment, from, sizeof(segment)) != sizeof(segment))
			return false;
		if (segment.p_type != PT_LOAD)
			continue;
		if (is_first)
			at = base - round_down(segment.p_vaddr, PAGE_BYTES);
		is_first = false;
		if (address - (at + segment.p_vaddr) < segment.p_memsz) {
			*bias = at;
			return true;
		}
	}
	return false;
}

struct search {
	uintptr_t address;
	uintptr_t image;	/* where the file last seen begins */
	struct mapping *found;
};

/* "start-end perms offset device inode name": true if that is the one. */
static bool line_is_it(struct search *search, const char *line)
{
	struct mapping *m = search->found;
	const char *name = strpbrk(line, "/[");
	uintptr_t offset;

	m->start = hex_read(&line);
	line++;
	m->end = hex_read(&line);
	m->is_readable = line[1] == 'r';
	m->is_code = line[3] == 'x';
	line += 6;
	offset = hex_read(&line);
	if (name && *name == '/' && !offset)
		search->image = m->start;
	if (search->address < m->start || search->address >= m->end)
		return false;
	m->bias = m->start - offset;
	m->image = search->image;
	m->is_image = image_has(search->image, search->address, &m->bias);
	m->name[0] = '\0';
	if (name && strlen(name) < sizeof(m->name))
		memcpy(m->name, name, strlen(name) + 1);
	return true;
}

int maps_find(uintptr_t address, struct mapping *found)
{
	struct search search = { address, 0, found };
	char buf[1024], *line, *stop;
	size_t used = 0;
	bool is_found = false;
	long n, fd = sys_open("/proc/self/maps", O_RDONLY, 0);

	if (fd < 0)
		return (int)fd;
	/* A name of a thousand characters ends it. */
	while (!is_found && (n = sys_call4(SYS_read, fd, (long)(buf + used),
					   (long)(sizeof(buf) - used), 0)) > 0) {
		used += (size_t)n;
		for (line = buf; !is_found && (stop = memchr(line, '\n', used));
		     line = stop + 1) {
			*stop = '\0';
			used -= (size_t)(stop + 1 - line);
			is_found = line_is_it(&search, line);
		}
		memmove(buf, line, used);
	}
	sys_close(fd);
	return is_found ? 1 : n || used ? -1 : 0;
}
