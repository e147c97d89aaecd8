/* SPDX-License-Identifier: MIT */
/* slub doctor: will libslub work for a program, or does it in a process? */
#include "doctor.h"
#include "program.h"
#include "refused.h"
#include "request.h"
#include "script.h"
#include "view.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA 1

static void print_doctor_help(FILE *to)
{
	fputs("usage: slub doctor [OPTION...] PROGRAM|PID\n\n"
	      "Tells whether libslub can be preloaded into PROGRAM and what it\n"
	      "would find there, or how it fares in the process PID.  For a\n"
	      "script it judges the program that runs in the end, and names it\n"
	      "first; where a shell decides which that is, the status is 6.\n\n"
	      "  slub doctor redis-server\n\n"
	      "  -p, --process=PID     the process\n"
	      "  -j, --json            print one JSON object\n"
	      "      --color[=WHEN]    always, never or auto (the default)\n"
	      "  -h, --help            print this\n", to);
	print_statuses(to);
}

void find(struct doctor *doctor, enum finding finding, const char *what,
	  const char *format, ...)
{
	static const char *const words[] = { "ok", "note", "problem" };
	static const char *const colors[] = { "32", "33", "31" };
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	clean_string(text);
	doctor->nr_problems += finding == FINDING_PROBLEM;
	if (doctor->json) {
		json_open(doctor->json, NULL);
		json_string(doctor->json, "what", what);
		json_string(doctor->json, "finding", words[finding]);
		json_string(doctor->json, "text", text);
		json_close(doctor->json);
	} else if (doctor->color) {
		printf("\033[%sm%-8s\033[0m %-14s %s\n", colors[finding],
		       words[finding], what, text);
	} else {
		printf("%-8s %-14s %s\n", words[finding], what, text);
	}
}

static void find_state(struct doctor *doctor, const struct state *state)
{
	switch (state->presence) {
	case PRESENCE_ABSENT:
		find(doctor, FINDING_PROBLEM, "libslub",
		     "not in this process; `slub doctor PROGRAM` says whether "
		     "it could be");
		break;
	case PRESENCE_NOT_STARTED:
		find(doctor, FINDING_PROBLEM, "libslub",
		     "mapped, but nothing has called it");
		break;
	case PRESENCE_SHADOWED:
		find(doctor, FINDING_PROBLEM, "libslub", "mapped, but the "
		     "program has a malloc of its own");
		break;
	case PRESENCE_IN_USE:
		find(doctor, FINDING_OK, "libslub", "version %s in use, "
		     "backend %s, CPU number %s%s",
		     state->abi.library_version, state_backend(&state->abi),
		     state_cpu_number(&state->abi),
		     state->is_static ? ", linked into the program" : "");
		if (strcmp(state->abi.library_version, SLUB_TOOL_VERSION))
			find(doctor, FINDING_NOTE, "version", "the process runs "
			     "libslub %s, this command came with libslub "
			     SLUB_TOOL_VERSION "; restart the program to use "
			     "that", state->abi.library_version);
		if (!state->abi.membarrier)
			find(doctor, FINDING_NOTE, "membarrier", "what lies in "
			     "an idle CPU's lists stays there");
	}
}

/* What the library was told, or would be, and does not understand; @refused is freed. */
static void find_refused(struct doctor *doctor, struct refused *refused)
{
	if (refused->error)
		find(doctor, FINDING_NOTE, "options", "unknown: the environment: %s",
		     strerror(-refused->error));
	for (size_t i = 0; !refused->error && i < refused->nr; i++)
		find(doctor, FINDING_NOTE, "options", "%s is not in force: %s",
		     refused->ones[i].setting, refused->ones[i].why);
	refused_free(refused);
}

static void find_settings(struct doctor *doctor, const struct source *source)
{
	struct refused refused;
	char text[SIZE_TEXT];
	uint64_t bytes;

	if (source->state.presence != PRESENCE_IN_USE)
		return;
	if (state_limit(&source->process, &source->state.abi, &bytes))
		find(doctor, FINDING_OK, "limit", "memory in use at most: %s",
		     bytes == UINT64_MAX ? "any" : size_text(text, bytes, false));
	refused_of_process(&refused, source->process.pid);
	find_refused(doctor, &refused);
}

static int examine_process(struct doctor *doctor, const char *target)
{
	struct source source = { .command = "doctor" };
	struct elf_file file;
	int error, fd, pid = atoi(target);

	error = process_open(&source.process, pid);
	if (!error)
		error = state_find(&source.state, &source.process);
	if (error == -ESRCH)
		complain("doctor: no process %d", pid);
	else if (error == -EACCES)
		complain("doctor: no permission to read process %d", pid);
	else if (error == -EPROTO)
		complain_version("doctor", target, &source.state.abi);
	else if (error)
		complain("doctor: process %d: %s", pid, strerror(-error));
	if (error)
		return error == -ESRCH ? STATUS_NO_TARGET :
		       error == -EACCES ? STATUS_NO_PERMISSION :
		       STATUS_UNREADABLE;
	find_state(doctor, &source.state);
	find_settings(doctor, &source);
	doctor_ask_process(doctor, &source.process);
	fd = process_open_program(&source.process);
	if (fd >= 0 && !elf_file_open(&file, fd)) {
		doctor_examine_allocators(doctor, &file);
		elf_file_close(&file);
	}
	if (fd >= 0)
		close(fd);
	doctor_examine_system(doctor, pid);
	process_close(&source.process);
	return doctor->nr_problems ? STATUS_NO : STATUS_OK;
}

/* The first line: nothing else is said of a program that is not named there. */
static void find_judged(struct doctor *doctor, const struct script *script)
{
	if (script->end == SCRIPT_NONE)
		find(doctor, FINDING_OK, "program", "%s", script->program);
	else if (script->end == SCRIPT_FOLLOWED)
		find(doctor, FINDING_OK, "program", "%s, by way of %s",
		     script->program, script->steps);
	else
		find(doctor, FINDING_NOTE, "program", "unknown: %s -> %s, and %s",
		     script->steps, script->program, script->why);
	if (script->drops_preload)
		find(doctor, FINDING_PROBLEM, "LD_PRELOAD", "env drops it on the way, so "
		     "nothing is preloaded");
}

static int refuse_script(const char *name)
{
	complain("doctor: %s is a script, and which program it runs in the end is known only "
		 "when it runs; name that program by its path, or a process of it by its PID",
		 name);
	return STATUS_FAILED;
}

static int examine_program(struct doctor *doctor, const char *name)
{
	struct refused refused;
	struct script script;
	int status = 0, fd;
	char *found = program_find(name, &status);

	if (!found)
		return status == STATUS_NOT_FOUND ? STATUS_NO_TARGET :
						    STATUS_NO_PERMISSION;
	fd = script_follow(&script, found, true);
	free(found);
	if (fd == -EACCES)
		complain("doctor: no permission to read %s", script.program);
	if (fd < 0)
		return fd == -EACCES ? STATUS_NO_PERMISSION :
		       fd == -ENOENT ? STATUS_NO_TARGET : STATUS_UNREADABLE;
	find_judged(doctor, &script);
	if (script.end != SCRIPT_UNKNOWN)
		doctor_examine_file(doctor, script.program, fd);
	close(fd);
	refused_of_own(&refused);
	find_refused(doctor, &refused);
	doctor_examine_system(doctor, getpid());
	return script.end == SCRIPT_UNKNOWN ? refuse_script(name) :
	       doctor->nr_problems ? STATUS_NO : STATUS_OK;
}

static int examine(struct doctor *doctor, const char *target)
{
	if (is_pid(target) && strlen(target) <= 7)
		return examine_process(doctor, target);
	return examine_program(doctor, target);
}

/* The object is written to a buffer: an error prints none. */
static int examine_json(struct doctor *doctor, const char *target)
{
	char *text = NULL;
	size_t length;
	struct json json = { .to = must_have(open_memstream(&text, &length)) };
	int status;

	doctor->json = &json;
	json_open(&json, NULL);
	json_string(&json, "kind", "doctor");
	json_number(&json, "schema", SCHEMA);
	json_string(&json, "target", target);
	json_open_array(&json, "findings");
	status = examine(doctor, target);
	json_close(&json);
	json_bool(&json, "works", status == STATUS_OK);
	json_close(&json);
	fclose(json.to);
	doctor->json = NULL;
	if (status <= STATUS_NO || status == STATUS_FAILED)
		fputs(text, stdout);
	free(text);
	return status;
}

static int doctor_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "process", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "color", optional_argument, NULL, REQUEST_COLOR },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct doctor doctor = { .json = NULL };
	struct request request;
	int letter, status;

	request_init(&request, "doctor");
	while ((letter = getopt_long(argc, argv, ":p:jh", options,
				     NULL)) != -1) {
		status = request_option(&request, letter);
		if (status < 0)
			return option_refused(letter, argv, options);
		if (status)
			return status;
	}
	if (request.help) {
		print_doctor_help(stdout);
		return 0;
	}
	if (!request.target && optind < argc)
		request.target = argv[optind++];
	if (!request.target || !*request.target || optind < argc) {
		complain("doctor: needs one program or PID; usage: slub doctor "
			 "[OPTION...] PROGRAM|PID");
		return STATUS_USAGE;
	}
	doctor.color = request.color;
	return request.format == FORMAT_JSON ?
	       examine_json(&doctor, request.target) :
	       examine(&doctor, request.target);
}

const struct command cmd_doctor = {
	.name = "doctor",
	.summary = "tells whether libslub can work for a program",
	.print_help = print_doctor_help,
	.main = doctor_main,
};
