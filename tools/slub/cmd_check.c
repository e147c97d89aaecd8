/* SPDX-License-Identifier: MIT */
/* slub check: is libslub the malloc of a running process? */
#include "input.h"
#include "json.h"
#include "refused.h"
#include "slub.h"
#include "state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA	1	/* of the JSON; a change of meaning makes it 2 */
#define PID_MAX (1 << 22)	/* the kernel's PID_MAX_LIMIT */

struct request {
	bool help;
	bool json;
	bool quiet;
	pid_t pid;
};

static void print_check_help(FILE *to)
{
	fputs("usage: slub check [OPTION...] PID\n\n"
	      "Tells whether libslub is the malloc of a running process, and\n"
	      "how it runs there.  The process is not stopped.\n\n"
	      "  slub check 1234\n\n"
	      "  -p, --process=PID  the process\n"
	      "  -j, --json         print one JSON object\n"
	      "  -q, --quiet        print nothing, answer by the exit status\n"
	      "  -h, --help         print this\n", to);
	print_statuses(to);
}

static int parse_pid(const char *text, pid_t *pid)
{
	long number = is_pid(text) && strlen(text) <= 7 ? strtol(text, NULL, 10) : 0;

	if (number < 1 || number > PID_MAX) {
		complain("check: '%s' is not a PID; PIDs are numbers from 1 to %d",
			 text, PID_MAX);
		return STATUS_USAGE;
	}
	*pid = number;
	return 0;
}

/* 0 or an exit status. */
static int parse(int argc, char **argv, struct request *request)
{
	static const struct option options[] = {
		{ "process", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *pid = NULL;

	/* Options may come before and behind the PID. */
	for (;;) {
		int letter = getopt_long(argc, argv, "+:p:jqh", options, NULL);

		if (letter == 'p') {
			pid = optarg;
		} else if (letter == 'j') {
			request->json = true;
		} else if (letter == 'q') {
			request->quiet = true;
		} else if (letter == 'h') {
			request->help = true;
			return 0;
		} else if (letter != -1) {
			return option_refused(letter, argv, options);
		} else if (optind < argc && !pid) {
			pid = argv[optind++];
		} else {
			break;
		}
	}
	if (pid && optind == argc)
		return parse_pid(pid, &request->pid);
	complain("check: needs one PID; usage: slub check [OPTION...] PID");
	return STATUS_USAGE;
}

static const char *reason(const struct state *state)
{
	switch (state->presence) {
	case PRESENCE_ABSENT:
		return "not mapped";
	case PRESENCE_NOT_STARTED:
		return "mapped, but not started";
	case PRESENCE_SHADOWED:
		return "mapped, but the program has a malloc of its own";
	case PRESENCE_IN_USE:
		break;
	}
	return state->is_static ? "in use, linked into the program"
				: "in use, as a shared library";
}

/* "8.0 MiB": whole numbers of bytes are for --json. */
static void print_size(uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB",
					     "TiB" };
	double size = bytes;
	int unit = 0;

	while (size >= 1024 && unit < 4) {
		size /= 1024;
		unit++;
	}
	printf("%.*f %s\n", unit ? 1 : 0, size, units[unit]);
}

/*
 * The library knows a bound, so as to start without reading files; as it is the
 * same system, this asks.
 */
static uint32_t cpus_possible(const struct slub_abi *abi)
{
	FILE *file = input_kernel("/sys/devices/system/cpu/possible");
	unsigned int first, last, end = 0;

	if (!file)
		return abi->nr_cpus_possible;
	while (fscanf(file, "%u", &first) == 1) {
		if (fscanf(file, "-%u", &last) != 1)
			last = first;
		end = last + 1;
		if (fgetc(file) != ',')
			break;
	}
	fclose(file);
	return end && end < abi->nr_cpus_possible ? end : abi->nr_cpus_possible;
}

static void print_abi(const struct slub_abi *abi)
{
	printf("version      %s\n", abi->library_version);
	printf("backend      %s\n", state_backend(abi));
	printf("CPU number   %s\n", state_cpu_number(abi));
	printf("CPUs         %u possible, %u allowed", cpus_possible(abi),
	       abi->nr_cpus_allowed);
	if (abi->nr_cpus_quota)
		printf(", quota of %u", abi->nr_cpus_quota);
	printf("%s\n", abi->smp ? "" : " (uniprocessor build)");
	printf("nodes        %u\n", abi->nr_nodes);
	printf("membarrier   %s\n", abi->membarrier ? "yes" : "no");
	printf("layout       %s\n", state_layout(abi));
	printf("huge pages   %s\n", state_huge(abi));
	printf("page size    ");
	print_size(abi->page_size);
	printf("range        %#" PRIx64 ", ", abi->range_start);
	print_size(abi->range_bytes);
	printf("heap         %#" PRIx64 ", ", abi->heap_start);
	print_size(abi->heap_bytes);
	printf("idle kept    up to ");
	print_size(abi->retain_bytes);
}

static void print_limit(const struct process *process, const struct slub_abi *abi)
{
	uint64_t bytes;

	if (!state_limit(process, abi, &bytes))
		return;
	printf("limit        ");
	if (bytes == UINT64_MAX)
		puts("none");
	else
		print_size(bytes);
}

static void print_refused(const struct process *process)
{
	struct refused refused;

	refused_of_process(&refused, process->pid);
	if (refused.error)
		printf("refused      unknown: %s\n", strerror(-refused.error));
	for (size_t i = 0; !refused.error && i < refused.nr; i++)
		printf("refused      %s: %s\n", refused.ones[i].setting, refused.ones[i].why);
	refused_free(&refused);
}

static void print_text(const struct process *process,
		       const struct state *state)
{
	printf("process      %d (%s)\n", (int)process->pid, process->name);
	printf("libslub      %s\n", reason(state));
	if (state->presence != PRESENCE_ABSENT)
		printf("file         %s%s\n", state->file->path,
		       state->file->deleted ? " (deleted)" : "");
	if (state->presence != PRESENCE_IN_USE)
		return;
	print_abi(&state->abi);
	print_limit(process, &state->abi);
	print_refused(process);
}

static void put_cpus(struct json *json, const struct slub_abi *abi)
{
	json_open(json, "cpus");
	json_number(json, "possible", cpus_possible(abi));
	json_number(json, "allowed", abi->nr_cpus_allowed);
	if (abi->nr_cpus_quota)
		json_number(json, "quota", abi->nr_cpus_quota);
	else
		json_null(json, "quota");
	json_close(json);
}

static void put_range(struct json *json, const char *name, uint64_t start,
		      uint64_t bytes)
{
	json_open(json, name);
	json_address(json, "start", start);
	json_number(json, "bytes", bytes);
	json_close(json);
}

static void put_abi(struct json *json, const struct slub_abi *abi)
{
	json_string(json, "version", abi->library_version);
	json_string(json, "backend", state_backend(abi));
	json_string(json, "cpu_number", state_cpu_number(abi));
	put_cpus(json, abi);
	json_number(json, "nodes", abi->nr_nodes);
	json_bool(json, "smp", abi->smp);
	json_bool(json, "membarrier", abi->membarrier);
	json_string(json, "layout", state_layout(abi));
	json_string(json, "huge", state_huge(abi));
	json_number(json, "page_size_bytes", abi->page_size);
	put_range(json, "range", abi->range_start, abi->range_bytes);
	put_range(json, "heap", abi->heap_start, abi->heap_bytes);
	json_number(json, "retain_bytes", abi->retain_bytes);
}

static void put_settings(struct json *json, const struct process *process,
			 const struct slub_abi *abi)
{
	struct refused refused;
	uint64_t bytes;

	if (state_limit(process, abi, &bytes) && bytes != UINT64_MAX)
		json_number(json, "limit_bytes", bytes);
	else
		json_null(json, "limit_bytes");
	refused_of_process(&refused, process->pid);
	refused_json(json, &refused);
	refused_free(&refused);
}

static void print_json(const struct process *process,
		       const struct state *state)
{
	struct json json = { .to = stdout };

	json_open(&json, NULL);
	json_string(&json, "kind", "check");
	json_number(&json, "schema", SCHEMA);
	json_number(&json, "pid", process->pid);
	json_string(&json, "name", process->name);
	json_bool(&json, "in_use", state->presence == PRESENCE_IN_USE);
	json_string(&json, "reason", reason(state));
	if (state->presence != PRESENCE_ABSENT) {
		json_string(&json, "file", state->file->path);
		json_bool(&json, "file_deleted", state->file->deleted);
	}
	if (state->presence == PRESENCE_IN_USE) {
		put_abi(&json, &state->abi);
		put_settings(&json, process, &state->abi);
	}
	json_close(&json);
}

static int answer_error(const struct request *request, int error,
			const struct slub_abi *abi)
{
	char target[32];
	int pid = request->pid;
	int status = error == -EACCES ? STATUS_NO_PERMISSION :
		     error == -ESRCH ? STATUS_NO_TARGET : STATUS_UNREADABLE;

	if (request->quiet)
		return status;
	snprintf(target, sizeof(target), "process %d", pid);
	if (status == STATUS_NO_TARGET)
		complain("check: no process %d", pid);
	else if (status == STATUS_NO_PERMISSION)
		complain("check: no permission to read process %d; its user "
			 "may (unless kernel.yama.ptrace_scope forbids it), "
			 "and root", pid);
	else if (error == -EPROTO)
		complain_version("check", target, abi);
	else
		complain("check: cannot read process %d: %s", pid,
			 strerror(-error));
	return status;
}

static int check(int argc, char **argv)
{
	struct request request = { 0 };
	struct process process;
	struct state state;
	int status, error;

	status = parse(argc, argv, &request);
	if (status)
		return status;
	if (request.help) {
		print_check_help(stdout);
		return 0;
	}
	error = process_open(&process, request.pid);
	if (error)
		return answer_error(&request, error, NULL);
	error = state_find(&state, &process);
	if (error)
		status = answer_error(&request, error, &state.abi);
	else
		status = state.presence == PRESENCE_IN_USE ? STATUS_OK
							   : STATUS_NO;
	if (!error && !request.quiet)
		(request.json ? print_json : print_text)(&process, &state);
	process_close(&process);
	return status;
}

const struct command cmd_check = {
	.name = "check",
	.summary = "tells whether libslub is the malloc of a process",
	.print_help = print_check_help,
	.main = check,
};
