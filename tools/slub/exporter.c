/* SPDX-License-Identifier: MIT */
/*
 * As little of HTTP as a scrape needs: one request on each connection, one connection
 * after the other.  A slow client is dropped, so that no other waits for long.
 */
#include "exporter.h"
#include "slub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FIRST_HANDED_OVER 3
#define REQUEST_MAX 8192
#define SECONDS_MAX 5

/* ---- the socket ---- */

/* systemd's protocol, sd_listen_fds(3); -1: none. */
static int socket_handed_over(void)
{
	const char *pid = getenv("LISTEN_PID"), *nr = getenv("LISTEN_FDS");

	if (!pid || !nr || strtol(pid, NULL, 10) != (long)getpid() || strcmp(nr, "1"))
		return -1;
	return FIRST_HANDED_OVER;
}

static int socket_open(long port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd >= 0 &&
	    !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	    !bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, 16) &&
	    !getsockname(fd, (struct sockaddr *)&address, &size)) {
		printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
		fflush(stdout);
		return fd;
	}
	complain("exporter: cannot listen on 127.0.0.1:%ld: %s", port, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int find_socket(const char *text)
{
	char *end;
	long port = strtol(text, &end, 10);
	int fd = *text ? -1 : socket_handed_over();

	if (fd >= 0)
		return fd;
	if (!*text)
		complain("exporter: --listen needs a port, as --listen=9782: no socket "
			 "was handed over (LISTEN_FDS)");
	else if (*end || port < 0 || port > 65535)
		complain("exporter: --listen=%s: not a port from 0 (any) to 65535", text);
	else
		return socket_open(port);
	return -1;
}

/* ---- a connection ---- */

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* False: it did not come whole, or not in time. */
static bool read_request(int fd, char text[REQUEST_MAX + 1])
{
	double until = now_seconds() + SECONDS_MAX;
	size_t length = 0;

	do {
		ssize_t n = read(fd, text + length, REQUEST_MAX - length);

		if (n <= 0)
			return false;
		length += (size_t)n;
		text[length] = '\0';
		if (strstr(text, "\r\n\r\n"))
			return true;
	} while (length < REQUEST_MAX && now_seconds() < until);
	return false;
}

static void send_all(int fd, const char *text, size_t length)
{
	double until = now_seconds() + SECONDS_MAX;

	while (length && now_seconds() < until) {
		ssize_t n = send(fd, text, length, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		text += n;
		length -= (size_t)n;
	}
}

static void answer(int fd, const char *status, const char *body, size_t length)
{
	char head[256];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 %s\r\n"
			 "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
			 "Content-Length: %zu\r\nConnection: close\r\n\r\n", status, length);

	send_all(fd, head, (size_t)n);
	send_all(fd, body, length);
}

static void answer_metrics(int fd, int (*print)(FILE *to, void *arg), void *arg)
{
	char *text = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&text, &length);
	bool is_good = to && !print(to, arg);

	if (to && !fclose(to) && is_good)
		answer(fd, "200 OK", text, length);
	else
		answer(fd, "503 Service Unavailable", "", 0);
	free(text);
}

static bool asks_for(const char *request, const char *path)
{
	size_t length = strlen(path);

	return !strncmp(request, path, length) && strchr(" ?", request[length]);
}

static void serve_one(int fd, int (*print)(FILE *to, void *arg), void *arg)
{
	struct timeval patience = { SECONDS_MAX, 0 };
	char request[REQUEST_MAX + 1];

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!read_request(fd, request))
		return;
	if (strncmp(request, "GET ", 4))
		answer(fd, "405 Method Not Allowed", "", 0);
	else if (asks_for(request + 4, "/metrics"))
		answer_metrics(fd, print, arg);
	else
		answer(fd, "404 Not Found", "/metrics\n", 9);
}

int exporter_serve(const char *port, int (*print)(FILE *to, void *arg), void *arg)
{
	int fd = find_socket(port);

	if (fd < 0)
		return STATUS_USAGE;
	for (;;) {
		int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (connection >= 0) {
			serve_one(connection, print, arg);
			close(connection);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			complain("exporter: cannot accept a connection: %s",
				 strerror(errno));
			return STATUS_FAILED;
		}
	}
}
