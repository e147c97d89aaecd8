/* SPDX-License-Identifier: MIT */
/* The names of the code addresses in traces: symbols.h for all of their frames at once. */
#ifndef SLUB_TOOL_TRACE_NAME_H
#define SLUB_TOOL_TRACE_NAME_H

#include "symbols.h"
#include "trace.h"

/* What is known of each return address of @traces.  Ends with profile_free(). */
void trace_names_find(struct profile *names, const struct process *process,
		      const struct traces *traces);

static inline const struct profile_location *
trace_name(const struct profile *names, uint64_t frame)
{
	return symbol_at(names, frame);
}

static inline const char *trace_name_text(const struct profile *names, uint64_t frame, char *buf,
					  size_t size)
{
	return symbol_text(names, frame, buf, size);
}

#endif
