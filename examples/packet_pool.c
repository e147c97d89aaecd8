/* SPDX-License-Identifier: MIT */
/*
 * A packet-buffer pool: one thread receives, one sends, buffers go round.
 *
 *   receive                         send
 *   burst of buffers --- ring --->  check, count, free the burst
 *      ^                                 |
 *      +---- packet cache: CPU's list, barn of full lists, slabs ----+
 *
 * Every buffer is allocated by one thread and freed by the other: the worst
 * case for caches per thread.  Here the buffers flow back in whole lists.
 *
 * Three ways to a buffer are shown:
 *   --bulk       slub_cache_alloc_bulk(), a burst at a time
 *   --queue      slub_qmempool_alloc(), one at a time, for code that was
 *                written for qmempool
 * and for what must not fail, a pool with a reserve:
 *   slub_mempool_alloc(), for the events that report a lost packet.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slub/cache.h>
#include <slub/mempool.h>
#include <slub/qmempool.h>

#define BURST 32
#define RING 1024		/* a power of two */
#define LOSS 1000		/* one packet in so many is damaged on its way */

struct packet {
	uint64_t sequence;
	uint32_t length;
	uint32_t sum;
	unsigned char data[2032];
};

/* What is told about a lost packet. */
struct event {
	uint64_t sequence;
	char text[56];
};

/* One producer, one consumer. */
struct ring {
	_Alignas(64) _Atomic uint64_t head;	/* next to be written */
	_Alignas(64) _Atomic uint64_t tail;	/* next to be read */
	_Alignas(64) struct packet *slots[RING];
};

static struct ring ring;
static struct slub_cache *packets;
static struct slub_qmempool *queue;	/* NULL: in bulk */
static struct slub_mempool *events;
static uint64_t nr_packets = 1000000;
static uint64_t nr_lost, nr_good, nr_wrong, nr_full;

static unsigned int ring_room(void)
{
	return RING - (unsigned int)(atomic_load_explicit(&ring.head,
					     memory_order_relaxed) -
				     atomic_load_explicit(&ring.tail,
					     memory_order_acquire));
}

static void ring_put(struct packet **burst, unsigned int nr)
{
	uint64_t head = atomic_load_explicit(&ring.head, memory_order_relaxed);

	for (unsigned int i = 0; i < nr; i++)
		ring.slots[(head + i) % RING] = burst[i];
	atomic_store_explicit(&ring.head, head + nr, memory_order_release);
}

static unsigned int ring_get(struct packet **burst, unsigned int max)
{
	uint64_t tail = atomic_load_explicit(&ring.tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&ring.head, memory_order_acquire);
	unsigned int nr = head - tail < max ? (unsigned int)(head - tail) : max;

	for (unsigned int i = 0; i < nr; i++)
		burst[i] = ring.slots[(tail + i) % RING];
	atomic_store_explicit(&ring.tail, tail + nr, memory_order_release);
	return nr;
}

static unsigned int burst_alloc(struct packet **burst, unsigned int nr)
{
	unsigned int i;

	if (!queue)
		return (unsigned int)slub_cache_alloc_bulk(packets, 0, nr,
							   (void **)burst);
	for (i = 0; i < nr; i++) {
		burst[i] = slub_qmempool_alloc(queue, 0);
		if (!burst[i])
			break;
	}
	return i;
}

static void burst_free(struct packet **burst, unsigned int nr)
{
	if (!queue) {
		slub_cache_free_bulk(packets, nr, (void **)burst);
		return;
	}
	for (unsigned int i = 0; i < nr; i++)
		slub_qmempool_free(queue, burst[i]);
}

static uint32_t sum_of(const struct packet *packet)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < packet->length; i++)
		sum = sum * 31 + packet->data[i];
	return sum;
}

static void packet_fill(struct packet *packet, uint64_t sequence)
{
	packet->sequence = sequence;
	packet->length = 64 + (uint32_t)(sequence * 7 % 64);
	memset(packet->data, (int)(sequence & 0xff), packet->length);
	packet->sum = sum_of(packet);
	if (sequence % LOSS == LOSS - 1)
		packet->data[5] ^= 0x40;
}

static void *receive(void *arg)
{
	struct packet *burst[BURST];
	uint64_t sequence = 0;

	while (sequence < nr_packets) {
		uint64_t left = nr_packets - sequence;
		unsigned int nr = left < BURST ? (unsigned int)left : BURST;

		if (ring_room() < nr) {
			nr_full++;
			sched_yield();
			continue;
		}
		nr = burst_alloc(burst, nr);
		if (!nr) {	/* no memory: drop, as a driver does */
			sched_yield();
			continue;
		}
		for (unsigned int i = 0; i < nr; i++)
			packet_fill(burst[i], sequence + i);
		ring_put(burst, nr);
		sequence += nr;
	}
	return arg;
}

/* Telling that a packet was lost must work when memory is short, too. */
static void packet_lost(const struct packet *packet)
{
	struct event *event = slub_mempool_alloc(events, SLUB_POOL_WAIT);

	event->sequence = packet->sequence;
	snprintf(event->text, sizeof(event->text), "packet %llu is damaged",
		 (unsigned long long)packet->sequence);
	nr_lost++;
	nr_wrong += event->sequence % LOSS != LOSS - 1;
	slub_mempool_free(events, event);
}

static void *transmit(void *arg)
{
	struct packet *burst[BURST];
	uint64_t expected = 0;

	while (expected < nr_packets) {
		unsigned int nr = ring_get(burst, BURST);

		if (!nr) {
			sched_yield();
			continue;
		}
		for (unsigned int i = 0; i < nr; i++) {
			nr_wrong += burst[i]->sequence != expected++;
			if (sum_of(burst[i]) == burst[i]->sum)
				nr_good++;
			else
				packet_lost(burst[i]);
		}
		burst_free(burst, nr);
	}
	return arg;
}

static int fail(const char *what)
{
	fprintf(stderr, "packet_pool: %s: %s\n", what, strerror(errno));
	return 1;
}

static void print_stats(void)
{
	struct slub_cache_stats stats;

	slub_cache_stats(packets, &stats);
	printf("buffers: %zu bytes each, %llu in %llu slabs\n",
	       slub_cache_stride(packets), (unsigned long long)stats.objects,
	       (unsigned long long)stats.slabs);
	printf("allocation beyond the CPU's list: %llu from its spare list, "
	       "%llu from the barn, %llu from slabs\n",
	       (unsigned long long)stats.alloc_spare,
	       (unsigned long long)stats.alloc_barn,
	       (unsigned long long)stats.alloc_refill);
	printf("free beyond the CPU's list:       %llu to its spare list, "
	       "%llu to the barn, %llu to slabs\n",
	       (unsigned long long)stats.free_spare,
	       (unsigned long long)stats.free_barn,
	       (unsigned long long)stats.free_flush);
}

static int run(void)
{
	pthread_t receiver, transmitter;

	if (pthread_create(&receiver, NULL, receive, NULL) ||
	    pthread_create(&transmitter, NULL, transmit, NULL))
		return fail("pthread_create");
	pthread_join(receiver, NULL);
	pthread_join(transmitter, NULL);

	printf("%llu packets: %llu good, %llu damaged; the ring was full %llu "
	       "times\n",
	       (unsigned long long)nr_packets, (unsigned long long)nr_good,
	       (unsigned long long)nr_lost, (unsigned long long)nr_full);
	print_stats();
	if (nr_wrong || nr_lost != nr_packets / LOSS ||
	    nr_good + nr_lost != nr_packets) {
		fprintf(stderr, "packet_pool: packets were mixed up\n");
		return 1;
	}
	return 0;
}

static uint64_t number(const char *text)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || *end || end == text || value < 1) {
		fprintf(stderr, "packet_pool: '%s' is not a number above 0\n",
			text);
		exit(2);
	}
	return (uint64_t)value;
}

/* Returns whether to go through the queued pool. */
static bool options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "packets", required_argument, NULL, 'n' },
		{ "bulk", no_argument, NULL, 'b' },
		{ "queue", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char help[] =
		"usage: packet_pool [--bulk | --queue] [--packets N]\n"
		"Sends packets from thread to thread in pooled buffers.\n"
		"  --bulk        allocate and free bursts of 32 (default)\n"
		"  --queue       allocate and free one by one, by a queued pool\n"
		"  --packets N   how many (1000000)\n";
	bool use_queue = false;
	int c;

	while ((c = getopt_long(argc, argv, "n:bqh", known, NULL)) != -1) {
		if (c == 'n')
			nr_packets = number(optarg);
		else if (c == 'b' || c == 'q')
			use_queue = c == 'q';
		else if (c == 'h')
			exit(fputs(help, stdout) < 0);
		else
			exit(2);
	}
	return use_queue;
}

int main(int argc, char **argv)
{
	bool use_queue = options(argc, argv);
	struct slub_cache_args args = {
		.name = "packet",
		.size = sizeof(struct packet),
		.align = 64,
		.sheaf_length = 128,	/* four bursts in a CPU's list */
	};
	struct slub_cache *event_cache;
	int result;

	packets = slub_cache_create_args(&args);
	event_cache = slub_cache_create("event", sizeof(struct event), 0, 0,
					NULL);
	if (!packets || !event_cache)
		return fail("slub_cache_create");
	events = slub_mempool_create_slab(4, event_cache);
	if (!events)
		return fail("slub_mempool_create_slab");
	if (use_queue) {
		queue = slub_qmempool_create(128, 2048, 1024, packets, 0);
		if (!queue)
			return fail("slub_qmempool_create");
	}

	result = run();

	/* Destroying fails while a single buffer is out: nothing leaks here. */
	if (slub_qmempool_destroy(queue) || slub_mempool_destroy(events) ||
	    slub_cache_destroy(event_cache) || slub_cache_destroy(packets)) {
		fprintf(stderr, "packet_pool: buffers were lost\n");
		return 1;
	}
	return result;
}
