/* SPDX-License-Identifier: MIT */
/*
 * No inode tells whose a descriptor is: there is one for all files of epoll and eventfd, and
 * the program may open what the library opens.  So the open file is marked, by the signal
 * that F_SETSIG asks for; it is sent with O_ASYNC only, which nobody sets here.
 */
#define _GNU_SOURCE
#include "features/pressure/descriptor.h"

#include <errno.h>
#include <fcntl.h>

/* The last one there is: programs ask for signals that have a handler. */
#define MARK 64

/* A kernel or a sandbox refuses marks: what is open is taken for ours. */
static bool marks_are_refused;

int descriptor_keep(int fd, int min)
{
	int other = -1;
	long err = 0;

	if (fd >= 0 && fd < min)
		other = (int)sys_call4(SYS_fcntl, fd, F_DUPFD_CLOEXEC, min, 0);
	if (other >= 0) {
		close_fd(fd);
		fd = other;
	}
	if (fd >= 0)
		err = sys_call4(SYS_fcntl, fd, F_SETSIG, MARK, 0);
	/* Not where the program has closed it meanwhile, or memory is short. */
	if (err == -EPERM || err == -EINVAL || err == -ENOSYS)
		__atomic_store_n(&marks_are_refused, true, __ATOMIC_RELAXED);
	return fd;
}

bool descriptor_is_kept(int fd)
{
	long mark = sys_call4(SYS_fcntl, fd, F_GETSIG, 0, 0);

	return mark == MARK ||
	       (__atomic_load_n(&marks_are_refused, __ATOMIC_RELAXED) &&
		sys_call4(SYS_fcntl, fd, F_GETFD, 0, 0) >= 0);
}

void descriptor_close(int fd)
{
	if (fd >= 0 && descriptor_is_kept(fd))
		close_fd(fd);
}
