/* SPDX-License-Identifier: MIT */
/* An sk_buff and what a router does to the packet in it. */
#ifndef SEED_PACKET_H
#define SEED_PACKET_H

#include "source.h"

enum { SKB_BYTES = 256, DATA_BYTES = 512, FRAME_BYTES = 64, HEADROOM = 64 };

struct skb {
	struct skb *next;
	char *head;		/* the buffer: DATA_BYTES of malloc's */
	uint32_t offset, length;
	uint32_t device, mark;
	char rest[SKB_BYTES - 32];
};

_Static_assert(sizeof(struct skb) == SKB_BYTES, "an sk_buff's size");

struct packet_source {
	struct source heads;
};

/* A frame as the card wrote it: Ethernet, IPv4, UDP to @destination. */
void packet_frame(uint8_t *frame, uint32_t destination);
/* The rule of the raw table: is the packet for 198.18.0.0/15? */
bool packet_is_dropped(const struct skb *skb);
/* Routes it: looks the next hop up, counts TTL down, mends the checksum, writes the addresses. */
bool packet_forward(struct skb *skb);

/* Takes a frame off the card: a new sk_buff, a new buffer, the frame copied. */
static inline struct skb *packet_receive(const struct packet_source *source, const uint8_t *frame)
{
	struct skb *skb = source_alloc(&source->heads);
	char *data = malloc(DATA_BYTES);

	if (!skb || !data)
		bench_fatal("no memory for a packet");
	memset(skb, 0, offsetof(struct skb, rest) + 160);	/* as build_skb clears it */
	skb->head = data;
	skb->offset = HEADROOM;
	skb->length = FRAME_BYTES;
	memcpy(data + HEADROOM, frame, FRAME_BYTES);
	return skb;
}

static inline void packet_free(const struct packet_source *source, struct skb *skb)
{
	free(skb->head);
	source_free(&source->heads, skb);
}

#endif
