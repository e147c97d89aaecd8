/* SPDX-License-Identifier: MIT */
/* The arguments of the commands that ask a process, and its mailbox. */
#include "input.h"
#include "mailbox.h"
#include "cache_absent.h"
#include "cache_name.h"
#include "elf_file.h"
#include "elf_image.h"
#include "request.h"
#include "wake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAILBOX_SYMBOL "slub_debug_mailbox"
#define SCHEMA 1	/* of the JSON; a change of meaning makes it 2 */

void mailbox_print_help(FILE *to)
{
	fprintf(to, "  -p, --process=PID      the process\n"
		"      --timeout=SECONDS  wait this long for the answer; %d by "
		"default\n"
		"      --blocked          also ask threads that block a signal they handle\n"
		"      --wake-after=SECONDS  wake a waiting thread then; %g by default\n"
		"      --no-wake          only wait; wake no thread\n"
		"  -j, --json             print the answer as a JSON object\n"
		"  -h, --help             print this\n", MAILBOX_SECONDS,
		MAILBOX_WAKE_SECONDS);
	print_statuses(to);
}

int mailbox_option(struct mailbox *mailbox, int letter)
{
	switch (letter) {
	case 'p':
		mailbox->target = optarg;
		return 0;
	case MAILBOX_TIMEOUT:
		return request_number(mailbox->command, "timeout", optarg, 0.1,
				      86400, &mailbox->seconds) ?
		       0 : STATUS_USAGE;
	case MAILBOX_BLOCKED:
		mailbox->blocked = true;
		return 0;
	case MAILBOX_NO_WAKE:
		mailbox->no_wake = true;
		return 0;
	case MAILBOX_WAKE_AFTER:
		return request_number(mailbox->command, "wake-after", optarg, 0.001,
				      86400, &mailbox->wake_seconds) ?
		       0 : STATUS_USAGE;
	case MAILBOX_OF_NODE:
		mailbox->node = optarg;
		return 0;
	case 'j':
		mailbox->json = true;
		return 0;
	case 'h':
		mailbox->help = true;
		return 0;
	}
	return -1;
}

/* 0, or an exit status after a message. */
static int read_options(struct mailbox *mailbox, int argc, char **argv,
			const char *letters)
{
	static const struct option common[] = {
		MAILBOX_OPTIONS,
	};
	const struct option *options = mailbox->options ? mailbox->options : common;
	int letter, status;

	while ((letter = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		status = mailbox_option(mailbox, letter);
		if (status < 0)
			return option_refused(letter, argv, options);
		if (status)
			return status;
	}
	return 0;
}

int mailbox_process_first(struct mailbox *mailbox, int argc, char **argv)
{
	int status = read_options(mailbox, argc, argv, MAILBOX_LETTERS);

	if (status || mailbox->help)
		return status;
	if (!mailbox->target && optind < argc)
		mailbox->target = argv[optind++];
	return 0;
}

int mailbox_arguments(struct mailbox *mailbox, int argc, char **argv)
{
	int status;

	mailbox->pattern = "";
	/* Without the '+': the cache may come first. */
	status = read_options(mailbox, argc, argv, ":p:jh");
	if (status || mailbox->help)
		return status;
	request_take_target(&mailbox->target, argc, argv);
	if (!mailbox->target || !*mailbox->target) {
		complain("%s: needs a process: its PID", mailbox->command);
		return STATUS_USAGE;
	}
	if (argc - optind > 1) {
		complain("%s: '%s' is one argument too many", mailbox->command,
			 argv[optind + 1]);
		return STATUS_USAGE;
	}
	if (optind < argc)
		mailbox->pattern = argv[optind];
	return 0;
}

/* ---- the caches ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A cache that was watched by other letters before has two twins. */
static size_t count_watched(const struct mailbox *mailbox,
			    const struct snapshot *now)
{
	char (*names)[CACHE_NAME_SIZE] = must_have(calloc(now->nr_caches, sizeof(*names)));
	size_t nr = 0, different = 0;

	for (size_t i = 0; i < now->nr_caches; i++) {
		if (!cache_is_twin(&now->caches[i]))
			continue;
		cache_plain_name(now, &now->caches[i], names[nr]);
		nr += cache_is_called(now, &now->caches[i], mailbox->pattern);
	}
	qsort(names, nr, sizeof(*names), by_name);
	for (size_t i = 0; i < nr; i++)
		different += !i || strcmp(names[i], names[i - 1]);
	free(names);
	return different;
}

int mailbox_watched(struct mailbox *mailbox, size_t *nr)
{
	struct snapshot now;
	int status = source_snapshot(&mailbox->source, &now);

	*nr = 0;
	if (status)
		return status;
	*nr = count_watched(mailbox, &now);
	snapshot_free(&now);
	return 0;
}

static int check_pattern(struct mailbox *mailbox)
{
	struct snapshot now;
	int status;

	if (!*mailbox->pattern)
		return 0;
	if (strpbrk(mailbox->pattern, ",;")) {
		complain("%s: '%s' is not one name; '*' and '?' in a name make it a pattern",
			 mailbox->command, mailbox->pattern);
		return STATUS_USAGE;
	}
	status = source_snapshot(&mailbox->source, &now);
	if (status)
		return status;
	if (!cache_is_there(&now, mailbox->pattern, false))
		status = cache_refuse(&mailbox->source, mailbox->command, &now,
				      mailbox->pattern);
	snapshot_free(&now);
	return status;
}

/* ---- the mailbox ---- */

/* Of a library that was linked into the program; stripped: not found. */
static int find_static(const struct process *process,
		       const struct mapping *program, uint64_t *address)
{
	uint64_t page = sysconf(_SC_PAGESIZE), value, first;
	int fd = process_open_program(process), error;
	struct elf_file file;

	if (fd < 0)
		return fd;
	error = elf_file_open(&file, fd);
	close(fd);
	if (error)
		return error;
	error = -ENOENT;
	if (elf_file_symbol(&file, SHT_SYMTAB, MAILBOX_SYMBOL, &value) &&
	    elf_file_first_address(&file, &first)) {
		*address = program->start - (first & -page) + value;
		error = 0;
	}
	elf_file_close(&file);
	return error;
}

static int refuse_off(const struct mailbox *mailbox)
{
	complain("%s: %s does not answer: it was started with SLUB_ATTACH=0, or "
		 "is hardened, which implies that; SLUB_ATTACH=1 at its start "
		 "lets it answer", mailbox->command, mailbox->source.label);
	return STATUS_NO_PERMISSION;
}

/* What is there is no mailbox that this command knows, or could not be read. */
static int refuse_mailbox(const struct mailbox *mailbox, int error)
{
	const char *why = error ? strerror(-error) : "what is there makes no sense";

	if (error == -ENOENT)
		why = mailbox->source.state.is_static ?
		      "the program that it is linked into has no symbols" :
		      "it is older than this command; use the slub that came with it";
	complain("%s: %s: its libslub cannot be asked: %s", mailbox->command,
		 mailbox->source.label, why);
	return STATUS_UNREADABLE;
}

static int find_mailbox(struct mailbox *mailbox)
{
	const struct process *process = &mailbox->source.process;
	const struct state *state = &mailbox->source.state;
	struct debug_mailbox box;
	int error;

	mailbox->box_bytes = DEBUG_MAILBOX_BYTES_MIN;
	if (state->is_static)
		error = find_static(process, state->file, &mailbox->address);
	else
		error = elf_image_symbol(process, state->file->start,
					 MAILBOX_SYMBOL, &mailbox->address);
	if (!error)
		error = process_read(process, mailbox->address, &box,
				     mailbox->box_bytes);
	if (error == -ESRCH) {
		complain("%s: %s has ended", mailbox->command,
			 mailbox->source.label);
		return STATUS_NO_TARGET;
	}
	if (error || memcmp(box.magic, DEBUG_MAILBOX_MAGIC, sizeof(box.magic)))
		return refuse_mailbox(mailbox, error);
	if (box.version != DEBUG_MAILBOX_VERSION) {
		complain_version_of(mailbox->command, mailbox->source.label,
				    state->abi.library_version, "its mailbox",
				    box.version, DEBUG_MAILBOX_VERSION);
		return STATUS_UNREADABLE;
	}
	if (box.size < mailbox->box_bytes)
		return refuse_mailbox(mailbox, 0);
	if (box.size >= sizeof(box))
		mailbox->box_bytes = sizeof(box);
	return box.is_off ? refuse_off(mailbox) : 0;
}

/* Before anything is looked for: see features/debug/mailbox.h. */
static int open_memory(struct mailbox *mailbox)
{
	int pid = mailbox->source.process.pid, error;

	mailbox->memory = input_memory(pid);
	if (mailbox->memory >= 0)
		return 0;
	error = -mailbox->memory;
	complain("%s: cannot open /proc/%d/mem: %s", mailbox->command, pid,
		 strerror(error));
	/* ESRCH: its end is under way. */
	return error == ENOENT || error == ESRCH ? STATUS_NO_TARGET :
	       error == EACCES || error == EPERM ? STATUS_NO_PERMISSION :
	       STATUS_UNREADABLE;
}

int mailbox_open(struct mailbox *mailbox)
{
	const char *target = mailbox->target;
	int status;

	mailbox->memory = -1;
	if (!is_pid(target)) {
		complain("%s: '%s' is not a PID; only a living process can be asked",
			 mailbox->command, target);
		return STATUS_USAGE;
	}
	status = source_open(&mailbox->source, mailbox->command, target);
	if (status)
		return status;
	status = open_memory(mailbox);
	if (!status)
		status = find_mailbox(mailbox);
	if (!status)
		status = check_pattern(mailbox);
	if (status)
		mailbox_close(mailbox);
	return status;
}

void mailbox_close(struct mailbox *mailbox)
{
	wake_tell(mailbox);
	if (mailbox->memory >= 0)
		close(mailbox->memory);
	source_close(&mailbox->source);
}

void mailbox_json_open(const struct mailbox *mailbox, struct json *json)
{
	json_open(json, NULL);
	json_string(json, "kind", mailbox->command);
	json_number(json, "schema", SCHEMA);
	json_number(json, "pid", (uint64_t)mailbox->source.process.pid);
	wake_json(mailbox, json);
}
