/* SPDX-License-Identifier: MIT */
/* Where a snapshot comes from. */
#include "source.h"
#include "core.h"
#include "guard.h"
#include "host.h"
#include "input.h"
#include "slub.h"
#include "stats_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PID_MAX (1 << 22)	/* the kernel's PID_MAX_LIMIT */

/*
 * Says what is wrong with the target, and which exit status that is.  @version: of a
 * statistics file.
 */
static int refuse(const struct source *source, int error, uint32_t version)
{
	const char *command = source->command, *label = source->label;
	bool is_process = source->kind == SOURCE_PROCESS;

	switch (-error) {
	case ESRCH:
	case ENOENT:
		complain("%s: no %s", command, label);
		return STATUS_NO_TARGET;
	case EACCES:
	case EPERM:
		complain("%s: no permission to read %s%s", command, label,
			 is_process ? "; its user may (unless kernel.yama."
				      "ptrace_scope forbids it), and root" : "");
		return STATUS_NO_PERMISSION;
	case EPROTO:
		if (source->kind == SOURCE_STATS && version)
			complain_version_of(command, label, "", "its statistics",
					    version, SLUB_STATS_VERSION);
		else
			complain_version(command, label, &source->state.abi);
		break;
	case ENOEXEC:
		complain("%s: '%s' is neither a core file of this machine nor a "
			 "statistics file of libslub", command, source->target);
		break;
	case ENODATA:
		complain("%s: %s is cut short", command, label);
		break;
	case EBADMSG:
	case EFAULT:
		complain("%s: %s: what it says of its heap makes no sense",
			 command, label);
		break;
	default:
		complain("%s: cannot read %s: %s", command, label,
			 strerror(-error));
	}
	return STATUS_UNREADABLE;
}

#define NAMED_MAX 5	/* that are told */
#define COMM_MAX 15	/* of a process's name, for the kernel */

static bool is_called(pid_t pid, const char *name)
{
	char path[64], comm[COMM_MAX + 2] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = input_kernel(path);
	if (!file)
		return false;
	if (!fgets(comm, sizeof(comm), file))
		*comm = '\0';
	fclose(file);
	comm[strcspn(comm, "\n")] = '\0';
	return *comm && !strncmp(comm, name, COMM_MAX);
}

/* There is no file of that name, but there may be processes. */
static int refuse_name(const struct source *source)
{
	char list[NAMED_MAX * 16] = "";
	size_t nr, nr_named = 0;
	pid_t *pids = host_processes(&nr);

	for (size_t i = 0; i < nr; i++) {
		size_t at = strlen(list);

		if (is_called(pids[i], source->target) && nr_named++ < NAMED_MAX)
			snprintf(list + at, sizeof(list) - at, "%s%d", at ? ", " : "",
				 (int)pids[i]);
	}
	free(pids);
	if (!nr_named)
		return refuse(source, -ENOENT, 0);
	complain("%s: no %s; %s of that name: %s%s", source->command, source->label,
		 nr_named == 1 ? "process" : "processes", list,
		 nr_named > NAMED_MAX ? ", ..." : "");
	return STATUS_NO_TARGET;
}

static int refuse_absent(const struct source *source)
{
	switch (source->state.presence) {
	case PRESENCE_ABSENT:
		complain("%s: %s does not use libslub", source->command,
			 source->label);
		break;
	case PRESENCE_NOT_STARTED:
		complain("%s: %s has libslub mapped, but not started",
			 source->command, source->label);
		break;
	case PRESENCE_SHADOWED:
	case PRESENCE_IN_USE:
		return 0;
	}
	return STATUS_NO;
}

static int find_state(struct source *source)
{
	int error = state_find(&source->state, &source->process), status;

	status = error ? refuse(source, error, 0) :
			 refuse_absent(source);
	if (status)
		process_close(&source->process);
	return status;
}

static int open_process(struct source *source)
{
	long pid = strlen(source->target) <= 7 ? atol(source->target) : 0;
	int error;

	source->kind = SOURCE_PROCESS;
	if (pid < 1 || pid > PID_MAX) {
		complain("%s: '%s' is not a PID; PIDs are numbers from 1 to %d",
			 source->command, source->target, PID_MAX);
		return STATUS_USAGE;
	}
	snprintf(source->label, sizeof(source->label), "process %ld", pid);
	error = process_open(&source->process, (pid_t)pid);
	return error ? refuse(source, error, 0) : find_state(source);
}

/* -errno, or whether the file at @path is an ELF file. */
static int is_elf(const char *path)
{
	int fd = input_open(path, INPUT_FILE);
	char magic[SELFMAG];
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, magic, sizeof(magic));
	close(fd);
	return n == SELFMAG && !memcmp(magic, ELFMAG, SELFMAG);
}

static int open_file(struct source *source)
{
	int elf = is_elf(source->target), error;

	source->kind = elf > 0 ? SOURCE_CORE : SOURCE_STATS;
	snprintf(source->label, sizeof(source->label), "%s '%.40s'",
		 elf > 0 ? "core file" : "file", source->target);
	if (elf == -ENOENT && !strchr(source->target, '/'))
		return refuse_name(source);
	if (elf < 0)
		return refuse(source, elf, 0);
	if (!elf)
		return 0;
	error = core_open(&source->process, source->target);
	return error ? refuse(source, error, 0) : find_state(source);
}

int source_open(struct source *source, const char *command,
		const char *target)
{
	*source = (struct source){ .command = command, .target = target };
	return is_pid(target) ? open_process(source) : open_file(source);
}

/* A library without a guard, or with one that is not known, has none to count. */
static void count_guarded(const struct source *source,
			  struct snapshot *snapshot)
{
	struct guard guard;

	if (!guard_read(&guard, source))
		guard_count_live(&guard, snapshot);
	guard_free(&guard);
}

int source_try(struct source *source, pid_t pid)
{
	int error;

	*source = (struct source){ .kind = SOURCE_PROCESS };
	snprintf(source->label, sizeof(source->label), "process %ld", (long)pid);
	error = process_open(&source->process, pid);
	if (error)
		return error;
	error = state_find(&source->state, &source->process);
	if (!error && (source->state.presence == PRESENCE_ABSENT ||
		       source->state.presence == PRESENCE_NOT_STARTED))
		error = -ENOENT;
	if (error)
		process_close(&source->process);
	return error;
}

int source_look(struct source *source, struct snapshot *snapshot, uint32_t *version)
{
	int error;

	*version = 0;
	*snapshot = (struct snapshot){ .pid = 0 };
	if (source->kind == SOURCE_STATS)
		return stats_file_read(snapshot, source->target, version);
	error = state_refresh(&source->state, &source->process);
	*version = source->state.abi.version;
	if (!error)
		error = snapshot_of_process(snapshot, &source->process, &source->state.abi);
	if (!error)
		count_guarded(source, snapshot);
	return error;
}

int source_snapshot(struct source *source, struct snapshot *snapshot)
{
	uint32_t version;
	int error = source_look(source, snapshot, &version);

	if (error)
		return refuse(source, error, version);
	snprintf(snapshot->target, sizeof(snapshot->target), "%s",
		 source->label);
	return 0;
}

void source_close(struct source *source)
{
	if (source->kind != SOURCE_STATS)
		process_close(&source->process);
}
