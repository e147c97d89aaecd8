/* SPDX-License-Identifier: MIT */
/* Reads an ELF file. */
#include "elf_file.h"
#include "slub.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NR_DYNAMIC_MAX 4096

/* A file that is cut short while it is read: what is behind its end is a signal. */
static void on_sigbus(int number)
{
	static const char text[] =
		"slub: a file was cut short while it was read\n";

	(void)number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(STATUS_UNREADABLE);
}

int elf_file_open(struct elf_file *file, int fd)
{
	struct stat status;
	void *bytes;

	if (fstat(fd, &status))
		return -errno;
	if ((size_t)status.st_size < sizeof(Elf32_Ehdr))
		return -ENOEXEC;
	bytes = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	signal(SIGBUS, on_sigbus);
	file->bytes = bytes;
	file->size_bytes = status.st_size;
	if (memcmp(bytes, ELFMAG, SELFMAG)) {
		elf_file_close(file);
		return -ENOEXEC;
	}
	return 0;
}

void elf_file_close(struct elf_file *file)
{
	munmap((void *)file->bytes, file->size_bytes);
	file->bytes = NULL;
}

unsigned int elf_file_class(const struct elf_file *file)
{
	return file->bytes[EI_CLASS];
}

unsigned int elf_file_machine(const struct elf_file *file)
{
	const unsigned char *at = file->bytes + offsetof(Elf64_Ehdr, e_machine);

	if (file->bytes[EI_DATA] == ELFDATA2MSB)
		return at[0] << 8 | at[1];
	return at[1] << 8 | at[0];
}

bool elf_file_same_kind(const struct elf_file *a, const struct elf_file *b)
{
	return elf_file_class(a) == elf_file_class(b) &&
	       elf_file_machine(a) == elf_file_machine(b) &&
	       a->bytes[EI_DATA] == b->bytes[EI_DATA];
}

bool elf_file_is_native(const struct elf_file *file)
{
	unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ?
			      ELFDATA2LSB : ELFDATA2MSB;

	return file->size_bytes >= sizeof(Elf64_Ehdr) &&
	       file->bytes[EI_CLASS] == ELFCLASS64 &&
	       file->bytes[EI_DATA] == order;
}

/* The @nr * @size bytes at @offset, or NULL if the file is shorter. */
static const void *part(const struct elf_file *file, uint64_t offset,
			uint64_t nr, uint64_t size)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(nr, size, &bytes) ||
	    offset > file->size_bytes || bytes > file->size_bytes - offset)
		return NULL;
	return file->bytes + offset;
}

/* Copies, since nothing promises that a table in the file is aligned. */
static bool segment(const struct elf_file *file, unsigned int nr,
		    Elf64_Phdr *segment)
{
	const void *bytes;
	Elf64_Ehdr head;

	if (!elf_file_is_native(file))
		return false;
	memcpy(&head, file->bytes, sizeof(head));
	if (nr >= head.e_phnum || head.e_phentsize != sizeof(*segment))
		return false;
	bytes = part(file, head.e_phoff, head.e_phnum, sizeof(*segment));
	if (!bytes)
		return false;
	memcpy(segment, (const char *)bytes + nr * sizeof(*segment),
	       sizeof(*segment));
	return true;
}

const char *elf_file_interpreter(const struct elf_file *file)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; segment(file, i, &phdr); i++) {
		const char *path;

		if (phdr.p_type != PT_INTERP)
			continue;
		path = part(file, phdr.p_offset, 1, phdr.p_filesz);
		if (path && phdr.p_filesz && !path[phdr.p_filesz - 1])
			return path;
	}
	return NULL;
}

bool elf_file_first_address(const struct elf_file *file, uint64_t *address)
{
	Elf64_Phdr phdr;

	/* Loadable segments come in the order of their addresses. */
	for (unsigned int i = 0; segment(file, i, &phdr); i++) {
		if (phdr.p_type == PT_LOAD) {
			*address = phdr.p_vaddr;
			return true;
		}
	}
	return false;
}

static bool section(const struct elf_file *file, unsigned int nr,
		    Elf64_Shdr *section)
{
	const void *bytes;
	Elf64_Ehdr head;

	if (!elf_file_is_native(file))
		return false;
	memcpy(&head, file->bytes, sizeof(head));
	if (nr >= head.e_shnum || head.e_shentsize != sizeof(*section))
		return false;
	bytes = part(file, head.e_shoff, head.e_shnum, sizeof(*section));
	if (!bytes)
		return false;
	memcpy(section, (const char *)bytes + nr * sizeof(*section),
	       sizeof(*section));
	return true;
}

static bool symbol_in(const struct elf_file *file, const Elf64_Shdr *table,
		      const char *name, uint64_t *value)
{
	uint64_t nr = table->sh_size / sizeof(Elf64_Sym);
	const char *symbols, *strings;
	size_t length = strlen(name) + 1;
	Elf64_Shdr names;
	Elf64_Sym symbol;

	if (!section(file, table->sh_link, &names))
		return false;
	symbols = part(file, table->sh_offset, nr, sizeof(symbol));
	strings = part(file, names.sh_offset, 1, names.sh_size);
	if (!symbols || !strings)
		return false;
	for (uint64_t i = 0; i < nr; i++) {
		memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF ||
		    symbol.st_name >= names.sh_size ||
		    names.sh_size - symbol.st_name < length ||
		    memcmp(strings + symbol.st_name, name, length))
			continue;
		*value = symbol.st_value;
		return true;
	}
	return false;
}

bool elf_file_symbol(const struct elf_file *file, uint32_t type,
		     const char *name, uint64_t *value)
{
	Elf64_Shdr table;

	/* A file has one of each kind; a thousand would take for ever. */
	for (unsigned int i = 0; section(file, i, &table); i++) {
		if (table.sh_type == type)
			return symbol_in(file, &table, name, value);
	}
	return false;
}

/* The name at @offset of the string table in section @nr; NULL: damaged. */
static const char *string_at(const struct elf_file *file, uint32_t nr,
			     uint64_t offset)
{
	const char *strings;
	Elf64_Shdr names;

	if (!section(file, nr, &names) || offset >= names.sh_size)
		return NULL;
	strings = part(file, names.sh_offset, 1, names.sh_size);
	if (!strings || !memchr(strings + offset, 0, names.sh_size - offset))
		return NULL;
	return strings + offset;
}

/* For each library that is needed the table is gone through again. */
static uint64_t min_entries(uint64_t nr)
{
	return nr < NR_DYNAMIC_MAX ? nr : NR_DYNAMIC_MAX;
}

const char *elf_file_needed(const struct elf_file *file, unsigned int nr)
{
	Elf64_Shdr table;

	for (unsigned int i = 0; section(file, i, &table); i++) {
		uint64_t entries = min_entries(table.sh_size /
					       sizeof(Elf64_Dyn));
		const char *bytes = part(file, table.sh_offset, entries,
					 sizeof(Elf64_Dyn));
		Elf64_Dyn entry;

		if (table.sh_type != SHT_DYNAMIC || !bytes)
			continue;
		for (uint64_t e = 0; e < entries; e++) {
			memcpy(&entry, bytes + e * sizeof(entry),
			       sizeof(entry));
			if (entry.d_tag == DT_NEEDED && !nr--)
				return string_at(file, table.sh_link,
						 entry.d_un.d_val);
		}
		return NULL;
	}
	return NULL;
}

uint64_t elf_file_align(const struct elf_file *file)
{
	uint64_t most = 0;
	Elf64_Phdr phdr;

	for (unsigned int i = 0; segment(file, i, &phdr); i++) {
		if (phdr.p_type == PT_LOAD && phdr.p_align > most)
			most = phdr.p_align;
	}
	return most;
}

uint64_t elf_file_tls_bytes(const struct elf_file *file)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; segment(file, i, &phdr); i++) {
		if (phdr.p_type == PT_TLS)
			return phdr.p_memsz;
	}
	return 0;
}
