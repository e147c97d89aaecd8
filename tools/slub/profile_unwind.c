/* SPDX-License-Identifier: MIT */
/*
 * Unwinds a trail by elfutils, which reads the call frame information of the files that the
 * process has mapped.  Nothing of a stack is read but the trail's copy, for the process has gone
 * on since; besides it only what the process cannot write.  A core file goes on no more, and all
 * of it may be read.
 */
#include "profile.h"
#include "profile_trail.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if SLUB_TOOL_LIBDW
#include <elfutils/libdwfl.h>

#include "core.h"
#include "elf_image.h"
#include "profile_elf.h"

/* A module that was loaded meanwhile is looked for so seldom. */
#define REPORT_SECONDS 1

struct unwinder {
	Dwfl *dwfl;
	const struct process *process;
	time_t reported;
	const struct profile_trail *trail;
	uint64_t *frames;
	size_t nr_frames, frames_max;
	bool is_lost;			/* the last address was in no module */
};

/* The modules of one process at a time, and what elfutils calls it: not 0. */
static pid_t modules_of;
static const struct process *core_of;	/* NULL: the process lives */

/* As the process sees the file: its root may be another. */
static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	bool is_there;
	char *path;
	int fd;

	if (*name == '/' && asprintf(&path, "/proc/%d/root%s", (int)modules_of, name) > 0) {
		fd = profile_elf_open(path, &is_there);
		if (fd >= 0) {
			*file_name = path;
			return fd;
		}
		free(path);
		if (is_there)
			return -1;
	}
	return profile_elf_find(module, data, name, base, file_name, elf);
}

/* Has @fd the build ID that lies in the memory of the core?  True also where that is not known. */
static bool is_same_build(int fd, uint64_t base)
{
	char was[130], is[130] = "";
	struct core_segment whole = { .start = 0 };
	struct core image = { .segments = &whole, .nr_segments = 1 };
	const struct process file = { .core = &image };

	if (!elf_image_build_id(core_of, base, was, sizeof(was)))
		return true;
	if (elf_file_open(&image.file, fd))
		return false;
	/* As memory, in which an image of the file begins at 0. */
	whole.end = whole.file_bytes = image.file.size_bytes;
	if (!elf_image_build_id(&file, 0, is, sizeof(is)))
		*is = '\0';
	elf_file_close(&image.file);
	return !strcmp(was, is);
}

/* The tables of another build lead astray. */
static int find_elf_of_core(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			    char **file_name, Elf **elf)
{
	bool is_there;
	int fd = *name == '/' ? profile_elf_open(name, &is_there) : -1;

	(void)module, (void)data, (void)elf;
	if (fd < 0)
		return -1;
	if (!is_same_build(fd, base)) {
		close(fd);
		return -1;
	}
	*file_name = strdup(name);
	return fd;
}

/* Not debugging information in files of its own: that may be fetched from far away. */
static int find_no_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			     const char *file_name, const char *link, GElf_Word sum,
			     char **found)
{
	(void)module, (void)data, (void)name, (void)base;
	(void)file_name, (void)link, (void)sum, (void)found;
	return -1;
}

/* ---- what elfutils asks ---- */

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
	pid_t first = *thread ? 0 : modules_of;

	(void)dwfl;
	*thread = arg;
	return first;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread)
{
	(void)dwfl, (void)tid;
	*thread = arg;
	return true;
}

static bool read_constant(const struct process *process, uint64_t address, Dwarf_Word *word)
{
	const struct mapping *mapping = process_mapping_at(process, address);

	return mapping && !mapping->writable &&
	       !process_read(process, address, word, sizeof(*word));
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *arg)
{
	const struct unwinder *unwinder = arg;
	const struct profile_trail *trail = unwinder->trail;
	uint64_t at = address - trail->registers[trail->sp];

	(void)dwfl;
	if (trail->copy_bytes >= sizeof(*word) && at <= trail->copy_bytes - sizeof(*word)) {
		memcpy(word, trail->copy + at, sizeof(*word));
		return true;
	}
	if (unwinder->process->core)
		return !process_read(unwinder->process, address, word, sizeof(*word));
	return read_constant(unwinder->process, address, word);
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct profile_trail *trail = ((struct unwinder *)arg)->trail;

	for (int i = 0; i < TRAIL_REGISTERS; i++) {
		Dwarf_Word word = trail->registers[i];

		if (trail->known >> i & 1 && !dwfl_thread_state_registers(thread, i, 1, &word))
			return false;
	}
	dwfl_thread_state_register_pc(thread, trail->pc);
	return true;
}

static const Dwfl_Callbacks of_modules = {
	.find_elf = find_elf,
	.find_debuginfo = find_no_debuginfo,
};

static const Dwfl_Callbacks of_core = {
	.find_elf = find_elf_of_core,
	.find_debuginfo = find_no_debuginfo,
};

static const Dwfl_Thread_Callbacks of_threads = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

/* ---- a stack ---- */

static void report_core(struct unwinder *unwinder)
{
	struct profile names = { .pid = 0 };
	FILE *maps;

	profile_mappings_of(&names, unwinder->process);
	maps = *names.maps ? fmemopen(names.maps, strlen(names.maps), "r") : NULL;
	if (maps) {
		dwfl_linux_proc_maps_report(unwinder->dwfl, maps);
		fclose(maps);
	}
	profile_free(&names);
}

static void report(struct unwinder *unwinder)
{
	dwfl_report_begin(unwinder->dwfl);
	if (unwinder->process->core)
		report_core(unwinder);
	else
		dwfl_linux_proc_report(unwinder->dwfl, unwinder->process->pid);
	dwfl_report_end(unwinder->dwfl, NULL, NULL);
	unwinder->reported = time(NULL);
}

static int note_frame(Dwfl_Frame *frame, void *arg)
{
	struct unwinder *unwinder = arg;
	Dwarf_Addr pc;
	bool is_interrupted;

	if (!dwfl_frame_pc(frame, &pc, &is_interrupted) || !pc)
		return DWARF_CB_ABORT;
	/* An address that a signal interrupted is that of the instruction, and not behind it. */
	unwinder->frames[unwinder->nr_frames++] = pc + is_interrupted;
	unwinder->is_lost = !dwfl_addrmodule(unwinder->dwfl, pc - !is_interrupted);
	return unwinder->nr_frames < unwinder->frames_max ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static bool walk(struct unwinder *unwinder)
{
	unwinder->nr_frames = 0;
	unwinder->is_lost = false;
	return !dwfl_getthread_frames(unwinder->dwfl, modules_of, note_frame, unwinder);
}

size_t unwind(struct unwinder *unwinder, const struct profile_trail *trail, uint64_t *frames,
	      size_t frames_max, bool *is_whole)
{
	unwinder->trail = trail;
	unwinder->frames = frames;
	unwinder->frames_max = frames_max;
	*is_whole = walk(unwinder);
	if (unwinder->is_lost && time(NULL) - unwinder->reported >= REPORT_SECONDS) {
		report(unwinder);
		*is_whole = walk(unwinder);
	}
	return unwinder->nr_frames;
}

struct unwinder *unwinder_open(const struct process *process)
{
	struct unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (!unwinder)
		return NULL;
	modules_of = process->pid > 0 ? process->pid : 1;
	core_of = process->core ? process : NULL;
	unwinder->process = process;
	unwinder->dwfl = dwfl_begin(process->core ? &of_core : &of_modules);
	if (unwinder->dwfl) {
		report(unwinder);
		if (dwfl_attach_state(unwinder->dwfl, NULL, modules_of, &of_threads, unwinder))
			return unwinder;
	}
	unwinder_close(unwinder);
	return NULL;
}

void unwinder_close(struct unwinder *unwinder)
{
	if (unwinder->dwfl)
		dwfl_end(unwinder->dwfl);
	free(unwinder);
}

#else

struct unwinder *unwinder_open(const struct process *process)
{
	(void)process;
	return NULL;
}

size_t unwind(struct unwinder *unwinder, const struct profile_trail *trail, uint64_t *frames,
	      size_t frames_max, bool *is_whole)
{
	(void)unwinder, (void)trail, (void)frames, (void)frames_max, (void)is_whole;
	return 0;
}

void unwinder_close(struct unwinder *unwinder)
{
	(void)unwinder;
}

#endif
