/* SPDX-License-Identifier: MIT */
/* Small files, most of them of /proc and /sys, without stdio. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/os/os.h"

extern char **environ;

/*
 * Signals interrupt a call now and then.  A sandbox, or a file system in user space, whose answer
 * is always this one has refused it.
 */
#define INTERRUPTIONS_MAX 1000

static long path_read(const char *path, char *buf, size_t size, bool is_once)
{
	long fd = sys_open(path, O_RDONLY, 0);
	unsigned int interruptions = 0;
	size_t used = 0;

	buf[0] = '\0';
	if (fd < 0)
		return fd;
	while (used < size - 1) {
		long n = sys_call4(SYS_read, fd, (long)(buf + used),
				   (long)(size - 1 - used), 0);

		if (n == -EINTR && interruptions++ < INTERRUPTIONS_MAX)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
		if (is_once)
			break;
	}
	sys_close(fd);
	buf[used] = '\0';
	return (long)used;
}

long os_file_read(const char *path, char *buf, size_t size)
{
	return path_read(path, buf, size, false);
}

long os_file_read_once(const char *path, char *buf, size_t size)
{
	return path_read(path, buf, size, true);
}

long os_write_all(long fd, const char *buf, size_t bytes)
{
	unsigned int interruptions = 0;

	while (bytes) {
		long n = sys_call4(SYS_write, fd, (long)buf, (long)bytes, 0);

		if (n == -EINTR && interruptions++ < INTERRUPTIONS_MAX)
			continue;
		if (n <= 0)
			return n ? n : -EIO;
		buf += n;
		bytes -= (size_t)n;
	}
	return 0;
}

size_t os_parse_number(const char **s)
{
	size_t n = 0;

	for (; **s >= '0' && **s <= '9'; (*s)++) {
		if (n > (SIZE_MAX - 9) / 10)
			n = SIZE_MAX;
		else
			n = n * 10 + (size_t)(**s - '0');
	}
	return n;
}

uint32_t os_list_end(const char *path)
{
	char buf[256];
	const char *s = buf;
	uint32_t end = 0;

	if (os_file_read(path, buf, sizeof(buf)) <= 0)
		return 0;
	while (*s >= '0' && *s <= '9') {
		end = (uint32_t)os_parse_number(&s) + 1;
		if (*s == '-' || *s == ',')
			s++;
	}
	return end;
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
	buf = os_map(2 * ENVIRONMENT_BYTES);
	if (!buf)
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

/* The kernel puts them where there is room on the stack, at any address. */
uint64_t os_random_word(unsigned int nr)
{
	const char *random = (const char *)getauxval(AT_RANDOM);
	uint64_t word = 0;

	if (random)
		memcpy(&word, random + nr * sizeof(word), sizeof(word));
	return word;
}
