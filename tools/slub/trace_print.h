/* SPDX-License-Identifier: MIT */
/* Traces as text, in the form of the kernel's alloc_traces, and as JSON. */
#ifndef SLUB_TOOL_TRACE_PRINT_H
#define SLUB_TOOL_TRACE_PRINT_H

#include "json.h"
#include "trace_name.h"

/*
 * "count caller waste=all/each age=min/avg/max pid=low-high cpus= nodes=" and
 * the stack, a line each.
 */
void trace_print(const struct traces *traces, const struct trace *trace,
		 const struct profile *names, uint32_t nr_nodes);
/* The form of `slub leaks`: with the cache and the bytes. */
void trace_print_leak(const struct snapshot *snapshot,
		      const struct traces *traces, const struct trace *trace,
		      const struct profile *names);
/* An object in an array. */
void trace_put(struct json *json, const struct traces *traces,
	       const struct trace *trace, const struct profile *names);

/* A return address, with what is known of it. */
void trace_put_frame(struct json *json, uint64_t frame, const struct profile *names);

#endif
