/* SPDX-License-Identifier: MIT */
/* An ELF file as it lies in another process's memory. */
#include "core/base/hash.h"
#include "elf_image.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NR_SEGMENTS_MAX 64
#define NR_DYNAMIC_MAX	256
#define NR_CHAIN_MAX	1000	/* a hash chain this long is damage */
#define NAME_SIZE_MAX	64
#define NOTES_MAX	4096

struct image {
	const struct process *process;
	uint64_t base;		/* where the first byte of the file lies */
	uint64_t bias;		/* what was added to the file's addresses */
	uint64_t symbols;
	uint64_t strings;
	uint64_t gnu_hash;
};

static int read_head(const struct image *image, Elf64_Ehdr *head)
{
	int error = process_read(image->process, image->base, head,
				 sizeof(*head));

	if (error)
		return error;
	if (memcmp(head->e_ident, ELFMAG, SELFMAG) ||
	    head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_phentsize != sizeof(Elf64_Phdr) ||
	    head->e_phnum > NR_SEGMENTS_MAX)
		return -ENOENT;
	return 0;
}

/* The dynamic section's place; sets the bias. */
static int find_dynamic(struct image *image, Elf64_Phdr *dynamic)
{
	uint64_t page = sysconf(_SC_PAGESIZE);
	Elf64_Phdr segments[NR_SEGMENTS_MAX];
	bool has_bias = false;
	Elf64_Ehdr head;
	int error;

	*dynamic = (Elf64_Phdr){ .p_type = PT_NULL };
	error = read_head(image, &head);
	if (error)
		return error;
	error = process_read(image->process, image->base + head.e_phoff,
			     segments, head.e_phnum * sizeof(segments[0]));
	if (error)
		return error;
	for (int i = 0; i < head.e_phnum; i++) {
		if (segments[i].p_type == PT_LOAD && !has_bias) {
			image->bias = image->base -
				      (segments[i].p_vaddr & -page);
			has_bias = true;
		}
		if (segments[i].p_type == PT_DYNAMIC)
			*dynamic = segments[i];
	}
	return dynamic->p_type == PT_DYNAMIC && has_bias ? 0 : -ENOENT;
}

/* glibc rewrites these addresses in place when it loads the file, musl not. */
static uint64_t loaded_address(const struct image *image, uint64_t address)
{
	return address < image->bias ? address + image->bias : address;
}

static int read_dynamic(struct image *image)
{
	Elf64_Dyn entries[NR_DYNAMIC_MAX];
	Elf64_Phdr dynamic;
	size_t nr;
	int error;

	error = find_dynamic(image, &dynamic);
	if (error)
		return error;
	nr = dynamic.p_memsz / sizeof(entries[0]);
	if (nr > NR_DYNAMIC_MAX)
		nr = NR_DYNAMIC_MAX;
	error = process_read(image->process, image->bias + dynamic.p_vaddr,
			     entries, nr * sizeof(entries[0]));
	if (error)
		return error;
	for (size_t i = 0; i < nr && entries[i].d_tag != DT_NULL; i++) {
		uint64_t address = loaded_address(image, entries[i].d_un.d_ptr);

		if (entries[i].d_tag == DT_SYMTAB)
			image->symbols = address;
		else if (entries[i].d_tag == DT_STRTAB)
			image->strings = address;
		else if (entries[i].d_tag == DT_GNU_HASH)
			image->gnu_hash = address;
	}
	return image->symbols && image->strings && image->gnu_hash ? 0
								  : -ENOENT;
}

/* 1 if symbol @nr is defined and has that name, 0 if not, or -errno. */
static int symbol_matches(const struct image *image, uint32_t nr,
			  const char *name, uint64_t *address)
{
	size_t length = strlen(name) + 1;
	char found[NAME_SIZE_MAX];
	Elf64_Sym symbol;
	int error;

	error = process_read(image->process,
			     image->symbols + nr * sizeof(symbol), &symbol,
			     sizeof(symbol));
	if (error)
		return error;
	if (symbol.st_shndx == SHN_UNDEF)
		return 0;
	error = process_read(image->process, image->strings + symbol.st_name,
			     found, length);
	/* It has ended meanwhile, and says nothing of its names. */
	if (error == -ESRCH)
		return error;
	if (error || memcmp(found, name, length))
		return 0;
	*address = image->bias + symbol.st_value;
	return 1;
}

/*
 * The table is { nr_buckets, first_symbol, nr_filters, shift }, the filters
 * (8 bytes each), the buckets, and then one hash per symbol from first_symbol
 * on, in chains whose last hash has its lowest bit set.
 */
static int look_up(const struct image *image, const char *name,
		   uint64_t *address)
{
	uint32_t head[4], hash = hash_gnu(name), nr, in_chain;
	uint64_t buckets, chains;
	int error, match;

	error = process_read(image->process, image->gnu_hash, head,
			     sizeof(head));
	if (error)
		return error;
	if (!head[0])
		return -ENOENT;
	buckets = image->gnu_hash + sizeof(head) + 8ul * head[2];
	chains = buckets + 4ul * head[0];
	error = process_read(image->process, buckets + 4ul * (hash % head[0]),
			     &nr, sizeof(nr));
	if (error)
		return error;
	if (nr < head[1])
		return -ENOENT;
	for (int i = 0; i < NR_CHAIN_MAX; i++, nr++) {
		error = process_read(image->process,
				     chains + 4ul * (nr - head[1]), &in_chain,
				     sizeof(in_chain));
		if (error)
			return error;
		match = (in_chain | 1) == (hash | 1) ?
			symbol_matches(image, nr, name, address) : 0;
		if (match)
			return match < 0 ? match : 0;
		if (in_chain & 1)
			break;
	}
	return -ENOENT;
}

int elf_image_symbol(const struct process *process, uint64_t base,
		     const char *name, uint64_t *address)
{
	struct image image = { .process = process, .base = base };
	int error;

	if (strlen(name) >= NAME_SIZE_MAX)
		return -ENOENT;
	error = read_dynamic(&image);
	return error ? error : look_up(&image, name, address);
}

/* The note of that type among @bytes of notes. */
static bool find_note(const char *notes, size_t bytes, char *hex, size_t size)
{
	Elf64_Nhdr note;

	while (bytes >= sizeof(note)) {
		size_t skip, all;

		memcpy(&note, notes, sizeof(note));
		skip = sizeof(note) + (((size_t)note.n_namesz + 3) & ~(size_t)3);
		all = skip + (((size_t)note.n_descsz + 3) & ~(size_t)3);
		if (all > bytes)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID &&
		    2 * (size_t)note.n_descsz < size) {
			for (size_t i = 0; i < note.n_descsz; i++)
				sprintf(hex + 2 * i, "%02x",
					(unsigned char)notes[skip + i]);
			return note.n_descsz > 0;
		}
		notes += all;
		bytes -= all;
	}
	return false;
}

bool elf_image_build_id(const struct process *process, uint64_t base,
			char *hex, size_t size)
{
	struct image image = { .process = process, .base = base };
	Elf64_Phdr segments[NR_SEGMENTS_MAX];
	char notes[NOTES_MAX];
	Elf64_Ehdr head;

	if (read_head(&image, &head) ||
	    process_read(process, base + head.e_phoff, segments,
			 head.e_phnum * sizeof(segments[0])))
		return false;
	/* Notes lie in the first pages of a file, as they do in memory. */
	for (int i = 0; i < head.e_phnum; i++) {
		if (segments[i].p_type == PT_NOTE &&
		    segments[i].p_filesz <= sizeof(notes) &&
		    !process_read(process, base + segments[i].p_offset, notes,
				  segments[i].p_filesz) &&
		    find_note(notes, segments[i].p_filesz, hex, size))
			return true;
	}
	return false;
}
