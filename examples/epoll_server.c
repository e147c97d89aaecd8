/* SPDX-License-Identifier: MIT */
/*
 * A small epoll server whose connections come from a cache.
 *
 * It echoes lines back, in capitals.  Each worker thread waits on an epoll set
 * of its own; the kernel gives a new connection to one of them.  A connection
 * is one object: accept takes it from the cache, close gives it back, and what
 * a free one has in common with the next (its buffer) stays where it is.
 *
 *   epoll_server --port 7777     serve until interrupted; try: nc localhost 7777
 *   epoll_server                 serve clients of its own, and check each answer
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <slub/cache.h>

#define WORKERS 2
#define EVENTS 64

struct connection {
	int fd;
	uint32_t used;		/* bytes in buffer that wait to be sent */
	uint64_t served;
	char buffer[4000];
};

/* The pool.  It is made when the first client comes. */
SLUB_CACHE_DEFINE_STATIC(connections, struct connection, SLUB_CACHE_HWCACHE_ALIGN,
			 NULL);

static int listener = -1;
static int stop = -1;		/* an eventfd: readable when it is time to go */
static _Atomic long nr_accepted, nr_bytes, nr_open;

static int fail(const char *what)
{
	fprintf(stderr, "epoll_server: %s: %s\n", what, strerror(errno));
	return -1;
}

/* ---- connections ---- */

static void connection_open(int set, int fd)
{
	struct connection *c = slub_cache_alloc(&connections);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

	if (!c) {
		fail("no memory for a connection");
		close(fd);
		return;
	}
	c->fd = fd;
	c->used = 0;
	c->served = 0;
	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) {
		fail("epoll_ctl");
		close(fd);
		slub_cache_free(&connections, c);
		return;
	}
	nr_accepted++;
	nr_open++;
}

static void connection_close(struct connection *c)
{
	close(c->fd);		/* leaves the epoll set by itself */
	slub_cache_free(&connections, c);
	nr_open--;
}

/* Sends what waits; false: the connection is gone. */
static bool connection_flush(int set, struct connection *c)
{
	struct epoll_event event = { .data.ptr = c };
	ssize_t sent = 0;

	if (c->used)
		sent = send(c->fd, c->buffer, c->used, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN)
		return false;
	if (sent > 0) {
		nr_bytes += sent;
		c->served += (uint64_t)sent;
		c->used -= (uint32_t)sent;
		memmove(c->buffer, c->buffer + sent, c->used);
	}
	/* Read on only when all has been sent. */
	event.events = c->used ? EPOLLOUT : EPOLLIN;
	return epoll_ctl(set, EPOLL_CTL_MOD, c->fd, &event) == 0;
}

static void connection_serve(int set, struct connection *c, uint32_t events)
{
	if (events & EPOLLIN && !c->used) {
		ssize_t got = recv(c->fd, c->buffer, sizeof(c->buffer), 0);

		if (got == 0 || (got < 0 && errno != EAGAIN)) {
			connection_close(c);
			return;
		}
		for (ssize_t i = 0; i < got; i++)
			c->buffer[i] = (char)toupper((unsigned char)c->buffer[i]);
		c->used = got > 0 ? (uint32_t)got : 0;
	}
	if (events & (EPOLLERR | EPOLLHUP) || !connection_flush(set, c))
		connection_close(c);
}

/* ---- the server ---- */

static void accept_all(int set)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL,
			     SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		connection_open(set, fd);
}

static void *worker(void *arg)
{
	struct epoll_event events[EVENTS], wanted = { 0 };
	int set = epoll_create1(EPOLL_CLOEXEC);
	bool stopped = false;

	wanted.data.ptr = &listener;
	wanted.events = EPOLLIN | EPOLLEXCLUSIVE;
	epoll_ctl(set, EPOLL_CTL_ADD, listener, &wanted);
	wanted.data.ptr = &stop;
	wanted.events = EPOLLIN;
	epoll_ctl(set, EPOLL_CTL_ADD, stop, &wanted);

	while (!stopped) {
		int nr = epoll_wait(set, events, EVENTS, -1);

		for (int i = 0; i < nr; i++) {
			if (events[i].data.ptr == &stop)
				stopped = true;
			else if (events[i].data.ptr == &listener)
				accept_all(set);
			else
				connection_serve(set, events[i].data.ptr,
						 events[i].events);
		}
	}
	close(set);
	return arg;
}

/* Listens on @port of the loopback device, 0: any.  Returns it, or -1. */
static int server_listen(int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(address);
	int on = 1;

	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	stop = eventfd(0, EFD_CLOEXEC);
	if (listener < 0 || stop < 0)
		return fail("socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&address, length))
		return fail("bind");
	if (listen(listener, 512) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		return fail("listen");
	return ntohs(address.sin_port);
}

/* ---- clients, to try it ---- */

struct client {
	pthread_t thread;
	int port;
	int nr_connections;	/* one after the other */
	int nr_lines;		/* on each */
	long wrong;
};

static bool ask(int fd, int line)
{
	char question[64], answer[64];
	int length = snprintf(question, sizeof(question), "line %d, please\n",
			      line);
	int got = 0;

	if (send(fd, question, (size_t)length, MSG_NOSIGNAL) != length)
		return false;
	while (got < length) {
		ssize_t n = recv(fd, answer + got, (size_t)(length - got), 0);

		if (n <= 0)
			return false;
		got += (int)n;
	}
	for (int i = 0; i < length; i++) {
		if (answer[i] != toupper((unsigned char)question[i]))
			return false;
	}
	return true;
}

static void *client_run(void *arg)
{
	struct client *client = arg;
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)client->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	for (int i = 0; i < client->nr_connections; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
			fail("connect");
			client->wrong++;
			close(fd);
			continue;
		}
		for (int line = 0; line < client->nr_lines; line++)
			client->wrong += !ask(fd, line);
		close(fd);
	}
	return arg;
}

/* Returns how many answers were wrong. */
static long clients_run(int port, int nr_clients, int nr_connections)
{
	struct client *clients = calloc((size_t)nr_clients, sizeof(*clients));
	long wrong = 0;
	int nr = 0;

	if (!clients)
		return fail("calloc"), 1;
	for (; nr < nr_clients; nr++) {
		clients[nr].port = port;
		clients[nr].nr_connections = nr_connections;
		clients[nr].nr_lines = 10;
		if (pthread_create(&clients[nr].thread, NULL, client_run,
				   &clients[nr]))
			break;
	}
	for (int i = 0; i < nr; i++) {
		pthread_join(clients[i].thread, NULL);
		wrong += clients[i].wrong;
	}
	free(clients);
	return nr < nr_clients ? fail("pthread_create"), 1 : wrong;
}

/* ---- all together ---- */

static void print_stats(void)
{
	struct slub_cache_stats stats;

	printf("%ld connections accepted, %ld open, %ld bytes sent back\n",
	       nr_accepted, nr_open, nr_bytes);
	if (slub_cache_stats(&connections, &stats) == 0)
		printf("connections: room for %llu of %zu bytes in %llu slabs\n",
		       (unsigned long long)stats.objects,
		       slub_cache_stride(&connections),
		       (unsigned long long)stats.slabs);
}

static void wait_for_interrupt(const sigset_t *signals)
{
	int signal;

	sigwait(signals, &signal);
	printf("\n");
}

static int serve(int port, int nr_clients, int nr_connections)
{
	pthread_t workers[WORKERS];
	sigset_t signals;
	long wrong = 0;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	for (int i = 0; i < WORKERS; i++) {
		if (pthread_create(&workers[i], NULL, worker, NULL))
			return fail("pthread_create"), 1;
	}
	if (nr_clients)
		wrong = clients_run(port, nr_clients, nr_connections);
	else
		wait_for_interrupt(&signals);
	while (nr_clients && nr_open)	/* the server sees the last ones close */
		usleep(1000);
	print_stats();
	eventfd_write(stop, 1);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	if (wrong) {
		fprintf(stderr, "epoll_server: %ld answers were wrong\n", wrong);
		return 1;
	}
	/* Would be -EBUSY if a connection had been lost. */
	if (nr_clients && slub_cache_destroy(&connections)) {
		fprintf(stderr, "epoll_server: connections were lost\n");
		return 1;
	}
	return 0;
}

static int number(const char *text, long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || end == text || value < 1 || value > max) {
		fprintf(stderr,
			"epoll_server: '%s' is not a number from 1 to %ld\n",
			text, max);
		exit(2);
	}
	return (int)value;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "clients", required_argument, NULL, 'c' },
		{ "connections", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char help[] =
		"usage: epoll_server [--port N | --clients N --connections N]\n"
		"Echoes lines in capitals; connections come from a cache.\n"
		"  --port N          serve on this port until interrupted\n"
		"  --clients N       else: threads that are clients (20)\n"
		"  --connections N   that each of them makes (50)\n";
	int port = 0, nr_clients = 20, nr_connections = 50, c;

	while ((c = getopt_long(argc, argv, "p:c:n:h", known, NULL)) != -1) {
		if (c == 'p')
			port = number(optarg, 65535), nr_clients = 0;
		else if (c == 'c')
			nr_clients = number(optarg, 500);
		else if (c == 'n')
			nr_connections = number(optarg, 1000000);
		else if (c == 'h')
			return fputs(help, stdout) < 0;
		else
			return 2;
	}
	port = server_listen(port);
	if (port < 0)
		return 1;
	printf("listening on 127.0.0.1:%d\n", port);
	fflush(stdout);
	return serve(port, nr_clients, nr_connections);
}
