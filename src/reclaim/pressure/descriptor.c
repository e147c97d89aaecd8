/* SPDX-License-Identifier: MIT */
/*
 * The inode alone does not tell whose a descriptor is: there is one for all files of
 * epoll and eventfd, and the program may open what the library opens.  So the open
 * file is marked, too, by the signal that F_SETSIG asks for; it is sent with O_ASYNC
 * only, which nobody sets here.  Where the mark is refused the inode has to do.
 */
#define _GNU_SOURCE
#include "reclaim/pressure/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

/* The last one there is: programs ask for signals that have a handler. */
#define MARK 64

static bool inode_of(int fd, struct identity *identity)
{
	struct stat state;

	if (sys_call4(SYS_fstat, fd, (long)&state, 0, 0))
		return false;
	identity->device = state.st_dev;
	identity->inode = state.st_ino;
	return true;
}

int descriptor_keep(int fd, int min, struct identity *identity)
{
	int other = -1;

	if (fd >= 0 && fd < min)
		other = (int)sys_call4(SYS_fcntl, fd, F_DUPFD_CLOEXEC, min, 0);
	if (other >= 0) {
		close_fd(fd);
		fd = other;
	}
	*identity = (struct identity){ 0, 0, false };
	if (fd >= 0 && inode_of(fd, identity))
		identity->is_marked = !sys_call4(SYS_fcntl, fd, F_SETSIG, MARK,
						 0);
	return fd;
}

bool descriptor_is_kept(int fd, const struct identity *identity)
{
	struct identity now;

	return inode_of(fd, &now) && now.device == identity->device &&
	       now.inode == identity->inode &&
	       (!identity->is_marked ||
		sys_call4(SYS_fcntl, fd, F_GETSIG, 0, 0) == MARK);
}

void descriptor_close(int fd, const struct identity *identity)
{
	if (fd >= 0 && descriptor_is_kept(fd, identity))
		close_fd(fd);
}
