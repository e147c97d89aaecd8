/* SPDX-License-Identifier: MIT */
/* Where text goes, and what files the addresses in it belong to. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/turn.h"
#include "debug/debug.h"
#include "debug/maps.h"

#define STDERR 2

void sink_write(const char *path, const char *text, size_t bytes)
{
	static _Atomic bool complained;
	char buf[OS_PATH_BYTES];
	const char *name = os_path(path, buf, sizeof(buf));
	long fd;

	if (strcmp(path, "stderr") == 0) {
		os_write_all(STDERR, text, bytes);
		return;
	}
	fd = name ? os_output_open(name, O_APPEND) : -ENAMETOOLONG;
	if (fd >= 0) {
		os_write_all(fd, text, bytes);
		sys_call4(SYS_close, fd, 0, 0, 0);
	} else if (!__atomic_exchange_n(&complained, true, __ATOMIC_RELAXED)) {
		os_output_complain("debug", path, fd);
	}
}

/* ---- which file an address belongs to ---- */

#define MODULES_MAX 256
#define NAMES_BYTES 16384

/* An executable mapping of a file. */
struct module {
	uintptr_t start;
	uintptr_t end;
	uintptr_t bias;		/* added to the addresses that the file has */
	uint32_t name;		/* in names */
};

/* Only the thread that has the turn may touch these; no thread waits for it. */
static struct turn reading;
static struct module modules[MODULES_MAX] rarely_touched;
static char names[NAMES_BYTES] rarely_touched;
static uint32_t nr_modules;
static uint32_t names_used;
/* Of the file whose mappings are being read, one behind the other. */
static uintptr_t first_byte, last_end;
/* What was read may be of a plugin that has made room for another. */
static bool is_stale;

/*
 * The bias of the file whose first byte lies at @base: what addr2line(1) wants is
 * neither the address, but in a program that is not relocated, nor the offset in the
 * file, where a linker has made the two differ.  @otherwise: it is no ELF file.
 */
static uintptr_t bias_of(uintptr_t base, uintptr_t otherwise)
{
	Elf64_Ehdr head;
	Elf64_Phdr segment;

	if (!base || !maps_peek(base, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG))
		return otherwise;
	for (uint32_t i = 0; i < head.e_phnum; i++) {
		if (!maps_peek(base + head.e_phoff + i * sizeof(segment),
			      &segment, sizeof(segment)))
			break;
		if (segment.p_type == PT_LOAD)
			return base - round_down(segment.p_vaddr, PAGE_BYTES);
	}
	return otherwise;
}

/* start-end perms offset device inode name */
static bool module_add(const char *line, void *arg)
{
	struct module *m = &modules[nr_modules];
	const char *slash = strchr(line, '/');
	uintptr_t offset;
	bool is_code;
	size_t length;

	(void)arg;
	m->start = maps_hex(&line);
	line += *line == '-';
	m->end = maps_hex(&line);
	if (!slash || nr_modules == MODULES_MAX - 1 || strlen(line) < 6) {
		first_byte = 0;
		return true;
	}
	is_code = line[3] == 'x';
	line += 6;
	offset = maps_hex(&line);
	if (!offset)
		first_byte = m->start;
	else if (m->start != last_end)
		first_byte = 0;
	last_end = m->end;
	if (!is_code)
		return true;
	m->bias = bias_of(first_byte, m->start - offset);
	length = strlen(slash) + 1;
	if (names_used + length > NAMES_BYTES)
		return true;
	memcpy(names + names_used, slash, length);
	m->name = names_used;
	names_used += (uint32_t)length;
	nr_modules++;
	return true;
}

static void modules_read(void)
{
	nr_modules = 0;
	names_used = 0;
	first_byte = 0;
	maps_read(module_add, NULL);
}

static const struct module *module_find(uintptr_t address)
{
	for (uint32_t i = 0; i < nr_modules; i++) {
		if (address >= modules[i].start && address < modules[i].end)
			return &modules[i];
	}
	return NULL;
}

void sink_forget(void)
{
	__atomic_store_n(&is_stale, true, __ATOMIC_RELAXED);
}

void sink_describe(struct text *text, uintptr_t address)
{
	const struct module *m;

	text_printf(text, "[<0x%lx>]", (unsigned long)address);
	if (!turn_try(&reading))
		return;
	if (__atomic_exchange_n(&is_stale, false, __ATOMIC_RELAXED))
		nr_modules = 0;
	m = module_find(address);
	if (!m) {
		modules_read();
		m = module_find(address);
	}
	if (m)
		text_printf(text, " %s+0x%lx", names + m->name,
			    (unsigned long)(address - m->bias));
	turn_end(&reading);
}
