/* SPDX-License-Identifier: MIT */
/* What an attacker knows of the words that allocators put into free blocks: attack.h. */
#include "attack.h"

#include <string.h>

uintptr_t glibc_link(uintptr_t at, uintptr_t target)
{
	return target ^ at >> 12;
}

uintptr_t glibc_link_at(uintptr_t word, uintptr_t distance)
{
	uintptr_t at = 0;

	/* The highest 12 bits are as they are; each turn gets 12 more. */
	for (int i = 0; i < 6; i++)
		at = (word ^ at >> 12) - distance;
	return at;
}

uintptr_t plain_link(const void *at, const void *target)
{
	return dialect == GLIBC ? glibc_link((uintptr_t)at, (uintptr_t)target) :
				  (uintptr_t)target;
}

/* ---- libslub ---- */

enum second_word second_word_study(size_t size)
{
	uintptr_t firsts[2], seconds[2];
	char *some[3];

	for (int i = 0; i < 3; i++)
		some[i] = object_alloc(size);
	for (int i = 0; i < 3; i++)
		object_free(some[i]);
	for (int i = 0; i < 2; i++) {
		firsts[i] = word_at(some[i + 1]);
		seconds[i] = word_at(some[i + 1] + sizeof(uintptr_t));
	}
	if (seconds[0] == seconds[1])
		return SECOND_SAME;
	if ((seconds[0] ^ firsts[0] ^ (uintptr_t)some[1]) ==
	    (seconds[1] ^ firsts[1] ^ (uintptr_t)some[2]))
		return SECOND_XOR;
	return SECOND_UNKNOWN;
}

uintptr_t second_word_key(enum second_word way, uintptr_t at,
			  uintptr_t first, uintptr_t second)
{
	return way == SECOND_XOR ? second ^ first ^ at : second;
}

uintptr_t second_word_make(enum second_word way, uintptr_t key, uintptr_t at,
			   uintptr_t first)
{
	return way == SECOND_XOR ? key ^ first ^ at : key;
}

/* ---- the hardened build: src/core/arch/slot.h, src/features/hardened/tail.h ---- */

#define ENCODE_BY UINT64_C(0xf1de83e19937733d)
#define DECODE_BY UINT64_C(0x9e3779b97f4a7c15)
#define FREE_BIT (UINT64_C(1) << 61 >> 16)

static uint64_t swapped(const void *address)
{
	return __builtin_bswap64((uintptr_t)address);
}

uint64_t hardened_link_secret(uint64_t word, const void *at, const void *next)
{
	return word * DECODE_BY ^ (uintptr_t)next ^ swapped(at);
}

uint64_t hardened_link(uint64_t secret, const void *at, const void *next)
{
	return ((uintptr_t)next ^ secret ^ swapped(at)) * ENCODE_BY;
}

uint64_t hardened_tail_secret(uint64_t tail, const void *block, size_t size)
{
	return tail ^ (uint64_t)size << 48 ^ swapped(block);
}

uint64_t hardened_tail(uint64_t secret, const void *block, size_t size)
{
	return secret ^ (uint64_t)size << 48 ^ swapped(block);
}

void hardened_fake(char *at, size_t slot_bytes, uint64_t link_secret,
		   uint64_t tail_secret)
{
	memset(at, 0, slot_bytes < HARDENED_ZEROS ? slot_bytes : HARDENED_ZEROS);
	word_write(at, hardened_link(link_secret, at, NULL));
	word_write(at + slot_bytes - sizeof(uint64_t),
		   tail_secret ^ swapped(at) ^ FREE_BIT);
}
