/* SPDX-License-Identifier: MIT */
/* C23's names on a C library without them: only for trying the tests on another allocator. */
#include <stddef.h>
#include <stdlib.h>

void free_sized(void *block, size_t bytes);
void free_aligned_sized(void *block, size_t alignment, size_t bytes);

void free_sized(void *block, size_t bytes)
{
	(void)bytes;
	free(block);
}

void free_aligned_sized(void *block, size_t alignment, size_t bytes)
{
	(void)alignment;
	(void)bytes;
	free(block);
}
