/* SPDX-License-Identifier: MIT */
/*
 * slub leaks: who allocated what is allocated now, in the caches watched by
 * letter U.  A process writes it to a file in a folder made for it, in its own
 * view of the files; a core file is read.
 */
#include "mailbox.h"
#include "slub.h"
#include "trace_print.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
	char path[96];			/* as this command sees it */
	size_t root;			/* bytes of the path to its / */
	int fd;
};

static void print_leaks_help(FILE *to)
{
	fputs("usage: slub leaks [OPTION...] -p PID|CORE [CACHE]\n\n"
	      "Prints who allocated the objects that are allocated now, by call\n"
	      "stack, the most first; only objects that were allocated while\n"
	      "their cache was watched by letter U (`slub debug`).  CACHE is a\n"
	      "name, or its beginning and a '*'; all without it.\n\n"
	      "  -p, --process=PID      the process, or its core file\n", to);
	mailbox_print_help(to);
	mailbox_print_statuses(to);
}

/* ---- the folder ---- */

static void folder_remove(struct folder *folder)
{
	if (folder->fd >= 0) {
		unlinkat(folder->fd, "leaks", 0);
		close(folder->fd);
	}
	rmdir(folder->path);
}

/* It is the process's user who writes there, and nobody else. */
static int folder_make(const struct mailbox *mailbox, struct folder *folder)
{
	int pid = mailbox->source.process.pid;
	struct stat owner;
	char proc[32];

	snprintf(proc, sizeof(proc), "/proc/%d", pid);
	folder->root = (size_t)snprintf(folder->path, sizeof(folder->path),
					"%s/root", proc);
	snprintf(folder->path + folder->root,
		 sizeof(folder->path) - folder->root, "/tmp/slub-leaks-XXXXXX");
	folder->fd = -1;
	if (stat(proc, &owner) || !mkdtemp(folder->path)) {
		complain("leaks: cannot make a folder in /tmp of %s: %s",
			 mailbox->source.label, strerror(errno));
		return STATUS_FAILED;
	}
	folder->fd = open(folder->path,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder->fd >= 0 &&
	    (owner.st_uid == geteuid() ||
	     !fchown(folder->fd, owner.st_uid, owner.st_gid)))
		return 0;
	complain("leaks: cannot give a folder to %s: %s",
		 mailbox->source.label, strerror(errno));
	folder_remove(folder);
	return STATUS_FAILED;
}

/* What the process wrote: a regular file, or nothing. */
static FILE *folder_file(const struct folder *folder)
{
	int fd = openat(folder->fd, "leaks",
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		return fdopen(fd, "r");
	close(fd);
	return NULL;
}

/* ---- the traces ---- */

/* A trace is a line "24 malloc-64 ...", its stack, and an empty line. */
static bool heads_match(const struct mailbox *mailbox, const char *line)
{
	char name[CACHE_NAME_SIZE];

	return sscanf(line, "%*u %47s", name) == 1 &&
	       mailbox_matches(mailbox, name);
}

/* The names of files are the process's: nothing a terminal would act on. */
static void print_line(const char *line)
{
	for (; *line; line++) {
		bool plain = (*line & 0xe0 && *line != 0x7f) ||
			     *line == '\t' || *line == '\n';

		putchar(plain ? *line : '?');
	}
}

static int64_t print_traces(const struct mailbox *mailbox, FILE *file)
{
	bool at_head = true, shown = false;
	char *line = NULL;
	size_t size = 0;
	int64_t nr = 0;

	while (getline(&line, &size, file) > 0) {
		if (at_head) {
			shown = heads_match(mailbox, line);
			nr += shown;
		}
		at_head = *line == '\n';
		if (shown)
			print_line(line);
	}
	free(line);
	return nr;
}

static int print_file(struct mailbox *mailbox, const struct folder *folder,
		      int64_t written)
{
	FILE *file = folder_file(folder);
	int64_t nr = 0;

	if (!file && written) {
		complain("leaks: %s could not write %s/leaks",
			 mailbox->source.label, folder->path + folder->root);
		return STATUS_FAILED;
	}
	if (file) {
		nr = print_traces(mailbox, file);
		fclose(file);
	}
	if (!nr)
		puts("nothing is allocated there that was watched by letter U");
	return 0;
}

static int ask(struct mailbox *mailbox)
{
	struct folder folder;
	int64_t written;
	char path[128];
	int status = folder_make(mailbox, &folder);

	if (status)
		return status;
	snprintf(path, sizeof(path), "%s/leaks", folder.path + folder.root);
	status = mailbox_ask(mailbox, MAILBOX_LEAKS, path, &written);
	if (!status)
		status = print_file(mailbox, &folder, written);
	folder_remove(&folder);
	return status;
}

/* Without the letter there is nothing to ask for. */
static int check_letter(struct mailbox *mailbox)
{
	size_t nr;
	int status = mailbox_watched(mailbox, 'U', &nr);

	if (status || nr)
		return status;
	complain("leaks: %s watches no such cache by letter U; `slub debug %s %s "
		 "U` switches it on", mailbox->source.label, mailbox->target,
		 *mailbox->pattern ? mailbox->pattern : "'*'");
	return STATUS_FAILED;
}

/* ---- a core file ---- */

/* All caches together, the most first. */
static int compare(const void *a, const void *b)
{
	const struct trace *one = a, *other = b;

	if (one->count != other->count)
		return one->count > other->count ? -1 : 1;
	return one->bytes > other->bytes ? -1 : one->bytes < other->bytes;
}

static int print_snapshot(const struct snapshot *now, const char *pattern)
{
	struct traces traces;
	struct profile names;
	int error = traces_collect(&traces, now, TRACE_ALLOC, pattern);

	if (error) {
		complain("leaks: %s: %s", now->target, strerror(-error));
		return STATUS_UNREADABLE;
	}
	trace_names_find(&names, now->process, &traces);
	if (traces.nr)
		qsort(traces.rows, traces.nr, sizeof(*traces.rows), compare);
	else
		puts("nothing was allocated there that was watched by letter U");
	for (size_t i = 0; i < traces.nr; i++)
		trace_print_leak(now, &traces, &traces.rows[i], &names);
	profile_free(&names);
	traces_free(&traces);
	return 0;
}

static bool is_traced(const struct snapshot *now, const char *pattern)
{
	for (size_t i = 0; i < now->nr_caches; i++) {
		if (cache_is_traced(&now->caches[i], pattern))
			return true;
	}
	return false;
}

static int leaks_of_file(const struct mailbox *mailbox)
{
	struct snapshot now;
	struct source source;
	int status = source_open(&source, "leaks", mailbox->target);

	if (status)
		return status;
	status = source_snapshot(&source, &now);
	if (!status && !now.process) {
		complain("leaks: %s is a statistics file, which has no stacks; "
			 "a process or a core file has", source.label);
		status = STATUS_USAGE;
	} else if (!status && !is_traced(&now, mailbox->pattern)) {
		complain("leaks: in %s no such cache was watched by letter U",
			 source.label);
		status = STATUS_FAILED;
	} else if (!status) {
		status = print_snapshot(&now, mailbox->pattern);
	}
	snapshot_free(&now);
	source_close(&source);
	return status;
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

static int leaks(int argc, char **argv)
{
	struct mailbox mailbox = {
		.command = "leaks", .seconds = MAILBOX_SECONDS,
	};
	int status = mailbox_arguments(&mailbox, argc, argv);

	if (status)
		return status;
	if (mailbox.help) {
		print_leaks_help(stdout);
		return 0;
	}
	if (!is_number(mailbox.target))
		return leaks_of_file(&mailbox);
	status = mailbox_open(&mailbox);
	if (status)
		return status;
	status = check_letter(&mailbox);
	if (!status)
		status = ask(&mailbox);
	mailbox_close(&mailbox);
	return status;
}

const struct command cmd_leaks = {
	.name = "leaks",
	.summary = "prints who allocated what is allocated in a process",
	.print_help = print_leaks_help,
	.main = leaks,
};
