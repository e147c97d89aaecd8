/* SPDX-License-Identifier: MIT */
/* Finds the libslub.so that belongs to this command. */
#ifndef SLUB_TOOL_LIBRARY_H
#define SLUB_TOOL_LIBRARY_H

#include <stdbool.h>

/*
 * The absolute path, to be freed by the caller: $SLUB_LIBRARY, else the file
 * next to the command, else the one installed with it; with @hardened
 * libslub-hardened.so, of the latter two.  NULL after a message.
 */
char *library_find(bool hardened);

#endif
