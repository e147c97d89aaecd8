/* SPDX-License-Identifier: MIT */
/*
 * /proc/self/cgroup names the group, /proc/self/mountinfo where the tree is
 * mounted and which part of it, which is not the whole inside a container:
 *
 *   0::/system.slice/x.service
 *   5:memory:/user
 *
 *   31 24 0:27 /system.slice /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw
 *   number parent device root mount-point options [tags...] - type source super
 */
#include "features/pressure/cgroup_pressure.h"

#include <string.h>

#include "core/os/os.h"

#define MOUNTS_BYTES ((size_t)256 << 10)

/* Cuts the next field off *@text, at any of @ends; NULL: none left. */
static char *cut(char **text, const char *ends)
{
	char *start = *text;
	size_t n;

	if (!start || !*start)
		return NULL;
	n = strcspn(start, ends);
	*text = start + n;
	if (**text)
		*(*text)++ = '\0';
	return start;
}

static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *s = list; s; s = strchr(s, ',')) {
		s += *s == ',';
		if (!strncmp(s, word, n) && (s[n] == ',' || !s[n]))
			return true;
	}
	return false;
}

struct mount {
	char *root;
	char *point;
	char *type;
	char *super;
};

/* The kernel writes a blank, a tab, a line's end and a backslash as \040, \011, \012, \134. */
static void unescape(char *text)
{
	char *to = text;

	for (; text && *text; text++) {
		int value = 0, n = 0;

		while (*text == '\\' && n < 3 && text[n + 1] >= '0' && text[n + 1] <= '7')
			value = 8 * value + (text[++n] - '0');
		*to++ = n == 3 ? (char)value : *text;
		text += n == 3 ? 3 : 0;
	}
	if (text)
		*to = '\0';
}

static bool mount_parse(struct mount *mount, char *line)
{
	char *field;

	for (int i = 0; i < 3; i++)
		cut(&line, " ");
	mount->root = cut(&line, " ");
	mount->point = cut(&line, " ");
	while ((field = cut(&line, " ")) != NULL && strcmp(field, "-"))
		continue;
	mount->type = cut(&line, " ");
	cut(&line, " ");
	mount->super = cut(&line, " ");
	unescape(mount->root);
	unescape(mount->point);
	return mount->super != NULL;
}

/*
 * mount-point + group, less the root of the mount.  A group above that root
 * ("/.." or another branch) cannot be seen: take the mount point.
 */
static void join(char *out, const struct mount *mount, const char *group)
{
	struct text text = { out, CGROUP_PATH_MAX, 0 };
	size_t n = strlen(mount->root);

	if (n == 1)
		n = 0;
	if (!strncmp(group, mount->root, n) &&
	    (group[n] == '/' || !group[n]) && !strstr(group, "/.."))
		group += n;
	else
		group = "";
	text_printf(&text, "%s%s", mount->point,
		    strcmp(group, "/") ? group : "");
	out[min_size(text.used_bytes, CGROUP_PATH_MAX - 1)] = '\0';
}

static void find_mounts(struct cgroup *cgroup, char *mounts, const char *v2,
			const char *v1)
{
	char *line;

	while ((line = cut(&mounts, "\n")) != NULL) {
		struct mount mount;

		if (!mount_parse(&mount, line))
			continue;
		if (v2 && !cgroup->v2[0] && !strcmp(mount.type, "cgroup2"))
			join(cgroup->v2, &mount, v2);
		if (v1 && !cgroup->v1[0] && !strcmp(mount.type, "cgroup") &&
		    list_has(mount.super, "memory"))
			join(cgroup->v1, &mount, v1);
	}
}

void cgroup_parse(struct cgroup *cgroup, char *groups, char *mounts)
{
	char *line, *v2 = NULL, *v1 = NULL;

	cgroup->v2[0] = cgroup->v1[0] = '\0';
	while ((line = cut(&groups, "\n")) != NULL) {
		char *number = cut(&line, ":");
		char *names = line;

		if (!number || !line)
			continue;
		/* The list may be empty, which cut() takes for the end. */
		line = strchr(names, ':');
		if (!line)
			continue;
		*line++ = '\0';
		if (!strcmp(number, "0") && !*names)
			v2 = line;
		else if (list_has(names, "memory"))
			v1 = line;
	}
	find_mounts(cgroup, mounts, v2, v1);
}

void cgroup_find(struct cgroup *cgroup)
{
	char *buf = os_map(2 * MOUNTS_BYTES);

	cgroup->v2[0] = cgroup->v1[0] = '\0';
	if (!buf)
		return;
	if (os_file_read("/proc/self/cgroup", buf, MOUNTS_BYTES) > 0 &&
	    os_file_read("/proc/self/mountinfo", buf + MOUNTS_BYTES,
			 MOUNTS_BYTES) > 0)
		cgroup_parse(cgroup, buf, buf + MOUNTS_BYTES);
	os_unreserve(buf, 2 * MOUNTS_BYTES);
}
