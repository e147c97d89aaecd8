/* SPDX-License-Identifier: MIT */
/* See symbol.h. */
#define _GNU_SOURCE
#include "features/debug/symbol.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* What is mapped at a time. */
#define VIEW_BYTES ((size_t)1 << 20)
/* So much of a file's start, its head and its build ID, must be what is mapped. */
#define HEAD_BYTES 1024
#define SECTIONS_MAX 4096
#define SYMBOLS_AT_ONCE 512
/* A report may look at so many symbols, which takes some 0.1 s. */
#define SYMBOLS_MAX ((uint64_t)8 << 20)

/* Only the thread that has sink.c's turn may touch these; a handler's stack is small. */
static union {
	unsigned char head[2][HEAD_BYTES];
	Elf64_Sym symbols[SYMBOLS_AT_ONCE];
} buffer rarely_touched;
static uint64_t nr_looked_at;

void symbols_begin(void)
{
	nr_looked_at = 0;
}

/* ---- the file ---- */

struct object_file {
	long fd;
	uint64_t from;		/* where the view begins in it */
	long view;		/* 0: none */
};

static void view_close(struct object_file *file)
{
	if (file->view)
		sys_call4(SYS_munmap, file->view, (long)VIEW_BYTES, 0, 0);
	file->view = 0;
}

static bool view_open(struct object_file *file, uint64_t at)
{
	view_close(file);
	file->from = round_down(at, os_page_size());
	file->view = sys_call6(SYS_mmap, 0, (long)VIEW_BYTES, PROT_READ, MAP_PRIVATE,
				 file->fd, (long)file->from);
	if (sys_has_failed(file->view))
		file->view = 0;
	return file->view;
}

/* @bytes: at most the buffer's. */
static bool file_read(struct object_file *file, void *to, size_t bytes, uint64_t at)
{
	if (at >> 47)
		return false;
	if ((!file->view || at < file->from || at + bytes > file->from + VIEW_BYTES) &&
	    !view_open(file, at))
		return false;
	/* A page behind the file's end may not be touched. */
	return os_peek(to, (void *)(file->view + (long)(at - file->from)), bytes) ==
	       (long)bytes;
}

/* Of the same build as what is mapped? */
static bool is_the_one(struct object_file *file, const struct mapping *mapping)
{
	return file_read(file, buffer.head[0], HEAD_BYTES, 0) &&
	       os_peek(buffer.head[1], (void *)mapping->image, HEAD_BYTES) == HEAD_BYTES &&
	       !memcmp(buffer.head[0], buffer.head[1], HEAD_BYTES);
}

/* ---- the table ---- */

struct table {
	uint64_t at, nr;		/* symbols */
	uint64_t names_at, names_bytes;
};

static bool section_read(struct object_file *file, const Elf64_Ehdr *head, uint32_t nr,
			 Elf64_Shdr *section)
{
	return file_read(file, section, sizeof(*section),
			 head->e_shoff + (uint64_t)nr * sizeof(*section));
}

/* The one that has all symbols, else that of the loader. */
static bool table_find(struct object_file *file, struct table *table)
{
	Elf64_Shdr section, found = { .sh_type = SHT_NULL };
	Elf64_Ehdr head;

	if (!file_read(file, &head, sizeof(head), 0) || head.e_shoff >> 47 ||
	    head.e_shentsize != sizeof(section) || head.e_shnum > SECTIONS_MAX)
		return false;
	for (uint32_t i = 0; i < head.e_shnum && found.sh_type != SHT_SYMTAB; i++) {
		if (!section_read(file, &head, i, &section))
			return false;
		if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM)
			found = section;
	}
	if (found.sh_type == SHT_NULL || found.sh_entsize != sizeof(Elf64_Sym) ||
	    found.sh_link >= head.e_shnum ||
	    !section_read(file, &head, found.sh_link, &section) || section.sh_type != SHT_STRTAB)
		return false;
	*table = (struct table){
		found.sh_offset, found.sh_size / sizeof(Elf64_Sym),
		section.sh_offset, section.sh_size,
	};
	return !(table->at >> 47 || table->names_at >> 47);
}

/* ---- the symbol ---- */

static bool is_function(const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF;
}

static bool covers(const Elf64_Sym *symbol, uint64_t at)
{
	return at - symbol->st_value < symbol->st_size;
}

/* One function may have several names: a global one is what the source calls it. */
static bool is_better(const Elf64_Sym *symbol, const Elf64_Sym *best, uint64_t at)
{
	if (!best->st_name || covers(symbol, at) != covers(best, at))
		return !best->st_name || covers(symbol, at);
	if (symbol->st_value != best->st_value)
		return symbol->st_value > best->st_value;
	return ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL &&
	       ELF64_ST_BIND(best->st_info) != STB_GLOBAL;
}

/* @at: as the file has it. */
static bool table_search(struct object_file *file, const struct table *table, uint64_t at,
			 Elf64_Sym *best)
{
	*best = (Elf64_Sym){ .st_name = 0 };
	for (uint64_t done = 0, nr; done < table->nr; done += nr) {
		nr = table->nr - done < SYMBOLS_AT_ONCE ? table->nr - done : SYMBOLS_AT_ONCE;
		nr_looked_at += nr;
		if (nr_looked_at > SYMBOLS_MAX ||
		    !file_read(file, buffer.symbols, nr * sizeof(Elf64_Sym),
			       table->at + done * sizeof(Elf64_Sym)))
			return false;
		for (uint64_t i = 0; i < nr; i++) {
			const Elf64_Sym *symbol = &buffer.symbols[i];

			if (symbol->st_name && symbol->st_value <= at && is_function(symbol) &&
			    is_better(symbol, best, at))
				*best = *symbol;
		}
	}
	/* Assembly may not say where a function ends. */
	return best->st_name && (covers(best, at) || !best->st_size);
}

/* Up to its version, and fit for a line. */
static bool name_read(struct object_file *file, const struct table *table, uint32_t nr,
		      char *name)
{
	size_t bytes = SYMBOL_NAME_BYTES, length;

	if (nr >= table->names_bytes)
		return false;
	if (table->names_bytes - nr < bytes)
		bytes = (size_t)(table->names_bytes - nr);
	if (!file_read(file, name, bytes, table->names_at + nr))
		return false;
	length = strnlen(name, bytes);
	if (length == SYMBOL_NAME_BYTES) {
		length--;
		memset(name + length - 3, '.', 3);
	} else if (length == bytes) {
		return false;
	}
	name[length] = '\0';
	name[strcspn(name, "@")] = '\0';
	for (char *c = name; *c; c++) {
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			*c = '?';
	}
	return *name;
}

bool symbol_find(struct symbol *found, const struct mapping *mapping, uintptr_t address)
{
	/* A path of maps has no links in it, and a FIFO may have been put in its place. */
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct object_file file = { .fd = -1 };
	uint64_t at = address - mapping->bias;
	struct table table;
	Elf64_Sym symbol;
	bool is_found;

	if (!mapping->is_image || mapping->name[0] != '/' || nr_looked_at > SYMBOLS_MAX)
		return false;
	file.fd = sys_open(mapping->name, flags, 0);
	if (file.fd < 0)
		return false;
	/* What a call returns to may be the next function. */
	is_found = is_the_one(&file, mapping) && table_find(&file, &table) &&
		   table_search(&file, &table, at - 1, &symbol) &&
		   name_read(&file, &table, symbol.st_name, found->name);
	if (is_found)
		found->offset = at - symbol.st_value;
	view_close(&file);
	sys_close(file.fd);
	return is_found;
}
