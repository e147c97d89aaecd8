/* SPDX-License-Identifier: MIT */
/*
 * Text from outside (names of processes and files, symbols, arguments) on its way to a
 * terminal, which would obey an escape sequence in it.
 */
#include "slub.h"

#include <stdint.h>

/* Bytes of the UTF-8 letter at @s that is not a control; 0: there is none. */
static size_t letter_bytes(const unsigned char *s)
{
	size_t bytes = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 :
		       *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
	uint32_t code = bytes > 1 ? *s & (0x7fu >> bytes) : *s;

	for (size_t i = 1; i < bytes; i++) {
		/* The NUL at the end is no continuation. */
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	/* Controls of both sets, and marks that reverse the order of letters. */
	if (code < 0x20 || (code >= 0x7f && code < 0xa0) ||
	    (code >= 0x2028 && code <= 0x202e) ||
	    (code >= 0x2066 && code <= 0x2069))
		return 0;
	return bytes;
}

char *clean_string(char *text)
{
	unsigned char *s = (unsigned char *)text;

	while (s && *s) {
		size_t bytes = letter_bytes(s);

		if (!bytes)
			*s = '?';
		s += bytes ? bytes : 1;
	}
	return text;
}
