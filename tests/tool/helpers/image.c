/* SPDX-License-Identifier: MIT */
/* elf_image.c on an image that is made by hand, in a memory that is this test's: symbols that are
 * found by their hash, build IDs, and each kind of damage. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "elf_image.h"
#include "expect.h"

#define BASE	 0x10000000ul
#define MEMORY	 0x10000ul
#define VADDR	 0x400000ul		/* of the first byte, as the file has it */
#define BIAS	 (BASE - VADDR)
#define DYNAMIC	 0x1000ul
#define SYMBOLS	 0x3000ul
#define STRINGS	 0x4000ul
#define GNU_HASH 0x5000ul
#define NOTES	 0x7000ul
#define MORE	 0x9000ul		/* notes of another segment */

enum { LOAD, OTHER_LOAD, DYN, NOTE, OTHER_NOTE, NR_SEGMENTS };

static char memory[MEMORY];
static int nr_reads;

int process_read(const struct process *process, uint64_t address, void *to, size_t bytes)
{
	(void)process;
	nr_reads++;
	if (address < BASE || address - BASE > MEMORY || bytes > MEMORY - (address - BASE))
		return -EFAULT;
	memcpy(to, memory + (address - BASE), bytes);
	return 0;
}

/* ---- the image ---- */

static Elf64_Ehdr *head(void)
{
	return (Elf64_Ehdr *)memory;
}

static Elf64_Phdr *segment(int nr)
{
	return (Elf64_Phdr *)(memory + sizeof(Elf64_Ehdr)) + nr;
}

static Elf64_Dyn *dynamic(int nr)
{
	return (Elf64_Dyn *)(memory + DYNAMIC) + nr;
}

static Elf64_Sym *symbol(int nr)
{
	return (Elf64_Sym *)(memory + SYMBOLS) + nr;
}

#define NR_SYMBOLS   6
#define FIRST_SYMBOL 2
#define NR_FILTERS   3

static const char *const names[NR_SYMBOLS] = {
	"", "before", "alpha", "alphabet", "undefined", "last",
};

static uint32_t *hash_words(void)
{
	return (uint32_t *)(memory + GNU_HASH);
}

static uint32_t *buckets(void)
{
	return hash_words() + 4 + 2 * NR_FILTERS;
}

/* One bucket: all symbols are one chain. */
static uint32_t *chain(void)
{
	return buckets() + 1;
}

static void make_symbols(void)
{
	uint32_t at = 1;

	for (int i = 0; i < NR_SYMBOLS; i++) {
		*symbol(i) = (Elf64_Sym){
			.st_name = i ? at : 0, .st_shndx = i == 4 ? SHN_UNDEF : 1,
			.st_value = VADDR + 0x100 * (unsigned int)i,
		};
		strcpy(memory + STRINGS + at, names[i]);
		at += (uint32_t)strlen(names[i]) + 1;
		if (i >= FIRST_SYMBOL)
			chain()[i - FIRST_SYMBOL] = (hash_gnu(names[i]) & ~1u) |
						    (i + 1 == NR_SYMBOLS);
	}
	memcpy(hash_words(), (uint32_t[]){ 1, FIRST_SYMBOL, NR_FILTERS, 6 }, 16);
	buckets()[0] = FIRST_SYMBOL;
}

static void put_note(size_t at, uint32_t type, const char *name, const char *text, size_t size)
{
	Elf64_Nhdr note = { (Elf64_Word)strlen(name) + 1, (Elf64_Word)size, type };

	memcpy(memory + at, &note, sizeof(note));
	strcpy(memory + at + sizeof(note), name);
	memcpy(memory + at + sizeof(note) + (strlen(name) + 4) / 4 * 4, text, size);
}

static void make(void)
{
	memset(memory, 0, sizeof(memory));
	*head() = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB },
		.e_phoff = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = NR_SEGMENTS,
	};
	*segment(LOAD) = (Elf64_Phdr){ .p_type = PT_LOAD, .p_vaddr = VADDR + 0x123 };
	*segment(OTHER_LOAD) = (Elf64_Phdr){ .p_type = PT_LOAD, .p_vaddr = VADDR + 0x8000 };
	*segment(DYN) = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = VADDR + DYNAMIC,
				      .p_memsz = 6 * sizeof(Elf64_Dyn) };
	*segment(NOTE) = (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = NOTES, .p_filesz = 40 };
	*segment(OTHER_NOTE) = (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = MORE,
					     .p_filesz = 24 };
	*dynamic(0) = (Elf64_Dyn){ DT_NEEDED, { 1 } };
	/* As glibc leaves them, and as the file has them. */
	*dynamic(1) = (Elf64_Dyn){ DT_SYMTAB, { BASE + SYMBOLS } };
	*dynamic(2) = (Elf64_Dyn){ DT_STRTAB, { VADDR + STRINGS } };
	*dynamic(3) = (Elf64_Dyn){ DT_GNU_HASH, { BASE + GNU_HASH } };
	*dynamic(4) = (Elf64_Dyn){ DT_FLAGS, { 8 } };
	make_symbols();
	/* 12 + 4 + 4 bytes, then 12 + 4 + 4: the ID has three. */
	put_note(NOTES, 1, "GNU", "\1\2\3", 3);
	put_note(NOTES + 20, NT_GNU_BUILD_ID, "GNU", "\xab\x01\xf0", 3);
	put_note(MORE, NT_GNU_BUILD_ID, "Go!!", "\x77", 1);
}

/* ---- symbols ---- */

static int find(const char *name, uint64_t *address)
{
	*address = 1;
	return elf_image_symbol(NULL, BASE, name, address);
}

static int found(const char *name)
{
	uint64_t address;

	return find(name, &address);
}

static void find_symbols(void)
{
	uint64_t address;

	make();
	EXPECT(find("alpha", &address), 0);
	EXPECT(address, BASE + 0x200);
	EXPECT(find("alphabet", &address), 0);
	EXPECT(address, BASE + 0x300);
	EXPECT(find("last", &address), 0);
	EXPECT(address, BASE + 0x500);
	EXPECT(find("before", &address), -ENOENT);
	EXPECT(address, 1);
	EXPECT(found("undefined"), -ENOENT);
	EXPECT(found("alph"), -ENOENT);
	EXPECT(found(""), -ENOENT);
	/* The same hash, and another name. */
	strcpy(memory + STRINGS + symbol(2)->st_name, "alphx");
	EXPECT(found("alpha"), -ENOENT);
	/* Another hash, and the same name. */
	make();
	chain()[0] += 2;
	EXPECT(found("alpha"), -ENOENT);
	EXPECT(found("alphabet"), 0);
	/* Behind the end of its chain nothing is found; the lowest bit is none of the hash. */
	make();
	chain()[1] |= 1;
	EXPECT(found("alphabet"), 0);
	EXPECT(found("last"), -ENOENT);
	make();
	buckets()[0] = FIRST_SYMBOL + 1;
	EXPECT(found("alpha"), -ENOENT);
	EXPECT(found("alphabet"), 0);
	buckets()[0] = FIRST_SYMBOL - 1;
	EXPECT(found("alphabet"), -ENOENT);
	buckets()[0] = 0;
	EXPECT(found("alphabet"), -ENOENT);
	hash_words()[0] = 0;
	EXPECT(found("alphabet"), -ENOENT);
}

static void find_in_buckets(void)
{
	uint64_t address;

	/* Seven buckets, of which that of its hash has it alone. */
	make();
	memmove(buckets() + 7, chain(), (NR_SYMBOLS - FIRST_SYMBOL) * 4);
	memset(buckets(), 0, 7 * 4);
	hash_words()[0] = 7;
	buckets()[hash_gnu("last") % 7] = 5;
	EXPECT(find("last", &address), 0);
	EXPECT(address, BASE + 0x500);
	EXPECT(found("alpha"), -ENOENT);
}

static void read_long_chains(void)
{
	/* One that has no end within a thousand. */
	make();
	memset(chain(), 0, 4 * 1200);
	EXPECT(found("alpha"), -ENOENT);
	chain()[999] = hash_gnu("alpha");
	*symbol(FIRST_SYMBOL + 999 - 900) = *symbol(2);
	memset(chain(), 0, 4 * 999);
	nr_reads = 0;
	/* The thousandth is looked at, and its symbol is not this one. */
	EXPECT(found("alpha"), -ENOENT);
	EXPECT(nr_reads, 3 + 2 + 1000 + 1);
	nr_reads = 0;
	chain()[1000] = hash_gnu("alpha");
	chain()[999] = 0;
	EXPECT(found("alpha"), -ENOENT);
	EXPECT(nr_reads, 3 + 2 + 1000);
}

static void take_names(void)
{
	char name[80];

	make();
	memset(name, 'n', sizeof(name));
	name[63] = '\0';
	strcpy(memory + STRINGS + 0x800, name);
	symbol(5)->st_name = 0x800;
	chain()[3] = hash_gnu(name) | 1;
	EXPECT(found(name), 0);
	strcpy(name + 63, "n");
	strcpy(memory + STRINGS + 0x800, name);
	chain()[3] = hash_gnu(name) | 1;
	EXPECT(found(name), -ENOENT);
}

#define DAMAGED(what, error) do { \
		make(); \
		what; \
		EXPECT(found("last"), error); \
	} while (0)

static void refuse_heads(void)
{
	uint64_t address;

	EXPECT(elf_image_symbol(NULL, BASE - 1, "last", &address), -EFAULT);
	DAMAGED((void)0, 0);
	DAMAGED(head()->e_ident[3] = 0, -ENOENT);
	DAMAGED(head()->e_ident[EI_CLASS] = ELFCLASS32, -ENOENT);
	DAMAGED(head()->e_phentsize++, -ENOENT);
	DAMAGED(head()->e_phentsize--, -ENOENT);
	DAMAGED(head()->e_phnum = 64, 0);
	DAMAGED(head()->e_phnum = 65, -ENOENT);
	DAMAGED(head()->e_phnum = 3, 0);
	DAMAGED(head()->e_phnum = 2, -ENOENT);
	DAMAGED(head()->e_phnum = 0, -ENOENT);
	DAMAGED(head()->e_phoff = MEMORY, -EFAULT);
	DAMAGED(head()->e_phoff = MEMORY - NR_SEGMENTS * sizeof(Elf64_Phdr) + 1, -EFAULT);
	DAMAGED(head()->e_phoff = MEMORY - NR_SEGMENTS * sizeof(Elf64_Phdr), -ENOENT);
	DAMAGED(segment(LOAD)->p_type = segment(OTHER_LOAD)->p_type = PT_NULL, -ENOENT);
	DAMAGED(segment(DYN)->p_type = PT_NULL, -ENOENT);
	/* Before that the first segment says where the file lies. */
	DAMAGED(segment(LOAD)->p_vaddr = VADDR + 0xfff, 0);
	DAMAGED(segment(LOAD)->p_vaddr = VADDR + 0x1000, -ENOENT);
}

static void refuse_dynamic(void)
{
	DAMAGED(segment(DYN)->p_vaddr = VADDR + MEMORY, -EFAULT);
	DAMAGED(segment(DYN)->p_memsz = 4 * sizeof(Elf64_Dyn), 0);
	DAMAGED(segment(DYN)->p_memsz = 4 * sizeof(Elf64_Dyn) - 1, -ENOENT);
	DAMAGED(segment(DYN)->p_memsz = 0, -ENOENT);
	DAMAGED(dynamic(0)->d_tag = DT_NULL, -ENOENT);
	DAMAGED(dynamic(4)->d_tag = DT_NULL, 0);
	for (int i = 1; i <= 3; i++) {
		DAMAGED(dynamic(i)->d_tag = DT_DEBUG, -ENOENT);
		DAMAGED(dynamic(i)->d_tag = DT_NULL, -ENOENT);
	}
	DAMAGED(dynamic(1)->d_un.d_ptr = BASE + MEMORY, -EFAULT);
	DAMAGED(dynamic(2)->d_un.d_ptr = BASE + MEMORY, -ENOENT);
	DAMAGED(dynamic(3)->d_un.d_ptr = BASE + MEMORY, -EFAULT);
	DAMAGED(dynamic(1)->d_un.d_ptr = VADDR + SYMBOLS, 0);
	DAMAGED(dynamic(3)->d_un.d_ptr = VADDR + GNU_HASH, 0);
	/* No more than 256 entries are read. */
	DAMAGED(segment(DYN)->p_memsz = 1 << 20, 0);
	for (int i = 255; i <= 256; i++) {
		make();
		segment(DYN)->p_memsz = 300 * sizeof(Elf64_Dyn);
		for (int d = 4; d < i; d++)
			dynamic(d)->d_tag = DT_DEBUG;
		*dynamic(i) = *dynamic(3);
		dynamic(3)->d_tag = DT_DEBUG;
		EXPECT(found("last"), i == 255 ? 0 : -ENOENT);
	}
}

static void refuse_tables(void)
{
	/* The table's head, its bucket, its chain. */
	DAMAGED(dynamic(3)->d_un.d_ptr = BASE + MEMORY - 15, -EFAULT);
	DAMAGED(hash_words()[2] = 1 << 20, -EFAULT);
	DAMAGED(hash_words()[0] = 1 << 20, -EFAULT);
	DAMAGED(buckets()[0] = 1 << 20, -EFAULT);
	DAMAGED(hash_words()[1] = 3, -ENOENT);
	DAMAGED(symbol(5)->st_name = 1 << 20, -ENOENT);
	DAMAGED(symbol(5)->st_shndx = SHN_ABS, 0);
}

/* ---- build IDs ---- */

static char hex[64];

static bool has_id(size_t size)
{
	strcpy(hex, "none");
	return elf_image_build_id(NULL, BASE, hex, size);
}

#define EXPECT_ID(text) do { \
		EXPECT(has_id(sizeof(hex)), *(text) != '\0'); \
		EXPECT(strcmp(hex, *(text) ? (text) : "none"), 0); \
	} while (0)

static void find_ids(void)
{
	make();
	EXPECT_ID("ab01f0");
	/* Two digits of each byte, and the end. */
	EXPECT(has_id(7), true);
	EXPECT(strcmp(hex, "ab01f0"), 0);
	EXPECT(has_id(6), true);
	EXPECT(strcmp(hex, "77"), 0);
	EXPECT(has_id(2), false);
	segment(NOTE)->p_filesz = 39;
	EXPECT_ID("77");
	segment(NOTE)->p_filesz = 20;
	EXPECT_ID("77");
	segment(NOTE)->p_filesz = 0;
	EXPECT_ID("77");
	segment(OTHER_NOTE)->p_filesz = 23;
	EXPECT_ID("");
	make();
	head()->e_phnum = 4;
	EXPECT_ID("ab01f0");
	head()->e_phnum = 3;
	EXPECT_ID("");
	make();
	segment(NOTE)->p_type = PT_LOAD;
	EXPECT_ID("77");
	make();
	segment(NOTE)->p_filesz = 4096;
	EXPECT_ID("ab01f0");
	segment(NOTE)->p_filesz = 4097;
	EXPECT_ID("77");
	segment(OTHER_NOTE)->p_offset = MEMORY;
	EXPECT_ID("");
	head()->e_phoff = MEMORY;
	EXPECT_ID("");
	make();
	head()->e_ident[0] = 0;
	EXPECT_ID("");
}

static void refuse_notes(void)
{
	Elf64_Nhdr *note = (Elf64_Nhdr *)(memory + NOTES);

	/* Larger than what there is: nothing behind it is found. */
	make();
	note->n_descsz = 1000;
	EXPECT_ID("77");
	make();
	note->n_namesz = 0xffffffff;
	EXPECT_ID("77");
	/* Names and texts are filled up to four bytes. */
	make();
	note->n_namesz = 1;
	EXPECT_ID("ab01f0");
	note->n_namesz = 5;
	EXPECT_ID("77");
	make();
	note->n_descsz = 4;
	EXPECT_ID("ab01f0");
	note->n_descsz = 5;
	EXPECT_ID("77");
	/* One of no bytes is none, and the end of the search in its segment. */
	make();
	note->n_type = NT_GNU_BUILD_ID;
	note->n_descsz = 0;
	EXPECT_ID("77");
	/* A head and nothing else. */
	make();
	segment(NOTE)->p_filesz = 12;
	*note = (Elf64_Nhdr){ 0, 0, NT_GNU_BUILD_ID };
	EXPECT_ID("77");
	make();
	memmove(memory + NOTES, memory + NOTES + 20, 20);
	segment(NOTE)->p_filesz = 20;
	EXPECT_ID("ab01f0");
	segment(NOTE)->p_filesz = 19;
	EXPECT_ID("77");
}

int main(void)
{
	find_symbols();
	find_in_buckets();
	read_long_chains();
	take_names();
	refuse_heads();
	refuse_dynamic();
	refuse_tables();
	find_ids();
	refuse_notes();
	return failures != 0;
}
