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

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	};
	socklen_t size;
};

static void complain_of_port(const char *text)
{
	complain("exporter: --listen=%s: not a port from 0 (any) to 65535", text);
}

/* False: what stands before the port is no address. */
static bool set_host(struct address *address, const char *host, long port)
{
	*address = (struct address){ .size = sizeof(address->six) };
	address->six.sin6_family = AF_INET6;
	address->six.sin6_port = htons((uint16_t)port);
	if (inet_pton(AF_INET6, host, &address->six.sin6_addr) == 1)
		return true;
	*address = (struct address){ .size = sizeof(address->four) };
	address->four.sin_family = AF_INET;
	address->four.sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &address->four.sin_addr) == 1;
}

/* "9782", "0.0.0.0:9782", ":9782" for all addresses, or "[::1]:9782"; false after a message. */
static bool parse_address(struct address *address, const char *text)
{
	const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
	size_t length = colon ? (size_t)(colon - text) : 0;
	bool has_host = length;
	char host[INET6_ADDRSTRLEN], *end;
	long port = strtol(digits, &end, 10);

	if (!*digits || *end || port < 0 || port > 65535) {
		complain_of_port(text);
		return false;
	}
	if (length > 1 && *text == '[' && text[length - 1] == ']') {
		text++;
		length -= 2;
	}
	snprintf(host, sizeof(host), "%.*s", (int)length, text);
	if (!has_host)
		strcpy(host, colon ? "0.0.0.0" : "127.0.0.1");
	if (length < sizeof(host) && set_host(address, host, port))
		return true;
	complain("exporter: --listen: '%.*s' is no address, such as 127.0.0.1 or [::1]; a name is "
		 "none", (int)length, text);
	return false;
}

static char *address_text(const struct address *address)
{
	bool is_six = address->any.sa_family == AF_INET6;
	char host[INET6_ADDRSTRLEN] = "";

	if (is_six)
		inet_ntop(AF_INET6, &address->six.sin6_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET, &address->four.sin_addr, host, sizeof(host));
	return text_of(is_six ? "[%s]:%u" : "%s:%u", host,
		       ntohs(is_six ? address->six.sin6_port : address->four.sin_port));
}

static int socket_open(struct address *address)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, error;
	char *text;

	if (fd >= 0 &&
	    !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	    !bind(fd, &address->any, address->size) && !listen(fd, 16) &&
	    !getsockname(fd, &address->any, &address->size)) {
		text = address_text(address);
		printf("listening on %s\n", text);
		fflush(stdout);
		free(text);
		return fd;
	}
	error = errno;
	text = address_text(address);
	complain("exporter: cannot listen on %s: %s", text, strerror(error));
	free(text);
	if (fd >= 0)
		close(fd);
	return -1;
}

static int find_socket(const char *text)
{
	int fd = *text ? -1 : socket_handed_over();
	struct address address;

	if (fd >= 0)
		return fd;
	if (!*text) {
		complain("exporter: --listen needs a port, as --listen=9782: no socket "
			 "was handed over (LISTEN_FDS)");
		return -1;
	}
	return parse_address(&address, text) ? socket_open(&address) : -1;
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
	FILE *to = must_have(open_memstream(&text, &length));
	bool is_good = !print(to, arg);

	if (!fclose(to) && is_good)
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

int exporter_serve(const char *address, int (*print)(FILE *to, void *arg), void *arg)
{
	int fd = find_socket(address);

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
