/* SPDX-License-Identifier: MIT */
/* A core file: the memory of a process that is no more. */
#include "core.h"
#include "input.h"
#include "slub.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <unistd.h>

#define NR_SEGMENTS_MAX (1u << 20)
#define NR_FILES_MAX	(1u << 16)

/* The @bytes at @offset, or NULL if the file is shorter. */
static const void *part(const struct core *core, uint64_t offset,
			uint64_t bytes)
{
	if (offset > core->file.size_bytes ||
	    bytes > core->file.size_bytes - offset)
		return NULL;
	return core->file.bytes + offset;
}

/* More than 65,534 segments: their number stands in the first section. */
static uint64_t count_segments(const struct core *core, const Elf64_Ehdr *head)
{
	const void *section;
	Elf64_Shdr first;

	if (head->e_phnum != PN_XNUM)
		return head->e_phnum;
	section = part(core, head->e_shoff, sizeof(first));
	if (!section)
		return 0;
	memcpy(&first, section, sizeof(first));
	return first.sh_info;
}

static int by_address(const void *a, const void *b)
{
	const struct core_segment *one = a, *other = b;

	return compare_numbers(one->start, other->start);
}

/* 0, -ENODATA if what the segment promises is not in the file, or -EBADMSG. */
static int add_segment(struct core *core, const Elf64_Phdr *phdr)
{
	uint64_t end;

	if (phdr->p_type != PT_LOAD || !phdr->p_memsz)
		return 0;
	if (__builtin_add_overflow(phdr->p_vaddr, phdr->p_memsz, &end) ||
	    phdr->p_filesz > phdr->p_memsz)
		return -EBADMSG;
	if (!part(core, phdr->p_offset, phdr->p_filesz))
		return -ENODATA;
	core->segments[core->nr_segments++] = (struct core_segment){
		.start = phdr->p_vaddr,
		.end = end,
		.offset = phdr->p_offset,
		.file_bytes = phdr->p_filesz,
		.writable = phdr->p_flags & PF_W,
		.executable = phdr->p_flags & PF_X,
	};
	return 0;
}

static int read_segments(struct core *core, const char *table, uint64_t nr)
{
	Elf64_Phdr phdr;
	int error;

	core->segments = must_have(calloc(nr, sizeof(*core->segments)));
	for (uint64_t i = 0; i < nr; i++) {
		memcpy(&phdr, table + i * sizeof(phdr), sizeof(phdr));
		error = add_segment(core, &phdr);
		if (error)
			return error;
	}
	qsort(core->segments, core->nr_segments, sizeof(*core->segments),
	      by_address);
	return 0;
}

static const struct core_segment *segment_at(const struct core *core,
					     uint64_t address)
{
	size_t low = 0, high = core->nr_segments;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct core_segment *segment = &core->segments[middle];

		if (address < segment->start)
			high = middle;
		else if (address >= segment->end)
			low = middle + 1;
		else
			return segment;
	}
	return NULL;
}

static bool is_writable(const struct core *core, uint64_t address)
{
	const struct core_segment *segment = segment_at(core, address);

	return segment && segment->writable;
}

/*
 * The note of mapped files: their number and the unit of the offsets, then
 * { start, end, offset } for each, then their names, each with its NUL.
 */
static int read_files(struct process *process, const char *note, size_t bytes)
{
	const char *name, *end = note + bytes;
	uint64_t head[2], range[3];

	if (bytes < sizeof(head))
		return -EBADMSG;
	memcpy(head, note, sizeof(head));
	if (head[0] > NR_FILES_MAX ||
	    head[0] * sizeof(range) > bytes - sizeof(head))
		return -EBADMSG;
	note += sizeof(head);
	name = note + head[0] * sizeof(range);
	for (uint64_t i = 0; i < head[0]; i++) {
		size_t length = strnlen(name, (size_t)(end - name));
		struct mapping mapping = { 0 };

		if (length == (size_t)(end - name))
			return -EBADMSG;
		memcpy(range, note + i * sizeof(range), sizeof(range));
		if (range[1] < range[0])
			return -EBADMSG;
		mapping.start = range[0];
		mapping.end = range[1];
		mapping.offset = range[2] * head[1];
		mapping.writable = is_writable(process->core, range[0]);
		mapping.path = clean_string(must_have(strdup(name)));
		mapping.deleted = process_strip_deleted(mapping.path);
		process_add_mapping(process, &mapping);
		name += length + 1;
	}
	return 0;
}

static void read_identity(struct process *process, const char *note,
			  size_t bytes)
{
	struct elf_prpsinfo info;

	if (bytes < sizeof(info))
		return;
	memcpy(&info, note, sizeof(info));
	process->pid = info.pr_pid;
	memcpy(process->name, info.pr_fname, sizeof(info.pr_fname));
	process->name[sizeof(info.pr_fname)] = '\0';
	clean_string(process->name);
}

static void read_signal(struct core *core, const char *note, size_t bytes)
{
	siginfo_t info;

	/* The kernel writes that of the thread that died. */
	if (bytes < sizeof(info) || core->signal)
		return;
	memcpy(&info, note, sizeof(info));
	/* Nobody dies of it: gcore(1) stopped a living process. */
	if (info.si_signo == SIGSTOP)
		return;
	core->signal = info.si_signo;
	/* x86's kernel says 0 of one whose highest bits are neither 0 nor all set. */
	core->has_no_address = info.si_signo == SIGSEGV && info.si_code == SI_KERNEL;
	/* A process may send them, too: then there is no address. */
	core->has_fault = (info.si_signo == SIGSEGV || info.si_signo == SIGBUS) &&
			  info.si_code > 0 && !core->has_no_address;
	if (core->has_fault)
		core->fault = (uintptr_t)info.si_addr;
}

static void keep_note(struct core *core, uint32_t type, const char *bytes, size_t nr_bytes)
{
	size_t nr = core->nr_notes;

	/* Doubled whenever the number is a power of two. */
	if (!(nr & (nr - 1)))
		core->notes = must_have(reallocarray(core->notes, nr ? 2 * nr : 1,
						     sizeof(*core->notes)));
	core->notes[core->nr_notes++] = (struct core_note){ type, bytes, nr_bytes };
}

static size_t padded(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

/* Notes: { name's size, size, type }, the name, the bytes; padded to four. */
static int read_notes(struct process *process, const char *at, size_t bytes)
{
	Elf64_Nhdr note;
	int error = 0;

	while (!error && bytes >= sizeof(note)) {
		size_t skip, all;

		memcpy(&note, at, sizeof(note));
		skip = sizeof(note) + padded(note.n_namesz);
		all = skip + padded(note.n_descsz);
		if (all > bytes)
			return -EBADMSG;
		if (note.n_type == NT_FILE)
			error = read_files(process, at + skip, note.n_descsz);
		else if (note.n_type == NT_PRPSINFO)
			read_identity(process, at + skip, note.n_descsz);
		else if (note.n_type == NT_SIGINFO)
			read_signal(process->core, at + skip, note.n_descsz);
		else if (note.n_type == NT_PRSTATUS || note.n_type == NT_FPREGSET ||
			 note.n_type == NT_X86_XSTATE)
			keep_note(process->core, note.n_type, at + skip, note.n_descsz);
		if (note.n_type == NT_PRSTATUS)
			core_thread_read(&process->core->thread, at + skip, note.n_descsz);
		at += all;
		bytes -= all;
	}
	return error;
}

static int read_all_notes(struct process *process, const char *table,
			  uint64_t nr)
{
	Elf64_Phdr phdr;
	int error = 0;

	for (uint64_t i = 0; i < nr && !error; i++) {
		const void *notes;

		memcpy(&phdr, table + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type != PT_NOTE)
			continue;
		notes = part(process->core, phdr.p_offset, phdr.p_filesz);
		error = notes ? read_notes(process, notes, phdr.p_filesz) :
				-ENODATA;
	}
	return error;
}

static int read_core(struct process *process)
{
	struct core *core = process->core;
	const char *table;
	Elf64_Ehdr head;
	uint64_t nr;
	int error;

	if (!elf_file_is_native(&core->file))
		return -ENOEXEC;
	memcpy(&head, core->file.bytes, sizeof(head));
	if (head.e_type != ET_CORE)
		return -ENOEXEC;
	nr = count_segments(core, &head);
	if (!nr || nr > NR_SEGMENTS_MAX ||
	    head.e_phentsize != sizeof(Elf64_Phdr))
		return -EBADMSG;
	table = part(core, head.e_phoff, nr * sizeof(Elf64_Phdr));
	if (!table)
		return -ENODATA;
	error = read_segments(core, table, nr);
	return error ? error : read_all_notes(process, table, nr);
}

int core_open(struct process *process, const char *path)
{
	int fd = input_open(path, INPUT_FILE), error;

	if (fd < 0)
		return fd;
	*process = (struct process){ .pid = 0 };
	process->core = must_have(calloc(1, sizeof(*process->core)));
	error = elf_file_open(&process->core->file, fd);
	close(fd);
	if (error) {
		free(process->core);
		process->core = NULL;
		return error;
	}
	error = read_core(process);
	/* The program comes first, for the list is by address. */
	process->program = must_have(strdup(process->nr_mappings ?
					    process->mappings[0].path : ""));
	if (error)
		process_close(process);
	return error;
}

/* Pages that nobody touched are not in the file, and would read as zero. */
static bool read_piece(const struct core *core,
		       const struct core_segment *segment, uint64_t at,
		       char *to, size_t bytes)
{
	uint64_t there = at < segment->file_bytes ? segment->file_bytes - at : 0;
	size_t from_file = bytes < there ? bytes : (size_t)there;

	if (from_file < bytes && !segment->writable)
		return false;
	memcpy(to, core->file.bytes + segment->offset + at, from_file);
	memset(to + from_file, 0, bytes - from_file);
	return true;
}

int core_read(const struct core *core, uint64_t address, void *to,
	      size_t bytes)
{
	char *out = to;

	while (bytes) {
		const struct core_segment *segment = segment_at(core, address);
		size_t n = bytes;

		if (!segment)
			return -EFAULT;
		if (n > segment->end - address)
			n = (size_t)(segment->end - address);
		if (!read_piece(core, segment, address - segment->start, out,
				n))
			return -EFAULT;
		out += n;
		address += n;
		bytes -= n;
	}
	return 0;
}

bool core_is_untouched(const struct core *core, uint64_t address,
		       uint64_t bytes)
{
	const struct core_segment *segment = segment_at(core, address);

	return segment && segment->writable &&
	       bytes <= segment->end - address &&
	       address - segment->start >= segment->file_bytes;
}

void core_free(struct core *core)
{
	elf_file_close(&core->file);
	free(core->segments);
	free(core->notes);
	free(core);
}
