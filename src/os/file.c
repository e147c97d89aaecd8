/* SPDX-License-Identifier: MIT */
/* Small files, most of them of /proc and /sys, without stdio. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>

#include "os/os.h"

extern char **environ;

static long os_open(const char *path)
{
	return sys_call4(SYS_openat, AT_FDCWD, (long)path,
			 O_RDONLY | O_CLOEXEC, 0);
}

long os_file_read(const char *path, char *buf, size_t size)
{
	long fd = os_open(path);
	size_t used = 0;

	buf[0] = '\0';
	if (fd < 0)
		return fd;
	while (used < size - 1) {
		long n = sys_call4(SYS_read, fd, (long)(buf + used),
				   (long)(size - 1 - used), 0);

		if (n == -4)	/* EINTR */
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	sys_call4(SYS_close, fd, 0, 0, 0);
	buf[used] = '\0';
	return (long)used;
}

/* A FIFO that nobody reads would keep the process at its exit for ever. */
long os_create(const char *path, int flags)
{
	long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path,
			    O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | flags,
			    0644);

	/* Who reads one may be slow. */
	if (fd >= 0)
		sys_call4(SYS_fcntl, fd, F_SETFL, flags & O_APPEND, 0);
	return fd;
}

const char *os_path(const char *path, char *buf, size_t size)
{
	struct text text = { buf, size, 0 };

	if (!strstr(path, "%p"))
		return path;
	for (; *path; path++) {
		if (path[0] == '%' && path[1] == 'p') {
			text_printf(&text, "%ld",
				    sys_call4(SYS_getpid, 0, 0, 0, 0));
			path++;
		} else {
			text_printf(&text, "%c", *path);
		}
	}
	if (text.used_bytes == size)
		return NULL;
	buf[text.used_bytes] = '\0';
	return buf;
}

int os_file_write(const char *path, const char *buf, size_t bytes)
{
	long fd = os_create(path, O_TRUNC);
	long n = 0;

	if (fd < 0)
		return (int)fd;
	while (bytes) {
		n = sys_call4(SYS_write, fd, (long)buf, (long)bytes, 0);
		if (n == -4)
			continue;
		if (n <= 0)
			break;
		buf += n;
		bytes -= (size_t)n;
	}
	sys_call4(SYS_close, fd, 0, 0, 0);
	return n < 0 ? (int)n : 0;
}

size_t os_parse_number(const char **s)
{
	size_t n = 0;

	for (; **s >= '0' && **s <= '9'; (*s)++)
		n = n * 10 + (size_t)(**s - '0');
	return n;
}

/* Room for the strings, and as much for the table behind them. */
#define ENVIRONMENT_BYTES ((size_t)4 << 20)

void os_environment_read(void (*use)(char **environment))
{
	char *buf;
	char **table;
	size_t used = 0;
	long bytes;

	if (environ) {
		use(environ);
		return;
	}
	/* A call from before the C library has started. */
	buf = os_reserve(2 * ENVIRONMENT_BYTES);
	if (!buf || os_commit(buf, 2 * ENVIRONMENT_BYTES))
		return;
	table = (char **)(buf + ENVIRONMENT_BYTES);
	bytes = os_file_read("/proc/self/environ", buf, ENVIRONMENT_BYTES);
	for (long i = 0; i < bytes; i++) {
		if ((i == 0 || buf[i - 1] == '\0') &&
		    used < ENVIRONMENT_BYTES / sizeof(*table) - 1)
			table[used++] = buf + i;
	}
	table[used] = NULL;
	use(table);
	os_unreserve(buf, 2 * ENVIRONMENT_BYTES);
}

bool os_is_secure(void)
{
	return getauxval(AT_SECURE) != 0;
}
