/* SPDX-License-Identifier: MIT */
/* A thread of another process as /proc shows it. */
#include "wake_thread.h"
#include "input.h"
#include "slub.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define READINGS 3

static FILE *open_file(pid_t process, pid_t id, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)process, (int)id, name);
	return input_kernel(path);
}

/* "PID (NAME) STATE ... CPU", where a name may have all of these in it. */
static bool read_stat(struct wake_thread *thread)
{
	FILE *file = open_file(thread->process, thread->id, "stat");
	char text[1024], *open, *shut;
	size_t length;

	if (!file)
		return false;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	open = strchr(text, '(');
	shut = strrchr(text, ')');
	if (!open || !shut || sscanf(shut, ") %c", &thread->state) != 1)
		return false;
	snprintf(thread->name, sizeof(thread->name), "%.*s", (int)(shut - open - 1), open + 1);
	clean_string(thread->name);
	thread->cpu = -1;
	/* Field 39; the state is the third. */
	for (int field = 3; field < 39 && shut; field++)
		shut = strchr(shut + 2, ' ');
	if (shut)
		thread->cpu = atoi(shut);
	return true;
}

static bool read_status(struct wake_thread *thread)
{
	FILE *file = open_file(thread->process, thread->id, "status");
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "TracerPid: %d", &thread->tracer);
		sscanf(line, "SigBlk: %" SCNx64, &thread->blocked);
		sscanf(line, "SigIgn: %" SCNx64, &thread->ignored);
		sscanf(line, "SigCgt: %" SCNx64, &thread->handled);
		sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &thread->switches);
		if (!strncmp(line, "x86_Thread_features:", 20) && strstr(line, "shstk"))
			thread->has_shadow_stack = true;
	}
	fclose(file);
	return true;
}

/* "NUMBER ARGUMENT... SP PC", or a word. */
static bool read_call(struct wake_thread *thread)
{
	FILE *file = open_file(thread->process, thread->id, "syscall");
	uint64_t *arguments = thread->arguments;
	int nr;

	if (!file)
		return false;
	nr = fscanf(file, "%" SCNu64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		    " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &thread->call,
		    &arguments[0], &arguments[1], &arguments[2], &arguments[3], &arguments[4],
		    &arguments[5], &thread->sp, &thread->pc);
	fclose(file);
	thread->is_in_call = nr == 9;
	return true;
}

bool wake_thread_read(struct wake_thread *thread, pid_t process, pid_t id)
{
	*thread = (struct wake_thread){ .process = process, .id = id };
	return read_stat(thread) && read_status(thread) && read_call(thread);
}

uint64_t wake_thread_switches(const struct wake_thread *thread)
{
	struct wake_thread now = { .process = thread->process, .id = thread->id };

	return read_status(&now) ? now.switches : 0;
}

bool wake_thread_next(DIR *folder, pid_t *id)
{
	struct dirent *entry;

	while ((entry = readdir(folder)) != NULL) {
		*id = atoi(entry->d_name);
		if (*id > 0)
			return true;
	}
	return false;
}

/* ---- since when it waits ---- */

/* When it was last seen to run, in ms by the clock of its CPU; 0: the kernel does not say. */
static double ran_at(pid_t process, pid_t id)
{
	FILE *file = open_file(process, id, "sched");
	char line[128];
	double at = 0;

	if (!file)
		return 0;
	while (!at && fgets(line, sizeof(line), file))
		sscanf(line, "se.exec_start : %lf", &at);
	fclose(file);
	return at;
}

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/*
 * The moment that was @then by the clock of this CPU, at the latest: what is read of this thread
 * is from before the other clock is read.  The least of some readings, for this thread may have
 * to wait between the two.
 */
static double moment_of(double then)
{
	pid_t self = (pid_t)syscall(SYS_gettid);
	double moment = 0;

	for (int i = 0; i < READINGS; i++) {
		double now, at;

		sched_yield();
		now = ran_at(getpid(), self);
		at = now_seconds() - (now - then) / 1000;
		if (now > then && (!moment || at < moment))
			moment = at;
	}
	return moment;
}

/* Has it stayed on its CPU?  Else the time was that of another one's clock. */
static bool is_on_its_cpu(const struct wake_thread *thread)
{
	struct wake_thread now = { .process = thread->process, .id = thread->id };

	return read_stat(&now) && now.cpu == thread->cpu;
}

double wake_thread_since(const struct wake_thread *thread)
{
	double then = ran_at(thread->process, thread->id), since;
	cpu_set_t before, only;

	if (!then || thread->cpu < 0 || thread->cpu >= CPU_SETSIZE || !is_on_its_cpu(thread) ||
	    sched_getaffinity(0, sizeof(before), &before))
		return 0;
	CPU_ZERO(&only);
	CPU_SET(thread->cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		return 0;
	since = moment_of(then);
	sched_setaffinity(0, sizeof(before), &before);
	return since;
}
