/* SPDX-License-Identifier: MIT */
/*
 * Imitates memcached: a hash table behind TCP, with a thread per connection. The clients are a
 * process of their own, on real connections to 127.0.0.1, each with 16 requests under way: half
 * of them gets, three in eight sets of 16 to 2,048 bytes, the rest deletes. Each value says which
 * key it is of, and the clients check that. One operation: one request answered.
 *
 * The clients allocate nothing; memory figures are the server's alone.
 */
#define _GNU_SOURCE
#include "workload.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BUCKETS = 1 << 14, STRIPES = 64, KEYS = 40000, UNDER_WAY = 16,
	VALUE_MAX = 2048, CONNECTIONS_MAX = 64,
};
enum { GET, SET, DELETE };

struct request {
	uint32_t what, key, length;	/* length: of the value that follows, for SET */
};

struct entry {
	struct entry *next;
	uint32_t key, length;
	char *value;
};

static struct entry *bucket[BUCKETS];
static pthread_mutex_t stripe[STRIPES];
static long connections, requests_each;
static int listener;

static void read_all(int socket, void *to, size_t length)
{
	for (char *at = to; length;) {
		ssize_t got = recv(socket, at, length, MSG_WAITALL);

		if (got <= 0)
			bench_fatal("a connection broke");
		at += got;
		length -= (size_t)got;
	}
}

static void write_all(int socket, const void *from, size_t length)
{
	for (const char *at = from; length;) {
		ssize_t put = send(socket, at, length, MSG_NOSIGNAL);

		if (put <= 0)
			bench_fatal("a connection broke");
		at += put;
		length -= (size_t)put;
	}
}

/* --- the server --- */

static struct entry **find(uint32_t key)
{
	struct entry **at = &bucket[key * 2654435761u % BUCKETS];

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static void set(struct entry **at, uint32_t key, char *value, uint32_t length)
{
	if (*at) {
		free((*at)->value);
	} else {
		*at = bench_malloc(sizeof(**at));
		(*at)->next = NULL;
		(*at)->key = key;
	}
	(*at)->value = value;
	(*at)->length = length;
}

static void drop(struct entry **at)
{
	struct entry *gone = *at;

	*at = gone->next;
	free(gone->value);
	free(gone);
}

/* The answer: a length, then the value; appended to `out`. */
static size_t answer(const struct request *request, char *value, char *out)
{
	pthread_mutex_t *lock = &stripe[request->key * 2654435761u % BUCKETS % STRIPES];
	uint32_t length = 0;
	struct entry **at;

	pthread_mutex_lock(lock);
	at = find(request->key);
	if (request->what == SET) {
		set(at, request->key, value, request->length);
	} else if (*at && request->what == DELETE) {
		drop(at);
	} else if (*at) {
		length = (*at)->length;
		memcpy(out + sizeof(length), (*at)->value, length);
	}
	pthread_mutex_unlock(lock);
	memcpy(out, &length, sizeof(length));
	return sizeof(length) + length;
}

static void serve(int index)
{
	int socket = accept(listener, NULL, NULL), yes = 1;
	size_t room = UNDER_WAY * (VALUE_MAX + sizeof(uint32_t));
	char *out = bench_map(room);

	(void)index;
	if (socket < 0)
		bench_fatal("accept failed");
	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	for (long done = 0; done < requests_each; done += UNDER_WAY) {
		struct request request[UNDER_WAY];
		size_t length = 0;

		read_all(socket, request, sizeof(request));
		for (int i = 0; i < UNDER_WAY; i++) {
			char *value = NULL;

			if (request[i].what == SET) {
				value = bench_malloc(request[i].length);
				read_all(socket, value, request[i].length);
			}
			length += answer(&request[i], value, out + length);
		}
		write_all(socket, out, length);
	}
	close(socket);
	bench_unmap(out, room);
}

static void empty(void)
{
	for (int i = 0; i < BUCKETS; i++)
		while (bucket[i])
			drop(&bucket[i]);
}

/* --- the clients, in their own process --- */

static size_t compose(struct bench_random *random, char *out, struct request *request)
{
	char *values = out + UNDER_WAY * sizeof(*request);

	for (int i = 0; i < UNDER_WAY; i++) {
		uint32_t dice = bench_random(random) % 8;

		request[i].what = dice < 4 ? GET : dice < 7 ? SET : DELETE;
		request[i].key = bench_random(random) % KEYS;
		request[i].length = 0;
		if (request[i].what != SET)
			continue;
		request[i].length = (uint32_t)workload_size(random, 16, VALUE_MAX);
		memset(values, (int)(request[i].key & 0xff), request[i].length);
		values += request[i].length;
	}
	memcpy(out, request, UNDER_WAY * sizeof(*request));
	return (size_t)(values - out);
}

static void check(int socket, const struct request *request)
{
	unsigned char value[VALUE_MAX];
	uint32_t length;

	read_all(socket, &length, sizeof(length));
	if (length > VALUE_MAX || (length && request->what != GET))
		bench_fatal("an answer of %u bytes to request %u", length, request->what);
	read_all(socket, value, length);
	for (uint32_t at = 0; at < length; at += 15)
		if (value[at] != (request->key & 0xff))
			bench_fatal("the value of key %u is another key's", request->key);
}

static struct sockaddr_in address;

static void ask(int index)
{
	static char out[CONNECTIONS_MAX][UNDER_WAY * (VALUE_MAX + sizeof(struct request))];
	struct bench_random random = workload_random(index);
	int socket_ = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

	if (connect(socket_, (struct sockaddr *)&address, sizeof(address)))
		bench_fatal("127.0.0.1 does not answer");
	setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	for (long done = 0; done < requests_each; done += UNDER_WAY) {
		struct request request[UNDER_WAY];
		size_t length = compose(&random, out[index], request);

		write_all(socket_, out[index], length);
		for (int i = 0; i < UNDER_WAY; i++)
			check(socket_, &request[i]);
	}
	close(socket_);
}

static void listen_somewhere(void)
{
	socklen_t length = sizeof(address);

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener, CONNECTIONS_MAX) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		bench_fatal("no TCP port on 127.0.0.1 can be had");
}

int main(int argc, char **argv)
{
	int status;
	pid_t clients;

	workload_begin("table", argc, argv);
	connections = workload_long("connections", 4, 1, CONNECTIONS_MAX);
	requests_each = workload_long("ops", 400000, 1, 1000000000) / connections;
	bench_options_done();
	requests_each -= requests_each % UNDER_WAY;
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&stripe[i], NULL);
	listen_somewhere();
	clients = fork();
	if (!clients) {
		workload_threads((int)connections, ask);
		_exit(0);
	}
	workload_start();
	workload_threads((int)connections, serve);
	workload_stop((double)(connections * requests_each));
	if (waitpid(clients, &status, 0) != clients || status)
		bench_fatal("a client saw a wrong answer");
	empty();
	return workload_finish();
}
