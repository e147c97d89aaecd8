/* SPDX-License-Identifier: MIT */
/*
 * Is there a seccomp filter from before this process began?  It may end the process for a call
 * that it does not know.  What a start wants to know is in files too, and the loader has opened
 * some by then: so under a filter the start asks for no more than the C library's own does, and
 * what is no question (membarrier's registration) waits until something needs it.
 */
#include <string.h>

#include "core/os/os.h"

#define STATUS_BYTES 4096
#define SECCOMP_FILTER '2'

bool os_is_filtered;

/* What is behind @name, at the beginning of a line of @text; NULL: no such line. */
static const char *line_of(const char *text, const char *name)
{
	size_t length = strlen(name);

	while (text) {
		if (!memcmp(text, name, length))
			return text + length;
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NULL;
}

static uint32_t pid_in_file;

uint32_t os_sandbox_pid(void)
{
	return os_is_filtered ? pid_in_file : (uint32_t)sys_pid();
}

void os_sandbox_read(const char *status)
{
	char text[STATUS_BYTES];
	const char *mode, *pid;

	memset(text, 0, sizeof(text));
	os_is_filtered = false;
	if (os_file_read_once(status, text, sizeof(text)) <= 0)
		return;
	mode = line_of(text, "Seccomp:\t");
	os_is_filtered = mode && *mode == SECCOMP_FILTER;
	pid = line_of(text, "Pid:\t");
	pid_in_file = pid ? (uint32_t)os_parse_number(&pid) : 0;
}
