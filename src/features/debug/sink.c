/* SPDX-License-Identifier: MIT */
/* Where text goes, and what files and functions the addresses in it belong to. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/turn.h"
#include "features/debug/debug.h"
#include "features/debug/symbol.h"

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
		sys_close(fd);
	} else if (!__atomic_exchange_n(&complained, true, __ATOMIC_RELAXED)) {
		os_output_complain("debug", path, fd);
	}
}

/* ---- which file an address belongs to ---- */

#define MODULES 32

/*
 * Mappings of code that were found last.  Only the thread that has the turn may touch these;
 * no thread waits for it.
 */
static struct turn reading;
static struct mapping modules[MODULES] rarely_touched;
static uint32_t next_module;

/* Functions that were found last, by a hash of the address: one report has many of them twice. */
#define NAMES 32

static struct {
	uintptr_t address;
	bool is_known;
	struct symbol symbol;
} names[NAMES] rarely_touched;
/* What was found may be of a plugin that has made room for another. */
static bool is_stale;

static const struct mapping *module_find(uintptr_t address)
{
	struct mapping *m;

	for (uint32_t i = 0; i < MODULES; i++) {
		if (address >= modules[i].start && address < modules[i].end)
			return &modules[i];
	}
	m = &modules[next_module++ % MODULES];
	if (maps_find(address, m) > 0 && m->is_code && m->name[0] == '/')
		return m;
	m->end = 0;
	return NULL;
}

/* NULL: the file has no name for it. */
static const struct symbol *name_find(const struct mapping *m, uintptr_t address)
{
	uint32_t i = (uint32_t)((uint64_t)address * HASH_MULTIPLIER >> 59) % NAMES;

	if (names[i].address != address) {
		names[i].is_known = symbol_find(&names[i].symbol, m, address);
		names[i].address = address;
	}
	return names[i].is_known ? &names[i].symbol : NULL;
}

static void text_code(struct text *text, const struct mapping *m, uintptr_t address)
{
	const struct symbol *symbol = name_find(m, address);
	unsigned long at = address - m->bias;

	if (symbol)
		text_printf(text, " %s+0x%lx (%s+0x%lx)", symbol->name,
			    (unsigned long)symbol->offset, m->name, at);
	else
		text_printf(text, " %s+0x%lx", m->name, at);
}

static void forget(void)
{
	memset(modules, 0, sizeof(modules));
	memset(names, 0, sizeof(names));
	symbols_begin();
}

void sink_forget(void)
{
	__atomic_store_n(&is_stale, true, __ATOMIC_RELAXED);
}

void sink_describe(struct text *text, uintptr_t address)
{
	const struct mapping *m;

	text_printf(text, "[<0x%lx>]", (unsigned long)address);
	if (!turn_try(&reading))
		return;
	if (__atomic_exchange_n(&is_stale, false, __ATOMIC_RELAXED))
		forget();
	m = module_find(address);
	if (m)
		text_code(text, m, address);
	turn_end(&reading);
}

void sink_describe_all(struct text *text, const uintptr_t *addresses, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		text_printf(text, "\t");
		sink_describe(text, addresses[i]);
		text_printf(text, "\n");
	}
}
