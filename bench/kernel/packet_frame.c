/* SPDX-License-Identifier: MIT */
/* The bytes of the packets: a frame, the rule, the route. */
#include "packet.h"

enum { ETHERNET = 14, TTL = 8, CHECKSUM = 10, SOURCE = 12, DESTINATION = 16 };

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put32(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 24);
	p[1] = (uint8_t)(value >> 16);
	p[2] = (uint8_t)(value >> 8);
	p[3] = (uint8_t)value;
}

void packet_frame(uint8_t *frame, uint32_t destination)
{
	uint8_t *ip = frame + ETHERNET;

	memset(frame, 0, FRAME_BYTES);
	frame[12] = 0x08;		/* IPv4 */
	ip[0] = 0x45;
	ip[3] = FRAME_BYTES - ETHERNET;
	ip[TTL] = 64;
	ip[9] = 17;			/* UDP */
	put32(ip + SOURCE, 0xc0a84201);
	put32(ip + DESTINATION, destination);
}

bool packet_is_dropped(const struct skb *skb)
{
	const uint8_t *ip = (const uint8_t *)skb->head + skb->offset + ETHERNET;

	return (get32(ip + DESTINATION) & 0xfffe0000) == 0xc6120000;
}

bool packet_forward(struct skb *skb)
{
	/* The addresses of the next hop and of the card it is reached by. */
	static const uint8_t neighbour[12] = { 0, 0, 0xba, 0xd0, 0xba, 0xd0,
					       0x90, 0xe2, 0xba, 0x0a, 0x56, 0xb4 };
	uint8_t *frame = (uint8_t *)skb->head + skb->offset, *ip = frame + ETHERNET;
	uint32_t sum;

	if (!packet_is_dropped(skb) || ip[TTL] <= 1)
		return false;
	ip[TTL]--;
	sum = ((uint32_t)ip[CHECKSUM] << 8 | ip[CHECKSUM + 1]) + 0x100;
	sum += sum >> 16;
	ip[CHECKSUM] = (uint8_t)(sum >> 8);
	ip[CHECKSUM + 1] = (uint8_t)sum;
	memcpy(frame, neighbour, sizeof(neighbour));
	skb->device = 5;
	return true;
}
