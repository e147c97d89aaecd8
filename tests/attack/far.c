/* SPDX-License-Identifier: MIT */
/*
 * A write far behind a small block, in a program with little on its heap: the attacker has won if
 * it goes through, for what lies there is not the block's.
 */
#include "attack.h"

#define FAR ((size_t)1 << 20)

/* One byte, 1 MiB behind: an index that is not checked. */
static bool jump(size_t size)
{
	history(size);
	bytes_write(block_get(size) + size + FAR, "A", 1);
	return true;
}

/* 1 MiB, byte by byte. */
static bool run(size_t size)
{
	volatile char *block;

	history(size);
	block = block_get(size);
	for (size_t i = 0; i < FAR; i += 64)
		block[size + i] = 'A';
	return true;
}

/* The same with 3 MiB of other blocks behind. */
static bool run_over(size_t size)
{
	volatile char *block;

	history(size);
	block = block_get(size);
	for (int i = 0; i < 3000; i++)
		block_get(1000);
	for (size_t i = 0; i < FAR; i += 64)
		block[size + i] = 'A';
	return true;
}

const struct attack attacks[] = {
	{ "jump", jump, { 8, 4096 }, { 64, 1000, 20000 }, NULL },
	{ "run", run, { 64 }, { 8, 1000, 4096, 20000 }, NULL },
	{ "run-over", run_over, { 64 }, { 8, 1000, 4096 }, NULL },
	{ .name = NULL },
};
