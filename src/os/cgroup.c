/* SPDX-License-Identifier: MIT */
/*
 * The memory limit of the control group that the process is in: the lowest one on the way from
 * its group to the root, in either version of the interface.  Of a path that does not exist in
 * a container what exists counts, in the end the root itself.
 */
#include <string.h>

#include "os/os.h"

#define PATH_BYTES 4096
/* What the kernel says for "none" in version 1 is this or more. */
#define NO_LIMIT ((size_t)1 << 60)

/* Some file could not be opened for want of descriptors or memory: nothing is known. */
static bool is_unknown;

static bool is_file_lost(long err)
{
	return err == -ENOMEM || err == -ENFILE || err == -EMFILE;
}

/* The number in @folder/@name; SIZE_MAX: no such file, or no limit. */
static size_t limit_in(const char *folder, const char *name)
{
	static char path[PATH_BYTES + 64] rarely_touched;
	struct text text = { path, sizeof(path) - 1, 0 };
	char buf[32];
	const char *s = buf;
	size_t bytes;
	long ret;

	text_printf(&text, "%s/%s", folder, name);
	path[text.used_bytes] = '\0';
	ret = os_file_read(path, buf, sizeof(buf));
	is_unknown |= is_file_lost(ret);
	if (ret <= 0 || *s < '0' || *s > '9')
		return SIZE_MAX;
	bytes = os_parse_number(&s);
	return bytes < NO_LIMIT ? bytes : SIZE_MAX;
}

/* The lowest limit of the group @group below @mount and of those above it. */
static size_t limit_along(const char *mount, const char *group,
			  const char *name)
{
	static char folder[PATH_BYTES] rarely_touched;
	struct text text = { folder, sizeof(folder) - 1, 0 };
	size_t root = strlen(mount);
	size_t least = SIZE_MAX;

	text_printf(&text, "%s%s", mount, group);
	folder[text.used_bytes] = '\0';
	for (;;) {
		char *slash = strrchr(folder, '/');

		least = min_size(least, limit_in(folder, name));
		if (!slash || (size_t)(slash - folder) < root)
			return least;
		*slash = '\0';
	}
}

/* Is "memory" one of the words in "cpu,memory:/group"? */
static bool has_memory(const char *controllers)
{
	static const char word[] = "memory";
	size_t length = sizeof(word) - 1;

	while (*controllers && *controllers != ':') {
		size_t n = strcspn(controllers, ",:");

		if (n == length && memcmp(controllers, word, n) == 0)
			return true;
		controllers += n + (controllers[n] == ',');
	}
	return false;
}

/* @line: "0::/group", or "4:memory:/group" in version 1. */
static size_t limit_of_line(const char *line, const char *mount)
{
	static char below[PATH_BYTES] rarely_touched;
	struct text text = { below, sizeof(below) - 1, 0 };
	const char *controllers = strchr(line, ':');
	const char *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!group)
		return SIZE_MAX;
	if (controllers[1] == ':')
		return limit_along(mount, group + 1, "memory.max");
	if (!has_memory(controllers + 1))
		return SIZE_MAX;
	text_printf(&text, "%s/memory", mount);
	below[text.used_bytes] = '\0';
	return limit_along(below, group + 1, "memory.limit_in_bytes");
}

size_t os_cgroup_memory_max(const char *membership, const char *mount)
{
	static char lines[2 * PATH_BYTES] rarely_touched;
	char *line = lines;
	size_t least = SIZE_MAX;
	long ret = os_file_read(membership, lines, sizeof(lines));

	is_unknown = is_file_lost(ret);
	if (ret <= 0)
		return is_unknown ? SIZE_MAX : 0;
	while (*line) {
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		least = min_size(least, limit_of_line(line, mount));
		line = end ? end + 1 : line + strlen(line);
	}
	if (is_unknown)
		return SIZE_MAX;
	return least == SIZE_MAX ? 0 : least;
}
