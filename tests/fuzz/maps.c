/* SPDX-License-Identifier: MIT */
/*
 * /proc/PID/maps and comm, whatever is in them: a process may map files with any name and call
 * itself anything.  The input is maps; its first line is the name.
 */
#include "readers.h"

#include <errno.h>

#include "../../tools/slub/process.h"
#include "../../tools/slub/profile.h"
#include "../../tools/slub/state.h"

static const char *name, *maps;
static size_t name_bytes, maps_bytes;

FILE *__real_input_kernel(const char *path);
FILE *__wrap_input_kernel(const char *path);
FILE *__wrap_input_kernel(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!strncmp(path, "/proc/1/", 8) && !strcmp(slash, "/maps"))
		return fmemopen((void *)maps, maps_bytes, "r");
	if (!strncmp(path, "/proc/1/", 8) && !strcmp(slash, "/comm"))
		return fmemopen((void *)name, name_bytes, "r");
	return __real_input_kernel(path);
}

/* Nothing can be read from it. */
int __wrap_process_read(const struct process *process, uint64_t address, void *to,
			size_t bytes);
int __wrap_process_read(const struct process *process, uint64_t address, void *to, size_t bytes)
{
	(void)process, (void)address, (void)to, (void)bytes;
	return -EFAULT;
}

static void look(const struct process *process)
{
	struct profile names = { 0 };
	struct state state;

	puts(process->name);
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];

		puts(mapping->path);
		expect(process_file(process, mapping->path) || mapping->offset);
	}
	state_find(&state, process);
	profile_mappings_of(&names, process);
	for (size_t i = 0; i < process->nr_mappings; i++)
		profile_mapping_at(&names, process, process->mappings[i].start);
	profile_free(&names);
}

static void open_process(void *unused)
{
	struct process process;

	(void)unused;
	if (process_open(&process, 1))
		return;
	look(&process);
	process_close(&process);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = memchr(data, '\n', size);

	/* An empty file cannot be had. */
	if (!line || line + 1 == data + size)
		return -1;
	name = (const char *)data;
	name_bytes = (size_t)(line + 1 - data);
	maps = (const char *)line + 1;
	maps_bytes = size - name_bytes;
	reader_call(open_process, NULL);
	return 0;
}
