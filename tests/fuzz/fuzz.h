/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share: a reader that turns the bytes of an input into numbers, and
 * the end of a run that broke a promise.
 */
#ifndef SLUB_TESTS_FUZZ_H
#define SLUB_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
	const uint8_t *at;
	size_t left;
};

/* Past the end all is zero. */
static inline uint8_t take_byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static inline uint64_t take_number(struct input *in, unsigned int bytes)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < bytes; i++)
		n |= (uint64_t)take_byte(in) << 8 * i;
	return n;
}

/* Below @bound, which is at most 256. */
static inline unsigned int take_below(struct input *in, unsigned int bound)
{
	return take_byte(in) % bound;
}

/* libFuzzer keeps the input that led here. */
#define broken(...) do {						\
	fprintf(stderr, "broken promise at %s:%d: ", __FILE__, __LINE__); \
	fprintf(stderr, __VA_ARGS__);					\
	fputc('\n', stderr);						\
	abort();							\
} while (0)

#define expect(condition)						\
	((condition) ? (void)0 :					\
	 (fprintf(stderr, "broken promise at %s:%d: %s\n", __FILE__,	\
		  __LINE__, #condition), abort()))

#endif
