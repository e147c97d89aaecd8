/* SPDX-License-Identifier: MIT */
/* Allocates before main, in the earliest constructor a program may have, and after exit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "features/inspect/abi.h"

extern struct slub_abi slub_abi_state;

static char *early;
static unsigned int ready_early;

__attribute__((constructor(101))) static void first_constructor(void)
{
	early = malloc(1000);
	if (early)
		memset(early, 'e', 1000);
	ready_early = slub_abi_state.ready;
}

__attribute__((destructor(101))) static void last_destructor(void)
{
	early = realloc(early, 100000);
	if (!early || early[999] != 'e')
		_Exit(53);
	free(early);
	free(malloc(3 << 20));
}

int main(void)
{
	if (!early || early[0] != 'e' || early[999] != 'e')
		return 51;
	if (ready_early != 1 || slub_abi_state.ready != 1)
		return 52;
	puts("early");
	return 0;
}
