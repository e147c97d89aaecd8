/* SPDX-License-Identifier: MIT */
/*
 * The kernel's network tests without a network: 64-byte packets of a flow, an sk_buff of 256 bytes
 * and a buffer of 512 for each.
 *
 *   Drop in RAW        receive, match the rule, free: on one CPU, the last in is the first out
 *   IP-forward         receive, route, queue of 512; what was sent is freed in batches of 64, as
 *                      a network card completes them: on one CPU
 *   IP-forward 2 CPUs  one CPU receives and routes, the other sends and frees
 *
 * Packets per second in --intervals of 100 ms: the last one, and the average of all, as in the
 * original; the variation is of ns per packet against the average.
 */
#include "packet.h"

enum { RING = 512, BATCH = 64 };

static double interval_seconds = 0.1;
static unsigned int intervals = 20;

/* --- a single-producer, single-consumer ring --- */

struct ring {
	_Atomic uint64_t head __attribute__((aligned(128)));
	uint64_t tail_seen;
	_Atomic uint64_t tail __attribute__((aligned(128)));
	uint64_t head_seen;
	struct skb *slot[RING] __attribute__((aligned(128)));
};

static bool ring_put(struct ring *ring, struct skb *skb)
{
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);

	if (head - ring->tail_seen == RING) {
		ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		if (head - ring->tail_seen == RING)
			return false;
	}
	ring->slot[head % RING] = skb;
	__atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
	return true;
}

static struct skb *ring_get(struct ring *ring)
{
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
	struct skb *skb;

	if (tail == ring->head_seen) {
		ring->head_seen = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
		if (tail == ring->head_seen)
			return NULL;
	}
	skb = ring->slot[tail % RING];
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
	return skb;
}

/* --- the tests --- */

struct test {
	struct packet_source source;
	uint8_t frame[FRAME_BYTES];
	struct ring ring;
	_Atomic uint64_t packets;	/* freed so far, published by whoever frees */
	_Atomic bool stop;
};

/* On top of what the CPU that frees knows, for the clock. */
static void publish(struct test *test, uint64_t packets)
{
	__atomic_store_n(&test->packets, packets, __ATOMIC_RELAXED);
}

static void drop(struct test *test)
{
	uint64_t packets = 0;

	while (!test->stop) {
		for (int i = 0; i < BATCH; i++) {
			struct skb *skb = packet_receive(&test->source, test->frame);

			if (!packet_is_dropped(skb))
				bench_fatal("the rule does not match");
			packet_free(&test->source, skb);
		}
		publish(test, packets += BATCH);
	}
}

static struct skb *receive_and_route(struct test *test)
{
	struct skb *skb = packet_receive(&test->source, test->frame);

	if (!packet_forward(skb))
		bench_fatal("there is no route");
	return skb;
}

static uint64_t complete(struct test *test, unsigned int most)
{
	struct skb *skb;
	uint64_t n = 0;

	while (n < most && (skb = ring_get(&test->ring))) {
		bench_escape(skb->head);
		packet_free(&test->source, skb);
		n++;
	}
	return n;
}

static void forward(struct test *test)
{
	uint64_t packets = 0;

	while (!test->stop) {
		for (int i = 0; i < BATCH; i++) {
			struct skb *skb = receive_and_route(test);

			while (!ring_put(&test->ring, skb))
				packets += complete(test, BATCH);
		}
		publish(test, packets);
	}
	while (complete(test, BATCH))
		;
}

static void receive(struct test *test)
{
	unsigned int spins = 0;

	while (!test->stop) {
		struct skb *skb = receive_and_route(test);

		while (!ring_put(&test->ring, skb)) {
			if (test->stop) {
				packet_free(&test->source, skb);
				return;
			}
			orig_relax(&spins);
		}
	}
}

static void send(struct test *test)
{
	uint64_t packets = 0;
	unsigned int spins = 0;

	while (!test->stop) {
		uint64_t n = complete(test, BATCH);

		if (!n)
			orig_relax(&spins);
		publish(test, packets += n);
	}
}

/* --- the clock --- */

struct load {
	struct test *test;
	void (*role[2])(struct test *);
	struct bench_samples pps;
};

/* The last thread keeps the time; the ones before it work. */
static void work(struct orig_worker *worker)
{
	struct load *load = worker->arg;
	uint64_t before, now;
	double began, ended;

	if (worker->number + 1 < worker->count) {
		load->role[worker->number](load->test);
		return;
	}
	bench_sleep(interval_seconds);		/* warm-up */
	before = load->test->packets;
	began = bench_seconds();
	for (unsigned int i = 0; i < intervals; i++) {
		bench_sleep(interval_seconds);
		now = load->test->packets;
		ended = bench_seconds();
		bench_sample(&load->pps, (double)(now - before) / (ended - began));
		before = now;
		began = ended;
	}
	load->test->stop = true;
}

static double ns_of(double pps)
{
	return 1e9 / pps;
}

static void print(const char *name, const char *row, struct bench_samples *pps)
{
	double last = pps->value[pps->count - 1], average = 0, median;

	for (int i = 0; i < pps->count; i++)
		average += pps->value[i] / pps->count;
	median = bench_median(pps);		/* sorts */
	orig_line("* %s", name);
	orig_line(" - instant rx:0 tx:%.0f pps n:%d average: rx:0 tx:%.0f pps", last, pps->count,
		  average);
	orig_line("   (instant variation TX %.3f ns (min:%.3f max:%.3f) RX 0.000 ns)",
		  ns_of(average) - ns_of(last), ns_of(average) - ns_of(pps->value[0]),
		  ns_of(average) - ns_of(pps->value[pps->count - 1]));
	orig_line("    corrected: %.0f pps, %.2f ns a packet; median of %d intervals", median,
		  ns_of(median), pps->count);
	bench_row("pps", median, "%s/pps", row);
	bench_row("ns", ns_of(median), "%s", row);
}

static void run(const char *name, const char *row, struct source heads,
		void (*first)(struct test *), void (*second)(struct test *))
{
	static struct test test;
	struct load load = { .test = &test, .role = { first, second } };
	struct orig_worker worker[3];

	memset(&test, 0, sizeof(test));
	test.source.heads = heads;
	packet_frame(test.frame, 0xc6120002);
	orig_team(second ? 3 : 2, work, &load, worker);
	while (complete(&test, RING))
		;
	print(name, row, &load.pps);
}

int main(int argc, char **argv)
{
	struct source heads;

	orig_begin("packet_" SOURCE_NAME, argc, argv);
	intervals = (unsigned int)bench_number("intervals", intervals);
	if (intervals < 1 || intervals > BENCH_SAMPLES_MAX)
		bench_fatal("--intervals is 1 to %d", BENCH_SAMPLES_MAX);
	bench_options_done();
	heads = source_create("skbuff_head", SKB_BYTES);
	orig_line("single flow, sk_buffs from " SOURCE_NAME);
	run("Drop in RAW (slab fast-path test)", "drop", heads, drop, NULL);
	run("IP-forward", "forward", heads, forward, NULL);
	if (orig_cpus > 1)
		run("IP-forward, two CPUs", "forward on 2", heads, receive, send);
	else
		orig_left_out("forwarding between two CPUs: one CPU");
	source_destroy(&heads);
	return orig_end();
}
