/* SPDX-License-Identifier: MIT */
/* What the examples of docs/api/c.md have in common: a check that ends the program. */
#ifndef SLUB_TESTS_DOCS_SNIPPET_H
#define SLUB_TESTS_DOCS_SNIPPET_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define expect(condition)						\
	do {								\
		if (!(condition)) {					\
			fprintf(stderr, "%s:%d: not so: %s\n",		\
				__FILE__, __LINE__, #condition);	\
			exit(1);					\
		}							\
	} while (0)

#endif
