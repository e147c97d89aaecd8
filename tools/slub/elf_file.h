/* SPDX-License-Identifier: MIT */
/*
 * Reads an ELF file: what it is for, which loader it asks for, where a symbol
 * of it lies.  Every offset in the file is checked before it is used.
 */
#ifndef SLUB_TOOL_ELF_FILE_H
#define SLUB_TOOL_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file {
	const unsigned char *bytes;	/* the mapped file */
	size_t size_bytes;
};

/* Returns 0, -ENOEXEC if it is no ELF file, or another -errno. */
int elf_file_open(struct elf_file *file, int fd);
void elf_file_close(struct elf_file *file);

/* What both classes and byte orders have at the same place. */
unsigned int elf_file_class(const struct elf_file *file);
unsigned int elf_file_machine(const struct elf_file *file);
bool elf_file_same_kind(const struct elf_file *a, const struct elf_file *b);

/* The rest is for 64-bit files in this machine's byte order. */
bool elf_file_is_native(const struct elf_file *file);

/* The PT_INTERP path, or NULL: a static program (or a library). */
const char *elf_file_interpreter(const struct elf_file *file);

/* The lowest address that the file asks to be loaded at. */
bool elf_file_first_address(const struct elf_file *file, uint64_t *address);

/* Finds a symbol that the file defines, in .symtab or .dynsym (@type). */
bool elf_file_symbol(const struct elf_file *file, uint32_t type,
		     const char *name, uint64_t *value);

/* The @nr-th library that the file asks its loader for; NULL: no more. */
const char *elf_file_needed(const struct elf_file *file, unsigned int nr);

/* The largest alignment of a segment, and the bytes of its TLS; 0: none. */
uint64_t elf_file_align(const struct elf_file *file);
uint64_t elf_file_tls_bytes(const struct elf_file *file);

#endif
