/* SPDX-License-Identifier: MIT */
/* Opens and reads what somebody else has named. */
#include "input.h"
#include "slub.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Do not ask a file system for news: it may be somebody's program, which waits. */
#define LOOK_FLAGS (AT_EMPTY_PATH | AT_STATX_DONT_SYNC)

static int kind_error(int fd, enum input_kinds kinds)
{
	struct statx found;

	if (statx(fd, "", LOOK_FLAGS, STATX_TYPE, &found))
		return -errno;
	if (S_ISREG(found.stx_mode))
		return 0;
	if (S_ISDIR(found.stx_mode))
		return -EISDIR;
	return kinds == INPUT_STREAM && S_ISFIFO(found.stx_mode) ? 0 : -ENOEXEC;
}

/* The file itself, which has no other behind its name from now on; it cannot be read. */
static int hold(const char *path, enum input_kinds kinds)
{
	int fd = open(path, O_PATH | O_CLOEXEC), error;

	if (fd < 0)
		return -errno;
	error = kind_error(fd, kinds);
	if (!error)
		return fd;
	close(fd);
	return error;
}

int input_check(const char *path, enum input_kinds kinds)
{
	int fd = hold(path, kinds);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int input_open(const char *path, enum input_kinds kinds)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int held = hold(path, kinds), fd, error;
	char link[32];

	if (held < 0)
		return held;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", held);
	fd = open(link, flags);
	/* Without /proc: by the name, behind which there may be another one by now. */
	if (fd < 0 && errno == ENOENT) {
		fd = open(path, flags | O_NOFOLLOW);
		error = fd < 0 ? -errno : kind_error(fd, kinds);
		if (fd >= 0 && error) {
			close(fd);
			fd = -1;
			errno = -error;
		}
	}
	error = -errno;
	close(held);
	return fd < 0 ? error : fd;
}

/* ---- lines ---- */

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int input_lines_open(struct input_lines *input, const char *path, enum input_kinds kinds,
		     uint64_t bytes, double seconds)
{
	int fd = input_open(path, kinds);

	*input = (struct input_lines){ .bytes_left = bytes };
	if (fd < 0)
		return fd;
	input->end_seconds = now_seconds() + seconds;
	input->file = must_have(fdopen(fd, "r"));
	return 0;
}

static void make_room(struct input_lines *input, size_t length)
{
	if (length + 1 < input->size)
		return;
	input->size = input->size ? 2 * input->size : 256;
	input->line = must_have(realloc(input->line, input->size));
}

/* The pipe has nothing now, and a writer.  False: the time is over before it has something. */
static bool wait_for_input(struct input_lines *input)
{
	struct pollfd poll_fd = { .fd = fileno(input->file), .events = POLLIN };
	double left = input->end_seconds - now_seconds();

	clearerr(input->file);
	if (left > 0 && poll(&poll_fd, 1, (int)(left * 1000) + 1) != 0)
		return true;
	input->error = -ETIME;
	return false;
}

/* EOF: the end, or input->error. */
static int next_byte(struct input_lines *input)
{
	int c;

	do {
		c = getc_unlocked(input->file);
		if (c != EOF && !input->bytes_left--) {
			input->error = -EFBIG;
			return EOF;
		}
		if (c != EOF || !ferror(input->file))
			return c;
		if (errno != EAGAIN)
			input->error = -errno;
	} while (!input->error && wait_for_input(input));
	return EOF;
}

ssize_t input_line(struct input_lines *input, char end)
{
	size_t length = 0;
	int c = EOF;

	if (!input->error && now_seconds() > input->end_seconds)
		input->error = -ETIME;
	if (input->error)
		return -1;
	make_room(input, 0);
	while (c != (unsigned char)end && (c = next_byte(input)) != EOF) {
		make_room(input, length);
		input->line[length++] = (char)c;
	}
	input->line[length] = '\0';
	return length && !input->error ? (ssize_t)length : -1;
}

void input_lines_close(struct input_lines *input)
{
	if (input->file)
		fclose(input->file);
	free(input->line);
	input->file = NULL;
	input->line = NULL;
}

/* ---- all of a file ---- */

/* Up to @max bytes: as many as the file had when it was opened. */
static char *read_bytes(int fd, size_t max, size_t *size, int *error)
{
	char *bytes = must_have(malloc(max + 1));
	size_t done = 0;
	ssize_t n = 1;

	while (done < max && n > 0) {
		n = read(fd, bytes + done, max - done);
		done += n > 0 ? (size_t)n : 0;
	}
	*error = n < 0 ? -errno : 0;
	if (*error) {
		free(bytes);
		return NULL;
	}
	bytes[done] = '\0';
	*size = done;
	return bytes;
}

static char *read_file(const char *path, size_t max, bool all, size_t *size, int *error)
{
	int fd = input_open(path, INPUT_FILE);
	struct stat status;
	char *bytes = NULL;

	if (fd < 0) {
		*error = fd;
		return NULL;
	}
	if (fstat(fd, &status))
		*error = -errno;
	else if (all && (uint64_t)status.st_size > max)
		*error = -EFBIG;
	else
		bytes = read_bytes(fd, (uint64_t)status.st_size < max ?
				   (size_t)status.st_size : max, size, error);
	close(fd);
	return bytes;
}

char *input_all(const char *path, size_t max, size_t *size, int *error)
{
	return read_file(path, max, true, size, error);
}

char *input_head(const char *path, size_t max, size_t *size, int *error)
{
	return read_file(path, max, false, size, error);
}

int input_memory(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

FILE *input_kernel(const char *path)
{
	int fd = input_open(path, INPUT_FILE);

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	return must_have(fdopen(fd, "r"));
}
