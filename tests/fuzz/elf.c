/* SPDX-License-Identifier: MIT */
/*
 * An ELF file, whatever is in it: as a file, and as it lies in the memory of a process (at BASE,
 * where the process has nothing else).
 */
#include "readers.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "../../tools/slub/elf_file.h"
#include "../../tools/slub/elf_image.h"

enum { NEEDED_MAX = 50 };
#define BASE 0x7f0000000000u

static const uint8_t *memory;
static size_t memory_bytes;

int __wrap_process_read(const struct process *process, uint64_t address, void *to,
			size_t bytes);
int __wrap_process_read(const struct process *process, uint64_t address, void *to, size_t bytes)
{
	(void)process;
	if (address < BASE || address - BASE > memory_bytes ||
	    bytes > memory_bytes - (address - BASE))
		return -EFAULT;
	memcpy(to, memory + (address - BASE), bytes);
	return 0;
}

static void look_up_in_file(const struct elf_file *file)
{
	static const char *const names[] = { "slub_abi_state", "malloc", "" };
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };
	uint64_t value;

	for (int i = 0; i < 6; i++)
		elf_file_symbol(file, types[i % 2], names[i / 2], &value);
	elf_file_first_address(file, &value);
	elf_file_align(file);
	elf_file_tls_bytes(file);
	elf_file_interpreter(file);
	for (unsigned int i = 0; i < NEEDED_MAX; i++) {
		const char *name = elf_file_needed(file, i);

		/* All of it can be read. */
		if (name)
			expect(strlen(name) < file->size_bytes);
	}
}

static void read_file(void *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_file file;
	int error = elf_file_open(&file, fd);

	close(fd);
	if (error)
		return;
	elf_file_class(&file);
	elf_file_machine(&file);
	expect(elf_file_same_kind(&file, &file));
	look_up_in_file(&file);
	elf_file_close(&file);
}

static void read_image(void *unused)
{
	struct process process = { .pid = 1 };
	uint64_t address;
	char hex[130];

	(void)unused;
	elf_image_symbol(&process, BASE, "slub_abi_state", &address);
	elf_image_symbol(&process, BASE, "malloc", &address);
	if (elf_image_build_id(&process, BASE, hex, sizeof(hex)))
		expect(strlen(hex) < sizeof(hex) && strspn(hex, "0123456789abcdef") ==
		       strlen(hex));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memory = data;
	memory_bytes = size;
	reader_call(read_file, (void *)reader_file(data, size));
	reader_call(read_image, NULL);
	return 0;
}
