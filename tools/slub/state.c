/* SPDX-License-Identifier: MIT */
/* Finds libslub in another process and reads what it shows of itself. */
#include "state.h"
#include "elf_file.h"
#include "elf_image.h"
#include "slub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCAN_SIZE_MAX (64ul << 20)
#define SCANS_MAX     16	/* of that size, for one process */

/* What version 3 has for certain; fields behind it read as 0 if not there. */
#define ABI_SIZE_MIN (offsetof(struct slub_abi, option_bytes) + 4)

/* libslub.so.0.2.0, libslub-hardened.so; deleted or not. */
static bool has_our_name(const struct mapping *mapping)
{
	const char *slash = strrchr(mapping->path, '/');
	const char *name = slash ? slash + 1 : "";

	return !strncmp(name, "libslub", 7) &&
	       (name[7] == '.' || name[7] == '-') && strstr(name + 7, ".so");
}

/* The release of a library of another version; empty if it makes no sense. */
static void read_release(const struct process *process, uint64_t address,
			 struct slub_abi *abi)
{
	char *release = abi->library_version;
	size_t bytes = sizeof(abi->library_version);

	if (process_read(process, address + offsetof(struct slub_abi, library_version),
			 release, bytes))
		release[0] = '\0';
	release[bytes - 1] = '\0';
	if (strspn(release, "0123456789.") != strlen(release))
		release[0] = '\0';
}

/* The structure at @address, if it is one that this command understands. */
static int read_abi(const struct process *process, uint64_t address,
		    struct slub_abi *abi)
{
	size_t bytes = sizeof(*abi);
	int error;

	*abi = (struct slub_abi){ 0 };
	error = process_read(process, address, abi,
			     offsetof(struct slub_abi, ready));
	if (error)
		return error;
	if (memcmp(abi->magic, SLUB_ABI_MAGIC, sizeof(abi->magic)) ||
	    abi->version != SLUB_ABI_VERSION || abi->size < ABI_SIZE_MIN) {
		if (memcmp(abi->magic, SLUB_ABI_MAGIC, sizeof(abi->magic)))
			abi->version = 0;
		else
			read_release(process, address, abi);
		return -EPROTO;
	}
	if (abi->size < bytes)
		bytes = abi->size;
	error = process_read(process, address, abi, bytes);
	abi->library_version[sizeof(abi->library_version) - 1] = '\0';
	return error;
}

/* In the symbol table of the program's file, which `strip` removes. */
static int find_in_program_file(const struct process *process,
				const struct mapping *program,
				uint64_t *address)
{
	uint64_t page = sysconf(_SC_PAGESIZE), value, first;
	struct elf_file file;
	int fd, error;

	fd = process_open_program(process);
	if (fd < 0)
		return fd;
	error = elf_file_open(&file, fd);
	close(fd);
	if (error)
		return -ENOENT;
	error = -ENOENT;
	if (elf_file_symbol(&file, SHT_SYMTAB, SLUB_ABI_SYMBOL, &value) &&
	    elf_file_first_address(&file, &first)) {
		*address = program->start - (first & -page) + value;
		error = 0;
	}
	elf_file_close(&file);
	return error;
}

/* What may still be searched: a core can name one file a thousand times. */
static size_t scan_bytes;

/* A stripped program: the state names itself by its magic. */
static bool find_magic(const struct process *process,
		       const struct mapping *mapping, struct state *state)
{
	size_t bytes = mapping->end - mapping->start;
	bool found = false;
	char *copy;

	if (bytes > SCAN_SIZE_MAX || bytes > scan_bytes)
		return false;
	scan_bytes -= bytes;
	copy = must_have(malloc(bytes));
	if (process_read(process, mapping->start, copy, bytes)) {
		free(copy);
		return false;
	}
	for (size_t at = 0; at + ABI_SIZE_MIN <= bytes && !found; at += 8) {
		state->address = mapping->start + at;
		found = !memcmp(copy + at, SLUB_ABI_MAGIC, 8) &&
			!read_abi(process, state->address, &state->abi) &&
			(state->abi.self == state->address ||
			 !state->abi.ready);
	}
	free(copy);
	return found;
}

static int find_in_data(const struct process *process, const char *path,
			struct state *state)
{
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];

		if (mapping->writable && !strcmp(mapping->path, path) &&
		    find_magic(process, mapping, state))
			return 0;
	}
	return -ENOENT;
}

/* The state of a library that was linked into the program. */
static int find_static(const struct process *process,
		       const struct mapping *program, struct state *state)
{
	int error;

	error = find_in_program_file(process, program, &state->address);
	if (error == -ENOENT)
		return find_in_data(process, process->program, state);
	return error ? error : read_abi(process, state->address, &state->abi);
}

/*
 * The state of a library that was loaded by the dynamic loader.  A core file
 * mostly has its data, but not its symbols.
 */
static int find_shared(const struct process *process,
		       const struct mapping *file, struct state *state)
{
	int error = elf_image_symbol(process, file->start, SLUB_ABI_SYMBOL,
				     &state->address);

	if (error && process->core)
		error = find_in_data(process, file->path, state) ? -EPROTO : 0;
	else if (!error)
		error = read_abi(process, state->address, &state->abi);
	return error == -ENOENT ? -EPROTO : error;
}

/* A program that exports a malloc hides that of every library. */
static bool program_has_malloc(const struct process *process,
			       const struct mapping *program)
{
	uint64_t unused;

	return program &&
	       !elf_image_symbol(process, program->start, "malloc", &unused);
}

/*
 * Of several libraries, the hardened one and the other, the first that started
 * has the malloc; where none did, the first.  NULL, and no error, if there is none.
 * Without @by_name it is any file that has the state in it: a copy under another
 * name is not ours by its name, and what is ours by its name need not be readable.
 */
static int find_library(const struct process *process, bool by_name,
			struct state *state, const struct mapping **library)
{
	int first_error = 0, error;

	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];
		struct state other = { .presence = PRESENCE_ABSENT };

		if (mapping->offset || mapping->path[0] != '/' ||
		    has_our_name(mapping) != by_name ||
		    !strcmp(mapping->path, process->program))
			continue;
		error = find_shared(process, mapping, &other);
		if (!by_name && error && !other.abi.version)
			continue;
		if (!*library)
			first_error = error;
		if (!*library || (!error && other.abi.ready)) {
			*library = mapping;
			*state = other;
		}
		if (!error && other.abi.ready)
			return 0;
	}
	return first_error;
}

int state_find(struct state *state, const struct process *process)
{
	const struct mapping *program, *library = NULL;
	struct state other = { .presence = PRESENCE_ABSENT };
	const struct mapping *renamed = NULL;
	int error, renamed_error = 0;

	*state = (struct state){ .presence = PRESENCE_ABSENT };
	scan_bytes = SCANS_MAX * SCAN_SIZE_MAX;
	program = process_file(process, process->program);
	error = find_library(process, true, state, &library);
	if (!library || (!error && !state->abi.ready))
		renamed_error = find_library(process, false, &other, &renamed);
	if (renamed && (!library || other.abi.ready)) {
		*state = other;
		library = renamed;
		error = renamed_error;
	}
	if (!library && !program)
		return 0;		/* a kernel thread */
	if (!library) {
		state->is_static = true;
		error = find_static(process, program, state);
	}
	if (error)
		return error == -ENOENT ? 0 : error;
	state->file = library ? library : program;
	if (!state->abi.ready)
		state->presence = PRESENCE_NOT_STARTED;
	else if (library && program_has_malloc(process, program))
		state->presence = PRESENCE_SHADOWED;
	else
		state->presence = PRESENCE_IN_USE;
	return 0;
}

int state_refresh(struct state *state, const struct process *process)
{
	return read_abi(process, state->address, &state->abi);
}

void complain_version_of(const char *command, const char *target,
			 const char *release, const char *what, uint32_t theirs,
			 uint32_t ours)
{
	bool older = theirs < ours;

	complain("%s: %s: its libslub%s%s describes %s in version %u; slub "
		 SLUB_TOOL_VERSION " reads version %u. It is %s than this "
		 "command: use the slub that came with it, or %s", command,
		 target, release[0] ? " " : "", release, what, theirs, ours,
		 older ? "older" : "newer",
		 older ? "restart the program on libslub " SLUB_TOOL_VERSION :
			 "update slub");
}

void complain_version(const char *command, const char *target,
		      const struct slub_abi *abi)
{
	if (!abi->version) {
		complain("%s: %s: has a libslub that slub " SLUB_TOOL_VERSION
			 " does not know; use the slub that came with it",
			 command, target);
		return;
	}
	complain_version_of(command, target, abi->library_version, "itself",
			    abi->version, SLUB_ABI_VERSION);
}

static const char *word(const char *const *words, size_t nr, uint32_t index)
{
	return index < nr ? words[index] : "unknown";
}

#define WORD(words, index) \
	word(words, sizeof(words) / sizeof((words)[0]), index)

const char *state_backend(const struct slub_abi *abi)
{
	static const char *const words[] = {
		[SLUB_ABI_BACKEND_NONE] = "none",
		[SLUB_ABI_BACKEND_RSEQ] = "rseq",
		[SLUB_ABI_BACKEND_THREAD] = "thread",
		[SLUB_ABI_BACKEND_TID] = "tid",
		[SLUB_ABI_BACKEND_LOCK] = "lock",
	};

	return WORD(words, abi->backend);
}

const char *state_cpu_number(const struct slub_abi *abi)
{
	static const char *const words[] = {
		[SLUB_ABI_CPU_NONE] = "none",
		[SLUB_ABI_CPU_MM_CID] = "mm_cid",
		[SLUB_ABI_CPU_CPU_ID] = "cpu_id",
		[SLUB_ABI_CPU_THREAD] = "thread",
		[SLUB_ABI_CPU_GETCPU] = "getcpu",
	};

	return WORD(words, abi->cpu_number);
}

const char *state_layout(const struct slub_abi *abi)
{
	static const char *const words[] = {
		[SLUB_ABI_LAYOUT_ALIGNED64] = "aligned64",
		[SLUB_ABI_LAYOUT_INNER56] = "inner56",
		[SLUB_ABI_LAYOUT_LOCK56] = "lock56",
	};

	return WORD(words, abi->layout);
}

const char *state_huge(const struct slub_abi *abi)
{
	static const char *const words[] = {
		[SLUB_ABI_HUGE_NEVER] = "never",
		[SLUB_ABI_HUGE_BLOCK] = "block",
		[SLUB_ABI_HUGE_ALWAYS] = "always",
		[SLUB_ABI_HUGE_AUTO] = "auto",
	};

	return WORD(words, abi->huge);
}

bool state_limit(const struct process *process, const struct slub_abi *abi, uint64_t *bytes)
{
	uint64_t pages;

	if (!abi->limit || process_read(process, abi->limit, &pages, sizeof(pages)))
		return false;
	*bytes = pages <= UINT64_MAX / 4096 ? pages * abi->page_bytes : UINT64_MAX;
	return true;
}
