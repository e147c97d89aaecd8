/* SPDX-License-Identifier: MIT */
/*
 * What a charge and its return cost, beside malloc and free: in one group, in many at random, in
 * a deep tree, and at the maximum.
 *
 * Usage: reclaim_charge [rounds]
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define TIMES 2000000
#define MANY 10000

static struct slub_group *groups[MANY];
static uint32_t owners[MANY];

static double ns_since(uint64_t start)
{
	return (double)(now_ns() - start) / TIMES;
}

static double pair_malloc(void)
{
	uint64_t start = now_ns();

	for (int i = 0; i < TIMES; i++) {
		void *block = malloc(64);

		__asm__ __volatile__("" : "+r"(block) : : "memory");
		free(block);
	}
	return ns_since(start);
}

static double pair_charge(uint32_t owner)
{
	uint64_t start = now_ns();

	for (int i = 0; i < TIMES; i++) {
		group_charge(owner, 64);
		group_uncharge(owner, 64);
	}
	return ns_since(start);
}

static double pair_random(void)
{
	uint64_t start = now_ns();
	uint32_t x = 1;

	for (int i = 0; i < TIMES; i++) {
		uint32_t owner;

		x = x * 1664525u + 1013904223u;
		owner = owners[(x >> 8) % MANY];
		group_charge(owner, 64);
		group_uncharge(owner, 64);
	}
	return ns_since(start);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	double plain[ROUNDS_MAX], one[ROUNDS_MAX], deep[ROUNDS_MAX], many[ROUNDS_MAX];
	struct slub_group *bottom = NULL;

	rounds = rounds < 1 || rounds > ROUNDS_MAX ? 5 : rounds;
	for (int i = 0; i < MANY; i++) {
		groups[i] = slub_group_create("g", NULL);
		owners[i] = group_owner_number(groups[i]);
	}
	for (int i = 0; i < 8; i++)
		bottom = slub_group_create("deep", bottom);
	for (int i = 0; i < rounds; i++) {
		plain[i] = pair_malloc();
		one[i] = pair_charge(owners[0]);
		deep[i] = pair_charge(group_owner_number(bottom));
		many[i] = pair_random();
	}
	printf("charge + uncharge, ratio to malloc(64) + free: one group %.2f, eight deep %.2f, "
	       "10,000 at random %.2f\n", median(one, rounds) / median(plain, rounds),
	       median(deep, rounds) / median(plain, rounds),
	       median(many, rounds) / median(plain, rounds));
	return 0;
}
