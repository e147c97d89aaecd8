/* SPDX-License-Identifier: MIT */
/* The nearest valid word, for messages about an option's wrong text. */
#ifndef SLUB_BASE_NEAREST_H
#define SLUB_BASE_NEAREST_H

#include "base/compiler.h"

#define NEAREST_BYTES 25

/* Of @choices ("a|b|c") the nearest to the @length bytes at @s, in @buf; NULL: none is near. */
const char *option_nearest(const char *choices, const char *s, size_t length,
			   char buf[NEAREST_BYTES]);

#endif
