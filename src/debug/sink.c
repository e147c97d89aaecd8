/* SPDX-License-Identifier: MIT */
/* Where text goes, and what files the addresses in it belong to. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>

#include "debug/debug.h"

#define STDERR 2

static void write_all(long fd, const char *text, size_t bytes)
{
	while (bytes) {
		long n = sys_call4(SYS_write, fd, (long)text, (long)bytes, 0);

		if (n == -4)	/* EINTR */
			continue;
		if (n <= 0)
			return;
		text += n;
		bytes -= (size_t)n;
	}
}

void sink_write(const char *path, const char *text, size_t bytes)
{
	char buf[OS_PATH_BYTES];
	const char *name = os_path(path, buf, sizeof(buf));
	long fd;

	if (strcmp(path, "stderr") == 0) {
		write_all(STDERR, text, bytes);
		return;
	}
	fd = name ? os_create(name, O_APPEND) : -1;
	if (fd < 0)
		return;
	write_all(fd, text, bytes);
	sys_call4(SYS_close, fd, 0, 0, 0);
}

/* ---- which file an address belongs to ---- */

#define MODULES_MAX 256
#define NAMES_BYTES 16384

/* An executable mapping of a file. */
struct module {
	uintptr_t start;
	uintptr_t end;
	uintptr_t offset;
	uint32_t name;		/* in names */
};

/* Whoever has `busy` may touch these; nobody waits for it. */
static _Atomic uint32_t busy;
static struct module modules[MODULES_MAX] rarely_touched;
static char names[NAMES_BYTES] rarely_touched;
static uint32_t nr_modules;
static uint32_t names_used;

static uintptr_t parse_hex(const char **s)
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

/* start-end perms offset device inode name */
static void module_add(const char *line)
{
	struct module *m = &modules[nr_modules];
	const char *slash = strchr(line, '/');
	size_t length;

	m->start = parse_hex(&line);
	line += *line == '-';
	m->end = parse_hex(&line);
	if (!slash || nr_modules == MODULES_MAX - 1 ||
	    strlen(line) < 6 || line[3] != 'x')
		return;
	line += 6;
	m->offset = parse_hex(&line);
	length = strlen(slash) + 1;
	if (names_used + length > NAMES_BYTES)
		return;
	memcpy(names + names_used, slash, length);
	m->name = names_used;
	names_used += (uint32_t)length;
	nr_modules++;
}

static void modules_read(void)
{
	char buf[1024];
	size_t used = 0;
	long n;
	long fd = sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/maps",
			    O_RDONLY | O_CLOEXEC, 0);

	nr_modules = 0;
	names_used = 0;
	if (fd < 0)
		return;
	while ((n = sys_call4(SYS_read, fd, (long)(buf + used),
			      (long)(sizeof(buf) - used), 0)) > 0) {
		char *line = buf;
		char *stop;

		used += (size_t)n;
		while ((stop = memchr(line, '\n',
				      used - (size_t)(line - buf)))) {
			*stop = '\0';
			module_add(line);
			line = stop + 1;
		}
		used -= (size_t)(line - buf);
		memmove(buf, line, used);
		if (used == sizeof(buf))
			break;	/* a name of a thousand characters */
	}
	sys_call4(SYS_close, fd, 0, 0, 0);
}

static const struct module *module_find(uintptr_t address)
{
	for (uint32_t i = 0; i < nr_modules; i++) {
		if (address >= modules[i].start && address < modules[i].end)
			return &modules[i];
	}
	return NULL;
}

void sink_describe(struct text *text, uintptr_t address)
{
	const struct module *m;

	text_printf(text, "[<0x%lx>]", (unsigned long)address);
	if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		return;
	m = module_find(address);
	if (!m) {
		modules_read();
		m = module_find(address);
	}
	if (m)
		text_printf(text, " %s+0x%lx", names + m->name,
			    (unsigned long)(address - m->start + m->offset));
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

usual void sink_after_fork(void)
{
	__atomic_store_n(&busy, 0, __ATOMIC_RELAXED);
}
