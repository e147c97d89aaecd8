/* SPDX-License-Identifier: MIT */
/* The container, or the unit of systemd, that a process runs in. */
#include "container.h"
#include "input.h"
#include "slub.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_DIGITS 64	/* of a container, by Docker, containerd, CRI-O and Podman */
#define SHOWN_DIGITS  12
#define TEXT_BYTES_MAX 16384

/* The last number of a container in @path, of those that are nested. */
static const char *number_in(const char *path, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = NULL;
	size_t run = 0;

	for (size_t i = 0; i < length; i++) {
		run = strchr(digits, path[i]) ? run + 1 : 0;
		if (run == NUMBER_DIGITS)
			found = path + i + 1 - NUMBER_DIGITS;
	}
	return found;
}

static void name_of_path(const char *path, size_t length, char name[CONTAINER_NAME])
{
	const char *number = number_in(path, length), *start = path + length;

	if (number) {
		snprintf(name, CONTAINER_NAME, "%.*s", SHOWN_DIGITS, number);
		return;
	}
	while (start > path && start[-1] != '/')
		start--;
	snprintf(name, CONTAINER_NAME, "%.*s", (int)(path + length - start), start);
	clean_string(name);
}

/* A line is "0::/path", or of version 1 "4:memory:/path"; the first with a name counts. */
void container_of_text(const char *text, char name[CONTAINER_NAME])
{
	name[0] = '\0';
	while (*text && !name[0]) {
		size_t length = strcspn(text, "\n");
		const char *path = memchr(text, ':', length);

		path = path ? memchr(path + 1, ':', length - (size_t)(path + 1 - text)) : NULL;
		if (path)
			name_of_path(path + 1, length - (size_t)(path + 1 - text), name);
		text += length + (text[length] == '\n');
	}
}

void container_of_process(pid_t pid, char name[CONTAINER_NAME])
{
	char path[64], text[TEXT_BYTES_MAX];
	size_t length = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	file = input_kernel(path);
	if (file) {
		length = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[length] = '\0';
	container_of_text(text, name);
}
