/* SPDX-License-Identifier: MIT */
/* slub doctor: what the system allows a process. */
#include "doctor.h"
#include "input.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TEXT_SIZE 4096
/* The kernel takes 6 MiB of arguments and variables. */
#define ENVIRONMENT_MAX	    (8u << 20)
#define ENVIRONMENT_SECONDS 5.0

/* The first line of a small file; false: there is none. */
static bool read_line(const char *path, char *line, size_t size)
{
	FILE *file = input_kernel(path);
	bool done = file && fgets(line, (int)size, file);

	if (done)
		line[strcspn(line, "\n")] = '\0';
	if (file)
		fclose(file);
	return done;
}

/*
 * What stands behind "NAME" in /proc/PID/FILE; false: it is not there, or, with
 * errno set, the file cannot be opened.
 */
static bool proc_field(int pid, const char *name, const char *field,
		       char *value, size_t size)
{
	char path[64], line[512];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	errno = 0;
	file = input_kernel(path);
	while (file && !found && fgets(line, sizeof(line), file)) {
		found = !strncmp(line, field, strlen(field));
		if (found)
			snprintf(value, size, "%s",
				 line + strlen(field) +
				 strspn(line + strlen(field), ": \t"));
	}
	if (file)
		fclose(file);
	value[strcspn(value, "\n")] = '\0';
	return found;
}

static void say_filters(struct doctor *doctor, int pid)
{
	char nr[32] = "some";

	/* Older kernels do not count them. */
	proc_field(pid, "status", "Seccomp_filters:", nr, sizeof(nr));
	find(doctor, FINDING_NOTE, "seccomp", "filters in force: %s; the library's start asks for "
	     "no more than the C library's, NUMA nodes are not bound, and the lists of other CPUs "
	     "are emptied only if membarrier is let through", nr);
}

static void examine_seccomp(struct doctor *doctor, int pid)
{
	char mode[32] = "";

	if (!proc_field(pid, "status", "Seccomp:", mode, sizeof(mode)) && errno)
		find(doctor, FINDING_NOTE, "seccomp", "unknown: "
		     "/proc/%d/status: %s", pid, strerror(errno));
	else if (!mode[0] || !strcmp(mode, "0"))
		find(doctor, FINDING_OK, "seccomp", "no filter");
	else if (!strcmp(mode, "1"))
		find(doctor, FINDING_NOTE, "seccomp", "strict mode: no call but read and write");
	else
		say_filters(doctor, pid);
}

static void examine_limit(struct doctor *doctor, int pid, const char *name,
			  const char *field)
{
	char value[128] = "";

	if (!proc_field(pid, "limits", field, value, sizeof(value)))
		return;
	value[strcspn(value, " ")] = '\0';
	if (!strcmp(value, "unlimited"))
		find(doctor, FINDING_OK, name, "unlimited");
	else
		find(doctor, FINDING_NOTE, name, "%s bytes; the heap leaves "
		     "some of it to the rest of the program", value);
}

static void examine_vm(struct doctor *doctor)
{
	char value[64];

	if (read_line("/proc/sys/vm/overcommit_memory", value, sizeof(value)))
		find(doctor, strcmp(value, "2") ? FINDING_OK : FINDING_NOTE,
		     "overcommit", "vm.overcommit_memory is %s%s", value,
		     strcmp(value, "2") ? "" : ": what is committed counts "
		     "in full, though it is not touched");
	if (read_line("/proc/sys/vm/max_map_count", value, sizeof(value)))
		find(doctor, atol(value) < 1000 ? FINDING_NOTE : FINDING_OK,
		     "mappings", "vm.max_map_count is %s", value);
	if (read_line("/sys/kernel/mm/transparent_hugepage/enabled", value,
		      sizeof(value)))
		find(doctor, FINDING_OK, "huge pages", "%s", value);
}

/* Was the process started with rseq switched off? */
static bool has_no_rseq(int pid)
{
	static const char name[] = "GLIBC_TUNABLES=", more[] = "glibc.";
	struct input_lines input;
	bool found = false, is_list = false;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	/* It may say that all of its memory is its environment. */
	if (input_lines_open(&input, path, INPUT_FILE, ENVIRONMENT_MAX, ENVIRONMENT_SECONDS))
		return false;
	/* glibc's loader may end each word of the list by a NUL, in place. */
	while (!found && input_line(&input, '\0') >= 0) {
		is_list = !strncmp(input.line, name, strlen(name)) ||
			  (is_list && !strncmp(input.line, more, strlen(more)));
		found = is_list && strstr(input.line, "glibc.pthread.rseq=0");
	}
	input_lines_close(&input);
	return found;
}

static void examine_rseq(struct doctor *doctor, int pid)
{
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	struct utsname system;
	int major = 0, minor = 0;

	uname(&system);
	sscanf(system.release, "%d.%d", &major, &minor);
	if (has_no_rseq(pid))
		find(doctor, FINDING_NOTE, "rseq", "GLIBC_TUNABLES switches it "
		     "off: the lists will be the threads'");
	else if (major < 4 || (major == 4 && minor < 18))
		find(doctor, FINDING_NOTE, "rseq", "Linux %s has none: the "
		     "lists will be the threads'", system.release);
	else if (doctor->registers == REGISTERS_NONE)
		find(doctor, FINDING_NOTE, "rseq", "the C library registers no "
		     "threads for it (glibc does from 2.35 on): libslub does, "
		     "and where it may not the lists are the threads'");
	else
		find(doctor, FINDING_OK, "rseq", "Linux %s%s", system.release,
		     major > 6 || (major == 6 && minor >= 3) ?
		     ", numbers of running threads (mm_cid)" :
		     ", numbers of CPUs");
	if (commands >= 0 &&
	    commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
		find(doctor, FINDING_OK, "membarrier",
		     "another CPU's lists can be emptied");
	else
		find(doctor, FINDING_NOTE, "membarrier", "not for rseq: what "
		     "lies in an idle CPU's lists stays there");
}

/* The process's group in the unified hierarchy; "" if there is none. */
static void cgroup_path(int pid, char *path, size_t size)
{
	char line[TEXT_SIZE] = "";

	path[0] = '\0';
	if (proc_field(pid, "cgroup", "0:", line, sizeof(line)) && line[0])
		snprintf(path, size, "/sys/fs/cgroup%s",
			 line + strspn(line, ":"));
}

static bool cgroup_line(const char *group, const char *name, char *line,
			size_t size)
{
	char path[TEXT_SIZE + 64];

	snprintf(path, sizeof(path), "%s/%s", group, name);
	return read_line(path, line, size);
}

static void examine_cgroup(struct doctor *doctor, int pid)
{
	static const char *const names[] = { "memory.max", "memory.high",
					     "cpu.max", "cpuset.cpus.effective" };
	char group[TEXT_SIZE], line[256];
	bool any = false;

	cgroup_path(pid, group, sizeof(group));
	for (size_t i = 0; group[0] && i < 4; i++) {
		if (!cgroup_line(group, names[i], line, sizeof(line)))
			continue;
		find(doctor, FINDING_OK, "cgroup", "%s is %s", names[i], line);
		any = true;
	}
	if (!any)
		find(doctor, FINDING_OK, "cgroup", "no limit of version 2; those of version 1 "
		     "only the library reads");
}

static void examine_preloads(struct doctor *doctor)
{
	const char *list = getenv("LD_PRELOAD");

	if (list && *list)
		find(doctor, FINDING_NOTE, "LD_PRELOAD", "is set already: %s",
		     list);
	if (!access("/etc/ld.so.preload", R_OK))
		find(doctor, FINDING_NOTE, "ld.so.preload", "the system "
		     "preloads libraries into every program");
}

static void examine_cpus(struct doctor *doctor, int pid)
{
	char list[256];

	if (proc_field(pid, "status", "Cpus_allowed_list", list,
		       sizeof(list)))
		find(doctor, FINDING_OK, "CPUs", "%s allowed of %ld", list,
		     sysconf(_SC_NPROCESSORS_CONF));
}

void doctor_examine_system(struct doctor *doctor, int pid)
{
	examine_rseq(doctor, pid);
	examine_seccomp(doctor, pid);
	examine_limit(doctor, pid, "address space", "Max address space");
	examine_limit(doctor, pid, "data", "Max data size");
	examine_vm(doctor);
	examine_cpus(doctor, pid);
	examine_cgroup(doctor, pid);
	if (pid == getpid())
		examine_preloads(doctor);
}
