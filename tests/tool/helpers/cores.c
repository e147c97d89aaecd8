/* SPDX-License-Identifier: MIT */
/* core.c on core files that this test writes: what is read of which segment, files, signals, and
 * each kind of damage. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <unistd.h>

#include "core.h"
#include "expect.h"
#include "in_use.h"
#include "process.h"

enum { NOTES, CODE, DATA, MORE, FAR, NR_SEGMENTS };

/* The segments CODE, DATA and MORE lie one behind the other, FAR elsewhere. */
static struct file {
	Elf64_Ehdr head;
	Elf64_Phdr segments[NR_SEGMENTS];
	char notes[2048];
	char code[256], data[256], more[128];
} file;
static size_t nr_notes;
static char path[] = "/tmp/cores-XXXXXX";
static struct process process;

static void put_segment(int n, uint32_t flags, uint64_t address, uint64_t offset,
			uint64_t file_bytes, uint64_t bytes)
{
	file.segments[n] = (Elf64_Phdr){
		.p_type = n == NOTES ? PT_NOTE : PT_LOAD, .p_flags = flags, .p_vaddr = address,
		.p_offset = offset, .p_filesz = file_bytes, .p_memsz = bytes,
	};
}

static void put_note(uint32_t type, const void *bytes, size_t nr)
{
	Elf64_Nhdr note = { .n_namesz = 5, .n_descsz = (uint32_t)nr, .n_type = type };
	char *at = file.notes + nr_notes;

	memcpy(at, &note, sizeof(note));
	memcpy(at + sizeof(note), "CORE", 5);
	memcpy(at + sizeof(note) + 8, bytes, nr);
	nr_notes += sizeof(note) + 8 + ((nr + 3) & ~3ul);
	file.segments[NOTES].p_filesz = nr_notes;
}

static void make(void)
{
	memset(&file, 0, sizeof(file));
	nr_notes = 0;
	memcpy(file.head.e_ident, ELFMAG, SELFMAG);
	file.head.e_ident[EI_CLASS] = ELFCLASS64;
	file.head.e_ident[EI_DATA] = ELFDATA2LSB;
	file.head.e_type = ET_CORE;
	file.head.e_phoff = offsetof(struct file, segments);
	file.head.e_phentsize = sizeof(Elf64_Phdr);
	file.head.e_phnum = NR_SEGMENTS;
	put_segment(NOTES, 0, 0, offsetof(struct file, notes), 0, 0);
	/* Not in the order of their addresses; the last 0x80 bytes of DATA are not in the file. */
	put_segment(CODE, PF_R | PF_X, 0x10000, offsetof(struct file, code), 0x100, 0x100);
	put_segment(MORE, PF_R | PF_W, 0x10280, offsetof(struct file, more), 0x80, 0x80);
	put_segment(DATA, PF_R | PF_W, 0x10100, offsetof(struct file, data), 0x100, 0x180);
	put_segment(FAR, PF_R, 0x50000, offsetof(struct file, code), 0x10, 0x100);
	for (int i = 0; i < 256; i++) {
		file.code[i] = (char)i;
		file.data[i] = (char)(i + 1);
		file.more[i / 2] = (char)(i / 2 + 2);
	}
}

static int opened(size_t bytes)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	EXPECT(write(fd, &file, bytes), bytes);
	close(fd);
	process_close(&process);
	return core_open(&process, path);
}

static int opened_whole(void)
{
	return opened(sizeof(file));
}

static void test_memory(void)
{
	char bytes[0x400];

	make();
	EXPECT(opened_whole(), 0);
	/* From one segment into the next, and into what nobody has touched. */
	memset(bytes, 'x', sizeof(bytes));
	EXPECT(process_read(&process, 0x10000, bytes, 0x300), 0);
	EXPECT(memcmp(bytes, file.code, 256), 0);
	EXPECT(memcmp(bytes + 0x100, file.data, 256), 0);
	for (int i = 0x200; i < 0x280; i++)
		EXPECT(bytes[i], 0);
	EXPECT(memcmp(bytes + 0x280, file.more, 128), 0);
	EXPECT(bytes[0x300], 'x');
	EXPECT(process_read(&process, 0x101fe, bytes, 4), 0);
	EXPECT(memcmp(bytes, "\377\0\0\0", 4), 0);
	EXPECT(process_read(&process, 0x102ff, bytes, 1), 0);
	EXPECT(bytes[0], file.more[127]);
	EXPECT(process_read(&process, 0x102ff, bytes, 2), -EFAULT);
	EXPECT(process_read(&process, 0xffff, bytes, 1), -EFAULT);
	EXPECT(process_read(&process, 0xffff, bytes, 0), 0);
	/* What is not in the file, and not writable, is in the program's file. */
	EXPECT(process_read(&process, 0x50000, bytes, 0x10), 0);
	EXPECT(bytes[15], 15);
	EXPECT(process_read(&process, 0x50000, bytes, 0x11), -EFAULT);
	EXPECT(process_read(&process, 0x500ff, bytes, 1), -EFAULT);
}

static void test_untouched(void)
{
	const struct core *core;

	make();
	EXPECT(opened_whole(), 0);
	core = process.core;
	EXPECT(core_is_untouched(core, 0x10200, 0x80), true);
	EXPECT(core_is_untouched(core, 0x10200, 0x81), false);
	EXPECT(core_is_untouched(core, 0x101ff, 1), false);
	EXPECT(core_is_untouched(core, 0x1027f, 1), true);
	EXPECT(core_is_untouched(core, 0x10280, 1), false);
	EXPECT(core_is_untouched(core, 0x50080, 1), false);
	EXPECT(core_is_untouched(core, 0x60000, 1), false);
}

static void test_damage(void)
{
	make();
	EXPECT(opened(sizeof(file) - 1), -ENODATA);
	EXPECT(opened(offsetof(struct file, notes) - 1), -ENODATA);
	file.head.e_type = ET_DYN;
	EXPECT(opened_whole(), -ENOEXEC);
	make();
	file.head.e_ident[EI_CLASS] = ELFCLASS32;
	EXPECT(opened_whole(), -ENOEXEC);
	make();
	file.head.e_phentsize++;
	EXPECT(opened_whole(), -EBADMSG);
	make();
	file.head.e_phnum = 0;
	EXPECT(opened_whole(), -EBADMSG);
	make();
	file.segments[DATA].p_filesz = 0x181;
	EXPECT(opened_whole(), -EBADMSG);
	file.segments[DATA].p_filesz = 0x180;
	EXPECT(opened_whole(), 0);
	make();
	file.segments[MORE].p_vaddr = UINT64_MAX - 0x7f;
	EXPECT(opened_whole(), -EBADMSG);
	file.segments[MORE].p_vaddr--;
	EXPECT(opened_whole(), 0);
	/* One without memory is none, whatever it says. */
	make();
	file.segments[MORE].p_memsz = 0;
	EXPECT(opened_whole(), 0);
	EXPECT(process.core->nr_segments, 3);
	/* Notes that are not in the file. */
	make();
	file.segments[NOTES].p_offset = sizeof(file);
	EXPECT(opened_whole(), 0);
	file.segments[NOTES].p_filesz = 1;
	EXPECT(opened_whole(), -ENODATA);
}

/* More than 65,534 segments: their number stands in the first section. */
static void test_many_segments(void)
{
	Elf64_Shdr section = { .sh_info = NR_SEGMENTS };

	make();
	file.head.e_phnum = PN_XNUM;
	file.head.e_shoff = offsetof(struct file, notes);
	memcpy(file.notes, &section, sizeof(section));
	EXPECT(opened_whole(), 0);
	EXPECT(process.core->nr_segments, 4);
	section.sh_info = 0;
	memcpy(file.notes, &section, sizeof(section));
	EXPECT(opened_whole(), -EBADMSG);
	section.sh_info = 1u << 20;
	memcpy(file.notes, &section, sizeof(section));
	EXPECT(opened_whole(), -ENODATA);
	section.sh_info++;
	memcpy(file.notes, &section, sizeof(section));
	EXPECT(opened_whole(), -EBADMSG);
	file.head.e_shoff = sizeof(file) - sizeof(section) + 1;
	EXPECT(opened_whole(), -EBADMSG);
}

/* ---- notes ---- */

static struct files {
	uint64_t nr, unit, ranges[2][3];
	char names[64];
} files;

static const struct files two = {
	2, 4096, { { 0x10000, 0x10100, 3 }, { 0x10100, 0x10280, 0 } },
	"/bin/a\033b\0/lib/c (deleted)",
};

static void test_files(void)
{
	make();
	files = two;
	put_note(NT_FILE, &files, sizeof(files));
	EXPECT(opened_whole(), 0);
	EXPECT(process.nr_mappings, 2);
	EXPECT(strcmp(process.mappings[0].path, "/bin/a?b"), 0);
	EXPECT(strcmp(process.program, "/bin/a?b"), 0);
	EXPECT(process.mappings[0].start, 0x10000);
	EXPECT(process.mappings[0].end, 0x10100);
	EXPECT(process.mappings[0].offset, 3 * 4096);
	EXPECT(process.mappings[0].writable, false);
	EXPECT(process.mappings[0].deleted, false);
	EXPECT(strcmp(process.mappings[1].path, "/lib/c"), 0);
	EXPECT(process.mappings[1].writable, true);
	EXPECT(process.mappings[1].deleted, true);
	make();
	EXPECT(opened_whole(), 0);
	EXPECT(process.program[0], 0);
}

/* The note of files alone, of so many bytes. */
static int opened_with_files(size_t bytes)
{
	make();
	put_note(NT_FILE, &files, bytes);
	return opened_whole();
}

static void test_damaged_files(void)
{
	size_t names = offsetof(struct files, names);

	files = two;
	EXPECT(opened_with_files(15), -EBADMSG);
	EXPECT(opened_with_files(16), -EBADMSG);
	EXPECT(opened_with_files(names + sizeof("/bin/a\033b") + sizeof("/lib/c (deleted)")), 0);
	EXPECT(opened_with_files(names + sizeof("/bin/a\033b") + sizeof("/lib/c (deleted)") - 1),
	       -EBADMSG);
	EXPECT(opened_with_files(names - 1), -EBADMSG);
	files.nr = 0;
	EXPECT(opened_with_files(16), 0);
	files.nr = UINT64_MAX / 24 + 2;
	EXPECT(opened_with_files(sizeof(files)), -EBADMSG);
	files = two;
	files.ranges[1][1] = files.ranges[1][0];
	EXPECT(opened_with_files(sizeof(files)), 0);
	files.ranges[1][1]--;
	EXPECT(opened_with_files(sizeof(files)), -EBADMSG);
}

static void test_identity(void)
{
	struct elf_prpsinfo info = { .pr_pid = 1234 };

	memcpy(info.pr_fname, "sixteen\aletters.", 16);
	make();
	put_note(NT_PRPSINFO, &info, sizeof(info));
	EXPECT(opened_whole(), 0);
	EXPECT(process.pid, 1234);
	EXPECT(strcmp(process.name, "sixteen?letters."), 0);
	make();
	put_note(NT_PRPSINFO, &info, sizeof(info) - 1);
	EXPECT(opened_whole(), 0);
	EXPECT(process.pid, 0);
}

/* The signal of a core with notes of these. */
static int died_of(int first, int second, uint64_t *fault)
{
	siginfo_t info = { .si_signo = first, .si_code = SEGV_MAPERR };

	info.si_addr = (void *)0x1234;
	make();
	put_note(NT_SIGINFO, &info, sizeof(info));
	info.si_signo = second;
	info.si_addr = (void *)0x5678;
	put_note(NT_SIGINFO, &info, sizeof(info));
	EXPECT(opened_whole(), 0);
	*fault = process.core->fault;
	return process.core->signal;
}

static void test_signals(void)
{
	siginfo_t info = { .si_signo = SIGSEGV };
	uint64_t fault;

	EXPECT(died_of(SIGSEGV, SIGABRT, &fault), SIGSEGV);
	EXPECT(fault, 0x1234);
	EXPECT(died_of(SIGBUS, SIGSEGV, &fault), SIGBUS);
	EXPECT(fault, 0x1234);
	EXPECT(died_of(SIGABRT, SIGSEGV, &fault), SIGABRT);
	EXPECT(fault, 0);
	EXPECT(died_of(SIGSTOP, SIGSEGV, &fault), SIGSEGV);
	EXPECT(fault, 0x5678);
	EXPECT(died_of(SIGSTOP, SIGSTOP, &fault), 0);
	/* Sent by a process: no access was at fault. */
	make();
	put_note(NT_SIGINFO, &info, sizeof(info));
	EXPECT(opened_whole(), 0);
	EXPECT(process.core->signal, SIGSEGV);
	EXPECT(process.core->has_fault, false);
	make();
	put_note(NT_SIGINFO, &info, sizeof(info) - 1);
	EXPECT(opened_whole(), 0);
	EXPECT(process.core->signal, 0);
}

/* A note that is longer than all of them, and what is too short for one. */
static void test_ends_of_notes(void)
{
	struct elf_prpsinfo info = { .pr_pid = 1234 };

	make();
	put_note(NT_PRPSINFO, &info, sizeof(info));
	file.segments[NOTES].p_filesz--;
	EXPECT(opened_whole(), -EBADMSG);
	file.segments[NOTES].p_filesz = sizeof(Elf64_Nhdr) - 1;
	EXPECT(opened_whole(), 0);
	EXPECT(process.pid, 0);
	file.segments[NOTES].p_filesz = sizeof(Elf64_Nhdr);
	EXPECT(opened_whole(), -EBADMSG);
	memset(file.notes, 0, sizeof(file.notes));
	EXPECT(opened_whole(), 0);
}

static void test_all(void)
{
	test_memory();
	test_untouched();
	test_damage();
	test_many_segments();
	test_files();
	test_damaged_files();
	test_identity();
	test_signals();
	test_ends_of_notes();
	process_close(&process);
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	close(mkstemp(path));
	do_twice(test_all);
	unlink(path);
	EXPECT(core_open(&process, path), -ENOENT);
	return failures != 0;
}
