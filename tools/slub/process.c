/* SPDX-License-Identifier: MIT */
/* Another process: its name, its mappings, its memory. */
#include "process.h"
#include "core.h"
#include "input.h"
#include "slub.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define DELETED " (deleted)"

static void proc_path(char *path, size_t size, pid_t pid, const char *name)
{
	snprintf(path, size, "/proc/%d/%s", (int)pid, name);
}

/* The kernel's words for "it is gone" and "you may not". */
static int translate(int error)
{
	if (error == ENOENT)
		return -ESRCH;
	if (error == EPERM)
		return -EACCES;
	return -error;
}

bool process_strip_deleted(char *path)
{
	size_t length = strlen(path), suffix = strlen(DELETED);

	if (length < suffix || strcmp(path + length - suffix, DELETED))
		return false;
	path[length - suffix] = '\0';
	return true;
}

/* "start-end perms offset dev inode   path" */
static bool parse_mapping(char *line, struct mapping *mapping)
{
	char permissions[5];
	int path_at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n",
		   &mapping->start, &mapping->end, permissions,
		   &mapping->offset, &path_at) < 4 || !path_at)
		return false;
	mapping->readable = permissions[0] == 'r';
	mapping->writable = permissions[1] == 'w';
	mapping->executable = permissions[2] == 'x';
	mapping->path = must_have(strdup(clean_string(line + path_at)));
	mapping->deleted = process_strip_deleted(mapping->path);
	return true;
}

void process_add_mapping(struct process *process, const struct mapping *mapping)
{
	size_t nr = process->nr_mappings;

	/* Doubled whenever the number is a power of two. */
	if (!(nr & (nr - 1)))
		process->mappings = must_have(reallocarray(process->mappings, nr ? 2 * nr : 1,
							   sizeof(*mapping)));
	process->mappings[process->nr_mappings++] = *mapping;
}

static int read_mappings(struct process *process)
{
	char path[64], *line = NULL;
	struct mapping mapping;
	size_t size = 0;
	int error = 0;
	FILE *file;

	proc_path(path, sizeof(path), process->pid, "maps");
	file = input_kernel(path);
	if (!file)
		return translate(errno);
	errno = 0;
	while (getline(&line, &size, file) > 0) {
		if (parse_mapping(line, &mapping))
			process_add_mapping(process, &mapping);
	}
	if (!feof(file))
		error = translate(errno);
	free(line);
	fclose(file);
	return error;
}

static int read_name(struct process *process)
{
	char path[64];
	size_t length;
	FILE *file;

	proc_path(path, sizeof(path), process->pid, "comm");
	file = input_kernel(path);
	if (!file)
		return translate(errno);
	/* A name may have a line's end in it, besides the last one. */
	length = fread(process->name, 1, sizeof(process->name) - 1, file);
	process->name[length ? length - (process->name[length - 1] == '\n') : 0] = '\0';
	clean_string(process->name);
	fclose(file);
	return 0;
}

static void read_program(struct process *process)
{
	char path[64], target[PATH_MAX];
	ssize_t length;

	proc_path(path, sizeof(path), process->pid, "exe");
	length = readlink(path, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = '\0';
	process_strip_deleted(target);
	process->program = must_have(strdup(clean_string(target)));
}

int process_open(struct process *process, pid_t pid)
{
	int error;

	*process = (struct process){ .pid = pid };
	error = read_name(process);
	if (!error)
		error = read_mappings(process);
	if (!error)
		read_program(process);
	if (error)
		process_close(process);
	return error;
}

void process_close(struct process *process)
{
	for (size_t i = 0; i < process->nr_mappings; i++)
		free(process->mappings[i].path);
	free(process->mappings);
	free(process->program);
	if (process->core)
		core_free(process->core);
	*process = (struct process){ 0 };
}

int process_read(const struct process *process, uint64_t address, void *to,
		 size_t bytes)
{
	struct iovec here = { to, bytes };
	struct iovec there = { (void *)(uintptr_t)address, bytes };
	ssize_t done;

	if (process->core)
		return core_read(process->core, address, to, bytes);
	done = process_vm_readv(process->pid, &here, 1, &there, 1, 0);
	if (done < 0)
		return translate(errno);
	return (size_t)done == bytes ? 0 : -EFAULT;
}

const struct mapping *process_file(const struct process *process,
				   const char *path)
{
	for (size_t i = 0; i < process->nr_mappings; i++) {
		const struct mapping *mapping = &process->mappings[i];

		if (!mapping->offset && !strcmp(mapping->path, path))
			return mapping;
	}
	return NULL;
}

int process_open_program(const struct process *process)
{
	char path[64];
	int fd;

	if (process->core)
		return -ENOENT;
	proc_path(path, sizeof(path), process->pid, "exe");
	fd = input_open(path, INPUT_FILE);
	return fd < 0 ? translate(-fd) : fd;
}
