/* SPDX-License-Identifier: MIT */
/* Writes a file that a user has named. */
#include "output.h"
#include "slub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Whoever names a device or a descriptor means what is behind it: /dev/stdout and /dev/fd/63 of
 * `>(command)` are links.
 */
static bool is_named_device(const char *path)
{
	return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/self/fd/", 14);
}

/* 0 to write beside it, 1 to write in place, or -errno. */
static int look(const char *path)
{
	struct stat status;

	if (lstat(path, &status))
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(status.st_mode) &&
	    (!is_named_device(path) || stat(path, &status)))
		return -ELOOP;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	return !S_ISREG(status.st_mode) || is_named_device(path);
}

/* A pipe that nobody reads is refused, and one with a slow reader is waited for. */
static int open_in_place(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
		      (is_named_device(path) ? 0 : O_NOFOLLOW));

	if (fd >= 0)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

static int open_beside(struct output *output, mode_t mode)
{
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	output->temporary = text_of("%s.XXXXXX", output->path);
	/* O_EXCL, and a mode of 0600 until now. */
	fd = mkostemp(output->temporary, O_CLOEXEC);
	if (fd >= 0)
		fchmod(fd, mode & 0666 & ~mask);
	return fd;
}

static int forget(struct output *output, int error)
{
	free(output->temporary);
	free(output->path);
	*output = (struct output){ NULL, NULL, NULL };
	return error;
}

int output_open(struct output *output, const char *path, mode_t mode)
{
	int in_place = look(path), fd, error;

	*output = (struct output){ .path = must_have(strdup(path)) };
	if (in_place < 0)
		return forget(output, in_place);
	fd = in_place ? open_in_place(path) : open_beside(output, mode);
	if (fd < 0)
		return forget(output, -errno);
	output->to = fdopen(fd, "w");
	if (output->to)
		return 0;
	error = -errno;
	close(fd);
	if (output->temporary)
		unlink(output->temporary);
	return forget(output, error);
}

/* After a crash of the system there is the old file or the new one, and never an empty one. */
static int finish(struct output *output)
{
	if (ferror(output->to))
		return errno ? -errno : -EIO;
	if (fflush(output->to))
		return -errno;
	/* A pipe and a device have none. */
	if (output->temporary && fsync(fileno(output->to)))
		return -errno;
	return 0;
}

int output_close(struct output *output, bool good)
{
	int error = good ? finish(output) : 0;

	if (fclose(output->to) && good && !error)
		error = -errno;
	if (!output->temporary)
		return forget(output, error);
	if (good && !error && rename(output->temporary, output->path))
		error = -errno;
	if (!good || error)
		unlink(output->temporary);
	return forget(output, error);
}

const char *output_why(int error)
{
	return error == -ELOOP ? "a symbolic link; name the file itself" : strerror(-error);
}
