/* SPDX-License-Identifier: MIT */
/*
 * output.c: what each kind of name comes to, what a reader of it sees meanwhile, and what is left
 * behind when a step fails.  The steps behind the writing fail here when they are told to.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "in_use.h"
#include "output.h"
#include "text.h"

static char folder[] = "/tmp/slub-output-XXXXXX", paths[2][sizeof(folder) + 64];
static int nr_synced, sync_error, rename_error, open_error;

int fsync(int fd)
{
	EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	nr_synced++;
	errno = sync_error;
	return sync_error ? -1 : 0;
}

int rename(const char *from, const char *to)
{
	int (*own)(const char *, const char *) =
		(int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");

	errno = rename_error;
	return rename_error ? -1 : own(from, to);
}

FILE *fdopen(int fd, const char *mode)
{
	FILE *(*own)(int, const char *) = (FILE *(*)(int, const char *))dlsym(RTLD_NEXT, "fdopen");

	EXPECT_TEXT(mode, "w");
	EXPECT(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	errno = open_error;
	return open_error ? NULL : own(fd, mode);
}

static const char *in_folder(const char *name)
{
	static int turn;

	turn = !turn;
	snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
	return paths[turn];
}

static void put(const char *name, const char *text)
{
	int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	EXPECT(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static const char *text_in(const char *name)
{
	static char text[64];
	int fd = open(in_folder(name), O_RDONLY);
	ssize_t nr = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	close(fd);
	text[nr < 0 ? 0 : nr] = '\0';
	return nr < 0 ? "none" : text;
}

static int nr_files(void)
{
	DIR *dir = opendir(folder);
	int nr = -2;

	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* Writes @text as far as there is something open, and ends it with @good. */
static int write_it(const char *name, const char *text, bool good)
{
	int first = nr_open_fds(), error;
	struct output output;

	error = output_open(&output, name, 0664);
	if (!error) {
		EXPECT_TEXT(output.path, name);
		fputs(text, output.to);
		error = output_close(&output, good);
	}
	EXPECT(output.to == NULL && output.path == NULL && output.temporary == NULL, true);
	EXPECT(nr_open_fds(), first);
	return error;
}

static int mode_of(const char *name)
{
	struct stat status;

	EXPECT(stat(in_folder(name), &status), 0);
	return status.st_mode & 07777;
}

static void test_modes(void)
{
	static const struct {
		mode_t mask, mode;
		int expected;
	} cases[] = {
		{ 022, 0666, 0644 }, { 0, 0666, 0666 }, { 077, 0644, 0600 }, { 022, 0600, 0600 },
		{ 0, 07777, 0666 }, { 0137, 0644, 0640 },
	};
	mode_t before = umask(022);
	struct output output;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		umask(cases[i].mask);
		EXPECT(output_open(&output, in_folder("new"), cases[i].mode), 0);
		EXPECT(output_close(&output, true), 0);
		EXPECT(umask(cases[i].mask), cases[i].mask);
		EXPECT(mode_of("new"), cases[i].expected);
	}
	umask(before);
	unlink(in_folder("new"));
}

/* A reader sees the old one until the end, and then the new one. */
static void test_replaced(void)
{
	struct output output;

	put("file", "old text");
	EXPECT(link(in_folder("file"), in_folder("other")), 0);
	nr_synced = 0;
	EXPECT(output_open(&output, in_folder("file"), 0600), 0);
	EXPECT(nr_files(), 3);
	EXPECT(strncmp(output.temporary, output.path, strlen(output.path)), 0);
	fputs("new", output.to);
	EXPECT_TEXT(text_in("file"), "old text");
	EXPECT(output_close(&output, true), 0);
	EXPECT(nr_synced, 1);
	EXPECT_TEXT(text_in("file"), "new");
	EXPECT_TEXT(text_in("other"), "old text");
	EXPECT(nr_files(), 2);
	EXPECT(write_it(in_folder("file"), "bad", false), 0);
	EXPECT(nr_synced, 1);
	EXPECT_TEXT(text_in("file"), "new");
	EXPECT(nr_files(), 2);
	unlink(in_folder("other"));
}

/* Each step that fails says why, and leaves all as it was. */
static void test_failed(void)
{
	struct output output;

	put("file", "old");
	sync_error = EDQUOT;
	EXPECT(write_it(in_folder("file"), "new", true), -EDQUOT);
	sync_error = 0;
	rename_error = EXDEV;
	EXPECT(write_it(in_folder("file"), "new", true), -EXDEV);
	rename_error = 0;
	open_error = ENOMEM;
	EXPECT(write_it(in_folder("file"), "new", true), -ENOMEM);
	open_error = 0;
	EXPECT(write_it(in_folder("none/file"), "new", true), -ENOENT);
	EXPECT(write_it(in_folder("file/file"), "new", true), -ENOTDIR);
	/* What was refused before the end is told there. */
	EXPECT(output_open(&output, in_folder("file"), 0600), 0);
	close(fileno(output.to));
	fputs("new", output.to);
	EXPECT(output_close(&output, true), -EBADF);
	EXPECT(write_it("/dev/full", "new", true), -ENOSPC);
	EXPECT(write_it("/dev/full", "new", false), 0);
	EXPECT_TEXT(text_in("file"), "old");
	EXPECT(nr_files(), 1);
}

static void test_kinds(void)
{
	char link_name[64];
	int pipe_fds[2], fd, before = nr_synced;
	char text[16] = { 0 };

	put("file", "old");
	/* Not another's file behind a link, wherever it leads. */
	EXPECT(symlink("file", in_folder("link")), 0);
	EXPECT(write_it(in_folder("link"), "new", true), -ELOOP);
	unlink(in_folder("link"));
	EXPECT(symlink("nowhere", in_folder("link")), 0);
	EXPECT(write_it(in_folder("link"), "new", true), -ELOOP);
	unlink(in_folder("link"));
	EXPECT(symlink("/dev/null", in_folder("link")), 0);
	EXPECT(write_it(in_folder("link"), "new", true), -ELOOP);
	unlink(in_folder("link"));
	EXPECT(write_it(folder, "new", true), -EISDIR);
	EXPECT(write_it("/dev", "new", true), -EISDIR);
	/* A pipe that nobody reads, and one that somebody does. */
	EXPECT(mkfifo(in_folder("pipe"), 0600), 0);
	EXPECT(write_it(in_folder("pipe"), "new", true), -ENXIO);
	fd = open(in_folder("pipe"), O_RDONLY | O_NONBLOCK);
	EXPECT(write_it(in_folder("pipe"), "new", true), 0);
	EXPECT(read(fd, text, sizeof(text) - 1), 3);
	EXPECT_TEXT(text, "new");
	close(fd);
	unlink(in_folder("pipe"));
	/* What /dev names is meant, a file by its descriptor too. */
	EXPECT(write_it("/dev/null", "new", true), 0);
	EXPECT(pipe(pipe_fds), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(link_name, sizeof(link_name), "%s%d",
			 i ? "/proc/self/fd/" : "/dev/fd/", pipe_fds[1]);
		EXPECT(write_it(link_name, "piped", true), 0);
		memset(text, 0, sizeof(text));
		EXPECT(read(pipe_fds[0], text, sizeof(text) - 1), 5);
		EXPECT_TEXT(text, "piped");
	}
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	fd = open(in_folder("file"), O_WRONLY | O_CLOEXEC);
	snprintf(link_name, sizeof(link_name), "/proc/self/fd/%d", fd);
	EXPECT(write_it(link_name, "wide", true), 0);
	EXPECT_TEXT(text_in("file"), "wide");
	close(fd);
	EXPECT(write_it(link_name, "none", true), -ENOENT);
	/* In place there is nothing to put on a disk. */
	EXPECT(nr_synced, before);
	EXPECT(nr_files(), 1);
}

static void test_all(void)
{
	test_modes();
	test_replaced();
	test_failed();
	test_kinds();
	EXPECT_TEXT(output_why(-ELOOP), "a symbolic link; name the file itself");
	EXPECT_TEXT(output_why(-ENOENT), "No such file or directory");
	unlink(in_folder("file"));
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	if (!mkdtemp(folder))
		return 77;
	do_twice(test_all);
	EXPECT(nr_files(), 0);
	rmdir(folder);
	return failures != 0;
}
