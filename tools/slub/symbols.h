/* SPDX-License-Identifier: MIT */
/*
 * From code addresses of a process, or of a core, to functions and lines: the one way for all
 * commands.  Without elfutils, or for a file that is gone, the file and the offset in it.
 */
#ifndef SLUB_TOOL_SYMBOLS_H
#define SLUB_TOOL_SYMBOLS_H

#include "json.h"
#include "process.h"
#include "profile.h"

/*
 * A location for each of @addresses, which are returned to: of the call before, as in every
 * profile.  Ends with profile_free().
 */
void symbols_find(struct profile *names, const struct process *process,
		  const uint64_t *addresses, size_t nr);
/* The location of one of them; NULL: there is none. */
const struct profile_location *symbol_at(const struct profile *names, uint64_t address);
/*
 * "function (file.c:12)", "function [file]" or "file+0x12"; @buf has @size bytes.  Of inlined
 * functions it is the innermost.
 */
const char *symbol_text(const struct profile *names, uint64_t address, char *buf, size_t size);
/* The functions that it was inlined in, one a line: "@before inlined in main (file.c:20)". */
void symbol_print_outers(const struct profile_location *location, const char *before);
/* The same as an array "inlined_in"; none where there are none. */
void symbol_put_outers(struct json *json, const struct profile_location *location);

enum stack_kind {
	STACK_OF_CALLS,		/* return addresses */
	STACK_INTERRUPTED,	/* the first one is an instruction under way, and one more */
};

/* Prints them, one a line: "\t0x55d9 main (file.c:12)". */
void symbols_print(const struct process *process, const uint64_t *addresses,
		   size_t nr, enum stack_kind kind);
/* The same as an array "stack". */
void symbols_put(struct json *json, const struct process *process,
		 const uint64_t *addresses, size_t nr, enum stack_kind kind);
/*
 * The function that begins at @address; NULL: unknown, or there is no @process.  It stays: a
 * run of this command reads one process.
 */
const char *symbol_name(const struct process *process, uint64_t address);

#endif
