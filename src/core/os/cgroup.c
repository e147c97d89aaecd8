/* SPDX-License-Identifier: MIT */
/*
 * The memory limit of the control group that the process is in: the lowest one on the way from
 * its group to the root, in either version of the interface.  Of a path that does not exist in
 * a container what exists counts, in the end the root itself.
 */
#include <string.h>

#include "core/os/os.h"

#define PATH_BYTES 4096
/* What the kernel says for "none" in version 1 is this or more. */
#define NO_LIMIT ((size_t)1 << 60)

/* Some file could not be opened for want of descriptors or memory: nothing is known. */
static bool is_unknown;
/* A file was there, with a limit or without. */
static bool is_found;

/* As little of it is touched as the machine's names are short. */
static char path[PATH_BYTES + 64] rarely_touched;
static char lines[2 * PATH_BYTES] rarely_touched;

static bool is_file_lost(long err)
{
	return err == -ENOMEM || err == -ENFILE || err == -EMFILE;
}

/* The number in the file that @path names; SIZE_MAX: no such file, or no limit. */
static size_t limit_in_path(void)
{
	char buf[32];
	const char *s = buf;
	size_t bytes;
	long ret = os_file_read_once(path, buf, sizeof(buf));

	is_unknown |= is_file_lost(ret);
	is_found |= ret > 0;
	if (ret <= 0 || *s < '0' || *s > '9')
		return SIZE_MAX;
	bytes = os_parse_number(&s);
	return bytes < NO_LIMIT ? bytes : SIZE_MAX;
}

/* Of the group @group below @mount and @hierarchy, and of those above it, the lowest limit. */
static size_t limit_along(const char *mount, const char *hierarchy, const char *group,
			  const char *name)
{
	size_t root = strlen(mount) + strlen(hierarchy), least = SIZE_MAX, end;
	struct text text = { path, PATH_BYTES, 0 };

	/* The root's own name is but a slash. */
	text_printf(&text, "%s%s%s", mount, hierarchy, *group && group[1] ? group : "");
	end = text.used_bytes;
	while (end >= root) {
		text.used_bytes = end;
		text.size_bytes = sizeof(path) - 1;
		text_printf(&text, "/%s", name);
		path[text.used_bytes] = '\0';
		least = min_size(least, limit_in_path());
		while (end && path[--end] != '/')
			;
	}
	return least;
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

/*
 * "0::/group" of version 2, "4:memory:/group" of version 1.  A controller is in one hierarchy:
 * version 2's files are not looked for where one of version 1's is there.
 */
size_t os_cgroup_memory_max(const char *membership, const char *mount)
{
	const char *groups[2] = { NULL, NULL };
	size_t least = SIZE_MAX;
	char *line = lines;
	long ret = os_file_read_once(membership, lines, sizeof(lines));

	is_unknown = is_file_lost(ret);
	is_found = false;
	if (ret <= 0)
		return is_unknown ? SIZE_MAX : 0;
	while (*line) {
		char *end = strchr(line, '\n'), *controllers = strchr(line, ':'), *group;

		if (end)
			*end = '\0';
		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (group && controllers[1] == ':')
			groups[0] = group + 1;
		else if (group && has_memory(controllers + 1))
			groups[1] = group + 1;
		line = end ? end + 1 : line + strlen(line);
	}
	if (groups[1])
		least = limit_along(mount, "/memory", groups[1], "memory.limit_in_bytes");
	if (groups[0] && !is_found)
		least = limit_along(mount, "", groups[0], "memory.max");
	if (is_unknown)
		return SIZE_MAX;
	return least == SIZE_MAX ? 0 : least;
}
