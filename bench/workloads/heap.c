/* SPDX-License-Identifier: MIT */
/*
 * Growth with the heap: from --from MiB to --to MiB in powers of four, that much is held in
 * objects of 16 to 4,096 bytes (each first byte written), then random ones are replaced. Rows
 * "cost/MIB": ns per replacement, with touching the new object; "held/MIB": resident bytes by
 * bytes held; "fill/MIB": ns per allocation while the heap grows.
 */
#include "workload.h"

enum { LOW = 16, HIGH = 4096 };

struct object {
	char *at;
	uint32_t size;
};

static size_t held;

static void take(struct object *object, struct bench_random *random)
{
	object->size = (uint32_t)workload_size(random, LOW, HIGH);
	object->at = bench_malloc(object->size);
	for (size_t at = 0; at < object->size; at += 4096)
		object->at[at] = 1;
	held += object->size;
}

static double replace(struct object *object, long count, long steps, struct bench_random *random)
{
	double began = bench_seconds();

	for (long i = 0; i < steps; i++) {
		struct object *one = &object[bench_between(random, 0, (size_t)count - 1)];

		held -= one->size;
		free(one->at);
		take(one, random);
	}
	return (bench_seconds() - began) * 1e9 / (double)steps;
}

int main(int argc, char **argv)
{
	struct bench_random random = workload_random(0);
	long from, to, steps, count = 0, room;
	struct object *object;

	bench_begin("heap", argc, argv);
	from = workload_long("from", 1, 1, 1 << 20);
	to = workload_long("to", 1024, 1, 1 << 20);
	steps = workload_long("ops", 1000000, 1, 1000000000);
	bench_options_done();
	room = (to << 20) / 300;		/* the mean size is above 600 bytes */
	object = bench_map((size_t)room * sizeof(*object));
	for (long mib = from; mib <= to; mib *= 4) {
		double began = bench_seconds();
		long before = count, own;

		while (held < (size_t)mib << 20 && count < room)
			take(&object[count++], &random);
		bench_row("ns", (bench_seconds() - began) * 1e9 / (double)(count - before),
			  "fill/%ld", mib);
		bench_row("ns", replace(object, count, steps, &random), "cost/%ld", mib);
		own = count * (long)sizeof(*object);
		bench_row("by 1", (bench_memory(0).anonymous - (double)own) / (double)held,
			  "held/%ld", mib);
	}
	return bench_end();
}
