/* SPDX-License-Identifier: MIT */
/* What a sequence of any CPU ends with.  Not an interface by itself. */
#ifndef SLUB_INCLUDE_ARCH_END_H
#define SLUB_INCLUDE_ARCH_END_H

/*
 * What a function returns from the labels of a sequence, where it is a constant.  gcc (12.2;
 * PR 113921, mended in 11.5, 12.4, 13.3 and 14) sets a constant on the way out of the
 * statement, and then the statement's outputs over it, where both end up in one register:
 * what was returned was the object that the sequence had not taken.  So the constant is made
 * behind the label, and not known as one.
 */
static inline __attribute__((__always_inline__, __unused__))
void *slub_seq_end(void *result)
{
	__asm__ volatile("" : "+r"(result));
	return result;
}

#endif
