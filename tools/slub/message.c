/* SPDX-License-Identifier: MIT */
/* Messages to the user. */
#include "slub.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void complain(const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	/* Arguments may be the names of other people's files. */
	fprintf(stderr, "slub: %s\n", text ? clean_string(text) :
					     "out of memory");
	free(text);
}
