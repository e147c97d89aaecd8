/* SPDX-License-Identifier: MIT */
/* See maps.h. */
#define _GNU_SOURCE
#include "debug/maps.h"

#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

uintptr_t maps_hex(const char **s)
{
	uintptr_t n = 0;

	for (;; (*s)++) {
		char c = **s;

		if (c >= '0' && c <= '9')
			n = n * 16 + (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n * 16 + (uintptr_t)(c - 'a' + 10);
		else
			return n;
	}
}

bool maps_peek(uintptr_t from, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)from, bytes };

	return sys_call6(SYS_process_vm_readv,
			 sys_call4(SYS_getpid, 0, 0, 0, 0), (long)&local, 1,
			 (long)&remote, 1, 0) == (long)bytes;
}

/* Hands out the whole lines in @buf, and moves the rest to the start. */
static bool lines_use(char *buf, size_t *used,
		      bool (*use)(const char *line, void *arg), void *arg)
{
	char *line = buf, *stop;

	while ((stop = memchr(line, '\n', *used - (size_t)(line - buf)))) {
		*stop = '\0';
		if (!use(line, arg))
			return false;
		line = stop + 1;
	}
	*used -= (size_t)(line - buf);
	memmove(buf, line, *used);
	return true;
}

bool maps_read(bool (*use)(const char *line, void *arg), void *arg)
{
	char buf[1024];
	size_t used = 0;
	bool has_enough = false;
	long n, fd = sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/maps",
			       O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	/* A name of a thousand characters ends it. */
	do {
		n = sys_call4(SYS_read, fd, (long)(buf + used),
			      (long)(sizeof(buf) - used), 0);
		if (n > 0) {
			used += (size_t)n;
			has_enough = !lines_use(buf, &used, use, arg);
		}
	} while (n > 0 && !has_enough && used < sizeof(buf));
	sys_call4(SYS_close, fd, 0, 0, 0);
	return has_enough || !n;
}
