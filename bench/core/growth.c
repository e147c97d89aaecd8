/* SPDX-License-Identifier: MIT */
/*
 * Vectors that grow by realloc: eight at a time take elements of 8 bytes in turn until each holds
 * 1 MiB. "double": room doubles when it runs out; "half": it grows by a half (both ns per element
 * appended); "line": a text grown by 64 bytes each time up to 64 KiB (ns per realloc).
 */
#include "bench.h"

enum { VECTORS = 8, ELEMENTS = (1 << 20) / 8, LINE = 64, TEXT = 64 << 10 };

struct vector {
	uint64_t *element;
	size_t count, room;
};

static size_t doubled(size_t room)
{
	return room ? room * 2 : 4;
}

static size_t grown_by_half(size_t room)
{
	return room ? room + room / 2 : 4;
}

static void append(struct vector *vector, uint64_t element, size_t (*more)(size_t))
{
	if (vector->count == vector->room) {
		vector->room = more(vector->room);
		vector->element = realloc(vector->element, vector->room * sizeof(element));
		if (!vector->element)
			bench_fatal("realloc failed");
	}
	vector->element[vector->count++] = element;
}

static double vectors(size_t (*more)(size_t))
{
	struct vector vector[VECTORS] = { 0 };
	double began = bench_seconds();

	for (size_t i = 0; i < ELEMENTS; i++)
		for (int v = 0; v < VECTORS; v++)
			append(&vector[v], i, more);
	for (int v = 0; v < VECTORS; v++)
		free(vector[v].element);
	return (bench_seconds() - began) * 1e9 / ((double)ELEMENTS * VECTORS);
}

static double doubling(void)
{
	return vectors(doubled);
}

static double halving(void)
{
	return vectors(grown_by_half);
}

static double lines(void)
{
	double began = bench_seconds();
	const int texts = 64;

	for (int i = 0; i < texts; i++) {
		char *text = NULL;

		for (size_t length = LINE; length <= TEXT; length += LINE) {
			text = realloc(text, length);
			if (!text)
				bench_fatal("realloc failed");
			memset(text + length - LINE, 1, LINE);
		}
		free(text);
	}
	return (bench_seconds() - began) * 1e9 / ((double)texts * TEXT / LINE);
}

static void measure(const char *name, double (*test)(void), int repeats)
{
	struct bench_samples samples = { 0 };

	test();
	for (int i = 0; i < repeats; i++)
		bench_sample(&samples, test());
	bench_row("ns", bench_median(&samples), "%s", name);
}

int main(int argc, char **argv)
{
	int repeats;

	bench_begin("growth", argc, argv);
	repeats = (int)bench_number("repeats", 15);
	bench_options_done();
	measure("double", doubling, repeats);
	measure("half", halving, repeats);
	measure("line", lines, repeats);
	return bench_end();
}
