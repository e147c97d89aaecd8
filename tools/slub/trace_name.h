/* SPDX-License-Identifier: MIT */
/* The names of the code addresses in traces, from the files of the process. */
#ifndef SLUB_TOOL_TRACE_NAME_H
#define SLUB_TOOL_TRACE_NAME_H

#include "profile.h"
#include "trace.h"

/*
 * One location for each return address of @traces, with what is known of it.
 * Without the memory for it, without names.  Ends with profile_free().
 */
void trace_names_find(struct profile *names, const struct process *process,
		      const struct traces *traces);
/* The location of a return address; NULL: none. */
const struct profile_location *
trace_name(const struct profile *names, uint64_t frame);
/* "file+0x12", or the function and its line; @buf has @size bytes. */
const char *trace_name_text(const struct profile *names, uint64_t frame,
			    char *buf, size_t size);

#endif
