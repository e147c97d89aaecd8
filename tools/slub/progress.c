/* SPDX-License-Identifier: MIT */
/* A line on the terminal while something takes more than a second. */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double began, shown;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void progress(const char *what, uint64_t done, uint64_t all)
{
	double now = seconds();

	if (!began)
		began = now;
	if (now - began < 1 || now - shown < 0.2 || !all ||
	    !isatty(STDERR_FILENO))
		return;
	shown = now;
	fprintf(stderr, "\rslub: %s: %3.0f %%", what,
		100.0 * (double)done / (double)all);
	fflush(stderr);
}

void progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	began = 0;
	shown = 0;
}
