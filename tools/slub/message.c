/* SPDX-License-Identifier: MIT */
/* Messages to the user. */
#include "slub.h"

#include <stdarg.h>
#include <stdio.h>

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	flockfile(stderr);
	fputs("slub: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	funlockfile(stderr);
	va_end(args);
}
