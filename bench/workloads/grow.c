/* SPDX-License-Identifier: MIT */
/*
 * Imitates containers that grow: --kind=vectors, forty arrays that double when full, up to 2 MiB,
 * growing in turn; --kind=strings, texts that get a line of 1 to 80 bytes at a time, each realloc
 * to the exact length, two hundred of them in turn up to 16 KiB. One operation: one realloc.
 */
#include "workload.h"

enum { VECTORS = 40, VECTOR_BYTES = 2 << 20, STRINGS = 200, STRING_BYTES = 16 << 10 };

static const char *const kinds[] = { "vectors", "strings" };

static char *grown(char *block, size_t old, size_t now)
{
	block = realloc(block, now);
	if (!block)
		bench_fatal("realloc to %zu bytes failed", now);
	memset(block + old, (int)(old & 0x7f), now - old);
	return block;
}

static void check(const char *block, size_t length)
{
	if (block[0] != 0 || !length)
		bench_fatal("realloc lost what the block held");
}

static double vectors(void)
{
	static char *vector[VECTORS];
	double operations = 0;

	for (size_t size = 64; size <= VECTOR_BYTES; size *= 2)
		for (int i = 0; i < VECTORS; i++, operations++)
			vector[i] = grown(size == 64 ? NULL : vector[i],
					  size == 64 ? 0 : size / 2, size);
	for (int i = 0; i < VECTORS; i++) {
		check(vector[i], VECTOR_BYTES);
		free(vector[i]);
	}
	return operations;
}

static double strings(void)
{
	static struct bench_random random = { 88172645463325252u };
	char *text[STRINGS] = { 0 };
	size_t length[STRINGS] = { 0 };
	double operations = 0;
	bool grew = true;

	while (grew) {
		grew = false;
		for (int i = 0; i < STRINGS; i++) {
			size_t now = length[i] + bench_between(&random, 1, 80);

			if (now > STRING_BYTES)
				continue;
			text[i] = grown(text[i], length[i], now);
			length[i] = now;
			grew = true;
			operations++;
		}
	}
	for (int i = 0; i < STRINGS; i++) {
		check(text[i], length[i]);
		free(text[i]);
	}
	return operations;
}

int main(int argc, char **argv)
{
	double operations = 0;
	long rounds;
	int kind;

	workload_begin("grow", argc, argv);
	kind = workload_choice("kind", kinds, 2);
	rounds = workload_long("rounds", 10, 1, 1000000);
	bench_options_done();
	workload_start();
	for (long i = 0; i < rounds; i++)
		operations += kind ? strings() : vectors();
	workload_stop(operations);
	return workload_finish();
}
