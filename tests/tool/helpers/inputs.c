/* SPDX-License-Identifier: MIT */
/* input.c: which kinds of files are opened, how many bytes and lines of them are read, and what is
 * waited for; index.c: each number of an entry, and no other one. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "in_use.h"
#include "index.h"
#include "input.h"

#define LONG 70000	/* a line, in bytes: many times what there is room for at first */

static char folder[] = "/tmp/slub-input-XXXXXX";
static char path[sizeof(folder) + 32];

static bool has_no_proc;
static const char *in_place;		/* of what is opened to be read */

int open(const char *name, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (has_no_proc && !strncmp(name, "/proc/", 6)) {
		errno = ENOENT;
		return -1;
	}
	return openat(AT_FDCWD, in_place && !(flags & O_PATH) ? in_place : name, flags, mode);
}

static const char *in_folder(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static const char *file_with(const char *text, size_t length)
{
	FILE *to = fopen(in_folder("file"), "w");

	fwrite(text, 1, length, to);
	fclose(to);
	return path;
}

/* The lowest descriptor that is free: what was opened has been closed if it is the same. */
static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void expect_kind(const char *name, int as_file, int as_stream)
{
	int first = lowest_free(), fd;

	EXPECT(input_check(name, INPUT_FILE), as_file);
	EXPECT(input_check(name, INPUT_STREAM), as_stream);
	fd = input_open(name, INPUT_FILE);
	EXPECT(fd < 0 ? fd : 0, as_file);
	if (fd >= 0)
		close(fd);
	fd = input_open(name, INPUT_STREAM);
	EXPECT(fd < 0 ? fd : 0, as_stream);
	if (fd >= 0) {
		EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		EXPECT(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
		EXPECT(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
		close(fd);
	}
	EXPECT(lowest_free(), first);
}

static void open_each_kind(void)
{
	expect_kind(file_with("text", 4), 0, 0);
	expect_kind(folder, -EISDIR, -EISDIR);
	expect_kind("/dev/null", -ENOEXEC, -ENOEXEC);
	expect_kind(in_folder("none"), -ENOENT, -ENOENT);
	EXPECT(mkfifo(in_folder("pipe"), 0600), 0);
	expect_kind(path, -ENOEXEC, 0);
	EXPECT(symlink("file", in_folder("link")), 0);
	expect_kind(path, 0, 0);
	EXPECT(symlink("loop", in_folder("loop")), 0);
	expect_kind(path, -ELOOP, -ELOOP);
}

/* Without /proc a file is opened by its name, behind which another one may lie by then. */
static void open_without_proc(void)
{
	int first = lowest_free();

	has_no_proc = true;
	expect_kind(file_with("text", 4), 0, 0);
	expect_kind(folder, -EISDIR, -EISDIR);
	expect_kind("/dev/null", -ENOEXEC, -ENOEXEC);
	expect_kind(in_folder("none"), -ENOENT, -ENOENT);
	expect_kind(in_folder("pipe"), -ENOEXEC, 0);
	EXPECT(input_check(in_folder("link"), INPUT_FILE), 0);
	EXPECT(input_open(path, INPUT_FILE), -ELOOP);
	in_place = folder;
	EXPECT(input_open(in_folder("file"), INPUT_FILE), -EISDIR);
	in_place = "/dev/null";
	EXPECT(input_open(path, INPUT_STREAM), -ENOEXEC);
	in_place = "/nonexistent/file";
	EXPECT(input_open(path, INPUT_FILE), -ENOENT);
	in_place = NULL;
	has_no_proc = false;
	EXPECT(lowest_free(), first);
}

/* ---- lines ---- */

static int lines_of(struct input_lines *input, const char *text, size_t length, uint64_t bytes)
{
	return input_lines_open(input, file_with(text, length), INPUT_FILE, bytes, 100);
}

#define EXPECT_LINE(input, end, text) do { \
		EXPECT(input_line(input, end), sizeof(text) - 1); \
		EXPECT(memcmp((input)->line, text, sizeof(text)), 0); \
	} while (0)

static void read_lines(void)
{
	static const char text[] = "one\n\ntwo\0three\nfour";
	struct input_lines input;
	int first = lowest_free();

	EXPECT(lines_of(&input, text, sizeof(text) - 1, sizeof(text) - 1), 0);
	EXPECT_LINE(&input, '\n', "one\n");
	EXPECT_LINE(&input, '\n', "\n");
	EXPECT_LINE(&input, '\n', "two\0three\n");
	EXPECT_LINE(&input, '\n', "four");
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, 0);
	EXPECT(input_line(&input, '\n'), -1);
	input_lines_close(&input);
	EXPECT((uintptr_t)input.line | (uintptr_t)input.file, 0);
	input_lines_close(&input);
	EXPECT(lines_of(&input, text, sizeof(text) - 1, 1000), 0);
	EXPECT_LINE(&input, '\0', "one\n\ntwo\0");
	EXPECT_LINE(&input, '\0', "three\nfour");
	EXPECT(input_line(&input, '\0'), -1);
	input_lines_close(&input);
	EXPECT(lines_of(&input, "a\377b", 3, 1000), 0);
	EXPECT_LINE(&input, '\377', "a\377");
	EXPECT_LINE(&input, '\377', "b");
	input_lines_close(&input);
	EXPECT(lines_of(&input, text, 0, 0), 0);
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, 0);
	input_lines_close(&input);
	EXPECT(input_lines_open(&input, in_folder("none"), INPUT_FILE, 9, 9), -ENOENT);
	input_lines_close(&input);
	EXPECT(lowest_free(), first);
}

static void read_no_more_bytes(void)
{
	struct input_lines input;

	/* The end of the file is none of them. */
	EXPECT(lines_of(&input, "abc\nde\n", 7, 7), 0);
	EXPECT_LINE(&input, '\n', "abc\n");
	EXPECT_LINE(&input, '\n', "de\n");
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, 0);
	input_lines_close(&input);
	EXPECT(lines_of(&input, "abc\nde\n", 7, 6), 0);
	EXPECT_LINE(&input, '\n', "abc\n");
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, -EFBIG);
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, -EFBIG);
	input_lines_close(&input);
}

static void read_long_lines(void)
{
	static char text[LONG];
	struct input_lines input;

	for (size_t i = 0; i < LONG; i++)
		text[i] = (char)('a' + i % 25);
	for (size_t length = 250; length < 260; length++) {
		EXPECT(lines_of(&input, text, length, LONG), 0);
		EXPECT(input_line(&input, '\n'), length);
		EXPECT(memcmp(input.line, text, length), 0);
		EXPECT(input.line[length], 0);
		EXPECT(input.size > length, 1);
		input_lines_close(&input);
	}
	EXPECT(lines_of(&input, text, LONG, LONG), 0);
	EXPECT(input_line(&input, '\n'), LONG);
	EXPECT(memcmp(input.line, text, LONG), 0);
	EXPECT(input.size >= LONG && input.size <= 4 * LONG, 1);
	input_lines_close(&input);
}

static void stop_in_time(void)
{
	struct input_lines input;

	EXPECT(input_lines_open(&input, file_with("a\nb\n", 4), INPUT_FILE, 100, -1), 0);
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, -ETIME);
	input_lines_close(&input);
}

/* A writer that is slow is waited for, and one that writes nothing not for ever. */
static void wait_for_pipes(void)
{
	struct input_lines input;
	int fd, start[2];
	pid_t child;
	char byte;

	EXPECT(pipe(start), 0);
	child = fork();
	if (!child) {
		fd = open(in_folder("pipe"), O_WRONLY);
		(void)!read(start[0], &byte, 1);
		usleep(20000);
		(void)!write(fd, "on", 2);
		usleep(20000);
		(void)!write(fd, "e\ntwo", 5);
		usleep(20000);
		_exit(0);
	}
	EXPECT(input_lines_open(&input, in_folder("pipe"), INPUT_STREAM, 100, 100), 0);
	/* There is a writer once this one has opened it. */
	fd = open(in_folder("pipe"), O_WRONLY);
	EXPECT(write(start[1], "x", 1), 1);
	EXPECT_LINE(&input, '\n', "one\n");
	close(fd);
	EXPECT_LINE(&input, '\n', "two");
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, 0);
	input_lines_close(&input);
	waitpid(child, NULL, 0);
	close(start[0]);
	close(start[1]);
	fd = open(in_folder("pipe"), O_RDWR);
	EXPECT(input_lines_open(&input, in_folder("pipe"), INPUT_STREAM, 100, 0.05), 0);
	EXPECT(write(fd, "half", 4), 4);
	EXPECT(input_line(&input, '\n'), -1);
	EXPECT(input.error, -ETIME);
	input_lines_close(&input);
	close(fd);
}

/* ---- all of a file ---- */

static void read_whole_files(void)
{
	char *(*const readers[])(const char *, size_t, size_t *, int *) = { input_all, input_head };
	int first = lowest_free();

	for (int i = 0; i < 2; i++) {
		size_t size = 99;
		int error = 99;
		char *bytes = readers[i](file_with("12345", 5), 5, &size, &error);

		EXPECT(bytes && !memcmp(bytes, "12345", 6), 1);
		EXPECT(size, 5);
		EXPECT(error, 0);
		free(bytes);
		bytes = readers[i](path, 100, &size, &error);
		EXPECT(bytes && !memcmp(bytes, "12345", 6), 1);
		EXPECT(size, 5);
		free(bytes);
		size = 99;
		bytes = readers[i](path, 4, &size, &error);
		EXPECT(bytes != NULL, i == 1);
		EXPECT(error, i ? 0 : -EFBIG);
		EXPECT(size, i ? 4 : 99);
		EXPECT(!bytes || !memcmp(bytes, "1234", 5), 1);
		free(bytes);
		bytes = readers[i](file_with("", 0), 4, &size, &error);
		EXPECT(bytes && !*bytes, 1);
		EXPECT(size, 0);
		EXPECT(error, 0);
		free(bytes);
		EXPECT(readers[i](folder, 4, &size, &error) == NULL, 1);
		EXPECT(error, -EISDIR);
		EXPECT(readers[i](in_folder("none"), 4, &size, &error) == NULL, 1);
		EXPECT(error, -ENOENT);
		EXPECT(readers[i](in_folder("pipe"), 4, &size, &error) == NULL, 1);
		EXPECT(error, -ENOEXEC);
	}
	EXPECT(lowest_free(), first);
}

static void read_the_kernels(void)
{
	int first = lowest_free(), fd = input_memory(getpid());
	char text[64];
	FILE *file;

	EXPECT(fd >= 0, 1);
	EXPECT(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
	EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
	EXPECT(input_memory(0), -ENOENT);
	file = input_kernel("/proc/self/comm");
	EXPECT(file && fgets(text, sizeof(text), file) && *text, 1);
	fclose(file);
	errno = 0;
	EXPECT(input_kernel(in_folder("none")) == NULL, 1);
	EXPECT(errno, ENOENT);
	EXPECT(lowest_free(), first);
}

/* ---- an index ---- */

#define NR_NUMBERS 1000

/* How many of those with this hash there are; each is one that was added with it. */
static size_t nr_with(const struct index *index, uint64_t hash, uint64_t of)
{
	size_t at = 0, nr = 0, number;

	while ((number = index_next(index, hash, &at)) != INDEX_NONE) {
		EXPECT(number % of, hash);
		nr++;
	}
	EXPECT(index_next(index, hash, &at), INDEX_NONE);
	return nr;
}

static void index_numbers(void)
{
	struct index index = { .size = 0 };
	size_t at = 0;

	EXPECT(index_next(&index, 7, &at), INDEX_NONE);
	for (size_t i = 0; i < NR_NUMBERS; i++)
		index_add(&index, i % 250, i);
	EXPECT(index.used, NR_NUMBERS);
	EXPECT(index.size, 2048);
	for (uint64_t hash = 0; hash < 250; hash++)
		EXPECT(nr_with(&index, hash, 250), NR_NUMBERS / 250);
	EXPECT(nr_with(&index, 250, 1), 0);
	index_free(&index);
	EXPECT((uintptr_t)index.entries | index.size | index.used, 0);
	/* Half of it is free at the least. */
	for (size_t i = 0; i < 33; i++) {
		EXPECT(index.size, i ? 64 : 0);
		index_add(&index, i, i);
	}
	EXPECT(index.size, 128);
	index_free(&index);
	EXPECT(hash_string(NULL), hash_string(""));
	EXPECT(hash_string("") != hash_string("a"), 1);
	EXPECT(hash_string("ab") != hash_string("ba"), 1);
	EXPECT(hash_string("a"), (long long)0xaf63dc4c8601ec8cu);
	EXPECT(hash_string("foobar"), (long long)0x85944171f73967e8u);
	EXPECT(hash_mix(1, 2), hash_mix(1, 2));
}

/* Of each bit that changes, about half of the result does; of 64 in a row no two are alike. */
static void mix_each_bit(void)
{
	uint64_t plain = hash_mix(0x0123456789abcdefu, 77);
	int nr_alike = 0;

	for (int bit = 0; bit < 64; bit++) {
		uint64_t one = hash_mix(0x0123456789abcdefu ^ 1ull << bit, 77);
		uint64_t other = hash_mix(0x0123456789abcdefu, 77 ^ 1ull << bit);

		EXPECT(__builtin_popcountll(one ^ plain) >= 8, 1);
		EXPECT(__builtin_popcountll(other ^ plain) >= 8, 1);
		nr_alike += !((one ^ plain) & 0xffff);
	}
	/* By chance one of them in a thousand runs. */
	EXPECT(nr_alike < 4, true);
}

static void test_all(void)
{
	open_each_kind();
	open_without_proc();
	read_lines();
	read_no_more_bytes();
	read_long_lines();
	stop_in_time();
	wait_for_pipes();
	read_whole_files();
	read_the_kernels();
	index_numbers();
	mix_each_bit();
	for (int i = 0; i < 4; i++)
		unlink(in_folder((const char *[]){ "file", "pipe", "link", "loop" }[i]));
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	if (!mkdtemp(folder))
		return 77;
	do_twice(test_all);
	rmdir(folder);
	return failures != 0;
}
