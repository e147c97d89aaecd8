/* SPDX-License-Identifier: MIT */
/*
 * exporter.c: where it listens, what it answers to each request, whole or in pieces, and what it
 * does with clients that are slow or gone.  Connections are pairs of sockets here, and the clock
 * is the test's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "exporter.h"
#include "in_use.h"
#include "said.h"
#include "slub.h"

#define NR_CLIENTS 8

static struct said out, said;
static int connections[NR_CLIENTS], nr_connections, next, listener, accept_error, first_error;
static int bind_error, nr_printed, print_status;
static const char *bound;			/* the address that is expected */
static bool is_six;
static double now;
static double read_seconds, send_seconds;	/* each call of these takes so long */
static size_t piece;				/* no call does more at once */

int clock_gettime(clockid_t clock, struct timespec *time)
{
	EXPECT(clock, CLOCK_MONOTONIC);
	time->tv_sec = (time_t)now;
	time->tv_nsec = (long)((now - (double)time->tv_sec) * 1e9);
	return 0;
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	EXPECT(fd, listener);
	EXPECT(address == NULL && size == NULL, true);
	EXPECT(flags, SOCK_CLOEXEC);
	if (first_error) {
		errno = first_error;
		first_error = 0;
		return -1;
	}
	if (next < nr_connections)
		return connections[next++];
	errno = accept_error;
	return -1;
}

ssize_t read(int fd, void *to, size_t bytes)
{
	now += read_seconds;
	return recv(fd, to, piece && piece < bytes ? piece : bytes, 0);
}

ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
	EXPECT(flags, MSG_NOSIGNAL);
	now += send_seconds;
	return write(fd, from, piece && piece < bytes ? piece : bytes);
}

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
	char text[INET6_ADDRSTRLEN];
	const void *host = &((const struct sockaddr_in *)address)->sin_addr;

	EXPECT(address->sa_family, is_six ? AF_INET6 : AF_INET);
	EXPECT(size, is_six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	if (is_six)
		host = &((const struct sockaddr_in6 *)address)->sin6_addr;
	EXPECT_TEXT(inet_ntop(address->sa_family, host, text, sizeof(text)), bound);
	listener = fd;
	errno = bind_error;
	return bind_error ? -1 : 0;
}

int listen(int fd, int backlog)
{
	int reuse = 0;
	socklen_t size = sizeof(reuse);

	EXPECT(backlog > 0, true);
	EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	EXPECT(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &size), 0);
	EXPECT(reuse, 1);
	return 0;
}

int getsockname(int fd, struct sockaddr *address, socklen_t *size)
{
	struct sockaddr_in *in = (struct sockaddr_in *)address;

	EXPECT(fd, listener);
	EXPECT(*size, is_six ? sizeof(struct sockaddr_in6) : sizeof(*in));
	/* A port that was drawn for 0. */
	if (!in->sin_port)
		in->sin_port = htons(4321);
	return 0;
}

static int print(FILE *to, void *arg)
{
	EXPECT_TEXT(arg, "argument");
	fputs("metric 1\nmetric 2\n", to);
	nr_printed++;
	return print_status;
}

/* ---- the tests ---- */

/* What each of the clients that have sent @requests is answered. */
static int serve(const char *port, const char *const *requests, char answers[][1024])
{
	int clients[NR_CLIENTS], status;

	nr_connections = next = nr_printed = 0;
	now = 1000;
	for (; requests && requests[nr_connections]; nr_connections++) {
		const char *request = requests[nr_connections];
		int pair[2];

		EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		clients[nr_connections] = pair[0];
		connections[nr_connections] = pair[1];
		EXPECT(write(pair[0], request, strlen(request)), strlen(request));
		shutdown(pair[0], SHUT_WR);
	}
	said_begin(&out, 1);
	said_begin(&said, 2);
	status = exporter_serve(port, print, (void *)"argument");
	said_end(&said);
	said_end(&out);
	for (int i = 0; i < nr_connections; i++) {
		ssize_t nr = 0, more;

		while ((more = recv(clients[i], answers[i] + nr, 1023 - (size_t)nr,
				    MSG_DONTWAIT)) > 0)
			nr += more;
		/* It was closed behind the answer, with what was not read. */
		EXPECT(more == 0 || errno == ECONNRESET, true);
		answers[i][nr] = '\0';
		close(clients[i]);
	}
	return status;
}

#define HEAD(status, length) \
	"HTTP/1.1 " status "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n" \
	"Content-Length: " length "\r\nConnection: close\r\n\r\n"
#define METRICS	  HEAD("200 OK", "18") "metric 1\nmetric 2\n"
#define NOT_FOUND HEAD("404 Not Found", "9") "/metrics\n"
#define WRONG	  HEAD("405 Method Not Allowed", "0")

static void begin(void)
{
	accept_error = EBADF;
	first_error = bind_error = print_status = 0;
	read_seconds = send_seconds = 0;
	piece = 0;
	bound = "127.0.0.1";
	is_six = false;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
}

static void test_requests(void)
{
	static const char *const requests[] = {
		"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /metrics?a=b HTTP/1.0\r\n\r\n",
		"GET /metricsx HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
		"POST /metrics HTTP/1.1\r\n\r\n", "GET /metrics HTTP/1.1\r\n",
		"get /metrics HTTP/1.1\r\n\r\n", "", NULL
	}, *const expected[] = { METRICS, METRICS, NOT_FOUND, NOT_FOUND, WRONG, "", WRONG, "" };
	char answers[NR_CLIENTS][1024];

	begin();
	for (size_t bytes = 0; bytes < 3; bytes++) {
		piece = bytes;
		EXPECT(serve("9782", requests, answers), STATUS_FAILED);
		for (int i = 0; i < NR_CLIENTS; i++)
			EXPECT_TEXT(answers[i], expected[i]);
		EXPECT(nr_printed, 2);
		EXPECT_TEXT(out.text, "listening on 127.0.0.1:9782\n");
		EXPECT_TEXT(said.text, "slub: exporter: cannot accept a connection: "
			    "Bad file descriptor\n");
		close(listener);
	}
	print_status = 5;
	EXPECT(serve("9782", requests, answers), STATUS_FAILED);
	EXPECT_TEXT(answers[0], HEAD("503 Service Unavailable", "0"));
	EXPECT_TEXT(answers[2], NOT_FOUND);
	close(listener);
}

/* 8192 bytes are the most, and five seconds. */
static void test_bounds(void)
{
	static char longest[8193], longer[8194];
	const char *const requests[] = { longest, longer, NULL },
		*const one[] = { "GET /metrics HTTP/1.1\r\n\r\n", NULL };
	char answers[NR_CLIENTS][1024];

	begin();
	memset(longest, 'x', 8192);
	memcpy(longest, "GET /metrics ", 13);
	memcpy(longer, longest, 8192);
	memcpy(longest + 8188, "\r\n\r\n", 4);
	memcpy(longer + 8188, "x\r\n\r\n", 5);
	EXPECT(serve("9782", requests, answers), STATUS_FAILED);
	EXPECT_TEXT(answers[0], METRICS);
	EXPECT_TEXT(answers[1], "");
	close(listener);
	/* 25 bytes in pieces of 5: the fifth comes in time, or not. */
	piece = 5;
	read_seconds = 1.2;
	EXPECT(serve("9782", one, answers), STATUS_FAILED);
	EXPECT_TEXT(answers[0], METRICS);
	close(listener);
	read_seconds = 1.25;
	EXPECT(serve("9782", one, answers), STATUS_FAILED);
	EXPECT_TEXT(answers[0], "");
	close(listener);
	read_seconds = 0;
	send_seconds = 1.25;
	piece = 20;
	EXPECT(serve("9782", one, answers), STATUS_FAILED);
	/* Four pieces of the head, and of the body, which is shorter, all. */
	EXPECT(strlen(answers[0]), 4 * 20 + 18);
	EXPECT(strncmp(answers[0], METRICS, 80), 0);
	close(listener);
}

static void test_patience(void)
{
	const char *const one[] = { "GET /metrics HTTP/1.1\r\n\r\n", NULL };
	char answers[NR_CLIENTS][1024];
	static const int passing[] = { EINTR, ECONNABORTED };

	begin();
	for (int i = 0; i < 2; i++) {
		first_error = passing[i];
		EXPECT(serve("9782", one, answers), STATUS_FAILED);
		EXPECT_TEXT(answers[0], METRICS);
		close(listener);
	}
	first_error = EPERM;
	EXPECT(serve("9782", NULL, answers), STATUS_FAILED);
	EXPECT_TEXT(said.text, "slub: exporter: cannot accept a connection: "
		    "Operation not permitted\n");
	close(listener);
}

static void test_ports(void)
{
	static const char *const wrong[] = { "-1", "65536", "x", "80x", " " };
	char answers[NR_CLIENTS][1024], expected[256];
	int first = nr_open_fds();

	begin();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EXPECT(serve(wrong[i], NULL, answers), STATUS_USAGE);
		snprintf(expected, sizeof(expected),
			 "slub: exporter: --listen=%s: not a port from 0 (any) to 65535\n",
			 wrong[i]);
		EXPECT_TEXT(said.text, expected);
		EXPECT_TEXT(out.text, "");
	}
	EXPECT(serve("0", NULL, answers), STATUS_FAILED);
	EXPECT_TEXT(out.text, "listening on 127.0.0.1:4321\n");
	close(listener);
	EXPECT(serve("65535", NULL, answers), STATUS_FAILED);
	EXPECT_TEXT(out.text, "listening on 127.0.0.1:65535\n");
	close(listener);
	bind_error = EACCES;
	EXPECT(serve("9782", NULL, answers), STATUS_USAGE);
	EXPECT_TEXT(out.text, "");
	EXPECT_TEXT(said.text,
		    "slub: exporter: cannot listen on 127.0.0.1:9782: Permission denied\n");
	EXPECT(nr_open_fds(), first);
}

static void test_addresses(void)
{
	static const struct {
		const char *text, *bound, *shown;
	} good[] = {
		{ "127.0.0.1:9782", "127.0.0.1", "127.0.0.1:9782" },
		{ "10.1.2.3:0", "10.1.2.3", "10.1.2.3:4321" },
		{ ":9782", "0.0.0.0", "0.0.0.0:9782" },
		{ "0.0.0.0:65535", "0.0.0.0", "0.0.0.0:65535" },
		{ "[::1]:9782", "::1", "[::1]:9782" },
		{ "[::]:0", "::", "[::]:4321" },
	};
	static const char *const wrong[] = {
		"localhost:9782", "1.2.3:9782", "[::1:9782", "[]:9782",
		"1.2.3.4.5.6.7.8.9.1.2.3.4.5.6.7.8.9.1.2.3.4.5.6.7.8.9:1",
	}, *const ports[] = { "1.2.3.4:", "[::1]", "1.2.3.4:65536", ":x" };
	char answers[NR_CLIENTS][1024], expected[256];

	begin();
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		bound = good[i].bound;
		is_six = strchr(bound, ':');
		EXPECT(serve(good[i].text, NULL, answers), STATUS_FAILED);
		snprintf(expected, sizeof(expected), "listening on %s\n", good[i].shown);
		EXPECT_TEXT(out.text, expected);
		close(listener);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EXPECT(serve(wrong[i], NULL, answers), STATUS_USAGE);
		EXPECT(strstr(said.text, "is no address") != NULL, true);
	}
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		EXPECT(serve(ports[i], NULL, answers), STATUS_USAGE);
		EXPECT(strstr(said.text, "not a port from 0") != NULL, true);
	}
}

/* One that was handed over is the third descriptor, where no port is named. */
static void test_handed_over(void)
{
	static const char none[] =
		"slub: exporter: --listen needs a port, as --listen=9782: no socket was handed "
		"over (LISTEN_FDS)\n";
	char answers[NR_CLIENTS][1024], pid[32];

	begin();
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	EXPECT(serve("", NULL, answers), STATUS_USAGE);
	EXPECT_TEXT(said.text, none);
	setenv("LISTEN_PID", pid, 1);
	EXPECT(serve("", NULL, answers), STATUS_USAGE);
	EXPECT_TEXT(said.text, none);
	setenv("LISTEN_FDS", "2", 1);
	EXPECT(serve("", NULL, answers), STATUS_USAGE);
	setenv("LISTEN_FDS", "1", 1);
	listener = 3;
	EXPECT(serve("", NULL, answers), STATUS_FAILED);
	EXPECT_TEXT(out.text, "");
	EXPECT(serve("9782", NULL, answers), STATUS_FAILED);
	EXPECT_TEXT(out.text, "listening on 127.0.0.1:9782\n");
	close(listener);
	snprintf(pid, sizeof(pid), "%d", (int)getpid() + 1);
	setenv("LISTEN_PID", pid, 1);
	EXPECT(serve("", NULL, answers), STATUS_USAGE);
	unsetenv("LISTEN_PID");
	EXPECT(serve("", NULL, answers), STATUS_USAGE);
	EXPECT_TEXT(said.text, none);
}

static void test_all(void)
{
	test_requests();
	test_bounds();
	test_patience();
	test_ports();
	test_addresses();
	test_handed_over();
}

int main(int argc, char **argv)
{
	(void)argc;
	keep_no_chunks(argv);
	do_twice(test_all);
	return failures != 0;
}
