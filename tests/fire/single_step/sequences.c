/* SPDX-License-Identifier: MIT */
/*
 * Finds the critical sections of a mapped library: the descriptors are those
 * of its section __rseq_cs (librseq's convention), the boundaries of the
 * instructions come from objdump.
 */
#include "single_step/step.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

static uint64_t base_of(pid_t pid, const char *library)
{
	char path[64], line[4096], real[4096];
	uint64_t start, found = 0;
	FILE *maps;

	if (!realpath(library, real))
		fire_fail("%s: %s", library, strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (!maps)
		fire_fail("%s: %s", path, strerror(errno));
	while (!found && fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = '\0';
		if (strstr(line, real) && sscanf(line, "%lx", &start) == 1)
			found = start;
	}
	fclose(maps);
	if (!found)
		fire_fail("%s is not mapped in the tracee", real);
	return found;
}

/* Address and bytes of a section, from the file's section headers. */
static bool find_section(const char *library, const char *name,
			 uint64_t *address, uint64_t *bytes)
{
	int fd = open(library, O_RDONLY | O_CLOEXEC);
	const Elf64_Shdr *headers;
	const Elf64_Ehdr *elf;
	const char *names;
	struct stat stat;
	bool found = false;

	if (fd < 0 || fstat(fd, &stat))
		fire_fail("%s: %s", library, strerror(errno));
	elf = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (elf == MAP_FAILED)
		fire_fail("mmap %s: %s", library, strerror(errno));
	headers = (const void *)((const char *)elf + elf->e_shoff);
	names = (const char *)elf + headers[elf->e_shstrndx].sh_offset;
	for (int i = 0; i < elf->e_shnum && !found; i++) {
		found = !strcmp(names + headers[i].sh_name, name);
		*address = headers[i].sh_addr;
		*bytes = headers[i].sh_size;
	}
	munmap((void *)elf, stat.st_size);
	return found;
}

/*
 * The instruction boundaries from start to commit, both included, and a name:
 * objdump labels the first line as <function+offset>.
 */
static void disassemble(const char *library, struct sequence *one)
{
	char command[4400], line[512];
	FILE *objdump;

	snprintf(command, sizeof(command), "LD_PRELOAD= objdump -dw "
		 "--start-address=%#lx --stop-address=%#lx '%s'",
		 one->start, one->commit, library);
	objdump = popen(command, "r");
	if (!objdump)
		fire_fail("objdump: %s", strerror(errno));
	while (fgets(line, sizeof(line), objdump)) {
		uint64_t address;
		char label[64], tab;

		if (sscanf(line, "%lx <%63[^>]", &address, label) == 2 &&
		    !one->name[0])
			snprintf(one->name, sizeof(one->name), "%s", label);
		if (sscanf(line, " %lx:%c", &address, &tab) != 2 || tab != '\t')
			continue;
		if (one->count + 1 == STEP_BOUNDARIES_MAX)
			fire_fail("the sequence at %#lx is too long",
				  one->start);
		one->boundary[one->count++] = address;
		if (strstr(line, "mov ") && strstr(line, ",%fs:0x8("))
			one->entered = one->count;
	}
	if (pclose(objdump) || !one->count || one->boundary[0] != one->start)
		fire_fail("objdump cannot read %s at %#lx", library,
			  one->start);
	one->boundary[one->count++] = one->commit;
}

unsigned int step_sequences(pid_t pid, const char *library,
			    struct sequence *sequences, uint64_t *base)
{
	struct descriptor found[STEP_SEQUENCES_MAX];
	struct iovec to = { .iov_base = found }, from;
	uint64_t address, bytes;
	unsigned int count;

	if (!find_section(library, "__rseq_cs", &address, &bytes))
		return 0;
	count = bytes / sizeof(struct descriptor);
	if (count > STEP_SEQUENCES_MAX)
		fire_fail("%u sequences, more than expected", count);
	*base = base_of(pid, library);
	to.iov_len = bytes;
	from = (struct iovec){ (void *)(*base + address), bytes };
	if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)bytes)
		fire_fail("process_vm_readv: %s", strerror(errno));
	for (unsigned int i = 0; i < count; i++) {
		sequences[i] = (struct sequence){
			.start = found[i].start - *base,
			.commit = found[i].start + found[i].length - *base,
			.abort = found[i].abort - *base,
		};
		disassemble(library, &sequences[i]);
	}
	return count;
}
