/* SPDX-License-Identifier: MIT */
/*
 * The last certain corruption that the library found by itself, and the line that it wrote: in a
 * core it is there where standard error is lost.  And which of the files are not here.
 */
#include "cache_name.h"
#include "core.h"
#include "explain.h"
#include "symbols.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

bool misuse_read(struct misuse_last *misuse, const struct source *source)
{
	uint64_t address = source->state.abi.misuse;

	memset(misuse, 0, sizeof(*misuse));
	if (!address || process_read(&source->process, address, misuse, sizeof(*misuse)) ||
	    misuse->size < sizeof(*misuse) || !misuse->thread)
		return false;
	clean_text(misuse->what, sizeof(misuse->what));
	clean_text(misuse->call, sizeof(misuse->call));
	clean_text(misuse->where, sizeof(misuse->where));
	misuse->line[sizeof(misuse->line) - 1] = '\0';
	misuse->line[strcspn(misuse->line, "\n")] = '\0';
	clean_text(misuse->line, sizeof(misuse->line));
	return *misuse->what;
}

/* Did the process end by it? */
bool misuse_was_the_end(const struct misuse_last *misuse, const struct source *source)
{
	const struct core *core = source->process.core;

	return core && core->signal == SIGABRT &&
	       (uint32_t)core->thread.id == misuse->thread;
}

void print_misuse(const struct misuse_last *misuse, const struct source *source)
{
	printf(misuse_was_the_end(misuse, source) ? "libslub ended it: %s: " :
						    "libslub found before: %s: ", misuse->what);
	if (*misuse->call)
		printf("%s(0x%" PRIx64 ")", misuse->call, misuse->address);
	else
		printf("0x%" PRIx64, misuse->address);
	if (*misuse->where)
		printf(", %s", misuse->where);
	printf(", thread %" PRIu32 "%s\n", misuse->thread, misuse->caller ? ", called by" : "");
	if (misuse->caller)
		symbols_print(&source->process, &misuse->caller, 1, STACK_OF_CALLS);
	if (misuse->nr > 1)
		printf("\t... the last of %" PRIu64 "\n", misuse->nr);
}

void put_misuse(struct json *json, const struct misuse_last *misuse, const struct source *source)
{
	json_open(json, "misuse");
	json_string(json, "what", misuse->what);
	if (*misuse->call)
		json_string(json, "call", misuse->call);
	json_address(json, "address", misuse->address);
	if (*misuse->where)
		json_string(json, "where", misuse->where);
	json_number(json, "thread", misuse->thread);
	json_number(json, "found", misuse->nr);
	json_bool(json, "ended", misuse_was_the_end(misuse, source));
	json_string(json, "line", misuse->line);
	if (misuse->caller)
		symbols_put(json, &source->process, &misuse->caller, 1, STACK_OF_CALLS);
	json_close(json);
}

/* ---- files that are not here ---- */

void print_missing(const struct process *process, const uint64_t *frames, size_t nr)
{
	const char *before = "";

	for (size_t i = 0; i < nr && process->core; i++) {
		const struct mapping *m = process_mapping_at(process, frames[i]);

		if (!m || *m->path != '/' || !strcmp(m->path, before) || !access(m->path, F_OK))
			continue;
		printf("no file %s is here: put the same build there for functions, lines and "
		       "callers\n", m->path);
		before = m->path;
	}
}
