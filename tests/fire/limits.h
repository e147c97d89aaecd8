/* SPDX-License-Identifier: MIT */
/* What the cases of limits.c do while something is short, beside small objects. */
#ifndef LIMITS_H
#define LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define MIB (1ul << 20)

struct object {
	void *start;
	size_t size;
	uint64_t id;
};

size_t resident_bytes(void);
/*
 * Ends the test if 16 MiB more than @before bytes are resident when all was freed: a quarantine of
 * the hardened library may hold most of that.
 */
void expect_given_back(const char *what, size_t before);
/*
 * Large blocks that grow up to @most bytes in all: the pages of some are moved, others are copied,
 * and a request that is refused leaves its block as it is.
 */
void grow(size_t most);
/*
 * Blocks of one size, @most bytes of them, each page of them written; then of the next size.  Where
 * little more than that is to be had, what was freed of one size has to make room for the next.
 */
void change_sizes(size_t most);

#endif
