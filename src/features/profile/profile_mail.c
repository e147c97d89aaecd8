/* SPDX-License-Identifier: MIT */
/*
 * The profile for another process: `slub profile PID` asks by the mailbox.
 *
 * It is written to a file in memory, which has no name and needs no folder that both can
 * see: the asker opens it as /proc/PID/fd/N.  There is one file at a time.  The program may
 * have closed it, and opened another under its number, so its inode identifies it.
 *
 * The thread that answers is in the middle of malloc, and waits for no other (ANSWER-1).
 */
#define _GNU_SOURCE
#include "features/profile/profile.h"
#include "features/profile/profile_trail.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "features/watch/watch.h"

static struct {
	long fd;
	uint64_t device, inode;		/* 0: there is none */
} mailed;

static cold long stat_fd(long fd, struct stat *found)
{
	return sys_call4(SYS_fstat, fd, (long)found, 0, 0);
}

static cold void close_mailed(void)
{
	struct stat found;

	if (mailed.inode && !stat_fd(mailed.fd, &found) && found.st_ino == mailed.inode &&
	    found.st_dev == mailed.device)
		sys_close(mailed.fd);
	mailed.inode = 0;
}

static cold int write_mailed(void)
{
	struct stat found;
	long fd;
	int err;

	close_mailed();
	if (!profile_has_begun())
		return -EINVAL;
	fd = sys_call4(SYS_memfd_create, (long)"slub-profile", MFD_CLOEXEC, 0, 0);
	if (fd < 0)
		return (int)fd;
	/* Without the modules: the lock for these may be held by a thread that waits for us. */
	err = profile_write_to(fd, false);
	if (err || stat_fd(fd, &found)) {
		sys_close(fd);
		return err ? err : -EIO;
	}
	mailed.fd = fd;
	mailed.device = found.st_dev;
	mailed.inode = found.st_ino;
	return (int)fd;
}

cold long profile_by_mail(const char *text)
{
	static const char start[] = "start ";
	size_t mean;

	if (!strcmp(text, "stop"))
		return profile_stop(false);
	if (!strcmp(text, "write"))
		return write_mailed();
	if (!strcmp(text, "close")) {
		close_mailed();
		return 0;
	}
	if (!strcmp(text, "trails"))
		return (long)trails_begin();
	if (!strcmp(text, "trails off")) {
		trails_end();
		return 0;
	}
	if (strncmp(text, start, sizeof(start) - 1) != 0)
		return -EINVAL;
	text += sizeof(start) - 1;
	mean = os_parse_number(&text);
	if (*text || !mean || mean > SLUB_PROFILE_BYTES_MAX)
		return -EINVAL;
	return profile_begin(mean);
}
