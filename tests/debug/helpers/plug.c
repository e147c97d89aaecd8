/* SPDX-License-Identifier: MIT */
/* A plugin that writes one byte too many. */
#include <stdlib.h>

void overrun(void);

void overrun(void)
{
	char *p = malloc(40);

	p[40] = 1;
	free(p);
}
