/* SPDX-License-Identifier: MIT */
/* The mappings of this process, by /proc/self/maps; nothing is allocated, no lock taken. */
#ifndef SLUB_MAPS_H
#define SLUB_MAPS_H

#include "base/base.h"

/*
 * Calls @use with one line after the other, without its end, until it returns false.
 * True: all were read, or @use had enough.
 */
bool maps_read(bool (*use)(const char *line, void *arg), void *arg);
/* The number at *@s, which moves behind it. */
uintptr_t maps_hex(const char **s);
/* Copies bytes of this process that another thread may unmap at this moment. */
bool maps_peek(uintptr_t from, void *to, size_t bytes);

#endif
