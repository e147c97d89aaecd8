/* SPDX-License-Identifier: MIT */
#include "trace_name.h"
#include "slub.h"

#include <stdlib.h>
#include <string.h>

void trace_names_find(struct profile *names, const struct process *process,
		      const struct traces *traces)
{
	uint64_t *frames;
	size_t nr = 0;

	for (size_t i = 0; i < traces->nr; i++)
		nr += traces->rows[i].nr_frames;
	frames = must_have(calloc(nr + 1, sizeof(*frames)));
	nr = 0;
	for (size_t i = 0; i < traces->nr; i++) {
		memcpy(frames + nr, traces->rows[i].frames,
		       traces->rows[i].nr_frames * sizeof(*frames));
		nr += traces->rows[i].nr_frames;
	}
	symbols_find(names, process, frames, nr);
	free(frames);
}
