/* SPDX-License-Identifier: MIT */
/* From code addresses of a process, or of a core, to functions and lines. */
#ifndef SLUB_TOOL_SYMBOLS_H
#define SLUB_TOOL_SYMBOLS_H

#include "json.h"
#include "process.h"

/* Prints return addresses, one a line: "\t0x55d9 main+0x2a (file.c:12)". */
void symbols_print(const struct process *process, const uint64_t *addresses,
		   size_t nr);
/* The same as an array "stack". */
void symbols_put(struct json *json, const struct process *process,
		 const uint64_t *addresses, size_t nr);
/*
 * The function at @address; NULL: unknown, or there is no @process.  It stays: a
 * run of this command reads one process.
 */
const char *symbol_name(const struct process *process, uint64_t address);

#endif
