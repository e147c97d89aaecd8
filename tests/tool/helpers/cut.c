/* SPDX-License-Identifier: MIT */
/* cut FILE: opens an ELF file as slub does, cuts it short, and reads on. */
#include <fcntl.h>
#include <unistd.h>

#include "elf_file.h"

int main(int argc, char **argv)
{
	struct elf_file file;
	int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;
	int status = 1;

	if (fd < 0 || elf_file_open(&file, fd) || ftruncate(fd, 0))
		return status;
	status = file.bytes[file.size_bytes - 1] ? 2 : 3;
	return status;
}
