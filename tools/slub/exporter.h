/* SPDX-License-Identifier: MIT */
/* A text over HTTP. */
#ifndef SLUB_TOOL_EXPORTER_H
#define SLUB_TOOL_EXPORTER_H

#include <stdio.h>

/*
 * Answers GET /metrics with what @print writes, or with 503 if it returns another status
 * than 0: at @address, which is a port of 127.0.0.1 or ADDRESS:PORT, or, where that is "", on
 * the socket that was handed over (LISTEN_FDS).  Returns an exit status after a message; else
 * never.
 */
int exporter_serve(const char *address, int (*print)(FILE *to, void *arg), void *arg);

#endif
