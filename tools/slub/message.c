/* SPDX-License-Identifier: MIT */
/* Messages to the user. */
#include "slub.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void print_statuses(FILE *to)
{
	fputs("\nExit status: 0 done or yes, 1 no (no libslub there), 2 bad arguments, 3 no\n"
	      "permission, 4 no such target, 5 unreadable, 6 not done, 7 it found bugs.\n", to);
}

void *must_have(void *block)
{
	if (!block) {
		complain("out of memory");
		exit(STATUS_ITSELF);
	}
	return block;
}

char *text_of(const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return must_have(text);
}

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
