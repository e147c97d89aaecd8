/* SPDX-License-Identifier: MIT */
/* A text over HTTP, for clients on this machine. */
#ifndef SLUB_TOOL_EXPORTER_H
#define SLUB_TOOL_EXPORTER_H

#include <stdio.h>

/*
 * Answers GET /metrics with what @print writes, or with 503 if it returns another status
 * than 0: on 127.0.0.1 at @port, or, where that is "", on the socket that was handed
 * over (LISTEN_FDS).  Returns an exit status after a message; else never.
 */
int exporter_serve(const char *port, int (*print)(FILE *to, void *arg), void *arg);

#endif
