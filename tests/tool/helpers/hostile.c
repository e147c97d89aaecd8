/* SPDX-License-Identifier: MIT */
/*
 * A process on libslub that answers `slub profile` with a descriptor of what is no profile:
 *
 *   hostile KIND    fifo, zero, folder, socket, long, many, huge, moving
 *
 * Its answers come from a thread that writes the mailbox itself; "ready" when it does.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <slub/slub.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "features/debug/mailbox.h"

static const char head[] = "heap profile: 0: 0 [0: 0] @ heapprofile\n# slub-profile 1\n";
static int file = -1;

/* Of one @line, again and again. */
static int write_lines(const char *line, size_t times)
{
	int fd = memfd_create("profile", 0);
	FILE *to = fd < 0 ? NULL : fdopen(dup(fd), "w");

	if (!to)
		return -1;
	fputs(head, to);
	while (times--)
		fputs(line, to);
	return fclose(to) ? -1 : fd;
}

static int make(const char *kind)
{
	int pair[2];

	if (!strcmp(kind, "fifo"))
		return mkfifo("fifo", 0600) ? -1 : open("fifo", O_RDWR);
	if (!strcmp(kind, "zero"))
		return open("/dev/zero", O_RDONLY);
	if (!strcmp(kind, "folder"))
		return open(".", O_RDONLY);
	if (!strcmp(kind, "socket"))
		return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ? -1 : pair[0];
	if (!strcmp(kind, "long"))
		return write_lines("# a line without an end, of which this is a piece ", 2 << 20);
	if (!strcmp(kind, "many"))
		return write_lines("1: 1 [1: 1] @ 0x12\n", 6 << 20);
	file = write_lines("1: 1 [1: 1] @ 0x12\n", 1000);
	if (!strcmp(kind, "huge") && ftruncate(file, (off_t)1 << 40))
		return -1;
	return file;
}

/* It shrinks and grows while it is read. */
static void *move(void *unused)
{
	(void)unused;
	for (;;) {
		(void)!ftruncate(file, 70);
		(void)!ftruncate(file, 20000);
	}
	return NULL;
}

static int answer_to(const char *text, int fd)
{
	return !strcmp(text, "write") ? fd : !strcmp(text, "trails") ? -EINVAL : 0;
}

static void answer(struct debug_mailbox *box, int fd)
{
	uint32_t state = __atomic_load_n(&box->state, __ATOMIC_SEQ_CST);
	struct debug_request request;

	if ((state & MAILBOX_STATE) != MAILBOX_REQUEST)
		return;
	request = box->request;
	box->result = answer_to(request.text, fd);
	__atomic_store_n(&box->answered, request.id, __ATOMIC_SEQ_CST);
	__atomic_store_n(&box->state, state & ~(uint32_t)MAILBOX_STATE, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv)
{
	struct debug_mailbox *box = dlsym(RTLD_DEFAULT, "slub_debug_mailbox");
	int fd = argc == 2 ? make(argv[1]) : -1;
	pthread_t thread;

	slub_shrink_all();
	if (!box || fd < 0) {
		fprintf(stderr, "usage: hostile KIND, with libslub preloaded or linked\n");
		return 2;
	}
	if (!strcmp(argv[1], "moving"))
		pthread_create(&thread, NULL, move, NULL);
	puts("ready");
	fflush(stdout);
	for (;;) {
		answer(box, fd);
		usleep(200);
	}
}
