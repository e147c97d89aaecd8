/* SPDX-License-Identifier: MIT */
/* Names of files that hold the process's number. */
#include "inspect/inspect.h"

void path_expand(const char *path, char *to, size_t size)
{
	struct text text = { to, size - 1, 0 };

	for (; *path; path++) {
		if (path[0] == '%' && path[1] == 'p') {
			text_printf(&text, "%ld",
				    sys_call4(SYS_getpid, 0, 0, 0, 0));
			path++;
		} else {
			text_printf(&text, "%c", *path);
		}
	}
	to[text.used_bytes] = '\0';
}
