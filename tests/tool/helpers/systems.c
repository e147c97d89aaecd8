/* SPDX-License-Identifier: MIT */
/*
 * doctor_system.c on systems of any kind: the kernel's files, its calls and its release are told
 * here.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "doctor.h"
#include "in_use.h"
#include "input.h"
#include "text.h"

#define OWN_PID	  77
#define OTHER_PID 78
#define NR_FILES  16

static struct file {
	const char *path, *text;
} files[NR_FILES];
static int file_error, nr_open, pid_asked;
static const char *environment;		/* its words end by '|'; NULL: it cannot be read */
static const char *release;
static long commands, nr_cpus;
static bool has_preload;

static char told[8192];

/* ---- the system ---- */

static ssize_t file_read(void *file, char *to, size_t bytes)
{
	const char **text = file;
	size_t length = strlen(*text), nr = length < bytes ? length : bytes;

	memcpy(to, *text, nr);
	*text += nr;
	return (ssize_t)nr;
}

static int file_close(void *file)
{
	free(file);
	nr_open--;
	return 0;
}

FILE *input_kernel(const char *path)
{
	const cookie_io_functions_t calls = { .read = file_read, .close = file_close };
	const char **text;

	for (int i = 0; i < NR_FILES && files[i].path; i++) {
		if (!strcmp(files[i].path, path)) {
			text = malloc(sizeof(*text));
			*text = files[i].text;
			nr_open++;
			return fopencookie(text, "r", calls);
		}
	}
	errno = file_error;
	return NULL;
}

int input_lines_open(struct input_lines *input, const char *path, enum input_kinds kinds,
		     uint64_t bytes, double seconds)
{
	EXPECT_TEXT(path, pid_asked == OWN_PID ? "/proc/77/environ" : "/proc/78/environ");
	EXPECT(kinds, INPUT_FILE);
	EXPECT(bytes, 8 << 20);
	EXPECT(seconds, 5);
	*input = (struct input_lines){ .line = (char *)environment, .size = 0 };
	nr_open += environment != NULL;
	return environment ? 0 : -EACCES;
}

ssize_t input_line(struct input_lines *input, char end)
{
	static char word[256];
	const char *at = environment + input->size;
	size_t length = strcspn(at, "|");

	EXPECT(end, 0);
	if (!*at)
		return -1;
	snprintf(word, sizeof(word), "%.*s", (int)length, at);
	input->line = word;
	input->size += length + 1;
	return (ssize_t)length;
}

void input_lines_close(struct input_lines *input)
{
	(void)input;
	nr_open--;
}

int uname(struct utsname *system)
{
	snprintf(system->release, sizeof(system->release), "%s", release);
	return 0;
}

long syscall(long number, ...)
{
	va_list args;

	EXPECT(number, SYS_membarrier);
	va_start(args, number);
	EXPECT(va_arg(args, int), MEMBARRIER_CMD_QUERY);
	EXPECT(va_arg(args, int), 0);
	va_end(args);
	return commands;
}

long sysconf(int name)
{
	return name == _SC_NPROCESSORS_CONF ? nr_cpus : -1;
}

int access(const char *path, int mode)
{
	EXPECT_TEXT(path, "/etc/ld.so.preload");
	EXPECT(mode, R_OK);
	return has_preload ? 0 : -1;
}

pid_t getpid(void)
{
	return OWN_PID;
}

void find(struct doctor *doctor, enum finding finding, const char *what, const char *format, ...)
{
	static const char letters[] = "+!-";
	size_t at = strlen(told);
	va_list args;

	(void)doctor;
	at += (size_t)snprintf(told + at, sizeof(told) - at, "%c%s: ", letters[finding], what);
	va_start(args, format);
	at += (size_t)vsnprintf(told + at, sizeof(told) - at, format, args);
	va_end(args);
	snprintf(told + at, sizeof(told) - at, "\n");
}

/* ---- the tests ---- */

static void begin(void)
{
	memset(files, 0, sizeof(files));
	file_error = ENOENT;
	environment = "";
	release = "6.3.0-x";
	commands = MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ;
	nr_cpus = 24;
	has_preload = false;
	unsetenv("LD_PRELOAD");
}

static void has_file(const char *path, const char *text)
{
	int i = 0;

	while (files[i].path && strcmp(files[i].path, path))
		i++;
	files[i] = (struct file){ path, text };
}

static const char *examine(int pid, enum registers registers)
{
	struct doctor doctor = { .registers = registers };

	told[0] = '\0';
	pid_asked = pid;
	doctor_examine_system(&doctor, pid);
	EXPECT(nr_open, 0);
	return told;
}

/* The first line of what is found about @what, and no other one of it. */
static const char *about(const char *what)
{
	static char line[1024];
	char *at = told, *end;

	line[0] = '\0';
	for (; *at; at = end + 1) {
		end = strchr(at, '\n');
		if (!strncmp(at + 1, what, strlen(what)) && at[1 + strlen(what)] == ':') {
			EXPECT_TEXT(line, "");
			snprintf(line, sizeof(line), "%.*s", (int)(end - at), at);
		}
	}
	return line;
}


static void test_whole(void)
{
	begin();
	examine(OTHER_PID, REGISTERS_UNKNOWN);
	EXPECT_TEXT(told,
		"+rseq: Linux 6.3.0-x, numbers of running threads (mm_cid)\n"
		"+membarrier: another CPU's lists can be emptied\n"
		"!seccomp: unknown: /proc/78/status: No such file or directory\n"
		"+cgroup: no limit of version 2; those of version 1 only the library reads\n");
	has_file("/proc/78/status", "Name:\tx\nSeccomp:\t0\nCpus_allowed_list:\t0-3\n");
	has_file("/proc/78/limits", "Limit                     Soft Limit\n"
		 "Max data size             unlimited            unlimited            bytes\n"
		 "Max address space         4096                 unlimited            bytes\n");
	has_file("/proc/78/cgroup", "1:cpu:/x\n0::/a/b\n");
	has_file("/sys/fs/cgroup/a/b/memory.max", "max\nsecond\n");
	has_file("/sys/fs/cgroup/a/b/memory.high", "1000");
	has_file("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
	has_file("/sys/fs/cgroup/a/b/cpuset.cpus.effective", "0-1\n");
	has_file("/proc/sys/vm/overcommit_memory", "0\n");
	has_file("/proc/sys/vm/max_map_count", "65530\n");
	has_file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(told,
		"+rseq: Linux 6.3.0-x, numbers of running threads (mm_cid)\n"
		"+membarrier: another CPU's lists can be emptied\n"
		"+seccomp: no filter\n"
		"!address space: 4096 bytes; the heap leaves some of it to the rest of the "
		"program\n"
		"+data: unlimited\n"
		"+overcommit: vm.overcommit_memory is 0\n"
		"+mappings: vm.max_map_count is 65530\n"
		"+huge pages: always [madvise] never\n"
		"+CPUs: 0-3 allowed of 24\n"
		"+cgroup: memory.max is max\n"
		"+cgroup: memory.high is 1000\n"
		"+cgroup: cpu.max is 200000 100000\n"
		"+cgroup: cpuset.cpus.effective is 0-1\n");
}

static void test_rseq(void)
{
	static const struct {
		const char *release;
		enum registers registers;
		const char *expected;
	} cases[] = {
		{ "4.17.9", REGISTERS_THREADS,
		  "!rseq: Linux 4.17.9 has none: the lists will be the threads'" },
		{ "3.99", REGISTERS_NONE,
		  "!rseq: Linux 3.99 has none: the lists will be the threads'" },
		{ "4.18", REGISTERS_THREADS, "+rseq: Linux 4.18, numbers of CPUs" },
		{ "5.3", REGISTERS_UNKNOWN, "+rseq: Linux 5.3, numbers of CPUs" },
		{ "5.17", REGISTERS_UNKNOWN, "+rseq: Linux 5.17, numbers of CPUs" },
		{ "6.2.99", REGISTERS_UNKNOWN, "+rseq: Linux 6.2.99, numbers of CPUs" },
		{ "6.3", REGISTERS_UNKNOWN,
		  "+rseq: Linux 6.3, numbers of running threads (mm_cid)" },
		{ "7.0", REGISTERS_UNKNOWN,
		  "+rseq: Linux 7.0, numbers of running threads (mm_cid)" },
		{ "none", REGISTERS_UNKNOWN,
		  "!rseq: Linux none has none: the lists will be the threads'" },
		{ "6.3", REGISTERS_NONE,
		  "!rseq: the C library registers no threads for it (glibc does from 2.35 on): "
		  "libslub does, and where it may not the lists are the threads'" },
	};

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		release = cases[i].release;
		examine(OTHER_PID, cases[i].registers);
		EXPECT_TEXT(about("rseq"), cases[i].expected);
	}
}

/* The loader may have ended each word of the variable in place. */
static void test_tunables(void)
{
	static const char off[] =
		"!rseq: GLIBC_TUNABLES switches it off: the lists will be the threads'",
		on[] = "+rseq: Linux 6.3.0-x, numbers of running threads (mm_cid)";
	static const struct {
		const char *environment, *expected;
	} cases[] = {
		{ "GLIBC_TUNABLES=glibc.pthread.rseq=0", off },
		{ "A=b|GLIBC_TUNABLES=glibc.malloc.check=1:glibc.pthread.rseq=0|C=d", off },
		{ "GLIBC_TUNABLES=glibc.malloc.check=1|glibc.x=1|glibc.pthread.rseq=0|C=d", off },
		{ "GLIBC_TUNABLES=glibc.pthread.rseq=1|A=glibc.pthread.rseq=0", on },
		{ "GLIBC_TUNABLES=x|A=b|glibc.pthread.rseq=0", on },
		{ "A=b|glibc.pthread.rseq=0", on },
		{ "AGLIBC_TUNABLES=glibc.pthread.rseq=0", on },
		{ "GLIBC_TUNABLES:glibc.pthread.rseq=0", on },
		{ "GLIBC_TUNABLES=x|glibcx.pthread.rseq=0=glibc.pthread.rseq=0", on },
		{ "", on }, { NULL, on },
	};

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		environment = cases[i].environment;
		examine(OTHER_PID, REGISTERS_THREADS);
		EXPECT_TEXT(about("rseq"), cases[i].expected);
	}
	/* Before what the system has, or the C library. */
	environment = cases[0].environment;
	release = "4.17";
	examine(OTHER_PID, REGISTERS_NONE);
	EXPECT_TEXT(about("rseq"), off);
}

static void test_membarrier(void)
{
	static const char there[] = "+membarrier: another CPU's lists can be emptied",
		gone[] = "!membarrier: not for rseq: what lies in an idle CPU's lists stays there";

	begin();
	commands = 0;
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("membarrier"), gone);
	commands = -1;
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("membarrier"), gone);
	commands = ~(long)MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ & 0xffff;
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("membarrier"), gone);
	commands = 0xffff;
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("membarrier"), there);
}

static void test_seccomp(void)
{
	static const char filters[] =
		"!seccomp: filters in force: %s; the library's start asks for no more than the C "
		"library's, NUMA nodes are not bound, and the lists of other CPUs are emptied "
		"only if membarrier is let through";
	char expected[512];

	begin();
	file_error = EACCES;
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("seccomp"),
		    "!seccomp: unknown: /proc/78/status: Permission denied");
	has_file("/proc/78/status", "Name:\tx\n");	/* of a kernel without it */
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("seccomp"), "+seccomp: no filter");
	has_file("/proc/78/status", "Seccomp:\t1\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("seccomp"), "!seccomp: strict mode: no call but read and write");
	has_file("/proc/78/status", "Seccomp:\t2\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	snprintf(expected, sizeof(expected), filters, "some");
	EXPECT_TEXT(about("seccomp"), expected);
	has_file("/proc/78/status", "Seccomp_filters:\t17\nSeccomp:\t2\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	snprintf(expected, sizeof(expected), filters, "17");
	EXPECT_TEXT(about("seccomp"), expected);
	/* No more of it than there is room for. */
	has_file("/proc/78/status",
		 "Seccomp_filters:\t0123456789012345678901234567890123456789\nSeccomp:\t2\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	snprintf(expected, sizeof(expected), filters, "0123456789012345678901234567890");
	EXPECT_TEXT(about("seccomp"), expected);
}

static void test_kernel(void)
{
	begin();
	has_file("/proc/sys/vm/overcommit_memory", "2\n");
	has_file("/proc/sys/vm/max_map_count", "999\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("overcommit"), "!overcommit: vm.overcommit_memory is 2: what is "
		    "committed counts in full, though it is not touched");
	EXPECT_TEXT(about("mappings"), "!mappings: vm.max_map_count is 999");
	EXPECT_TEXT(about("huge pages"), "");
	EXPECT_TEXT(about("data"), "");
	EXPECT_TEXT(about("address space"), "");
	EXPECT_TEXT(about("CPUs"), "");
	has_file("/proc/sys/vm/overcommit_memory", "");
	has_file("/proc/sys/vm/max_map_count", "1000\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("overcommit"), "");
	EXPECT_TEXT(about("mappings"), "+mappings: vm.max_map_count is 1000");
}

static void test_group(void)
{
	static const char none[] =
		"+cgroup: no limit of version 2; those of version 1 only the library reads";

	begin();
	has_file("/proc/78/cgroup", "0::/\n");
	has_file("/sys/fs/cgroup//cpu.max", "max 100000\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("cgroup"), "+cgroup: cpu.max is max 100000");
	has_file("/proc/78/cgroup", "10:cpu:/\n1:cpu:/\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("cgroup"), none);
	has_file("/proc/78/cgroup", "0::\n");
	has_file("/sys/fs/cgroup/cpu.max", "max 100000\n");
	examine(OTHER_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("cgroup"), none);
}

/* Of this process alone. */
static void test_preloads(void)
{
	begin();
	for (int is_set = 0; is_set < 2; is_set++) {
		has_preload = is_set;
		setenv("LD_PRELOAD", is_set ? "a:b" : "", 1);
		examine(OTHER_PID, REGISTERS_THREADS);
		EXPECT_TEXT(about("LD_PRELOAD"), "");
		EXPECT_TEXT(about("ld.so.preload"), "");
		examine(OWN_PID, REGISTERS_THREADS);
		EXPECT_TEXT(about("LD_PRELOAD"), is_set ? "!LD_PRELOAD: is set already: a:b" : "");
		EXPECT_TEXT(about("ld.so.preload"), is_set ? "!ld.so.preload: the system preloads "
			    "libraries into every program" : "");
	}
	unsetenv("LD_PRELOAD");
	examine(OWN_PID, REGISTERS_THREADS);
	EXPECT_TEXT(about("LD_PRELOAD"), "");
	unsetenv("LD_PRELOAD");
}

static void test_all(void)
{
	test_whole();
	test_rseq();
	test_tunables();
	test_membarrier();
	test_seccomp();
	test_kernel();
	test_group();
	test_preloads();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
