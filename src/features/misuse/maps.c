/* SPDX-License-Identifier: MIT */
/* See maps.h. */
#define _GNU_SOURCE
#include "features/misuse/maps.h"

#include <elf.h>
#include <errno.h>
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

static bool line_is_it(const struct maps_line *line, void *arg)
{
	struct search *search = arg;
	struct mapping *m = search->found;

	m->start = line->start;
	m->end = line->end;
	m->is_readable = line->is_readable;
	m->is_code = line->is_code;
	if (*line->name == '/' && !line->offset)
		search->image = m->start;
	if (search->address < m->start || search->address >= m->end)
		return false;
	m->bias = m->start - line->offset;
	m->image = search->image;
	m->is_image = image_has(search->image, search->address, &m->bias);
	m->name[0] = '\0';
	if (strlen(line->name) < sizeof(m->name))
		memcpy(m->name, line->name, strlen(line->name) + 1);
	return true;
}

int maps_find(uintptr_t address, struct mapping *found)
{
	struct search search = { address, 0, found };
	char buffer[1024];	/* a name of a thousand characters ends it */

	return maps_each(buffer, sizeof(buffer), line_is_it, &search);
}

/* "start-end perms offset device inode name" */
static struct maps_line line_read(const char *s)
{
	const char *name = strpbrk(s, "/[");
	struct maps_line line = { .name = name ? name : "" };

	line.start = hex_read(&s);
	s++;
	line.end = hex_read(&s);
	line.is_readable = s[1] == 'r';
	line.is_writable = s[2] == 'w';
	line.is_code = s[3] == 'x';
	line.is_shared = s[4] == 's';
	s += 6;
	line.offset = hex_read(&s);
	return line;
}

int maps_each(char *buffer, size_t bytes, maps_user *use, void *arg)
{
	long n = 0, fd = sys_open("/proc/self/maps", O_RDONLY, 0);
	bool is_last = false;
	size_t used = 0;
	char *at, *stop;

	if (fd < 0)
		return (int)fd;
	while (!is_last && (n = sys_call4(SYS_read, fd, (long)(buffer + used),
					  (long)(bytes - used), 0)) > 0) {
		used += (size_t)n;
		for (at = buffer; !is_last && (stop = memchr(at, '\n', used)); at = stop + 1) {
			struct maps_line line;

			*stop = '\0';
			used -= (size_t)(stop + 1 - at);
			line = line_read(at);
			is_last = use(&line, arg);
		}
		memmove(buffer, at, used);
	}
	sys_close(fd);
	return is_last ? 1 : n < 0 ? (int)n : used ? -EOVERFLOW : 0;
}
