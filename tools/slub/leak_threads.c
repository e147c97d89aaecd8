/* SPDX-License-Identifier: MIT */
/*
 * What threads have in registers, and where their stacks end.
 *
 * A core has it in its notes.  Of a living process the kernel tells of a thread that waits in a
 * system call its arguments and its stack pointer.  A tracer that
 * has stopped the thread reads all registers (ptrace(2)).
 */
#include "core.h"
#include "input.h"
#include "leak.h"
#include "slub.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGISTER_BYTES_MAX 16384
#define SYSCALL_ARGUMENTS 6
#define ROUNDS_MAX 20

/* Where in the general registers the stack pointer is. */
#if defined(__x86_64__)
#define SP_WORD 19
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define SP_WORD 31
#define MACHINE EM_AARCH64
#elif defined(__riscv)
#define SP_WORD 2
#define MACHINE EM_RISCV
#else
#define SP_WORD 0
#define MACHINE EM_NONE
#endif

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void add_words(uint64_t **words, size_t *nr, const void *from, size_t count)
{
	*words = must_have(reallocarray(*words, *nr + count + 1, sizeof(**words)));
	memcpy(*words + *nr, from, count * sizeof(**words));
	*nr += count;
}

static void add_registers(struct leak_roots *roots, const void *from, size_t bytes)
{
	add_words(&roots->words, &roots->nr_words, from, bytes / sizeof(uint64_t));
}

static void add_stack(struct leak_roots *roots, uint64_t sp)
{
	if (sp)
		add_words(&roots->stacks, &roots->nr_stacks, &sp, 1);
}

/* General registers: all of them, and the stack pointer. */
static void add_general(struct leak_roots *roots, const void *from, size_t bytes)
{
	uint64_t sp = 0;

	if (SP_WORD && bytes >= (SP_WORD + 1) * sizeof(sp))
		memcpy(&sp, (const char *)from + SP_WORD * sizeof(sp), sizeof(sp));
	add_registers(roots, from, bytes);
	add_stack(roots, sp);
}

/* ---- a core ---- */

static void read_notes(struct leak_roots *roots, const struct core *core)
{
	size_t head = offsetof(struct elf_prstatus, pr_reg);

	for (size_t i = 0; i < core->nr_notes; i++) {
		const struct core_note *note = &core->notes[i];

		if (note->type != NT_PRSTATUS) {
			add_registers(roots, note->bytes, note->nr_bytes);
			continue;
		}
		roots->nr_threads++;
		if (note->nr_bytes > head)
			add_general(roots, note->bytes + head, note->nr_bytes - head);
	}
}

bool leak_is_foreign(const struct process *process)
{
	return MACHINE && process->core && elf_file_machine(&process->core->file) != MACHINE;
}

/* ---- a living process ---- */

/* Threads of the process; the caller's to free. */
static pid_t *list_threads(pid_t pid, size_t *nr)
{
	char path[64];
	struct dirent *entry;
	pid_t *threads = NULL;
	DIR *folder;

	*nr = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	if (!folder)
		return NULL;
	while ((entry = readdir(folder))) {
		pid_t thread = atoi(entry->d_name);

		if (thread <= 0)
			continue;
		if (!(*nr & (*nr - 1)))
			threads = must_have(reallocarray(threads, *nr ? 2 * *nr : 1,
							 sizeof(*threads)));
		threads[(*nr)++] = thread;
	}
	closedir(folder);
	return threads;
}

/* "NUMBER, six arguments, stack pointer, PC", "-1 SP PC", or "running". */
static void read_syscall(struct leak_roots *roots, pid_t pid, pid_t thread)
{
	uint64_t words[SYSCALL_ARGUMENTS + 2];
	char path[64], line[512] = "";
	int number, nr = 0, at = 0;
	FILE *file;

	roots->nr_threads++;
	roots->nr_blind++;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)thread);
	file = input_kernel(path);
	if (!file)
		return;
	if (!fgets(line, sizeof(line), file) || sscanf(line, "%d%n", &number, &at) < 1)
		at = 0;
	fclose(file);
	while (at && nr < SYSCALL_ARGUMENTS + 2) {
		int more = 0;

		if (sscanf(line + at, "%" SCNx64 "%n", &words[nr], &more) < 1)
			break;
		at += more;
		nr++;
	}
	if (nr < 2)
		return;
	add_registers(roots, words, (size_t)(nr - 2) * sizeof(words[0]));
	add_stack(roots, words[nr - 2]);
}

static void read_held(struct leak_roots *roots, pid_t thread)
{
	static const int kinds[] = { NT_PRSTATUS, NT_FPREGSET, NT_X86_XSTATE };
	static char registers[REGISTER_BYTES_MAX];

	roots->nr_threads++;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct iovec vector = { registers, sizeof(registers) };

		if (ptrace(PTRACE_GETREGSET, thread, (void *)(uintptr_t)kinds[i], &vector)) {
			roots->nr_blind += kinds[i] == NT_PRSTATUS;
			continue;
		}
		if (kinds[i] == NT_PRSTATUS)
			add_general(roots, registers, vector.iov_len);
		else
			add_registers(roots, registers, vector.iov_len);
	}
}

void leak_threads_read(struct leaks *leaks, const struct leak_stop *stop)
{
	struct leak_roots *roots = &leaks->roots;
	pid_t *threads;
	size_t nr;

	if (leaks->process->core) {
		read_notes(roots, leaks->process->core);
		return;
	}
	for (size_t i = 0; stop && i < stop->nr; i++)
		read_held(roots, stop->threads[i]);
	if (stop)
		return;
	threads = list_threads(leaks->process->pid, &nr);
	for (size_t i = 0; i < nr; i++)
		read_syscall(roots, leaks->process->pid, threads[i]);
	free(threads);
}

/* ---- holding threads ---- */

static bool is_held(const struct leak_stop *stop, pid_t thread)
{
	for (size_t i = 0; i < stop->nr; i++) {
		if (stop->threads[i] == thread)
			return true;
	}
	return false;
}

/* Waits until @thread stands; false: it ended.  *@owed: a signal that it was about to get. */
static bool wait_stopped(pid_t thread, int *owed)
{
	int status;

	*owed = 0;
	while (waitpid(thread, &status, __WALL) < 0) {
		if (errno != EINTR)
			return false;
	}
	if (!WIFSTOPPED(status))
		return false;
	if (status >> 16 != PTRACE_EVENT_STOP)
		*owed = WSTOPSIG(status);
	return true;
}

/* 1: it is held, 0: it has ended, or -errno. */
static int hold(struct leak_stop *stop, pid_t thread)
{
	int owed;

	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL))
		return errno == ESRCH ? 0 : -errno;
	if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) || !wait_stopped(thread, &owed))
		return 0;
	stop->threads = must_have(reallocarray(stop->threads, stop->nr + 1,
					       sizeof(*stop->threads)));
	stop->signals = must_have(reallocarray(stop->signals, stop->nr + 1,
					       sizeof(*stop->signals)));
	stop->threads[stop->nr] = thread;
	stop->signals[stop->nr++] = owed;
	return 1;
}

/* The threads that are there now and not held yet; how many, or -errno. */
static int hold_round(struct leak_stop *stop, pid_t pid)
{
	size_t nr;
	pid_t *threads = list_threads(pid, &nr);
	int held = 0, error = 0;

	for (size_t i = 0; i < nr && error >= 0; i++) {
		if (is_held(stop, threads[i]))
			continue;
		error = hold(stop, threads[i]);
		held += error > 0;
	}
	free(threads);
	return error < 0 ? error : held;
}

/* The tracer of the process, 0: none. */
static int tracer_of(pid_t pid)
{
	char path[64], line[256];
	int tracer = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = input_kernel(path);
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	}
	if (file)
		fclose(file);
	return tracer;
}

static int refuse(const struct leaks *leaks, int error)
{
	int tracer = tracer_of(leaks->process->pid);

	if (tracer)
		complain("leaks: %s is traced already, by process %d: it cannot be stopped "
			 "by another; without --stop it is read as it runs",
			 leaks->source->label, tracer);
	else if (error == -EPERM)
		complain("leaks: no permission to stop %s; its user may (unless kernel.yama."
			 "ptrace_scope forbids it), and root; without --stop it is read as it runs",
			 leaks->source->label);
	else
		complain("leaks: cannot stop %s: %s", leaks->source->label, strerror(-error));
	return error == -EPERM && !tracer ? STATUS_NO_PERMISSION : STATUS_FAILED;
}

int leak_stop(struct leaks *leaks, struct leak_stop *stop)
{
	int held = 1;

	*stop = (struct leak_stop){ .began_ns = now_ns() };
	/* A thread that is held makes no others. */
	for (int round = 0; held > 0 && round < ROUNDS_MAX; round++)
		held = hold_round(stop, leaks->process->pid);
	if (held >= 0 && stop->nr)
		return 0;
	leak_go_on(leaks, stop);
	leaks->stopped_ns = 0;
	if (held >= 0) {
		complain("leaks: no %s", leaks->source->label);
		return STATUS_NO_TARGET;
	}
	return refuse(leaks, held);
}

void leak_go_on(struct leaks *leaks, struct leak_stop *stop)
{
	for (size_t i = 0; i < stop->nr; i++)
		ptrace(PTRACE_DETACH, stop->threads[i], NULL,
		       (void *)(uintptr_t)stop->signals[i]);
	free(stop->threads);
	free(stop->signals);
	stop->threads = NULL;
	stop->signals = NULL;
	stop->nr = 0;
	leaks->stopped_ns = now_ns() - stop->began_ns;
}
