/* SPDX-License-Identifier: MIT */
/*
 * mailbox_open.c: the arguments of commands that ask a process, each way in which a process has no
 * mailbox, or none that can be asked, and which caches are meant; nothing stays open where it is
 * refused.  The process is told here.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf_file.h"
#include "elf_image.h"
#include "in_use.h"
#include "input.h"
#include "mailbox.h"
#include "request.h"
#include "said.h"
#include "slub.h"

#define BASE	0x7000
#define ADDRESS 0x7777
#define STATIC	(0x400000 - 0x10000 + 0x123)

static struct said out, said;
static struct mailbox mailbox;
static struct debug_mailbox box;
static struct mapping library = { .start = BASE };
static struct cache_view caches[6];
static size_t nr_caches;
static bool is_static, has_symbol, has_first;
static int open_error, memory_error, program_error, elf_error, image_error, read_error,
	snapshot_status;
static int nr_sources, nr_snapshots, nr_elves, memory_fd;

/* ---- the process ---- */

int source_open(struct source *source, const char *command, const char *target)
{
	EXPECT_TEXT(command, "debug");
	EXPECT_TEXT(target, "77");
	*source = (struct source){ .target = target, .process = { .pid = 77 } };
	strcpy(source->label, "process 77");
	source->state.is_static = is_static;
	source->state.file = &library;
	strcpy(source->state.abi.library_version, "7.8.9");
	nr_sources += !open_error;
	return open_error;
}

void source_close(struct source *source)
{
	EXPECT_TEXT(source->label, "process 77");
	nr_sources--;
}

int source_snapshot(struct source *source, struct snapshot *snapshot)
{
	EXPECT_TEXT(source->label, "process 77");
	*snapshot = (struct snapshot){ .caches = caches, .nr_caches = nr_caches };
	nr_snapshots += !snapshot_status;
	return snapshot_status;
}

void snapshot_free(struct snapshot *snapshot)
{
	EXPECT(snapshot->caches == caches, true);
	nr_snapshots--;
}

int input_memory(pid_t pid)
{
	EXPECT(pid, 77);
	memory_fd = memory_error ? memory_error : dup(0);
	return memory_fd;
}

int process_open_program(const struct process *process)
{
	EXPECT(process->pid, 77);
	return program_error ? program_error : dup(0);
}

int elf_file_open(struct elf_file *file, int fd)
{
	EXPECT(fd > 2, true);
	file->bytes = NULL;
	nr_elves += !elf_error;
	return elf_error;
}

void elf_file_close(struct elf_file *file)
{
	(void)file;
	nr_elves--;
}

bool elf_file_symbol(const struct elf_file *file, uint32_t type, const char *name, uint64_t *value)
{
	(void)file;
	EXPECT(type, SHT_SYMTAB);
	EXPECT_TEXT(name, "slub_debug_mailbox");
	*value = 0x123;
	return has_symbol;
}

bool elf_file_first_address(const struct elf_file *file, uint64_t *address)
{
	(void)file;
	*address = 0x10fff / (uint64_t)sysconf(_SC_PAGESIZE) * (uint64_t)sysconf(_SC_PAGESIZE) + 7;
	return has_first;
}

int elf_image_symbol(const struct process *process, uint64_t base, const char *name,
		     uint64_t *address)
{
	EXPECT(process->pid, 77);
	EXPECT(base, BASE);
	EXPECT_TEXT(name, "slub_debug_mailbox");
	*address = ADDRESS;
	return image_error;
}

int process_read(const struct process *process, uint64_t address, void *to, size_t bytes)
{
	EXPECT(process->pid, 77);
	EXPECT(address, mailbox.address);
	EXPECT(bytes, DEBUG_MAILBOX_BYTES_MIN);
	memcpy(to, &box, bytes);
	return read_error;
}

void complain_version_of(const char *command, const char *target, const char *release,
			 const char *what, uint32_t theirs, uint32_t ours)
{
	complain("%s: %s %s: %s %u, not %u", command, target, release, what, theirs, ours);
}

bool request_number(const char *command, const char *option, const char *text, double min,
		    double max, double *number)
{
	EXPECT_TEXT(command, "debug");
	EXPECT(!strcmp(option, "timeout") || !strcmp(option, "wake-after"), true);
	EXPECT(min * 1000, *option == 't' ? 100 : 1);
	EXPECT(max, 86400);
	*number = atof(text);
	return *number > 0;
}

void request_take_target(const char **target, int argc, char **argv)
{
	if (!*target && optind < argc)
		*target = argv[optind++];
}

/* ---- the tests ---- */

static void put_cache(const char *name, uint64_t letters)
{
	struct cache_view *cache = &caches[nr_caches++];

	*cache = (struct cache_view){ .address = nr_caches };
	strcpy(cache->name, name);
	cache->fields[SLUB_ABI_CACHE_DEBUG] = letters;
}

static void begin(void)
{
	is_static = false;
	has_symbol = has_first = true;
	open_error = memory_error = program_error = elf_error = image_error = read_error = 0;
	snapshot_status = 0;
	library.start = BASE;
	nr_caches = 0;
	put_cache("malloc-64", 0);
	put_cache("malloc-64:FZ", 3);
	put_cache("requests:P", 4);
	put_cache("sessions", 0);
	put_cache("malloc-64:U", 8);
	memset(&box, 0, sizeof(box));
	memcpy(box.magic, DEBUG_MAILBOX_MAGIC, sizeof(box.magic));
	box.version = DEBUG_MAILBOX_VERSION;
	box.size = sizeof(box);
	mailbox = (struct mailbox){ .command = "debug", .target = "77", .pattern = "" };
}

/* What was opened is closed again, whatever came of it. */
static int open_box(void)
{
	int first = nr_open_fds(), status;

	said_begin(&said, 2);
	status = mailbox_open(&mailbox);
	said_end(&said);
	EXPECT(nr_snapshots, 0);
	EXPECT(nr_elves, 0);
	if (!status) {
		EXPECT(nr_sources, 1);
		EXPECT(mailbox.memory, memory_fd);
		EXPECT(nr_open_fds(), first + 1);
		mailbox_close(&mailbox);
	}
	EXPECT(nr_sources, 0);
	EXPECT(nr_open_fds(), first);
	return status;
}

static void expect_open(int line, int status, const char *expected)
{
	expect_at(line, "the status", open_box(), status);
	expect_text(line, said.text, expected);
}

#define EXPECT_OPEN(status, expected) expect_open(__LINE__, status, expected)

static void test_opened(void)
{
	begin();
	EXPECT_OPEN(0, "");
	EXPECT(mailbox.address, ADDRESS);
	is_static = true;
	library.start = 0x400000;
	EXPECT_OPEN(0, "");
	EXPECT(mailbox.address, 0x400000 - (0x10fff & -sysconf(_SC_PAGESIZE)) + 0x123);
	/* A version may have grown. */
	box.size++;
	EXPECT_OPEN(0, "");
}

static void test_targets(void)
{
	static const char *const wrong[] = { "", "x", "77x", "-77", "/proc/77" };
	char expected[128];

	begin();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		mailbox.target = wrong[i];
		snprintf(expected, sizeof(expected), "slub: debug: '%s' is not a PID; only a "
			 "living process can be asked\n", wrong[i]);
		EXPECT_OPEN(STATUS_USAGE, expected);
	}
	begin();
	open_error = 4;
	EXPECT_OPEN(4, "");
}

static void test_memory(void)
{
	static const struct {
		int error, status;
	} cases[] = {
		{ -ENOENT, STATUS_NO_TARGET }, { -EACCES, STATUS_NO_PERMISSION },
		{ -EPERM, STATUS_NO_PERMISSION }, { -EIO, STATUS_UNREADABLE },
	};
	char expected[128];

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memory_error = cases[i].error;
		snprintf(expected, sizeof(expected),
			 "slub: debug: cannot open /proc/77/mem: %s\n", strerror(-cases[i].error));
		EXPECT_OPEN(cases[i].status, expected);
	}
}

#define CANNOT "slub: debug: process 77: its libslub cannot be asked: "
#define NO_SENSE CANNOT "what is there makes no sense\n"
#define NO_SYMBOLS CANNOT "the program that it is linked into has no symbols\n"

static void test_no_mailbox(void)
{
	begin();
	image_error = -ENOENT;
	EXPECT_OPEN(STATUS_UNREADABLE, CANNOT "it is older than this command; use the slub that "
		    "came with it\n");
	image_error = -EFAULT;
	EXPECT_OPEN(STATUS_UNREADABLE, CANNOT "Bad address\n");
	image_error = -ESRCH;
	EXPECT_OPEN(STATUS_NO_TARGET, "slub: debug: process 77 has ended\n");
	image_error = 0;
	read_error = -EFAULT;
	EXPECT_OPEN(STATUS_UNREADABLE, CANNOT "Bad address\n");
	read_error = -ESRCH;
	EXPECT_OPEN(STATUS_NO_TARGET, "slub: debug: process 77 has ended\n");
	/* Linked into the program. */
	begin();
	is_static = true;
	has_symbol = false;
	EXPECT_OPEN(STATUS_UNREADABLE, NO_SYMBOLS);
	has_symbol = true;
	has_first = false;
	EXPECT_OPEN(STATUS_UNREADABLE, NO_SYMBOLS);
	elf_error = -EFAULT;
	EXPECT_OPEN(STATUS_UNREADABLE, CANNOT "Bad address\n");
	program_error = -EACCES;
	EXPECT_OPEN(STATUS_UNREADABLE, CANNOT "Permission denied\n");
}

static void test_other_mailbox(void)
{
	begin();
	box.magic[7] ^= 1;
	EXPECT_OPEN(STATUS_UNREADABLE, NO_SENSE);
	begin();
	box.version++;
	EXPECT_OPEN(STATUS_UNREADABLE, "slub: debug: process 77 7.8.9: its mailbox 4, not 3\n");
	begin();
	box.size = DEBUG_MAILBOX_BYTES_MIN - 1;
	EXPECT_OPEN(STATUS_UNREADABLE, NO_SENSE);
	/* Older ones have no text for a thread that is woken. */
	begin();
	box.size--;
	EXPECT_OPEN(0, "");
	EXPECT(mailbox.box_bytes, DEBUG_MAILBOX_BYTES_MIN);
	begin();
	EXPECT_OPEN(0, "");
	EXPECT(mailbox.box_bytes, sizeof(box));
	begin();
	box.is_off = 1;
	EXPECT_OPEN(STATUS_NO_PERMISSION,
		    "slub: debug: process 77 does not answer: it was started with SLUB_ATTACH=0, "
		    "or is hardened, which implies that; SLUB_ATTACH=1 at its start lets it "
		    "answer\n");
}

static void test_patterns(void)
{
	static const char *const found[] = { "malloc-64", "mal*", "sess?ons", "*" },
		*const several[] = { "malloc-64,sessions", "malloc-64;sessions" };
	char expected[256];

	begin();
	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
		mailbox.pattern = found[i];
		EXPECT_OPEN(0, "");
	}
	for (size_t i = 0; i < sizeof(several) / sizeof(several[0]); i++) {
		mailbox.pattern = several[i];
		snprintf(expected, sizeof(expected), "slub: debug: '%s' is not one name; '*' and "
			 "'?' in a name make it a pattern\n", several[i]);
		EXPECT_OPEN(STATUS_USAGE, expected);
	}
	mailbox.pattern = "session";
	EXPECT_OPEN(STATUS_NO_TARGET,
		    "slub: debug: process 77 has no cache 'session'; did you mean 'sessions'?\n");
	/* Not the name of a twin. */
	mailbox.pattern = "requests:Q";
	EXPECT_OPEN(STATUS_NO_TARGET, "slub: debug: process 77 has no cache 'requests:Q'; `slub "
		    "info -z 77` lists them\n");
	mailbox.pattern = "requests:P";
	EXPECT_OPEN(STATUS_NO_TARGET, "slub: debug: process 77 has no cache 'requests:P'; `slub "
		    "info -z 77` lists them\n");
	snapshot_status = 5;
	mailbox.pattern = "malloc-64";
	EXPECT_OPEN(5, "");
}

static void expect_watched(int line, const char *pattern, int nr)
{
	size_t watched = 99;

	mailbox.pattern = pattern;
	EXPECT(mailbox_watched(&mailbox, &watched), 0);
	expect_at(line, pattern, (long long)watched, nr);
	EXPECT(nr_snapshots, 0);
}

#define EXPECT_WATCHED(pattern, nr) expect_watched(__LINE__, pattern, nr)

/* Two twins of one cache are one. */
static void test_watched(void)
{
	size_t nr = 99;

	begin();
	strcpy(mailbox.source.label, "process 77");
	EXPECT_WATCHED("", 2);
	EXPECT_WATCHED("malloc-64", 1);
	EXPECT_WATCHED("requests", 1);
	EXPECT_WATCHED("sessions", 0);
	nr_caches = 1;
	EXPECT_WATCHED("", 0);
	snapshot_status = 5;
	EXPECT(mailbox_watched(&mailbox, &nr), 5);
	EXPECT(nr, 0);
}

/* ---- arguments ---- */

static int take(int (*by)(struct mailbox *, int, char **), const char *words)
{
	static char copy[128];
	char *argv[12] = { NULL };
	int argc = 0, status;

	snprintf(copy, sizeof(copy), "debug %s", words);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	optind = 0;
	mailbox = (struct mailbox){ .command = "debug" };
	said_begin(&said, 2);
	status = by(&mailbox, argc, argv);
	said_end(&said);
	return status;
}

static void expect_taken(int line, const char *words, const char *target, const char *pattern)
{
	expect_at(line, words, take(mailbox_arguments, words), 0);
	expect_text(line, said.text, "");
	expect_text(line, mailbox.target, target);
	expect_text(line, mailbox.pattern, pattern);
}

#define EXPECT_TAKEN(words, target, pattern) expect_taken(__LINE__, words, target, pattern)

static void expect_refused(int line, const char *words, const char *expected)
{
	expect_at(line, words, take(mailbox_arguments, words), STATUS_USAGE);
	expect_text(line, said.text, expected);
}

#define EXPECT_REFUSED(words, expected) expect_refused(__LINE__, words, expected)

static void test_arguments(void)
{
	EXPECT_TAKEN("77", "77", "");
	EXPECT_TAKEN("-p 77", "77", "");
	EXPECT_TAKEN("77 sessions", "77", "sessions");
	EXPECT_TAKEN("sessions -p 77", "77", "sessions");
	EXPECT(mailbox.json || mailbox.blocked || mailbox.help, false);
	EXPECT(mailbox.node == NULL && mailbox.seconds == 0, true);
	EXPECT_TAKEN("77 -j sessions --blocked --timeout=3", "77", "sessions");
	EXPECT(mailbox.json && mailbox.blocked && mailbox.seconds == 3, true);
	EXPECT_REFUSED("", "slub: debug: needs a process: its PID\n");
	EXPECT_REFUSED("--process= sessions", "slub: debug: needs a process: its PID\n");
	EXPECT_REFUSED("77 a b", "slub: debug: 'b' is one argument too many\n");
	EXPECT_REFUSED("-p 77 a b", "slub: debug: 'b' is one argument too many\n");
	EXPECT(mailbox.no_wake || mailbox.wake_seconds != 0, false);
	EXPECT_TAKEN("77 --no-wake --wake-after=2", "77", "");
	EXPECT(mailbox.no_wake && mailbox.wake_seconds == 2, true);
	EXPECT_REFUSED("77 --wake-after=0", "");
	EXPECT_REFUSED("77 --timeout=0", "");
	EXPECT_REFUSED("77 --jsno", "slub: unknown option '--jsno'; did you mean '--json'?\n");
	EXPECT_REFUSED("77 --node=1", "slub: unknown option '--node'; `--help` lists all\n");
	EXPECT_REFUSED("77 -p", "slub: option '-p' needs a value\n");
	EXPECT(take(mailbox_arguments, "-h a b c"), 0);
	EXPECT(mailbox.help, true);
	/* What stands behind the process is the command's own, options too. */
	EXPECT(take(mailbox_process_first, "-j 77 x -y"), 0);
	EXPECT_TEXT(mailbox.target, "77");
	EXPECT(mailbox.json, true);
	EXPECT(optind, 3);
	EXPECT(take(mailbox_process_first, "-p 77 x"), 0);
	EXPECT(optind, 3);
	EXPECT(take(mailbox_process_first, ""), 0);
	EXPECT(mailbox.target == NULL, true);
	EXPECT(take(mailbox_process_first, "-h 77"), 0);
	EXPECT(mailbox.help && !mailbox.target, true);
	EXPECT(take(mailbox_process_first, "--timeout=0 77"), STATUS_USAGE);
	/* Of one command. */
	optarg = (char *)"1";
	EXPECT(mailbox_option(&mailbox, MAILBOX_OF_NODE), 0);
	EXPECT_TEXT(mailbox.node, "1");
	EXPECT(mailbox_option(&mailbox, 'x'), -1);
}

static void test_texts(void)
{
	struct json json = { .to = stdout };

	mailbox = (struct mailbox){ .command = "debug", .source = { .process = { .pid = 77 } } };
	said_begin(&out, 1);
	mailbox_json_open(&mailbox, &json);
	json_close(&json);
	said_end(&out);
	EXPECT_TEXT(out.text, "{\n  \"kind\": \"debug\",\n  \"schema\": 1,\n  \"pid\": 77\n}\n");
	mailbox.woken = (struct woken){ .nr = 2, .ms = 1.5, .thread = 78, .name = "idler",
					.call = "futex" };
	json = (struct json){ .to = stdout };
	said_begin(&out, 1);
	mailbox_json_open(&mailbox, &json);
	json_close(&json);
	said_end(&out);
	EXPECT_TEXT(out.text, "{\n  \"kind\": \"debug\",\n  \"schema\": 1,\n  \"pid\": 77,\n"
		    "  \"woken\": {\n    \"times\": 2,\n    \"thread\": 78,\n"
		    "    \"name\": \"idler\",\n    \"call\": \"futex\",\n"
		    "    \"us\": 1500\n  }\n}\n");
	said_begin(&out, 1);
	mailbox_print_help(stdout);
	said_end(&out);
	EXPECT_TEXT(out.text,
		"  -p, --process=PID      the process\n"
		"      --timeout=SECONDS  wait this long for the answer; 5 by default\n"
		"      --blocked          also ask threads that block a signal they handle\n"
		"      --wake-after=SECONDS  wake a waiting thread then; 0.4 by default\n"
		"      --no-wake          only wait; wake no thread\n"
		"  -j, --json             print the answer as a JSON object\n"
		"  -h, --help             print this\n\n"
		"Exit status: 0 done or yes, 1 no (no libslub there), 2 bad arguments, 3 no\n"
		"permission, 4 no such target, 5 unreadable, 6 not done, 7 it found bugs.\n");
}

static void test_all(void)
{
	test_opened();
	test_targets();
	test_memory();
	test_no_mailbox();
	test_other_mailbox();
	test_patterns();
	test_watched();
	test_arguments();
	test_texts();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
