/* SPDX-License-Identifier: MIT */
/*
 * Imitates programs that build something whole and then drop it whole: a query's result, a
 * compiler's tree, a level of a game. --batch objects of 16 to 512 bytes are allocated, then all
 * freed in the --order of allocation, in reverse, or at random. One operation: one object.
 * With --keep=N the first object of each N stays for the whole run; --size=BYTES takes all
 * objects of one size.
 */
#include "workload.h"

static const char *const orders[] = { "allocation", "reverse", "random" };

static void put_in_order(uint32_t *order, long batch, int kind)
{
	struct bench_random random = workload_random(7);

	for (long i = 0; i < batch; i++)
		order[i] = (uint32_t)(kind == 1 ? batch - 1 - i : i);
	for (long i = batch - 1; kind == 2 && i > 0; i--) {
		size_t other = bench_between(&random, 0, (size_t)i);
		uint32_t moved = order[i];

		order[i] = order[other];
		order[other] = moved;
	}
}

int main(int argc, char **argv)
{
	struct bench_random random = workload_random(0);
	long batch, rounds, keep, size;
	uint32_t *order;
	void **object;
	int kind;

	workload_begin("batch", argc, argv);
	kind = workload_choice("order", orders, 3);
	batch = workload_long("batch", 100000, 1, 100000000);
	rounds = workload_long("rounds", 30, 1, 1000000);
	keep = workload_long("keep", 0, 0, 100000000);
	size = workload_long("size", 0, 0, 1 << 20);
	bench_options_done();

	object = bench_map((size_t)batch * sizeof(*object));
	order = bench_map((size_t)batch * sizeof(*order));
	put_in_order(order, batch, kind);
	workload_start();
	for (long round = 0; round < rounds; round++) {
		for (long i = 0; i < batch; i++)
			if (!object[i])
				object[i] = workload_object(size ? (size_t)size :
							    workload_size(&random, 16, 512));
		for (long i = 0; i < batch; i++) {
			if (keep && order[i] % keep == 0)
				continue;
			free(object[order[i]]);
			object[order[i]] = NULL;
		}
	}
	workload_stop((double)(batch * rounds));
	bench_unmap(object, (size_t)batch * sizeof(*object));
	bench_unmap(order, (size_t)batch * sizeof(*order));
	return workload_finish();
}
