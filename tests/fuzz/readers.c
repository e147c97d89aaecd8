/* SPDX-License-Identifier: MIT */
/* Commands of `slub` in this process, and what they may print. */
#include "readers.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 8, OUT_OF_MEMORY = 125 };

/* ---- exit ---- */

static jmp_buf back;
static int exit_status;

/* The commands are compiled to call this one. */
void reader_exit(int status) __attribute__((noreturn));
void reader_exit(int status)
{
	exit_status = status;
	longjmp(back, 1);
}

/* ---- what was printed ---- */

static bool is_text(const char *text)
{
	for (; *text; text++)
		if (((unsigned char)*text < ' ' && *text != '\n' && *text != '\t') ||
		    *text == 0x7f)
			return false;
	return true;
}

static const char *skip_blanks(const char *s)
{
	return s + strspn(s, " \n\t");
}

static const char *skip_string(const char *s)
{
	for (s++; *s && *s != '"'; s++) {
		if (*s == '\\' && !strchr("\"\\/bfnrtu", *++s))
			return NULL;
	}
	return *s ? s + 1 : NULL;
}

static const char *skip_word(const char *s)
{
	static const char *const words[] = { "true", "false", "null" };
	char *end;

	for (int i = 0; i < 3; i++)
		if (!strncmp(s, words[i], strlen(words[i])))
			return s + strlen(words[i]);
	if (*s != '-' && (*s < '0' || *s > '9'))
		return NULL;
	strtod(s, &end);
	return memchr(s, 'x', (size_t)(end - s)) ? NULL : end;
}

/* Behind the value at @s, or NULL: it is none. */
static const char *skip_value(const char *s, int depth)
{
	char close = *s == '{' ? '}' : *s == '[' ? ']' : 0;

	if (depth > 32)
		return NULL;
	if (*s == '"')
		return skip_string(s);
	if (!close)
		return skip_word(s);
	if (*(s = skip_blanks(s + 1)) == close)
		return s + 1;
	for (;;) {
		if (close == '}') {
			s = *s == '"' ? skip_string(s) : NULL;
			if (!s || *(s = skip_blanks(s)) != ':')
				return NULL;
			s = skip_blanks(s + 1);
		}
		s = skip_value(s, depth + 1);
		if (!s)
			return NULL;
		s = skip_blanks(s);
		if (*s == close)
			return s + 1;
		if (*s != ',')
			return NULL;
		s = skip_blanks(s + 1);
	}
}

static void check_printed(const char *out, const char *err, bool is_json)
{
	const char *end;

	if (!is_text(out) || !is_text(err))
		broken("not for a terminal:\n%s%s", out, err);
	if (!is_json)
		return;
	end = skip_value(skip_blanks(out), 0);
	if (!end || *skip_blanks(end))
		broken("no JSON at '%.40s' of\n%s", end ? end : "?", out);
}

/* ---- calls ---- */

static FILE *real_stdout, *real_stderr;

struct printed {
	char *out, *err;
	size_t out_bytes, err_bytes;
};

static void listen(struct printed *printed)
{
	real_stdout = stdout;
	real_stderr = stderr;
	stdout = open_memstream(&printed->out, &printed->out_bytes);
	stderr = open_memstream(&printed->err, &printed->err_bytes);
}

static void stop_listening(void)
{
	fclose(stdout);
	fclose(stderr);
	stdout = real_stdout;
	stderr = real_stderr;
}

int reader_run(const struct command *command, const char *const *arguments, bool is_json)
{
	struct printed printed = { NULL, NULL, 0, 0 };
	char *argv[ARGUMENTS_MAX + 2] = { (char *)command->name };
	int argc = 1;

	while (arguments[argc - 1] && argc <= ARGUMENTS_MAX) {
		argv[argc] = (char *)arguments[argc - 1];
		argc++;
	}
	optind = 0;
	opterr = 0;
	listen(&printed);
	if (!setjmp(back))
		exit_status = command->main(argc, argv);
	stop_listening();
	check_printed(printed.out, printed.err, is_json && !exit_status);
	free(printed.out);
	free(printed.err);
	return exit_status;
}

void reader_call(void (*call)(void *), void *arg)
{
	struct printed printed = { NULL, NULL, 0, 0 };

	listen(&printed);
	if (!setjmp(back))
		call(arg);
	stop_listening();
	check_printed(printed.out, printed.err, false);
	free(printed.out);
	free(printed.err);
}

/* Every reader once, and again for other ways to print. */
static const struct way {
	const struct command *command;
	const char *option;
} ways[] = {
	{ &cmd_info, "--json" }, { &cmd_info, "--report" }, { &cmd_info, "--numa" },
	{ &cmd_info, "--groups" }, { &cmd_info, "--xtotals" }, { &cmd_info, "--activity" },
	{ &cmd_info, "--aliases" }, { &cmd_top, "--once" }, { &cmd_top, "--json" },
	{ &cmd_top, "--groups" }, { &cmd_stats, NULL }, { &cmd_stats, "--json" },
	{ &cmd_stats, "--openmetrics" }, { &cmd_map, NULL }, { &cmd_map, "--json" },
	{ &cmd_options, NULL }, { &cmd_options, "--json" },
	{ &cmd_explain, NULL }, { &cmd_explain, "--json" }, { &cmd_traces, NULL },
	{ &cmd_traces, "--json" },
};

void reader_run_any(uint8_t choice, const char *target, const char *address)
{
	const struct way *way = &ways[choice % (sizeof(ways) / sizeof(ways[0]))];
	const char *arguments[ARGUMENTS_MAX + 1] = { "-p", target, way->option };
	bool is_json = way->option && !strcmp(way->option, "--json");
	int status;

	if (way->command == &cmd_explain)
		arguments[way->option ? 3 : 2] = address;
	status = reader_run(way->command, arguments, is_json);
	/* A statistics file has no map: STATUS_USAGE. */
	if (status < STATUS_OK || (status > STATUS_UNREADABLE && status != OUT_OF_MEMORY))
		broken("%s: exit status %d", way->command->name, status);
}

/* ---- files ---- */

const char *reader_file(const uint8_t *bytes, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzzed", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	expect(fd >= 0 && !ftruncate(fd, 0));
	expect(pwrite(fd, bytes, size, 0) == (ssize_t)size);
	return path;
}
