/* SPDX-License-Identifier: MIT */
/*
 * The file of a program whose functions a report names: one that was damaged, or made to do harm.
 * The input is the file; it is what is mapped as well, so it is not refused at once.  The first
 * bytes, which are no part of an ELF header that anybody reads here, choose the address.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "features/debug/symbol.h"

enum { IMAGE_BYTES = 1024, CHOICE_AT = 8 };

static char path[64];

static void write_file(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0) {
		snprintf(path, sizeof(path), "/dev/shm/slub-fuzz-symbol-%d", (int)getpid());
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	}
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		broken("no file");
}

__attribute__((destructor)) static void remove_file(void)
{
	if (*path)
		unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char image[IMAGE_BYTES];
	struct mapping mapping = { .is_image = true, .is_code = true, .image = (uintptr_t)image };
	struct symbol found = { .offset = 0 };
	uint64_t address;

	if (size < IMAGE_BYTES)
		return -1;
	memcpy(image, data, sizeof(image));
	memcpy(&address, data + CHOICE_AT, sizeof(address));
	write_file(data, size);
	strcpy(mapping.name, path);
	symbols_begin();
	if (!symbol_find(&found, &mapping, (uintptr_t)address))
		return 0;
	expect(*found.name && memchr(found.name, 0, sizeof(found.name)));
	for (const char *c = found.name; *c; c++)
		expect((unsigned char)*c > ' ' && *c != 0x7f);
	return 0;
}
